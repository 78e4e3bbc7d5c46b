/* wk_fast.c - the fast path: the client's bytes go to the provider with the model name replaced
 * (and reserved fields cut), the answer comes back byte for byte. wk_route has scanned the body
 * just now: pool->scan. */
#include "wk_pass.h"
#include "wk_pool.h"

static const struct wk_handler_ops fast_ops = {"fast", wk_pass_on_cancel, wk_pass_on_writable};

/* The body as slices; *ret_model_after as in wk_up_req. Returns their number, 0 on out of memory.
 * */
static unsigned make_slices(struct wk_pass *p, const struct wk_scan *scan, int *ret_model_after)
{
    struct str_view body = buf_view(p->job->body);
    unsigned n = wk_scan_slices(scan, body, p->slices, WK_PASS_SLICES, ret_model_after);
    long at;

    if (n <= WK_PASS_SLICES) {
        return n;
    }
    if (wk_scan_rebuild(scan, body, &p->rebuilt, &at) != 0 || at < 0) {
        return 0;
    }
    p->slices[0] = sv_from(p->rebuilt.p, (size_t)at);
    p->slices[1] = sv_from(p->rebuilt.p + at, p->rebuilt.n - (size_t)at);
    *ret_model_after = 0;
    return 2;
}

void wk_fast_start(struct wk_job *job)
{
    const struct wk_scan *scan = &job->pool->scan;
    struct wk_pass *p = wk_pass_new(job, &fast_ops);
    struct wk_up_req req = {.model = job->pool->model,
                            .method = job->method,
                            .is_stream = scan->type[WK_KEY_STREAM] == WK_JSON_TRUE};
    struct err e = {0};

    if (p == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        wk_job_refuse(job, &e);
        return;
    }
    if (wk_job_target(job, &req.path, &e) != 0) {
        wk_pass_refuse(p, &e);
        return;
    }
    req.body = p->slices;
    if ((req.body_count = make_slices(p, scan, &req.model_after)) == 0) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        wk_pass_refuse(p, &e);
        return;
    }
    wk_pass_start(p, &req);
}
