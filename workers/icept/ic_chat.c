/* ic_chat.c - the chat surface: reads upstream answers, text passes through, calls of ours are held
 * back. */
#include "ic_chat.h"

#include <stdio.h>

#include "base/id.h"

/* --- one chunk --- */

static void keep_member(struct ic_loop *l, struct icj key, struct icj v)
{
    struct ic_extra *x = NULL;

    for (unsigned i = 0; i < l->extra_count && x == NULL; i++) {
        if (sv_eq(sv_from(l->extras[i].key.p, l->extras[i].key.n), key.raw)) {
            x = &l->extras[i];
        }
    }
    if (x == NULL) {
        if (l->extra_count == IC_EXTRAS_MAX) {
            return;
        }
        x = &l->extras[l->extra_count++];
        memset(x, 0, sizeof(*x));
        bytes_put_sv(&x->key, key.raw);
        x->type = v.type;
    }
    if (x->type != v.type) {
        bytes_reset(&x->value);
        x->type = v.type;
    }
    if (v.type == ICJ_STRING) {
        icj_text(v, &x->value);
    } else if (v.type == ICJ_ARRAY) {
        struct str_view inner = sv_from(v.raw.p + 1, v.raw.n - 2);

        if (icj_next(&(struct icj_iter){inner.p, inner.p + inner.n}, &v)) {
            bytes_put_str(&x->value, x->value.n > 0 ? "," : "");
            bytes_put_sv(&x->value, inner);
        }
    } else {
        bytes_reset(&x->value);
        bytes_put_sv(&x->value, v.raw);
    }
}

static bool is_empty_text(struct icj v)
{
    return v.type == ICJ_STRING && v.raw.n == 2;
}

/* Text of a later round starts on a new paragraph. */
static void put_content(struct ic_loop *l, struct icj v, struct bytes *delta)
{
    bool is_new_paragraph =
        v.type == ICJ_STRING && !is_empty_text(v) && l->text.n == 0 && l->has_earlier_text;

    icj_put_key(delta, "content");
    if (is_new_paragraph) {
        bytes_put_str(delta, "\"\\n\\n");
        bytes_put(delta, v.raw.p + 1, v.raw.n - 1);
    } else {
        bytes_put_sv(delta, v.raw);
    }
    icj_text(v, &l->text);
    l->has_message = l->has_message || l->text.n > 0;
}

/* The delta as the client gets it; "{}" when nothing of it is for the client. */
static int take_delta(struct ic_loop *l, struct icj d, struct bytes *delta, struct err *e)
{
    struct icj_iter it = icj_iter(d);
    struct icj key;
    struct icj v;
    bool is_first = !l->is_role_sent;
    int rc = 0;

    bytes_put_char(delta, '{');
    if (is_first) {
        l->is_role_sent = true;
        icj_put_str(delta, "role", SV_LIT("assistant"));
    }
    while (rc == 0 && icj_next_member(&it, &key, &v)) {
        if (icj_is(key, "role")) {
            continue;
        }
        if (icj_is(key, "tool_calls")) {
            struct bytes calls = {.cap_max = v.raw.n * 4 + 4096};

            rc = ic_chat_take_fragments(l, v, &calls, e);
            if (calls.n > 2) {
                icj_put_raw(delta, "tool_calls", sv_from(calls.p, calls.n));
            }
            bytes_fini(&calls);
        } else if (icj_is(key, "content")) {
            if (is_first || (icj_is_set(v) && !is_empty_text(v))) {
                put_content(l, v, delta);
            }
        } else if (is_first || (icj_is_set(v) && !is_empty_text(v))) {
            icj_put_comma(delta);
            bytes_put_sv(delta, key.raw);
            bytes_put_char(delta, ':');
            bytes_put_sv(delta, v.raw);
            if (icj_is_set(v) && !is_empty_text(v)) {
                keep_member(l, key, v);
            }
        }
    }
    bytes_put_char(delta, '}');
    return rc;
}

static void take_finish(struct ic_loop *l, struct icj reason)
{
    if (!icj_is_set(reason)) {
        return;
    }
    l->is_ended = true;
    l->is_cut = icj_is(reason, "length") || icj_is(reason, "content_filter");
    bytes_reset(&l->finish);
    bytes_put_sv(&l->finish, reason.raw);
}

static void take_usage(struct ic_loop *l, struct icj usage)
{
    if (usage.type == ICJ_OBJECT) {
        bytes_reset(&l->round_usage);
        bytes_put_sv(&l->round_usage, usage.raw);
    }
}

