/* ic_chat_calls.c - tool calls of the chat surface: fragments put together, ours told from the
 * client's.
 *
 * A fragment belongs to the call with its index; without an index, to the call with its id, or to
 * the newest. Providers that give every call the same index, or none, are told by what only a new
 * call has: a name with another id, or with arguments although the ones before are complete. */
#include "base/id.h"
#include "ic_chat.h"

static struct icj call_name(struct icj call)
{
    struct icj name = icj_get2(call, "function", "name");

    return name.type == ICJ_STRING ? name : icj_get2(call, "custom", "name");
}

static bool is_text(struct icj v)
{
    return v.type == ICJ_STRING && v.raw.n > 2;
}

static int too_many(struct err *e)
{
    return err_set(e, ERR_UPSTREAM_BAD, "the model provider sent too many tool calls");
}

/* Members of the tool call that a provider wants to see again (signatures and the like). */
static void keep_extra(struct bytes *extra, struct icj call)
{
    struct icj_iter it = icj_iter(call);
    struct icj key;
    struct icj v;

    while (icj_next_member(&it, &key, &v)) {
        if (!icj_is(key, "index") && !icj_is(key, "id") && !icj_is(key, "type") &&
            !icj_is(key, "function") && icj_is_set(v)) {
            bytes_put_char(extra, ',');
            bytes_put_sv(extra, key.raw);
            bytes_put_char(extra, ':');
            bytes_put_sv(extra, v.raw);
        }
    }
}

/* --- ours --- */

/* NULL with *ret_rc 0: not offered any more, nothing will answer it. */
static struct ic_call *begin_our_call(struct ic_loop *l, struct str_view id, int *ret_rc,
                                      struct err *e)
{
    struct ic_call *c;

    *ret_rc = 0;
    if (l->run.state == WK_RUN_CLOSING) {
        l->has_dropped = true;
        return NULL;
    }
    if ((c = ic_call_new(l)) == NULL) {
        *ret_rc = too_many(e);
        return NULL;
    }
    ic_call_set_id(l, c, id);
    return c;
}

static void feed(struct ic_call *c, struct icj call)
{
    struct bytes tmp = {.cap_max = call.raw.n + 64};

    ic_call_feed(c, ic_args_view(icj_get2(call, "function", "arguments"), &tmp));
    keep_extra(&c->extra, call);
    bytes_fini(&tmp);
}

/* --- the client's --- */

/* The first fragment of a client's call: with our index and everything that was held back. */
static void put_first(const struct ic_slot *s, struct bytes *ret)
{
    struct icj raw = ic_slot_raw(s);
    struct icj f = icj_get(raw, "function");
    struct bytes index = {0};
    struct bytes id = {0};
    struct bytes name = {0};
    struct bytes args = {.cap_max = IC_TEXT_MAX};
    struct bytes fn = {.cap_max = IC_TEXT_MAX};
    struct icj_edit e[4];
    struct icj_edit inner[2];
    unsigned n = 0;
    char fresh[48];

    bytes_put_u64(&index, s->item);
    e[n++] = (struct icj_edit){"index", sv_from(index.p, index.n), true};
    id_text(fresh, sizeof(fresh), "call_", 12);
    bytes_put_json_str(&id, s->id.n > 0 ? sv_from(s->id.p, s->id.n) : sv_of(fresh));
    e[n++] = (struct icj_edit){"id", sv_from(id.p, id.n), true};
    if (icj_get(raw, "type").type != ICJ_STRING) {
        e[n++] = (struct icj_edit){"type", SV_LIT("\"function\""), true};
    }
    if (icj_get(raw, "custom").type != ICJ_OBJECT) {
        bytes_put_json_str(&name, sv_from(s->name.p, s->name.n));
        bytes_put_json_str(&args, sv_from(s->args.p, s->args.n));
        inner[0] = (struct icj_edit){"name", sv_from(name.p, name.n), true};
        inner[1] = (struct icj_edit){"arguments", sv_from(args.p, args.n), true};
        icj_copy(&fn, f, inner, 2);
        e[n++] = (struct icj_edit){"function", sv_from(fn.p, fn.n), true};
    }
    icj_put_comma(ret);
    icj_copy(ret, raw, e, n);
    if (args.rc != 0 || fn.rc != 0) {
        ret->rc = ERR_LIMIT;
    }
    bytes_fini(&index);
    bytes_fini(&id);
    bytes_fini(&name);
    bytes_fini(&args);
    bytes_fini(&fn);
}

