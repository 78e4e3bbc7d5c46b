/* msg_ops.h - every message as a row of functions, expanded from msg_table.h, for tests that walk
 * all of them. `put` encodes without checks through wire_put_*, independently of msg_encode_*. */
#ifndef CFD_TESTS_CONTRACT_MSG_OPS_H
#define CFD_TESTS_CONTRACT_MSG_OPS_H

#include "../support/unit.h"
#include "base/err.h"
#include "proto/msg.h"
#include "proto/wire.h"

enum fill { FILL_MIN, FILL_MAX, FILL_TYPICAL, FILL_COUNT };

union any_body {
#define X(NAME, id, senders, states, prose) struct msg_body_##NAME NAME;
    MSG_TABLE(X)
#undef X
};

struct msg_ops {
    const char *name;
    uint8_t type;
    size_t size; /* of the body struct */
    void (*fill)(union any_body *m, enum fill how);
    void (*same)(const union any_body *a, const union any_body *b);
    void (*put)(struct bytes *out, const struct msg_head *h, const union any_body *m);
    int (*encode)(struct bytes *out, const struct msg_head *h, const union any_body *m);
    int (*decode)(union any_body *ret, struct str_view fields);
    /* Calls `probe` for each value just outside a field's bounds. */
    void (*outside)(const struct msg_ops *ops,
                    void (*probe)(const struct msg_ops *ops, const union any_body *m));
};

static char ops_text[MSG_HEADERS_MAX + 2]; /* what strings are filled from */

static inline struct msg_head ops_head(const struct msg_ops *ops)
{
    struct msg_head h = {ops->type, 2, 0x01020304, MSG_FLAG_LAST | MSG_FLAG_STARTED, {{0}}, {{0}}};

    for (size_t i = 0; i < sizeof(h.rid.b); i++) {
        h.rid.b[i] = (uint8_t)(0xa0 + i);
    }
    for (size_t i = 0; i < sizeof(h.tenant.b); i++) {
        h.tenant.b[i] = (uint8_t)(0x40 + i);
    }
    for (size_t i = 0; i < sizeof(ops_text); i++) {
        ops_text[i] = (char)('a' + i % 26);
    }
    return h;
}

static inline uint64_t fill_unsigned(enum fill how, unsigned seed, uint64_t lo, uint64_t hi)
{
    uint64_t span = hi - lo + 1; /* 0 = all of 64 bits */
    uint64_t v = 0x0123456789abcdefULL * (seed + 1);

    switch (how) {
    case FILL_MIN:
        return lo;
    case FILL_MAX:
        return hi;
    case FILL_TYPICAL:
    case FILL_COUNT:
        break;
    }
    return lo + (span != 0 ? v % span : v);
}

static inline int64_t fill_signed(enum fill how, unsigned seed, int64_t lo, int64_t hi)
{
    return lo + (int64_t)fill_unsigned(how, seed, 0, (uint64_t)(hi - lo));
}

static inline struct msg_id16 fill_id(enum fill how, unsigned seed)
{
    struct msg_id16 v;

    for (size_t i = 0; i < sizeof(v.b); i++) {
        v.b[i] = how == FILL_MIN ? 0 : how == FILL_MAX ? 0xff : (uint8_t)(16 * seed + i);
    }
    return v;
}

static inline struct str_view fill_str(enum fill how, unsigned seed, size_t lo, size_t hi)
{
    size_t n = how == FILL_MIN ? lo : how == FILL_MAX ? hi : 5 + seed;

    return (struct str_view){ops_text, n < lo ? lo : n > hi ? hi : n};
}

/* clang-format off */
#define FILL_u8(lo, hi)  (uint8_t)fill_unsigned(how, seed++, (lo), (hi))
#define FILL_u16(lo, hi) (uint16_t)fill_unsigned(how, seed++, (lo), (hi))
#define FILL_u32(lo, hi) (uint32_t)fill_unsigned(how, seed++, (lo), (hi))
#define FILL_u64(lo, hi) fill_unsigned(how, seed++, (lo), (hi))
#define FILL_i32(lo, hi) (int32_t)fill_signed(how, seed++, (lo), (hi))
#define FILL_id(lo, hi)  fill_id(how, seed++)
#define FILL_str(lo, hi) fill_str(how, seed++, (lo), (hi))
#define FIELD_FILL(kind, name, lo, hi, doc) m->name = FILL_##kind(lo, hi);

#define SAME_u8(a, b)  assert_int_equal((a), (b))
#define SAME_u16(a, b) assert_int_equal((a), (b))
#define SAME_u32(a, b) assert_int_equal((a), (b))
#define SAME_u64(a, b) assert_true((a) == (b))
#define SAME_i32(a, b) assert_true((a) == (b))
#define SAME_id(x, y)  assert_memory_equal((x).b, (y).b, 16)
#define SAME_str(a, b) assert_true(sv_eq((a), (b)))
#define FIELD_SAME(kind, name, lo, hi, doc) SAME_##kind(a->name, b->name);

#define PUT_u8(v)  wire_put_u8(out, (v))
#define PUT_u16(v) wire_put_u16(out, (v))
#define PUT_u32(v) wire_put_u32(out, (v))
#define PUT_u64(v) wire_put_u64(out, (v))
#define PUT_i32(v) wire_put_i32(out, (v))
#define PUT_id(v)  wire_put_raw(out, (v).b, 16)
#define PUT_str(v) wire_put_str(out, (v))
#define FIELD_WIRE(kind, name, lo, hi, doc) assert_int_equal(PUT_##kind(m->name), 0);

