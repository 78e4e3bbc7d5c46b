/* From bytes to requests: what to do at each event of the parser. Decides early (head), acts when
 * complete. */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "fe_app.h"
#include "fe_auth.h"
#include "fe_conn.h"
#include "fe_local.h"
#include "fe_request.h"

/* Request ids come from a pool, so that not every request costs a system call. */
static void rid_take(struct request_id *ret)
{
    static struct request_id pool[64];
    static unsigned left;

    if (left == 0) {
        id_random(pool, sizeof(pool));
        left = sizeof(pool) / sizeof(pool[0]);
    }
    *ret = pool[--left];
}

static void request_begin(struct fe_conn *c)
{
    memcpy(c->rid_text, "req_", 4);
    rid_take(&c->rid);
    hex_encode(c->rid_text + 4, c->rid.b, sizeof(c->rid.b));
    c->has_rid = true;
    c->route = (struct fe_route){.label = "none", .methods = ""};
    c->quota = NULL;
    c->early.code = 0;
    c->early.text[0] = c->early.param[0] = '\0';
    c->must_close = c->is_head_request = false;
    c->framing = HTTP1_LENGTH;
    c->status = 0;
    c->bytes_out = 0;
    c->ready_us = c->first_us = 0;
    c->sessions_max = 0;
    c->key_name[0] = c->method[0] = c->client_rid[0] = '\0';
    memset(&c->tenant, 0, sizeof(c->tenant));
    fe_conn_move(c, FE_CONN_HEAD, "first byte");
}

/* Who may do what: 0, or the refusal in c->early. */
static int admit(struct fe_conn *c, const struct fe_http_head *head)
{
    struct fe *fe = c->fe;
    struct fe_caller caller = {0};
    struct err *e = &c->early;

    if (c->route.what == FE_DO_NONE) {
        return err_set(e, ERR_NOT_FOUND, "Invalid URL (%.*s %.*s): no such route.",
                       (int)head->method_text.n, head->method_text.p,
                       (int)(head->target.path.n < 200 ? head->target.path.n : 200),
                       head->target.path.p);
    }
    if (!c->route.is_allowed) {
        return err_set(e, ERR_METHOD, "Not allowed to %.*s on this route. See the Allow header.",
                       (int)head->method_text.n, head->method_text.p);
    }
    if (!c->route.needs_key) {
        return 0;
    }
    if (fe_auth_check(&caller, fe->cfg, head, e) != 0) {
        return e->code;
    }
    c->tenant = caller.tenant;
    if (caller.key != NULL) {
        c->sessions_max = caller.key->max_sessions;
        (void)sv_copy(c->key_name, sizeof(c->key_name), sv_of(caller.key->name));
    }
    if (c->route.what != FE_DO_JOB) {
        return 0;
    }
    if (c->route.needs_body && !head->is_chunked && head->content_length == 0) {
        return err_set(e, ERR_INVALID_JSON, "The request body is empty; send a JSON object.");
    }
    if (map_count(fe->requests) >= fe->cfg->requests_max) {
        metric_add(METRIC_FE_REJECTS, "requests_max", NULL, 1);
        e->retry_after_ms = 1000;
        return err_set(e, ERR_QUEUE_FULL, "Too many requests are in flight. Try again shortly.");
    }
    if (fe_quota_take(fe->quota, caller.key, clock_ms(), &c->quota, e) != 0) {
        metric_add(METRIC_FE_REJECTS, "quota", NULL, 1);
        return e->code;
    }
    return 0;
}

static void reply_continue(struct fe_conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct fe_vec v = {text, sizeof(text) - 1, NULL};

    fe_conn_send(c, &v, 1);
}

static void too_large(struct fe_conn *c)
{
    metric_add(METRIC_FE_REJECTS, "body_too_large", NULL, 1);
    err_set(&c->early, ERR_BODY_TOO_LARGE, "The request body is larger than %llu bytes.",
            (unsigned long long)c->fe->cfg->body_max_bytes);
}

/* A body has a meaning with these methods only; with others it is read and dropped. */
static bool wants_body(const struct fe_conn *c)
{
    enum msg_method m = fe_http_head(c->http)->method;

    return c->early.code == 0 && c->route.what == FE_DO_JOB &&
           (m == MSG_METHOD_POST || m == MSG_METHOD_PUT || m == MSG_METHOD_PATCH);
}

static void on_head(struct fe_conn *c)
{
    const struct fe_http_head *head = fe_http_head(c->http);
    uint64_t cap = c->fe->cfg->body_max_bytes;
    struct str_view client_rid = {NULL, 0};

    c->is_head_request = head->method == MSG_METHOD_HEAD;
    (void)sv_copy(c->method, sizeof(c->method), head->method_text);
    if (fe_http_find(head, "x-request-id", &client_rid) != 0) {
        (void)sv_copy(c->client_rid, sizeof(c->client_rid), client_rid);
    }
    c->must_close = !head->is_keep_alive;
    c->body_start_ms = uv_now(&c->fe->loop.uv);
    fe_conn_move(c, FE_CONN_BODY, "head complete");
    fe_route_find(&c->route, c->is_admin, head->method, head->target.path);
    if (admit(c, head) == 0) {
        if (head->content_length > cap) {
            too_large(c);
        }
    } else {
        cap = FE_CONN_EARLY_BODY_MAX;
    }
    if (c->early.code != 0 && (head->has_expect || head->content_length > FE_CONN_EARLY_BODY_MAX)) {
        fe_conn_error(c, &c->early); /* before the body is read */
        return;
    }
    fe_http_limit_body(c->http, cap);
    bytes_init(&c->body, (size_t)cap + 1);
    if (head->content_length > 0 && wants_body(c)) {
        size_t n =
            head->content_length < FE_INBUF_BYTES ? (size_t)head->content_length : FE_INBUF_BYTES;

        (void)bytes_reserve(&c->body, n); /* when it fails, so will on_body */
    }
    if (head->has_expect && (head->is_chunked || head->content_length > 0)) {
        reply_continue(c);
    }
}