/* A later one: what was said once is not said again. */
static void put_later(const struct ic_slot *s, struct icj call, struct bytes *ret)
{
    struct bytes index = {0};
    struct bytes fn = {.cap_max = call.raw.n + 256};
    struct icj_edit no_name = {"name", {NULL, 0}, false};
    struct icj f = icj_get(call, "function");
    struct icj_edit e[4] = {
        {"index", {NULL, 0}, true}, {"id", {NULL, 0}, false}, {"type", {NULL, 0}, false}};
    unsigned n = 3;

    bytes_put_u64(&index, s->item);
    e[0].raw = sv_from(index.p, index.n);
    if (f.type == ICJ_OBJECT) {
        icj_copy(&fn, f, &no_name, 1);
        e[n++] = (struct icj_edit){"function", sv_from(fn.p, fn.n), false};
    }
    icj_put_comma(ret);
    icj_copy(ret, call, e, n);
    bytes_fini(&index);
    bytes_fini(&fn);
}

/* --- fragments --- */

/* Whose call it is, once its name and the first of its arguments are there. */
static int decide(struct ic_loop *l, struct ic_slot *s, bool is_end, struct bytes *ret,
                  struct err *e)
{
    struct ic_call *c;
    int rc = 0;

    if (s->kind != IC_SLOT_PENDING || s->name.n == 0 || (s->args.n == 0 && !is_end)) {
        return 0;
    }
    if (!sv_eq(sv_from(s->name.p, s->name.n), sv_of(l->req->alias))) {
        s->kind = IC_SLOT_PASSED;
        s->item = l->client_calls++;
        put_first(s, ret);
        return 0;
    }
    s->kind = IC_SLOT_HIDDEN;
    if ((c = begin_our_call(l, sv_from(s->id.p, s->id.n), &rc, e)) != NULL) {
        s->kind = IC_SLOT_OURS;
        s->call = l->call_count - 1;
        ic_call_feed(c, sv_from(s->args.p, s->args.n));
        keep_extra(&c->extra, ic_slot_raw(s));
    }
    return rc;
}

/* Does a fragment that would go to `s` begin another call? */
static bool is_new_call(const struct ic_loop *l, const struct ic_slot *s, struct icj call)
{
    struct bytes tmp = {0};
    struct icj whole;
    struct icj args = icj_get2(call, "function", "arguments");
    struct icj id = icj_get(call, "id");
    const struct bytes *so_far = s->kind == IC_SLOT_OURS ? &l->calls[s->call].args : &s->args;
    bool is_same_id;

    if (!is_text(call_name(call))) {
        return false;
    }
    if (is_text(id) && s->id.n > 0) {
        is_same_id = sv_eq(icj_view(id, &tmp), sv_from(s->id.p, s->id.n));
        bytes_fini(&tmp);
        return !is_same_id;
    }
    return (is_text(args) || args.type == ICJ_OBJECT) &&
           icj_parse(&whole, sv_from(so_far->p, so_far->n), NULL) == 0;
}

/* The call a fragment belongs to; a new one when it begins one. NULL: too many. */
static struct ic_slot *slot_of(struct ic_loop *l, struct icj call, uint64_t index)
{
    struct icj id = icj_get(call, "id");
    struct ic_slot *s = ic_slot_find(l, index);

