/* bytes_put_json_str: strings of anybody as JSON that every parser reads alike. */
#include "base/str.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Length of the well-formed UTF-8 sequence at p (1-4), or 0 with *ret_bad = bytes of the maximal
 * ill-formed part. */
static size_t utf8_length(const unsigned char *p, size_t n, size_t *ret_bad)
{
    unsigned char lo =
        0x80; /* bounds of the second byte: no overlong forms, surrogates, or above U+10FFFF */
    unsigned char hi = 0xBF;
    size_t len;

    *ret_bad = 1;
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        len = 2;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        len = 3;
        lo = p[0] == 0xE0 ? 0xA0 : 0x80;
        hi = p[0] == 0xED ? 0x9F : 0xBF;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        len = 4;
        lo = p[0] == 0xF0 ? 0x90 : 0x80;
        hi = p[0] == 0xF4 ? 0x8F : 0xBF;
    } else {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if (i >= n || p[i] < lo || p[i] > hi) {
            *ret_bad = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xBF;
    }
    return len;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void put_escape(struct bytes *b, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char u[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    switch (c) {
    case '"':
        (void)bytes_put(b, "\\\"", 2);
        return;
    case '\\':
        (void)bytes_put(b, "\\\\", 2);
        return;
    case '\n':
        (void)bytes_put(b, "\\n", 2);
        return;
    case '\r':
        (void)bytes_put(b, "\\r", 2);
        return;
    case '\t':
        (void)bytes_put(b, "\\t", 2);
        return;
    case '\b':
        (void)bytes_put(b, "\\b", 2);
        return;
    case '\f':
        (void)bytes_put(b, "\\f", 2);
        return;
    default:
        (void)bytes_put(b, u, sizeof(u));
        return;
    }
}

/* One character that is not plain; returns the bytes consumed. */
static size_t put_special(struct bytes *b, const unsigned char *p, size_t n)
{
    size_t bad;
    size_t len = utf8_length(p, n, &bad);

    if (len == 0) {
        (void)bytes_put(b, REPLACEMENT, 3);
        return bad;
    }
    if (len == 1) {
        put_escape(b, p[0]);
    } else if (len == 2 && p[0] == 0xC2 && p[1] == 0x85) {
        (void)bytes_put(b, "\\u0085", 6);
    } else if (len == 3 && p[0] == 0xE2 && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9)) {
        (void)bytes_put(b, p[2] == 0xA8 ? "\\u2028" : "\\u2029", 6);
    } else {
        (void)bytes_put(b, p, len);
    }
    return len;
}

int bytes_put_json_str(struct bytes *b, struct str_view s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;

    if (bytes_reserve(b, s.n < SIZE_MAX - 2 ? s.n + 2 : s.n) != 0) {
        return b->rc; /* no character becomes shorter, so this much is needed at least */
    }
    (void)bytes_put_char(b, '"');
    while (i < s.n) {
        size_t start = i;

        while (i < s.n && is_plain(p[i])) {
            i++;
        }
        if (i > start) {
            (void)bytes_put(b, p + start, i - start);
        }
        if (i < s.n) {
            i += put_special(b, p + i, s.n - i);
        }
    }
    (void)bytes_put_char(b, '"');
    return b->rc;
}
