/* wk_upstream.c - one logical model call: tries over the deployments of a group, with back-off,
 * until an answer is passed on.
 *
 *   TRYING --answer that is not retried--> PASSING --end--> freed
 *   TRYING --retryable answer--> SAVING --end--> WAITING --timer--> TRYING
 *   TRYING --connection failed--> WAITING, or the saved answer is replayed, or on_done(error)
 *
 * A retryable answer is saved (up to SAVED_MAX) while it is read: when no later try brings a better
 * one, the last answer of the provider itself reaches the client. One that is larger is passed on
 * at once. */
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "wk_headers.h"
#include "wk_pool.h"
#include "wk_retry.h"

#define SAVED_MAX        1048576U
#define UP_SLICES_MAX    7
#define HEADER_LINES_MAX 48
#define FINISH_GRACE_MS  25

enum up_state { UP_TRYING, UP_SAVING, UP_PASSING, UP_WAITING };

struct wk_up {
    struct wk_task *task;
    struct wk_up_hooks hooks;
    enum up_state state;
    struct uvcurl_xfer *xfer; /* NULL between tries */
    struct wk_pick pick;
    const struct cfg_deployment *dep; /* being tried, or the one that answers */
    enum msg_method method;
    bool is_stream;
    bool is_repeatable;
    unsigned tries;
    unsigned tries_max;
    struct str_view slices[UP_SLICES_MAX]; /* borrowed */
    unsigned slice_count;
    int model_after;
    struct bytes model; /* the provider's model name as JSON */
    const char *asked;  /* the name the client asked for, behind `path` */
    size_t asked_n;
    struct str_view content_type; /* borrowed from the job's headers, or static */
    struct wk_timer timer;
    int saved_status; /* 0 = nothing saved */
    struct bytes saved_head;
    struct bytes saved_body;
    uint32_t retry_delay_ms;
    uint64_t try_from_us;
    unsigned depth;    /* inside this many hooks */
    bool is_cancelled; /* freed when the last hook returns */
    bool is_waiting;   /* counted as the job's waiting time */
    bool is_settled;   /* the answer is whole, however its transfer ends */
    bool is_finishing; /* nobody wants the rest of the answer */
    char path[];       /* below api_base */
};

static void start_try_from_timer(struct wk_timer *t);

static void up_free(struct wk_up *up)
{
    bytes_fini(&up->model);
    bytes_fini(&up->saved_head);
    bytes_fini(&up->saved_body);
    mem_free(up);
}

static void wait_begin(struct wk_up *up)
{
    if (!up->is_waiting) {
        up->is_waiting = true;
        wk_task_wait_begin(up->task);
    }
}

static void wait_end(struct wk_up *up)
{
    if (up->is_waiting) {
        up->is_waiting = false;
        wk_task_wait_end(up->task);
    }
}

/* Hooks may cancel: false = it is gone. */
static bool leave_hook(struct wk_up *up)
{
    if (--up->depth == 0 && up->is_cancelled) {
        up_free(up);
        return false;
    }
    return !up->is_cancelled;
}

static bool give_head(struct wk_up *up, int status, struct str_view headers)
{
    up->depth++;
    up->hooks.on_head(up->hooks.ctx, status, headers);
    return leave_hook(up);
}

static bool give_data(struct wk_up *up, struct str_view data)
{
    up->depth++;
    up->hooks.on_data(up->hooks.ctx, data);
    return leave_hook(up);
}

static const char *operation(const struct wk_job *job)
{
    switch (job->kind) {
    case MSG_KIND_RESPONSES:
        return "responses";
    case MSG_KIND_CHAT:
        return "chat";
    case MSG_KIND_MODEL:
        return "model";
    case MSG_KIND_OBJECT:
        return "object";
    case MSG_KIND_SANDBOX:
        break;
    }
    return "other";
}

/* The call is over; the job may end in the hook. The client learns what went wrong, the log also
 * where. */
