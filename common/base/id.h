/* id.h - random identifiers and hashes, from libsodium. Thread-safe after id_init. */
#ifndef CFD_BASE_ID_H
#define CFD_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define REQUEST_ID_BYTES 16
#define TENANT_BYTES     32

struct request_id {
    uint8_t b[REQUEST_ID_BYTES];
};

struct tenant_id {
    uint8_t b[TENANT_BYTES]; /* SHA-256 of the API key; all zero = anonymous */
};

int id_init(void); /* once per process before anything else here; 0 or ERR_INTERNAL */
void id_random(void *dst, size_t n);
/* prefix + 2*bytes hex digits + NUL into dst[cap]; REQUIREs that it fits; bytes <= 32. */
void id_text(char *dst, size_t cap, const char *prefix, size_t bytes);
void id_sha256(uint8_t dst[32], const void *p, size_t n);
/* Constant-time comparison of equal-length data. */
bool id_equal(const void *a, const void *b, size_t n);

#endif
