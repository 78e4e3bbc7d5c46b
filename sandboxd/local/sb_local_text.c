#include "sb_local_text.h"

/* Length of the character at p[0..n): 1 to 4; 0 = not UTF-8, then *ret_bad bytes count as one bad
 * character (the longest start of a character, at least 1); -1 = the start of one that is cut at n.
 */
static int char_len(const unsigned char *p, size_t n, size_t *ret_bad)
{
    static const unsigned char low[4] = {0x80, 0xA0, 0x90, 0x80};
    unsigned char c = p[0];
    unsigned char min = 0x80;
    unsigned char max = 0xBF;
    size_t len;

    *ret_bad = 1;
    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xC2 && c <= 0xDF) {
        len = 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
        len = 3;
        min = c == 0xE0 ? low[1] : min; /* overlong */
        max = c == 0xED ? 0x9F : max;   /* surrogates */
    } else if (c >= 0xF0 && c <= 0xF4) {
        len = 4;
        min = c == 0xF0 ? low[2] : min;
        max = c == 0xF4 ? 0x8F : max;
    } else {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if (i >= n) {
            return -1;
        }
        if (p[i] < min || p[i] > max) {
            *ret_bad = i;
            return 0;
        }
        min = 0x80;
        max = 0xBF;
    }
    return (int)len;
}

/* Bytes at the start that are whole characters. */
static size_t good_prefix(const unsigned char *p, size_t n)
{
    size_t i = 0;
    size_t bad;

    while (i < n) {
        int len = char_len(p + i, n - i, &bad);

        if (len <= 0) {
            break;
        }
        i += (size_t)len;
    }
    return i;
}

static int clean_append(struct sb_local_text *t, const unsigned char *p, size_t n,
                        struct bytes *out)
{
    size_t bad;

    for (size_t i = 0; i < n && out->rc == 0;) {
        size_t good = good_prefix(p + i, n - i);

        (void)bytes_put(out, p + i, good);
        i += good;
        if (i == n) {
            break;
        }
        if (char_len(p + i, n - i, &bad) < 0) {
            t->tail_len = (unsigned)(n - i); /* at most 3 */
            memcpy(t->tail, p + i, n - i);
            break;
        }
        (void)bytes_put(out, "\xEF\xBF\xBD", 3);
        i += bad;
    }
    return out->rc;
}

int sb_local_text_put(struct sb_local_text *t, struct str_view in, struct bytes *scratch,
                      struct str_view *ret)
{
    const unsigned char *p = (const unsigned char *)in.p;

    if (t->tail_len == 0 && good_prefix(p, in.n) == in.n) {
        *ret = in;
        return 0;
    }
    bytes_reset(scratch);
    /* the tail's character is finished byte by byte, then the rest goes as one piece */
    while (t->tail_len > 0 && in.n > 0) {
        unsigned char joined[4];
        unsigned n = t->tail_len;
        size_t bad;

        memcpy(joined, t->tail, n);
        joined[n] = (unsigned char)in.p[0];
        t->tail_len = 0;
        if (char_len(joined, n + 1U, &bad) ==
            0) { /* the tail was broken; the new byte starts afresh */
            (void)bytes_put(scratch, "\xEF\xBF\xBD", 3);
            break;
        }
        in.p++;
        in.n--;
        (void)clean_append(t, joined, n + 1U, scratch);
    }
    int rc = clean_append(t, (const unsigned char *)in.p, in.n, scratch);

    if (rc == 0) {
        *ret = (struct str_view){scratch->p, scratch->n};
    }
    return rc;
}

struct str_view sb_local_text_end(struct sb_local_text *t)
{
    struct str_view none = {NULL, 0};

    if (t->tail_len == 0) {
        return none;
    }
    t->tail_len = 0;
    return SV_LIT("\xEF\xBF\xBD");
}
