/* model_list: public groups and the deployments behind them. */
#include <stdio.h>

#include "base/mem.h"
#include "config/cfg_load.h"
#include "config/cfg_provider_table.h"

#define ROLES_NAMES    (CFG_ROLES_FE | CFG_ROLES_WK)
#define ROLES_CALLS    CFG_ROLES_WK
#define NAME_MAX_BYTES 256

struct provider {
    const char *name;
    const char *api_base;
    const char *key_env;
    const char *base_env;
};

static const struct provider providers[] = {
#define X(name, base, key_env, base_env) {name, base, key_env, base_env},
    CFG_PROVIDER_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    const char *remedy;
} refused[] = {
#define X(name, remedy) {name, remedy},
    CFG_PROVIDER_REFUSED_TABLE(X)
#undef X
};

void cfg_deployment_fini(struct cfg_deployment *d)
{
    mem_free(d->model_name);
    mem_free(d->provider);
    mem_free(d->model);
    mem_free(d->api_base);
    mem_free(d->organization);
    secret_free(d->api_key);
    for (char **h = d->headers; h != NULL && *h != NULL; h++) {
        mem_wipe(*h, strlen(*h)); /* may carry credentials */
    }
    cfg_names_free(d->headers);
    mem_free(d->ca_file);
}

static const struct provider *provider_find(const char *name)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        if (strcmp(providers[i].name, name) == 0) {
            return &providers[i];
        }
    }
    return NULL;
}

static int check_name(struct cfg_load *l, const struct cfg_node *n, const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > NAME_MAX_BYTES) {
        return cfg_fail(l, n, "must have 1 to 256 bytes; give the name clients send");
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f) {
            return cfg_fail(l, n, "holds a control character; remove it");
        }
        if (name[i] == '*' && i != len - 1) {
            return cfg_fail(l, n, "may have * only as its last character; write PREFIX/* or *");
        }
    }
    return 0;
}

/* "provider/model" into its parts. */
static int load_model(struct cfg_load *l, const struct cfg_node *params, struct cfg_deployment *d)
{
    const struct cfg_node *n = cfg_node_get(params, "model");
    char *full = NULL;
    int rc;

    if (n == NULL) {
        return cfg_fail_key(l, params, "model",
                            "is missing; write model: PROVIDER/MODEL, e.g. openai/gpt-5");
    }
    if ((rc = cfg_str_of(l, n, ROLES_NAMES, &full)) != 0 || full == NULL) {
        return rc;
    }
    if ((rc = check_name(l, n, full)) == 0) {
        const char *slash = strchr(full, '/');
        const char *model = slash != NULL ? slash + 1 : full;

        if (slash == full || model[0] == '\0') {
            rc = cfg_fail(l, n, "lacks the part before or after the /; write PROVIDER/MODEL");
        } else {
            d->provider =
                slash != NULL ? mem_strndup(full, (size_t)(slash - full)) : mem_strdup("openai");
            d->model = mem_strdup(model);
            rc = d->provider != NULL && d->model != NULL ? 0 : cfg_nomem(l);
        }
    }
    for (size_t i = 0; rc == 0 && i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strcmp(refused[i].name, d->provider) == 0) {
            rc = cfg_fail(l, n, "provider \"%s\" is not supported; %s", d->provider,
                          refused[i].remedy);
        }
    }
    mem_free(full);
    return rc;
}

static int load_base(struct cfg_load *l, const struct cfg_node *params, struct cfg_deployment *d)
{
    const struct provider *p;
    struct str_view v = {NULL, 0};
    int rc = cfg_get_url(l, params, "api_base", ROLES_CALLS, &d->api_base);

    if (rc == 0 && cfg_node_get(params, "api_base") == NULL) {
        rc = cfg_get_url(l, params, "base_url", ROLES_CALLS, &d->api_base);
    }
    if (rc != 0 || d->api_base != NULL || !cfg_is_role(l, ROLES_CALLS)) {
        return rc;
    }
    if ((p = provider_find(d->provider)) == NULL) {
        return cfg_fail_key(
            l, params, "api_base",
            "is missing and provider \"%.40s\" has no known address; write the base URL of its "
            "OpenAI-compatible API",
            d->provider);
    }
    if (p->base_env[0] != '\0') {
        v = cfg_env(l, p->base_env);
    }
    if (v.p != NULL && !sv_starts(v, SV_LIT("http://")) && !sv_starts(v, SV_LIT("https://"))) {
        return cfg_fail_key(l, params, "api_base",
                            "environment variable %s is not an http:// or https:// URL; correct it",
                            p->base_env);
    }
    while (v.n > 0 && v.p[v.n - 1] == '/') {
        v.n--;
    }
    d->api_base = v.p != NULL ? mem_strndup(v.p, v.n) : mem_strdup(p->api_base);
    return d->api_base != NULL ? 0 : cfg_nomem(l);
}

