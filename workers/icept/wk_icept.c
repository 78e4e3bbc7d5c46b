/* wk_icept.c - see wk_icept.h: the beginning, the steps and the end of an intercepted request. */
#include "wk_icept.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "wk_headers.h"

/* --- the end --- */

static void icept_free(struct icept *x)
{
    ic_loop_free(x->loop);
    ic_request_fini(&x->req);
    wk_sse_fini(&x->sse);
    bytes_fini(&x->clean);
    bytes_fini(&x->up_headers);
    bytes_fini(&x->up_body);
    bytes_fini(&x->path);
    bytes_fini(&x->tail);
    ic_output_fini(&x->output);
    mem_free(x);
}

static void stop_calls(struct icept *x)
{
    if (x->up != NULL) {
        wk_up_cancel(x->up);
        x->up = NULL;
    }
    if (x->sbx != NULL) {
        wk_sbx_drop(x->sbx);
        x->sbx = NULL;
    }
}

void icept_end(struct icept *x, enum msg_outcome outcome)
{
    struct wk_job *job = x->job;

    stop_calls(x);
    if (x->is_sandbox_used && x->scope == MSG_SCOPE_REQUEST) {
        wk_sbx_close_request(job);
    }
    job->handler = NULL;
    icept_free(x);
    wk_job_done(job, outcome);
}

static uint32_t processing_ms(const struct icept *x)
{
    return x->model_us == 0 && x->model_from_us == 0 ? UINT32_MAX : (uint32_t)(x->model_us / 1000);
}

/* Headers of a good answer: ours, and what the provider says about its limits. */
static struct str_view answer_headers(struct icept *x, const char *ours, struct bytes *ret)
{
    struct str_view block = sv_from(x->up_headers.p, x->up_headers.n);
    struct str_view name;
    struct str_view value;
    size_t at = 0;

    bytes_put_str(ret, ours);
    while (wk_headers_next(block, &at, &name, &value)) {
        if (sv_starts(name, SV_LIT("x-ratelimit-")) ||
            sv_eq(name, SV_LIT("x-provider-request-id"))) {
            bytes_put_sv(ret, name);
            bytes_put_str(ret, ": ");
            bytes_put_sv(ret, value);
            bytes_put_str(ret, "\r\n");
        }
    }
    return ret->rc == 0 ? sv_from(ret->p, ret->n) : sv_of(ours);
}

void icept_flush(struct icept *x)
{
    struct ic_loop *l = x->loop;
    bool is_responses = x->req.surface == IC_RESPONSES;
    struct buf *data;

    if (l->out.n == 0 || l->out.rc != 0) {
        return;
    }
    if (!wk_out_is_started(x->job)) {
        struct bytes headers = {0};
        struct wk_head head = {
            .status = 200,
            .headers = answer_headers(x,
                                      "content-type: text/event-stream; charset=utf-8\r\n"
                                      "cache-control: no-cache\r\nx-accel-buffering: no\r\n",
                                      &headers),
            .length = MSG_LENGTH_UNKNOWN,
            .stream = is_responses ? MSG_STREAM_RESPONSES : MSG_STREAM_CHAT,
            .processing_ms = processing_ms(x),
        };

        wk_out_head(x->job, &head);
        bytes_fini(&headers);
    }
    data = buf_from_bytes(&l->out);
    if (data == NULL) {
        l->out.rc = ERR_NOMEM;
        return;
    }
    if (!wk_out_data(x->job, data, is_responses ? l->sequence : 0) && x->up != NULL) {
        x->is_output_full = true;
        wk_up_pause(x->up);
    }
    buf_unref(data);
}

#define JSON_TYPE "content-type: application/json\r\n"
#define NO_RETRY  "x-should-retry: false\r\n"

/* A provider's error inside an answer that began well: its own words with a real status. */
static void send_upstream_error(struct icept *x)
{
    struct ic_fail *f = &x->loop->fail;
    const struct err_info *info = err_info(f->e.code);
    struct bytes body = {0};
    struct buf *data;

    bytes_put_str(&body, "{\"error\":{");
    icj_put_str(&body, "message", sv_of(f->e.text));
    icj_put_str(&body, "type", sv_of(f->type[0] != '\0' ? f->type : info->type));
    icj_put_raw(&body, "param", SV_LIT("null"));
    icj_put_str(&body, "code", sv_of(f->code[0] != '\0' ? f->code : info->code));
    bytes_put_str(&body, "}}");
    data = body.rc == 0 ? buf_from_bytes(&body) : NULL;
    bytes_fini(&body);
    if (data == NULL) {
        wk_out_error(x->job, &f->e);
        return;
    }
    struct wk_head head = {.status = f->status != 0 ? f->status : info->http,
                           .headers = x->loop->run.has_run ? SV_LIT(JSON_TYPE NO_RETRY)
                                                           : SV_LIT(JSON_TYPE),
                           .length = data->n,
                           .stream = MSG_STREAM_NONE,
                           .processing_ms = processing_ms(x)};

    wk_out_head(x->job, &head);
    wk_out_data(x->job, data, 0);
    wk_out_finish(x->job);
    buf_unref(data);
}

