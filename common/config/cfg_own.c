/* The cofferdam: section: scalars from cfg_table.h, lists, keys, CURVE; and the rules between them.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/mem.h"
#include "config/cfg_keys.h"
#include "config/cfg_load.h"

enum row_type { ROW_STR, ROW_NUM, ROW_BOOL };

struct row {
    const char *path;
    enum row_type type;
    const char *member;
    size_t offset;
    const char *def_str;
    uint64_t def_num;
    uint64_t lo;
    uint64_t hi;
};

#define ROW_TYPE_str      ROW_STR
#define ROW_TYPE_num      ROW_NUM
#define ROW_TYPE_bool     ROW_BOOL
#define ROW_DEF_str(def)  .def_str = (def)
#define ROW_DEF_num(def)  .def_num = (def)
#define ROW_DEF_bool(def) .def_num = (def)

static const struct row rows[] = {
#define X(rpath, rtype, rmember, def, rlo, rhi, doc)                                               \
    {.path = (rpath),                                                                              \
     .type = ROW_TYPE_##rtype,                                                                     \
     .member = #rmember,                                                                           \
     .offset = offsetof(struct cfg, rmember),                                                      \
     .lo = (rlo),                                                                                  \
     .hi = (rhi),                                                                                  \
     ROW_DEF_##rtype(def)},
    CFG_TABLE(X)
#undef X
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

/* Keys that are not scalars of the table. */
static const char *const others[] = {"brokers",          "api_keys",         "local.binds",
                                     "curve.public_key", "curve.secret_key", "curve.broker_key",
                                     "curve.allowed"};
#define OTHER_COUNT (sizeof(others) / sizeof(others[0]))

static const char *path_at(size_t i)
{
    return i < ROW_COUNT ? rows[i].path : others[i - ROW_COUNT];
}

static const struct cfg_node *node_at(const struct cfg_node *own, const char *path)
{
    const char *dot = strchr(path, '.');
    char head[32];

    if (dot == NULL) {
        return cfg_node_get(own, path);
    }
    (void)snprintf(head, sizeof(head), "%.*s", (int)(dot - path), path);
    return cfg_node_get(cfg_node_get(own, head), dot + 1);
}

/* Levenshtein distance, both cut to 63 bytes. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[64];
    unsigned n = (unsigned)strnlen(b, 63);

    for (unsigned j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (unsigned i = 0; a[i] != '\0' && i < 63; i++) {
        unsigned diagonal = row[0];

        row[0] = i + 1;
        for (unsigned j = 1; j <= n; j++) {
            unsigned change = diagonal + (a[i] == b[j - 1] ? 0 : 1);
            unsigned smaller = row[j - 1] < row[j] ? row[j - 1] : row[j];

            diagonal = row[j];
            row[j] = change < smaller + 1 ? change : smaller + 1;
        }
    }
    return row[n];
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL ? dot + 1 : path;
}

/* Whether two paths have the same part before the first dot. */
static bool is_same_group(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");

    return strcspn(b, ".") == n && strncmp(a, b, n) == 0;
}

/* How far `path` is from what was given, in half edits; `*ret_len`: how much of the path is meant.
 */
static unsigned half_edits(const char *given, const char *path, size_t *ret_len)
{
    unsigned best = distance(given, path) * 2;
    size_t group = strcspn(path, ".");
    char head[64];

    *ret_len = strlen(path);
    if (strchr(given, '.') == NULL && path[group] == '.') {
        (void)snprintf(head, sizeof(head), "%.*s", (int)group, path);
        if (distance(given, head) * 2 < best) { /* a group's name is misspelt */
            best = distance(given, head) * 2;
            *ret_len = group;
        }
    }
    unsigned tail = distance(last_part(given), last_part(path));

    if (tail <= 1 && !is_same_group(given, path) &&
        tail * 2 + 1 < best) { /* right key, wrong place */
        best = tail * 2 + 1;
        *ret_len = strlen(path);
    }
    return best;
}

