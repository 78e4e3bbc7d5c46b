/* sandbox_tools: named ways to get a sandbox. A malformed entry is skipped with a notice; the last
 * of a name wins. */
#include "base/mem.h"
#include "config/cfg_load.h"

#define ROLES CFG_ROLES_SB

static void wipe_free(char *s)
{
    if (s != NULL) {
        mem_wipe(s, strlen(s)); /* env_vars and metadata may carry credentials */
    }
    mem_free(s);
}

void cfg_tool_fini(struct cfg_sandbox_tool *t)
{
    mem_free(t->name);
    mem_free(t->provider);
    secret_free(t->api_key);
    mem_free(t->api_base);
    mem_free(t->domain);
    mem_free(t->sandbox_url);
    mem_free(t->template_id);
    wipe_free(t->network_policy_json);
    wipe_free(t->resource_limits_json);
    wipe_free(t->metadata_json);
    wipe_free(t->env_vars_json);
    memset(t, 0, sizeof(*t));
}

static int load_key(struct cfg_load *l, const struct cfg_node *params, struct cfg_sandbox_tool *t)
{
    bool is_e2b = strcmp(t->provider, "e2b") == 0;
    struct str_view v;
    int rc = cfg_get_secret(l, params, "api_key", ROLES, &t->api_key);

    if (rc != 0 || t->api_key != NULL || !cfg_is_role(l, ROLES) ||
        strcmp(t->provider, "local") == 0) {
        return rc;
    }
    v = cfg_env(l, is_e2b ? "E2B_API_KEY" : "OPEN_SANDBOX_API_KEY");
    if (v.p != NULL && (t->api_key = secret_new(v)) == NULL) {
        return cfg_nomem(l);
    }
    if (is_e2b && t->api_key == NULL) {
        return cfg_fail_key(l, params, "api_key", "is missing; write it here or set E2B_API_KEY");
    }
    return 0;
}

static int load_base(struct cfg_load *l, const struct cfg_node *params, struct cfg_sandbox_tool *t)
{
    struct str_view v;
    int rc = cfg_get_url(l, params, "api_base", ROLES, &t->api_base);

    if (rc != 0 || t->api_base != NULL || !cfg_is_role(l, ROLES)) {
        return rc;
    }
    if (strcmp(t->provider, "e2b") == 0) {
        t->api_base = mem_strdup("https://api.e2b.app");
        return t->api_base != NULL ? 0 : cfg_nomem(l);
    }
    if (strcmp(t->provider, "opensandbox") != 0) {
        return 0;
    }
    v = cfg_env(l, "OPEN_SANDBOX_API_BASE");
    if (!sv_starts(v, SV_LIT("http://")) && !sv_starts(v, SV_LIT("https://"))) {
        return cfg_fail_key(l, params, "api_base",
                            "is missing; write the server's URL here or set OPEN_SANDBOX_API_BASE");
    }
    while (v.n > 0 && v.p[v.n - 1] == '/') {
        v.n--;
    }
    t->api_base = mem_strndup(v.p, v.n);
    return t->api_base != NULL ? 0 : cfg_nomem(l);
}

static int load_params(struct cfg_load *l, const struct cfg_node *params,
                       struct cfg_sandbox_tool *t)
{
    static const char *const known[] = {"sandbox_provider", "api_key",
                                        "api_base",         "domain",
                                        "sandbox_url",      "template",
                                        "timeout",          "allow_internet_access",
                                        "network_policy",   "resource_limits",
                                        "metadata",         "env_vars",
                                        "request_timeout",  NULL};
    bool allow = false;
    int rc;

    cfg_ignore_others(l, params, known);
    if ((rc = load_key(l, params, t)) != 0 || (rc = load_base(l, params, t)) != 0 ||
        (rc = cfg_get_str(l, params, "domain", ROLES, &t->domain)) != 0 ||
        (rc = cfg_get_url(l, params, "sandbox_url", ROLES, &t->sandbox_url)) != 0 ||
        (rc = cfg_get_str(l, params, "template", ROLES, &t->template_id)) != 0 ||
        (rc = cfg_get_uint(l, params, "timeout", 1, 86400, &t->timeout_s)) != 0 ||
        (rc = cfg_get_seconds(l, params, "request_timeout", &t->request_timeout_ms)) != 0 ||
        (rc = cfg_get_json(l, params, "network_policy", ROLES, false, &t->network_policy_json)) !=
            0 ||
        (rc = cfg_get_json(l, params, "resource_limits", ROLES, false, &t->resource_limits_json)) !=
            0 ||
        (rc = cfg_get_json(l, params, "metadata", ROLES, true, &t->metadata_json)) != 0 ||
        (rc = cfg_get_json(l, params, "env_vars", ROLES, true, &t->env_vars_json)) != 0) {
        return rc;
    }
    if (cfg_node_get(params, "allow_internet_access") != NULL) {
        if ((rc = cfg_get_bool(l, params, "allow_internet_access", &allow)) != 0) {
            return rc;
        }
        t->allow_internet_access = allow ? 1 : 0;
    }
    return 0;
}

