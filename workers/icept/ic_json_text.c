/* ic_json_text.c - see ic_json.h: texts and numbers of spans, and writing. */
#include <stdlib.h>

#include "base/check.h"
#include "ic_json.h"

/* --- text --- */

static unsigned hex4(const char *p)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++) {
        char c = p[i];

        v = v << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

static unsigned utf8(char *dst, unsigned cp)
{
    if (cp < 0x80) {
        dst[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        dst[0] = (char)(0xC0 | cp >> 6);
        dst[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        dst[0] = (char)(0xE0 | cp >> 12);
        dst[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        dst[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    dst[0] = (char)(0xF0 | cp >> 18);
    dst[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    dst[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    dst[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

/* Decodes the escape at p (on the backslash); returns where it ends. */
static const char *unescape(const char *p, const char *end, char *dst, unsigned *ret_n)
{
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";
    const char *at;
    unsigned cp;

    if (p[1] != 'u') {
        at = strchr(from, p[1]);
        dst[0] = p[1];
        if (at != NULL) {
            dst[0] = to[at - from];
        }
        *ret_n = 1;
        return p + 2;
    }
    cp = hex4(p + 2);
    p += 6;
    if (cp >= 0xD800 && cp < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        unsigned low = hex4(p + 2);

        if (low >= 0xDC00 && low < 0xE000) {
            *ret_n = utf8(dst, 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00));
            return p + 6;
        }
    }
    *ret_n = utf8(dst, cp >= 0xD800 && cp < 0xE000 ? 0xFFFD : cp);
    return p;
}

void icj_text(struct icj string, struct bytes *out)
{
    const char *p;
    const char *end;

    if (string.type != ICJ_STRING) {
        return;
    }
    p = string.raw.p + 1;
    end = string.raw.p + string.raw.n - 1;
    while (p < end) {
        const char *esc = memchr(p, '\\', (size_t)(end - p));
        char dst[4];
        unsigned n = 0;

        bytes_put(out, p, (size_t)((esc != NULL ? esc : end) - p));
        if (esc == NULL) {
            break;
        }
        p = unescape(esc, end, dst, &n);
        bytes_put(out, dst, n);
    }
}

struct str_view icj_view(struct icj string, struct bytes *tmp)
{
    struct str_view inner;

    if (string.type != ICJ_STRING) {
        return (struct str_view){NULL, 0};
    }
    inner = sv_from(string.raw.p + 1, string.raw.n - 2);
    if (sv_find(inner, '\\') == inner.n) {
        return inner;
    }
    bytes_reset(tmp);
    icj_text(string, tmp);
    return sv_from(tmp->p, tmp->n);
}

bool icj_is(struct icj v, const char *text)
{
    size_t n = strlen(text);
    const char *p;
    const char *end;

    if (v.type != ICJ_STRING) {
        return false;
    }
    p = v.raw.p + 1;
    end = v.raw.p + v.raw.n - 1;
    while (p < end) {
        char dst[4];
        unsigned k = 1;
        const char *after = p + 1;

        dst[0] = *p;
        if (*p == '\\') {
            after = unescape(p, end, dst, &k);
        }
        if (n < k || memcmp(text, dst, k) != 0) {
            return false;
        }
        text += k;
        n -= k;
        p = after;
    }
    return n == 0;
}

bool icj_is_set(struct icj v)
{
    return v.type != ICJ_ABSENT && v.type != ICJ_NULL;
}

bool icj_int(struct icj v, int64_t *ret)
{
    char text[64];
    double d;

    if (v.type != ICJ_NUMBER || v.raw.n >= sizeof(text)) {
        return false;
    }
    memcpy(text, v.raw.p, v.raw.n);
    text[v.raw.n] = '\0';
    if (strpbrk(text, ".eE") == NULL) {
        char *end = NULL;
        long long n;

        if (v.raw.n > 19) { /* may be over 64 bits */
            return false;
        }
        n = strtoll(text, &end, 10);
        *ret = n;
        return *end == '\0';
    }
    d = strtod(text, NULL);
    if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || (double)(int64_t)d < d ||
        (double)(int64_t)d > d) {
        return false;
    }
    *ret = (int64_t)d;
    return true;
}

uint64_t icj_uint_or(struct icj v, uint64_t fallback)
{
    int64_t n;

    return icj_int(v, &n) && n >= 0 ? (uint64_t)n : fallback;
}

const char *icj_type_text(enum icj_type type)
{
    static const char *const names[] = {"nothing",  "null",     "a boolean", "a boolean",
                                        "a number", "a string", "an array",  "an object"};

    return names[type];
}

/* --- writing --- */

void icj_put_comma(struct bytes *out)
{
    if (out->n > 0 && out->p[out->n - 1] != '{' && out->p[out->n - 1] != '[') {
        bytes_put_char(out, ',');
    }
}

void icj_put_key(struct bytes *out, const char *name)
{
    icj_put_comma(out);
    bytes_put_json_str(out, sv_of(name));
    bytes_put_char(out, ':');
}

void icj_put_str(struct bytes *out, const char *name, struct str_view text)
{
    icj_put_key(out, name);
    bytes_put_json_str(out, text);
}

void icj_put_raw(struct bytes *out, const char *name, struct str_view raw)
{
    icj_put_key(out, name);
    bytes_put_sv(out, raw);
}

void icj_put_u64(struct bytes *out, const char *name, uint64_t v)
{
    icj_put_key(out, name);
    bytes_put_u64(out, v);
}

void icj_copy(struct bytes *out, struct icj object, const struct icj_edit *edits, unsigned count)
{
    uint64_t used = 0;
    struct icj_iter it = icj_iter(object);
    struct icj key;
    struct icj v;

    REQUIRE(count <= 64);
    bytes_put_char(out, '{');
    while (object.type == ICJ_OBJECT && icj_next_member(&it, &key, &v)) {
        unsigned i = 0;

        while (i < count && !icj_is(key, edits[i].name)) {
            i++;
        }
        if (i < count) {
            bool is_again = (used & UINT64_C(1) << i) != 0;

            used |= UINT64_C(1) << i;
            if (is_again || edits[i].raw.p == NULL) {
                continue;
            }
        }
        icj_put_comma(out);
        bytes_put_sv(out, key.raw);
        bytes_put_char(out, ':');
        bytes_put_sv(out, i < count ? edits[i].raw : v.raw);
    }
    for (unsigned i = 0; i < count; i++) {
        if (edits[i].is_added && edits[i].raw.p != NULL && (used & UINT64_C(1) << i) == 0) {
            icj_put_raw(out, edits[i].name, edits[i].raw);
        }
    }
    bytes_put_char(out, '}');
}