static int load_key(struct cfg_load *l, const struct cfg_node *params, struct cfg_deployment *d)
{
    const struct provider *p;
    struct str_view v;
    int rc = cfg_get_secret(l, params, "api_key", ROLES_CALLS, &d->api_key);

    if (rc != 0 || cfg_node_get(params, "api_key") != NULL || !cfg_is_role(l, ROLES_CALLS)) {
        return rc;
    }
    if ((p = provider_find(d->provider)) == NULL || p->key_env[0] == '\0') {
        return 0;
    }
    v = cfg_env(l, p->key_env);
    if (v.p != NULL && (d->api_key = secret_new(v)) == NULL) {
        return cfg_nomem(l);
    }
    return 0;
}

static bool is_header_name(const char *s)
{
    size_t n =
        strspn(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    static const char *const ours[] = {"host", "content-length", "transfer-encoding", "connection"};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (sv_eq_nocase(sv_of(s), sv_of(ours[i]))) {
            return false;
        }
    }
    return n > 0 && s[n] == '\0';
}

static int load_header(struct cfg_load *l, const struct cfg_node *n, char **slot)
{
    struct bytes line = {0};
    struct str_view v;
    int rc = cfg_resolve(l, n, ROLES_CALLS, &v);

    if (rc != 0) {
        return rc;
    }
    if (!is_header_name(n->key)) {
        return cfg_fail(
            l, n,
            "is not a header that may be added; use a field name other than Host, Connection, "
            "Content-Length or Transfer-Encoding");
    }
    for (size_t i = 0; i < v.n; i++) {
        if (((unsigned char)v.p[i] < ' ' && v.p[i] != '\t') || v.p[i] == 0x7f) {
            return cfg_fail(l, n, "holds a line end or control character; remove it");
        }
    }
    bytes_init(&line, 65536);
    bytes_printf(&line, "%s: ", n->key);
    bytes_put_sv(&line, v);
    if (line.rc == 0) {
        *slot = mem_strndup(line.p, line.n);
    }
    if (line.p != NULL) {
        mem_wipe(line.p, line.n);
    }
    bytes_fini(&line);
    return *slot != NULL ? 0 : cfg_nomem(l);
}

static int load_headers(struct cfg_load *l, const struct cfg_node *params, struct cfg_deployment *d)
{
    const struct cfg_node *map = NULL;
    unsigned i = 0;
    int rc = cfg_get_map(l, params, "extra_headers", &map);

    if (rc != 0 || map == NULL || !cfg_is_role(l, ROLES_CALLS)) {
        return rc;
    }
    if ((d->headers = mem_calloc((size_t)map->count + 1, sizeof(*d->headers))) == NULL) {
        return cfg_nomem(l);
    }
    for (const struct cfg_node *c = map->first; c != NULL && rc == 0; c = c->next) {
        rc = load_header(l, c, &d->headers[i++]);
    }
    return rc;
}

static int load_numbers(struct cfg_load *l, const struct cfg_node *params, struct cfg_deployment *d)
{
    unsigned retries = UINT32_MAX;
    int rc;

    if ((rc = cfg_get_seconds(l, params, "timeout", &d->timeout_ms)) != 0 ||
        (rc = cfg_get_seconds(l, params, "stream_timeout", &d->stream_timeout_ms)) != 0 ||
        (rc = cfg_get_uint(l, params, "max_retries", 0, 100, &retries)) != 0 ||
        (rc = cfg_get_uint(l, params, "weight", 1, 1000000, &d->weight)) != 0 ||
        (rc = cfg_get_uint(l, params, "order", 0, 1000000, &d->order)) != 0 ||
        (rc = cfg_get_uint(l, params, "max_agentic_loops", 1, 100, &d->rounds_max)) != 0) {
        return rc;
    }
    d->max_retries = retries == UINT32_MAX ? -1 : (int)retries;
    return 0;
}