static void give_done(struct wk_up *up, int rc, const struct err *e)
{
    void (*on_done)(void *ctx, int rc, const struct err *e) = up->hooks.on_done;
    void *ctx = up->hooks.ctx;
    struct err told = {0};

    wait_end(up);
    if (rc != 0) {
        LOG(UPSTREAM_ERROR, &up->task->job.rid, KV_S("model", up->dep->model_name), KV_ERR(e));
        (void)err_set(&told, rc, "%s (model group '%s')", err_info(rc)->text, up->dep->model_name);
    }
    REQUIRE(up->depth == 0);
    up_free(up);
    on_done(ctx, rc, &told);
}

/* --- the request --- */

static const char *method_name(enum msg_method m)
{
    switch (m) {
    case MSG_METHOD_GET:
        return "GET";
    case MSG_METHOD_HEAD:
        return "HEAD";
    case MSG_METHOD_POST:
        return "POST";
    case MSG_METHOD_PUT:
        return "PUT";
    case MSG_METHOD_PATCH:
        return "PATCH";
    case MSG_METHOD_DELETE:
        return "DELETE";
    case MSG_METHOD_OPTIONS:
        return "OPTIONS";
    case MSG_METHOD_OTHER:
        break;
    }
    return NULL;
}

/* Header lines in the pool's scratch, one after the other with a NUL each. Lines are found again by
 * offset, because the storage may move while it grows. */
struct lines {
    struct bytes *text;
    unsigned count;
    size_t at[HEADER_LINES_MAX];
};

static void line(struct lines *l, const char *name, struct str_view value)
{
    if (l->count >= HEADER_LINES_MAX) {
        return;
    }
    l->at[l->count++] = l->text->n;
    (void)bytes_put_str(l->text, name);
    (void)bytes_put_sv(l->text, value);
    (void)bytes_put_char(l->text, '\0');
}

static void put_lines(struct lines *l, const struct wk_up *up)
{
    const struct cfg_deployment *d = up->dep;
    struct str_view block = buf_view(up->task->job.headers);
    struct str_view k;
    struct str_view v;
    size_t at = 0;

    line(l, "User-Agent: cofferdam/" CFD_VERSION, (struct str_view){NULL, 0});
    line(l, up->is_stream ? "Accept: text/event-stream" : "Accept: application/json",
         (struct str_view){NULL, 0});
    if (d->api_key != NULL) {
        line(l, "Authorization: Bearer ", secret_view(d->api_key));
    }
    if (d->organization != NULL) {
        line(l, "OpenAI-Organization: ", sv_of(d->organization));
    }
    if (up->slice_count > 0) {
        line(l, "Content-Type: ", up->content_type);
    }
    while (wk_headers_next(block, &at, &k, &v)) {
        if (wk_headers_is_forwarded(k) && l->count < HEADER_LINES_MAX) {
            l->at[l->count++] = l->text->n;
            (void)bytes_put_sv(l->text, k);
            (void)bytes_put(l->text, ": ", 2);
            (void)bytes_put_sv(l->text, v);
            (void)bytes_put_char(l->text, '\0');
        }
    }
    for (char **h = d->headers; h != NULL && *h != NULL; h++) {
        line(l, *h, (struct str_view){NULL, 0});
    }
}

