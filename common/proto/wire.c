#include "proto/wire.h"

#include "base/err.h"

static void advance(struct str_view *in, size_t n)
{
    in->p += n;
    in->n -= n;
}

int wire_get_u8(struct str_view *in, uint8_t *ret)
{
    if (in->n < 1) {
        return ERR_PEER_MALFORMED;
    }
    *ret = (uint8_t)in->p[0];
    advance(in, 1);
    return 0;
}

int wire_get_u16(struct str_view *in, uint16_t *ret)
{
    if (in->n < 2) {
        return ERR_PEER_MALFORMED;
    }
    *ret = wire_load_u16(in->p);
    advance(in, 2);
    return 0;
}

int wire_get_u32(struct str_view *in, uint32_t *ret)
{
    if (in->n < 4) {
        return ERR_PEER_MALFORMED;
    }
    *ret = wire_load_u32(in->p);
    advance(in, 4);
    return 0;
}

int wire_get_u64(struct str_view *in, uint64_t *ret)
{
    if (in->n < 8) {
        return ERR_PEER_MALFORMED;
    }
    *ret = wire_load_u64(in->p);
    advance(in, 8);
    return 0;
}

int wire_get_i32(struct str_view *in, int32_t *ret)
{
    uint32_t u;
    int rc = wire_get_u32(in, &u);

    if (rc == 0) {
        memcpy(ret, &u,
               sizeof(u)); /* two's complement, without an implementation-defined conversion */
    }
    return rc;
}

int wire_get_raw(struct str_view *in, void *dst, size_t n)
{
    if (in->n < n) {
        return ERR_PEER_MALFORMED;
    }
    if (n > 0) {
        memcpy(dst, in->p, n);
        advance(in, n);
    }
    return 0;
}

int wire_get_str(struct str_view *in, uint32_t max, struct str_view *ret)
{
    uint32_t n;

    if (in->n < 4 || (n = wire_load_u32(in->p)) > max || n > in->n - 4) {
        return ERR_PEER_MALFORMED;
    }
    *ret = (struct str_view){in->p + 4, n};
    advance(in, 4 + (size_t)n);
    return 0;
}

int wire_get_end(const struct str_view *in)
{
    return in->n == 0 ? 0 : ERR_PEER_MALFORMED;
}

int wire_put_u8(struct bytes *out, uint8_t v)
{
    return bytes_put(out, &v, 1);
}

int wire_put_u16(struct bytes *out, uint16_t v)
{
    char b[2];

    wire_store_u16(b, v);
    return bytes_put(out, b, sizeof(b));
}

int wire_put_u32(struct bytes *out, uint32_t v)
{
    char b[4];

    wire_store_u32(b, v);
    return bytes_put(out, b, sizeof(b));
}

int wire_put_u64(struct bytes *out, uint64_t v)
{
    char b[8];

    wire_store_u64(b, v);
    return bytes_put(out, b, sizeof(b));
}

int wire_put_i32(struct bytes *out, int32_t v)
{
    return wire_put_u32(out, (uint32_t)v);
}

int wire_put_raw(struct bytes *out, const void *p, size_t n)
{
    return bytes_put(out, p, n);
}

int wire_put_str(struct bytes *out, struct str_view s)
{
    char b[4];

    if (s.n > UINT32_MAX || bytes_reserve(out, 4 + s.n) != 0) {
        if (out->rc == 0) {
            out->rc = ERR_LIMIT;
        }
        return out->rc;
    }
    wire_store_u32(b, (uint32_t)s.n);
    (void)bytes_put(out, b, sizeof(b));
    return bytes_put(out, s.p, s.n);
}
