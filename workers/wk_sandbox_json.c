/* wk_sandbox_json.c - the only file of the sandbox routes that knows jansson. */
#include <jansson.h>

#include "base/mem.h"
#include "wk_lex.h"
#include "wk_sandbox.h"

#define BODY_FLAGS     (JSON_REJECT_DUPLICATES)
#define SESSION_ID_MAX 256
#define TIMEOUT_S_MAX  3600

void wk_sandbox_req_fini(struct wk_sandbox_req *r)
{
    mem_free(r->tool);
    mem_free(r->session_id);
    buf_unref(r->code);
    memset(r, 0, sizeof(*r));
}

/* A string field, or absent/null. `max` in bytes. */
static int get_string(const json_t *root, const char *key, size_t max, json_t **ret, struct err *e)
{
    json_t *v = json_object_get(root, key);

    *ret = NULL;
    if (v == NULL || json_is_null(v)) {
        return 0;
    }
    if (!json_is_string(v)) {
        return err_set_param(e, ERR_INVALID_TYPE, key, "Invalid type for '%s': expected a string.",
                             key);
    }
    if (json_string_length(v) == 0) {
        return err_set_param(e, ERR_INVALID, key,
                             "Invalid '%s': it must not be empty; leave it out instead.", key);
    }
    if (json_string_length(v) > max) {
        return err_set_param(e, ERR_STRING_TOO_LONG, key, "Invalid '%s': at most %zu bytes.", key,
                             max);
    }
    *ret = v;
    return 0;
}

static int copy_string(const json_t *root, const char *key, size_t max, char **ret, struct err *e)
{
    json_t *v;
    int rc = get_string(root, key, max, &v, e);

    if (rc != 0 || v == NULL) {
        return rc;
    }
    *ret = mem_strdup(json_string_value(v));
    return *ret != NULL ? 0 : err_set(e, ERR_NOMEM, NULL);
}

static int get_code(const json_t *root, struct buf **ret, struct err *e)
{
    const json_t *v = json_object_get(root, "code");

    if (v == NULL) {
        return err_set_param(e, ERR_MISSING_PARAM, "code", "Missing required parameter: 'code'.");
    }
    if (!json_is_string(v)) {
        return err_set_param(e, ERR_INVALID_TYPE, "code",
                             "Invalid type for 'code': expected a string of Python.");
    }
    *ret = buf_copy(json_string_value(v), json_string_length(v));
    return *ret != NULL ? 0 : err_set(e, ERR_NOMEM, NULL);
}

static int get_timeout(const json_t *root, const char *key, uint32_t *ret_ms, struct err *e)
{
    const json_t *v = json_object_get(root, key);
    double s;

    if (v == NULL || json_is_null(v)) {
        return 0;
    }
    if (!json_is_number(v)) {
        return err_set_param(e, ERR_INVALID_TYPE, key,
                             "Invalid type for '%s': expected a number of seconds.", key);
    }
    s = json_number_value(v);
    if (!(s >= 0.001)) {
        return err_set_param(e, ERR_BELOW_MIN, key, "Invalid '%s': it must be greater than 0.",
                             key);
    }
    if (s > TIMEOUT_S_MAX) {
        return err_set_param(e, ERR_ABOVE_MAX, key, "Invalid '%s': at most %d seconds.", key,
                             TIMEOUT_S_MAX);
    }
    *ret_ms = (uint32_t)(s * 1000);
    return 0;
}

static int get_bool(const json_t *root, const char *key, bool *ret, struct err *e)
{
    const json_t *v = json_object_get(root, key);

    if (v == NULL || json_is_null(v)) {
        return 0;
    }
    if (!json_is_boolean(v)) {
        return err_set_param(e, ERR_INVALID_TYPE, key, "Invalid type for '%s': expected a boolean.",
                             key);
    }
    *ret = json_is_true(v);
    return 0;
}

