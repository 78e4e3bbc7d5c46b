#include "fe_request.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fe_app.h"
#include "fe_headers.h"
#include "fe_request_int.h"

#define DEADLINE_GRACE_MS 1000U /* the broker and the worker end it first */

/* --- life
 * ---------------------------------------------------------------------------------------------------------
 */

static struct str_view rid_view(const struct request_id *rid)
{
    return sv_from(rid->b, sizeof(rid->b));
}

struct fe_request *fe_request_find(struct fe *fe, const struct request_id *rid)
{
    return map_get(fe->requests, rid_view(rid));
}

void fe_request_body_drop(struct fe_request *r)
{
    r->fe->body_bytes -= r->body_n;
    r->body_n = 0;
    buf_unref(r->body);
    r->body = NULL;
}

void fe_request_retire(struct fe_request *r)
{
    if (r->conn != NULL) {
        r->conn->req = NULL;
    }
    if (list_link_is_in(&r->link)) {
        list_remove(&r->fe->open, &r->link);
        (void)map_take(r->fe->requests, rid_view(&r->rid));
    }
    fe_request_body_drop(r);
    fe_sse_fini(&r->sse);
    bytes_fini(&r->frame0);
    mem_free(r);
}

static void send_cancel(struct fe *fe, unsigned broker, const struct msg_head *of, int code)
{
    struct msg_head h = {
        .type = MSG_CANCEL, .attempt = of->attempt, .rid = of->rid, .tenant = of->tenant};
    struct msg_body_CANCEL m = {.code = code};
    struct bytes out = {0};

    if (msg_encode_CANCEL(&out, &h, &m) == 0) {
        (void)fe_links_send(fe, broker, sv_from(out.p, out.n),
                            NULL); /* a broker that is down forgot the job */
    }
    bytes_fini(&out);
}

static void cancel(struct fe_request *r, int code)
{
    struct msg_head of = {.attempt = r->attempt, .rid = r->rid, .tenant = r->tenant};

    if (r->state != FE_REQUEST_PENDING) {
        send_cancel(r->fe, r->broker, &of, code);
    }
}

void fe_request_cancel_stray(struct fe *fe, const struct msg_head *of)
{
    static struct request_id last; /* once per request, not once per message */

    if (memcmp(&last, &of->rid, sizeof(last)) != 0) {
        last = of->rid;
        send_cancel(fe, fe_links_choose(fe, &of->tenant), of, ERR_CANCELLED);
    }
}

void fe_request_abandon(struct fe_request *r)
{
    cancel(r, ERR_CANCELLED);
    fe_request_retire(r);
}

/* --- ending badly
 * --------------------------------------------------------------------------------------------------
 */

void fe_request_fail(struct fe_request *r, const struct err *e)
{
    struct fe_conn *c = r->conn;
    struct bytes text = {0};
    struct buf *b = NULL;

    LOG(REQUEST_ERROR, &r->rid, KV_ERR(e));
    if (!r->is_answered) {
        fe_request_retire(r);
        fe_conn_error(c, e);
        return;
    }
    if (fe_sse_failure(&r->sse, e, &text) == 0) {
        b = buf_from_bytes(&text);
    }
    bytes_fini(&text);
    fe_request_retire(r);
    if (b != NULL) {
        fe_conn_more(c, b, true);
    } else {
        fe_conn_cut(c);
    }
    buf_unref(b);
}

static void fail_code(struct fe_request *r, int code, const char *text)
{
    struct err e = {0};

    err_set(&e, code, "%s", text);
    if (code == ERR_UNAVAILABLE) {
        e.retry_after_ms = 5000;
    }
    fe_request_fail(r, &e);
}

/* --- submitting
 * ----------------------------------------------------------------------------------------------------
 */