/* Ends the client's answer with l->fail. */
static void answer_failure(struct icept *x)
{
    struct ic_loop *l = x->loop;

    if (!wk_out_is_started(x->job)) {
        if (l->fail.type[0] != '\0' || l->fail.code[0] != '\0' || l->fail.status != 0) {
            send_upstream_error(x);
        } else {
            wk_out_error(x->job, &l->fail.e);
        }
        return;
    }
    bytes_reset(&l->out); /* what could not be sent is not completed by half an event */
    l->ops->fail(l);
    if (l->out.rc != 0) {
        wk_out_abort(x->job, &l->fail.e);
        return;
    }
    icept_flush(x);
    wk_out_finish(x->job);
}

void icept_fail(struct icept *x, const struct err *e)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_FAILED};

    if (x->loop == NULL) {
        wk_out_error(x->job, e);
        icept_end(x, MSG_OUTCOME_ERROR);
        return;
    }
    stop_calls(x);
    x->loop->fail.e = *e;
    if (x->loop->run.state != WK_RUN_ENDED) {
        (void)wk_run_step(&x->loop->run, clock_ms(), &ev);
    }
    answer_failure(x);
    icept_end(x, MSG_OUTCOME_ERROR);
}

static void fail_code(struct icept *x, int code)
{
    struct err e = {0};

    (void)err_set(&e, code, "%s",
                  code == ERR_LIMIT ? "the answer grew larger than this gateway holds"
                                    : err_info(code)->text);
    icept_fail(x, &e);
}

/* A whole answer that is not a stream. */
static void send_body(struct icept *x, struct bytes *body)
{
    struct buf *data = buf_from_bytes(body);
    struct bytes headers = {0};

    if (data == NULL) {
        fail_code(x, ERR_NOMEM);
        return;
    }
    struct wk_head head = {.status = 200,
                           .headers =
                               answer_headers(x, "content-type: application/json\r\n", &headers),
                           .length = data->n,
                           .stream = MSG_STREAM_NONE,
                           .processing_ms = processing_ms(x)};

    wk_out_head(x->job, &head);
    bytes_fini(&headers);
    wk_out_data(x->job, data, 0);
    wk_out_finish(x->job);
    buf_unref(data);
    icept_end(x, MSG_OUTCOME_OK);
}

static void answer(struct icept *x, const struct wk_run_action *a)
{
    struct ic_loop *l = x->loop;
    struct bytes body = {.cap_max = IC_TEXT_MAX};
    int rc;

    if (a->is_cut) {
        for (unsigned i = 0; i < l->call_count; i++) {
            l->ops->run_dropped(l, &l->calls[i]);
        }
    }
    l->ops->answer(l, a, &body);
    rc = body.rc != 0 ? body.rc : ic_loop_rc(l);
    if (rc != 0) {
        bytes_fini(&body);
        fail_code(x, rc);
        return;
    }
    if (!x->req.is_stream) {
        send_body(x, &body);
        bytes_fini(&body);
        return;
    }
    icept_flush(x);
    wk_out_finish(x->job);
    icept_end(x, MSG_OUTCOME_OK);
}

/* --- the steps --- */

void icept_drive(struct icept *x, struct wk_run_event ev)
{
    struct err e = {0};

    for (;;) {
        struct wk_run_action a = wk_run_step(&x->loop->run, clock_ms(), &ev);
        int rc = 0;

        switch (a.type) {
        case WK_RUN_DO_MODEL:
            rc = icept_model_start(x, &a, &e);
            break;
        case WK_RUN_DO_RUN:
            rc = icept_tool_run(x, a.call, &ev, &e);
            break;
        case WK_RUN_DO_REFUSE:
            ev = icept_tool_refuse(x, a.call);
            rc = 1;
            break;
        case WK_RUN_DO_ANSWER:
            answer(x, &a);
            return;
        case WK_RUN_DO_FAIL:
        case WK_RUN_DO_STOP:
            INVARIANT(a.type ==
                      WK_RUN_DO_MODEL); /* only icept_fail and on_cancel send those events */
            return;
        }
        if (rc < 0) {
            icept_fail(x, &e);
            return;
        }
        if (rc == 0) {
            return;
        }
        if ((rc = ic_loop_rc(x->loop)) != 0) {
            fail_code(x, rc);
            return;
        }
    }
}