static int parse_root(struct wk_sandbox_req *r, const json_t *root, bool with_code, struct err *e)
{
    int rc;

    if (!json_is_object(root)) {
        return err_set(e, ERR_INVALID_TYPE, "The body of your request must be a JSON object.");
    }
    if ((rc = copy_string(root, "sandbox_tool", MSG_NAME_MAX, &r->tool, e)) != 0 ||
        (rc = copy_string(root, "session_id", SESSION_ID_MAX, &r->session_id, e)) != 0 ||
        !with_code) {
        return rc;
    }
    if ((rc = get_code(root, &r->code, e)) != 0 ||
        (rc = get_timeout(root, "timeout_s", &r->timeout_ms, e)) != 0) {
        return rc;
    }
    return get_bool(root, "stream", &r->is_stream, e);
}

/* The words of every other route for what is no JSON. */
static int check_syntax(struct str_view body, struct err *e)
{
    struct wk_lex lex = {.p = body.p, .n = body.n, .e = e};
    int rc;

    wk_lex_space(&lex);
    if ((rc = wk_lex_value(&lex, 0)) != 0) {
        return rc;
    }
    wk_lex_space(&lex);
    return lex.i == lex.n ? 0 : wk_lex_bad(&lex, "unexpected data after the object");
}

/* What is JSON, yet not taken here. */
static int complain(const json_error_t *je, struct err *e)
{
    static const struct {
        enum json_error_code code;
        const char *why;
    } rows[] = {
        {json_error_null_character, "a string must not hold the character \\u0000"},
        {json_error_null_byte_in_key, "a key must not hold the character \\u0000"},
        {json_error_duplicate_key, "a key is given twice"},
        {json_error_numeric_overflow, "a number is out of range"},
    };
    const char *why = "invalid \\u escape"; /* half a surrogate pair */

    if (json_error_code(je) == json_error_out_of_memory) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        why = rows[i].code == json_error_code(je) ? rows[i].why : why;
    }
    return err_set(e, ERR_INVALID_JSON,
                   "We could not parse the JSON body of your request: %s at byte %d.", why,
                   je->position);
}

int wk_sandbox_req_parse(struct wk_sandbox_req *ret, struct str_view body, bool with_code,
                         struct err *e)
{
    json_error_t je;
    json_t *root;
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (body.n > 0 && (rc = check_syntax(body, e)) != 0) {
        return rc;
    }
    root = body.n > 0 ? json_loadb(body.p, body.n, BODY_FLAGS, &je) : json_object();
    if (root == NULL) {
        return body.n > 0 ? complain(&je, e) : err_set(e, ERR_NOMEM, NULL);
    }
    rc = parse_root(ret, root, with_code, e);
    json_decref(root);
    if (rc != 0) {
        wk_sandbox_req_fini(ret);
    }
    return rc;
}

/* --- answers --- */

static struct buf *finish(struct bytes *b)
{
    struct buf *ret = b->rc == 0 ? buf_from_bytes(b) : NULL;

    bytes_fini(b);
    return ret;
}

/* The payload's members without braces; false when it is not an object. */
static bool members(struct str_view payload, struct str_view *ret)
{
    if (payload.n < 2 || payload.p[0] != '{' || payload.p[payload.n - 1] != '}') {
        return false;
    }
    *ret = sv_from(payload.p + 1, payload.n - 2);
    return true;
}

static void put_notes(struct bytes *b, unsigned notes)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {MSG_SBX_NOTE_RESTARTED, "restarted"}, {MSG_SBX_NOTE_INTERRUPTED, "interrupted"},
        {MSG_SBX_NOTE_TRUNCATED, "truncated"}, {MSG_SBX_NOTE_REPEATED, "repeated"},
        {MSG_SBX_NOTE_CREATED, "created"},     {MSG_SBX_NOTE_TIMEOUT, "timeout"},
    };
    bool is_first = true;

    (void)bytes_put_str(b, ",\"notes\":[");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((notes & names[i].bit) != 0) {
            (void)bytes_printf(b, "%s\"%s\"", is_first ? "" : ",", names[i].name);
            is_first = false;
        }
    }
    (void)bytes_put_char(b, ']');
}

