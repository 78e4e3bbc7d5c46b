#include "ic_request.h"

#include <stdio.h>

#include "base/check.h"
#include "wk_scan.h"

/* clang-format off */
#define MEMBERS(X) \
    X(MODEL,            "model") \
    X(TOOLS,            "tools") \
    X(TOOL_CHOICE,      "tool_choice") \
    X(PARALLEL,         "parallel_tool_calls") \
    X(INCLUDE,          "include") \
    X(INPUT,            "input") \
    X(MESSAGES,         "messages") \
    X(STREAM,           "stream") \
    X(STREAM_OPTIONS,   "stream_options") \
    X(METADATA,         "metadata") \
    X(LITELLM_METADATA, "litellm_metadata") \
    X(TOKENS,           "max_output_tokens") \
    X(TOKENS_CHAT,      "max_completion_tokens") \
    X(TOKENS_OLD,       "max_tokens") \
    X(TOOL_CALLS,       "max_tool_calls") \
    X(BACKGROUND,       "background") \
    X(N,                "n") \
    X(STORE,            "store") \
    X(CONVERSATION,     "conversation")
/* clang-format on */

enum member {
#define X(name, text) MEMBER_##name,
    MEMBERS(X)
#undef X
        MEMBER_COUNT
};

static const char *const member_names[] = {
#define X(name, text) text,
    MEMBERS(X)
#undef X
};

int ic_bad_type(struct err *e, const char *param, const char *expected, struct icj got)
{
    return err_set_param(e, ERR_INVALID_TYPE, param,
                         "Invalid type for '%s': expected %s, but got %s instead.", param, expected,
                         icj_type_text(got.type));
}

void ic_request_fini(struct ic_request *r)
{
    bytes_fini(&r->model);
    bytes_fini(&r->sbx_params);
    bytes_fini(&r->head);
    bytes_fini(&r->items);
    bytes_fini(&r->include);
    bytes_fini(&r->tools_all);
    bytes_fini(&r->tools_closing);
    bytes_fini(&r->choice_first);
    bytes_fini(&r->choice_later);
    bytes_fini(&r->choice_closing);
}

/* Goes to the head as it is? The others are rebuilt, moved to the tail or dropped. */
static bool is_passed_on(const struct ic_request *r, enum member m)
{
    switch (m) {
    case MEMBER_BACKGROUND:
    case MEMBER_N:
    case MEMBER_STORE:
    case MEMBER_CONVERSATION:
        return true;
    case MEMBER_TOOL_CALLS:
    case MEMBER_STREAM_OPTIONS: /* chat's are rebuilt */
    case MEMBER_TOKENS_CHAT:    /* foreign names are left to the provider */
    case MEMBER_TOKENS_OLD:
    case MEMBER_MESSAGES:
        return r->surface == IC_RESPONSES;
    case MEMBER_TOKENS:
    case MEMBER_INPUT:
        return r->surface == IC_CHAT;
    case MEMBER_MODEL:
    case MEMBER_TOOLS:
    case MEMBER_TOOL_CHOICE:
    case MEMBER_PARALLEL:
    case MEMBER_INCLUDE:
    case MEMBER_STREAM:
    case MEMBER_METADATA:
    case MEMBER_LITELLM_METADATA:
    case MEMBER_COUNT:
        break;
    }
    return false;
}