static unsigned min_set(unsigned a, unsigned b)
{
    return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

static void set_timeouts(struct uvcurl_req *req, const struct wk_up *up)
{
    const struct cfg *cfg = up->task->job.cfg;
    const struct cfg_deployment *d = up->dep;
    unsigned whole = d->timeout_ms != 0 ? d->timeout_ms : cfg->request_timeout_ms;

    req->connect_ms = (unsigned)cfg->up_connect_ms;
    req->idle_ms = (unsigned)cfg->up_idle_ms;
    if (up->is_stream) { /* a stream may last: the first byte and the gaps are what is timed */
        req->first_byte_ms = min_set((unsigned)cfg->up_first_byte_ms,
                                     d->stream_timeout_ms != 0 ? d->stream_timeout_ms : whole);
    } else {
        req->first_byte_ms = (unsigned)cfg->up_first_byte_ms;
        req->total_ms = whole;
    }
}

static unsigned put_body(struct uvcurl_slice *dst, struct wk_up *up)
{
    unsigned n = 0;

    for (unsigned i = 0; i < up->slice_count; i++) {
        if (up->slices[i].n > 0) {
            dst[n++].bytes = up->slices[i];
        }
        if ((int)i == up->model_after) {
            dst[n++].bytes = sv_from(up->model.p, up->model.n);
        }
    }
    return n;
}

static int put_model(struct wk_up *up)
{
    struct bytes name = {0};
    int rc;

    if (up->model_after < 0) {
        return 0;
    }
    bytes_reset(&up->model);
    if (sv_find(sv_of(up->dep->model), '*') == strlen(up->dep->model)) {
        return bytes_put_json_str(&up->model, sv_of(up->dep->model));
    }
    if ((rc = wk_deploy_model(up->dep, sv_from(up->asked, up->asked_n), &name)) == 0) {
        rc = bytes_put_json_str(&up->model, sv_from(name.p, name.n));
    }
    bytes_fini(&name);
    return rc;
}

static void on_xfer_head(void *ctx, int status, struct str_view headers);
static void on_xfer_data(void *ctx, struct str_view data);
static void on_xfer_done(void *ctx, int rc, const struct err *e);

static int start_try(struct wk_up *up, struct err *e)
{
    struct wk_pool *p = up->task->job.pool;
    struct uvcurl_hooks hooks = {on_xfer_head, on_xfer_data, on_xfer_done, up};
    struct uvcurl_slice body[UP_SLICES_MAX + 1];
    const char *headers[HEADER_LINES_MAX + 1];
    struct uvcurl_req req = {.method = method_name(up->method), .headers = headers, .body = body};
    struct lines l = {.text = &p->text};
    int rc;

    up->dep = wk_pick_next(&up->pick, clock_ms());
    up->tries++;
    up->state = UP_TRYING;
    up->try_from_us = clock_us();
    if ((rc = put_model(up)) != 0) {
        return err_set(e, rc, NULL);
    }
    bytes_reset(&p->text);
    (void)bytes_put_str(&p->text, up->dep->api_base);
    (void)bytes_put_str(&p->text, up->path);
    (void)bytes_put_char(&p->text, '\0');
    put_lines(&l, up);
    if (p->text.rc != 0) {
        return err_set(e, p->text.rc, NULL);
    }
    for (unsigned i = 0; i < l.count; i++) {
        headers[i] = p->text.p + l.at[i];
    }
    headers[l.count] = NULL;
    req.url = p->text.p;
    req.body_count = put_body(body, up);
    req.ca_file = up->dep->ca_file;
    req.is_once = !up->is_repeatable; /* libcurl must not send it twice either */
    set_timeouts(&req, up);
    rc = uvcurl_start(p->curl, &up->xfer, &req, &hooks, e);
    mem_wipe(p->text.p, p->text.n); /* it held the key */
    return rc;
}

/* --- deciding --- */

static bool decide(struct wk_up *up, int rc, int status, struct str_view headers)
{
    struct wk_job *job = &up->task->job;
    uint64_t now = clock_ms();
    struct wk_retry_in in = {.rc = rc,
                             .status = status,
                             .headers = headers,
                             .tries = up->tries,
                             .tries_max = up->tries_max,
                             .left_ms = wk_job_time_left(job),
                             .is_repeatable = up->is_repeatable,
                             .has_other = wk_pick_has_other(&up->pick, now),
                             .random = wk_pool_random(job->pool),
                             .now_unix_ms = clock_unix_ms()};
    bool is_bad = rc != 0 || status == 408 || status == 429 || status >= 500 || status == 401;

    wk_pick_note(&up->pick, up->dep, !is_bad, now);
    return (rc != 0 || status >= 400) && wk_retry_decide(&in, &up->retry_delay_ms);
}

static void on_xfer_head(void *ctx, int status, struct str_view headers)
{
    struct wk_up *up = ctx;

    wait_end(up);
    metric_observe_us(METRIC_WK_OPERATION, operation(&up->task->job), NULL,
                      clock_us() - up->try_from_us);
    if (decide(up, 0, status, headers)) {
        up->state = UP_SAVING;
        up->saved_status = status;
        bytes_reset(&up->saved_head);
        bytes_reset(&up->saved_body);
        (void)bytes_put_sv(&up->saved_head, headers);
        wait_begin(up);
        return;
    }
    up->state = UP_PASSING;
    if (give_head(up, status, headers)) {
        wait_begin(up);
    }
}

/* The saved answer is what the client gets. False when a hook cancelled. */
static bool replay(struct wk_up *up)
{
    up->state = UP_PASSING;
    up->depth++; /* one hold over both hooks */
    bool is_alive =
        give_head(up, up->saved_status, sv_from(up->saved_head.p, up->saved_head.n)) &&
        (up->saved_body.n == 0 || give_data(up, sv_from(up->saved_body.p, up->saved_body.n)));
    (void)is_alive;
    return leave_hook(up);
}

static void on_xfer_data(void *ctx, struct str_view data)
{
    struct wk_up *up = ctx;

    if (up->is_finishing) {
        return;
    }
    if (up->state == UP_SAVING) {
        if (data.n <= SAVED_MAX - up->saved_body.n) {
            (void)bytes_put_sv(&up->saved_body, data);
            return;
        }
        if (!replay(up)) { /* too large to wait with */
            return;
        }
    }
    wait_end(up);
    if (give_data(up, data)) {
        wait_begin(up);
    }
}

static void retry_later(struct wk_up *up, int status, const struct err *e)
{
    struct wk_pool *p = up->task->job.pool;

    metric_add(METRIC_WK_UPSTREAM_RETRIES, NULL, NULL, 1);
    LOG(UPSTREAM_RETRY, &up->task->job.rid, KV_S("model", up->dep->model_name),
        KV_I("status", status), KV_S("err", e != NULL && e->code != 0 ? err_name(e->code) : "none"),
        KV_U("delay_ms", up->retry_delay_ms));
    up->state = UP_WAITING;
    wait_begin(up);
    if (wk_timer_set(&p->timers, &up->timer, clock_ms() + up->retry_delay_ms,
                     start_try_from_timer) != 0) {
        struct err nomem = {0};
        (void)err_set(&nomem, ERR_NOMEM, NULL);
        give_done(up, ERR_NOMEM, &nomem);
    }
}

/* A try failed without an answer, and there will be no other. */
static void give_up(struct wk_up *up, int rc, const struct err *e)
{
    struct err ok = {0};

    if (up->saved_status == 0) {
        give_done(up, rc, e);
    } else if (replay(up)) {
        give_done(up, 0, &ok);
    }
}

static void after_failure(struct wk_up *up, int rc, const struct err *e)
{
    if (rc != ERR_LIMIT && rc != ERR_NOMEM && decide(up, rc, 0, (struct str_view){NULL, 0})) {
        retry_later(up, 0, e);
        return;
    }
    give_up(up, rc, e);
}

static void on_xfer_done(void *ctx, int rc, const struct err *e)
{
    struct wk_up *up = ctx;

    up->xfer = NULL;
    wait_end(up);
    switch (up->state) {
    case UP_TRYING:
        after_failure(up, rc != 0 ? rc : ERR_UPSTREAM_BAD, e);
        return;
    case UP_SAVING:
        retry_later(up, up->saved_status, e); /* also when its body was cut: the decision stands */
        return;
    case UP_PASSING:
        wk_timer_stop(&up->task->job.pool->timers, &up->timer);
        give_done(up, up->is_finishing || up->is_settled ? 0 : rc, e);
        return;
    case UP_WAITING:
        break;
    }
    INVARIANT(up->state != UP_WAITING);
}

static void start_try_from_timer(struct wk_timer *t)
{
    struct wk_up *up = CONTAINER_OF(t, struct wk_up, timer);
    struct err e = {0};
    int rc = start_try(up, &e);

    if (rc != 0) {
        give_up(up, rc, &e);
    }
}

/* --- what handlers call
 * ------------------------------------------------------------------------------------------------
 * */

static int fill(struct wk_up *up, const struct wk_up_req *req, struct err *e)
{
    struct wk_task *t = up->task;
    const struct cfg *cfg = t->job.cfg;
    struct wk_dep *deps = cfg == t->job.pool->cfg ? t->job.pool->deps : NULL;
    int retries = cfg->num_retries;

    if (req->only != NULL) {
        wk_pick_init_one(&up->pick, cfg, deps, req->only);
    } else if (wk_pick_init(&up->pick, cfg, deps, req->model, req->provider_only) == 0) {
        return err_set_param(e, ERR_MODEL_NOT_FOUND, "model",
                             "The model '%.*s' does not exist or you do not have access to it.",
                             (int)req->model.n, req->model.p);
    }
    if (method_name(req->method) == NULL) {
        return err_set(e, ERR_METHOD, "Use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.");
    }
    if (up->pick.count == 1 && cfg->deployments[up->pick.index[0]].max_retries >= 0) {
        retries = cfg->deployments[up->pick.index[0]].max_retries;
    }
    REQUIRE(req->body_count < UP_SLICES_MAX);
    for (unsigned i = 0; i < req->body_count; i++) {
        up->slices[i] = req->body[i];
    }
    up->slice_count = req->body_count;
    up->model_after = req->body_count > 0 ? req->model_after : -1;
    up->method = req->method;
    up->is_stream = req->is_stream;
    up->is_repeatable = t->job.kind != MSG_KIND_OBJECT || req->method == MSG_METHOD_GET ||
                        req->method == MSG_METHOD_HEAD;
    up->tries_max = retries > 0 ? (unsigned)retries + 1 : 1;
    up->content_type = req->content_type.n > 0 ? req->content_type : SV_LIT("application/json");
    return 0;
}

int wk_up_start(struct wk_job *job, struct wk_up **ret, const struct wk_up_req *req,
                const struct wk_up_hooks *hooks, struct err *e)
{
    size_t path_n = strlen(req->path) + 1;
    struct wk_up *up = mem_alloc(sizeof(*up) + path_n + req->model.n);
    int rc;

    if (up == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    memset(up, 0, sizeof(*up));
    memcpy(up->path, req->path, path_n);
    if (req->model.n > 0) {
        memcpy(up->path + path_n, req->model.p, req->model.n);
    }
    up->asked = up->path + path_n;
    up->asked_n = req->model.n;
    up->task = wk_task_of(job);
    up->hooks = *hooks;
    if ((rc = fill(up, req, e)) != 0 || (rc = start_try(up, e)) != 0) {
        up_free(up);
        return rc;
    }
    wait_begin(up);
    *ret = up;
    return 0;
}

void wk_up_pause(struct wk_up *up)
{
    if (up->xfer != NULL) {
        uvcurl_pause(up->xfer);
    }
}

void wk_up_resume(struct wk_up *up)
{
    if (up->xfer != NULL) {
        uvcurl_resume(up->xfer);
    }
}

static void finish_from_timer(struct wk_timer *t)
{
    struct wk_up *up = CONTAINER_OF(t, struct wk_up, timer);
    struct err ok = {0};

    uvcurl_cancel(up->xfer);
    up->xfer = NULL;
    give_done(up, 0, &ok);
}

void wk_up_finish(struct wk_up *up)
{
    REQUIRE(up->state == UP_PASSING);
    if (up->is_finishing) {
        return;
    }
    up->is_finishing = true;
    if (up->xfer != NULL) { /* else it has ended already; without memory the idle timeout ends it */
        (void)wk_timer_set(&up->task->job.pool->timers, &up->timer, clock_ms() + FINISH_GRACE_MS,
                           finish_from_timer);
        uvcurl_resume(up->xfer);
    }
}

void wk_up_settle(struct wk_up *up)
{
    up->is_settled = true;
}

void wk_up_cancel(struct wk_up *up)
{
    wk_timer_stop(&up->task->job.pool->timers, &up->timer);
    wait_end(up);
    if (up->xfer != NULL) {
        uvcurl_cancel(up->xfer);
        up->xfer = NULL;
    }
    up->is_cancelled = true;
    if (up->depth == 0) {
        up_free(up);
    }
}

const struct cfg_deployment *wk_up_deployment(const struct wk_up *up)
{
    return up->dep;
}
