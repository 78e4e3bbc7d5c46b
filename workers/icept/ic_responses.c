/* ic_responses.c - reads upstream Responses answers: items into the answer and the transcript,
 * calls of ours aside. */
#include "ic_responses.h"

#include <stdio.h>

#include "base/id.h"

/* Items that the client has to act on: the answer ends with them. */
static bool is_client_action(struct icj item)
{
    static const char *const types[] = {"function_call",    "custom_tool_call",
                                        "computer_call",    "local_shell_call",
                                        "apply_patch_call", "mcp_approval_request"};
    struct icj type = icj_get(item, "type");

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (icj_is(type, types[i])) {
            return true;
        }
    }
    return false;
}

static bool is_our_call(const struct ic_loop *l, struct icj item)
{
    return icj_is(icj_get(item, "type"), "function_call") &&
           icj_is(icj_get(item, "name"), l->req->alias);
}

/* --- ids --- */

static bool is_id_used(const struct ic_loop *l, struct str_view id)
{
    for (unsigned i = 0; i < l->item_count; i++) {
        if (sv_eq(id, sv_from(l->items[i].id.p, l->items[i].id.n))) {
            return true;
        }
    }
    return false;
}

/* The provider's id unless it is missing or another round used it. */
static void choose_item_id(struct ic_loop *l, struct icj item, struct bytes *ret)
{
    struct bytes tmp = {0};
    struct str_view id = icj_view(icj_get(item, "id"), &tmp);
    char fresh[48];

    if (id.n == 0 || is_id_used(l, id)) {
        const char *prefix = icj_is(icj_get(item, "type"), "message")         ? "msg_"
                             : icj_is(icj_get(item, "type"), "reasoning")     ? "rs_"
                             : icj_is(icj_get(item, "type"), "function_call") ? "fc_"
                                                                              : "item_";

        id_text(fresh, sizeof(fresh), prefix, 16);
        id = sv_of(fresh);
    }
    bytes_put_sv(ret, id);
    bytes_fini(&tmp);
}

/* Arguments that came as an object are text for everybody else. */
static unsigned edit_arguments(struct icj item, struct bytes *text, struct icj_edit *edit)
{
    struct icj args = icj_get(item, "arguments");

    if (args.type != ICJ_OBJECT) {
        return 0;
    }
    bytes_put_json_str(text, args.raw);
    *edit = (struct icj_edit){"arguments", sv_from(text->p, text->n), false};
    return 1;
}

/* The item as the client gets it: with the chosen id. */
static void put_client_item(const struct ic_loop *l, const struct ic_slot *slot, struct icj item,
                            struct bytes *ret)
{
    const struct bytes *id = &l->items[slot->item].id;
    struct bytes quoted = {0};
    struct bytes args = {.cap_max = IC_TEXT_MAX};
    struct icj_edit edits[2] = {{"id", {NULL, 0}, true}};
    unsigned n = 1;

    bytes_put_json_str(&quoted, sv_from(id->p, id->n));
    edits[0].raw = sv_from(quoted.p, quoted.n);
    n += edit_arguments(item, &args, &edits[1]);
    icj_copy(ret, item, edits, n);
    if (args.rc != 0) {
        ret->rc = args.rc;
    }
    bytes_fini(&quoted);
    bytes_fini(&args);
}

/* --- the transcript --- */

/* An output item as an input item of the next call. */
static void replay(struct ic_loop *l, struct icj item, const struct ic_call *call)
{
    struct icj_edit edits[4];
    unsigned n = 0;
    struct bytes call_id = {0};
    struct bytes args = {.cap_max = IC_TEXT_MAX};
    bool is_reasoning = icj_is(icj_get(item, "type"), "reasoning");

    if (is_reasoning && l->req->is_unstored && !icj_is_set(icj_get(item, "encrypted_content"))) {
        /* nobody kept it: a reference to it would be refused, and so would the ids of what belongs
         * to it */
        l->is_reasoning_lost = true;
        return;
    }
    if (is_reasoning) {
        edits[n++] = (struct icj_edit){"status", {NULL, 0}, false};
    } else if (l->is_reasoning_lost) {
        edits[n++] = (struct icj_edit){"id", {NULL, 0}, false};
    }
    if (call != NULL) {
        bytes_put_json_str(&call_id, sv_from(call->call_id.p, call->call_id.n));
        edits[n++] = (struct icj_edit){"call_id", sv_from(call_id.p, call_id.n), true};
    }
    n += edit_arguments(item, &args, &edits[n]);
    bytes_put_char(&l->round_items, ',');
    icj_copy(&l->round_items, item, edits, n);
    if (args.rc != 0) {
        l->round_items.rc = args.rc;
    }
    bytes_fini(&call_id);
    bytes_fini(&args);
}