/* Sorts the members: known ones into `m`, the rest and what is passed on into the head. */
static int split(struct ic_request *r, struct icj *m, struct err *e)
{
    struct icj_iter it = icj_iter(r->root);
    struct bytes tmp = {0};
    struct icj key;
    struct icj v;
    int rc = 0;

    while (rc == 0 && icj_next_member(&it, &key, &v)) {
        unsigned i = 0;

        while (i < MEMBER_COUNT && !icj_is(key, member_names[i])) {
            i++;
        }
        if (i == MEMBER_COUNT ? wk_scan_is_reserved(icj_view(key, &tmp))
                              : !is_passed_on(r, (enum member)i)) {
            if (i == MEMBER_COUNT) {
                continue;
            }
        } else {
            bytes_put_char(&r->head, ',');
            bytes_put_sv(&r->head, key.raw);
            bytes_put_char(&r->head, ':');
            bytes_put_sv(&r->head, v.raw);
        }
        if (i < MEMBER_COUNT) {
            if (m[i].type != ICJ_ABSENT) {
                rc = err_set_param(e, ERR_INVALID, member_names[i],
                                   "'%s' is in the request twice; send it once.", member_names[i]);
            }
            m[i] = v;
        }
    }
    bytes_fini(&tmp);
    return rc;
}

static int want_bool(struct icj v, const char *name, bool *ret, struct err *e)
{
    if (v.type == ICJ_TRUE || v.type == ICJ_FALSE || !icj_is_set(v)) {
        *ret = v.type == ICJ_TRUE;
        return 0;
    }
    return ic_bad_type(e, name, "a boolean", v);
}

static int set_session(struct ic_request *r, struct str_view id, const char *param, struct err *e)
{
    if (id.n == 0) {
        return err_set_param(e, ERR_INVALID, param,
                             "Invalid '%s': empty string. Expected 1 to %d bytes; leave it out to "
                             "run without a session.",
                             param, IC_SESSION_MAX);
    }
    if (id.n > IC_SESSION_MAX) {
        return err_set_param(e, ERR_STRING_TOO_LONG, param,
                             "Invalid '%s': string too long. Expected at most %d bytes, but got "
                             "%zu.",
                             param, IC_SESSION_MAX, id.n);
    }
    if (r->session_n == 0) {
        memcpy(r->session, id.p, id.n);
        r->session_n = id.n;
    }
    return 0;
}

static int session_member(struct ic_request *r, struct icj meta, const char *name, struct err *e)
{
    char param[48];
    struct icj id;
    struct bytes tmp = {0};
    int rc;

    if (!icj_is_set(meta)) {
        return 0;
    }
    if (meta.type != ICJ_OBJECT) {
        return ic_bad_type(e, name, "an object", meta);
    }
    id = icj_get(meta, "session_id");
    if (!icj_is_set(id)) {
        return 0;
    }
    (void)snprintf(param, sizeof(param), "%s.session_id", name);
    if (id.type != ICJ_STRING) {
        return ic_bad_type(e, param, "a string", id);
    }
    rc = set_session(r, icj_view(id, &tmp), param, e);
    bytes_fini(&tmp);
    return rc;
}

/* The header that may name a session, when the operator configured one. */
static int session_header(struct ic_request *r, struct str_view headers, const struct cfg *cfg,
                          struct err *e)
{
    if (cfg->session_header == NULL || cfg->session_header[0] == '\0') {
        return 0;
    }
    while (headers.n > 0) {
        size_t n = sv_find(headers, '\n');
        struct str_view line = {headers.p, n};
        size_t colon;

        headers.p += n < headers.n ? n + 1 : n;
        headers.n -= n < headers.n ? n + 1 : n;
        if (line.n > 0 && line.p[line.n - 1] == '\r') {
            line.n--;
        }
        colon = sv_find(line, ':');
        if (colon < line.n &&
            sv_eq_nocase((struct str_view){line.p, colon}, sv_of(cfg->session_header))) {
            struct str_view v = sv_trim(sv_from(line.p + colon + 1, line.n - colon - 1));

            return v.n == 0 ? 0 : set_session(r, v, cfg->session_header, e);
        }
    }
    return 0;
}

