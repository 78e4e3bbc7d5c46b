/* ic_tools.c - the code_interpreter tool of a request becomes a function; tool_choice follows. */
#include <stdio.h>

#include "ic_request.h"

#define TOOL_TYPE "code_interpreter"

static const char default_description[] =
    "Executes Python code in a Jupyter-like sandbox and returns what it printed, the value of the "
    "last expression, and errors with their traceback. numpy, pandas and matplotlib are usually "
    "available; figures shown with plt.show() are displayed to the user. Files are kept in the "
    "working directory. ";
static const char session_description[] =
    "Variables, imports and files persist between calls and across the turns of this session.";
static const char single_description[] =
    "Variables, imports and files persist between the calls of this answer only: nothing is kept "
    "for later turns of the conversation.";

/* --- the native tool --- */

static int check_files(struct icj files, const char *prefix, struct err *e)
{
    struct icj_iter it = icj_iter(files);
    struct icj v;
    char param[ERR_PARAM_MAX];
    unsigned n = 0;

    (void)snprintf(param, sizeof(param), "%s.file_ids", prefix);
    if (!icj_is_set(files)) {
        return 0;
    }
    if (files.type != ICJ_ARRAY) {
        return ic_bad_type(e, param, "an array of strings", files);
    }
    while (icj_next(&it, &v)) {
        if (v.type != ICJ_STRING) {
            (void)snprintf(param, sizeof(param), "%s.file_ids[%u]", prefix, n);
            return ic_bad_type(e, param, "a string", v);
        }
        n++;
    }
    if (n > IC_FILES_MAX) {
        return err_set_param(e, ERR_INVALID, param,
                             "Invalid '%s': array too long. Expected an array with maximum length "
                             "%d, but got an array with length %u instead.",
                             param, IC_FILES_MAX, n);
    }
    if (n > 0) {
        return err_set_param(e, ERR_UNSUPPORTED_PARAM, param,
                             "Unsupported parameter: '%s'. This gateway does not copy the "
                             "provider's files into its sandboxes; leave it out and give the data "
                             "in the input.",
                             param);
    }
    return 0;
}

static int check_memory(struct icj v, const char *prefix, struct err *e)
{
    char param[ERR_PARAM_MAX];

    (void)snprintf(param, sizeof(param), "%s.memory_limit", prefix);
    if (!icj_is_set(v)) {
        return 0;
    }
    if (v.type != ICJ_STRING) {
        return ic_bad_type(e, param, "a string", v);
    }
    if (!icj_is(v, "1g") && !icj_is(v, "4g") && !icj_is(v, "16g") && !icj_is(v, "64g")) {
        return err_set_param(e, ERR_INVALID, param,
                             "Invalid value for '%s'. Supported values are: '1g', '4g', '16g', "
                             "and '64g'.",
                             param);
    }
    return 0;
}

static int check_domains(struct icj v, const char *param, struct err *e)
{
    struct icj_iter it = icj_iter(v);
    struct icj d;
    unsigned n = 0;

    if (v.type == ICJ_ABSENT) {
        return err_set_param(e, ERR_MISSING_PARAM, param, "Missing required parameter: '%s'.",
                             param);
    }
    while (icj_next(&it, &d)) {
        if (d.type != ICJ_STRING) {
            return ic_bad_type(e, param, "an array of strings", v);
        }
        n++;
    }
    return n > 0 ? 0 : ic_bad_type(e, param, "a non-empty array of strings", v);
}

static int check_network(struct icj v, const char *prefix, struct err *e)
{
    char param[ERR_PARAM_MAX];

    (void)snprintf(param, sizeof(param), "%s.network_policy", prefix);
    if (!icj_is_set(v)) {
        return 0;
    }
    if (v.type != ICJ_OBJECT) {
        return ic_bad_type(e, param, "an object", v);
    }
    if (icj_is(icj_get(v, "type"), "disabled")) {
        return 0;
    }
    if (icj_is(icj_get(v, "type"), "allowlist")) {
        (void)snprintf(param, sizeof(param), "%s.network_policy.allowed_domains", prefix);
        return check_domains(icj_get(v, "allowed_domains"), param, e);
    }
    (void)snprintf(param, sizeof(param), "%s.network_policy.type", prefix);
    return err_set_param(e, ERR_INVALID, param,
                         "Invalid value for '%s'. Supported values are: 'disabled' and "
                         "'allowlist'.",
                         param);
}

