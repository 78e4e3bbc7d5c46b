#include "fe_conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/sm.h"
#include "fe_app.h"
#include "fe_request.h"

#define TO(next) (1U << FE_CONN_##next)

static const struct sm_state states[] = {
#define X(name, to) {#name, to},
    FE_CONN_STATES(X)
#undef X
};

static uint64_t now_of(const struct fe_conn *c)
{
    return uv_now(&c->fe->loop.uv);
}

void fe_conn_move(struct fe_conn *c, enum fe_conn_state next, const char *why)
{
    c->state = sm_move(states, "conn", c->id, c->state, (unsigned)next, why);
    c->progress_ms = now_of(c);
}

/* --- time limits
 * ------------------------------------------------------------------------------------------------
 */

/* When the present state has lasted too long; 0 = it may last. */
static uint64_t time_limit(const struct fe_conn *c)
{
    const struct cfg *cfg = c->fe->cfg;
    uint64_t end = 0;

    switch ((enum fe_conn_state)c->state) {
    case FE_CONN_IDLE:
        return c->progress_ms + cfg->idle_timeout_ms;
    case FE_CONN_HEAD:
        return c->progress_ms + cfg->head_timeout_ms;
    case FE_CONN_BODY:
        end = c->body_start_ms + cfg->request_deadline_s * 1000U;
        return c->progress_ms + cfg->body_timeout_ms < end ? c->progress_ms + cfg->body_timeout_ms
                                                           : end;
    case FE_CONN_WAIT:
    case FE_CONN_REPLY:
    case FE_CONN_FLUSH:
        if (c->seg_count > 0) {
            return c->progress_ms + cfg->write_timeout_ms;
        }
        return c->has_eof ? now_of(c) + FE_CONN_PROBE_MS : 0;
    case FE_CONN_LINGER:
        return c->progress_ms + FE_CONN_LINGER_MS;
    case FE_CONN_CLOSED:
    case FE_CONN_STATE_COUNT:
        break;
    }
    return 0;
}

static void on_timer(uv_timer_t *t);

void fe_conn_arm(struct fe_conn *c)
{
    uint64_t now = now_of(c);

    c->deadline_ms = time_limit(c);
    if (c->state == FE_CONN_CLOSED || c->deadline_ms == 0) {
        return; /* a running timer finds nothing to do and stops */
    }
    if (!uv_is_active((uv_handle_t *)&c->timer) ||
        now + uv_timer_get_due_in(&c->timer) > c->deadline_ms) {
        (void)uv_timer_start(&c->timer, on_timer, c->deadline_ms > now ? c->deadline_ms - now : 0,
                             0);
    }
}

/* The client shut its side while its request runs: a client that left looks the same as one that
 * waits for its answer. An interim response (or a comment in a stream) makes the kernel of a client
 * that left answer with a reset. */
static void probe(struct fe_conn *c)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);
    int fd = -1;

    if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0 &&
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 &&
        info.tcpi_state == TCP_CLOSE) { /* the reset came */
        fe_conn_close(c);
        return;
    }
    if (c->probes++ == 0) {
        if (c->state == FE_CONN_WAIT && fe_http_head(c->http)->minor >= 1) {
            struct fe_vec v = {"HTTP/1.1 100 Continue\r\n\r\n", 25, NULL};

            fe_conn_send(c, &v, 1);
        } else if (c->state == FE_CONN_REPLY && c->req != NULL) {
            fe_request_keep_alive(c->req);
        }
    }
    if (c->state != FE_CONN_CLOSED) {
        fe_conn_arm(c);
    }
}

static void fail_early(struct fe_conn *c, int code, const char *text)
{
    struct err e = {0};

    if (c->early.code != 0) {
        fe_conn_error(c, &c->early);
        return;
    }
    err_set(&e, code, "%s", text);
    metric_add(METRIC_FE_REJECTS, err_name(code), NULL, 1);
    fe_conn_error(c, &e);
}