static void replay_slot(struct ic_loop *l, const struct ic_slot *s)
{
    struct icj item = ic_slot_raw(s);

    if (s->is_done && item.type == ICJ_OBJECT) {
        replay(l, item, s->kind == IC_SLOT_OURS ? &l->calls[s->call] : NULL);
    }
}

/* The items of the round as the final output orders them; what it leaves out stays before what it
 * came before. */
static void put_round_items(struct ic_loop *l)
{
    unsigned next = 0;

    bytes_reset(&l->round_items);
    for (uint64_t at = 0; at < l->final_count; at++) {
        const struct ic_slot *s = ic_slot_at_final(l, at);

        if (s == NULL) {
            continue;
        }
        for (; next < l->slot_count && &l->slots[next] < s; next++) {
            if (l->slots[next].final_at == IC_NO_INDEX) {
                replay_slot(l, &l->slots[next]);
            }
        }
        replay_slot(l, s);
    }
    for (; next < l->slot_count; next++) {
        if (l->slots[next].final_at == IC_NO_INDEX) {
            replay_slot(l, &l->slots[next]);
        }
    }
}

static void put_results(struct ic_loop *l)
{
    if (l->req->is_conversation) { /* the provider has the items already */
        bytes_reset(&l->transcript);
    } else {
        put_round_items(l);
        bytes_put(&l->transcript, l->round_items.p, l->round_items.n);
    }
    for (unsigned i = 0; i < l->call_count; i++) {
        const struct ic_call *c = &l->calls[i];

        bytes_put_str(&l->transcript, ",{\"type\":\"function_call_output\",\"call_id\":");
        bytes_put_json_str(&l->transcript, sv_from(c->call_id.p, c->call_id.n));
        bytes_put_str(&l->transcript, ",\"output\":");
        bytes_put_json_str(&l->transcript, sv_from(c->result.p, c->result.n));
        bytes_put_char(&l->transcript, '}');
    }
}

/* --- items --- */

/* A call of ours appears. The caller made sure that the sandbox is open when it will be shown. */
static bool begin_our_call(struct ic_loop *l, struct ic_slot *slot)
{
    struct ic_call *c;
    char id[48];

    if (l->run.state == WK_RUN_CLOSING) { /* not offered any more: nothing will answer it */
        l->has_dropped = true;
        slot->kind = IC_SLOT_HIDDEN;
        return true;
    }
    if ((c = ic_call_new(l)) == NULL) {
        return false;
    }
    slot->kind = IC_SLOT_OURS;
    slot->call = l->call_count - 1;
    ic_call_set_id(l, c, sv_from(slot->call_id.p, slot->call_id.n));
    if (c->is_shown) {
        if ((c->item = ic_item_new(l)) == IC_NONE) {
            return false;
        }
        id_text(id, sizeof(id), "ci_", 16);
        bytes_put_str(&l->items[c->item].id, id);
        ic_emit_call_added(l, c);
    }
    return true;
}

static bool begin_passed_item(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    struct bytes id = {0};

    choose_item_id(l, item, &id); /* before the new item is there to collide with */
    if ((slot->item = ic_item_new(l)) == IC_NONE) {
        bytes_fini(&id);
        return false;
    }
    l->items[slot->item].id = id;
    slot->kind = IC_SLOT_PASSED;
    return true;
}

/* Must the sandbox be opened before this item can be shown? */
static bool needs_sandbox(const struct ic_loop *l, struct icj item)
{
    return l->container[0] == '\0' && is_our_call(l, item) && ic_call_is_shown_next(l);
}

static void keep_raw(struct ic_slot *slot, struct icj item)
{
    bytes_reset(&slot->raw);
    bytes_put_sv(&slot->raw, item.raw);
}

