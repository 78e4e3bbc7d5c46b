/* msg.c - everything here is expanded from msg_table.h. To read an expansion: `cc -E -Icommon
 * common/proto/msg.c`. */
#include "proto/msg.h"

#include "proto/wire.h"

#define FLAGS_KNOWN                                                                                \
    ((uint32_t)(MSG_FLAG_LAST | MSG_FLAG_RESUBMIT | MSG_FLAG_STARTED | MSG_FLAG_STREAM))

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 1,
    AT_TYPE = 2,
    AT_ATTEMPT = 3,
    AT_DEADLINE = 4,
    AT_RID = 8,
    AT_TENANT = AT_RID + REQUEST_ID_BYTES,
    AT_FLAGS = AT_TENANT + TENANT_BYTES,
    AT_ZERO = AT_FLAGS + 4
};
_Static_assert(AT_ZERO + 4 == MSG_HEAD_BYTES, "the header layout fills its size");

/* The tokens of the senders and states columns. */
enum {
    FE = 1U << MSG_ROLE_FRONTEND,
    WK = 1U << MSG_ROLE_WORKER,
    SB = 1U << MSG_ROLE_SANDBOXD,
    BR = 1U << MSG_ROLE_BROKER
};
enum { NEW = 1, READY = 2, DIRECT = 4 };

struct row {
    const char *name; /* NULL = no such message */
    uint8_t senders;
    uint8_t states;
};

/* Two messages with one id would be an overridden initializer: -Woverride-init is an error. */
static const struct row rows[UINT8_MAX + 1] = {
#define X(NAME, id, senders, states, prose) [id] = {#NAME, (senders), (states)},
    MSG_TABLE(X)
#undef X
};

const char *msg_name(uint8_t type)
{
    return rows[type].name != NULL ? rows[type].name : "?";
}

bool msg_is_permitted(uint8_t type, enum msg_role role, bool is_ready, bool is_direct)
{
    unsigned state = is_direct ? DIRECT : is_ready ? READY : NEW;

    if (role < MSG_ROLE_FRONTEND || role > MSG_ROLE_BROKER) {
        return false;
    }
    return (rows[type].senders & (1U << role)) != 0 && (rows[type].states & state) != 0;
}

int msg_head_decode(struct msg_head *ret, struct str_view *frame0)
{
    const char *p = frame0->p;

    if (frame0->n < AT_VERSION + 1 || (uint8_t)p[AT_MAGIC] != MSG_MAGIC) {
        return ERR_PEER_MALFORMED;
    }
    if ((uint8_t)p[AT_VERSION] != MSG_VERSION) {
        return ERR_PEER_VERSION;
    }
    if (frame0->n < MSG_HEAD_BYTES || rows[(uint8_t)p[AT_TYPE]].name == NULL ||
        (wire_load_u32(p + AT_FLAGS) & ~FLAGS_KNOWN) != 0 || wire_load_u32(p + AT_ZERO) != 0) {
        return ERR_PEER_MALFORMED;
    }
    ret->type = (uint8_t)p[AT_TYPE];
    ret->attempt = (uint8_t)p[AT_ATTEMPT];
    ret->deadline_ms = wire_load_u32(p + AT_DEADLINE);
    ret->flags = wire_load_u32(p + AT_FLAGS);
    memcpy(ret->rid.b, p + AT_RID, sizeof(ret->rid.b));
    memcpy(ret->tenant.b, p + AT_TENANT, sizeof(ret->tenant.b));
    frame0->p += MSG_HEAD_BYTES;
    frame0->n -= MSG_HEAD_BYTES;
    return 0;
}

void msg_head_patch(char *frame0, uint8_t type, uint8_t attempt, uint32_t deadline_ms,
                    uint32_t flags)
{
    frame0[AT_TYPE] = (char)type;
    frame0[AT_ATTEMPT] = (char)attempt;
    wire_store_u32(frame0 + AT_DEADLINE, deadline_ms);
    wire_store_u32(frame0 + AT_FLAGS, flags);
}

static char *put_head(char *p, uint8_t type, const struct msg_head *h)
{
    p[AT_MAGIC] = (char)MSG_MAGIC;
    p[AT_VERSION] = (char)MSG_VERSION;
    p[AT_TYPE] = (char)type;
    p[AT_ATTEMPT] = (char)h->attempt;
    wire_store_u32(p + AT_DEADLINE, h->deadline_ms);
    memcpy(p + AT_RID, h->rid.b, sizeof(h->rid.b));
    memcpy(p + AT_TENANT, h->tenant.b, sizeof(h->tenant.b));
    wire_store_u32(p + AT_FLAGS, h->flags);
    wire_store_u32(p + AT_ZERO, 0);
    return p + MSG_HEAD_BYTES;
}

/* Per kind: is the value within its bounds, how long is it, write it, read it. */
static inline bool unsigned_fits(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v >= lo && v <= hi;
}