static void nearest(const char *given, char *dst, size_t cap)
{
    unsigned best = UINT32_MAX;

    for (size_t i = 0; i < ROW_COUNT + OTHER_COUNT; i++) {
        size_t len = 0;
        unsigned d = half_edits(given, path_at(i), &len);

        /* inside a known group, its own keys are meant more often than others that look alike */
        d += strchr(given, '.') != NULL && !is_same_group(given, path_at(i)) && d != 1 ? 8 : 0;
        if (d < best) {
            best = d;
            (void)snprintf(dst, cap, "%.*s", (int)len, path_at(i));
        }
    }
}

static bool is_group(const char *key)
{
    size_t n = strlen(key);

    for (size_t i = 0; i < ROW_COUNT + OTHER_COUNT; i++) {
        if (strncmp(path_at(i), key, n) == 0 && path_at(i)[n] == '.') {
            return true;
        }
    }
    return false;
}

static bool is_path(const char *path)
{
    for (size_t i = 0; i < ROW_COUNT + OTHER_COUNT; i++) {
        if (strcmp(path_at(i), path) == 0) {
            return true;
        }
    }
    return false;
}

static int refuse(struct cfg_load *l, const struct cfg_node *n, const char *path)
{
    char best[64] = "";

    nearest(path, best, sizeof(best));
    return cfg_fail(l, n, "unknown key; did you mean cofferdam.%s?", best);
}

static int check_keys(struct cfg_load *l, const struct cfg_node *own)
{
    char path[2 * CFG_YAML_KEY_MAX + 2];

    for (const struct cfg_node *n = own->first; n != NULL; n = n->next) {
        if (is_path(n->key)) {
            continue;
        }
        if (!is_group(n->key)) {
            return refuse(l, n, n->key);
        }
        if (n->kind != CFG_NODE_MAP && !cfg_node_is_null(n)) {
            return cfg_fail(l, n, "must be a map; indent its keys below it");
        }
        for (const struct cfg_node *c = n->first; c != NULL; c = c->next) {
            (void)snprintf(path, sizeof(path), "%s.%s", n->key, c->key);
            if (!is_path(path)) {
                return refuse(l, c, path);
            }
        }
    }
    return 0;
}

static bool is_size(const struct row *r)
{
    size_t n = strlen(r->member);

    return n > 6 && strcmp(r->member + n - 6, "_bytes") == 0;
}

static int load_str(struct cfg_load *l, const struct row *r, const struct cfg_node *n, char **slot)
{
    size_t len;
    int rc;

    if (n == NULL) {
        *slot = mem_strdup(r->def_str);
        return *slot != NULL ? 0 : cfg_nomem(l);
    }
    if ((rc = cfg_str_of(l, n, CFG_ROLES_ALL, slot)) != 0) {
        return rc;
    }
    len = strlen(*slot);
    if (len < r->lo || len > r->hi) {
        return cfg_fail(l, n, "must have %llu to %llu bytes, not %zu; %s",
                        (unsigned long long)r->lo, (unsigned long long)r->hi, len,
                        len < r->lo ? "fill it in or remove the key" : "shorten it");
    }
    return 0;
}

static int load_row(struct cfg_load *l, const struct row *r, const struct cfg_node *own)
{
    const struct cfg_node *n = node_at(own, r->path);
    void *slot = (char *)l->c + r->offset;
    const char *dot = strchr(r->path, '.');

    switch (r->type) {
    case ROW_STR:
        return load_str(l, r, n, slot);
    case ROW_NUM:
        *(uint64_t *)slot = r->def_num;
        return n != NULL ? cfg_u64_of(l, n, r->lo, r->hi, is_size(r), slot) : 0;
    case ROW_BOOL:
        *(bool *)slot = r->def_num != 0;
        return n != NULL ? cfg_get_bool(l, n->parent, dot != NULL ? dot + 1 : r->path, slot) : 0;
    }
    return ERR_INTERNAL;
}

/* --- rules between values
 * ------------------------------------------------------------------------------------- */

