#include "ic_utf8.h"

/* Length of the sequence at p (1 to 4), or 0 with the length of its ill-formed part. */
static size_t length_at(const unsigned char *p, size_t n, size_t *ret_bad)
{
    unsigned char low =
        0x80; /* of the second byte: no overlong forms, surrogates, or more than 17 planes */
    unsigned char high = 0xBF;
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                               : 0;

    low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : low;
    high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : high;
    *ret_bad = 1;
    for (size_t i = 1; i < len; i++) {
        if (i == n || p[i] < low || p[i] > high) {
            *ret_bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

/* Bytes from p that are well formed. */
static size_t good_at(const unsigned char *p, size_t n, size_t *ret_bad)
{
    size_t i = 0;

    while (i < n) {
        uint64_t word;

        if (n - i >= sizeof(word)) { /* most text is ASCII */
            memcpy(&word, p + i, sizeof(word));
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof(word);
                continue;
            }
        }
        size_t len = length_at(p + i, n - i, ret_bad);

        if (len == 0) {
            break;
        }
        i += len;
    }
    return i;
}

bool ic_utf8_is_good(struct str_view text)
{
    size_t bad;

    return good_at((const unsigned char *)text.p, text.n, &bad) == text.n;
}

void ic_utf8_put(struct bytes *out, struct str_view text)
{
    while (text.n > 0) {
        size_t bad = 0;
        size_t good = good_at((const unsigned char *)text.p, text.n, &bad);

        bytes_put(out, text.p, good);
        if (good == text.n) {
            return;
        }
        bytes_put_str(out, "\xEF\xBF\xBD");
        text.p += good + bad;
        text.n -= good + bad;
    }
}