static void on_timer(uv_timer_t *t)
{
    struct fe_conn *c = CONTAINER_OF(t, struct fe_conn, timer);

    if (c->state == FE_CONN_CLOSED || c->deadline_ms == 0) {
        return;
    }
    if (now_of(c) < c->deadline_ms) { /* it moved since the timer was set */
        (void)uv_timer_start(&c->timer, on_timer, c->deadline_ms - now_of(c), 0);
        return;
    }
    switch ((enum fe_conn_state)c->state) {
    case FE_CONN_HEAD:
        fail_early(c, ERR_REQUEST_TIMEOUT, "The request head was not received in time.");
        break;
    case FE_CONN_BODY:
        fail_early(c, ERR_REQUEST_TIMEOUT, "The request body was not received in time.");
        break;
    case FE_CONN_WAIT:
    case FE_CONN_REPLY:
    case FE_CONN_FLUSH:
        if (c->seg_count == 0) {
            probe(c);
            break;
        }
        metric_add(METRIC_FE_REJECTS, "write_timeout", NULL, 1);
        fe_conn_close(c);
        break;
    case FE_CONN_IDLE:
    case FE_CONN_LINGER:
    case FE_CONN_CLOSED:
    case FE_CONN_STATE_COUNT:
        fe_conn_close(c);
        break;
    }
}

/* --- end of a request and of the connection
 * ---------------------------------------------------------------------- */

static const char *status_label(int status, char dst[4])
{
    unsigned v = status > 0 && status < 1000 ? (unsigned)status : 0;

    if (v == 0) { /* nothing was answered */
        return "0";
    }
    dst[0] = (char)('0' + v / 100);
    dst[1] = (char)('0' + v / 10 % 10);
    dst[2] = (char)('0' + v % 10);
    dst[3] = '\0';
    return dst;
}

void fe_conn_end_request(struct fe_conn *c)
{
    char status[4];
    uint64_t now_us = clock_us();
    uint64_t took_us = c->ready_us != 0 ? now_us - c->ready_us : 0;
    const char *label = c->route.label != NULL ? c->route.label : "none";

    if (!c->has_rid) {
        return;
    }
    c->has_rid = false;
    fe_quota_done(c->quota);
    c->quota = NULL;
    if (c->body.n > 0) {
        c->fe->body_bytes -= c->body.n;
    }
    bytes_fini(&c->body);
    metric_add(METRIC_FE_REQUESTS, label, status_label(c->status, status), 1);
    if (c->ready_us != 0) {
        metric_observe_us(METRIC_FE_REQUEST_SECONDS, label, NULL, took_us);
        if (c->first_us != 0) {
            metric_observe_us(METRIC_FE_FIRST_BYTE_SECONDS, label, NULL, c->first_us - c->ready_us);
        }
    }
    if (c->route.what == FE_DO_HEALTH || c->route.what == FE_DO_READY ||
        c->route.what == FE_DO_ALIVE) { /* every few seconds, for ever */
        LOG(PROBE_DONE, &c->rid, KV_S("method", c->method), KV_I("status", c->status),
            KV_U("us", took_us));
        return;
    }
    LOG(REQUEST_DONE, &c->rid, KV_S("method", c->method), KV_S("route", label),
        KV_I("status", c->status), KV_U("bytes", c->bytes_out), KV_U("us", took_us),
        KV_S("key", c->key_name), KV_S("client_id", c->client_rid));
}

static void on_closed(void *ctx)
{
    struct fe_conn *c = ctx;
    struct fe *fe = c->fe;

    fe_conn_queue_fini(c);
    fe_http_free(c->http);
    bytes_fini(&c->in);
    bytes_fini(&c->out);
    bytes_fini(&c->body);
    mem_free(c);
    fe_app_check_drained(fe);
}

void fe_conn_close(struct fe_conn *c)
{
    if (c->state == FE_CONN_CLOSED) {
        return;
    }
    if (c->has_rid && c->state != FE_CONN_FLUSH) {
        c->status = c->status != 0 && c->state == FE_CONN_REPLY ? c->status : 499;
    }
    fe_conn_move(c, FE_CONN_CLOSED, "close");
    if (c->req != NULL) {
        fe_request_abandon(c->req);
    }
    fe_admin_on_conn_gone(c);
    fe_conn_end_request(c);
    if (c->server != NULL && list_link_is_in(&c->link)) {
        list_remove(&c->server->conns, &c->link);
    }
    closer_close_one(&c->closer, (uv_handle_t *)&c->tcp);
    closer_close_one(&c->closer, (uv_handle_t *)&c->timer);
    closer_finish(&c->closer);
    fe_server_on_conn_gone(c->server);
}