static void put_run_result(struct bytes *b, const struct wk_sbx_result *r, const char *type)
{
    struct str_view inner = {NULL, 0};

    if (!members(r->payload, &inner)) {
        b->rc = ERR_PEER_MALFORMED;
        return;
    }
    (void)bytes_put_char(b, '{');
    if (type != NULL) {
        (void)bytes_put_str(b, "\"type\":");
        (void)bytes_put_json_str(b, sv_of(type));
        (void)bytes_put_char(b, ',');
    }
    (void)bytes_put_sv(b, inner);
    if (memmem(inner.p, inner.n, "\"sandbox_id\":", 13) == NULL) {
        (void)bytes_put_str(b, ",\"sandbox_id\":");
        (void)bytes_put_json_str(b, r->sandbox_id);
    }
    put_notes(b, r->notes);
    (void)bytes_put_char(b, '}');
}

struct buf *wk_sandbox_run_result(const struct wk_sbx_result *r, const char *type)
{
    struct bytes b = {0};

    bytes_init(&b, (size_t)MSG_PAYLOAD_MAX);
    if (type != NULL) {
        (void)bytes_printf(&b, "event: %s\ndata: ", type);
    }
    put_run_result(&b, r, type);
    if (type != NULL) {
        (void)bytes_put(&b, "\n\n", 2);
    }
    return finish(&b);
}

struct buf *wk_sandbox_list(struct str_view payload)
{
    struct bytes b = {0};
    struct str_view inner;

    bytes_init(&b, (size_t)MSG_PAYLOAD_MAX);
    if (!members(payload, &inner)) {
        return NULL;
    }
    (void)bytes_put_str(&b, "{\"object\":\"list\",");
    (void)bytes_put_sv(&b, inner);
    (void)bytes_put_str(&b, ",\"has_more\":false}");
    return finish(&b);
}

struct buf *wk_sandbox_deleted(struct str_view id)
{
    struct bytes b = {0};

    (void)bytes_put_str(&b, "{\"id\":");
    (void)bytes_put_json_str(&b, id);
    (void)bytes_put_str(&b, ",\"object\":\"sandbox.deleted\",\"deleted\":true}");
    return finish(&b);
}

struct buf *wk_sandbox_event(enum msg_sbx_event kind, struct str_view payload)
{
    struct bytes b = {0};
    struct str_view inner;

    bytes_init(&b, (size_t)MSG_PAYLOAD_MAX);
    switch (kind) {
    case MSG_SBX_STARTED:
        return NULL;
    case MSG_SBX_STDOUT:
    case MSG_SBX_STDERR:
        (void)bytes_printf(&b, "event: %s\ndata: {\"type\":\"%s\",\"text\":",
                           kind == MSG_SBX_STDOUT ? "stdout" : "stderr",
                           kind == MSG_SBX_STDOUT ? "stdout" : "stderr");
        (void)bytes_put_json_str(&b, payload);
        (void)bytes_put_str(&b, "}\n\n");
        break;
    case MSG_SBX_DISPLAY:
        (void)bytes_put_str(&b, "event: result\ndata: {\"type\":\"result\",\"result\":");
        (void)bytes_put_sv(&b, payload.n > 0 ? payload : SV_LIT("{}"));
        (void)bytes_put_str(&b, "}\n\n");
        break;
    case MSG_SBX_EXCEPTION:
        if (!members(payload, &inner)) {
            return NULL;
        }
        (void)bytes_put_str(&b, "event: error\ndata: {\"type\":\"error\",");
        (void)bytes_put_sv(&b, inner);
        (void)bytes_put_str(&b, "}\n\n");
        break;
    }
    return finish(&b);
}

struct buf *wk_sandbox_failure(const struct err *e)
{
    const struct err_info *info = err_info(e->code);
    struct bytes b = {0};

    (void)bytes_put_str(&b, "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":");
    (void)bytes_put_json_str(&b, sv_of(e->text[0] != '\0' ? e->text : info->text));
    (void)bytes_printf(&b, ",\"type\":\"%s\",\"param\":null,\"code\":", info->type);
    if (info->code != NULL) {
        (void)bytes_put_json_str(&b, sv_of(info->code));
    } else {
        (void)bytes_put_str(&b, "null");
    }
    (void)bytes_put_str(&b, "}}\n\n");
    return finish(&b);
}
