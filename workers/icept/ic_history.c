/* ic_history.c - what came before: input items or messages, in the form a model without the native
 * tool understands. */
#include <stdio.h>

#include "ic_request.h"

static void put_item(struct ic_request *r, struct str_view raw)
{
    bytes_put_str(&r->items, r->items.n > 0 ? "," : "");
    bytes_put_sv(&r->items, raw);
}

/* The text that stood for a run's outputs when the model saw them. */
static void outputs_text(struct icj outputs, struct bytes *text)
{
    struct icj_iter it = icj_iter(outputs);
    struct icj out;

    if (outputs.type != ICJ_ARRAY) {
        bytes_put_str(text, "[output not recorded]");
        return;
    }
    while (icj_next(&it, &out)) {
        if (text->n > 0 && text->p[text->n - 1] != '\n') {
            bytes_put_char(text, '\n');
        }
        if (icj_is(icj_get(out, "type"), "image")) {
            bytes_put_str(text, "[image shown to the user]");
        } else {
            icj_text(icj_get(out, "logs"), text);
        }
    }
}

static int bad_item(struct err *e, unsigned index, const char *key, const char *expected,
                    struct icj got)
{
    char param[64];

    (void)snprintf(param, sizeof(param), "input[%u].%s", index, key);
    return ic_bad_type(e, param, expected, got);
}

/* A replayed run becomes a function call and its output. Any key may be missing: clients drop what
 * is null. */
static int put_run(struct ic_request *r, struct icj item, unsigned index, struct err *e)
{
    struct icj code = icj_get(item, "code");
    struct icj outputs = icj_get(item, "outputs");
    struct bytes args = {.cap_max = item.raw.n * 7 + 256};
    struct bytes text = {.cap_max = item.raw.n * 3 + 256};
    struct bytes *out = &r->items;

    if (icj_is_set(code) && code.type != ICJ_STRING) {
        return bad_item(e, index, "code", "a string", code);
    }
    if (icj_is_set(outputs) && outputs.type != ICJ_ARRAY) {
        return bad_item(e, index, "outputs", "an array", outputs);
    }
    bytes_put_str(&args, "{\"code\":");
    bytes_put_str(&args, code.type == ICJ_STRING ? "" : "\"\"");
    bytes_put_sv(&args, code.type == ICJ_STRING ? code.raw : SV_LIT(""));
    bytes_put_char(&args, '}');
    outputs_text(outputs, &text);

    bytes_put_str(out, out->n > 0 ? "," : "");
    bytes_printf(out, "{\"type\":\"function_call\",\"call_id\":\"call_ci_%u\",\"name\":", index);
    bytes_put_json_str(out, sv_of(r->alias));
    bytes_put_str(out, ",\"arguments\":");
    bytes_put_json_str(out, sv_from(args.p, args.n));
    bytes_printf(
        out, "},{\"type\":\"function_call_output\",\"call_id\":\"call_ci_%u\",\"output\":", index);
    bytes_put_json_str(out, sv_from(text.p, text.n));
    bytes_put_char(out, '}');
    bytes_fini(&args);
    bytes_fini(&text);
    return 0;
}

static bool is_reference(struct icj item, const char *prefix)
{
    struct icj type = icj_get(item, "type");
    struct icj id = icj_get(item, "id");
    struct bytes tmp = {0};
    bool is_it = item.type == ICJ_OBJECT && id.type == ICJ_STRING &&
                 (icj_is(type, "item_reference") ||
                  (!icj_is_set(type) && icj_get(item, "role").type == ICJ_ABSENT)) &&
                 sv_starts(icj_view(id, &tmp), sv_of(prefix));

    bytes_fini(&tmp);
    return is_it;
}

/* A reference to one of our run items cannot be resolved by the provider, which never saw it. It is
 * left out together with the reasoning that led to it, which a provider refuses without what
 * follows it. */
static bool is_dropped_reference(struct icj item, struct icj_iter rest)
{
    /* a few steps ahead are enough, and keep a long list of references linear */
    for (unsigned i = 0; i < 4 && is_reference(item, "rs_"); i++) {
        if (!icj_next(&rest, &item)) {
            return false;
        }
    }
    return is_reference(item, "ci_");
}

static int put_input_item(struct ic_request *r, struct icj item, struct icj_iter rest,
                          unsigned index, struct err *e)
{
    static const struct icj_edit no_status = {"status", {NULL, 0}, false};
    struct icj type = icj_get(item, "type");

    if (item.type != ICJ_OBJECT) {
        char param[32];

        (void)snprintf(param, sizeof(param), "input[%u]", index);
        return ic_bad_type(e, param, "an object", item);
    }
    if (icj_is(type, "code_interpreter_call")) {
        return put_run(r, item, index, e);
    }
    if (icj_is(type, "reasoning")) {
        bytes_put_str(&r->items, r->items.n > 0 ? "," : "");
        icj_copy(&r->items, item, &no_status, 1);
    } else if (!is_dropped_reference(item, rest)) {
        put_item(r, item.raw);
    }
    return 0;
}

static int parse_input(struct ic_request *r, struct icj input, struct err *e)
{
    struct icj_iter it = icj_iter(input);
    struct icj item;
    unsigned i = 0;
    int rc = 0;

    if (!icj_is_set(input)) { /* a prompt template or a conversation may stand for it */
        return 0;
    }
    r->has_input = true;
    if (input.type == ICJ_STRING) {
        bytes_put_str(&r->items, "{\"role\":\"user\",\"content\":");
        bytes_put_sv(&r->items, input.raw);
        bytes_put_char(&r->items, '}');
        return 0;
    }
    if (input.type != ICJ_ARRAY) {
        return ic_bad_type(e, "input", "a string or an array", input);
    }
    while (rc == 0 && icj_next(&it, &item)) {
        rc = put_input_item(r, item, it, i++, e);
    }
    return rc;
}

static int parse_messages(struct ic_request *r, struct icj messages, struct err *e)
{
    static const struct icj_edit no_extras = {"provider_specific_fields", {NULL, 0}, false};
    struct icj_iter it = icj_iter(messages);
    struct icj item;
    unsigned i = 0;

    if (!icj_is_set(messages)) {
        return err_set_param(e, ERR_MISSING_PARAM, "messages",
                             "Missing required parameter: 'messages'.");
    }
    if (messages.type != ICJ_ARRAY) {
        return ic_bad_type(e, "messages", "an array", messages);
    }
    r->has_input = true;
    while (icj_next(&it, &item)) {
        if (item.type != ICJ_OBJECT) {
            char param[32];

            (void)snprintf(param, sizeof(param), "messages[%u]", i);
            return ic_bad_type(e, param, "an object", item);
        }
        i++;
        if (icj_get(item, "provider_specific_fields").type != ICJ_ABSENT) {
            bytes_put_str(&r->items, r->items.n > 0 ? "," : "");
            icj_copy(&r->items, item, &no_extras, 1);
        } else {
            put_item(r, item.raw);
        }
    }
    if (i == 0) {
        return err_set_param(e, ERR_INVALID, "messages",
                             "Invalid 'messages': empty array. Expected at least 1 message.");
    }
    return 0;
}

int ic_history_parse(struct ic_request *r, struct icj input, struct err *e)
{
    return r->surface == IC_CHAT ? parse_messages(r, input, e) : parse_input(r, input, e);
}
