#include "fake_job.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"

struct wk_up {
    struct fake_job *f;
    struct wk_up_hooks hooks;
    struct fake_answer *answer;
    size_t at;
    bool has_head;
    bool is_paused;
    bool is_finishing;
};

struct wk_sbx_call {
    struct fake_job *f;
    struct wk_sbx_hooks hooks;
    struct fake_run run;
    bool is_open;
    unsigned step;
};

static struct fake_job *fake_of(const struct wk_job *job)
{
    return (struct fake_job *)(uintptr_t)job; /* the first member */
}

struct fake_job *fake_job_new(enum msg_kind kind, const char *body)
{
    struct fake_job *f = calloc(1, sizeof(*f));

    REQUIRE(f != NULL && id_init() == 0);
    f->job.kind = kind;
    f->job.method = MSG_METHOD_POST;
    f->job.path = strdup(kind == MSG_KIND_CHAT ? "/v1/chat/completions?x=1" : "/v1/responses");
    f->job.body = buf_copy(body, strlen(body));
    f->job.cfg = &f->cfg;
    f->job.attempt = 1;
    memset(f->job.rid.b, 7, sizeof(f->job.rid.b));
    f->cfg.ci_tool_name = strdup("litellm_code_execution");
    f->cfg.ci_rounds_max = 10;
    f->cfg.ci_run_timeout_s = 60;
    f->cfg.ci_wall_s = 600;
    f->cfg.ci_output_max_bytes = 65536;
    f->window = UINT64_MAX;
    return f;
}

void fake_job_free(struct fake_job *f)
{
    for (unsigned i = 0; i < FAKE_MAX; i++) {
        free(f->answers[i].body);
        bytes_fini(&f->requests[i]);
        bytes_fini(&f->codes[i]);
    }
    bytes_fini(&f->headers);
    bytes_fini(&f->out);
    buf_unref(f->job.body);
    buf_unref(f->job.headers);
    free(f->job.path);
    free(f->cfg.ci_tool_name);
    free(f->up);
    free(f->sbx);
    free(f);
}

void fake_job_answer(struct fake_job *f, int status, char *body)
{
    REQUIRE(f->answer_count < FAKE_MAX);
    f->answers[f->answer_count++] = (struct fake_answer){.status = status, .body = body};
}

void fake_job_start(struct fake_job *f)
{
    wk_icept_start(&f->job);
}

void fake_job_cancel(struct fake_job *f, int code)
{
    f->job.is_cancelled = true;
    f->job.ops->on_cancel(&f->job, code);
}

/* --- turns --- */

static size_t body_length(const struct fake_answer *a)
{
    return a->body_n != 0 ? a->body_n : a->body != NULL ? strlen(a->body) : 0;
}

static bool is_idle(const struct wk_up *up)
{
    return up->is_paused || (up->answer->is_hanging && up->has_head && !up->is_finishing &&
                             up->at == body_length(up->answer));
}

static void turn_model(struct wk_up *up)
{
    struct fake_job *f = up->f;
    const char *body = up->answer->body != NULL ? up->answer->body : "";
    size_t left = body_length(up->answer) - up->at;
    size_t n = f->piece != 0 && f->piece < left ? f->piece : left;

    if (up->answer->status != 0 && !up->has_head) {
        bool is_stream =
            strncmp(body, "data:", 5) == 0 || strncmp(body, "event:", 6) == 0 || body[0] == ':';

        up->has_head = true;
        up->hooks.on_head(up->hooks.ctx, up->answer->status,
                          sv_of(up->answer->headers != NULL ? up->answer->headers
                                : is_stream                 ? "Content-Type: text/event-stream\r\n"
                                            : "Content-Type: application/json\r\n"));
        return;
    }
    if (up->answer->status != 0 && n > 0 && !up->is_finishing) {
        char *copy = malloc(n); /* the exact size, for the address sanitizer */

        REQUIRE(copy != NULL);
        memcpy(copy, body + up->at, n);
        up->at += n;
        up->hooks.on_data(up->hooks.ctx, sv_from(copy, n));
        free(copy);
        return;
    }
    struct wk_up_hooks hooks = up->hooks;
    struct err e = {0};
    int rc = up->is_finishing ? 0 : up->answer->rc;

    if (rc != 0) {
        (void)err_set(&e, rc, NULL);
    }
    f->up = NULL;
    free(up);
    hooks.on_done(hooks.ctx, rc, &e);
}

