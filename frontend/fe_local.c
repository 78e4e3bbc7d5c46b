#include "fe_local.h"

#include "base/clock.h"
#include "base/log.h"
#include "fe_app.h"

#define MODEL_ID_CAP 1024

static void put_model(struct bytes *out, struct str_view id, uint64_t created_s)
{
    bytes_put_str(out, "{\"id\":");
    bytes_put_json_str(out, id);
    bytes_put_str(out, ",\"object\":\"model\",\"created\":");
    bytes_put_u64(out, created_s);
    bytes_put_str(out, ",\"owned_by\":\"cofferdam\"}");
}

struct buf *fe_local_models(const struct cfg *cfg, uint64_t created_s)
{
    struct bytes out = {0};
    struct buf *b = NULL;

    bytes_put_str(&out, "{\"object\":\"list\",\"data\":[");
    for (char **name = cfg->model_names; name != NULL && *name != NULL; name++) {
        if (name != cfg->model_names) {
            bytes_put_char(&out, ',');
        }
        put_model(&out, sv_of(*name), created_s);
    }
    bytes_put_str(&out, "]}");
    if (out.rc == 0) {
        b = buf_from_bytes(&out);
    }
    bytes_fini(&out);
    return b;
}

static void answer_json(struct fe_conn *c, int status, struct str_view body)
{
    struct fe_answer a = {.status = status, .content_type = "application/json"};

    fe_conn_answer_text(c, &a, body);
}

static void on_model(struct fe_conn *c, const struct fe_http_head *head)
{
    char id[MODEL_ID_CAP];
    struct bytes out = {0};
    struct err e = {0};
    bool is_known = false;

    if (!fe_route_model_id(head->target.path, id, sizeof(id))) {
        (void)sv_copy(id, sizeof(id), SV_LIT("?"));
    }
    for (char **name = c->fe->cfg->model_names; name != NULL && *name != NULL && !is_known;
         name++) {
        is_known = strcmp(*name, id) == 0;
    }
    if (!is_known) {
        err_set_param(&e, ERR_MODEL_NOT_FOUND, "model",
                      "The model '%.200s' does not exist. See GET /v1/models.", id);
        fe_conn_error(c, &e);
        return;
    }
    put_model(&out, sv_of(id), c->fe->models_created_s);
    answer_json(c, 200, sv_from(out.p, out.n));
    bytes_fini(&out);
}

static void on_ready(struct fe_conn *c)
{
    struct fe *fe = c->fe;
    struct bytes out = {0};
    unsigned up = 0;
    uint32_t workers = 0;
    uint32_t sandboxds = 0;
    const char *sep = "";
    bool is_ready = true;
    const char *missing[4] = {NULL};
    unsigned n = 0;

    fe_links_counts(fe, &up, &workers, &sandboxds);
    if (up == 0) {
        missing[n++] = "broker";
    }
    if (workers == 0) {
        missing[n++] = "worker";
    }
    if (fe->cfg->interception_enabled && sandboxds == 0) {
        missing[n++] = "sandboxd";
    }
    is_ready = n == 0 && !fe->is_draining;
    bytes_printf(&out,
                 "{\"status\":\"%s\",\"brokers\":%u,\"workers\":%u,\"sandboxds\":%u,\"missing\":[",
                 is_ready          ? "ready"
                 : fe->is_draining ? "draining"
                                   : "not_ready",
                 up, (unsigned)workers, (unsigned)sandboxds);
    for (unsigned i = 0; i < n; i++, sep = ",") {
        bytes_printf(&out, "%s\"%s\"", sep, missing[i]);
    }
    bytes_put_str(&out, "]}");
    answer_json(c, is_ready ? 200 : 503, sv_from(out.p, out.n));
    bytes_fini(&out);
}

static void on_page(struct fe_conn *c)
{
    static const char page[] =
        "<!doctype html><html lang=\"en\"><head><meta "
        "charset=\"utf-8\"><title>Cofferdam</title><style>"
        "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 "
        "1rem;color:#222}"
        "pre{background:#f4f4f4;padding:1rem;overflow:auto;border-radius:4px}a{color:#0645ad}</"
        "style></head><body>"
        "<h1>Cofferdam</h1><p><a href=\"/status\">status</a> &middot; <a "
        "href=\"/metrics\">metrics</a> &middot; "
        "<a href=\"/readyz\">ready</a> &middot; <a href=\"/healthz\">health</a></p>"
        "<pre id=\"s\">loading</pre><script>"
        "async function f(){const s=document.getElementById('s');try{const r=await "
        "fetch('/status');"
        "s.textContent=JSON.stringify(await r.json(),null,2)}catch(e){s.textContent=String(e)}}"
        "f();setInterval(f,2000)</script></body></html>\n";
    struct fe_answer a = {.status = 200,
                          .content_type = "text/html; charset=utf-8",
                          .headers = SV_LIT("cache-control: no-store\r\nx-content-type-options: "
                                            "nosniff\r\nx-frame-options: DENY\r\n"
                                            "content-security-policy: default-src 'none'; "
                                            "connect-src 'self'; style-src 'unsafe-inline'; "
                                            "script-src 'unsafe-inline'\r\n")};

    fe_conn_answer_text(c, &a, sv_from(page, sizeof(page) - 1));
}

static void on_options(struct fe_conn *c)
{
    struct bytes headers = {0};
    struct fe_answer a = {.status = 204};
    char allow[64];

    fe_route_allow(allow, sizeof(allow), &c->route);
    bytes_put_str(&headers, "allow: ");
    bytes_put_str(&headers, allow);
    bytes_put_str(&headers, "\r\n");
    a.headers = sv_from(headers.p, headers.n);
    fe_conn_answer_text(c, &a, (struct str_view){NULL, 0});
    bytes_fini(&headers);
}

void fe_local_answer(struct fe_conn *c, const struct fe_http_head *head)
{
    struct err e = {0};
    struct fe_answer models = {.status = 200, .content_type = "application/json"};

    switch (c->route.what) {
    case FE_DO_MODELS:
        models.length = c->fe->models->n;
        fe_conn_answer(c, &models, c->fe->models, true);
        return;
    case FE_DO_MODEL:
        on_model(c, head);
        return;
    case FE_DO_HEALTH:
        answer_json(c, 200, SV_LIT("{\"status\":\"ok\"}"));
        return;
    case FE_DO_READY:
        on_ready(c);
        return;
    case FE_DO_ALIVE:
        answer_json(c, 200, SV_LIT("\"I'm alive!\""));
        return;
    case FE_DO_PAGE:
        on_page(c);
        return;
    case FE_DO_OPTIONS:
        on_options(c);
        return;
    case FE_DO_NONE:
    case FE_DO_JOB:
    case FE_DO_METRICS:
    case FE_DO_STATUS:
        break;
    }
    err_set(&e, ERR_INTERNAL, NULL);
    fe_conn_error(c, &e);
}