/* Client metadata goes on without session_id and control fields; nothing left = not at all. */
static void put_metadata(struct ic_request *r)
{
    struct icj_iter it = icj_iter(r->metadata);
    struct bytes kept = {0};
    struct bytes tmp = {0};
    struct icj key;
    struct icj v;
    bool is_dropped = false;

    if (r->metadata.type != ICJ_OBJECT) {
        if (r->metadata.type != ICJ_ABSENT) {
            bytes_put_str(&r->head, ",\"metadata\":");
            bytes_put_sv(&r->head, r->metadata.raw);
        }
        return;
    }
    kept.cap_max = r->metadata.raw.n * 2 + 64;
    while (icj_next_member(&it, &key, &v)) {
        if (icj_is(key, "session_id") || wk_scan_is_reserved(icj_view(key, &tmp))) {
            is_dropped = true;
            continue;
        }
        bytes_put_str(&kept, kept.n > 0 ? "," : "");
        bytes_put_sv(&kept, key.raw);
        bytes_put_char(&kept, ':');
        bytes_put_sv(&kept, v.raw);
    }
    if (kept.n > 0 || !is_dropped) {
        bytes_put_str(&r->head, ",\"metadata\":{");
        bytes_put(&r->head, kept.p, kept.n);
        bytes_put_char(&r->head, '}');
    }
    bytes_fini(&kept);
    bytes_fini(&tmp);
}

static int parse_include(struct ic_request *r, struct icj v, struct err *e)
{
    struct icj_iter it = icj_iter(v);
    struct icj item;
    unsigned i = 0;

    r->is_outputs_included = r->surface == IC_CHAT && v.type == ICJ_ABSENT;
    if (!icj_is_set(v)) {
        return 0;
    }
    if (v.type != ICJ_ARRAY) {
        return ic_bad_type(e, "include", "an array of strings", v);
    }
    r->include.cap_max = v.raw.n * 2 + 64;
    while (icj_next(&it, &item)) {
        if (item.type != ICJ_STRING) {
            char param[32];

            (void)snprintf(param, sizeof(param), "include[%u]", i);
            return ic_bad_type(e, param, "a string", item);
        }
        i++;
        if (icj_is(item, "code_interpreter_call.outputs")) {
            r->is_outputs_included = true;
            continue;
        }
        bytes_put_char(&r->include, r->include.n == 0 ? '[' : ',');
        bytes_put_sv(&r->include, item.raw);
    }
    if (r->include.n > 0) {
        bytes_put_char(&r->include, ']');
    }
    return 0;
}

static int parse_limits(struct ic_request *r, const struct icj *m, struct err *e)
{
    int64_t n;

    r->tool_calls_max = UINT64_MAX;
    r->output_tokens_max = UINT64_MAX;
    r->max_tool_calls = m[MEMBER_TOOL_CALLS];
    if (icj_is_set(r->max_tool_calls)) {
        if (!icj_int(r->max_tool_calls, &n)) {
            return ic_bad_type(e, "max_tool_calls", "an integer", r->max_tool_calls);
        }
        if (n < 0) {
            return err_set_param(e, ERR_BELOW_MIN, "max_tool_calls",
                                 "Invalid 'max_tool_calls': integer below minimum value. Expected "
                                 "a value >= 0, but got %lld instead.",
                                 (long long)n);
        }
        r->tool_calls_max = (uint64_t)n;
    }
    if (r->surface == IC_RESPONSES) {
        r->tokens_name = member_names[MEMBER_TOKENS];
        r->max_output_tokens = m[MEMBER_TOKENS];
    } else if (icj_is_set(m[MEMBER_TOKENS_CHAT])) {
        r->tokens_name = member_names[MEMBER_TOKENS_CHAT];
        r->max_output_tokens = m[MEMBER_TOKENS_CHAT];
    } else {
        r->tokens_name = member_names[MEMBER_TOKENS_OLD];
        r->max_output_tokens = m[MEMBER_TOKENS_OLD];
    }
    if (icj_is_set(r->max_output_tokens)) {
        if (!icj_int(r->max_output_tokens, &n)) {
            return ic_bad_type(e, r->tokens_name, "an integer", r->max_output_tokens);
        }
        if (n < 1) {
            return err_set_param(e, ERR_BELOW_MIN, r->tokens_name,
                                 "Invalid '%s': integer below minimum value. Expected a value >= "
                                 "1, but got %lld instead.",
                                 r->tokens_name, (long long)n);
        }
        r->output_tokens_max = (uint64_t)n;
    }
    return 0;
}