static void on_shutdown(uv_shutdown_t *s, int status)
{
    struct fe_conn *c = CONTAINER_OF(s, struct fe_conn, shutdown);

    if (c->state != FE_CONN_CLOSED && (status != 0 || c->has_eof)) {
        fe_conn_close(c);
    }
}

/* Shuts our side but keeps reading for a while, so that a client that is still sending sees the
 * answer and not a reset. */
void fe_conn_linger(struct fe_conn *c)
{
    fe_conn_move(c, FE_CONN_LINGER, "answer said close");
    bytes_fini(&c->in);
    fe_conn_resume_reading(c);
    if (c->state == FE_CONN_CLOSED) {
        return;
    }
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) != 0) {
        fe_conn_close(c);
        return;
    }
    fe_conn_arm(c);
}

void fe_conn_drain(struct fe_conn *c)
{
    if (c->state == FE_CONN_IDLE) {
        fe_conn_close(c);
    }
    c->must_close = true;
}

/* --- reading
 * -----------------------------------------------------------------------------------------------------
 */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct fe_conn *c = h->data;

    (void)suggested;
    *buf = uv_buf_init(c->fe->inbuf, sizeof(c->fe->inbuf));
}

static void on_eof(struct fe_conn *c)
{
    c->has_eof = true;
    (void)uv_read_stop((uv_stream_t *)&c->tcp);
    switch ((enum fe_conn_state)c->state) {
    case FE_CONN_WAIT:
    case FE_CONN_REPLY:
    case FE_CONN_FLUSH:
        fe_conn_arm(c);
        break;
    case FE_CONN_IDLE:
    case FE_CONN_HEAD: /* a part of a request is no request: no answer is invented */
    case FE_CONN_BODY:
    case FE_CONN_LINGER:
    case FE_CONN_CLOSED:
    case FE_CONN_STATE_COUNT:
        fe_conn_close(c);
        break;
    }
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct fe_conn *c = s->data;

    if (c->state == FE_CONN_CLOSED || n == 0) {
        return;
    }
    if (n == UV_EOF) {
        on_eof(c);
        return;
    }
    if (n < 0) {
        fe_conn_close(c);
        return;
    }
    fe_conn_process(c, sv_from(buf->base, (size_t)n));
    fe_conn_arm(c);
}

/* --- birth
 * -------------------------------------------------------------------------------------------------------
 */

int fe_conn_open(struct fe_conn **ret, struct fe_server *server, bool is_admin)
{
    static uint64_t next_id;
    struct fe_conn *c = mem_zalloc(sizeof(*c));

    if (c == NULL || (c->http = fe_http_new()) == NULL) {
        mem_free(c);
        return ERR_NOMEM;
    }
    c->fe = server->fe;
    c->server = server;
    c->is_admin = is_admin;
    c->id = ++next_id;
    c->state = FE_CONN_IDLE;
    closer_init(&c->closer, on_closed, c);
    (void)uv_tcp_init(&c->fe->loop.uv, &c->tcp);
    closer_add(&c->closer);
    (void)uv_timer_init(&c->fe->loop.uv, &c->timer);
    closer_add(&c->closer);
    c->tcp.data = c;
    c->timer.data = c;
    list_push_back(&server->conns, &c->link);
    c->progress_ms = now_of(c);
    *ret = c;
    return 0;
}

void fe_conn_accept(struct fe_conn *c, uv_stream_t *listener)
{
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 ||
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0) {
        fe_conn_close(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->tcp, 1);
    fe_conn_arm(c);
}

void fe_conn_resume_reading(struct fe_conn *c)
{
    if (c->is_read_paused && !c->has_eof && c->state != FE_CONN_CLOSED) {
        c->is_read_paused = false;
        if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0) {
            fe_conn_close(c);
        }
    }
}
