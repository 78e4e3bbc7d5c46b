#include "ic_json.h"

#include <stdlib.h>

#include "base/check.h"

/* --- validation
 * ------------------------------------------------------------------------------------------------
 */

struct scan {
    const char *start;
    const char *p;
    const char *end;
    const char *why;
};

static bool fail(struct scan *s, const char *why)
{
    s->why = why;
    return false;
}

static void skip_space(const char **p, const char *end)
{
    while (*p < end && (**p == ' ' || **p == '\t' || **p == '\n' || **p == '\r')) {
        (*p)++;
    }
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool scan_string(struct scan *s)
{
    s->p++; /* the quote */
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;

        if (c == '"') {
            s->p++;
            return true;
        }
        if (c < 0x20) {
            return fail(s, "control character in a string");
        }
        s->p++;
        if (c != '\\') {
            continue;
        }
        if (s->p == s->end) {
            break;
        }
        c = (unsigned char)*s->p;
        if (c == 'u') {
            for (int i = 1; i <= 4; i++) {
                if (s->end - s->p <= i || !is_hex(s->p[i])) {
                    return fail(s, "bad \\u escape");
                }
            }
            s->p += 5;
        } else if (strchr("\"\\/bfnrt", c) != NULL && c != '\0') {
            s->p++;
        } else {
            return fail(s, "bad escape");
        }
    }
    return fail(s, "unterminated string");
}

static bool scan_digits(struct scan *s)
{
    if (s->p == s->end || !is_digit(*s->p)) {
        return fail(s, "bad number");
    }
    while (s->p < s->end && is_digit(*s->p)) {
        s->p++;
    }
    return true;
}

static bool scan_number(struct scan *s)
{
    if (*s->p == '-') {
        s->p++;
    }
    if (s->p < s->end && *s->p == '0') {
        s->p++;
    } else if (!scan_digits(s)) {
        return false;
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) {
            s->p++;
        }
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) {
        return fail(s, "unexpected character");
    }
    s->p += n;
    return true;
}

static bool scan_scalar(struct scan *s)
{
    switch (*s->p) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return *s->p == '-' || is_digit(*s->p) ? scan_number(s) : fail(s, "unexpected character");
    }
}

/* Key and colon of a member. */
static bool scan_key(struct scan *s)
{
    skip_space(&s->p, s->end);
    if (s->p == s->end || *s->p != '"') {
        return fail(s, "expected a member name");
    }
    if (!scan_string(s)) {
        return false;
    }
    skip_space(&s->p, s->end);
    if (s->p == s->end || *s->p != ':') {
        return fail(s, "expected ':'");
    }
    s->p++;
    return true;
}

