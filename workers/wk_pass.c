/* wk_pass.c - see wk_pass.h. */
#include "wk_pass.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "wk_headers.h"
#include "wk_pool.h"
#include "wk_redact.h"

static void refused_cancel(struct wk_job *job, int code)
{
    (void)code;
    wk_job_done(job, MSG_OUTCOME_CANCELLED);
}

static void refused_writable(struct wk_job *job)
{
    (void)job;
}

void wk_job_refuse(struct wk_job *job, const struct err *e)
{
    static const struct wk_handler_ops ops = {"none", refused_cancel, refused_writable};

    if (job->ops == NULL) {
        job->ops = &ops;
    }
    wk_out_error(job, e);
    wk_job_done(job, MSG_OUTCOME_ERROR);
}

/* "." and "..", also percent-encoded, would leave api_base once a URL is normalised. */
static bool is_dot_segment(struct str_view s)
{
    unsigned dots = 0;

    while (s.p != NULL && s.n > 0) {
        size_t step = 0;
        if (s.p[0] == '.') {
            step = 1;
        } else if (s.n >= 3 && s.p[0] == '%' && s.p[1] == '2' && (s.p[2] == 'e' || s.p[2] == 'E')) {
            step = 3;
        } else {
            return false;
        }
        dots++;
        s.p += step;
        s.n -= step;
    }
    return dots == 1 || dots == 2;
}

int wk_job_target(const struct wk_job *job, const char **ret, struct err *e)
{
    struct str_view path = sv_of(job->path);
    struct str_view segments;

    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] <= 0x20 || path.p[i] == 0x7F || path.p[i] == '\\' || path.p[i] == '#') {
            return err_set(e, ERR_BAD_REQUEST,
                           "The request target has characters that must be percent-encoded.");
        }
    }
    segments = sv_from(path.p, sv_find(path, '?'));
    while (segments.n > 0) {
        size_t n = sv_find(segments, '/');
        if (is_dot_segment(sv_from(segments.p, n))) {
            return err_set(e, ERR_NOT_FOUND,
                           "The request target must not contain '.' or '..' segments.");
        }
        if (n == segments.n) {
            break;
        }
        segments = sv_from(segments.p + n + 1, segments.n - n - 1);
    }
    *ret = job->path;
    if (sv_starts(path, SV_LIT("/v1/")) || sv_eq(path, SV_LIT("/v1"))) {
        *ret = job->path + 3;
    }
    return 0;
}

struct wk_pass *wk_pass_new(struct wk_job *job, const struct wk_handler_ops *ops)
{
    struct wk_pass *p = mem_zalloc(sizeof(*p));

    if (p != NULL) {
        p->job = job;
        p->stream = job->kind == MSG_KIND_RESPONSES || job->kind == MSG_KIND_OBJECT
                        ? MSG_STREAM_RESPONSES
                    : job->kind == MSG_KIND_CHAT ? MSG_STREAM_CHAT
                                                 : MSG_STREAM_NONE;
        bytes_init(&p->rebuilt, (size_t)MSG_PAYLOAD_MAX);
        bytes_init(&p->held, (size_t)MSG_PAYLOAD_MAX);
        job->handler = p;
        job->ops = ops;
    }
    return p;
}

static void pass_free(struct wk_pass *p)
{
    p->job->handler = NULL;
    wk_timer_stop(&p->job->pool->timers, &p->linger);
    bytes_fini(&p->rebuilt);
    bytes_fini(&p->held);
    mem_free(p);
}

static void on_head(void *ctx, int status, struct str_view headers)
{
    struct wk_pass *p = ctx;
    struct wk_pool *pool = p->job->pool;
    struct wk_head head = {
        .status = status, .length = MSG_LENGTH_UNKNOWN, .stream = MSG_STREAM_NONE};

    bytes_reset(&pool->text);
    (void)wk_headers_filter(headers, &pool->text);
    head.headers = sv_from(pool->text.p, pool->text.n);
    if (status == 204 || status == 304) {
        head.length = 0;
    } else if (wk_headers_is_event_stream(headers)) {
        head.stream = p->stream;
        p->is_stream = p->stream != MSG_STREAM_NONE;
    } else {
        (void)wk_headers_length(headers, &head.length);
    }
    if (status / 100 != 2) {
        p->key_max = wk_redact_longest(p->job->cfg);
    }
    if (p->key_max > 0 && head.length != 0 && p->job->method != MSG_METHOD_HEAD) {
        head.length = MSG_LENGTH_UNKNOWN; /* it may change */
    }
    head.processing_ms = (uint32_t)(wk_task_waited_us(wk_task_of(p->job)) / 1000);
    wk_out_head(p->job, &head);
}

