#include "fe_route.h"

#include <stdio.h>

#include "fe_route_table.h"

struct row {
    const char *pattern;
    const char *methods;
    char where;
    enum fe_do what;
    enum msg_kind kind;
    const char *label;
};

static const struct row rows[] = {
#define X(name, pattern, methods, where, handler, kind, label)                                     \
    {pattern, methods, where, FE_DO_##handler, kind, label},
    FE_ROUTE_TABLE(X)
#undef X
};

static const struct row any_model = {"/v1/", "P", 'P', FE_DO_JOB, MSG_KIND_MODEL, "model"};

static const char prefix[] = "/v1";

static bool pattern_matches(const char *pattern, struct str_view path)
{
    size_t n = strlen(pattern);

    if (n > 1 && pattern[n - 1] == '/') {
        return path.n > n && memcmp(path.p, pattern, n) == 0;
    }
    return path.n == n && memcmp(path.p, pattern, n) == 0;
}

static bool row_matches(const struct row *r, struct str_view path)
{
    const size_t n = sizeof(prefix) - 1;

    if (pattern_matches(r->pattern, path)) {
        return true;
    }
    return strncmp(r->pattern, prefix, n) == 0 && pattern_matches(r->pattern + n, path);
}

static bool is_escape(struct str_view s, size_t i, char hi, char lo)
{
    return s.n - i >= 3 && s.p[i] == '%' && s.p[i + 1] == hi && (s.p[i + 2] | 0x20) == lo;
}

static bool is_dot_segment(struct str_view seg)
{
    size_t dots = 0;

    for (size_t i = 0; i < seg.n; dots++) {
        if (seg.p[i] == '.') {
            i++;
        } else if (is_escape(seg, i, '2', 'e')) {
            i += 3;
        } else {
            return false;
        }
    }
    return dots == 1 || dots == 2;
}

/* Paths that some server or proxy behind us could read as another path. */
static bool is_ambiguous(struct str_view path, bool may_hold_slash)
{
    size_t start = 1;

    for (size_t i = 1; i <= path.n; i++) {
        if (i < path.n && path.p[i] != '/') {
            if (!may_hold_slash && (is_escape(path, i, '2', 'f') || is_escape(path, i, '5', 'c'))) {
                return true;
            }
            continue;
        }
        if ((i == start && i < path.n) || is_dot_segment(sv_from(path.p + start, i - start))) {
            return true;
        }
        start = i + 1;
    }
    return false;
}

static const struct row *find_row(bool is_admin, enum msg_method method, struct str_view path)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((rows[i].where == 'B' || rows[i].where == (is_admin ? 'A' : 'P')) &&
            row_matches(&rows[i], path)) {
            return &rows[i];
        }
    }
    if (!is_admin && method == MSG_METHOD_POST && pattern_matches(any_model.pattern, path)) {
        return &any_model;
    }
    return NULL;
}

static char method_letter(enum msg_method m)
{
    switch (m) {
    case MSG_METHOD_GET:
    case MSG_METHOD_HEAD:
        return 'G';
    case MSG_METHOD_POST:
        return 'P';
    case MSG_METHOD_PUT:
        return 'U';
    case MSG_METHOD_PATCH:
        return 'A';
    case MSG_METHOD_DELETE:
        return 'D';
    case MSG_METHOD_OPTIONS:
    case MSG_METHOD_OTHER:
        break;
    }
    return '-';
}

void fe_route_find(struct fe_route *ret, bool is_admin, enum msg_method method,
                   struct str_view path)
{
    const struct row *r = NULL;

    *ret = (struct fe_route){
        .what = FE_DO_NONE, .kind = MSG_KIND_MODEL, .methods = "", .label = "none"};
    if (path.n == 1 && path.p[0] == '*') {
        ret->what = FE_DO_OPTIONS;
        ret->methods = "GPUD";
        ret->is_allowed = true;
        return;
    }
    r = find_row(is_admin, method, path);
    if (r == NULL || is_ambiguous(path, r->what == FE_DO_MODEL)) {
        return;
    }
    ret->what = r->what;
    ret->kind = r->kind;
    ret->methods = r->methods;
    ret->label = r->label;
    ret->needs_key = r->where == 'P';
    ret->needs_body =
        r->what == FE_DO_JOB && r->kind != MSG_KIND_OBJECT && r->kind != MSG_KIND_SANDBOX;
    ret->has_prefix = sv_starts(path, SV_LIT("/v1/"));
    if (method == MSG_METHOD_OPTIONS) {
        ret->what = FE_DO_OPTIONS;
        ret->needs_key = ret->needs_body = false;
        ret->is_allowed = true;
        return;
    }
    ret->is_allowed = strchr(r->methods, method_letter(method)) != NULL;
}

void fe_route_allow(char *dst, size_t cap, const struct fe_route *r)
{
    static const struct {
        char letter;
        const char *text;
    } names[] = {
        {'G', "GET, HEAD, "}, {'P', "POST, "}, {'U', "PUT, "}, {'A', "PATCH, "}, {'D', "DELETE, "}};
    size_t n = 0;

    dst[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strchr(r->methods, names[i].letter) != NULL && n < cap) {
            n += (size_t)snprintf(dst + n, cap - n, "%s", names[i].text);
        }
    }
    if (n < cap) {
        (void)snprintf(dst + n, cap - n, "OPTIONS");
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return (c | 0x20) - 'a' + 10;
}

bool fe_route_model_id(struct str_view path, char *dst, size_t cap)
{
    const struct str_view stem = SV_LIT("/models/");
    size_t at = sv_starts(path, SV_LIT("/v1/")) ? 3 : 0;
    size_t n = 0;

    if (path.n < at + stem.n || !sv_starts(sv_from(path.p + at, path.n - at), stem)) {
        return false;
    }
    for (size_t i = at + stem.n; i < path.n; i++) {
        char c = path.p[i];

        if (n + 1 >= cap) {
            return false;
        }
        if (c == '%' && path.n - i >= 3) {
            c = (char)(hex_digit(path.p[i + 1]) * 16 + hex_digit(path.p[i + 2]));
            i += 2;
        }
        dst[n++] = c;
    }
    dst[n] = '\0';
    return n > 0;
}
