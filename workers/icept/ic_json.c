#include "ic_json.h"

/* --- validation --- */

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

/* On the character after a backslash. */
static bool scan_escape(struct scan *s)
{
    if (s->p == s->end) {
        return fail(s, "unterminated string");
    }
    if (*s->p == 'u') {
        for (int i = 1; i <= 4; i++) {
            if (s->end - s->p <= i || !is_hex(s->p[i])) {
                return fail(s, "bad \\u escape");
            }
        }
        s->p += 5;
        return true;
    }
    if (*s->p == '\0' || strchr("\"\\/bfnrt", *s->p) == NULL) {
        return fail(s, "bad escape");
    }
    s->p++;
    return true;
}

static bool scan_string(struct scan *s)
{
    s->p++; /* the quote */
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p++;

        if (c == '"') {
            return true;
        }
        if (c < 0x20) {
            s->p--;
            return fail(s, "control character in a string");
        }
        if (c == '\\' && !scan_escape(s)) {
            return false;
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

/* A bracket opens; *ret_inside when a value follows in it, else it is closed already. */
static bool scan_open(struct scan *s, char *stack, unsigned *depth, bool *ret_inside)
{
    char open = *s->p;

    if (*depth == ICJ_DEPTH_MAX) {
        return fail(s, "nested too deeply");
    }
    s->p++;
    skip_space(&s->p, s->end);
    if (s->p < s->end && *s->p == (open == '{' ? '}' : ']')) {
        s->p++;
        *ret_inside = false;
        return true;
    }
    stack[(*depth)++] = open;
    *ret_inside = true;
    return open == '{' ? scan_key(s) : true;
}

static bool scan_value(struct scan *s)
{
    char stack[ICJ_DEPTH_MAX];
    unsigned depth = 0;
    bool is_more = true;

    while (is_more) {
        bool is_inside = false;
        bool is_good;

        skip_space(&s->p, s->end);
        if (s->p == s->end) {
            return fail(s, "unexpected end");
        }
        is_good =
            *s->p == '{' || *s->p == '[' ? scan_open(s, stack, &depth, &is_inside) : scan_scalar(s);
        if (!is_good || (!is_inside && !scan_after(s, stack, &depth, &is_more))) {
            return false;
        }
    }
    return true;
}

/* --- walking over validated text --- */

/* The closing quote is the first one behind an even number of backslashes. */
static const char *after_string(const char *p, const char *end)
{
    const char *start = ++p;

    for (;;) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        const char *back = quote;

        while (back > start && back[-1] == '\\') {
            back--;
        }
        if ((quote - back) % 2 == 0) {
            return quote + 1;
        }
        p = quote + 1;
    }
}

static const char *after_value(const char *p, const char *end)
{
    unsigned depth = 0;

    do {
        switch (*p) {
        case '"':
            p = after_string(p, end);
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
