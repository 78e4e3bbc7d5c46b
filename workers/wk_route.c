/* wk_route.c - which handler takes a job. Bodies are checked here, with messages that name the
 * field. */
#include <stdio.h>

#include "wk_headers.h"
#include "wk_pass.h"
#include "wk_pool.h"
#include "wk_route.h"

#define DEPLOYMENTS_MAX 64

static const char *json_type_name(enum wk_json t)
{
    switch (t) {
    case WK_JSON_NULL:
        return "null";
    case WK_JSON_FALSE:
    case WK_JSON_TRUE:
        return "a boolean";
    case WK_JSON_NUMBER:
        return "a number";
    case WK_JSON_STRING:
        return "a string";
    case WK_JSON_OBJECT:
        return "an object";
    case WK_JSON_ARRAY:
        return "an array";
    case WK_JSON_ABSENT:
        break;
    }
    return "nothing";
}

static bool is_listed(char *const *names, const char *name)
{
    if (names == NULL) {
        return true;
    }
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

bool wk_route_is_intercepted(const struct cfg *cfg, struct str_view model)
{
    unsigned index[DEPLOYMENTS_MAX];
    unsigned n;

    if (!cfg->interception_enabled) {
        return false;
    }
    n = cfg_find_deployments(cfg, model, index, DEPLOYMENTS_MAX);
    for (unsigned i = 0; i < n; i++) {
        if (is_listed(cfg->interception_providers, cfg->deployments[index[i]].provider)) {
            return true;
        }
    }
    return false;
}

static int check_model_type(const struct wk_scan *scan, struct err *e)
{
    if (scan->type[WK_KEY_MODEL] == WK_JSON_ABSENT) {
        return err_set_param(e, ERR_MISSING_PARAM, "model", "Missing required parameter: 'model'.");
    }
    if (scan->type[WK_KEY_MODEL] != WK_JSON_STRING) {
        return err_set_param(e, ERR_INVALID_TYPE, "model",
                             "Invalid type for 'model': expected a string, but got %s instead.",
                             json_type_name(scan->type[WK_KEY_MODEL]));
    }
    return 0;
}

int wk_route_model(const struct cfg *cfg, const struct wk_scan *scan, struct str_view body,
                   char dst[WK_MODEL_NAME_MAX], struct str_view *ret, struct err *e)
{
    struct wk_span span = scan->value[WK_KEY_MODEL];
    unsigned index;
    size_t n;
    int rc;

    if ((rc = check_model_type(scan, e)) != 0) {
        return rc;
    }
    if (wk_scan_string(sv_from(body.p + span.at, span.n), dst, WK_MODEL_NAME_MAX, &n) != 0) {
        return err_set_param(
            e, ERR_MODEL_NOT_FOUND, "model",
            "The model name is longer than any configured one; GET /v1/models lists them.");
    }
    *ret = sv_from(dst, n);
    if (cfg_find_deployments(cfg, *ret, &index, 1) == 0) {
        return err_set_param(
            e, ERR_MODEL_NOT_FOUND, "model",
            "The model '%.*s' does not exist or you do not have access to it; GET /v1/models "
            "lists what is configured.",
            (int)n, dst);
    }
    return 0;
}

/* A body that is not JSON, e.g. a multipart upload. */
static bool is_other_content(const struct wk_job *job)
{
    struct str_view type;

    if (!wk_headers_find(buf_view(job->headers), "content-type", &type)) {
        return false;
    }
    type = sv_trim(sv_from(type.p, sv_find(type, ';')));
    return !sv_eq_nocase(type, SV_LIT("application/json"));
}

static void start_model(struct wk_job *job)
{
    struct wk_scan *scan = &job->pool->scan;
    struct str_view body = buf_view(job->body);
    struct str_view *model = &job->pool->model;
    char name[WK_MODEL_NAME_MAX];
    struct err e = {0};

    if (wk_scan_body(scan, body, &e) != 0 ||
        wk_route_model(job->cfg, scan, body, name, model, &e) != 0) {
        wk_job_refuse(job, &e);
        return;
    }
    if ((job->kind == MSG_KIND_RESPONSES || job->kind == MSG_KIND_CHAT) &&
        scan->has_code_interpreter && wk_route_is_intercepted(job->cfg, *model)) {
        wk_icept_start(job);
        return;
    }
    wk_fast_start(job);
}

void wk_route_start(struct wk_task *t)
{
    struct wk_job *job = &t->job;

    switch (job->kind) {
    case MSG_KIND_SANDBOX:
        wk_sandbox_start(job);
        return;
    case MSG_KIND_OBJECT:
        wk_object_start(job);
        return;
    case MSG_KIND_MODEL:
        if (is_other_content(job)) {
            wk_object_start(job);
            return;
        }
        start_model(job);
        return;
    case MSG_KIND_RESPONSES:
    case MSG_KIND_CHAT:
        start_model(job);
        return;
    }
}
