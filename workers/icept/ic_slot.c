/* ic_slot.c - which of a provider's events and items are about the same thing.
 *
 * Providers number, name and repeat items as they please: an index that starts at 1 or is missing,
 * a final output with items the stream did not show, ids made anew for each event. A call that is
 * taken for two would run twice, so what an item is called (call_id, then id) counts more than
 * where it stands. */
#include "base/mem.h"
#include "ic_loop.h"

/* --- storage --- */

static void slot_fini(struct ic_slot *s)
{
    bytes_fini(&s->id);
    bytes_fini(&s->call_id);
    bytes_fini(&s->name);
    bytes_fini(&s->raw);
    bytes_fini(&s->args);
}

void ic_slots_reset(struct ic_loop *l)
{
    for (unsigned i = 0; i < l->slot_count; i++) {
        slot_fini(&l->slots[i]);
    }
    l->slot_count = 0;
}

int ic_slots_rc(const struct ic_loop *l)
{
    for (unsigned i = 0; i < l->slot_count; i++) {
        const struct ic_slot *s = &l->slots[i];

        if (s->id.rc != 0 || s->call_id.rc != 0 || s->name.rc != 0 || s->raw.rc != 0 ||
            s->args.rc != 0) {
            return ERR_LIMIT;
        }
    }
    return 0;
}

struct ic_slot *ic_slot_new(struct ic_loop *l, uint64_t index)
{
    struct ic_slot *s;

    if (l->slot_count == IC_SLOTS_MAX) {
        return NULL;
    }
    if (l->slot_count == l->slot_cap) {
        unsigned cap = l->slot_cap == 0 ? 16 : l->slot_cap * 2;
        struct ic_slot *p = mem_realloc(l->slots, cap * sizeof(*p));

        if (p == NULL) {
            return NULL;
        }
        l->slots = p;
        l->slot_cap = cap;
    }
    s = &l->slots[l->slot_count++];
    memset(s, 0, sizeof(*s));
    s->index = index;
    s->call = IC_NONE;
    s->item = IC_NONE;
    s->final_at = IC_NO_INDEX;
    bytes_init(&s->raw, IC_TEXT_MAX);
    bytes_init(&s->args, IC_TEXT_MAX);
    return s;
}

/* --- comparing --- */

static void note(struct bytes *known, struct icj v)
{
    if (known->n == 0) {
        icj_text(v, known);
    }
}

static void type_of(struct icj item, char *dst, size_t cap)
{
    struct bytes tmp = {0};

    sv_copy(dst, cap, icj_view(icj_get(item, "type"), &tmp));
    bytes_fini(&tmp);
}

void ic_slot_identify(struct ic_slot *s, struct icj item)
{
    if (s->type[0] == '\0') {
        type_of(item, s->type, sizeof(s->type));
    }
    note(&s->id, icj_get(item, "id"));
    note(&s->call_id, icj_get(item, "call_id"));
    note(&s->name, icj_get(item, "name"));
}

/* What an item is looked for by. */
struct probe {
    struct str_view id;
    struct str_view call_id;
    struct str_view name;
    struct str_view args;
    char type[32];
    struct bytes text[4]; /* what had to be decoded */
};

static void probe_init(struct probe *p, struct icj item)
{
    memset(p, 0, sizeof(*p));
    p->id = icj_view(icj_get(item, "id"), &p->text[0]);
    p->call_id = icj_view(icj_get(item, "call_id"), &p->text[1]);
    p->name = icj_view(icj_get(item, "name"), &p->text[2]);
    p->args = ic_args_view(icj_get(item, "arguments"), &p->text[3]);
    type_of(item, p->type, sizeof(p->type));
}

static void probe_fini(struct probe *p)
{
    for (unsigned i = 0; i < 4; i++) {
        bytes_fini(&p->text[i]);
    }
}

static bool is_same(const struct bytes *known, struct str_view v)
{
    return v.n > 0 && sv_eq(v, sv_from(known->p, known->n));
}

/* Both known, and not the same. */
static bool is_other(const struct bytes *known, struct str_view v)
{
    return known->n > 0 && v.n > 0 && !is_same(known, v);
}

