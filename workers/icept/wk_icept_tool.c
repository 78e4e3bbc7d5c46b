/* wk_icept_tool.c - the sandbox side of an intercepted request: open it, run code, turn results
 * into text. */
#include "base/clock.h"
#include "base/metric.h"
#include "wk_icept.h"

static struct str_view tool_name(const struct icept *x)
{
    return sv_of(x->job->cfg->interception_tool);
}

static struct str_view scope_key(const struct icept *x)
{
    switch (x->scope) {
    case MSG_SCOPE_SESSION:
        return sv_from(x->req.session, x->req.session_n);
    case MSG_SCOPE_SANDBOX:
        return sv_of(x->req.container + sizeof(IC_CONTAINER_PREFIX) - 1);
    case MSG_SCOPE_REQUEST:
        break;
    }
    return (struct str_view){NULL, 0};
}

static void set_container(struct icept *x, struct str_view sandbox_id)
{
    struct bytes id = {0};

    if (sandbox_id.n == 0) {
        return;
    }
    bytes_put_str(&id, IC_CONTAINER_PREFIX);
    bytes_put_sv(&id, sandbox_id);
    if (id.rc == 0) {
        sv_copy(x->loop->container, sizeof(x->loop->container), sv_from(id.p, id.n));
    }
    bytes_fini(&id);
}

static int no_container(const struct icept *x, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "Container with id '%s' not found.", x->req.container);
}

/* A provider failure is the request's failure: the client sees which and whether to come back. */
static void fail_sandbox(struct icept *x, const struct wk_sbx_result *r)
{
    struct err e = {0};

    if (x->scope == MSG_SCOPE_SANDBOX &&
        (r->code == ERR_SANDBOX_NOT_FOUND || r->code == ERR_NOT_FOUND)) {
        (void)no_container(x, &e);
    } else {
        (void)err_set(&e, r->code, "%.*s", (int)(r->text.n > 400 ? 400 : r->text.n),
                      r->text.n > 0 ? r->text.p : "");
        if (r->text.n == 0) {
            (void)err_set(&e, r->code, NULL);
        }
        e.retry_after_ms = r->retry_after_ms;
    }
    icept_fail(x, &e);
}

/* --- open --- */

static void on_opened(void *ctx, const struct wk_sbx_result *r)
{
    struct icept *x = ctx;
    void (*after)(struct icept * x) = x->after_open;

    x->sbx = NULL;
    x->is_opening = false;
    if (r->code != 0) {
        fail_sandbox(x, r);
        return;
    }
    set_container(x, r->sandbox_id);
    if (x->loop->container[0] == '\0') {
        struct err e = {0};

        (void)err_set(&e, ERR_SANDBOX_UNAVAILABLE, "the sandbox has no id");
        icept_fail(x, &e);
        return;
    }
    x->is_restarted = x->is_restarted || (r->notes & MSG_SBX_NOTE_RESTARTED) != 0;
    after(x);
}

int icept_tool_open(struct icept *x, void (*after)(struct icept *x), struct err *e)
{
    struct wk_sbx_hooks hooks = {NULL, on_opened, x};
    struct wk_sbx_req req = {.op = MSG_SBX_OPEN,
                             .scope = x->scope,
                             .session = scope_key(x),
                             .tool = tool_name(x),
                             .params = sv_from(x->req.sbx_params.p, x->req.sbx_params.n)};
    int rc;

    if (x->scope == MSG_SCOPE_SANDBOX &&
        (strncmp(x->req.container, IC_CONTAINER_PREFIX, sizeof(IC_CONTAINER_PREFIX) - 1) != 0 ||
         scope_key(x).n == 0)) {
        return no_container(x, e);
    }
    x->is_sandbox_used = true;
    x->after_open = after;
    if ((rc = wk_sbx_start(x->job, &x->sbx, &req, &hooks, e)) == 0) {
        x->is_opening = true;
    }
    return rc;
}