/* Why an entry cannot be used, or NULL. */
static const char *malformed(const struct cfg_node *entry)
{
    const struct cfg_node *name = cfg_node_get(entry, "sandbox_tool_name");
    const struct cfg_node *params = cfg_node_get(entry, "litellm_params");
    const struct cfg_node *provider = cfg_node_get(params, "sandbox_provider");

    if (entry->kind != CFG_NODE_MAP) {
        return "skipped: not a map";
    }
    if (name == NULL || name->kind != CFG_NODE_SCALAR || name->len == 0) {
        return "skipped: sandbox_tool_name is missing or empty";
    }
    if (name->len > 64) {
        return "skipped: sandbox_tool_name is longer than 64 bytes";
    }
    if (provider == NULL || provider->kind != CFG_NODE_SCALAR || provider->len == 0) {
        return "skipped: litellm_params.sandbox_provider is missing or empty";
    }
    if (strcmp(provider->text, "e2b") != 0 && strcmp(provider->text, "opensandbox") != 0 &&
        strcmp(provider->text, "local") != 0) {
        return "skipped: sandbox_provider is not e2b, opensandbox or local";
    }
    return NULL;
}

static struct cfg_sandbox_tool *slot_for(struct cfg_load *l, const struct cfg_node *name)
{
    struct cfg *c = l->c;

    for (unsigned i = 0; i < c->sandbox_tool_count; i++) {
        if (strcmp(c->sandbox_tools[i].name, name->text) == 0) {
            cfg_note(l, name, "given twice: the last entry of this name is used");
            cfg_tool_fini(&c->sandbox_tools[i]);
            return &c->sandbox_tools[i];
        }
    }
    return &c->sandbox_tools[c->sandbox_tool_count++];
}

static int load_tool(struct cfg_load *l, const struct cfg_node *entry)
{
    static const char *const known[] = {"sandbox_tool_name", "litellm_params", NULL};
    const struct cfg_node *params = cfg_node_get(entry, "litellm_params");
    const char *why = malformed(entry);

    if (why != NULL) {
        cfg_note(l, entry, why);
        return 0;
    }
    struct cfg_sandbox_tool *t = slot_for(l, cfg_node_get(entry, "sandbox_tool_name"));

    cfg_ignore_others(l, entry, known);
    t->allow_internet_access = -1;
    t->request_timeout_ms = 60000;
    t->name = mem_strdup(cfg_node_get(entry, "sandbox_tool_name")->text);
    t->provider = mem_strdup(cfg_node_get(params, "sandbox_provider")->text);
    if (t->name == NULL || t->provider == NULL) {
        return cfg_nomem(l);
    }
    if (strcmp(t->provider, "local") != 0) {
        cfg_note(l, entry,
                 "this version runs code in local sandboxes only: for this tool it answers 503");
    }
    return load_params(l, params, t);
}

/* The built-in sandbox is there under its own name unless the file uses that name. */
static int add_local(struct cfg_load *l)
{
    struct cfg *c = l->c;
    struct cfg_sandbox_tool *t = &c->sandbox_tools[c->sandbox_tool_count];

    for (unsigned i = 0; i < c->sandbox_tool_count; i++) {
        if (strcmp(c->sandbox_tools[i].name, "local") == 0) {
            return 0;
        }
    }
    c->sandbox_tool_count++;
    t->allow_internet_access = -1;
    t->request_timeout_ms = 60000;
    t->name = mem_strdup("local");
    t->provider = mem_strdup("local");
    return t->name != NULL && t->provider != NULL ? 0 : cfg_nomem(l);
}

int cfg_load_tools(struct cfg_load *l, const struct cfg_node *root)
{
    const struct cfg_node *list = NULL;
    struct cfg *c = l->c;
    int rc = cfg_get_seq(l, root, "sandbox_tools", &list);

    if (rc != 0) {
        return rc;
    }
    if (list != NULL && list->count > CFG_STRINGS_MAX) {
        return cfg_fail(l, list, "has more than 1000 entries; shorten it");
    }
    c->sandbox_tools =
        mem_calloc((list != NULL ? (size_t)list->count : 0) + 1, sizeof(*c->sandbox_tools));
    if (c->sandbox_tools == NULL) {
        return cfg_nomem(l);
    }
    for (const struct cfg_node *n = list != NULL ? list->first : NULL; n != NULL && rc == 0;
         n = n->next) {
        rc = load_tool(l, n);
    }
    return rc != 0 ? rc : add_local(l);
}