/* After a value: closes what ends here; true with *ret_more when another value follows. */
static bool scan_after(struct scan *s, const char *stack, unsigned *depth, bool *ret_more)
{
    while (*depth > 0) {
        char open = stack[*depth - 1];

        skip_space(&s->p, s->end);
        if (s->p == s->end) {
            return fail(s, "unexpected end");
        }
        if (*s->p == ',') {
            s->p++;
            *ret_more = true;
            return open == '{' ? scan_key(s) : true;
        }
        if (*s->p != (open == '{' ? '}' : ']')) {
            return fail(s, open == '{' ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        s->p++;
        (*depth)--;
    }
    *ret_more = false;
    return true;
}

static bool scan_value(struct scan *s)
{
    char stack[ICJ_DEPTH_MAX];
    unsigned depth = 0;
    bool is_more = true;

    while (is_more) {
        skip_space(&s->p, s->end);
        if (s->p == s->end) {
            return fail(s, "unexpected end");
        }
        if (*s->p == '{' || *s->p == '[') {
            char open = *s->p;

            if (depth == ICJ_DEPTH_MAX) {
                return fail(s, "nested too deeply");
            }
            stack[depth++] = open;
            s->p++;
            skip_space(&s->p, s->end);
            if (s->p < s->end && *s->p == (open == '{' ? '}' : ']')) {
                s->p++;
                depth--;
            } else {
                if (open == '{' && !scan_key(s)) {
                    return false;
                }
                continue;
            }
        } else if (!scan_scalar(s)) {
            return false;
        }
        if (!scan_after(s, stack, &depth, &is_more)) {
            return false;
        }
    }
    return true;
}

/* --- walking over validated text
 * -------------------------------------------------------------------------------- */

static const char *after_string(const char *p)
{
    p++;
    while (*p != '"') {
        p += *p == '\\' ? 2 : 1;
    }
    return p + 1;
}

static const char *after_value(const char *p, const char *end)
{
    unsigned depth = 0;

    do {
        switch (*p) {
        case '"':
            p = after_string(p);
            break;
        case '{':
        case '[':
            depth++;
            p++;
            break;
        case '}':
        case ']':
            depth--;
            p++;
            break;
        case ',':
        case ':':
        case ' ':
        case '\t':
        case '\r':
        case '\n':
            p++;
            break;
        default: /* number or word */
            while (p < end && strchr(",:]} \t\r\n", *p) == NULL) {
                p++;
            }
            break;
        }
    } while (depth > 0);
    return p;
}

static struct icj value_at(const char **p, const char *end)
{
    struct icj v;
    const char *after = after_value(*p, end);

    v.raw = sv_from(*p, (size_t)(after - *p));
    switch (**p) {
    case '{':
        v.type = ICJ_OBJECT;
        break;
    case '[':
        v.type = ICJ_ARRAY;
        break;
    case '"':
        v.type = ICJ_STRING;
        break;
    case 't':
        v.type = ICJ_TRUE;
        break;
    case 'f':
        v.type = ICJ_FALSE;
        break;
    case 'n':
        v.type = ICJ_NULL;
        break;
    default:
        v.type = ICJ_NUMBER;
        break;
    }
    *p = after;
    return v;
}

int icj_parse(struct icj *ret, struct str_view text, struct err *e)
{
    struct scan s = {text.p, text.p, NULL, "unexpected end"};
    const char *p = text.p;

    if (text.n == 0) {
        return err_set(e, ERR_INVALID_JSON, "unexpected end at byte 0");
    }
    s.end = text.p + text.n;
    if (!scan_value(&s)) {
        return err_set(e, ERR_INVALID_JSON, "%s at byte %zu", s.why, (size_t)(s.p - s.start));
    }
    skip_space(&s.p, s.end);
    if (s.p != s.end) {
        return err_set(e, ERR_INVALID_JSON, "text after the end of the value at byte %zu",
                       (size_t)(s.p - s.start));
    }
    skip_space(&p, s.end);
    *ret = value_at(&p, s.end);
    return 0;
}

struct icj_iter icj_iter(struct icj container)
{
    if (container.type != ICJ_ARRAY && container.type != ICJ_OBJECT) {
        return (struct icj_iter){NULL, NULL};
    }
    return (struct icj_iter){container.raw.p + 1, container.raw.p + container.raw.n - 1};
}

static bool iter_seek(struct icj_iter *it)
{
    while (it->p < it->end && strchr(", \t\r\n", *it->p) != NULL) {
        it->p++;
    }
    return it->p < it->end;
}

bool icj_next(struct icj_iter *it, struct icj *ret)
{
    if (it->p == NULL || !iter_seek(it)) {
        return false;
    }
    *ret = value_at(&it->p, it->end);
    return true;
}

bool icj_next_member(struct icj_iter *it, struct icj *ret_key, struct icj *ret)
{
    if (it->p == NULL || !iter_seek(it)) {
        return false;
    }
    *ret_key = value_at(&it->p, it->end);
    while (strchr(": \t\r\n", *it->p) != NULL) {
        it->p++;
    }
    *ret = value_at(&it->p, it->end);
    return true;
}

struct icj icj_get(struct icj object, const char *name)
{
    struct icj found = {ICJ_ABSENT, {NULL, 0}};
    struct icj key;
    struct icj v;
    struct icj_iter it;

    if (object.type != ICJ_OBJECT) {
        return found;
    }
    it = icj_iter(object);
    while (icj_next_member(&it, &key, &v)) {
        if (icj_is(key, name)) {
            found = v;
        }
    }
    return found;
}

struct icj icj_get2(struct icj object, const char *name, const char *inner)
{
    return icj_get(icj_get(object, name), inner);
}

/* --- text
 * -------------------------------------------------------------------------------------------------------
 */

static unsigned hex4(const char *p)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++) {
        char c = p[i];

        v = v << 4 | (unsigned)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
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
        dst[0] = at != NULL ? to[at - from] : p[1];
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

/* --- writing
 * ----------------------------------------------------------------------------------------------------
 */

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
