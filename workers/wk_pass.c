/* wk_pass.c - see wk_pass.h. */
#include "wk_pass.h"

#include "base/log.h"
#include "base/mem.h"
#include "wk_headers.h"
#include "wk_pool.h"

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
        job->handler = p;
        job->ops = ops;
    }
    return p;
}

static void pass_free(struct wk_pass *p)
{
    p->job->handler = NULL;
    bytes_fini(&p->rebuilt);
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
    } else {
        (void)wk_headers_length(headers, &head.length);
    }
    head.processing_ms = (uint32_t)(wk_task_waited_us(wk_task_of(p->job)) / 1000);
    wk_out_head(p->job, &head);
}

static void on_data(void *ctx, struct str_view data)
{
    struct wk_pass *p = ctx;

    if (!wk_out_write(p->job, data)) {
        wk_up_pause(p->up);
    }
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct wk_pass *p = ctx;
    struct wk_job *job = p->job;

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