    if (s == NULL && is_text(id)) {
        s = ic_slot_find_id(l, id, index != IC_NO_INDEX);
    }
    if (s == NULL && index == IC_NO_INDEX && l->slot_count > 0) {
        s = &l->slots[l->slot_count - 1];
    }
    return s != NULL && !is_new_call(l, s, call) ? s : ic_slot_new(l, index);
}

/* Name and arguments of a call whose owner is not known yet. */
static void hold(struct ic_slot *s, struct icj call)
{
    struct icj args = icj_get2(call, "function", "arguments");
    struct bytes tmp = {.cap_max = call.raw.n + 64};
    struct str_view name = icj_view(call_name(call), &tmp);

    if (s->raw.n == 0) {
        bytes_put_sv(&s->raw, call.raw);
    }
    if (!sv_eq(name, sv_from(s->name.p, s->name.n))) { /* some say the whole name again */
        bytes_put_sv(&s->name, name);
    }
    bytes_put_sv(&s->args, ic_args_view(args, &tmp));
    bytes_fini(&tmp);
}

static int take_fragment(struct ic_loop *l, struct icj call, uint64_t index, struct bytes *ret,
                         struct err *e)
{
    struct ic_slot *s = slot_of(l, call, index);
    struct bytes tmp = {.cap_max = call.raw.n + 64};

    if (s == NULL) {
        return too_many(e);
    }
    if (s->id.n == 0) {
        icj_text(icj_get(call, "id"), &s->id);
    }
    switch (s->kind) {
    case IC_SLOT_PENDING:
        hold(s, call);
        return decide(l, s, icj_get(call, "custom").type == ICJ_OBJECT, ret, e);
    case IC_SLOT_OURS:
        feed(&l->calls[s->call], call);
        break;
    case IC_SLOT_PASSED:
        bytes_put_sv(&s->args, ic_args_view(icj_get2(call, "function", "arguments"), &tmp));
        put_later(s, call, ret);
        break;
    case IC_SLOT_HIDDEN:
        break;
    }
    bytes_fini(&tmp);
    return 0;
}

int ic_chat_take_fragments(struct ic_loop *l, struct icj calls, struct bytes *ret, struct err *e)
{
    struct icj_iter it = icj_iter(calls);
    struct icj call;
    uint64_t position = 0;
    bool is_alone = !(icj_next(&it, &call) && icj_next(&it, &call));
    int rc = 0;

    bytes_put_char(ret, '[');
    it = icj_iter(calls);
    while (rc == 0 && icj_next(&it, &call)) {
        uint64_t index = icj_uint_or(icj_get(call, "index"), is_alone ? IC_NO_INDEX : position);

        position++;
        if (call.type == ICJ_OBJECT) {
            rc = take_fragment(l, call, index, ret, e);
        }
    }
    bytes_put_char(ret, ']');
    return rc;
}

int ic_chat_end_fragments(struct ic_loop *l, struct bytes *ret, struct err *e)
{
    int rc = 0;

    bytes_put_char(ret, '[');
    for (unsigned i = 0; i < l->slot_count && rc == 0; i++) {
        rc = decide(l, &l->slots[i], true, ret, e);
    }
    bytes_put_char(ret, ']');
    for (unsigned i = 0; i < l->call_count; i++) {
        ic_call_end(&l->calls[i]);
    }
    return rc;
}

/* --- whole messages --- */

int ic_chat_take_whole(struct ic_loop *l, struct icj calls, struct err *e)
{
    struct icj_iter it = icj_iter(calls);
    struct icj call;
    int rc = 0;

    while (rc == 0 && icj_next(&it, &call)) {
        struct icj name = call_name(call);
        struct bytes tmp = {0};
        struct ic_call *c = NULL;

        if (icj_is(name, l->req->alias)) {
            c = begin_our_call(l, icj_view(icj_get(call, "id"), &tmp), &rc, e);
        } else if (is_text(name)) {
            l->client_calls++;
        }
        if (c != NULL) {
            feed(c, call);
            ic_call_end(c);
        }
        bytes_fini(&tmp);
    }
    return rc;
}