static void on_cancel(struct wk_job *job, int code)
{
    struct icept *x = job->handler;
    struct wk_run_event ev = {.type = WK_RUN_EV_CANCELLED};

    if (x == NULL) {
        return; /* the end is on its way */
    }
    stop_calls(x);
    if (x->loop->run.state != WK_RUN_ENDED) {
        (void)wk_run_step(&x->loop->run, clock_ms(), &ev);
    }
    if (code == ERR_DEADLINE && !wk_out_is_ended(job)) {
        (void)err_set(&x->loop->fail.e, code, NULL);
        answer_failure(x);
    }
    icept_end(x, code == ERR_DEADLINE ? MSG_OUTCOME_ERROR : MSG_OUTCOME_CANCELLED);
}

static void on_writable(struct wk_job *job)
{
    struct icept *x = job->handler;

    if (x != NULL && x->is_output_full) {
        x->is_output_full = false;
        icept_model_resume(x);
    }
}

static const struct wk_handler_ops icept_ops = {"loop", on_cancel, on_writable};

/* --- the beginning --- */

static void begin(struct icept *x)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_START};

    icept_drive(x, ev);
}

/* The path below api_base with the client's query. */
static int set_path(struct icept *x)
{
    struct str_view target = sv_of(x->job->path);
    size_t q = sv_find(target, '?');

    bytes_put_str(&x->path, x->req.surface == IC_RESPONSES ? "/responses" : "/chat/completions");
    for (size_t i = q; i < target.n; i++) {
        if ((unsigned char)target.p[i] <= 0x20 || target.p[i] == 0x7F || target.p[i] == '#') {
            break;
        }
        bytes_put_char(&x->path, target.p[i]);
    }
    return x->path.rc;
}

static void set_scope(struct icept *x)
{
    x->scope = x->req.container[0] != '\0' ? MSG_SCOPE_SANDBOX
               : x->req.session_n > 0      ? MSG_SCOPE_SESSION
                                           : MSG_SCOPE_REQUEST;
}

static int prepare(struct icept *x, struct err *e)
{
    struct wk_job *job = x->job;
    const struct cfg *cfg = job->cfg;
    int rc = ic_request_parse(&x->req, job->kind == MSG_KIND_CHAT ? IC_CHAT : IC_RESPONSES,
                              buf_view(job->body), buf_view(job->headers), cfg, e);
    struct wk_run_limits limits = {
        .rounds_max = (unsigned)cfg->ci_rounds_max,
        .tool_calls_max = x->req.tool_calls_max,
        .output_tokens_max = x->req.output_tokens_max,
        .wall_ms = cfg->ci_wall_s * 1000,
    };

    if (rc != 0) {
        return rc;
    }
    if (set_path(x) != 0 ||
        (x->loop = ic_loop_new(&x->req, cfg, (uint32_t)(clock_unix_ms() / 1000))) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    set_scope(x);
    wk_run_init(&x->loop->run, &limits, clock_ms());
    return 0;
}

void wk_icept_start(struct wk_job *job)
{
    struct icept *x = mem_zalloc(sizeof(*x));
    struct err e = {0};

    job->ops = &icept_ops;
    job->handler = x;
    if (x == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        wk_out_error(job, &e);
        wk_job_done(job, MSG_OUTCOME_ERROR);
        return;
    }
    x->job = job;
    wk_sse_init(&x->sse, ICEPT_UP_BODY_MAX);
    bytes_init(&x->up_body, ICEPT_UP_BODY_MAX);
    bytes_init(&x->clean, IC_TEXT_MAX);
    ic_output_reset(&x->output);
    if (prepare(x, &e) != 0) {
        icept_fail(x, &e);
        return;
    }
    if (x->scope != MSG_SCOPE_SANDBOX) {
        begin(x);
    } else if (icept_tool_open(x, begin, &e) != 0) { /* a container that is named must be there */
        icept_fail(x, &e);
    }
}