static inline bool signed_fits(int64_t v, int64_t lo, int64_t hi)
{
    return v >= lo && v <= hi;
}

#define FITS_u8(v, lo, hi)  unsigned_fits((v), (lo), (hi))
#define FITS_u16(v, lo, hi) unsigned_fits((v), (lo), (hi))
#define FITS_u32(v, lo, hi) unsigned_fits((v), (lo), (hi))
#define FITS_u64(v, lo, hi) unsigned_fits((v), (lo), (hi))
#define FITS_i32(v, lo, hi) signed_fits((v), (lo), (hi))
#define FITS_id(v, lo, hi)  true
#define FITS_str(v, lo, hi) unsigned_fits((v).n, (lo), (hi))

#define SIZE_u8(v)  1U
#define SIZE_u16(v) 2U
#define SIZE_u32(v) 4U
#define SIZE_u64(v) 8U
#define SIZE_i32(v) 4U
#define SIZE_id(v)  sizeof(struct msg_id16)
#define SIZE_str(v) (4U + (v).n)

static inline char *put_u8(char *p, uint8_t v)
{
    *p = (char)v;
    return p + 1;
}

static inline char *put_u16(char *p, uint16_t v)
{
    wire_store_u16(p, v);
    return p + 2;
}

static inline char *put_u32(char *p, uint32_t v)
{
    wire_store_u32(p, v);
    return p + 4;
}

static inline char *put_u64(char *p, uint64_t v)
{
    wire_store_u64(p, v);
    return p + 8;
}

static inline char *put_i32(char *p, int32_t v)
{
    return put_u32(p, (uint32_t)v);
}

static inline char *put_id(char *p, struct msg_id16 v)
{
    memcpy(p, v.b, sizeof(v.b));
    return p + sizeof(v.b);
}

static inline char *put_str(char *p, struct str_view v)
{
    p = put_u32(p, (uint32_t)v.n);
    if (v.n > 0) {
        memcpy(p, v.p, v.n);
    }
    return p + v.n;
}

#define GET_u8(in, ret, hi)  wire_get_u8((in), (ret))
#define GET_u16(in, ret, hi) wire_get_u16((in), (ret))
#define GET_u32(in, ret, hi) wire_get_u32((in), (ret))
#define GET_u64(in, ret, hi) wire_get_u64((in), (ret))
#define GET_i32(in, ret, hi) wire_get_i32((in), (ret))
#define GET_id(in, ret, hi)  wire_get_raw((in), (ret)->b, sizeof((ret)->b))
#define GET_str(in, ret, hi) wire_get_str((in), (hi), (ret))

/* NOLINTBEGIN(bugprone-macro-parentheses): parts of an expression, joined by the table */
#define FIELD_FITS(kind, name, lo, hi, doc) &&FITS_##kind(m->name, lo, hi)
#define FIELD_SIZE(kind, name, lo, hi, doc) +SIZE_##kind(m->name)
#define FIELD_PUT(kind, name, lo, hi, doc)  p = put_##kind(p, m->name);
#define FIELD_FAILS(kind, name, lo, hi, doc)                                                       \
    || (rc = GET_##kind(&fields, &m.name, hi)) != 0 ||                                             \
        (rc = FITS_##kind(m.name, lo, hi) ? 0 : ERR_PEER_MALFORMED) != 0
/* NOLINTEND(bugprone-macro-parentheses) */

#define X(NAME, id, senders, states, prose)                                                        \
    int msg_encode_##NAME(struct bytes *out, const struct msg_head *h,                             \
                          const struct msg_body_##NAME *m)                                         \
    {                                                                                              \
        size_t size;                                                                               \
        char *p;                                                                                   \
                                                                                                   \
        if ((h->flags & ~FLAGS_KNOWN) != 0 || !(true NAME##_FIELDS(FIELD_FITS))) {                 \
            return ERR_INVALID;                                                                    \
        }                                                                                          \
        size = MSG_HEAD_BYTES NAME##_FIELDS(FIELD_SIZE);                                           \
        if (bytes_reserve(out, size) != 0) {                                                       \
            return out->rc;                                                                        \
        }                                                                                          \
        p = put_head(out->p + out->n, MSG_##NAME, h);                                              \
        NAME##_FIELDS(FIELD_PUT);                                                                  \
        *p = '\0';                                                                                 \
        out->n += size;                                                                            \
        return 0;                                                                                  \
    }                                                                                              \
                                                                                                   \
    int msg_decode_##NAME(struct msg_body_##NAME *ret, struct str_view fields)                     \
    {                                                                                              \
        struct msg_body_##NAME m;                                                                  \
        int rc = ERR_INTERNAL;                                                                     \
                                                                                                   \
        if (false NAME##_FIELDS(FIELD_FAILS) || (rc = wire_get_end(&fields)) != 0) {               \
            return rc;                                                                             \
        }                                                                                          \
        *ret = m;                                                                                  \
        return 0;                                                                                  \
    }
MSG_TABLE(X)
#undef X