static void finish_our_call(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    struct ic_call *c = &l->calls[slot->call];
    struct bytes tmp = {.cap_max = item.raw.n + 64};

    ic_call_replace(c, ic_args_view(icj_get(item, "arguments"), &tmp));
    ic_call_end(c);
    bytes_fini(&tmp);
    ic_emit_call_code(l, c);
    keep_raw(slot, item);
}

static void finish_passed_item(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    put_client_item(l, slot, item, &l->items[slot->item].json);
    if (icj_is(icj_get(item, "type"), "message")) {
        l->has_message = true;
    }
    l->client_calls += is_client_action(item) ? 1 : 0;
    keep_raw(slot, item);
}

/* The answer is complete, and the call was never said to be: what came of it is all of it. */
static void finish_open_calls(struct ic_loop *l)
{
    for (unsigned i = 0; i < l->slot_count; i++) {
        struct ic_slot *s = &l->slots[i];

        if (s->kind != IC_SLOT_OURS || s->is_done) {
            continue;
        }
        const struct ic_call *c = &l->calls[s->call];

        bytes_reset(&s->raw);
        bytes_put_char(&s->raw, '{');
        icj_put_str(&s->raw, "type", SV_LIT("function_call"));
        if (s->id.n > 0) {
            icj_put_str(&s->raw, "id", sv_from(s->id.p, s->id.n));
        }
        icj_put_str(&s->raw, "call_id", sv_from(c->call_id.p, c->call_id.n));
        icj_put_str(&s->raw, "name", sv_of(l->req->alias));
        icj_put_str(&s->raw, "arguments", sv_from(c->args.p, c->args.n));
        icj_put_str(&s->raw, "status", SV_LIT("completed"));
        bytes_put_char(&s->raw, '}');
        s->is_done = true;
        ic_call_end(&l->calls[s->call]);
        ic_emit_call_code(l, &l->calls[s->call]);
    }
}

static int too_many(struct err *e)
{
    return err_set(e, ERR_UPSTREAM_BAD, "the model provider sent too many items");
}

/* The item's slot (NULL: a new one) with its kind decided. 1: sandbox first. */
static int begin_item(struct ic_loop *l, struct ic_slot **slot, uint64_t index, struct icj item,
                      struct err *e)
{
    if (*slot != NULL && (*slot)->kind != IC_SLOT_PENDING) {
        return 0;
    }
    if (needs_sandbox(l, item)) {
        return 1;
    }
    if (*slot == NULL && (*slot = ic_slot_new(l, index)) == NULL) {
        return too_many(e);
    }
    ic_slot_identify(*slot, item);
    return (is_our_call(l, item) ? begin_our_call(l, *slot) : begin_passed_item(l, *slot, item))
               ? 0
               : too_many(e);
}

/* An item is complete: as an event, inside the final object, or the only sign of it. 1: sandbox
 * first. */
static int item_done(struct ic_loop *l, struct ic_slot **slot, uint64_t index, struct icj item,
                     struct icj event, struct err *e)
{
    bool is_new = *slot == NULL || (*slot)->kind == IC_SLOT_PENDING;
    const struct bytes *json;
    int rc;

    if (*slot != NULL && (*slot)->is_done) {
        return 0;
    }
    if ((rc = begin_item(l, slot, index, item, e)) != 0) {
        return rc;
    }
    if (is_new && (*slot)->kind == IC_SLOT_PASSED) {
        struct bytes first = {.cap_max = IC_TEXT_MAX};

        put_client_item(l, *slot, item, &first);
        ic_emit_item_event(l, "response.output_item.added", (*slot)->item,
                           sv_from(first.p, first.n));
        bytes_fini(&first);
    }
    (*slot)->is_done = true;
    if ((*slot)->kind == IC_SLOT_OURS) {
        finish_our_call(l, *slot, item);
    } else if ((*slot)->kind == IC_SLOT_PASSED) {
        finish_passed_item(l, *slot, item);
        json = &l->items[(*slot)->item].json;
        if (event.type == ICJ_OBJECT) {
            ic_emit_passed(l, event, *slot, json);
        } else {
            ic_emit_item_event(l, "response.output_item.done", (*slot)->item,
                               sv_from(json->p, json->n));
        }
    }
    return 0;
}

/* --- whole answers --- */

static void keep(struct bytes *b, struct icj v)
{
    if (b->n == 0 && icj_is_set(v)) {
        bytes_put_sv(b, v.raw);
    }
}