/* --- run --- */

static uint64_t hash64(struct str_view a, struct str_view b)
{
    uint8_t digest[32];
    uint64_t v;
    struct bytes all = {.cap_max = a.n + b.n + 64};

    bytes_put_u64(&all, a.n);
    bytes_put_char(&all, ':');
    bytes_put_sv(&all, a);
    bytes_put_sv(&all, b);
    id_sha256(digest, all.p, all.n);
    bytes_fini(&all);
    memcpy(&v, digest, sizeof(v));
    return v | 1; /* 0 means "did not run" */
}

/* The result is in x->output or, for text that did not come from a run, in call->result. */
static struct wk_run_event finish_call(struct icept *x, struct ic_call *c)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_TOOL};

    if (c->result.n == 0) {
        ic_output_model_text(&x->output, (size_t)x->job->cfg->ci_output_max_bytes, &c->result);
    }
    x->loop->ops->run_end(x->loop, c, &x->output);
    icept_flush(x);
    ev.code_hash = hash64(sv_from(c->args.p, c->args.n), (struct str_view){NULL, 0});
    ev.result_hash = hash64(sv_from(c->result.p, c->result.n), (struct str_view){NULL, 0});
    ic_output_reset(&x->output);
    return ev;
}

struct wk_run_event icept_tool_refuse(struct icept *x, unsigned call)
{
    static const char note[] = "[not run: the limit of code runs for this response is reached]";
    struct wk_run_event ev = {.type = WK_RUN_EV_TOOL};
    struct ic_call *c = &x->loop->calls[call];

    bytes_put_str(&c->result, note);
    ic_output_reset(&x->output);
    ic_output_stream(&x->output, false, sv_of(note));
    x->loop->ops->run_end(x->loop, c, &x->output);
    icept_flush(x);
    ic_output_reset(&x->output);
    return ev;
}

static void on_event(void *ctx, enum msg_sbx_event kind, struct str_view payload)
{
    struct icept *x = ctx;

    switch (kind) {
    case MSG_SBX_STARTED:
        set_container(x, payload);
        return;
    case MSG_SBX_STDOUT:
    case MSG_SBX_STDERR:
        ic_output_stream(&x->output, kind == MSG_SBX_STDERR, payload);
        break;
    case MSG_SBX_DISPLAY:
        ic_output_display(&x->output, payload);
        break;
    case MSG_SBX_EXCEPTION:
        ic_output_exception(&x->output, payload);
        break;
    }
    x->has_events = true;
}

/* Outcomes the model can do something with; others end the request. */
static bool is_told_to_model(const struct wk_sbx_result *r)
{
    return r->code == 0 || r->code == ERR_SANDBOX_LOST || r->code == ERR_DEADLINE ||
           r->code == ERR_CANCELLED;
}

static void note_outcome(struct icept *x, const struct wk_sbx_result *r)
{
    struct ic_output *o = &x->output;

    if (r->payload.n > 0 && ((r->notes & MSG_SBX_NOTE_REPEATED) != 0 || !x->has_events)) {
        ic_output_reset(o);
        ic_output_result(o, r->payload);
    }
    o->is_restarted = x->is_restarted || (r->notes & MSG_SBX_NOTE_RESTARTED) != 0;
    x->is_restarted = false;
    o->is_cut = o->is_cut || (r->notes & MSG_SBX_NOTE_TRUNCATED) != 0;
    o->is_lost = r->code == ERR_SANDBOX_LOST || r->code == ERR_CANCELLED ||
                 (r->notes & MSG_SBX_NOTE_INTERRUPTED) != 0;
    if (o->is_lost) {
        bytes_put_sv(&o->lost_why, r->text);
    } else if (r->code == ERR_DEADLINE || (r->notes & MSG_SBX_NOTE_TIMEOUT) != 0) {
        o->timeout_s = (x->run_limit_ms + 999) / 1000;
    }
}