static int check_auto(struct ic_request *r, struct icj c, const char *prefix, struct err *e)
{
    char param[ERR_PARAM_MAX];
    struct icj type = icj_get(c, "type");
    struct icj memory = icj_get(c, "memory_limit");
    struct icj network = icj_get(c, "network_policy");
    int rc;

    (void)snprintf(param, sizeof(param), "%s.type", prefix);
    if (!icj_is_set(type)) {
        return err_set_param(e, ERR_MISSING_PARAM, param, "Missing required parameter: '%s'.",
                             param);
    }
    if (type.type != ICJ_STRING) {
        return ic_bad_type(e, param, "a string", type);
    }
    if (!icj_is(type, "auto")) {
        return err_set_param(e, ERR_INVALID, param,
                             "Invalid value for '%s'. Supported values are: 'auto'. To name a "
                             "container send its id as a string.",
                             param);
    }
    if ((rc = check_files(icj_get(c, "file_ids"), prefix, e)) != 0 ||
        (rc = check_memory(memory, prefix, e)) != 0 ||
        (rc = check_network(network, prefix, e)) != 0) {
        return rc;
    }
    if (r->sbx_params.n == 0 && (icj_is_set(memory) || icj_is_set(network))) {
        bytes_put_char(&r->sbx_params, '{');
        if (icj_is_set(memory)) {
            icj_put_raw(&r->sbx_params, "memory_limit", memory.raw);
        }
        if (icj_is_set(network)) {
            icj_put_raw(&r->sbx_params, "network_policy", network.raw);
        }
        bytes_put_char(&r->sbx_params, '}');
        if (r->sbx_params.n > MSG_PARAMS_MAX) {
            return err_set_param(e, ERR_STRING_TOO_LONG, prefix, "'%s' is too long.", prefix);
        }
    }
    return 0;
}

static int check_native(struct ic_request *r, struct icj tool, unsigned index, struct err *e)
{
    char param[48];
    struct icj c = icj_get(tool, "container");
    struct bytes tmp = {0};
    struct str_view id;

    (void)snprintf(param, sizeof(param), "tools[%u].container", index);
    if (c.type == ICJ_OBJECT) {
        return check_auto(r, c, param, e);
    }
    if (c.type == ICJ_ABSENT) {
        /* chat has no such tool of its own, so it has no such rule either */
        return r->surface == IC_CHAT ? 0
                                     : err_set_param(e, ERR_MISSING_PARAM, param,
                                                     "Missing required parameter: '%s'.", param);
    }
    if (c.type != ICJ_STRING) {
        return ic_bad_type(e, param, "a container id or an object", c);
    }
    id = icj_view(c, &tmp);
    if (id.n == 0 || id.n > IC_CONTAINER_MAX || memchr(id.p, '\0', id.n) != NULL) {
        int code = id.n > IC_CONTAINER_MAX ? ERR_STRING_TOO_LONG : ERR_INVALID;

        bytes_fini(&tmp);
        return err_set_param(e, code, param,
                             "Invalid '%s': expected a container id of 1 to %d characters without "
                             "NUL, or {\"type\":\"auto\"}.",
                             param, IC_CONTAINER_MAX);
    }
    if (r->container[0] == '\0') {
        sv_copy(r->container, sizeof(r->container), id);
    }
    bytes_fini(&tmp);
    return 0;
}

/* --- the function that replaces it --- */

/* The name of a function or custom tool, flat or nested; absent for other tools. */
static struct icj tool_name(struct icj tool)
{
    struct icj name = icj_get(tool, "name");

    if (name.type != ICJ_STRING) {
        name = icj_get2(tool, "function", "name");
    }
    if (name.type != ICJ_STRING) {
        name = icj_get2(tool, "custom", "name");
    }
    return name;
}

static bool is_name_taken(struct icj tools, const char *name)
{
    struct icj_iter it = icj_iter(tools);
    struct icj tool;

    while (icj_next(&it, &tool)) {
        if (!icj_is(icj_get(tool, "type"), TOOL_TYPE) && icj_is(tool_name(tool), name)) {
            return true;
        }
    }
    return false;
}