/* --- an error answer without the operator's keys --- */

/* Adds to what is held. On out of memory nothing of it may be told. */
static int hold(struct wk_pass *p, struct str_view data)
{
    struct bytes clean = {.cap_max = p->held.cap_max};
    int rc = bytes_put_sv(&p->held, data);

    if (rc == 0 && wk_redact_is_needed(p->job->cfg, sv_from(p->held.p, p->held.n))) {
        rc = wk_redact(p->job->cfg, sv_from(p->held.p, p->held.n), &clean);
        bytes_fini(&p->held);
        p->held = clean;
    }
    return rc;
}

/* The answer could not be kept clean: it ends here. */
static void give_up(struct wk_pass *p)
{
    struct wk_job *job = p->job;
    struct err e = {0};

    (void)err_set(&e, ERR_NOMEM, NULL);
    wk_up_cancel(p->up);
    pass_free(p);
    wk_out_abort(job, &e);
    wk_job_done(job, MSG_OUTCOME_ERROR);
}

/* All but the last bytes, in which a key may begin. */
static void on_error_data(struct wk_pass *p, struct str_view data)
{
    size_t n;
    bool is_writable;

    if (hold(p, data) != 0) {
        give_up(p);
        return;
    }
    if (p->held.n < p->key_max) {
        return;
    }
    n = p->held.n - (p->key_max - 1);
    is_writable = wk_out_write(p->job, sv_from(p->held.p, n));
    bytes_drop(&p->held, n);
    if (!is_writable) {
        wk_up_pause(p->up);
    }
}

/* --- the body --- */

static void on_lingered(struct wk_timer *t)
{
    struct wk_pass *p = CONTAINER_OF(t, struct wk_pass, linger);
    struct wk_job *job = p->job;

    wk_up_cancel(p->up);
    pass_free(p);
    wk_out_finish(job);
    wk_job_done(job, MSG_OUTCOME_OK);
}

static void watch_end(struct wk_pass *p, struct str_view data)
{
    if (p->ending.is_complete || !wk_ending_feed(&p->ending, p->stream, data)) {
        return;
    }
    wk_up_settle(p->up);
    /* Without memory for a timer the provider's own end is waited for. */
    (void)wk_timer_set(&p->job->pool->timers, &p->linger, clock_ms() + WK_PASS_LINGER_MS,
                       on_lingered);
}

static void on_data(void *ctx, struct str_view data)
{
    struct wk_pass *p = ctx;

    if (p->key_max > 0) {
        on_error_data(p, data);
        return;
    }
    if (p->is_stream) {
        watch_end(p, data);
    }
    if (!wk_out_write(p->job, data)) {
        wk_up_pause(p->up);
    }
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct wk_pass *p = ctx;
    struct wk_job *job = p->job;

    if (p->held.n > 0) {
        (void)wk_out_write(job, sv_from(p->held.p, p->held.n));
    }
    pass_free(p);
    if (rc == 0) {
        wk_out_finish(job);
    } else if (wk_out_is_started(job)) {
        wk_out_abort(job, e);
    } else {
        wk_out_error(job, e);
    }
    wk_job_done(job, rc == 0 ? MSG_OUTCOME_OK : MSG_OUTCOME_ERROR);
}

void wk_pass_start(struct wk_pass *p, const struct wk_up_req *req)
{
    struct wk_up_hooks hooks = {on_head, on_data, on_done, p};
    struct err e = {0};

    if (wk_up_start(p->job, &p->up, req, &hooks, &e) != 0) {
        wk_pass_refuse(p, &e);
    }
}

void wk_pass_refuse(struct wk_pass *p, const struct err *e)
{
    struct wk_job *job = p->job;

    pass_free(p);
    wk_job_refuse(job, e);
}

void wk_pass_on_cancel(struct wk_job *job, int code)
{
    struct wk_pass *p = job->handler;

    (void)code;
    wk_up_cancel(p->up);
    pass_free(p);
    wk_job_done(job, MSG_OUTCOME_CANCELLED);
}

void wk_pass_on_writable(struct wk_job *job)
{
    struct wk_pass *p = job->handler;

    wk_up_resume(p->up);
}
