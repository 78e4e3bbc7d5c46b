/* wire.h - bounds-checked primitives for decoding and encoding. Compare with what is left before
 * any arithmetic. Getters advance `in` only on success and return 0 or ERR_PEER_MALFORMED. */
#ifndef CFD_PROTO_WIRE_H
#define CFD_PROTO_WIRE_H

#include <stdint.h>

#include "base/str.h"

/* Little endian at any address. */
static inline uint16_t wire_load_u16(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (uint16_t)(u[0] | u[1] << 8);
}

static inline uint32_t wire_load_u32(const char *p)
{
    return wire_load_u16(p) | (uint32_t)wire_load_u16(p + 2) << 16;
}

static inline uint64_t wire_load_u64(const char *p)
{
    return wire_load_u32(p) | (uint64_t)wire_load_u32(p + 4) << 32;
}

static inline void wire_store_u16(char *p, uint16_t v)
{
    p[0] = (char)(unsigned char)(v & 0xff);
    p[1] = (char)(unsigned char)(v >> 8);
}

static inline void wire_store_u32(char *p, uint32_t v)
{
    wire_store_u16(p, (uint16_t)(v & 0xffff));
    wire_store_u16(p + 2, (uint16_t)(v >> 16));
}

static inline void wire_store_u64(char *p, uint64_t v)
{
    wire_store_u32(p, (uint32_t)(v & 0xffffffff));
    wire_store_u32(p + 4, (uint32_t)(v >> 32));
}

int wire_get_u8(struct str_view *in, uint8_t *ret);
int wire_get_u16(struct str_view *in, uint16_t *ret);
int wire_get_u32(struct str_view *in, uint32_t *ret);
int wire_get_u64(struct str_view *in, uint64_t *ret);
int wire_get_i32(struct str_view *in, int32_t *ret);
int wire_get_raw(struct str_view *in, void *dst, size_t n);
int wire_get_str(struct str_view *in, uint32_t max, struct str_view *ret); /* borrows */
int wire_get_end(const struct str_view *in); /* 0 only when nothing is left */

int wire_put_u8(struct bytes *out, uint8_t v);
int wire_put_u16(struct bytes *out, uint16_t v);
int wire_put_u32(struct bytes *out, uint32_t v);
int wire_put_u64(struct bytes *out, uint64_t v);
int wire_put_i32(struct bytes *out, int32_t v);
int wire_put_raw(struct bytes *out, const void *p, size_t n);
int wire_put_str(struct bytes *out, struct str_view s);

#endif
