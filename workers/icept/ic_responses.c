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

/* The item as the client gets it: with the chosen id. */
static void put_client_item(const struct ic_loop *l, const struct ic_slot *slot, struct icj item,
                            struct bytes *ret)
{
    const struct bytes *id = &l->items[slot->item].id;
    struct bytes quoted = {0};
    struct icj_edit edit = {"id", {NULL, 0}, true};

    bytes_put_json_str(&quoted, sv_from(id->p, id->n));
    edit.raw = sv_from(quoted.p, quoted.n);
    icj_copy(ret, item, &edit, 1);
    bytes_fini(&quoted);
}

/* --- the transcript --- */

/* An output item as an input item of the next call. */
static void replay(struct ic_loop *l, struct icj item, const struct ic_call *call)
{
    struct icj_edit edits[3];
    unsigned n = 0;
    struct bytes call_id = {0};
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
    bytes_put_char(&l->round_items, ',');
    icj_copy(&l->round_items, item, edits, n);
    bytes_fini(&call_id);
}

static void put_results(struct ic_loop *l)
{
    if (l->req->is_conversation) { /* the provider has the items already */
        bytes_reset(&l->transcript);
    } else {
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
static struct ic_slot *our_call_new(struct ic_loop *l, uint64_t index, struct icj item)
{
    struct ic_slot *slot;
    struct ic_call *c;
    char id[48];

    if (l->run.state == WK_RUN_CLOSING) { /* not offered any more: nothing will answer it */
        l->has_dropped = true;
        return ic_slot_new(l, index, IC_SLOT_HIDDEN);
    }
    if ((slot = ic_slot_new(l, index, IC_SLOT_OURS)) == NULL || (c = ic_call_new(l)) == NULL) {
        return NULL;
    }
    slot->call = l->call_count - 1;
    icj_text(icj_get(item, "call_id"), &c->call_id);
    if (c->call_id.n == 0) {
        id_text(id, sizeof(id), "call_", 12);
        bytes_put_str(&c->call_id, id);
    }
    if (c->is_shown) {
        if ((c->item = ic_item_new(l)) == IC_NONE) {
            return NULL;
        }
        id_text(id, sizeof(id), "ci_", 16);
        bytes_put_str(&l->items[c->item].id, id);
        ic_emit_call_added(l, c);
    }
    return slot;
}

static struct ic_slot *passed_item_new(struct ic_loop *l, uint64_t index, struct icj item)
{
    struct ic_slot *slot = ic_slot_new(l, index, IC_SLOT_PASSED);
    struct bytes id = {0};

    if (slot == NULL) {
        return NULL;
    }
    choose_item_id(l, item, &id); /* before the new item is there to collide with */
    if ((slot->item = ic_item_new(l)) == IC_NONE) {
        bytes_fini(&id);
        return NULL;
    }
    l->items[slot->item].id = id;
    return slot;
}

/* Must the sandbox be opened before this item can be shown? */
static bool needs_sandbox(const struct ic_loop *l, struct icj item)
{
    return l->container[0] == '\0' && is_our_call(l, item) && ic_call_is_shown_next(l);
}

static void finish_our_call(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    struct ic_call *c = &l->calls[slot->call];
    struct bytes args = {.cap_max = item.raw.n + 64};

    icj_text(icj_get(item, "arguments"), &args);
    ic_call_end(c, args.n > 0 ? sv_from(args.p, args.n) : (struct str_view){NULL, 0});
    bytes_fini(&args);
    ic_emit_call_code(l, c);
    replay(l, item, c);
}

static void finish_passed_item(struct ic_loop *l, struct ic_slot *slot, struct icj item)
{
    struct bytes *json = &l->items[slot->item].json;

    put_client_item(l, slot, item, json);
    if (icj_is(icj_get(item, "type"), "message")) {
        l->has_message = true;
    }
    l->client_calls += is_client_action(item) ? 1 : 0;
    replay(l, item, NULL);
}

static int too_many(struct err *e)
{
    return err_set(e, ERR_UPSTREAM_BAD, "the model provider sent too many items");
}

/* An item is complete: as an event, inside the final object, or the only sign of it. 1: sandbox
 * first. */
static int item_done(struct ic_loop *l, uint64_t index, struct icj item, struct icj event,
                     struct err *e)
{
    struct ic_slot *slot = ic_slot_find(l, index);

    if (item.type != ICJ_OBJECT || (slot != NULL && slot->is_done)) {
        return 0;
    }
    if (slot == NULL) {
        if (needs_sandbox(l, item)) {
            return 1;
        }
        slot =
            is_our_call(l, item) ? our_call_new(l, index, item) : passed_item_new(l, index, item);
        if (slot == NULL) {
            return too_many(e);
        }
        if (slot->kind == IC_SLOT_PASSED) {
            struct bytes json = {.cap_max = item.raw.n + 256};

            put_client_item(l, slot, item, &json);
            ic_emit_item_event(l, "response.output_item.added", slot->item,
                               sv_from(json.p, json.n));
            bytes_fini(&json);
        }
    }
    slot->is_done = true;
    if (slot->kind == IC_SLOT_OURS) {
        finish_our_call(l, slot, item);
    } else if (slot->kind == IC_SLOT_PASSED) {
        finish_passed_item(l, slot, item);
        if (event.type == ICJ_OBJECT) {
            ic_emit_passed(l, event, slot, &l->items[slot->item].json);
        } else {
            const struct bytes *json = &l->items[slot->item].json;

            ic_emit_item_event(l, "response.output_item.done", slot->item,
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

static int take_final(struct ic_loop *l, struct icj response, bool is_failed, struct err *e)
{
    struct icj_iter it = icj_iter(icj_get(response, "output"));
    struct icj usage = icj_get(response, "usage");
    struct icj item;
    struct icj none = {ICJ_ABSENT, {NULL, 0}};
    uint64_t index = 0;
    int rc = 0;

    while (!is_failed && rc == 0 && icj_next(&it, &item)) {
        rc = item_done(l, index++, item, none, e);
    }
    if (rc != 0) {
        return rc;
    }
    l->is_ended = true;
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
    return 0;
}

static int on_object(struct ic_loop *l, struct icj root, struct err *e)
{
    if (root.type != ICJ_OBJECT ||
        (icj_get(root, "output").type != ICJ_ARRAY && !icj_is(icj_get(root, "status"), "failed"))) {
        return err_set(e, ERR_UPSTREAM_BAD, "the model provider's answer has no output array");
    }
    return take_final(l, root, false, e);
}

/* --- events --- */

static uint64_t index_of(const struct ic_loop *l, struct icj event)
{
    return icj_uint_or(icj_get(event, "output_index"), l->slot_count);
}

static int on_added(struct ic_loop *l, struct icj event, struct err *e)
{
    struct icj item = icj_get(event, "item");
    uint64_t index = index_of(l, event);
    struct ic_slot *slot;

    if (item.type != ICJ_OBJECT || ic_slot_find(l, index) != NULL) {
        return 0;
    }
    if (icj_is(icj_get(item, "type"), "function_call") &&
        (!icj_is_set(icj_get(item, "name")) || icj_is(icj_get(item, "name"), ""))) {
        return 0; /* whose it is will be known when it is done */
    }
    if (needs_sandbox(l, item)) {
        return 1;
    }
    if (is_our_call(l, item)) {
        return our_call_new(l, index, item) != NULL ? 0 : too_many(e);
    }
    slot = passed_item_new(l, index, item);
    if (slot == NULL) {
        return too_many(e);
    }
    struct bytes json = {.cap_max = event.raw.n + 256};

    put_client_item(l, slot, item, &json);
    ic_emit_passed(l, event, slot, &json);
    bytes_fini(&json);
    return 0;
}

static void on_arguments(struct ic_loop *l, struct ic_slot *slot, struct icj event, bool is_done)
{
    struct ic_call *c;
    struct bytes tmp = {.cap_max = event.raw.n + 64};

    if (slot->kind != IC_SLOT_OURS || slot->is_done) {
        return;
    }
    c = &l->calls[slot->call];
    if (is_done) {
        icj_text(icj_get(event, "arguments"), &tmp);
        ic_call_end(c, tmp.n > 0 ? sv_from(tmp.p, tmp.n) : (struct str_view){NULL, 0});
    } else if (!c->is_args_done) {
        ic_call_feed(c, icj_view(icj_get(event, "delta"), &tmp));
    }
    bytes_fini(&tmp);
    ic_emit_call_code(l, c);
}

/* Everything else that belongs to an item, and what belongs to none. */
static void on_other(struct ic_loop *l, struct icj event, struct icj type)
{
    struct icj index = icj_get(event, "output_index");
    struct ic_slot *slot;

    if (index.type == ICJ_ABSENT) {
        if (!icj_is(type, "keepalive")) {
            ic_emit_passed(l, event, NULL, NULL);
        }
        return;
    }
    if ((slot = ic_slot_find(l, icj_uint_or(index, UINT64_MAX))) == NULL) {
        return;
    }
    if (slot->kind == IC_SLOT_PASSED) {
        ic_emit_passed(l, event, slot, NULL);
    } else if (icj_is(type, "response.function_call_arguments.delta")) {
        on_arguments(l, slot, event, false);
    } else if (icj_is(type, "response.function_call_arguments.done")) {
        on_arguments(l, slot, event, true);
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
        return item_done(l, index_of(l, event), icj_get(event, "item"), event, e);
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
