/* ic_chat_emit.c - writes the client's chat chunks and objects: one role, one finish, one usage. */
#include <stdio.h>

#include "base/id.h"
#include "ic_chat.h"

static const char no_answer[] = "The code interpreter limit of this response is reached, and the "
                                "model gave no final answer.";

static struct icj parsed(const struct bytes *b)
{
    struct icj v = {ICJ_ABSENT, {NULL, 0}};

    if (b->n > 0) {
        (void)icj_parse(&v, sv_from(b->p, b->n), NULL);
    }
    return v;
}

/* --- chunks --- */

/* `base` with the first chunk's identity and these choices. */
static void emit_chunk(struct ic_loop *l, struct icj base, struct str_view choices,
                       struct str_view usage)
{
    struct icj first = parsed(&l->first);
    struct bytes json = {.cap_max = IC_TEXT_MAX};
    struct bytes fresh = {0};
    struct icj_edit e[6];
    unsigned n = 0;
    static const char *const same[] = {"id", "created", "model"};

    for (unsigned i = 0; i < 3; i++) {
        struct icj v = icj_get(first, same[i]);

        if (icj_is_set(v)) {
            e[n++] = (struct icj_edit){same[i], v.raw, true};
        }
    }
    e[n++] = (struct icj_edit){"object", SV_LIT("\"chat.completion.chunk\""), true};
    e[n++] = (struct icj_edit){"choices", choices, true};
    if (l->req->is_usage_included) {
        e[n++] = (struct icj_edit){"usage", usage, true};
    } else {
        e[n++] = (struct icj_edit){"usage", {NULL, 0}, false};
    }
    icj_copy(&json, base, e, n);
    bytes_put_str(&l->out, "data: ");
    ic_put_flat(&l->out, sv_from(json.p, json.n));
    bytes_put_str(&l->out, "\n\n");
    if (json.rc != 0) {
        l->out.rc = json.rc;
    }
    bytes_fini(&json);
    bytes_fini(&fresh);
}

static void emit_choice(struct ic_loop *l, struct icj base, struct str_view delta,
                        struct str_view logprobs, struct str_view finish)
{
    struct bytes choices = {.cap_max = IC_TEXT_MAX};

    bytes_put_str(&choices, "[{\"index\":0,\"delta\":");
    bytes_put_sv(&choices, delta);
    bytes_put_str(&choices, ",\"logprobs\":");
    bytes_put_sv(&choices, logprobs);
    bytes_put_str(&choices, ",\"finish_reason\":");
    bytes_put_sv(&choices, finish);
    bytes_put_str(&choices, "}]");
    emit_chunk(l, base, sv_from(choices.p, choices.n), SV_LIT("null"));
    if (choices.rc != 0) {
        l->out.rc = choices.rc;
    }
    bytes_fini(&choices);
}

void ic_chat_emit_delta(struct ic_loop *l, struct icj chunk, struct str_view delta,
                        struct icj logprobs)
{
    emit_choice(l, chunk, delta, logprobs.type != ICJ_ABSENT ? logprobs.raw : SV_LIT("null"),
                SV_LIT("null"));
}

/* --- the end --- */

/* {"code_interpreter_calls":[...]} with what the provider had in it. */
static void put_specific(const struct ic_loop *l, struct icj theirs, struct bytes *ret)
{
    struct bytes list = {.cap_max = IC_TEXT_MAX};
    struct icj_edit e = {"code_interpreter_calls", {NULL, 0}, true};

    bytes_put_char(&list, '[');
    for (unsigned i = 0; i < l->item_count; i++) {
        icj_put_comma(&list);
        bytes_put(&list, l->items[i].json.p, l->items[i].json.n);
    }
    bytes_put_char(&list, ']');
    e.raw = sv_from(list.p, list.n);
    icj_copy(ret, theirs, &e, 1);
    if (list.rc != 0) {
        ret->rc = list.rc;
    }
    bytes_fini(&list);
}