/* Reasoning is sealed anew in the final object, and only that seal is good for a replay. */
static void renew_reasoning(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    if (slot->kind == IC_SLOT_PASSED && icj_is(icj_get(item, "type"), "reasoning") &&
        icj_is_set(icj_get(item, "encrypted_content"))) {
        keep_raw(slot, item);
        bytes_reset(&l->items[slot->item].json);
        put_client_item(l, slot, item, &l->items[slot->item].json);
    }
}

static int take_output(struct ic_loop *l, struct icj output, struct err *e)
{
    struct icj_iter it = icj_iter(output);
    struct icj item;
    struct icj none = {ICJ_ABSENT, {NULL, 0}};
    int rc = 0;

    ic_slots_match_final(l, output);
    for (l->final_count = 0; rc == 0 && icj_next(&it, &item); l->final_count++) {
        struct ic_slot *slot = ic_slot_at_final(l, l->final_count);

        if (item.type != ICJ_OBJECT) {
            continue;
        }
        if (slot != NULL && slot->is_done) {
            renew_reasoning(l, slot, item);
        } else if ((rc = item_done(l, &slot, IC_NO_INDEX, item, none, e)) == 0) {
            slot->final_at = l->final_count;
        }
    }
    return rc;
}

static int take_final(struct ic_loop *l, struct icj response, bool is_failed, struct err *e)
{
    struct icj usage = icj_get(response, "usage");
    int rc = is_failed ? 0 : take_output(l, icj_get(response, "output"), e);

    if (rc != 0) {
        return rc;
    }
    l->is_ended = l->is_over = true;
    if (response.type == ICJ_OBJECT) {
        bytes_reset(&l->answer);
        bytes_put_sv(&l->answer, response.raw);
    }
    if (usage.type == ICJ_OBJECT) {
        bytes_reset(&l->round_usage);
        bytes_put_sv(&l->round_usage, usage.raw);
    }
    l->is_cut = icj_is(icj_get(response, "status"), "incomplete");
    keep(&l->created, icj_get(response, "created_at"));
    if (!l->req->is_stream) { /* the newest id: the one whose stored state is whole */
        bytes_reset(&l->response_id);
    }
    keep(&l->response_id, icj_get(response, "id"));
    if (is_failed || icj_is(icj_get(response, "status"), "failed")) {
        return ic_loop_upstream_error(l, icj_get(response, "error"), e);
    }
    if (!l->is_cut) {
        finish_open_calls(l);
    }
    return 0;
}

static int on_object(struct ic_loop *l, struct icj root, struct err *e)
{
    if (icj_is_set(icj_get(root, "error")) && icj_get(root, "output").type != ICJ_ARRAY) {
        return ic_loop_upstream_error(l, icj_get(root, "error"), e);
    }
    if (root.type != ICJ_OBJECT ||
        (icj_get(root, "output").type != ICJ_ARRAY && !icj_is(icj_get(root, "status"), "failed"))) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider's answer has no output array");
    }
    return take_final(l, root, false, e);
}

/* --- events --- */

static uint64_t index_of(struct icj event)
{
    return icj_uint_or(icj_get(event, "output_index"), IC_NO_INDEX);
}

static int on_added(struct ic_loop *l, struct icj event, struct err *e)
{
    struct icj item = icj_get(event, "item");
    uint64_t index = index_of(event);
    struct ic_slot *slot = NULL;
    int rc;

    if (item.type != ICJ_OBJECT || ic_slot_of_item(l, index, item, true) != NULL) {
        return 0;
    }
    if (icj_is(icj_get(item, "type"), "function_call") &&
        (!icj_is_set(icj_get(item, "name")) || icj_is(icj_get(item, "name"), ""))) {
        if ((slot = ic_slot_new(l, index)) == NULL) {
            return too_many(e);
        }
        ic_slot_identify(slot, item); /* whose it is will be known when it is done */
        return 0;
    }
    if ((rc = begin_item(l, &slot, index, item, e)) != 0 || slot->kind != IC_SLOT_PASSED) {
        return rc;
    }
    struct bytes json = {.cap_max = IC_TEXT_MAX};

    put_client_item(l, slot, item, &json);
    ic_emit_passed(l, event, slot, &json);
    bytes_fini(&json);
    return 0;
}