static bool event(struct wk_sbx_call *c, enum msg_sbx_event kind, const char *payload)
{
    if (payload == NULL || c->hooks.on_event == NULL) {
        return false;
    }
    c->hooks.on_event(c->hooks.ctx, kind, sv_of(payload));
    return true;
}

static void turn_sandbox(struct wk_sbx_call *c)
{
    struct fake_job *f = c->f;
    const struct fake_run *r = &c->run;

    for (;;) {
        bool did = false;

        switch (c->is_open ? 5 : c->step++) {
        case 0:
            did = event(c, MSG_SBX_STARTED, r->payload == NULL ? "sbx1" : NULL);
            break;
        case 1:
            did = event(c, MSG_SBX_STDOUT, r->out);
            break;
        case 2:
            did = event(c, MSG_SBX_DISPLAY, r->display);
            break;
        case 3:
            did = event(c, MSG_SBX_STDERR, r->err);
            break;
        case 4:
            did = event(c, MSG_SBX_EXCEPTION, r->exception);
            break;
        default: {
            struct wk_sbx_hooks hooks = c->hooks;
            struct wk_sbx_result res = {
                .code = r->code,
                .notes = r->notes,
                .retry_after_ms = r->retry_after_ms,
                .sandbox_id = r->code == 0 ? SV_LIT("sbx1") : (struct str_view){NULL, 0},
                .text = sv_of(r->text),
                .payload = sv_of(r->payload),
            };

            f->sbx = NULL;
            free(c);
            hooks.on_result(hooks.ctx, &res);
            return;
        }
        }
        if (did) {
            return;
        }
    }
}

bool fake_job_turn(struct fake_job *f)
{
    if (f->is_done) {
        return false;
    }
    if (f->sbx != NULL) {
        turn_sandbox(f->sbx);
        return true;
    }
    if (f->up != NULL && !is_idle(f->up)) {
        turn_model(f->up);
        return true;
    }
    if (f->window == 0) {
        f->paused_turns++;
        f->window = 200;
        f->job.ops->on_writable(&f->job);
        return true;
    }
    return false;
}

void fake_job_run(struct fake_job *f)
{
    unsigned long turns = 0;

    while (fake_job_turn(f)) {
        REQUIRE(++turns < 2000000);
    }
}

/* --- wk_job.h --- */

void wk_job_done(struct wk_job *job, enum msg_outcome outcome)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(!f->is_done && f->up == NULL && f->sbx == NULL);
    REQUIRE(f->is_finished || f->is_aborted || f->error.code != 0 || job->is_cancelled);
    f->is_done = true;
    f->outcome = outcome;
}

uint32_t wk_job_time_left(const struct wk_job *job)
{
    (void)job;
    return UINT32_MAX;
}

void wk_out_head(struct wk_job *job, const struct wk_head *head)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(!f->is_head && f->error.code == 0);
    f->is_head = true;
    f->status = head->status;
    bytes_put_sv(&f->headers, head->headers);
}

bool wk_out_data(struct wk_job *job, struct buf *data, uint32_t sequence)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(f->is_head && !f->is_finished && !f->is_aborted && data->n > 0);
    bytes_put(&f->out, data->p, data->n);
    f->last_sequence = sequence;
    if (f->window == UINT64_MAX) {
        return true;
    }
    f->window -= data->n < f->window ? data->n : f->window;
    return f->window > 0;
}

void wk_out_finish(struct wk_job *job)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(f->is_head && !f->is_finished && !f->is_aborted);
    f->is_finished = true;
}

void wk_out_error(struct wk_job *job, const struct err *e)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(!f->is_head && f->error.code == 0 && e->code != 0);
    f->error = *e;
    f->status = err_info(e->code)->http;
}

void wk_out_abort(struct wk_job *job, const struct err *e)
{
    struct fake_job *f = fake_of(job);

    REQUIRE(f->is_head && !f->is_finished && !f->is_aborted);
    f->is_aborted = true;
    f->error = *e;
}