static int choose_alias(struct ic_request *r, const struct cfg *cfg, struct err *e)
{
    const char *base = cfg->ci_tool_name;

    r->is_type_taken = is_name_taken(r->tools, TOOL_TYPE);
    r->is_name_taken = is_name_taken(r->tools, base);
    (void)snprintf(r->alias, sizeof(r->alias), "%s", base);
    for (unsigned i = 2; is_name_taken(r->tools, r->alias); i++) {
        if (i > 20) {
            return err_set_param(e, ERR_INVALID, "tools",
                                 "Too many functions are named like '%s'; rename them.", base);
        }
        (void)snprintf(r->alias, sizeof(r->alias), "%.58s_%u", base, i);
    }
    return 0;
}

static void put_function(const struct ic_request *r, const struct cfg *cfg, struct bytes *out)
{
    struct bytes text = {0};

    if (cfg->ci_tool_description != NULL && cfg->ci_tool_description[0] != '\0') {
        bytes_put_str(&text, cfg->ci_tool_description);
    } else {
        bytes_put_str(&text, default_description);
        bytes_put_str(&text, r->session_n > 0 || r->container[0] != '\0' ? session_description
                                                                         : single_description);
    }
    bytes_put_str(out, r->surface == IC_CHAT ? "{\"type\":\"function\",\"function\":{"
                                             : "{\"type\":\"function\",");
    bytes_put_str(out, "\"name\":");
    bytes_put_json_str(out, sv_of(r->alias));
    bytes_put_str(out, ",\"description\":");
    bytes_put_json_str(out, sv_from(text.p, text.n));
    bytes_put_str(out, ",\"parameters\":{\"type\":\"object\",\"properties\":{\"code\":{\"type\":"
                       "\"string\",\"description\":\"Python code to run\"}},\"required\":["
                       "\"code\"],\"additionalProperties\":false}");
    bytes_put_str(out, r->surface == IC_CHAT ? "}}" : ",\"strict\":true}");
    bytes_fini(&text);
}

static void put_element(struct bytes *array, struct str_view raw)
{
    bytes_put_char(array, array->n == 0 ? '[' : ',');
    bytes_put_sv(array, raw);
}

static void build_tools(struct ic_request *r, const struct cfg *cfg)
{
    struct icj_iter it = icj_iter(r->tools);
    struct icj tool;
    bool is_put = false;

    while (icj_next(&it, &tool)) {
        if (!icj_is(icj_get(tool, "type"), TOOL_TYPE)) {
            put_element(&r->tools_all, tool.raw);
            put_element(&r->tools_closing, tool.raw);
        } else if (!is_put) {
            bytes_put_char(&r->tools_all, r->tools_all.n == 0 ? '[' : ',');
            put_function(r, cfg, &r->tools_all);
            is_put = true;
        }
    }
    bytes_put_char(&r->tools_all, ']');
    if (r->tools_closing.n > 0) {
        bytes_put_char(&r->tools_closing, ']');
    }
}

/* --- tool_choice --- */

/* Does this choice (or entry of allowed_tools) mean our tool? */
static bool is_ours(const struct ic_request *r, const struct cfg *cfg, struct icj v)
{
    struct icj name;

    if (icj_is(icj_get(v, "type"), TOOL_TYPE)) {
        return true;
    }
    if (!icj_is(icj_get(v, "type"), "function")) {
        return false;
    }
    name = tool_name(v);
    return (icj_is(name, TOOL_TYPE) && !r->is_type_taken) ||
           (icj_is(name, cfg->ci_tool_name) && !r->is_name_taken);
}

static void put_alias_choice(const struct ic_request *r, struct bytes *out)
{
    bytes_put_str(out, r->surface == IC_CHAT ? "{\"type\":\"function\",\"function\":{\"name\":"
                                             : "{\"type\":\"function\",\"name\":");
    bytes_put_json_str(out, sv_of(r->alias));
    bytes_put_str(out, r->surface == IC_CHAT ? "}}" : "}");
}

/* The list of an allowed_tools choice with ours renamed, or left out; returns how many are in it.
 */