static int encode(struct fe_request *r, const struct fe_conn *c, const struct fe_http_head *head)
{
    struct bytes path = {0};
    struct bytes headers = {0};
    struct msg_head h = {.type = MSG_SUBMIT, .attempt = 1, .rid = r->rid, .tenant = c->tenant};
    struct msg_body_SUBMIT m = {
        .kind = (uint8_t)c->route.kind,
        .method = (uint8_t)head->method,
        .sessions_max = c->sessions_max > UINT16_MAX ? UINT16_MAX : (uint16_t)c->sessions_max,
        .window = FE_WINDOW_BYTES,
        .endpoint = sv_of(fe_return_endpoint(r->fe))};
    int rc = ERR_INTERNAL;

    if (head->method == MSG_METHOD_HEAD) { /* the provider is asked with GET; the body stays here */
        m.method = MSG_METHOD_GET;
    }
    if (!c->route.has_prefix) {
        bytes_put_str(&path, "/v1");
    }
    bytes_put_sv(&path, head->target.path);
    if (head->target.query.n > 0) {
        bytes_put_char(&path, '?');
        bytes_put_sv(&path, head->target.query);
    }
    (void)fe_headers_to_worker(&headers, head, sv_of(r->fe->cfg->session_header));
    m.path = sv_from(path.p, path.n);
    m.headers = sv_from(headers.p, headers.n);
    rc = path.n > MSG_PATH_MAX ? ERR_URI_TOO_LONG : path.rc != 0 ? path.rc : headers.rc;
    if (rc == 0) {
        rc = msg_encode_SUBMIT(&r->frame0, &h, &m);
    }
    bytes_fini(&path);
    bytes_fini(&headers);
    return rc;
}

/* Sends what r waits for, if it can be sent now. Frees r only when the broker can never take it. */
static void submit(struct fe_request *r)
{
    struct fe *fe = r->fe;
    uint64_t now = clock_ms();
    uint64_t left = r->deadline_ms > now ? r->deadline_ms - now : 1;
    uint32_t flags = 0;
    int rc = 0;

    if (r->state == FE_REQUEST_PENDING) {
        r->broker = fe_links_choose(fe, &r->tenant);
    } else {
        flags =
            MSG_FLAG_RESUBMIT | (r->state == FE_REQUEST_STARTED ? (uint32_t)MSG_FLAG_STARTED : 0U);
    }
    r->wants_submit = true;
    msg_head_patch(r->frame0.p, MSG_SUBMIT, r->attempt,
                   left > UINT32_MAX ? UINT32_MAX : (uint32_t)left, flags);
    rc = fe_links_send(fe, r->broker, sv_from(r->frame0.p, r->frame0.n), r->body);
    if (rc == ERR_AGAIN) {
        return; /* tried again when a broker is up or takes more */
    }
    if (rc != 0) {
        fail_code(r, ERR_UNAVAILABLE, "The request cannot be passed on. Try again shortly.");
        return;
    }
    r->wants_submit = false;
    if (r->state == FE_REQUEST_PENDING) {
        r->state = FE_REQUEST_SENT;
    }
}

void fe_request_start(struct fe_conn *c, const struct fe_http_head *head)
{
    struct fe *fe = c->fe;
    struct fe_request *r = mem_zalloc(sizeof(*r));
    struct err e = {0};
    int rc = ERR_NOMEM;

    if (r == NULL) {
        goto fail;
    }
    r->fe = fe;
    r->rid = c->rid;
    r->tenant = c->tenant;
    r->attempt = 1;
    r->body_n = c->body.n; /* the count in fe.body_bytes moves with the bytes */
    if (c->body.n > 0 && (r->body = buf_from_bytes(&c->body)) == NULL) {
        r->body_n = 0;
        goto fail;
    }
    r->deadline_ms = clock_ms() + fe->cfg->request_deadline_s * 1000U;
    r->wait_until_ms = clock_ms() + fe->cfg->queue_wait_s * 1000U;
    bytes_init(&r->frame0,
               MSG_HEAD_BYTES + MSG_PATH_MAX + MSG_HEADERS_MAX + MSG_ENDPOINT_MAX + 256U);
    if ((rc = encode(r, c, head)) != 0 || (rc = map_put(fe->requests, rid_view(&r->rid), r)) != 0) {
        goto fail;
    }
    list_push_back(&fe->open, &r->link);
    r->conn = c;
    c->req = r;
    submit(r);
    if (c->req == r) {
        r->own_us = clock_us() - c->ready_us;
    }
    return;
fail:
    if (r != NULL) {
        fe_request_retire(r);
    }
    err_set(&e, rc, NULL);
    fe_conn_error(c, &e);
}

void fe_request_on_broker_up(struct fe *fe, unsigned broker, bool is_again)
{
    LIST_FOREACH_SAFE (k, tmp, &fe->open) {
        struct fe_request *r = CONTAINER_OF(k, struct fe_request, link);

        if (r->state == FE_REQUEST_PENDING || (is_again && r->broker == broker)) {
            submit(r);
        }
    }
}