static int on_event(struct ic_loop *l, struct wk_sse_event ev, struct err *e)
{
    struct icj root;
    struct icj choice;
    struct icj_iter it;
    struct bytes delta = {.cap_max = ev.data.n * 4 + 4096};
    int rc = 0;

    if (l->is_over) {
        return 0;
    }
    if (sv_eq(ev.data, SV_LIT("[DONE]"))) {
        l->is_ended = l->is_over = true;
        return 0;
    }
    if (icj_parse(&root, ev.data, e) != 0 || root.type != ICJ_OBJECT) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider sent a chunk that is not JSON");
    }
    if (icj_is_set(icj_get(root, "error"))) {
        return ic_loop_upstream_error(l, icj_get(root, "error"), e);
    }
    if (l->first.n == 0) {
        bytes_put_sv(&l->first, root.raw);
    }
    take_usage(l, icj_get(root, "usage"));
    it = icj_iter(icj_get(root, "choices"));
    while (rc == 0 && icj_next(&it, &choice)) {
        if (icj_uint_or(icj_get(choice, "index"), 0) != 0) {
            continue;
        }
        bytes_reset(&delta);
        rc = take_delta(l, icj_get(choice, "delta"), &delta, e);
        take_finish(l, icj_get(choice, "finish_reason"));
        if (rc == 0 && delta.n > 2) {
            ic_chat_emit_delta(l, root, sv_from(delta.p, delta.n), icj_get(choice, "logprobs"));
        }
    }
    bytes_fini(&delta);
    return rc;
}

/* Client calls that were held back until now. */
static void emit_held(struct ic_loop *l, struct str_view calls)
{
    struct bytes delta = {.cap_max = IC_TEXT_MAX};
    struct icj first = {ICJ_ABSENT, {NULL, 0}};
    struct icj none = {ICJ_ABSENT, {NULL, 0}};

    (void)icj_parse(&first, sv_from(l->first.p, l->first.n), NULL);
    bytes_put_str(&delta, l->is_role_sent ? "{" : "{\"role\":\"assistant\"");
    icj_put_raw(&delta, "tool_calls", calls);
    bytes_put_char(&delta, '}');
    l->is_role_sent = true;
    ic_chat_emit_delta(l, first, sv_from(delta.p, delta.n), none);
    if (delta.rc != 0) {
        l->out.rc = delta.rc;
    }
    bytes_fini(&delta);
}

/* The calls are complete when the stream is. */
static int end_fragments(struct ic_loop *l, struct err *e)
{
    struct bytes calls = {.cap_max = IC_TEXT_MAX};
    int rc = ic_chat_end_fragments(l, &calls, e);

    if (rc == 0 && calls.rc != 0) {
        rc = err_set(e, calls.rc, NULL);
    } else if (rc == 0 && calls.n > 2) {
        emit_held(l, sv_from(calls.p, calls.n));
    }
    bytes_fini(&calls);
    return rc;
}

static int on_end(struct ic_loop *l, struct err *e)
{
    if (!l->is_ended) {
        return err_set(e, ERR_UPSTREAM_CUT,
                       "the model provider's event stream ended without a finish_reason");
    }
    return end_fragments(l, e);
}

/* --- whole answers --- */

static int on_object(struct ic_loop *l, struct icj root, struct err *e)
{
    struct icj_iter it = icj_iter(icj_get(root, "choices"));
    struct icj choice = {ICJ_ABSENT, {NULL, 0}};
    struct icj message;
    struct icj content;
    if (icj_is_set(icj_get(root, "error")) && !icj_next(&it, &choice)) {
        return ic_loop_upstream_error(l, icj_get(root, "error"), e);
    }
    if (choice.type == ICJ_ABSENT && !icj_next(&it, &choice)) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider's answer has no choices");
    }
    message = icj_get(choice, "message");
    if (message.type != ICJ_OBJECT) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider's answer has no message");
    }
    bytes_reset(&l->answer);
    bytes_put_sv(&l->answer, root.raw);
    bytes_reset(&l->message);
    bytes_put_sv(&l->message, message.raw);
    take_usage(l, icj_get(root, "usage"));
    take_finish(l, icj_get(choice, "finish_reason"));
    content = icj_get(message, "content");
    if (content.type == ICJ_STRING && !is_empty_text(content)) {
        bytes_put_str(&l->content, l->content.n > 0 ? "\n\n" : "");
        icj_text(content, &l->content);
        icj_text(content, &l->text);
    }
    l->has_message = icj_is_set(content) && !is_empty_text(content);
    return ic_chat_take_whole(l, icj_get(message, "tool_calls"), e);
}

/* --- the transcript --- */