bool wk_out_is_started(const struct wk_job *job)
{
    return fake_of(job)->is_head || fake_of(job)->error.code != 0;
}

bool wk_out_is_ended(const struct wk_job *job)
{
    const struct fake_job *f = fake_of(job);

    return f->is_finished || f->is_aborted || f->error.code != 0;
}

bool wk_out_is_writable(const struct wk_job *job)
{
    return fake_of(job)->window > 0;
}

int wk_up_start(struct wk_job *job, struct wk_up **ret, const struct wk_up_req *req,
                const struct wk_up_hooks *hooks, struct err *e)
{
    struct fake_job *f = fake_of(job);
    struct bytes *body = &f->requests[f->request_count];

    REQUIRE(f->up == NULL && f->request_count < FAKE_MAX && req->body_count <= 6);
    snprintf(f->last_path, sizeof(f->last_path), "%s", req->path);
    if (f->answer_at == f->answer_count && !(f->is_last_repeated && f->answer_count > 0)) {
        return err_set(e, ERR_MODEL_NOT_FOUND, "the script has no further answer");
    }
    for (unsigned i = 0; i < req->body_count; i++) {
        bytes_put_sv(body, req->body[i]);
        if ((int)i == req->model_after) {
            bytes_put_str(body, "\"upstream-model\"");
        }
    }
    f->request_count++;
    f->up = calloc(1, sizeof(*f->up));
    REQUIRE(f->up != NULL);
    f->up->f = f;
    f->up->hooks = *hooks;
    f->up->answer = &f->answers[f->answer_at];
    if (f->answer_at + 1 < f->answer_count || !f->is_last_repeated) {
        f->answer_at++;
    }
    *ret = f->up;
    return 0;
}

void wk_up_pause(struct wk_up *up)
{
    up->is_paused = true;
}

void wk_up_resume(struct wk_up *up)
{
    up->is_paused = false;
}

void wk_up_finish(struct wk_up *up)
{
    up->is_finishing = true;
    up->is_paused = false;
}

void wk_up_cancel(struct wk_up *up)
{
    REQUIRE(up->f->up == up);
    up->f->up = NULL;
    free(up);
}

const struct cfg_deployment *wk_up_deployment(const struct wk_up *up)
{
    return &up->f->deployment;
}

static void record_sandbox_call(struct fake_job *f, const struct wk_sbx_req *req)
{
    f->scope = req->scope;
    sv_copy(f->session, sizeof(f->session), req->session);
    sv_copy(f->params, sizeof(f->params), req->params);
    if (req->op == MSG_SBX_OPEN) {
        f->open_count++;
        return;
    }
    REQUIRE(f->code_count < FAKE_MAX);
    f->timeout_ms = req->timeout_ms;
    f->op_ids[f->code_count] = req->op_id;
    bytes_put(&f->codes[f->code_count++], req->payload->p, req->payload->n);
}

int wk_sbx_start(struct wk_job *job, struct wk_sbx_call **ret, const struct wk_sbx_req *req,
                 const struct wk_sbx_hooks *hooks, struct err *e)
{
    struct fake_job *f = fake_of(job);

    (void)e;
    REQUIRE(f->sbx == NULL && (req->op == MSG_SBX_OPEN || req->op == MSG_SBX_RUN));
    record_sandbox_call(f, req);
    f->sbx = calloc(1, sizeof(*f->sbx));
    REQUIRE(f->sbx != NULL);
    f->sbx->f = f;
    f->sbx->hooks = *hooks;
    f->sbx->is_open = req->op == MSG_SBX_OPEN;
    if (f->sbx->is_open) {
        f->sbx->run = f->open;
    } else if (f->run_at < f->run_count) {
        f->sbx->run = f->runs[f->run_at++];
    } else {
        f->sbx->run = (struct fake_run){.out = "ok\n"};
    }
    *ret = f->sbx;
    return 0;
}

void wk_sbx_interrupt(struct wk_sbx_call *c)
{
    (void)c;
}

void wk_sbx_drop(struct wk_sbx_call *c)
{
    REQUIRE(c->f->sbx == c);
    c->f->sbx = NULL;
    free(c);
}

void wk_sbx_close_request(struct wk_job *job)
{
    fake_of(job)->close_count++;
}
