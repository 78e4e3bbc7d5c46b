#include "fe_check.h"

struct char_set {
    uint64_t bits[2]; /* ASCII only */
};

static const struct char_set set_token = {{0x03ff6cfa00000000ULL, 0x57ffffffc7fffffeULL}};
/* pchar and '/', '%', plus '[', ']' and '|', which clients send unescaped */
static const struct char_set set_path = {{0x2ffffff200000000ULL, 0x57fffffeafffffffULL}};
/* the same plus '?', '{', '}', '^', '`' and '\' */
static const struct char_set set_query = {{0xaffffff200000000ULL, 0x7fffffffffffffffULL}};
static const struct char_set set_host = {{0x03ff600000000000ULL, 0x47fffffe87fffffeULL}};
static const struct char_set set_hex = {{0x03ff000000000000ULL, 0x0000007e0000007eULL}};

static bool in_set(const struct char_set *s, char ch)
{
    unsigned c = (unsigned char)ch;

    return c < 128U && ((s->bits[c >> 6] >> (c & 63U)) & 1U) != 0;
}

static bool all_in_set(const struct char_set *set, struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!in_set(set, s.p[i])) {
            return false;
        }
    }
    return true;
}

bool fe_check_token(struct str_view s)
{
    return s.n > 0 && all_in_set(&set_token, s);
}

bool fe_check_value(struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_port(struct str_view s)
{
    uint64_t port = 0;

    return s.n == 0 || (s.n <= 5 && sv_to_u64(s, 65535, &port));
}

static bool is_ipv6_text(struct str_view s)
{
    size_t colons = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ':') {
            colons++;
        } else if (s.p[i] != '.' && !in_set(&set_hex, s.p[i])) {
            return false;
        }
    }
    return s.n >= 2 && s.n <= 45 && colons >= 2;
}

bool fe_check_host(struct str_view s)
{
    size_t end = 0;

    if (s.n == 0 || s.n > 261) {
        return false;
    }
    if (s.p[0] == '[') {
        size_t close = sv_find(s, ']');

        if (close == s.n || !is_ipv6_text(sv_from(s.p + 1, close - 1))) {
            return false;
        }
        end = close + 1;
    } else {
        end = sv_find(s, ':');
        if (end == 0 || !all_in_set(&set_host, sv_from(s.p, end))) {
            return false;
        }
    }
    if (end == s.n) {
        return true;
    }
    return s.p[end] == ':' && is_port(sv_from(s.p + end + 1, s.n - end - 1));
}

/* Characters of the set, and each '%' followed by two hex digits that are not 00. */
static bool is_escaped_text(const struct char_set *set, struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!in_set(set, s.p[i])) {
            return false;
        }
        if (s.p[i] != '%') {
            continue;
        }
        if (s.n - i < 3 || !in_set(&set_hex, s.p[i + 1]) || !in_set(&set_hex, s.p[i + 2]) ||
            (s.p[i + 1] == '0' && s.p[i + 2] == '0')) {
            return false;
        }
        i += 2;
    }
    return true;
}

static bool is_scheme(struct str_view s, const char *scheme, struct str_view *ret_rest)
{
    size_t n = strlen(scheme);

    if (s.n < n || !sv_eq_nocase(sv_from(s.p, n), sv_from(scheme, n))) {
        return false;
    }
    *ret_rest = sv_from(s.p + n, s.n - n);
    return true;
}

bool fe_check_target(struct str_view s, bool is_options, struct fe_target *ret)
{
    struct fe_target t = {0};
    struct str_view rest = s;
    size_t mark = 0;

    if (s.n == 0) {
        return false;
    }
    if (s.n == 1 && s.p[0] == '*') {
        t.path = s;
        *ret = t;
        return is_options;
    }
    if (s.p[0] != '/') {
        if (!is_scheme(s, "http://", &rest) && !is_scheme(s, "https://", &rest)) {
            return false;
        }
        size_t end = 0;

        while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?') {
            end++;
        }
        t.is_absolute = true;
        t.host = sv_from(rest.p, end);
        rest = sv_from(rest.p + end, rest.n - end);
        if (!fe_check_host(t.host)) {
            return false;
        }
    }
    mark = sv_find(rest, '?');
    t.path = mark > 0 ? sv_from(rest.p, mark) : SV_LIT("/");
    if (mark < rest.n) {
        t.query = sv_from(rest.p + mark + 1, rest.n - mark - 1);
    }
    if (!is_escaped_text(&set_path, t.path) || !is_escaped_text(&set_query, t.query)) {
        return false;
    }
    *ret = t;
    return true;
}