static int fail_path(struct cfg_load *l, const struct cfg_node *own, const char *path,
                     const char *why)
{
    const struct cfg_node *n = node_at(own, path);

    if (n != NULL) {
        return cfg_fail(l, n, "%s", why);
    }
    return own->parent != NULL
               ? cfg_fail_key(l, own, path, "%s", why)
               : err_set_param(l->e, ERR_CONFIG, path, "%s: cofferdam.%s: %s", l->file, path, why);
}

static bool is_loopback(const char *listen)
{
    char host[64];
    uint16_t port = 0;

    return cfg_split_listen(listen, host, sizeof(host), &port) == 0 &&
           (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0);
}

static bool is_word(const char *s, const char *const *words)
{
    while (*words != NULL && strcmp(s, *words) != 0) {
        words++;
    }
    return *words != NULL;
}

static int check_listen(struct cfg_load *l, const struct cfg_node *own)
{
    static const char *const bad = "must be HOST:PORT with an IP address or localhost; write e.g. "
                                   "127.0.0.1:4000 or [::1]:4000";
    struct cfg *c = l->c;
    char host[64];
    uint16_t port = 0;

    if (cfg_split_listen(c->listen, host, sizeof(host), &port) != 0) {
        return fail_path(l, own, "listen", bad);
    }
    if (c->admin_listen[0] != '\0' &&
        cfg_split_listen(c->admin_listen, host, sizeof(host), &port) != 0) {
        return fail_path(l, own, "admin_listen", bad);
    }
    if (port != 0 && strcmp(c->listen, c->admin_listen) == 0) {
        return fail_path(l, own, "admin_listen",
                         "is the same address as listen; choose another port");
    }
    c->allow_anonymous = c->allow_anonymous_key || c->api_key_count == 0;
    if (c->api_key_count == 0 && !c->allow_anonymous_key && !is_loopback(c->listen)) {
        return fail_path(
            l, own, "listen",
            "is reachable from other hosts and no API key is configured; add cofferdam.api_keys or "
            "general_settings.master_key, listen on 127.0.0.1, or set cofferdam.allow_anonymous: "
            "true");
    }
    return 0;
}

static bool is_name(const char *s, const char *extra)
{
    for (; *s != '\0'; s++) {
        bool is_alnum =
            (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');

        if (!is_alnum && strchr(extra, *s) == NULL) {
            return false;
        }
    }
    return true;
}

static int check_words(struct cfg_load *l, const struct cfg_node *own)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const on_stop[] = {"keep", "delete", NULL};
    static const char *const credentials[] = {"authorization", "cookie", "x-api-key",
                                              "x-litellm-api-key", NULL};
    const struct cfg *c = l->c;

    if (!is_word(c->log_level, levels)) {
        return fail_path(l, own, "log_level", "must be debug, info, warn or error; choose one");
    }
    if (!is_word(c->sessions_on_stop, on_stop)) {
        return fail_path(l, own, "sessions.on_stop", "must be keep or delete; choose one");
    }
    if (strcmp(c->local_network, "none") != 0) {
        return fail_path(l, own, "local.network",
                         "must be none: local sandboxes have no network; remove the key");
    }
    if (!is_name(c->ci_tool_name, "_-")) {
        return fail_path(l, own, "code_interpreter.tool_name",
                         "may hold only letters, digits, _ and -; rename the function");
    }
    if (!is_name(c->session_header, "-_")) {
        return fail_path(l, own, "session_header",
                         "must be a header name of letters, digits, - and _; correct it");
    }
    for (size_t i = 0; credentials[i] != NULL; i++) {
        if (sv_eq_nocase(sv_of(c->session_header), sv_of(credentials[i]))) {
            return fail_path(l, own, "session_header",
                             "must not be a header that carries credentials; choose another");
        }
    }
    if (c->run_dir[0] != '/') {
        return fail_path(l, own, "run_dir", "must be an absolute path; start it with /");
    }
    if (c->state_dir[0] != '/') {
        return fail_path(l, own, "state_dir", "must be an absolute path; start it with /");
    }
    if (c->local_root[0] != '\0' && c->local_root[0] != '/') {
        return fail_path(l, own, "local.root", "must be an absolute path; start it with /");
    }
    return 0;
}

