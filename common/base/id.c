#include "base/id.h"

#include <sodium.h>

#include "base/check.h"
#include "base/err.h"

#define ID_TEXT_BYTES_MAX 32

int id_init(void)
{
    return sodium_init() < 0 ? ERR_INTERNAL : 0;
}

void id_random(void *dst, size_t n)
{
    randombytes_buf(dst, n);
}

void id_text(char *dst, size_t cap, const char *prefix, size_t bytes)
{
    uint8_t raw[ID_TEXT_BYTES_MAX];
    size_t prefix_n = strlen(prefix);

    REQUIRE(bytes <= sizeof(raw) && prefix_n < cap && cap - prefix_n > 2 * bytes);
    id_random(raw, bytes);
    (void)sv_copy(dst, cap, sv_of(prefix));
    hex_encode(dst + prefix_n, raw, bytes);
}

void id_sha256(uint8_t dst[32], const void *p, size_t n)
{
    (void)crypto_hash_sha256(dst, p, n); /* always 0 */
}

bool id_equal(const void *a, const void *b, size_t n)
{
    return sodium_memcmp(a, b, n) == 0;
}