static bool is_kind(const struct ic_slot *s, const struct probe *p)
{
    return (s->type[0] == '\0' || p->type[0] == '\0' || strcmp(s->type, p->type) == 0) &&
           !is_other(&s->name, p->name);
}

static bool has_call_id(const struct ic_slot *s, const struct probe *p)
{
    return is_same(&s->call_id, p->call_id) && is_kind(s, p);
}

static bool has_id(const struct ic_slot *s, const struct probe *p)
{
    return is_same(&s->id, p->id) && is_kind(s, p) && !is_other(&s->call_id, p->call_id);
}

/* Could it be the same although nothing says so? */
static bool is_possible(const struct ic_slot *s, const struct probe *p)
{
    return is_kind(s, p) && !is_other(&s->call_id, p->call_id);
}

/* --- finding --- */

struct ic_slot *ic_slot_find(struct ic_loop *l, uint64_t index)
{
    for (unsigned i = l->slot_count; index != IC_NO_INDEX && i > 0; i--) {
        if (l->slots[i - 1].index == index) {
            return &l->slots[i - 1];
        }
    }
    return NULL;
}

struct ic_slot *ic_slot_find_id(struct ic_loop *l, struct icj id, bool is_unnumbered)
{
    struct bytes tmp = {0};
    struct str_view v = icj_view(id, &tmp);
    struct ic_slot *found = NULL;

    for (unsigned i = l->slot_count; i > 0 && found == NULL; i--) {
        struct ic_slot *s = &l->slots[i - 1];

        if ((!is_unnumbered || s->index == IC_NO_INDEX) && is_same(&s->id, v)) {
            found = s;
        }
    }
    bytes_fini(&tmp);
    return found;
}

typedef bool slot_test(const struct ic_slot *s, const struct probe *p, uint64_t index);

static bool by_call_id(const struct ic_slot *s, const struct probe *p, uint64_t index)
{
    (void)index;
    return has_call_id(s, p);
}

static bool by_id(const struct ic_slot *s, const struct probe *p, uint64_t index)
{
    (void)index;
    return has_id(s, p);
}

/* Told again under the same index. */
static bool by_index(const struct ic_slot *s, const struct probe *p, uint64_t index)
{
    return index != IC_NO_INDEX && s->index == index && is_possible(s, p) &&
           !is_other(&s->id, p->id);
}

/* The end of what is open there, though its ids were made anew. */
static bool by_open(const struct ic_slot *s, const struct probe *p, uint64_t index)
{
    return !s->is_done && is_kind(s, p) && (index == IC_NO_INDEX || s->index == index);
}

static bool by_open_alike(const struct ic_slot *s, const struct probe *p, uint64_t index)
{
    return by_open(s, p, index) && is_possible(s, p) && !is_other(&s->id, p->id);
}

struct ic_slot *ic_slot_of_item(struct ic_loop *l, uint64_t index, struct icj item, bool is_added)
{
    static slot_test *const tests[] = {by_call_id, by_id, by_index, by_open_alike, by_open};
    struct ic_slot *found = NULL;
    struct probe p;

    probe_init(&p, item);
    for (unsigned t = 0; t < (is_added ? 3 : 5) && found == NULL; t++) {
        for (unsigned i = l->slot_count; i > 0 && found == NULL; i--) {
            found = tests[t](&l->slots[i - 1], &p, index) ? &l->slots[i - 1] : NULL;
        }
    }
    probe_fini(&p);
    return found;
}

/* Type of the items that an event without item_id and output_index can be about. */
static const char *owner_type(struct icj type)
{
    static const struct {
        struct str_view prefix;
        const char *type;
    } rows[] = {
        {SV_INIT("response.function_call_arguments."), "function_call"},
        {SV_INIT("response.output_text."), "message"},
        {SV_INIT("response.content_part."), "message"},
        {SV_INIT("response.refusal."), "message"},
        {SV_INIT("response.reasoning"), "reasoning"},
    };
    struct bytes tmp = {0};
    struct str_view text = icj_view(type, &tmp);
    const char *found = NULL;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && found == NULL; i++) {
        found = sv_starts(text, rows[i].prefix) ? rows[i].type : NULL;
    }
    bytes_fini(&tmp);
    return found;
}