/* Combinations with the tool that cannot be honoured are refused, not ignored. */
static int refuse_unsupported(const struct ic_request *r, const struct icj *m, struct err *e)
{
    bool is_background = false;
    int64_t n = 1;
    int rc;

    if (r->surface == IC_RESPONSES) {
        if ((rc = want_bool(m[MEMBER_BACKGROUND], "background", &is_background, e)) != 0) {
            return rc;
        }
        if (is_background) {
            return err_set_param(e, ERR_UNSUPPORTED_PARAM, "background",
                                 "Unsupported parameter: 'background' cannot be true together "
                                 "with the code_interpreter tool here; send background=false, "
                                 "with stream=true for long runs.");
        }
    } else if (icj_is_set(m[MEMBER_N])) {
        if (!icj_int(m[MEMBER_N], &n)) {
            return ic_bad_type(e, "n", "an integer", m[MEMBER_N]);
        }
        if (n != 1) {
            return err_set_param(e, ERR_UNSUPPORTED_PARAM, "n",
                                 "Unsupported value: 'n' must be 1 together with the "
                                 "code_interpreter tool; send one request per choice.");
        }
    }
    return 0;
}

static int parse_stream(struct ic_request *r, const struct icj *m, struct err *e)
{
    static const struct icj_edit usage = {"include_usage", {"true", 4}, true};
    struct icj opts = m[MEMBER_STREAM_OPTIONS];
    int rc = want_bool(m[MEMBER_STREAM], "stream", &r->is_stream, e);

    if (rc != 0) {
        return rc;
    }
    if (icj_is_set(opts) && opts.type != ICJ_OBJECT) {
        return ic_bad_type(e, "stream_options", "an object", opts);
    }
    if (r->surface == IC_CHAT &&
        (rc = want_bool(icj_get(opts, "include_usage"), "stream_options.include_usage",
                        &r->is_usage_included, e)) != 0) {
        return rc;
    }
    if (r->surface == IC_CHAT && r->is_stream) {
        bytes_put_str(&r->head, ",\"stream_options\":");
        icj_copy(&r->head, opts, &usage, 1);
    } else if (r->surface == IC_CHAT && opts.type != ICJ_ABSENT) {
        bytes_put_str(&r->head, ",\"stream_options\":");
        bytes_put_sv(&r->head, opts.raw);
    }
    return 0;
}

static int parse_rest(struct ic_request *r, const struct icj *m, struct str_view headers,
                      const struct cfg *cfg, struct err *e)
{
    const struct icj model = m[MEMBER_MODEL];
    int rc;

    if (model.type == ICJ_ABSENT) {
        return err_set_param(e, ERR_MISSING_PARAM, "model", "Missing required parameter: 'model'.");
    }
    if (model.type != ICJ_STRING) {
        return ic_bad_type(e, "model", "a string", model);
    }
    icj_text(model, &r->model);
    r->tools = m[MEMBER_TOOLS];
    r->tool_choice = m[MEMBER_TOOL_CHOICE];
    r->parallel = m[MEMBER_PARALLEL];
    r->metadata = m[MEMBER_METADATA];
    r->is_unstored = m[MEMBER_STORE].type == ICJ_FALSE;
    r->is_conversation = icj_is_set(m[MEMBER_CONVERSATION]) && r->surface == IC_RESPONSES;
    if ((rc = refuse_unsupported(r, m, e)) != 0 || (rc = parse_stream(r, m, e)) != 0 ||
        (rc = parse_limits(r, m, e)) != 0 || (rc = parse_include(r, m[MEMBER_INCLUDE], e)) != 0 ||
        (rc = session_member(r, r->metadata, "metadata", e)) != 0 ||
        (rc = session_member(r, m[MEMBER_LITELLM_METADATA], "litellm_metadata", e)) != 0) {
        return rc;
    }
    if (r->session_n == 0 && (rc = session_header(r, headers, cfg, e)) != 0) {
        return rc;
    }
    put_metadata(r);
    if ((rc = ic_tools_parse(r, cfg, e)) != 0) {
        return rc;
    }
    return ic_history_parse(r, m[r->surface == IC_RESPONSES ? MEMBER_INPUT : MEMBER_MESSAGES], e);
}