void fe_request_retry_sends(struct fe *fe, unsigned broker)
{
    LIST_FOREACH_SAFE (k, tmp, &fe->open) {
        struct fe_request *r = CONTAINER_OF(k, struct fe_request, link);

        if (r->wants_submit && (r->state == FE_REQUEST_PENDING || r->broker == broker)) {
            submit(r);
            if (tmp != &fe->open.head && r->wants_submit) {
                return; /* full again */
            }
        }
    }
}

/* --- from the broker
 * --------------------------------------------------------------------------------------------------
 */

struct fe_request *fe_request_find_for(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find(fe, &in->head.rid);

    if (r == NULL || in->head.attempt < r->attempt) {
        return NULL;
    }
    if (in->head.attempt > r->attempt) {
        if (r->state == FE_REQUEST_STARTED) {
            return NULL;
        }
        r->attempt = in->head.attempt;
    }
    return r;
}

static void log_bad(const struct plane_in *in)
{
    struct err e = {0};

    err_set(&e, ERR_PEER_MALFORMED, "malformed %s", msg_name(in->head.type));
    LOG(PEER_BAD, &in->head.rid, KV_SV("peer", in->peer), KV_ERR(&e));
}

void fe_request_on_refuse(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find_for(fe, in);
    struct msg_body_REFUSE m;
    struct err e = {0};

    if (r == NULL) {
        return;
    }
    if (msg_decode_REFUSE(&m, in->fields) != 0) {
        log_bad(in);
        return;
    }
    err_set(&e, m.code, "%.*s", (int)m.text.n, m.text.p);
    e.retry_after_ms = m.retry_after_ms;
    fe_request_fail(r, &e);
}

void fe_request_on_lost(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find_for(fe, in);

    if (r == NULL || r->state == FE_REQUEST_PENDING) {
        return;
    }
    if (r->state == FE_REQUEST_STARTED || r->attempt >= FE_ATTEMPTS_MAX) {
        LOG(JOB_LOST, &r->rid, KV_S("next", "error"), KV_U("attempt", r->attempt));
        cancel(r, ERR_WORKER_LOST); /* no other attempt follows: its sandbox can go now */
        fail_code(r, ERR_WORKER_LOST,
                  r->state == FE_REQUEST_STARTED
                      ? "The worker of this request was lost while it was answering."
                      : "The workers of this request were lost. Try again.");
        return;
    }
    r->attempt++;
    LOG(JOB_RETRY, &r->rid, KV_S("why", "worker lost"), KV_U("attempt", r->attempt));
    r->state = FE_REQUEST_PENDING;
    submit(r);
}

/* --- time
 * ---------------------------------------------------------------------------------------------------------------
 */

static struct buf *comment(void)
{
    static const char text[] = ": keep-alive\n\n";

    return buf_copy(text, sizeof(text) - 1);
}

void fe_request_keep_alive(struct fe_request *r)
{
    struct buf *b = NULL;

    if (r->state != FE_REQUEST_STARTED || !r->is_event_stream || r->conn->seg_count > 0 ||
        !fe_sse_is_at_boundary(&r->sse) || (b = comment()) == NULL) {
        return;
    }
    r->last_byte_ms = clock_ms();
    fe_conn_more(r->conn, b, false); /* may free r */
    buf_unref(b);
}

void fe_request_tick(struct fe *fe)
{
    uint64_t now = clock_ms();
    uint64_t silence_ms = fe->cfg->keepalive_comment_s * 1000U;

    fe_request_retry_grants(fe);
    LIST_FOREACH_SAFE (k, tmp, &fe->open) {
        struct fe_request *r = CONTAINER_OF(k, struct fe_request, link);

        if (now > r->deadline_ms + DEADLINE_GRACE_MS) {
            cancel(r, ERR_DEADLINE);
            fail_code(r, ERR_DEADLINE,
                      "The request took longer than limits.request_timeout_s allows.");
        } else if (r->state == FE_REQUEST_PENDING && now > r->wait_until_ms) {
            fail_code(
                r, ERR_UNAVAILABLE,
                "The request could not be queued in time: no broker answers. Try again shortly.");
        } else if (r->wants_submit) {
            submit(r);
        } else if (now - r->last_byte_ms >= silence_ms) {
            fe_request_keep_alive(r);
        }
    }
}
