#include "config/cfg_load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define ENV_PREFIX "os.environ/"
#define ECHO_MAX   40

__attribute__((format(printf, 4, 0))) static int fail_v(struct cfg_load *l, const char *path,
                                                        unsigned line, const char *fmt, va_list ap)
{
    char what[ERR_TEXT_MAX];

    (void)vsnprintf(what, sizeof(what), fmt, ap);
    return err_set_param(l->e, ERR_CONFIG, path, "%s:%u: %s: %s", l->file, line, path, what);
}

int cfg_fail(struct cfg_load *l, const struct cfg_node *at, const char *fmt, ...)
{
    char path[ERR_PARAM_MAX];
    va_list ap;

    cfg_node_path(at, path, sizeof(path));
    va_start(ap, fmt);
    int rc = fail_v(l, path, at->line, fmt, ap);
    va_end(ap);
    return rc;
}

int cfg_fail_key(struct cfg_load *l, const struct cfg_node *map, const char *key, const char *fmt,
                 ...)
{
    char path[ERR_PARAM_MAX];
    char full[ERR_PARAM_MAX * 2];
    va_list ap;

    cfg_node_path(map, path, sizeof(path));
    (void)snprintf(full, sizeof(full), "%s%s%s", path, path[0] != '\0' ? "." : "", key);
    va_start(ap, fmt);
    int rc = fail_v(l, full, map->line, fmt, ap);
    va_end(ap);
    return rc;
}

int cfg_nomem(struct cfg_load *l)
{
    return err_set(l->e, ERR_NOMEM, NULL);
}

void cfg_note(struct cfg_load *l, const struct cfg_node *at, const char *why)
{
    char path[ERR_PARAM_MAX];

    if (l->notice != NULL) {
        cfg_node_path(at, path, sizeof(path));
        l->notice(l->notice_ctx, at->line, path, why);
    }
}

/* Removes the digits between brackets: one entry stands for the same key of every list item. */
static void path_generic(char *path)
{
    char *out = path;
    bool is_index = false;

    for (const char *in = path; *in != '\0'; in++) {
        is_index = *in == '[' || (is_index && *in != ']');
        if (!is_index || *in == '[') {
            *out++ = *in;
        }
    }
    *out = '\0';
}

static bool list_has(const struct bytes *list, struct str_view item)
{
    struct str_view rest = sv_from(list->p, list->n);

    while (rest.n > 0) {
        size_t at = sv_find(rest, ',');
        struct str_view word = sv_trim(sv_from(rest.p, at));

        if (sv_eq(word, item)) {
            return true;
        }
        rest = at < rest.n ? sv_from(rest.p + at + 1, rest.n - at - 1) : sv_from(NULL, 0);
    }
    return false;
}

void cfg_ignore(struct cfg_load *l, const struct cfg_node *entry)
{
    char path[ERR_PARAM_MAX];

    cfg_node_path(entry, path, sizeof(path));
    path_generic(path);
    if (l->ignored_line == 0) {
        l->ignored_line = entry->line;
    }
    if (list_has(&l->ignored, sv_of(path)) || l->ignored.n > 2000) {
        return;
    }
    if (l->ignored.n > 0) {
        bytes_put_str(&l->ignored, ", ");
    }
    bytes_put_str(&l->ignored, path);
}

void cfg_ignore_others(struct cfg_load *l, const struct cfg_node *map, const char *const *known)
{
    if (map == NULL || map->kind != CFG_NODE_MAP) {
        return;
    }
    for (const struct cfg_node *c = map->first; c != NULL; c = c->next) {
        const char *const *k = known;

        while (*k != NULL && strcmp(*k, c->key) != 0) {
            k++;
        }
        if (*k == NULL) {
            cfg_ignore(l, c);
        }
    }
}

bool cfg_is_role(const struct cfg_load *l, unsigned roles)
{
    return (roles & (1U << (unsigned)l->role)) != 0;
}

static struct str_view process_env(struct cfg_load *l, const char *name)
{
    const char *v = getenv(name);

    if (v == NULL || v[0] == '\0') {
        return sv_from(NULL, 0);
    }
    if (l->env_used != NULL) {
        (void)map_put(l->env_used, sv_of(name),
                      l); /* a failure shows in map_count; see cfg_env_names */
    }
    return sv_of(v);
}

struct str_view cfg_env(struct cfg_load *l, const char *name)
{
    const struct cfg_node *n = cfg_node_get(l->env, name);

    if (n == NULL || n->kind != CFG_NODE_SCALAR || n->len == 0) {
        return process_env(l, name);
    }
    if (sv_starts(sv_from(n->text, n->len), SV_LIT(ENV_PREFIX))) {
        return process_env(l, n->text + strlen(ENV_PREFIX));
    }
    return sv_from(n->text, n->len);
}

static bool is_env_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && s[n] == '\0' && n <= 128;
}