static int load_deployment(struct cfg_load *l, const struct cfg_node *entry,
                           struct cfg_deployment *d)
{
    static const char *const entry_known[] = {"model_name", "litellm_params", "model_info", NULL};
    static const char *const known[] = {
        "model",        "api_key", "api_base",          "base_url",
        "organization", "timeout", "stream_timeout",    "max_retries",
        "weight",       "order",   "max_agentic_loops", "extra_headers",
        "ca_file",      NULL};
    const struct cfg_node *params = NULL;
    const struct cfg_node *name = cfg_node_get(entry, "model_name");
    int rc;

    d->weight = 1;
    d->max_retries = -1;
    if (entry->kind != CFG_NODE_MAP) {
        return cfg_fail(
            l, entry, "must be a map with model_name and litellm_params; indent them below the -");
    }
    if (name == NULL) {
        return cfg_fail_key(l, entry, "model_name", "is missing; give the name clients send");
    }
    if ((rc = cfg_str_of(l, name, ROLES_NAMES, &d->model_name)) != 0 ||
        (d->model_name != NULL && (rc = check_name(l, name, d->model_name)) != 0) ||
        (rc = cfg_get_map(l, entry, "litellm_params", &params)) != 0) {
        return rc;
    }
    if (params == NULL) {
        return cfg_fail_key(l, entry, "litellm_params",
                            "is missing; add it with model: PROVIDER/MODEL");
    }
    cfg_ignore_others(l, entry, entry_known);
    cfg_ignore_others(l, params, known);
    if ((rc = load_model(l, params, d)) != 0 || (rc = load_numbers(l, params, d)) != 0 ||
        (rc = cfg_get_str(l, params, "organization", ROLES_CALLS, &d->organization)) != 0 ||
        (rc = cfg_get_str(l, params, "ca_file", ROLES_CALLS, &d->ca_file)) != 0) {
        return rc;
    }
    if (d->provider == NULL) {
        return 0; /* a reference that this role does not need */
    }
    if ((rc = load_base(l, params, d)) != 0 || (rc = load_key(l, params, d)) != 0) {
        return rc;
    }
    return load_headers(l, params, d);
}

/* Distinct public names without wildcards, in file order. */
static int collect_names(struct cfg_load *l)
{
    struct cfg *c = l->c;
    struct map *seen = map_new((size_t)c->deployment_count + 1);
    unsigned n = 0;
    int rc = 0;

    c->model_names = mem_calloc((size_t)c->deployment_count + 1, sizeof(*c->model_names));
    if (seen == NULL || c->model_names == NULL) {
        map_free(seen);
        return cfg_nomem(l);
    }
    for (unsigned i = 0; i < c->deployment_count && rc == 0; i++) {
        const char *name = c->deployments[i].model_name;

        if (name == NULL || strchr(name, '*') != NULL || map_get(seen, sv_of(name)) != NULL) {
            continue;
        }
        if (map_put(seen, sv_of(name), c) != 0 || (c->model_names[n] = mem_strdup(name)) == NULL) {
            rc = cfg_nomem(l);
        }
        n++;
    }
    map_free(seen);
    return rc;
}

int cfg_load_models(struct cfg_load *l, const struct cfg_node *root)
{
    const struct cfg_node *list = NULL;
    struct cfg *c = l->c;
    int rc = cfg_get_seq(l, root, "model_list", &list);

    if (rc == 0 && list != NULL && list->count > CFG_ENTRIES_MAX) {
        return cfg_fail(l, list, "has more than 10000 entries; shorten it");
    }
    if (rc == 0 && list != NULL) {
        if ((c->deployments = mem_calloc((size_t)list->count + 1, sizeof(*c->deployments))) ==
            NULL) {
            return cfg_nomem(l);
        }
        for (const struct cfg_node *n = list->first; n != NULL && rc == 0; n = n->next) {
            rc = load_deployment(l, n, &c->deployments[c->deployment_count++]);
        }
    }
    return rc != 0 ? rc : collect_names(l);
}