static struct str_view finish_reason(const struct ic_loop *l, const struct wk_run_action *a)
{
    struct str_view theirs = sv_from(l->finish.p, l->finish.n);

    if (a->is_token_cut) {
        return SV_LIT("\"length\"");
    }
    if (l->client_calls > 0 && !a->is_cut) {
        return l->call_count > 0 || theirs.n == 0 ? SV_LIT("\"tool_calls\"") : theirs;
    }
    if (theirs.n == 0 || sv_eq(theirs, SV_LIT("\"tool_calls\""))) {
        return SV_LIT("\"stop\"");
    }
    return theirs;
}

static bool is_silent(const struct ic_loop *l, const struct wk_run_action *a)
{
    return l->has_dropped && !l->has_message && l->client_calls == 0 && !a->is_cut;
}

static void emit_last(struct ic_loop *l, const struct wk_run_action *a)
{
    struct icj first = parsed(&l->first);
    struct icj none = {ICJ_ABSENT, {NULL, 0}};
    struct bytes delta = {.cap_max = IC_TEXT_MAX};

    if (is_silent(l, a)) {
        bytes_put_str(&delta, l->is_role_sent ? "{" : "{\"role\":\"assistant\"");
        icj_put_str(&delta, "content", sv_of(no_answer));
        bytes_put_char(&delta, '}');
        l->is_role_sent = true;
        emit_choice(l, first, sv_from(delta.p, delta.n), SV_LIT("null"), SV_LIT("null"));
        bytes_reset(&delta);
    }
    bytes_put_str(&delta, l->is_role_sent ? "{" : "{\"role\":\"assistant\"");
    if (l->item_count > 0) {
        icj_put_key(&delta, "provider_specific_fields");
        put_specific(l, none, &delta);
    }
    bytes_put_char(&delta, '}');
    emit_choice(l, first, sv_from(delta.p, delta.n), SV_LIT("null"), finish_reason(l, a));
    if (l->req->is_usage_included) {
        emit_chunk(l, first, SV_LIT("[]"),
                   l->usage.n > 0 ? sv_from(l->usage.p, l->usage.n) : SV_LIT("null"));
    }
    bytes_put_str(&l->out, "data: [DONE]\n\n");
    bytes_fini(&delta);
}

/* One of them; arguments that came as an object become the text that clients expect. */
static void put_client_call(struct icj call, struct bytes *ret)
{
    struct icj f = icj_get(call, "function");
    struct icj args = icj_get(f, "arguments");
    struct bytes text = {.cap_max = IC_TEXT_MAX};
    struct bytes fn = {.cap_max = IC_TEXT_MAX};
    struct icj_edit e = {"arguments", {NULL, 0}, false};

    icj_put_comma(ret);
    if (args.type != ICJ_OBJECT) {
        bytes_put_sv(ret, call.raw);
        return;
    }
    bytes_put_json_str(&text, args.raw);
    e.raw = sv_from(text.p, text.n);
    icj_copy(&fn, f, &e, 1);
    e = (struct icj_edit){"function", sv_from(fn.p, fn.n), false};
    icj_copy(ret, call, &e, 1);
    if (text.rc != 0 || fn.rc != 0) {
        ret->rc = ERR_LIMIT;
    }
    bytes_fini(&text);
    bytes_fini(&fn);
}

/* The client's own tool calls of a whole message; false when there are none. */
static bool put_client_calls(const struct ic_loop *l, struct icj message, struct bytes *ret)
{
    struct icj_iter it = icj_iter(icj_get(message, "tool_calls"));
    struct icj call;
    bool is_any = false;

    bytes_put_char(ret, '[');
    while (icj_next(&it, &call)) {
        if (!icj_is(icj_get2(call, "function", "name"), l->req->alias)) {
            put_client_call(call, ret);
            is_any = true;
        }
    }
    bytes_put_char(ret, ']');
    return is_any;
}

