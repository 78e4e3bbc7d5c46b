/* wk_icept_model.c - the model calls of an intercepted request: body out, bytes in. */
#include "base/clock.h"
#include "base/metric.h"
#include "ic_utf8.h"
#include "wk_headers.h"
#include "wk_icept.h"
#include "wk_redact.h"

static void finish_round(struct icept *x)
{
    struct ic_loop *l = x->loop;
    struct wk_run_event ev = {.type = WK_RUN_EV_MODEL};
    struct err e = {0};
    uint64_t in = 0;
    int rc;

    x->is_up_done = false;
    if (x->req.is_stream && l->ops->on_end(l, &e) != 0) {
        icept_fail(x, &e);
        return;
    }
    if ((rc = ic_loop_rc(l)) != 0) {
        (void)err_set(&e, rc, "the model's answer is larger than this gateway holds");
        icept_fail(x, &e);
        return;
    }
    ic_loop_round_usage(l, &in, &ev.output_tokens);
    metric_add(METRIC_WK_TOKENS, "input", NULL, in);
    metric_add(METRIC_WK_TOKENS, "output", NULL, ev.output_tokens);
    ev.our_calls = l->call_count;
    ev.client_calls = l->client_calls;
    ev.is_cut = l->is_cut;
    icept_drive(x, ev);
}

/* --- bytes in --- */

static void need_sandbox(struct icept *x)
{
    struct err e = {0};

    if (x->up != NULL) {
        wk_up_pause(x->up);
    }
    if (icept_tool_open(x, icept_model_resume, &e) != 0) {
        icept_fail(x, &e);
    }
}

/* The next event to deliver, with good UTF-8 for what is passed on as it came. 1, 0 or an error. */
static int next_event(struct icept *x)
{
    struct icj v;
    int rc;

    if (x->has_event) {
        return 1;
    }
    while ((rc = wk_sse_take(&x->sse, &x->ev)) == 1) {
        if (x->ev.is_unfinished && !sv_eq(x->ev.data, SV_LIT("[DONE]")) &&
            icj_parse(&v, x->ev.data, NULL) != 0) {
            continue; /* the stream was cut here */
        }
        if (!ic_utf8_is_good(x->ev.data)) {
            bytes_reset(&x->clean);
            ic_utf8_put(&x->clean, x->ev.data);
            x->ev.data = sv_from(x->clean.p, x->clean.n);
        }
        x->has_event = true;
        return x->clean.rc != 0 ? x->clean.rc : 1;
    }
    return rc;
}

/* Delivers the events that are there. False when x is gone or must wait. */
static bool deliver(struct icept *x)
{
    struct ic_loop *l = x->loop;
    struct err e = {0};
    int rc = 0;

    while (!l->is_over && (rc = next_event(x)) == 1) {
        rc = l->ops->on_event(l, x->ev, &e);
        if (rc == 1) {
            icept_flush(x);
            need_sandbox(x);
            return false;
        }
        x->has_event = false;
        if (rc < 0) {
            icept_flush(x); /* what came before the error is the client's */
            icept_fail(x, &e);
            return false;
        }
    }
    if (rc < 0) {
        (void)err_set(&e, ERR_UPSTREAM_BAD, "the model provider sent an event that is too large");
        icept_fail(x, &e);
        return false;
    }
    if (l->is_over && x->up != NULL) { /* some providers keep the connection open */
        wk_up_finish(x->up);
    }
    icept_flush(x);
    return true;
}

/* The body as good UTF-8. */
static int clean_body(struct icept *x)
{
    struct bytes good = {.cap_max = IC_TEXT_MAX};

    if (ic_utf8_is_good(sv_from(x->up_body.p, x->up_body.n))) {
        return 0;
    }
    ic_utf8_put(&good, sv_from(x->up_body.p, x->up_body.n));
    if (good.rc != 0) {
        int rc = good.rc;

        bytes_fini(&good);
        return rc;
    }
    good.cap_max = x->up_body.cap_max;
    bytes_fini(&x->up_body);
    x->up_body = good;
    return 0;
}

static void take_object(struct icept *x)
{
    struct icj root;
    struct err e = {0};
    int rc = clean_body(x);

    if (rc != 0) {
        (void)err_set(&e, rc, NULL);
    } else if ((rc = icj_parse(&root, sv_from(x->up_body.p, x->up_body.n), &e)) != 0) {
        (void)err_set(&e, ERR_UPSTREAM_BAD, "the model provider's answer is not JSON");
    } else {
        rc = x->loop->ops->on_object(x->loop, root, &e);
    }
    if (rc == 1) {
        need_sandbox(x);
    } else if (rc < 0) {
        icept_fail(x, &e);
    } else {
        finish_round(x);
    }
}

void icept_model_resume(struct icept *x)
{
    if (x->is_opening) {
        return;
    }
    if (x->up != NULL && !x->is_output_full) {
        wk_up_resume(x->up);
    }
    if (!x->req.is_stream) {
        if (x->is_up_done) {
            take_object(x);
        }
    } else if (deliver(x) && x->is_up_done) {
        finish_round(x);
    }
}