int cfg_resolve(struct cfg_load *l, const struct cfg_node *n, unsigned roles, struct str_view *ret)
{
    struct str_view text;

    if (n->kind != CFG_NODE_SCALAR) {
        return cfg_fail(l, n, "must be a single value, not a %s; write KEY: VALUE",
                        n->kind == CFG_NODE_MAP ? "map" : "list");
    }
    text = sv_from(n->text, n->len);
    if (!sv_starts(text, SV_LIT(ENV_PREFIX))) {
        *ret = text;
        return 0;
    }
    const char *name = n->text + strlen(ENV_PREFIX);

    if (!is_env_name(name)) {
        return cfg_fail(l, n,
                        "os.environ/ must be followed by the name of an environment variable; "
                        "correct the name");
    }
    if (!cfg_is_role(l, roles)) {
        *ret = sv_from(NULL, 0);
        return 0;
    }
    *ret = cfg_env(l, name);
    if (ret->p == NULL) {
        return cfg_fail(l, n, "environment variable %s is not set or empty; set it before starting",
                        name);
    }
    return 0;
}

static int get_kind(struct cfg_load *l, const struct cfg_node *map, const char *key,
                    enum cfg_node_kind kind, const struct cfg_node **ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);

    *ret = NULL;
    if (n == NULL) {
        return 0;
    }
    if (n->kind != kind) {
        return cfg_fail(l, n,
                        kind == CFG_NODE_MAP ? "must be a map; indent its keys below it"
                                             : "must be a list; start each entry with -");
    }
    *ret = n;
    return 0;
}

int cfg_get_map(struct cfg_load *l, const struct cfg_node *map, const char *key,
                const struct cfg_node **ret)
{
    return get_kind(l, map, key, CFG_NODE_MAP, ret);
}

int cfg_get_seq(struct cfg_load *l, const struct cfg_node *map, const char *key,
                const struct cfg_node **ret)
{
    return get_kind(l, map, key, CFG_NODE_SEQ, ret);
}

int cfg_str_of(struct cfg_load *l, const struct cfg_node *n, unsigned roles, char **ret)
{
    struct str_view v;
    int rc = cfg_resolve(l, n, roles, &v);

    if (rc != 0 || v.p == NULL) {
        return rc;
    }
    char *copy = mem_strndup(v.p, v.n);

    if (copy == NULL) {
        return cfg_nomem(l);
    }
    mem_free(*ret);
    *ret = copy;
    return 0;
}

int cfg_get_str(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                char **ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);

    return n != NULL ? cfg_str_of(l, n, roles, ret) : 0;
}

int cfg_get_secret(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                   struct secret **ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    struct str_view v;
    int rc;

    if (n == NULL || !cfg_is_role(l, roles)) {
        return 0;
    }
    if ((rc = cfg_resolve(l, n, roles, &v)) != 0) {
        return rc;
    }
    if (v.n == 0) {
        return 0; /* "" = none */
    }
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] <= ' ' || v.p[i] == 0x7f) {
            return cfg_fail(l, n, "holds a space or control character; check for a stray line end");
        }
    }
    secret_free(*ret);
    *ret = secret_new(v);
    return *ret != NULL ? 0 : cfg_nomem(l);
}

static int strs_put(struct cfg_load *l, const struct cfg_node *n, unsigned roles, char **slot)
{
    int rc = cfg_str_of(l, n, roles, slot);

    if (rc != 0) {
        return rc;
    }
    if (*slot == NULL && (*slot = mem_strdup("")) == NULL) {
        return cfg_nomem(l);
    }
    return 0;
}

int cfg_get_strs(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                 char ***ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    char **list = NULL;
    unsigned i = 0;
    int rc = 0;

    if (n == NULL) {
        return 0;
    }
    if (n->kind == CFG_NODE_MAP) {
        return cfg_fail(l, n, "must be a list of strings; start each entry with -");
    }
    unsigned count = n->kind == CFG_NODE_SEQ ? n->count : 1;

    if (count > CFG_STRINGS_MAX) {
        return cfg_fail(l, n, "has more than 1000 entries; shorten it");
    }
    if ((list = mem_calloc((size_t)count + 1, sizeof(*list))) == NULL) {
        return cfg_nomem(l);
    }
    if (n->kind == CFG_NODE_SCALAR) {
        rc = strs_put(l, n, roles, &list[0]);
    } else {
        for (const struct cfg_node *c = n->first; c != NULL && rc == 0; c = c->next) {
            rc = strs_put(l, c, roles, &list[i++]);
        }
    }
    if (rc != 0) {
        cfg_names_free(list);
        return rc;
    }
    cfg_names_free(*ret);
    *ret = list;
    return 0;
}

int cfg_get_bool(struct cfg_load *l, const struct cfg_node *map, const char *key, bool *ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    struct str_view v;
    int b;

    if (n == NULL) {
        return 0;
    }
    if ((b = cfg_node_bool(n)) < 0) {
        int rc = cfg_resolve(l, n, CFG_ROLES_ALL, &v);

        if (rc != 0) {
            return rc;
        }
        b = sv_eq_nocase(v, SV_LIT("true")) ? 1 : sv_eq_nocase(v, SV_LIT("false")) ? 0 : -1;
    }
    if (b < 0) {
        return cfg_fail(l, n, "must be true or false; write one of them");
    }
    *ret = b == 1;
    return 0;
}