/* One below lo and one above hi, where the type can hold it. */
#define OUTSIDE_UNSIGNED(type, max, name, lo, hi)                                   \
    if ((uint64_t)(lo) != 0) { m->name = (type)((uint64_t)(lo) - 1); probe(ops, &any); ops->fill(&any, FILL_TYPICAL); } \
    if ((uint64_t)(hi) != (max)) { m->name = (type)((uint64_t)(hi) + 1); probe(ops, &any); ops->fill(&any, FILL_TYPICAL); }
#define OUTSIDE_u8(name, lo, hi)  OUTSIDE_UNSIGNED(uint8_t, UINT8_MAX, name, lo, hi)
#define OUTSIDE_u16(name, lo, hi) OUTSIDE_UNSIGNED(uint16_t, UINT16_MAX, name, lo, hi)
#define OUTSIDE_u32(name, lo, hi) OUTSIDE_UNSIGNED(uint32_t, UINT32_MAX, name, lo, hi)
#define OUTSIDE_u64(name, lo, hi) OUTSIDE_UNSIGNED(uint64_t, UINT64_MAX, name, lo, hi)
#define OUTSIDE_i32(name, lo, hi)                                                   \
    if ((int64_t)(lo) != INT32_MIN) { m->name = (int32_t)((int64_t)(lo) - 1); probe(ops, &any); ops->fill(&any, FILL_TYPICAL); } \
    if ((int64_t)(hi) != INT32_MAX) { m->name = (int32_t)((int64_t)(hi) + 1); probe(ops, &any); ops->fill(&any, FILL_TYPICAL); }
#define OUTSIDE_id(name, lo, hi)
#define OUTSIDE_str(name, lo, hi)                                                   \
    if ((size_t)(lo) != 0) { m->name.n = (size_t)(lo) - 1; probe(ops, &any); ops->fill(&any, FILL_TYPICAL); } \
    m->name.n = (size_t)(hi) + 1; probe(ops, &any); ops->fill(&any, FILL_TYPICAL);
#define FIELD_OUTSIDE(kind, name, lo, hi, doc) OUTSIDE_##kind(name, lo, hi)
/* clang-format on */

static inline void put_head_by_wire(struct bytes *out, uint8_t type, const struct msg_head *h)
{
    wire_put_u8(out, MSG_MAGIC);
    wire_put_u8(out, MSG_VERSION);
    wire_put_u8(out, type);
    wire_put_u8(out, h->attempt);
    wire_put_u32(out, h->deadline_ms);
    wire_put_raw(out, h->rid.b, sizeof(h->rid.b));
    wire_put_raw(out, h->tenant.b, sizeof(h->tenant.b));
    wire_put_u32(out, h->flags);
    wire_put_u32(out, 0);
}

#define X(NAME, id, senders, states, prose)                                                        \
    static void ops_fill_##NAME(union any_body *any, enum fill how)                                \
    {                                                                                              \
        struct msg_body_##NAME *m = &any->NAME;                                                    \
        unsigned seed = 0;                                                                         \
                                                                                                   \
        NAME##_FIELDS(FIELD_FILL);                                                                 \
        (void)seed;                                                                                \
    }                                                                                              \
    static void ops_same_##NAME(const union any_body *any_a, const union any_body *any_b)          \
    {                                                                                              \
        const struct msg_body_##NAME *a = &any_a->NAME;                                            \
        const struct msg_body_##NAME *b = &any_b->NAME;                                            \
                                                                                                   \
        NAME##_FIELDS(FIELD_SAME);                                                                 \
    }                                                                                              \
    static void ops_put_##NAME(struct bytes *out, const struct msg_head *h,                        \
                               const union any_body *any)                                          \
    {                                                                                              \
        const struct msg_body_##NAME *m = &any->NAME;                                              \
                                                                                                   \
        put_head_by_wire(out, (id), h);                                                            \
        NAME##_FIELDS(FIELD_WIRE);                                                                 \
    }                                                                                              \
    static int ops_encode_##NAME(struct bytes *out, const struct msg_head *h,                      \
                                 const union any_body *any)                                        \
    {                                                                                              \
        return msg_encode_##NAME(out, h, &any->NAME);                                              \
    }                                                                                              \
    static int ops_decode_##NAME(union any_body *ret, struct str_view fields)                      \
    {                                                                                              \
        return msg_decode_##NAME(&ret->NAME, fields);                                              \
    }                                                                                              \
    static void ops_outside_##NAME(                                                                \
        const struct msg_ops *ops,                                                                 \
        void (*probe)(const struct msg_ops *ops, const union any_body *m))                         \
    {                                                                                              \
        union any_body any;                                                                        \
        struct msg_body_##NAME *m = &any.NAME;                                                     \
                                                                                                   \
        ops->fill(&any, FILL_TYPICAL);                                                             \
        NAME##_FIELDS(FIELD_OUTSIDE);                                                              \
        (void)m;                                                                                   \
        (void)probe;                                                                               \
    }
MSG_TABLE(X)
#undef X

static const struct msg_ops all_ops[] = {
#define X(NAME, id, senders, states, prose)                                                        \
    {#NAME,                                                                                        \
     (id),                                                                                         \
     sizeof(struct msg_body_##NAME),                                                               \
     ops_fill_##NAME,                                                                              \
     ops_same_##NAME,                                                                              \
     ops_put_##NAME,                                                                               \
     ops_encode_##NAME,                                                                            \
     ops_decode_##NAME,                                                                            \
     ops_outside_##NAME},
    MSG_TABLE(X)
#undef X
};

#endif