static void on_head(void *ctx, int status, struct str_view headers)
{
    struct icept *x = ctx;
    const struct cfg_deployment *d = wk_up_deployment(x->up);

    x->up_status = status;
    x->is_up_stream = wk_headers_is_event_stream(headers);
    bytes_reset(&x->up_headers);
    (void)wk_headers_filter(headers, &x->up_headers);
    if (x->loop->run.rounds == 1 && d != NULL && d->rounds_max > 0) {
        x->loop->run.limits.rounds_max = d->rounds_max;
    }
}

static bool is_good(int status)
{
    return status >= 200 && status < 300;
}

static void on_data(void *ctx, struct str_view data)
{
    struct icept *x = ctx;
    struct err e = {0};
    int rc;

    if (x->loop->is_over) {
        return;
    }
    if (is_good(x->up_status) && x->req.is_stream && x->is_up_stream) {
        rc = wk_sse_push(&x->sse, data);
        if (rc == 0 && !x->is_opening) {
            (void)deliver(x);
            return;
        }
    } else {
        rc = bytes_put_sv(&x->up_body, data);
    }
    if (rc != 0) {
        (void)err_set(&e, rc == ERR_NOMEM ? rc : ERR_UPSTREAM_BAD,
                      rc == ERR_NOMEM ? NULL : "the model provider's answer is too large");
        icept_fail(x, &e);
    }
}

/* What the provider says about its refusal, without our keys. */
static int redact_refusal(struct icept *x)
{
    struct bytes *const texts[] = {&x->up_headers, &x->up_body};

    for (unsigned i = 0; i < 2; i++) {
        struct bytes clean = {.cap_max = IC_TEXT_MAX};
        struct str_view text = sv_from(texts[i]->p, texts[i]->n);

        if (!wk_redact_is_needed(x->job->cfg, text)) {
            continue;
        }
        if (wk_redact(x->job->cfg, text, &clean) != 0) {
            bytes_fini(&clean);
            return ERR_NOMEM;
        }
        clean.cap_max = texts[i]->cap_max;
        bytes_fini(texts[i]);
        *texts[i] = clean;
    }
    return x->up_headers.rc;
}

/* The error of a refusal, for an answer that has begun or cannot be passed on as it is. */
static void fail_refused(struct icept *x)
{
    struct icj root = {ICJ_ABSENT, {NULL, 0}};
    struct err e = {0};

    (void)icj_parse(&root, sv_from(x->up_body.p, x->up_body.n), NULL);
    if (icj_is_set(icj_get(root, "error"))) {
        (void)ic_loop_upstream_error(x->loop, icj_get(root, "error"), &e);
    } else {
        (void)err_set(&e, ERR_UPSTREAM_STATUS, "the model provider answered with status %d",
                      x->up_status);
    }
    icept_fail(x, &e);
}

/* The provider's own refusal reaches the client as it is, unless the answer has begun. */
static void pass_refusal(struct icept *x)
{
    struct err e = {0};
    struct buf *data = NULL;

    if (wk_out_is_started(x->job)) {
        fail_refused(x);
        return;
    }
    if (x->loop->run.has_run) { /* SDKs would send the request, and so run the code, again */
        bytes_put_str(&x->up_headers, "x-should-retry: false\r\n");
    }
    if (clean_body(x) == 0 && redact_refusal(x) == 0) {
        data = x->up_body.n > 0 ? buf_from_bytes(&x->up_body) : buf_copy("", 0);
    }
    if (data == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        icept_fail(x, &e);
        return;
    }
    struct wk_head head = {.status = x->up_status,
                           .headers = sv_from(x->up_headers.p, x->up_headers.n),
                           .length = data->n,
                           .stream = MSG_STREAM_NONE,
                           .processing_ms = (uint32_t)(x->model_us / 1000)};

    wk_out_head(x->job, &head);
    if (data->n > 0) {
        wk_out_data(x->job, data, 0);
    }
    wk_out_finish(x->job);
    buf_unref(data);
    icept_end(x, MSG_OUTCOME_ERROR);
}

/* A stream was asked for, and something else came: an error object, or what nobody can use. */
static void fail_not_a_stream(struct icept *x)
{
    struct icj root = {ICJ_ABSENT, {NULL, 0}};
    struct err e = {0};

    (void)icj_parse(&root, sv_from(x->up_body.p, x->up_body.n), NULL);
    if (icj_is_set(icj_get(root, "error"))) {
        (void)ic_loop_upstream_error(x->loop, icj_get(root, "error"), &e);
    } else {
        (void)err_set(&e, ERR_UPSTREAM_BAD,
                      "the model provider did not answer with an event stream");
    }
    icept_fail(x, &e);
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct icept *x = ctx;
    struct err own = {0};

    x->up = NULL;
    x->is_output_full = false; /* nothing is left to hold back */
    x->model_us += clock_us() - x->model_from_us;
    if (rc != 0 && !(x->loop->is_ended && x->req.is_stream)) {
        own = *e;
        own.code = rc;
        icept_fail(x, &own);
        return;
    }
    if (x->up_status >= 400 && x->up_status < 600) {
        pass_refusal(x);
        return;
    }
    if (!is_good(
            x->up_status)) { /* nobody follows a redirect with our key, nor tells where it goes */
        (void)err_set(&own, ERR_UPSTREAM_BAD, "the model provider answered with status %d",
                      x->up_status);
        icept_fail(x, &own);
        return;
    }
    if (x->req.is_stream && !x->is_up_stream) {
        fail_not_a_stream(x);
        return;
    }
    x->is_up_done = true;
    if (x->req.is_stream) {
        (void)wk_sse_end(&x->sse);
    }
    icept_model_resume(x);
}