static void on_body(struct fe_conn *c, struct str_view body)
{
    c->progress_ms = uv_now(&c->fe->loop.uv);
    if (!wants_body(c)) {
        return;
    }
    if (c->fe->body_bytes + body.n > FE_BODIES_MAX || bytes_put_sv(&c->body, body) != 0) {
        LOG(OVERLOAD, &c->rid, KV_S("what", "request bodies in memory"),
            KV_U("bytes", c->fe->body_bytes));
        metric_add(METRIC_FE_REJECTS, "body_memory", NULL, 1);
        c->fe->body_bytes -= c->body.n;
        bytes_fini(&c->body);
        err_set(&c->early, ERR_NOMEM, "Too much request data is being held. Try again shortly.");
        return;
    }
    c->fe->body_bytes += body.n;
}

static void on_complete(struct fe_conn *c)
{
    const struct fe_http_head *head = fe_http_head(c->http);

    c->ready_us = clock_us();
    fe_conn_move(c, FE_CONN_WAIT, "request complete");
    if (c->early.code == 0 && c->route.needs_body && c->body.n == 0) {
        err_set(&c->early, ERR_INVALID_JSON, "The request body is empty; send a JSON object.");
    }
    if (c->early.code != 0) {
        fe_conn_error(c, &c->early);
        return;
    }
    switch (c->route.what) {
    case FE_DO_JOB:
        fe_request_start(c, head);
        break;
    case FE_DO_METRICS:
        fe_admin_ask_metrics(c);
        break;
    case FE_DO_STATUS:
        fe_admin_ask_status(c);
        break;
    case FE_DO_NONE:
    case FE_DO_MODELS:
    case FE_DO_MODEL:
    case FE_DO_HEALTH:
    case FE_DO_READY:
    case FE_DO_ALIVE:
    case FE_DO_PAGE:
    case FE_DO_OPTIONS:
        fe_local_answer(c, head);
        break;
    }
}

static void on_error(struct fe_conn *c)
{
    const struct err *e = fe_http_error(c->http);

    if (c->early.code != 0) { /* refused already: that is the better answer */
        fe_conn_error(c, &c->early);
        return;
    }
    LOG(HTTP_REJECT, &c->rid, KV_ERR(e));
    metric_add(METRIC_FE_REJECTS, err_name(e->code), NULL, 1);
    fe_conn_error(c, e);
}

static bool is_reading(const struct fe_conn *c)
{
    return c->state == FE_CONN_IDLE || c->state == FE_CONN_HEAD || c->state == FE_CONN_BODY;
}

/* Bytes that come while an answer is under way wait; too many of them stop the reading. */
static void keep_for_later(struct fe_conn *c, struct str_view in)
{
    if (in.n == 0 || c->state == FE_CONN_CLOSED || c->state == FE_CONN_LINGER || c->must_close) {
        return; /* nothing behind a request that closes is looked at */
    }
    if (c->in.n + in.n > FE_CONN_PIPELINE_MAX && !c->is_read_paused) {
        c->is_read_paused = true;
        (void)uv_read_stop((uv_stream_t *)&c->tcp);
    }
    if (bytes_put_sv(&c->in, in) != 0) {
        fe_conn_close(c);
    }
}

void fe_conn_process(struct fe_conn *c, struct str_view in)
{
    enum fe_http_event ev = FE_HTTP_HEAD;
    struct str_view body = {NULL, 0};

    if (c->is_processing) {
        return;
    }
    c->is_processing = true;
    while (is_reading(c) && ev != FE_HTTP_MORE) {
        if (c->state == FE_CONN_IDLE) {
            if (in.n == 0) {
                break;
            }
            request_begin(c);
        }
        ev = fe_http_next(c->http, &in, &body);
        switch (ev) {
        case FE_HTTP_MORE:
            break;
        case FE_HTTP_HEAD:
            on_head(c);
            break;
        case FE_HTTP_BODY:
            on_body(c, body);
            break;
        case FE_HTTP_END:
            on_complete(c);
            break;
        case FE_HTTP_ERROR:
            on_error(c);
            break;
        }
    }
    c->is_processing = false;
    keep_for_later(c, in);
}

/* What was pipelined behind the request that just ended. */
static void process_pending(struct fe_conn *c)
{
    while (c->in.n > 0 && is_reading(c) && !c->is_processing) {
        struct bytes in = c->in;

        c->in = (struct bytes){0};
        fe_conn_process(c, sv_from(in.p, in.n));
        bytes_fini(&in);
    }
    if (c->in.n == 0) {
        fe_conn_resume_reading(c);
    }
}

void fe_conn_finish(struct fe_conn *c)
{
    fe_conn_end_request(c);
    if (c->must_close) {
        fe_conn_linger(c);
        return;
    }
    fe_conn_move(c, FE_CONN_IDLE, "answered");
    process_pending(c);
    if (is_reading(c) && c->has_eof && !c->is_processing && c->in.n == 0) {
        fe_conn_close(c);
        return;
    }
    if (c->state == FE_CONN_IDLE && c->fe->is_draining && !c->is_processing) {
        fe_conn_close(c);
    }
}