static int built_rc(const struct ic_request *r)
{
    const struct bytes *parts[] = {
        &r->model,     &r->sbx_params,    &r->head,         &r->items,        &r->include,
        &r->tools_all, &r->tools_closing, &r->choice_first, &r->choice_later, &r->choice_closing};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i]->rc != 0) {
            return parts[i]->rc;
        }
    }
    return 0;
}

int ic_request_parse(struct ic_request *ret, enum ic_surface surface, struct str_view body,
                     struct str_view headers, const struct cfg *cfg, struct err *e)
{
    struct icj m[MEMBER_COUNT];
    int rc;

    memset(ret, 0, sizeof(*ret));
    memset(m, 0, sizeof(m));
    ret->surface = surface;
    /* rewriting can make an item a little longer, never a multiple */
    ret->head.cap_max = body.n * 2 + 4096;
    ret->items.cap_max = body.n * 3 + 65536;
    ret->tools_all.cap_max = body.n * 2 + 65536;
    ret->tools_closing.cap_max = body.n * 2 + 65536;
    if ((rc = icj_parse(&ret->root, body, e)) != 0) {
        return rc;
    }
    if (ret->root.type != ICJ_OBJECT) {
        return err_set(e, ERR_INVALID_TYPE, "The body must be a JSON object, but it is %s.",
                       icj_type_text(ret->root.type));
    }
    if ((rc = split(ret, m, e)) != 0 || (rc = parse_rest(ret, m, headers, cfg, e)) != 0) {
        return rc;
    }
    rc = built_rc(ret);
    if (rc == ERR_LIMIT) {
        return err_set(e, ERR_BODY_TOO_LARGE,
                       "The request grows too large when its history is rewritten.");
    }
    return rc != 0 ? err_set(e, rc, NULL) : 0;
}

void ic_request_tail(const struct ic_request *r, bool is_first, bool is_closing,
                     uint64_t output_tokens_left, struct bytes *ret)
{
    const struct bytes *tools = is_closing ? &r->tools_closing : &r->tools_all;
    const struct bytes *choice = is_closing ? &r->choice_closing
                                 : is_first ? &r->choice_first
                                            : &r->choice_later;

    if (tools->n > 0) {
        icj_put_raw(ret, "tools", sv_from(tools->p, tools->n));
        if (choice->n > 0) {
            icj_put_raw(ret, "tool_choice", sv_from(choice->p, choice->n));
        }
        if (r->parallel.type != ICJ_ABSENT) {
            icj_put_raw(ret, "parallel_tool_calls", r->parallel.raw);
        }
    }
    if (r->include.n > 0) {
        icj_put_raw(ret, "include", sv_from(r->include.p, r->include.n));
    }
    if (output_tokens_left != UINT64_MAX) {
        icj_put_u64(ret, r->tokens_name, output_tokens_left);
    } else if (r->max_output_tokens.type != ICJ_ABSENT) {
        icj_put_raw(ret, r->tokens_name, r->max_output_tokens.raw);
    }
    if (r->is_stream) {
        icj_put_raw(ret, "stream", SV_LIT("true"));
    }
    bytes_put_char(ret, '}');
}