/* --- body out --- */

/* Interception may be limited to some providers: a group that mixes them is asked only where it is
 * on. */
static const char *only_provider(const struct icept *x)
{
    const struct cfg *cfg = x->job->cfg;
    unsigned index[64];
    unsigned n;
    const char *found = NULL;
    bool is_mixed = false;

    if (cfg->interception_providers == NULL) {
        return NULL;
    }
    n = cfg_find_deployments(cfg, sv_from(x->req.model.p, x->req.model.n), index, 64);
    for (unsigned i = 0; i < n; i++) {
        const char *provider = cfg->deployments[index[i]].provider;
        bool is_on = false;

        for (char **p = cfg->interception_providers; *p != NULL; p++) {
            is_on = is_on || strcmp(*p, provider) == 0;
        }
        if (!is_on) {
            is_mixed = true;
        } else if (found == NULL) {
            found = provider;
        }
    }
    return is_mixed ? found : NULL;
}

static void build_body(struct icept *x, const struct wk_run_action *a)
{
    struct ic_loop *l = x->loop;
    bool is_continued = !a->is_first && x->req.is_conversation;
    bool has_items = !is_continued && x->req.items.n > 0;
    bool has_input = x->req.has_input || !a->is_first;
    struct str_view more = sv_from(l->transcript.p, l->transcript.n);

    bytes_reset(&x->tail);
    bytes_put_str(&x->tail, has_input ? "]" : " ");
    ic_request_tail(&x->req, a->is_first, a->is_closing, a->output_tokens_left, &x->tail);
    x->slices[0] = SV_LIT("{\"model\":");
    x->slices[1] = sv_from(x->req.head.p, x->req.head.n);
    x->slices[2] = !has_input                  ? (struct str_view){NULL, 0}
                   : x->req.surface == IC_CHAT ? SV_LIT(",\"messages\":[")
                                               : SV_LIT(",\"input\":[");
    x->slices[3] = has_items ? sv_from(x->req.items.p, x->req.items.n) : (struct str_view){NULL, 0};
    if (!has_items && more.n > 0) { /* the comma that every item of the transcript begins with */
        more.p++;
        more.n--;
    }
    x->slices[4] = more;
}

/* What the model is told before it is asked for the last time. */
static void put_last_words(struct ic_loop *l)
{
    static const char note[] = "[the limit of code runs for this response is reached: answer now "
                               "with what you have]";
    struct bytes *result;

    if (l->call_count == 0) {
        return;
    }
    result = &l->calls[l->call_count - 1].result;
    if (result->n > 0 && result->p[result->n - 1] != '\n') {
        bytes_put_char(result, '\n');
    }
    bytes_put_str(result, note);
}

int icept_model_start(struct icept *x, const struct wk_run_action *a, struct err *e)
{
    struct ic_loop *l = x->loop;
    struct str_view slices[6];
    struct wk_up_hooks hooks = {on_head, on_data, on_done, x};
    struct wk_up_req req = {.model = sv_from(x->req.model.p, x->req.model.n),
                            .method = MSG_METHOD_POST,
                            .path = x->path.p,
                            .body = slices,
                            .body_count = 6,
                            .model_after = 0,
                            .is_stream = x->req.is_stream,
                            .provider_only = only_provider(x)};

    if (!a->is_first) {
        if (a->is_closing) {
            put_last_words(l);
        }
        l->ops->put_results(l);
        if (l->transcript.rc != 0) {
            return err_set(e, l->transcript.rc, "the conversation of this request grew too large");
        }
    }
    ic_loop_round_begin(l);
    build_body(x, a);
    if (x->tail.rc != 0) {
        return err_set(e, x->tail.rc, NULL);
    }
    memcpy(slices, x->slices, sizeof(x->slices));
    slices[5] = sv_from(x->tail.p, x->tail.n);
    wk_sse_reset(&x->sse);
    x->has_event = false;
    x->is_up_done = false;
    x->up_status = 0;
    bytes_reset(&x->up_body);
    x->model_from_us = clock_us();
    metric_add(METRIC_WK_ROUNDS, NULL, NULL, 1);
    return wk_up_start(x->job, &x->up, &req, &hooks, e);
}
