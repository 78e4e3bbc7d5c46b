/* wk_sandbox.c - /v1/sandboxes: sandboxes without a model. One sandbox call per request; a run may
 * stream its events.
 *
 *   POST   /v1/sandboxes            create        {sandbox_tool?, session_id?}
 *   GET    /v1/sandboxes            list
 *   GET    /v1/sandboxes/{id}       describe
 *   DELETE /v1/sandboxes/{id}       delete
 *   POST   /v1/sandboxes/{id}/run   run           {code, timeout_s?, stream?}
 *   POST   /v1/sandboxes/run        create, run, delete in every outcome */
#include "wk_sandbox.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "wk_pass.h"
#include "wk_pool.h"

enum sandbox_what { DO_CREATE, DO_LIST, DO_GET, DO_DELETE, DO_RUN, DO_RUN_ONCE };

struct sandbox {
    struct wk_job *job;
    struct wk_sbx_call *call;
    enum sandbox_what what;
    struct wk_sandbox_req req;
    struct str_view id; /* borrowed from job->path */
    uint64_t from_us;
};

static void sandbox_free(struct sandbox *s)
{
    s->job->handler = NULL;
    wk_sandbox_req_fini(&s->req);
    mem_free(s);
}

static void on_cancel(struct wk_job *job, int code)
{
    struct sandbox *s = job->handler;

    (void)code;
    if (s->call != NULL) {
        wk_sbx_drop(s->call);
    }
    sandbox_free(s);
    wk_job_done(job, MSG_OUTCOME_CANCELLED);
}

static void on_writable(struct wk_job *job)
{
    (void)job; /* events are small and a run cannot be paused; wk_out bounds what waits by the run's
                  output cap */
}

static const struct wk_handler_ops sandbox_ops = {"sandbox", on_cancel, on_writable};

/* --- which operation --- */

static bool is_id(struct str_view s)
{
    for (size_t i = 0; s.p != NULL && i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.' || c == ':')) {
            return false;
        }
    }
    return s.n > 0 && s.n <= 128;
}

static int bad_method(struct err *e, const char *allowed)
{
    return err_set(e, ERR_METHOD, "Method not allowed; use %s.", allowed);
}

static int route_run(struct sandbox *s, enum sandbox_what what, struct err *e)
{
    s->what = what;
    return s->job->method == MSG_METHOD_POST ? 0 : bad_method(e, "POST");
}

static int route(struct sandbox *s, struct err *e)
{
    struct str_view path = sv_of(s->job->path);
    enum msg_method m = s->job->method;

    path.n = sv_find(path, '?');
    if (sv_starts(path, SV_LIT("/v1/"))) {
        path = sv_from(path.p + 3, path.n - 3);
    }
    if (!sv_starts(path, SV_LIT("/sandboxes"))) {
        return err_set(e, ERR_NOT_FOUND, "No such route.");
    }
    path = sv_from(path.p + 10, path.n - 10);
    if (path.n <= 1) {
        s->what = m == MSG_METHOD_POST ? DO_CREATE : DO_LIST;
        return m == MSG_METHOD_POST || m == MSG_METHOD_GET ? 0 : bad_method(e, "GET or POST");
    }
    path = sv_from(path.p + 1, path.n - 1);
    if (sv_eq(path, SV_LIT("run"))) {
        return route_run(s, DO_RUN_ONCE, e);
    }
    s->id = sv_from(path.p, sv_find(path, '/'));
    if (!is_id(s->id)) {
        return err_set(e, ERR_SANDBOX_NOT_FOUND, NULL);
    }
    if (s->id.n == path.n) {
        s->what = m == MSG_METHOD_DELETE ? DO_DELETE : DO_GET;
        return m == MSG_METHOD_DELETE || m == MSG_METHOD_GET ? 0 : bad_method(e, "GET or DELETE");
    }
    if (!sv_eq(sv_from(path.p + s->id.n, path.n - s->id.n), SV_LIT("/run"))) {
        return err_set(
            e, ERR_NOT_FOUND,
            "No such route; a sandbox has /v1/sandboxes/{id} and /v1/sandboxes/{id}/run.");
    }
    return route_run(s, DO_RUN, e);
}

/* --- answers --- */

static bool is_run(const struct sandbox *s)
{
    return s->what == DO_RUN || s->what == DO_RUN_ONCE;
}

static void start_stream(struct sandbox *s)
{
    struct wk_head head = {.status = 200,
                           .headers =
                               SV_LIT("content-type: text/event-stream; charset=utf-8\r\n"
                                      "cache-control: no-cache\r\nx-accel-buffering: no\r\n"),
                           .length = MSG_LENGTH_UNKNOWN,
                           .stream = MSG_STREAM_CHAT,
                           .processing_ms = UINT32_MAX};

    if (!wk_out_is_started(s->job)) {
        wk_out_head(s->job, &head);
    }
}

static void on_event(void *ctx, enum msg_sbx_event kind, struct str_view payload)
{
    struct sandbox *s = ctx;
    struct buf *event = wk_sandbox_event(kind, payload);

    start_stream(s);
    if (event != NULL) {
        (void)wk_out_data(s->job, event, 0);
        buf_unref(event);
    }
}

