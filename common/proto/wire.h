/* wire.h - bounds-checked primitives for decoding and encoding. Compare with what is left before any arithmetic.
 * Getters advance `in` only on success and return 0 or ERR_PEER_MALFORMED. */
#ifndef CFD_PROTO_WIRE_H
#define CFD_PROTO_WIRE_H

#include <stdint.h>

#include "base/str.h"

int wire_get_u8(struct str_view *in, uint8_t *ret);
int wire_get_u16(struct str_view *in, uint16_t *ret);
int wire_get_u32(struct str_view *in, uint32_t *ret);
int wire_get_u64(struct str_view *in, uint64_t *ret);
int wire_get_i32(struct str_view *in, int32_t *ret);
int wire_get_raw(struct str_view *in, void *dst, size_t n);
int wire_get_str(struct str_view *in, uint32_t max, struct str_view *ret); /* borrows */
int wire_get_end(const struct str_view *in);                               /* 0 only when nothing is left */

int wire_put_u8(struct bytes *out, uint8_t v);
int wire_put_u16(struct bytes *out, uint16_t v);
int wire_put_u32(struct bytes *out, uint32_t v);
int wire_put_u64(struct bytes *out, uint64_t v);
int wire_put_i32(struct bytes *out, int32_t v);
int wire_put_raw(struct bytes *out, const void *p, size_t n);
int wire_put_str(struct bytes *out, struct str_view s);

#endif
