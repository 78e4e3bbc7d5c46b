/* wk_object.c - provider objects by id (/v1/responses/{id}..., /v1/files...), and bodies that are
 * not JSON: method, target and body untouched.
 *
 * Which provider: `?model=NAME` or the header x-cofferdam-model names a configured model; else the
 * first deployment of provider openai, else the first deployment. Objects belong to the provider's
 * account, so everybody who may use the gateway shares them. */
#include "wk_headers.h"
#include "wk_pass.h"
#include "wk_pool.h"

static const struct wk_handler_ops object_ops = {"object", wk_pass_on_cancel, wk_pass_on_writable};

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decodes into dst; false when it does not fit or is malformed. */
static bool decode(struct str_view s, char *dst, size_t cap, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            if (s.n - i < 3 || hex(s.p[i + 1]) < 0 || hex(s.p[i + 2]) < 0) {
                return false;
            }
            c = (char)(hex(s.p[i + 1]) * 16 + hex(s.p[i + 2]));
            i += 2;
        }
        if (n >= cap) {
            return false;
        }
        dst[n++] = c;
    }
    *ret_n = n;
    return true;
}

/* Value of ?model= in the target, decoded; false when there is none. */
static bool query_model(const char *path, char *dst, size_t cap, struct str_view *ret)
{
    struct str_view q = sv_of(strchr(path, '?'));
    size_t n;

    while (q.n > 1) {
        q = sv_from(q.p + 1, q.n - 1);
        struct str_view pair = sv_from(q.p, sv_find(q, '&'));
        if (sv_starts(pair, SV_LIT("model="))) {
            if (!decode(sv_from(pair.p + 6, pair.n - 6), dst, cap, &n)) {
                return false;
            }
            *ret = sv_from(dst, n);
            return true;
        }
        q = sv_from(q.p + pair.n, q.n - pair.n);
    }
    return false;
}

/* Any deployment with this one's provider settings would do: the group of the first openai one. */
static const struct cfg_deployment *default_deployment(const struct cfg *cfg)
{
    for (unsigned i = 0; i < cfg->deployment_count; i++) {
        if (strcmp(cfg->deployments[i].provider, "openai") == 0) {
            return &cfg->deployments[i];
        }
    }
    return cfg->deployment_count > 0 ? &cfg->deployments[0] : NULL;
}

static int pick(struct wk_job *job, struct wk_up_req *req, char *dst, size_t cap, struct err *e)
{
    const struct cfg_deployment *d;
    unsigned index;

    if (query_model(job->path, dst, cap, &req->model) ||
        wk_headers_find(buf_view(job->headers), "x-cofferdam-model", &req->model)) {
        if (cfg_find_deployments(job->cfg, req->model, &index, 1) == 0) {
            return err_set_param(e, ERR_MODEL_NOT_FOUND, "model",
                                 "The model '%.*s' does not exist or you do not have access to it.",
                                 (int)(req->model.n > 256 ? 256 : req->model.n), req->model.p);
        }
        return 0;
    }
    if ((d = default_deployment(job->cfg)) == NULL) {
        return err_set(e, ERR_NOT_FOUND, "No model is configured, so there is no provider to ask.");
    }
    req->only = d;
    return 0;
}

void wk_object_start(struct wk_job *job)
{
    struct wk_pass *p = wk_pass_new(job, &object_ops);
    struct wk_up_req req = {.method = job->method, .model_after = -1};
    struct err e = {0};
    char model[256];

    if (p == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        wk_job_refuse(job, &e);
        return;
    }
    if (wk_job_target(job, &req.path, &e) != 0 || pick(job, &req, model, sizeof(model), &e) != 0) {
        wk_pass_refuse(p, &e);
        return;
    }
    if (job->body != NULL) {
        p->slices[0] = buf_view(job->body);
        req.body = p->slices;
        req.body_count = 1;
        (void)wk_headers_find(buf_view(job->headers), "content-type", &req.content_type);
    }
    wk_pass_start(p, &req);
}