static bool is_endpoint(const char *s)
{
    if (strncmp(s, "ipc://", 6) == 0) {
        return s[6] == '/' && strlen(s) < 100;
    }
    const char *colon = strrchr(s, ':');

    return strncmp(s, "tcp://", 6) == 0 && colon != NULL && colon > s + 6 && colon[1] != '\0' &&
           strlen(s) < 250;
}

static bool is_remote(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0 && strncmp(endpoint + 6, "127.", 4) != 0 &&
           strncmp(endpoint + 6, "[::1]:", 6) != 0 && strncmp(endpoint + 6, "localhost:", 10) != 0;
}

static int check_endpoints(struct cfg_load *l, const struct cfg_node *own)
{
    static const char *const no_curve =
        "carries requests between hosts and needs cofferdam.curve; make keys with "
        "cofferdam curve-keygen";
    struct cfg *c = l->c;
    bool has_curve = node_at(own, "curve.public_key") != NULL;
    const char *const listens[][2] = {{"broker_listen", c->broker_listen},
                                      {"return_listen", c->return_listen}};
    char def[128];

    for (size_t i = 0; i < 2; i++) {
        const char *v = listens[i][1];

        if (v[0] != '\0' && (strncmp(v, "tcp://", 6) != 0 || !is_endpoint(v))) {
            return fail_path(l, own, listens[i][0],
                             "must be tcp://HOST:PORT; correct it or leave it empty");
        }
        if (is_remote(v) && !has_curve) {
            return fail_path(l, own, listens[i][0], no_curve);
        }
    }
    for (char **b = c->brokers; b != NULL && *b != NULL; b++) {
        if (!is_endpoint(*b)) {
            return fail_path(l, own, "brokers",
                             "entries must be ipc:///PATH or tcp://HOST:PORT; correct them");
        }
        if (is_remote(*b) && !has_curve) {
            return fail_path(l, own, "brokers", no_curve);
        }
    }
    if (c->brokers != NULL && c->brokers[0] != NULL) {
        return 0;
    }
    cfg_names_free(c->brokers);
    (void)snprintf(def, sizeof(def), "ipc://%s/broker.sock", c->run_dir);
    if ((c->brokers = mem_calloc(2, sizeof(*c->brokers))) == NULL ||
        (c->brokers[0] = mem_strdup(def)) == NULL) {
        return cfg_nomem(l);
    }
    return 0;
}

static int check_binds(struct cfg_load *l, const struct cfg_node *own)
{
    for (char **b = l->c->local_binds; b != NULL && *b != NULL; b++) {
        if ((*b)[0] != '/' || strstr(*b, "/../") != NULL || strchr(*b, ':') != NULL) {
            return fail_path(l, own, "local.binds",
                             "entries must be absolute paths without .. and :; correct them");
        }
    }
    return 0;
}

int cfg_load_own(struct cfg_load *l, const struct cfg_node *root)
{
    static const struct cfg_node empty = {.kind = CFG_NODE_MAP};
    const struct cfg_node *own = NULL;
    int rc = cfg_get_map(l, root, "cofferdam", &own);

    if (rc != 0) {
        return rc;
    }
    own = own != NULL ? own : &empty;
    if ((rc = check_keys(l, own)) != 0) {
        return rc;
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if ((rc = load_row(l, &rows[i], own)) != 0) {
            return rc;
        }
    }
    const struct cfg_node *local = cfg_node_get(own, "local");

    if ((rc = cfg_get_strs(l, own, "brokers", CFG_ROLES_ALL, &l->c->brokers)) != 0 ||
        (rc = cfg_get_strs(l, local, "binds", CFG_ROLES_ALL, &l->c->local_binds)) != 0 ||
        (rc = cfg_load_curve(l, own)) != 0 || (rc = cfg_load_keys(l, root, own)) != 0 ||
        (rc = check_listen(l, own)) != 0 || (rc = check_words(l, own)) != 0 ||
        (rc = check_endpoints(l, own)) != 0) {
        return rc;
    }
    return check_binds(l, own);
}