static int on_item_done(struct ic_loop *l, struct icj event, struct err *e)
{
    struct icj item = icj_get(event, "item");
    uint64_t index = index_of(event);
    struct ic_slot *slot;

    if (item.type != ICJ_OBJECT) {
        return 0;
    }
    slot = ic_slot_of_item(l, index, item, false);
    return item_done(l, &slot, index, item, event, e);
}

static void on_arguments(struct ic_loop *l, const struct ic_slot *slot, struct icj event,
                         bool is_done)
{
    struct ic_call *c = &l->calls[slot->call];
    struct bytes tmp = {.cap_max = event.raw.n + 64};

    if (is_done) { /* not the end of it yet: the item itself has the last word */
        ic_call_replace(c, ic_args_view(icj_get(event, "arguments"), &tmp));
    } else {
        ic_call_feed(c, icj_view(icj_get(event, "delta"), &tmp));
    }
    bytes_fini(&tmp);
    ic_emit_call_code(l, c);
}

/* Everything else that belongs to an item, and what belongs to none. */
static void on_other(struct ic_loop *l, struct icj event, struct icj type)
{
    static const char arguments[] = "response.function_call_arguments.";
    struct ic_slot *slot = ic_slot_of_event(l, event, type);
    struct bytes tmp = {0};
    bool is_argument = sv_starts(icj_view(type, &tmp), sv_of(arguments));

    bytes_fini(&tmp);
    if (slot == NULL) { /* of an item nobody was shown: so is this */
        if (!is_argument && icj_get(event, "output_index").type == ICJ_ABSENT &&
            icj_get(event, "item_id").type == ICJ_ABSENT && !icj_is(type, "keepalive")) {
            ic_emit_passed(l, event, NULL, NULL);
        }
    } else if (slot->kind == IC_SLOT_PASSED) {
        ic_emit_passed(l, event, slot, NULL);
    } else if (slot->kind == IC_SLOT_OURS && !slot->is_done && is_argument) {
        on_arguments(l, slot, event, icj_is(type, "response.function_call_arguments.done"));
    }
}

static int on_error(struct ic_loop *l, struct icj event, struct err *e)
{
    struct icj nested = icj_get(event, "error");

    return ic_loop_upstream_error(l, icj_is_set(nested) ? nested : event, e);
}

static int on_event(struct ic_loop *l, struct wk_sse_event ev, struct err *e)
{
    struct icj event;
    struct icj type;
    struct icj response;

    if (sv_eq(ev.data, SV_LIT("[DONE]")) || l->is_ended) {
        return 0;
    }
    if (icj_parse(&event, ev.data, e) != 0 || event.type != ICJ_OBJECT) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider sent an event that is not JSON");
    }
    type = icj_get(event, "type");
    response = icj_get(event, "response");
    if (icj_is(type, "error") || (type.type != ICJ_STRING && icj_is_set(icj_get(event, "error")))) {
        return on_error(l, event, e);
    }
    if (response.type == ICJ_OBJECT && l->answer.n == 0) {
        bytes_put_sv(&l->answer, response.raw);
    }
    ic_emit_opening(l, response);
    if (icj_is(type, "response.created") || icj_is(type, "response.in_progress") ||
        icj_is(type, "response.queued")) {
        return 0;
    }
    if (icj_is(type, "response.completed") || icj_is(type, "response.incomplete") ||
        icj_is(type, "response.failed")) {
        return take_final(l, response, icj_is(type, "response.failed"), e);
    }
    if (icj_is(type, "response.output_item.added")) {
        return on_added(l, event, e);
    }
    if (icj_is(type, "response.output_item.done")) {
        return on_item_done(l, event, e);
    }
    on_other(l, event, type);
    return 0;
}

static int on_end(struct ic_loop *l, struct err *e)
{
    return l->is_ended ? 0
                       : err_set(e, ERR_UPSTREAM_CUT,
                                 "the model provider's event stream ended without a final event");
}

const struct ic_ops ic_responses_ops = {
    .on_event = on_event,
    .on_object = on_object,
    .on_end = on_end,
    .run_begin = ic_emit_run_begin,
    .run_end = ic_emit_run_end,
    .run_dropped = ic_emit_run_dropped,
    .put_results = put_results,
    .answer = ic_emit_answer,
    .fail = ic_emit_fail,
};