static void put_tool_calls(const struct ic_loop *l, struct bytes *ret)
{
    bytes_put_char(ret, '[');
    for (unsigned i = 0; i < l->call_count; i++) {
        const struct ic_call *c = &l->calls[i];

        icj_put_comma(ret);
        bytes_put_char(ret, '{');
        icj_put_str(ret, "id", sv_from(c->call_id.p, c->call_id.n));
        bytes_put_str(ret, ",\"type\":\"function\",\"function\":{\"name\":");
        bytes_put_json_str(ret, sv_of(l->req->alias));
        bytes_put_str(ret, ",\"arguments\":");
        bytes_put_json_str(ret, sv_from(c->args.p, c->args.n));
        bytes_put_char(ret, '}');
        bytes_put(ret, c->extra.p, c->extra.n);
        bytes_put_char(ret, '}');
    }
    bytes_put_char(ret, ']');
}

/* The streamed message put together again. */
static void put_streamed(const struct ic_loop *l, struct str_view calls, struct bytes *ret)
{
    bytes_put_str(ret, "{\"role\":\"assistant\",\"content\":");
    if (l->text.n > 0) {
        bytes_put_json_str(ret, sv_from(l->text.p, l->text.n));
    } else {
        bytes_put_str(ret, "null");
    }
    for (unsigned i = 0; i < l->extra_count; i++) {
        const struct ic_extra *x = &l->extras[i];
        struct str_view v = sv_from(x->value.p, x->value.n);

        if (x->type == ICJ_ARRAY && v.n == 0) {
            continue;
        }
        bytes_put_char(ret, ',');
        bytes_put(ret, x->key.p, x->key.n);
        bytes_put_char(ret, ':');
        if (x->type == ICJ_STRING) {
            bytes_put_json_str(ret, v);
        } else if (x->type == ICJ_ARRAY) {
            bytes_put_char(ret, '[');
            bytes_put_sv(ret, v);
            bytes_put_char(ret, ']');
        } else {
            bytes_put_sv(ret, v);
        }
    }
    icj_put_raw(ret, "tool_calls", calls);
    bytes_put_char(ret, '}');
}

/* A whole message without what only answers have. */
static void put_whole(const struct ic_loop *l, struct str_view calls, struct bytes *ret)
{
    struct icj message = {ICJ_ABSENT, {NULL, 0}};
    struct icj_edit e[5];
    static const char *const answers_only[] = {"refusal", "annotations", "audio", "function_call"};
    unsigned n = 0;

    (void)icj_parse(&message, sv_from(l->message.p, l->message.n), NULL);
    for (unsigned i = 0; i < 4; i++) {
        struct icj v = icj_get(message, answers_only[i]);
        struct icj_iter it = icj_iter(v);
        struct icj first;

        if (v.type == ICJ_NULL || (v.type == ICJ_ARRAY && !icj_next(&it, &first))) {
            e[n++] = (struct icj_edit){answers_only[i], {NULL, 0}, false};
        }
    }
    e[n++] = (struct icj_edit){"tool_calls", calls, true};
    icj_copy(ret, message, e, n);
}

static void put_results(struct ic_loop *l)
{
    struct bytes calls = {.cap_max = IC_TEXT_MAX};

    put_tool_calls(l, &calls);
    bytes_put_char(&l->transcript, ',');
    if (l->req->is_stream) {
        put_streamed(l, sv_from(calls.p, calls.n), &l->transcript);
    } else {
        put_whole(l, sv_from(calls.p, calls.n), &l->transcript);
    }
    bytes_fini(&calls);
    for (unsigned i = 0; i < l->call_count; i++) {
        const struct ic_call *c = &l->calls[i];

        bytes_put_str(&l->transcript, ",{\"role\":\"tool\",\"tool_call_id\":");
        bytes_put_json_str(&l->transcript, sv_from(c->call_id.p, c->call_id.n));
        bytes_put_str(&l->transcript, ",\"content\":");
        bytes_put_json_str(&l->transcript, sv_from(c->result.p, c->result.n));
        bytes_put_char(&l->transcript, '}');
    }
}

/* --- runs --- */

static void run_begin(struct ic_loop *l, struct ic_call *c)
{
    (void)l;
    (void)c;
}

static void run_end(struct ic_loop *l, struct ic_call *c, const struct ic_output *out)
{
    struct bytes outputs = {.cap_max = IC_TEXT_MAX};
    char id[48];

    if (!c->is_shown || (c->item = ic_item_new(l)) == IC_NONE) {
        return;
    }
    id_text(id, sizeof(id), "ci_", 16);
    bytes_put_str(&l->items[c->item].id, id);
    ic_call_outputs(l, c, out, &outputs);
    ic_call_item_json(l, c, "completed", sv_from(c->code.p, c->code.n),
                      sv_from(outputs.p, outputs.n), &l->items[c->item].json);
    bytes_fini(&outputs);
}

const struct ic_ops ic_chat_ops = {
    .on_event = on_event,
    .on_object = on_object,
    .on_end = on_end,
    .run_begin = run_begin,
    .run_end = run_end,
    .run_dropped = run_begin,
    .put_results = put_results,
    .answer = ic_chat_emit_answer,
    .fail = ic_chat_emit_fail,
};