/* Every way to the end after the call. `body` is moved; NULL = *e. */
static void end(struct sandbox *s, struct buf *body, const struct err *e)
{
    struct wk_job *job = s->job;
    struct wk_head head = {.status = 200,
                           .headers = SV_LIT("content-type: application/json\r\n"),
                           .stream = MSG_STREAM_NONE,
                           .processing_ms = UINT32_MAX};

    sandbox_free(s);
    if (body != NULL) {
        if (!wk_out_is_started(job)) {
            head.length = body->n;
            wk_out_head(job, &head);
        }
        (void)wk_out_data(job, body, 0);
        wk_out_finish(job);
        buf_unref(body);
    } else if (wk_out_is_started(job)) {
        struct buf *event = wk_sandbox_failure(e);
        if (event != NULL) {
            (void)wk_out_data(job, event, 0);
            buf_unref(event);
        }
        wk_out_finish(job);
    } else {
        wk_out_error(job, e);
    }
    wk_job_done(job, body != NULL ? MSG_OUTCOME_OK : MSG_OUTCOME_ERROR);
}

static struct buf *make_body(struct sandbox *s, const struct wk_sbx_result *r)
{
    switch (s->what) {
    case DO_CREATE:
    case DO_GET:
        return buf_copy(r->payload.p, r->payload.n);
    case DO_LIST:
        return wk_sandbox_list(r->payload);
    case DO_DELETE:
        return wk_sandbox_deleted(s->id);
    case DO_RUN:
    case DO_RUN_ONCE:
        return wk_sandbox_run_result(r, s->req.is_stream ? "done" : NULL);
    }
    return NULL;
}

static void on_result(void *ctx, const struct wk_sbx_result *r)
{
    struct sandbox *s = ctx;
    struct err e = {0};
    struct buf *body;

    s->call = NULL;
    if (is_run(s)) {
        metric_observe_us(METRIC_WK_TOOL, NULL, NULL, clock_us() - s->from_us);
    }
    if (r->code != 0) {
        (void)err_set(&e, r->code, "%.*s", (int)r->text.n, r->text.n > 0 ? r->text.p : "");
        if (r->text.n == 0) {
            (void)err_set(&e, r->code, NULL);
        }
        e.retry_after_ms = r->retry_after_ms;
        end(s, NULL, &e);
        return;
    }
    if (is_run(s) && s->req.is_stream) {
        start_stream(s);
    }
    if ((body = make_body(s, r)) == NULL) {
        (void)err_set(&e, ERR_INTERNAL, "The sandbox service gave an answer that cannot be read.");
    }
    end(s, body, &e);
}

/* --- asking --- */

static void fill(struct sandbox *s, struct wk_sbx_req *req)
{
    req->session = s->id;
    req->scope = MSG_SCOPE_SANDBOX;
    switch (s->what) {
    case DO_CREATE:
        req->op = MSG_SBX_OPEN;
        if (s->req.session_id != NULL) {
            req->scope = MSG_SCOPE_SESSION;
            req->session = sv_of(s->req.session_id);
        }
        break;
    case DO_LIST:
        req->op = MSG_SBX_LIST;
        break;
    case DO_GET:
        req->op = MSG_SBX_GET;
        break;
    case DO_DELETE:
        req->op = MSG_SBX_DELETE;
        break;
    case DO_RUN_ONCE:
        req->op = MSG_SBX_RUN;
        req->scope = MSG_SCOPE_REQUEST;
        break;
    case DO_RUN:
        req->op = MSG_SBX_RUN;
        break;
    }
    req->tool = sv_of(s->req.tool);
    req->payload = s->req.code;
    req->timeout_ms = s->req.timeout_ms;
    if (req->op == MSG_SBX_RUN) {
        /* one run per request: its id is the request's, so that a second attempt is answered from
         * the record */
        memcpy(req->op_id.b, s->job->rid.b, sizeof(req->op_id.b));
        if (req->timeout_ms == 0) {
            req->timeout_ms = (uint32_t)s->job->cfg->ci_run_timeout_s * 1000;
        }
    }
}

static int prepare(struct sandbox *s, struct err *e)
{
    int rc = route(s, e);

    if (rc != 0) {
        return rc;
    }
    if (s->what == DO_CREATE || is_run(s)) {
        if ((rc = wk_sandbox_req_parse(&s->req, buf_view(s->job->body), is_run(s), e)) != 0) {
            return rc;
        }
    }
    if (s->req.tool != NULL && cfg_find_tool(s->job->cfg, sv_of(s->req.tool)) == NULL) {
        return err_set_param(e, ERR_INVALID, "sandbox_tool",
                             "No sandbox tool named '%s' is configured.", s->req.tool);
    }
    return 0;
}

void wk_sandbox_start(struct wk_job *job)
{
    struct sandbox *s = mem_zalloc(sizeof(*s));
    struct wk_sbx_req req = {.op = MSG_SBX_LIST};
    struct wk_sbx_hooks hooks = {.on_result = on_result, .ctx = s};
    struct err e = {0};

    if (s == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        wk_job_refuse(job, &e);
        return;
    }
    s->job = job;
    s->from_us = clock_us();
    job->handler = s;
    job->ops = &sandbox_ops;
    if (prepare(s, &e) == 0) {
        fill(s, &req);
        hooks.on_event = is_run(s) && s->req.is_stream ? on_event : NULL;
        if (wk_sbx_start(job, &s->call, &req, &hooks, &e) == 0) {
            return;
        }
    }
    sandbox_free(s);
    wk_job_refuse(job, &e);
}