static void on_result(void *ctx, const struct wk_sbx_result *r)
{
    struct icept *x = ctx;
    struct ic_call *c = &x->loop->calls[x->call];

    x->sbx = NULL;
    metric_observe_us(METRIC_WK_TOOL, NULL, NULL, clock_us() - x->run_from_us);
    if (!is_told_to_model(r)) {
        fail_sandbox(x, r);
        return;
    }
    set_container(x, r->sandbox_id);
    note_outcome(x, r);
    if (x->output.rc != 0) {
        struct err e = {0};

        (void)err_set(&e, x->output.rc, NULL);
        icept_fail(x, &e);
        return;
    }
    icept_drive(x, finish_call(x, c));
}

/* The same run of the same request has the same id, whichever worker asks: it is never run twice.
 */
static void set_op_id(const struct icept *x, struct str_view code, struct msg_id16 *ret)
{
    uint8_t digest[32];
    struct bytes all = {.cap_max = code.n + 128};
    char ordinal[24];
    struct bytes n = {0};

    bytes_put(&all, x->job->rid.b, sizeof(x->job->rid.b));
    bytes_put_u64(&n, x->ordinal);
    sv_copy(ordinal, sizeof(ordinal), sv_from(n.p, n.n));
    bytes_put_str(&all, ordinal);
    bytes_put_char(&all, ':');
    bytes_put_sv(&all, code);
    id_sha256(digest, all.p, all.n);
    memcpy(ret->b, digest, sizeof(ret->b));
    bytes_fini(&all);
    bytes_fini(&n);
}

static uint32_t run_limit(const struct icept *x)
{
    uint64_t ms = x->job->cfg->ci_run_timeout_s * 1000;
    uint64_t wall = wk_run_wall_left(&x->loop->run, clock_ms());
    uint32_t job = wk_job_time_left(x->job);

    ms = wall < ms ? wall : ms;
    ms = job < ms ? job : ms;
    return ms > 0 ? (uint32_t)ms : 1;
}

/* Arguments that are no code: nothing runs, the model is told. */
static struct wk_run_event invalid_call(struct icept *x, struct ic_call *c)
{
    bytes_put_str(&c->result, IC_INVALID_ARGS);
    x->loop->ops->run_begin(x->loop, c);
    return finish_call(x, c);
}

static void run_invalid(struct icept *x)
{
    icept_drive(x, invalid_call(x, &x->loop->calls[x->call]));
}

int icept_tool_run(struct icept *x, unsigned call, struct wk_run_event *ret_ev, struct err *e)
{
    struct ic_call *c = &x->loop->calls[call];
    struct str_view code = sv_from(c->code.p, c->code.n);
    struct wk_sbx_hooks hooks = {on_event, on_result, x};
    struct wk_sbx_req req = {.op = MSG_SBX_RUN,
                             .scope = x->scope,
                             .session = scope_key(x),
                             .tool = tool_name(x),
                             .params = sv_from(x->req.sbx_params.p, x->req.sbx_params.n)};
    int rc;

    x->call = call;
    ic_output_reset(&x->output);
    if (!c->is_valid) {
        if (x->loop->container[0] == '\0') { /* the item still names its container */
            return icept_tool_open(x, run_invalid, e);
        }
        *ret_ev = invalid_call(x, c);
        return 1;
    }
    if ((req.payload = buf_copy(code.p, code.n)) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    set_op_id(x, code, &req.op_id);
    x->ordinal++;
    x->has_events = false;
    x->is_sandbox_used = true;
    x->run_limit_ms = run_limit(x);
    req.timeout_ms = x->run_limit_ms;
    x->run_from_us = clock_us();
    x->loop->ops->run_begin(x->loop, c);
    icept_flush(x);
    rc = wk_sbx_start(x->job, &x->sbx, &req, &hooks, e);
    buf_unref(req.payload);
    return rc;
}