static bool unit_shift(struct str_view unit, unsigned *ret)
{
    static const char *const names[3][4] = {
        {"k", "kb", "ki", "kib"}, {"m", "mb", "mi", "mib"}, {"g", "gb", "gi", "gib"}};

    for (unsigned i = 0; i < 3; i++) {
        for (unsigned j = 0; j < 4; j++) {
            if (sv_eq_nocase(unit, sv_of(names[i][j]))) {
                *ret = (i + 1) * 10;
                return true;
            }
        }
    }
    return false;
}

/* 0 good, -1 not a number, 1 a number out of any range. */
static int number_parse(struct str_view v, bool has_unit, uint64_t *ret)
{
    size_t digits = 0;
    unsigned shift = 0;
    uint64_t n = 0;
    bool is_negative = v.n > 1 && v.p[0] == '-';

    if (is_negative) {
        v = sv_from(v.p + 1, v.n - 1);
    }
    while (digits < v.n && v.p[digits] >= '0' && v.p[digits] <= '9') {
        digits++;
    }
    if (digits == 0) {
        return -1;
    }
    struct str_view rest = sv_from(v.p + digits, v.n - digits);

    if (rest.n > 1 && rest.p[0] == '.') {
        size_t zeros = 1;

        while (zeros < rest.n && rest.p[zeros] == '0') {
            zeros++;
        }
        rest = zeros > 1 ? sv_from(rest.p + zeros, rest.n - zeros) : rest;
    }
    rest = sv_trim(rest);
    if (rest.n > 0 && (!has_unit || !unit_shift(rest, &shift))) {
        return -1;
    }
    if (is_negative || !sv_to_u64(sv_from(v.p, digits), UINT64_MAX >> shift, &n)) {
        return 1;
    }
    *ret = n << shift;
    return 0;
}

int cfg_u64_of(struct cfg_load *l, const struct cfg_node *n, uint64_t lo, uint64_t hi,
               bool has_unit, uint64_t *ret)
{
    struct str_view v;
    uint64_t value = 0;
    char echo[ECHO_MAX + 16] = "";
    int rc = cfg_resolve(l, n, CFG_ROLES_ALL, &v);

    if (rc != 0) {
        return rc;
    }
    v = sv_trim(v);
    int bad = number_parse(v, has_unit, &value);

    if (bad == 0 && value >= lo && value <= hi) {
        *ret = value;
        return 0;
    }
    if (v.p == n->text && v.n <= ECHO_MAX) { /* never the value of a variable */
        (void)snprintf(echo, sizeof(echo), ", not \"%.*s\"", (int)v.n, v.p);
    }
    return cfg_fail(l, n, "must be a whole number from %llu to %llu%s; %s", (unsigned long long)lo,
                    (unsigned long long)hi, echo,
                    has_unit  ? "k, m or g may follow"
                    : bad < 0 ? "write digits only"
                              : "choose one in that range");
}

int cfg_get_uint(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned lo,
                 unsigned hi, unsigned *ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    uint64_t v = 0;
    int rc;

    if (n == NULL) {
        return 0;
    }
    if ((rc = cfg_u64_of(l, n, lo, hi, false, &v)) != 0) {
        return rc;
    }
    *ret = (unsigned)v;
    return 0;
}

int cfg_get_seconds(struct cfg_load *l, const struct cfg_node *map, const char *key,
                    unsigned *ret_ms)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    char text[32];
    struct str_view v;
    int rc;

    if (n == NULL) {
        return 0;
    }
    if ((rc = cfg_resolve(l, n, CFG_ROLES_ALL, &v)) != 0) {
        return rc;
    }
    v = sv_trim(v);
    if (v.n > 0 && sv_copy(text, sizeof(text), v) && strspn(text, "0123456789.") == v.n) {
        char *end = NULL;
        double s = strtod(text, &end);

        if (*end == '\0' && s >= 0.001 && s <= 86400.0) {
            *ret_ms = (unsigned)(s * 1000.0 + 0.5);
            return 0;
        }
    }
    return cfg_fail(l, n, "must be seconds from 0.001 to 86400; write a number");
}

int cfg_get_url(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                char **ret)
{
    const struct cfg_node *n = cfg_node_get(map, key);
    char *url = NULL;
    int rc;

    if (n == NULL || (rc = cfg_str_of(l, n, roles, &url)) != 0) {
        return n == NULL ? 0 : rc;
    }
    if (url == NULL) {
        return 0; /* not for this role */
    }
    size_t len = strlen(url);
    size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
    bool is_bad = scheme == 0 || len == scheme || len > 2048 || url[scheme] == '/' ||
                  strpbrk(url, "@?#\\") != NULL;

    for (size_t i = 0; i < len; i++) {
        is_bad = is_bad || url[i] <= ' ' || url[i] == 0x7f;
    }
    if (is_bad) {
        mem_free(url);
        return cfg_fail(
            l, n, "must be an http:// or https:// URL without user, query or fragment; correct it");
    }
    while (len > scheme && url[len - 1] == '/') {
        url[--len] = '\0';
    }
    mem_free(*ret);
    *ret = url;
    return 0;
}
