/* litellm_settings, general_settings, router_settings, environment_variables and what is left over.
 */
#include "base/mem.h"
#include "config/cfg_load.h"

#define CALLBACK        "code_interpreter_interception"
#define CALLBACK_PARAMS "code_interpreter_interception_params"

/* On when the callback is listed, or when no callbacks key exists. */
static int load_callbacks(struct cfg_load *l, const struct cfg_node *settings)
{
    const struct cfg_node *n = cfg_node_get(settings, "callbacks");
    char **list = NULL;
    int rc = cfg_get_strs(l, settings, "callbacks", CFG_ROLES_DAEMONS, &list);

    if (rc != 0) {
        return rc;
    }
    l->c->interception_enabled = n == NULL;
    for (char **s = list; s != NULL && *s != NULL; s++) {
        if (strcmp(*s, CALLBACK) == 0) {
            l->c->interception_enabled = true;
        }
    }
    cfg_names_free(list);
    return 0;
}

static int load_params(struct cfg_load *l, const struct cfg_node *root,
                       const struct cfg_node *settings)
{
    static const char *const known[] = {"enabled", "enabled_providers", "sandbox_tool_name", NULL};
    const struct cfg_node *params = NULL;
    const struct cfg_node *specific = NULL;
    bool enabled = true;
    int rc = cfg_get_map(l, settings, CALLBACK_PARAMS, &params);

    if (rc == 0 && params == NULL &&
        (rc = cfg_get_map(l, root, "callback_settings", &specific)) == 0) {
        rc = cfg_get_map(l, specific, CALLBACK, &params);
    }
    if (rc != 0 || params == NULL) {
        return rc;
    }
    cfg_ignore_others(l, params, known);
    if ((rc = cfg_get_bool(l, params, "enabled", &enabled)) != 0 ||
        (rc = cfg_get_strs(l, params, "enabled_providers", CFG_ROLES_WK,
                           &l->c->interception_providers)) != 0 ||
        (rc = cfg_get_str(l, params, "sandbox_tool_name", CFG_ROLES_WK | CFG_ROLES_SB,
                          &l->c->interception_tool)) != 0) {
        return rc;
    }
    l->c->interception_enabled = l->c->interception_enabled && enabled;
    if (l->c->interception_tool != NULL &&
        cfg_find_tool(l->c, sv_of(l->c->interception_tool)) == NULL) {
        return cfg_fail(l, cfg_node_get(params, "sandbox_tool_name"),
                        "names no usable entry of sandbox_tools; add it there or use local");
    }
    return 0;
}

static int load_settings(struct cfg_load *l, const struct cfg_node *root)
{
    static const char *const known[] = {"callbacks", CALLBACK_PARAMS, "num_retries",
                                        "request_timeout", NULL};
    static const char *const router_known[] = {"num_retries", "timeout", NULL};
    const struct cfg_node *settings = NULL;
    const struct cfg_node *router = NULL;
    unsigned retries = 2;
    int rc;

    l->c->request_timeout_ms = 600000;
    if ((rc = cfg_get_map(l, root, "litellm_settings", &settings)) != 0 ||
        (rc = cfg_get_map(l, root, "router_settings", &router)) != 0 ||
        (rc = load_callbacks(l, settings)) != 0 || (rc = load_params(l, root, settings)) != 0 ||
        (rc = cfg_get_uint(l, router, "num_retries", 0, 100, &retries)) != 0 ||
        (rc = cfg_get_uint(l, settings, "num_retries", 0, 100, &retries)) != 0 ||
        (rc = cfg_get_seconds(l, router, "timeout", &l->c->request_timeout_ms)) != 0 ||
        (rc = cfg_get_seconds(l, settings, "request_timeout", &l->c->request_timeout_ms)) != 0) {
        return rc;
    }
    l->c->num_retries = (int)retries;
    cfg_ignore_others(l, settings, known);
    cfg_ignore_others(l, router, router_known);
    return 0;
}

int cfg_load_litellm(struct cfg_load *l, const struct cfg_node *root)
{
    static const char *const known[] = {
        "model_list",       "sandbox_tools",         "litellm_settings",
        "general_settings", "router_settings",       "callback_settings",
        "cofferdam",        "environment_variables", NULL};
    static const char *const general_known[] = {"master_key", NULL};
    static const char *const specific_known[] = {CALLBACK, NULL};
    const struct cfg_node *n = NULL;
    int rc = load_settings(l, root);

    if (rc != 0 || (rc = cfg_get_map(l, root, "general_settings", &n)) != 0) {
        return rc;
    }
    cfg_ignore_others(l, n, general_known);
    if ((rc = cfg_get_map(l, root, "callback_settings", &n)) != 0) {
        return rc;
    }
    cfg_ignore_others(l, n, specific_known);
    cfg_ignore_others(l, root, known);
    return 0;
}