struct ic_slot *ic_slot_of_event(struct ic_loop *l, struct icj event, struct icj type)
{
    struct ic_slot *s = ic_slot_find_id(l, icj_get(event, "item_id"), false);
    const char *owner;

    if (s == NULL) {
        s = ic_slot_find(l, icj_uint_or(icj_get(event, "output_index"), IC_NO_INDEX));
    }
    if (s != NULL || (owner = owner_type(type)) == NULL) {
        return s;
    }
    for (unsigned i = l->slot_count; i > 0; i--) {
        s = &l->slots[i - 1];
        if (!s->is_done && s->index == IC_NO_INDEX && strcmp(s->type, owner) == 0) {
            return s;
        }
    }
    return NULL;
}

/* --- the final output --- */

static bool at_position(const struct ic_slot *s, const struct probe *p, uint64_t at)
{
    return s->index == at && is_possible(s, p);
}

static bool in_order(const struct ic_slot *s, const struct probe *p, uint64_t at)
{
    (void)at;
    return is_possible(s, p);
}

/* A call that was given another call_id: known by its item's id, or by asking for the same. */
static bool by_content(const struct ic_slot *s, const struct probe *p, uint64_t at)
{
    struct bytes tmp = {.cap_max = s->raw.n + 64};
    bool is_alike = is_kind(s, p) && s->call_id.n > 0 &&
                    ((s->index == at && is_same(&s->id, p->id)) ||
                     sv_eq(p->args, ic_args_view(icj_get(ic_slot_raw(s), "arguments"), &tmp)));

    bytes_fini(&tmp);
    return is_alike;
}

static slot_test *const final_tests[] = {by_call_id, by_id, at_position, in_order, by_content};

#define FINAL_TESTS (sizeof(final_tests) / sizeof(final_tests[0]))

/* One way of matching for all items, so that a weaker one takes nothing from a stronger. Looking
 * goes on where the last item was found: in the usual case at once. */
static void match_all(struct ic_loop *l, struct icj output, unsigned count, slot_test *test)
{
    struct icj_iter it = icj_iter(output);
    struct icj item;
    unsigned from = 0;

    for (uint64_t at = 0; icj_next(&it, &item); at++) {
        struct probe p;

        if (item.type != ICJ_OBJECT || ic_slot_at_final(l, at) != NULL) {
            continue;
        }
        probe_init(&p, item);
        for (unsigned i = 0; i < count; i++) {
            struct ic_slot *s = &l->slots[(from + i) % count];

            if (s->final_at == IC_NO_INDEX && test(s, &p, at)) {
                s->final_at = at;
                from = (from + i + 1) % count;
                break;
            }
        }
        probe_fini(&p);
    }
}

void ic_slots_match_final(struct ic_loop *l, struct icj output)
{
    for (unsigned i = 0; i < l->slot_count; i++) {
        if (l->slots[i].final_at != IC_NO_INDEX) {
            return; /* done, and delivered again now that the sandbox is open */
        }
    }
    for (unsigned i = 0; i < FINAL_TESTS && l->slot_count > 0; i++) {
        match_all(l, output, l->slot_count, final_tests[i]);
    }
}

struct ic_slot *ic_slot_at_final(struct ic_loop *l, uint64_t at)
{
    unsigned n = l->slot_count;

    for (unsigned i = 0; i < n; i++) { /* most often at its place, or right behind it */
        struct ic_slot *s = &l->slots[(at + i) % n];

        if (s->final_at == at) {
            return s;
        }
    }
    return NULL;
}

struct icj ic_slot_raw(const struct ic_slot *s)
{
    bool is_there = s->raw.n > 0 && s->raw.rc == 0;

    return is_there ? (struct icj){ICJ_OBJECT, sv_from(s->raw.p, s->raw.n)}
                    : (struct icj){ICJ_ABSENT, {NULL, 0}};
}
