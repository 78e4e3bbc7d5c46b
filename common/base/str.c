#include "base/str.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

#define BYTES_MAX_DEFAULT ((size_t)64 << 20)
#define BYTES_MIN         64

bool sv_eq(struct str_view a, struct str_view b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool sv_eq_nocase(struct str_view a, struct str_view b)
{
    if (a.n != b.n) {
        return false;
    }
    for (size_t i = 0; i < a.n; i++) {
        if (lower(a.p[i]) != lower(b.p[i])) {
            return false;
        }
    }
    return true;
}

bool sv_starts(struct str_view s, struct str_view prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct str_view sv_trim(struct str_view s)
{
    while (s.n > 0 && is_blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && is_blank(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

bool sv_to_u64(struct str_view s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned)(unsigned char)s.p[i] - '0';

        if (digit > 9 || v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (v > max) {
        return false;
    }
    *ret = v;
    return true;
}

size_t sv_find(struct str_view s, char c)
{
    const char *p = s.n > 0 ? memchr(s.p, c, s.n) : NULL;

    return p != NULL ? (size_t)(p - s.p) : s.n;
}

bool sv_copy(char *dst, size_t cap, struct str_view s)
{
    size_t n;

    if (cap == 0) {
        return false;
    }
    n = s.n < cap - 1 ? s.n : cap - 1;
    if (n > 0) {
        memcpy(dst, s.p, n);
    }
    dst[n] = '\0';
    return n == s.n;
}

void bytes_init(struct bytes *b, size_t cap_max)
{
    *b = (struct bytes){.cap_max = cap_max};
}

void bytes_fini(struct bytes *b)
{
    mem_free(b->p);
    *b = (struct bytes){.cap_max = b->cap_max};
}

void bytes_reset(struct bytes *b)
{
    b->n = 0;
    b->rc = 0;
    if (b->p != NULL) {
        b->p[0] = '\0';
    }
}

static int fail(struct bytes *b, int rc)
{
    b->rc = rc;
    return rc;
}

/* Makes room for `extra` more bytes and the NUL; `cap` counts the NUL. */
static int grow(struct bytes *b, size_t extra)
{
    size_t max = b->cap_max > 0 ? b->cap_max : BYTES_MAX_DEFAULT;
    size_t need;
    size_t cap;
    char *p;

    if (b->n > max || extra > max - b->n || max == SIZE_MAX) {
        return fail(b, ERR_LIMIT);
    }
    need = b->n + extra + 1;
    cap = b->cap <= max / 2 ? 2 * b->cap : max + 1;
    cap = cap < BYTES_MIN ? BYTES_MIN : cap;
    cap = cap > max + 1 ? max + 1 : cap;
    cap = cap < need ? need : cap;
    if ((p = mem_realloc(b->p, cap)) == NULL) {
        return fail(b, ERR_NOMEM);
    }
    p[b->n] = '\0';
    b->p = p;
    b->cap = cap;
    return 0;
}

int bytes_reserve(struct bytes *b, size_t extra)
{
    if (b->rc != 0) {
        return b->rc;
    }
    return b->cap > b->n && extra < b->cap - b->n ? 0 : grow(b, extra);
}

int bytes_put(struct bytes *b, const void *p, size_t n)
{
    int rc = bytes_reserve(b, n);

    if (rc != 0) {
        return rc;
    }
    if (n > 0) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
        b->p[b->n] = '\0';
    }
    return 0;
}

int bytes_put_sv(struct bytes *b, struct str_view s)
{
    return bytes_put(b, s.p, s.n);
}

int bytes_put_str(struct bytes *b, const char *s)
{
    return bytes_put(b, s, strlen(s));
}

int bytes_put_char(struct bytes *b, char c)
{
    return bytes_put(b, &c, 1);
}

int bytes_put_u64(struct bytes *b, uint64_t v)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return bytes_put(b, digits + i, sizeof(digits) - i);
}

int bytes_printf(struct bytes *b, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    size_t room = b->cap > b->n ? b->cap - b->n : 0;
    int n;
    int rc = b->rc;

    if (rc != 0) {
        return rc;
    }
    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(room > 0 ? b->p + b->n : NULL, room, fmt, ap);
    if (n < 0) {
        rc = fail(b, ERR_INTERNAL);
    } else if ((size_t)n >= room) {
        if ((rc = bytes_reserve(b, (size_t)n)) == 0) {
            (void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        } else if (b->p != NULL) {
            b->p[b->n] = '\0'; /* undo the cut first try */
        }
    }
    if (rc == 0) {
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(ap);
    return rc;
}

void bytes_drop(struct bytes *b, size_t n)
{
    if (n >= b->n) {
        n = b->n;
    }
    if (n > 0) {
        b->n -= n;
        memmove(b->p, b->p + n, b->n + 1); /* with the NUL */
    }
}

static const char hex_digits[] = "0123456789abcdef";

void hex_encode(char *dst, const void *src, size_t n)
{
    const unsigned char *s = src;

    for (size_t i = 0; i < n; i++) {
        dst[2 * i] = hex_digits[s[i] >> 4];
        dst[2 * i + 1] = hex_digits[s[i] & 15];
    }
    dst[2 * n] = '\0';
}

int bytes_put_hex(struct bytes *b, const void *p, size_t n)
{
    int rc = n <= SIZE_MAX / 2 ? bytes_reserve(b, 2 * n) : fail(b, ERR_LIMIT);

    if (rc == 0) {
        hex_encode(b->p + b->n, p, n);
        b->n += 2 * n;
    }
    return rc;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(void *dst, size_t n, struct str_view s)
{
    unsigned char *d = dst;

    if (s.n / 2 != n || s.n % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (nibble(s.p[i]) < 0) {
            return false; /* before anything is written */
        }
    }
    for (size_t i = 0; i < n; i++) {
        d[i] =
            (unsigned char)((unsigned)nibble(s.p[2 * i]) << 4 | (unsigned)nibble(s.p[2 * i + 1]));
    }
    return true;
}
