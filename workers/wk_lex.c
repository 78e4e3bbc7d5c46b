/* wk_lex.c - see wk_lex.h. */
#include "wk_lex.h"

#define DEPTH_WORDS (WK_SCAN_DEPTH_MAX / 32)

int wk_lex_bad(struct wk_lex *s, const char *why)
{
    if (!s->is_bad) {
        s->is_bad = true;
        (void)err_set(s->e, ERR_INVALID_JSON,
                      "We could not parse the JSON body of your request: %s at byte %zu.", why,
                      s->i);
    }
    return ERR_INVALID_JSON;
}

void wk_lex_space(struct wk_lex *s)
{
    while (s->i < s->n &&
           (s->p[s->i] == ' ' || s->p[s->i] == '\n' || s->p[s->i] == '\r' || s->p[s->i] == '\t')) {
        s->i++;
    }
}

/* --- strings --- */

#define ONES  0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* Some byte of `v` is a quote, a backslash, a control character or not ASCII (may also say so
 * wrongly of a byte after such a one, which does no harm: the bytes are then looked at one by one).
 * */
static bool has_special(uint64_t v)
{
    uint64_t quote = v ^ (ONES * '"');
    uint64_t slash = v ^ (ONES * '\\');

    return ((v | ((v - ONES * 0x20) & ~v) | ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash)) &
            HIGHS) != 0;
}