static unsigned put_allowed(const struct ic_request *r, const struct cfg *cfg, struct icj list,
                            bool with_ours, struct bytes *out)
{
    struct icj_iter it = icj_iter(list);
    struct icj v;
    unsigned n = 0;

    bytes_put_char(out, '[');
    while (icj_next(&it, &v)) {
        if (is_ours(r, cfg, v)) {
            if (with_ours) {
                icj_put_comma(out);
                put_alias_choice(r, out);
                n++;
            }
        } else {
            icj_put_comma(out);
            bytes_put_sv(out, v.raw);
            n++;
        }
    }
    bytes_put_char(out, ']');
    return n;
}

/* {"type":"allowed_tools",...} flat, or nested in chat. */
static void build_allowed(struct ic_request *r, const struct cfg *cfg, struct icj inner)
{
    bool is_nested = r->surface == IC_CHAT;
    struct bytes *const outs[3] = {&r->choice_first, &r->choice_later, &r->choice_closing};

    for (unsigned i = 0; i < 3; i++) {
        struct bytes list = {.cap_max = r->tool_choice.raw.n * 8 + 4096};
        struct bytes part = {.cap_max = r->tool_choice.raw.n * 10 + 8192};
        unsigned n = put_allowed(r, cfg, icj_get(inner, "tools"), i < 2, &list);
        struct icj_edit edits[2] = {
            {"tools", sv_from(list.p, list.n), true},
            {"mode", SV_LIT("\"auto\""), true},
        };

        icj_copy(&part, inner, edits, i == 0 ? 1 : 2);
        if (n == 0) {
            bytes_put_str(outs[i], "\"none\"");
        } else if (is_nested) {
            struct icj_edit nested = {"allowed_tools", sv_from(part.p, part.n), true};

            icj_copy(outs[i], r->tool_choice, &nested, 1);
        } else {
            bytes_put(outs[i], part.p, part.n);
        }
        bytes_fini(&list);
        bytes_fini(&part);
    }
}

static int build_choice(struct ic_request *r, const struct cfg *cfg, struct err *e)
{
    struct icj c = r->tool_choice;
    struct icj inner = c;

    if (!icj_is_set(c)) {
        return 0;
    }
    if (c.type != ICJ_STRING && c.type != ICJ_OBJECT) {
        return ic_bad_type(e, "tool_choice", "a string or an object", c);
    }
    if (c.type == ICJ_OBJECT && icj_is(icj_get(c, "type"), "allowed_tools")) {
        if (r->surface == IC_CHAT) {
            inner = icj_get(c, "allowed_tools");
        }
        if (icj_get(inner, "tools").type != ICJ_ARRAY) {
            return ic_bad_type(
                e, r->surface == IC_CHAT ? "tool_choice.allowed_tools.tools" : "tool_choice.tools",
                "an array", icj_get(inner, "tools"));
        }
        build_allowed(r, cfg, inner);
        return 0;
    }
    if (c.type == ICJ_OBJECT && is_ours(r, cfg, c)) {
        put_alias_choice(r, &r->choice_first);
    } else {
        bytes_put_sv(&r->choice_first, c.raw);
    }
    /* a forced choice is for the first turn; after a result the model must be free to answer */
    bytes_put_str(&r->choice_later, icj_is(c, "none") ? "\"none\"" : "\"auto\"");
    bytes_put_str(&r->choice_closing, icj_is(c, "none") ? "\"none\"" : "\"auto\"");
    return 0;
}

int ic_tools_parse(struct ic_request *r, const struct cfg *cfg, struct err *e)
{
    struct icj_iter it = icj_iter(r->tools);
    struct icj tool;
    unsigned i = 0;
    unsigned natives = 0;
    int rc;

    if (r->tools.type != ICJ_ARRAY) {
        return ic_bad_type(e, "tools", "an array", r->tools);
    }
    while (icj_next(&it, &tool)) {
        if (tool.type != ICJ_OBJECT) {
            char param[32];

            (void)snprintf(param, sizeof(param), "tools[%u]", i);
            return ic_bad_type(e, param, "an object", tool);
        }
        if (icj_is(icj_get(tool, "type"), TOOL_TYPE)) {
            natives++;
            if ((rc = check_native(r, tool, i, e)) != 0) {
                return rc;
            }
        }
        i++;
    }
    if (natives == 0) {
        return err_set_param(e, ERR_INVALID, "tools", "There is no code_interpreter tool.");
    }
    if ((rc = choose_alias(r, cfg, e)) != 0) {
        return rc;
    }
    build_tools(r, cfg);
    return build_choice(r, cfg, e);
}