static void put_message(const struct ic_loop *l, const struct wk_run_action *a, struct bytes *ret)
{
    struct icj message = parsed(&l->message);
    struct bytes calls = {.cap_max = IC_TEXT_MAX};
    struct bytes specific = {.cap_max = IC_TEXT_MAX};
    struct bytes content = {.cap_max = IC_TEXT_MAX};
    struct icj_edit e[3];
    unsigned n = 0;

    if (put_client_calls(l, message, &calls)) {
        e[n++] = (struct icj_edit){"tool_calls", sv_from(calls.p, calls.n), false};
    } else {
        e[n++] = (struct icj_edit){"tool_calls", {NULL, 0}, false};
    }
    if (is_silent(l, a)) {
        bytes_put_json_str(&content, sv_of(no_answer));
    } else if (l->has_earlier_text && l->content.n > 0 &&
               icj_get(message, "content").type != ICJ_ARRAY) {
        bytes_put_json_str(&content, sv_from(l->content.p, l->content.n));
    }
    if (content.n > 0) {
        e[n++] = (struct icj_edit){"content", sv_from(content.p, content.n), true};
    }
    if (l->item_count > 0) {
        put_specific(l, icj_get(message, "provider_specific_fields"), &specific);
        e[n++] =
            (struct icj_edit){"provider_specific_fields", sv_from(specific.p, specific.n), true};
    }
    icj_copy(ret, message, e, n);
    if (specific.rc != 0 || content.rc != 0 || calls.rc != 0) {
        ret->rc = ERR_LIMIT;
    }
    bytes_fini(&calls);
    bytes_fini(&specific);
    bytes_fini(&content);
}

static void put_object(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body)
{
    struct icj base = parsed(&l->answer);
    struct icj_iter it = icj_iter(icj_get(base, "choices"));
    struct icj choice = {ICJ_ABSENT, {NULL, 0}};
    struct bytes message = {.cap_max = IC_TEXT_MAX};
    struct bytes choices = {.cap_max = IC_TEXT_MAX};
    struct icj_edit e[3];

    (void)icj_next(&it, &choice);
    put_message(l, a, &message);
    e[0] = (struct icj_edit){"message", sv_from(message.p, message.n), true};
    e[1] = (struct icj_edit){"finish_reason", finish_reason(l, a), true};
    bytes_put_char(&choices, '[');
    icj_copy(&choices, choice, e, 2);
    bytes_put_char(&choices, ']');
    e[0] = (struct icj_edit){"choices", sv_from(choices.p, choices.n), true};
    e[1] = (struct icj_edit){
        "usage", l->usage.n > 0 ? sv_from(l->usage.p, l->usage.n) : (struct str_view){NULL, 0},
        true};
    icj_copy(body, base, e, 2);
    if (message.rc != 0 || choices.rc != 0) {
        body->rc = ERR_LIMIT;
    }
    bytes_fini(&message);
    bytes_fini(&choices);
}

void ic_chat_emit_answer(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body)
{
    if (l->req->is_stream) {
        emit_last(l, a);
    } else {
        put_object(l, a, body);
    }
}

void ic_chat_emit_fail(struct ic_loop *l)
{
    const struct err_info *info = err_info(l->fail.e.code);
    const char *code = l->fail.code[0] != '\0' ? l->fail.code : info->code;
    struct bytes *out = &l->out;

    bytes_put_str(out, "data: {\"error\":{");
    icj_put_str(out, "message", sv_of(l->fail.e.text));
    icj_put_str(out, "type", sv_of(l->fail.type[0] != '\0' ? l->fail.type : info->type));
    icj_put_raw(out, "param", SV_LIT("null"));
    if (code != NULL) {
        icj_put_str(out, "code", sv_of(code));
    } else {
        icj_put_raw(out, "code", SV_LIT("null"));
    }
    bytes_put_str(out, "}}\n\n");
}