/* Length of the valid UTF-8 sequence at p[0..n), 0 when invalid. p[0] is not ASCII. */
static unsigned utf8_length(const unsigned char *p, size_t n)
{
    unsigned char a = p[0];

    if (a >= 0xC2 && a <= 0xDF) {
        return n >= 2 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
    }
    if (a >= 0xE0 && a <= 0xEF) {
        if (n < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) {
            return 0;
        }
        return (a == 0xE0 && p[1] < 0xA0) || (a == 0xED && p[1] > 0x9F) ? 0 : 3;
    }
    if (a >= 0xF0 && a <= 0xF4) {
        if (n < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) {
            return 0;
        }
        return (a == 0xF0 && p[1] < 0x90) || (a == 0xF4 && p[1] > 0x8F) ? 0 : 4;
    }
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* s->i is at a backslash; moves behind the escape. */
static int skip_escape(struct wk_lex *s)
{
    s->i++;
    if (s->i >= s->n) {
        return wk_lex_bad(s, "unterminated string");
    }
    switch (s->p[s->i]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->i++;
        return 0;
    case 'u':
        for (unsigned k = 1; k <= 4; k++) {
            if (s->i + k >= s->n || hex_value(s->p[s->i + k]) < 0) {
                return wk_lex_bad(s, "invalid \\u escape");
            }
        }
        s->i += 5;
        return 0;
    default:
        return wk_lex_bad(s, "invalid escape in a string");
    }
}

int wk_lex_string(struct wk_lex *s, bool *ret_has_escape)
{
    bool has_escape = false;
    int rc;

    s->i++;
    for (;;) {
        uint64_t v;

        while (s->n - s->i >= sizeof(v)) {
            memcpy(&v, s->p + s->i, sizeof(v));
            if (has_special(v)) {
                break;
            }
            s->i += sizeof(v);
        }
        if (s->i >= s->n) {
            return wk_lex_bad(s, "unterminated string");
        }
        unsigned char c = (unsigned char)s->p[s->i];
        if (c == '"') {
            s->i++;
            *ret_has_escape = has_escape;
            return 0;
        }
        if (c == '\\') {
            has_escape = true;
            if ((rc = skip_escape(s)) != 0) {
                return rc;
            }
        } else if (c < 0x20) {
            return wk_lex_bad(s, "control character in a string");
        } else if (c < 0x80) {
            s->i++;
        } else {
            unsigned k = utf8_length((const unsigned char *)s->p + s->i, s->n - s->i);
            if (k == 0) {
                return wk_lex_bad(s, "invalid UTF-8");
            }
            s->i += k;
        }
    }
}

static unsigned hex4(const char *p)
{
    unsigned v = 0;

    for (unsigned k = 0; k < 4; k++) {
        v = v * 16 + (unsigned)hex_value(p[k]);
    }
    return v;
}

static unsigned put_utf8(char *dst, unsigned c)
{
    if (c < 0x80) {
        dst[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        dst[0] = (char)(0xC0 | (c >> 6));
        dst[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        dst[0] = (char)(0xE0 | (c >> 12));
        dst[1] = (char)(0x80 | ((c >> 6) & 0x3F));
        dst[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    dst[0] = (char)(0xF0 | (c >> 18));
    dst[1] = (char)(0x80 | ((c >> 12) & 0x3F));
    dst[2] = (char)(0x80 | ((c >> 6) & 0x3F));
    dst[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* One character of a validated string at *in; writes 1..4 bytes to dst. */
unsigned wk_lex_char(const char **in, const char *end, char dst[4])
{
    static const char from[] = "bfnrt\"\\/";
    static const char to[] = "\b\f\n\r\t\"\\/";
    const char *p = *in;
    unsigned c;

    if (*p != '\\') {
        dst[0] = *p;
        *in = p + 1;
        return 1;
    }
    if (p[1] != 'u') {
        const char *at = strchr(from, p[1]);
        dst[0] = '?';
        if (at != NULL) { /* there is no other in a checked string */
            dst[0] = to[at - from];
        }
        *in = p + 2;
        return 1;
    }
    c = hex4(p + 2);
    p += 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        if (c <= 0xDBFF && end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2) >= 0xDC00 &&
            hex4(p + 2) <= 0xDFFF) {
            c = 0x10000 + ((c - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
            p += 6;
        } else {
            c = 0xFFFD;
        }
    }
    *in = p;
    return put_utf8(dst, c);
}

int wk_scan_string(struct str_view quoted, char *dst, size_t cap, size_t *ret_n)
{
    const char *p = quoted.p + 1;
    const char *end = quoted.p + quoted.n - 1;
    size_t n = 0;

    while (p < end) {
        char c[4];
        unsigned k = wk_lex_char(&p, end, c);
        if (k > cap - n) {
            return ERR_LIMIT;
        }
        memcpy(dst + n, c, k);
        n += k;
    }
    *ret_n = n;
    return 0;
}

/* --- scalars and skipped values --- */

static bool is_digit(const struct wk_lex *s)
{
    return s->i < s->n && s->p[s->i] >= '0' && s->p[s->i] <= '9';
}

static int skip_digits(struct wk_lex *s)
{
    if (!is_digit(s)) {
        return wk_lex_bad(s, "invalid number");
    }
    while (is_digit(s)) {
        s->i++;
    }
    return 0;
}

static int skip_number(struct wk_lex *s)
{
    int rc;

    if (wk_lex_is_at(s, '-')) {
        s->i++;
    }
    if (wk_lex_is_at(s, '0')) {
        s->i++;
    } else if ((rc = skip_digits(s)) != 0) {
        return rc;
    }
    if (wk_lex_is_at(s, '.')) {
        s->i++;
        if ((rc = skip_digits(s)) != 0) {
            return rc;
        }
    }
    if (wk_lex_is_at(s, 'e') || wk_lex_is_at(s, 'E')) {
        s->i++;
        if (wk_lex_is_at(s, '+') || wk_lex_is_at(s, '-')) {
            s->i++;
        }
        if ((rc = skip_digits(s)) != 0) {
            return rc;
        }
    }
    return 0;
}

static int skip_word(struct wk_lex *s, const char *word, size_t n)
{
    if (s->n - s->i < n || memcmp(s->p + s->i, word, n) != 0) {
        return wk_lex_bad(s, "unexpected character");
    }
    s->i += n;
    return 0;
}

/* What kind of value starts here; ABSENT = none can. */
enum wk_json wk_lex_type(const struct wk_lex *s)
{
    switch (s->i < s->n ? s->p[s->i] : '\0') {
    case '"':
        return WK_JSON_STRING;
    case '{':
        return WK_JSON_OBJECT;
    case '[':
        return WK_JSON_ARRAY;
    case 't':
        return WK_JSON_TRUE;
    case 'f':
        return WK_JSON_FALSE;
    case 'n':
        return WK_JSON_NULL;
    case '-':
        return WK_JSON_NUMBER;
    default:
        return is_digit(s) ? WK_JSON_NUMBER : WK_JSON_ABSENT;
    }
}

static int skip_scalar(struct wk_lex *s, enum wk_json type)
{
    bool has_escape;

    switch (type) {
    case WK_JSON_STRING:
        return wk_lex_string(s, &has_escape);
    case WK_JSON_NUMBER:
        return skip_number(s);
    case WK_JSON_TRUE:
        return skip_word(s, "true", 4);
    case WK_JSON_FALSE:
        return skip_word(s, "false", 5);
    case WK_JSON_NULL:
        return skip_word(s, "null", 4);
    case WK_JSON_ABSENT:
    case WK_JSON_OBJECT:
    case WK_JSON_ARRAY:
        break;
    }
    return wk_lex_bad(s, s->i < s->n ? "unexpected character" : "unexpected end");
}

/* Key and colon of an object member. */
static int skip_key(struct wk_lex *s)
{
    bool has_escape;
    int rc;

    if (!wk_lex_is_at(s, '"')) {
        return wk_lex_bad(s, "expected a string key");
    }
    if ((rc = wk_lex_string(s, &has_escape)) != 0) {
        return rc;
    }
    wk_lex_space(s);
    if (!wk_lex_is_at(s, ':')) {
        return wk_lex_bad(s, "expected ':'");
    }
    s->i++;
    wk_lex_space(s);
    return 0;
}

/* One bit per open level: 1 = object. */
struct levels {
    uint32_t bits[DEPTH_WORDS];
    unsigned n;
};

static int level_open(struct wk_lex *s, struct levels *l, unsigned depth, bool is_object)
{
    if (depth + l->n >= WK_SCAN_DEPTH_MAX) {
        return wk_lex_bad(s, "nested too deeply (at most 256 levels)");
    }
    uint32_t bit = 1U << (l->n % 32);
    if (is_object) {
        l->bits[l->n / 32] |= bit;
    } else {
        l->bits[l->n / 32] &= ~bit;
    }
    l->n++;
    s->i++;
    wk_lex_space(s);
    return 0;
}

static bool level_is_object(const struct levels *l)
{
    return (l->bits[(l->n - 1) / 32] & (1U << ((l->n - 1) % 32))) != 0;
}

/* After a value inside a container: closes levels and steps over the comma; *ret_more = another
 * value comes. */
static int after_value(struct wk_lex *s, struct levels *l, bool *ret_more)
{
    *ret_more = false;
    while (l->n > 0) {
        bool is_object = level_is_object(l);
        wk_lex_space(s);
        if (wk_lex_is_at(s, ',')) {
            s->i++;
            wk_lex_space(s);
            *ret_more = true;
            return is_object ? skip_key(s) : 0;
        }
        if (!wk_lex_is_at(s, is_object ? '}' : ']')) {
            return wk_lex_bad(s, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        s->i++;
        l->n--;
    }
    return 0;
}

/* Opens the container at the cursor; *ret_is_open = a value comes, else it was empty and is closed
 * again. */
static int begin_container(struct wk_lex *s, struct levels *l, unsigned depth, bool is_object,
                           bool *ret_is_open)
{
    int rc = level_open(s, l, depth, is_object);

    if (rc != 0) {
        return rc;
    }
    *ret_is_open = !wk_lex_is_at(s, is_object ? '}' : ']');
    if (*ret_is_open) {
        return is_object ? skip_key(s) : 0;
    }
    s->i++;
    l->n--;
    return 0;
}

int wk_lex_value(struct wk_lex *s, unsigned depth)
{
    struct levels l = {.n = 0};
    bool has_more = true;
    int rc;

    while (has_more) {
        enum wk_json type = wk_lex_type(s);
        bool is_open = false;
        if (type == WK_JSON_OBJECT || type == WK_JSON_ARRAY) {
            rc = begin_container(s, &l, depth, type == WK_JSON_OBJECT, &is_open);
        } else {
            rc = skip_scalar(s, type);
        }
        if (rc == 0 && !is_open) {
            rc = after_value(s, &l, &has_more);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}
