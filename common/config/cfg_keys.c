#include "config/cfg_keys.h"

#include "base/mem.h"

#define Z85_CHARS                                                                                  \
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

struct seen {
    struct map *names;
    struct map *tenants;
};

/* Hashes the key; only frontends know it. */
static int hash_key(struct cfg_load *l, const struct cfg_node *n, struct cfg_api_key *k)
{
    struct str_view v;
    int rc;

    if (!cfg_is_role(l, CFG_ROLES_FE)) {
        return 0;
    }
    if ((rc = cfg_resolve(l, n, CFG_ROLES_FE, &v)) != 0) {
        return rc;
    }
    if (v.n == 0 || v.n > 512) {
        return cfg_fail(l, n, "must have 1 to 512 bytes; correct it or remove the entry");
    }
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] <= ' ' || v.p[i] == 0x7f) {
            return cfg_fail(l, n, "holds a space or control character; check for a stray line end");
        }
    }
    id_sha256(k->tenant.b, v.p, v.n);
    return 0;
}

static int put_key(struct cfg_load *l, const struct cfg_node *at, struct seen *seen,
                   struct cfg_api_key *k)
{
    struct str_view tenant = sv_from(k->tenant.b, sizeof(k->tenant.b));

    if (map_get(seen->names, sv_of(k->name)) != NULL) {
        return cfg_fail(l, at, "a key named \"%.64s\" is already there; choose another name",
                        k->name);
    }
    if (map_put(seen->names, sv_of(k->name), k) != 0) {
        return cfg_nomem(l);
    }
    if (!cfg_is_role(l, CFG_ROLES_FE)) {
        return 0;
    }
    if (map_get(seen->tenants, tenant) != NULL) {
        return cfg_fail(l, at, "is the same key as that of another entry; make a new one");
    }
    return map_put(seen->tenants, tenant, k) == 0 ? 0 : cfg_nomem(l);
}

static bool is_key_name(struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("._-@", c) != NULL)) {
            return false;
        }
    }
    return s.n > 0 && s.n <= 64;
}

static int load_entry(struct cfg_load *l, const struct cfg_node *entry, struct seen *seen,
                      struct cfg_api_key *k)
{
    static const char *const known[] = {"name", "key", "max_sessions", "rpm", "max_parallel", NULL};
    const struct cfg_node *name = cfg_node_get(entry, "name");
    const struct cfg_node *key = cfg_node_get(entry, "key");
    int rc;

    if (entry->kind != CFG_NODE_MAP) {
        return cfg_fail(
            l, entry,
            "must be a map with name and key; write {name: NAME, key: os.environ/VARIABLE}");
    }
    for (const struct cfg_node *c = entry->first; c != NULL; c = c->next) {
        const char *const *w = known;

        while (*w != NULL && strcmp(*w, c->key) != 0) {
            w++;
        }
        if (*w == NULL) {
            return cfg_fail(
                l, c, "unknown key; an entry has name, key, max_sessions, rpm and max_parallel");
        }
    }
    if (name == NULL) {
        return cfg_fail_key(l, entry, "name",
                            "is missing; give the key a name for logs and metrics");
    }
    if (key == NULL) {
        return cfg_fail_key(l, entry, "key", "is missing; write key: os.environ/VARIABLE");
    }
    if ((rc = cfg_str_of(l, name, CFG_ROLES_DAEMONS, &k->name)) != 0) {
        return rc;
    }
    if (k->name == NULL && (k->name = mem_strdup("?")) == NULL) {
        return cfg_nomem(l);
    }
    if (k->name[0] != '?' && !is_key_name(sv_of(k->name))) {
        return cfg_fail(
            l, name,
            "must have 1 to 64 letters, digits, dots, dashes, underscores or @; rename it");
    }
    if ((rc = cfg_get_uint(l, entry, "max_sessions", 0, 10000, &k->max_sessions)) != 0 ||
        (rc = cfg_get_uint(l, entry, "rpm", 0, 10000000, &k->rpm)) != 0 ||
        (rc = cfg_get_uint(l, entry, "max_parallel", 0, 1000000, &k->max_parallel)) != 0 ||
        (rc = hash_key(l, key, k)) != 0) {
        return rc;
    }
    return put_key(l, key, seen, k);
}

static int load_master(struct cfg_load *l, const struct cfg_node *n, struct seen *seen)
{
    struct cfg_api_key *k = &l->c->api_keys[l->c->api_key_count++];
    int rc;

    if ((k->name = mem_strdup("master")) == NULL) {
        return cfg_nomem(l);
    }
    if (n->kind == CFG_NODE_SCALAR && n->len == 0) {
        return cfg_fail(l, n, "is empty; write os.environ/LITELLM_MASTER_KEY or remove the key");
    }
    if ((rc = hash_key(l, n, k)) != 0) {
        return rc;
    }
    return put_key(l, n, seen, k);
}

int cfg_load_keys(struct cfg_load *l, const struct cfg_node *root, const struct cfg_node *own)
{
    const struct cfg_node *master =
        cfg_node_get(cfg_node_get(root, "general_settings"), "master_key");
    const struct cfg_node *list = NULL;
    struct cfg *c = l->c;
    struct seen seen = {NULL, NULL};
    int rc = cfg_get_seq(l, own, "api_keys", &list);

    if (rc != 0) {
        return rc;
    }
    if (list != NULL && list->count > CFG_ENTRIES_MAX) {
        return cfg_fail(l, list, "has more than 10000 entries; shorten it");
    }
    size_t count = (list != NULL ? (size_t)list->count : 0) + 1;

    c->api_keys = mem_calloc(count, sizeof(*c->api_keys));
    seen.names = map_new(count);
    seen.tenants = map_new(count);
    if (c->api_keys == NULL || seen.names == NULL || seen.tenants == NULL) {
        rc = cfg_nomem(l);
    }
    if (rc == 0 && master != NULL) {
        rc = load_master(l, master, &seen);
    }
    for (const struct cfg_node *n = list != NULL ? list->first : NULL; n != NULL && rc == 0;
         n = n->next) {
        rc = load_entry(l, n, &seen, &c->api_keys[c->api_key_count++]);
    }
    map_free(seen.names);
    map_free(seen.tenants);
    return rc;
}

static int check_z85(struct cfg_load *l, const struct cfg_node *n, struct str_view v)
{
    size_t i = 0;

    while (i < v.n && memchr(Z85_CHARS, v.p[i], sizeof(Z85_CHARS) - 1) != NULL) {
        i++;
    }
    if (v.n != 40 || i != 40) {
        return cfg_fail(
            l, n,
            "must be 40 characters of Z85; make a pair with cofferdam curve-keygen and quote it");
    }
    return 0;
}

static int load_public(struct cfg_load *l, const struct cfg_node *curve, const char *key,
                       char **ret)
{
    int rc = cfg_get_str(l, curve, key, CFG_ROLES_DAEMONS, ret);

    if (rc == 0 && *ret != NULL) {
        rc = check_z85(l, cfg_node_get(curve, key), sv_of(*ret));
    }
    return rc;
}

void cfg_curve_fini(struct cfg_curve *c)
{
    mem_free(c->public_key);
    secret_free(c->secret_key);
    mem_free(c->broker_key);
    cfg_names_free(c->allowed);
    memset(c, 0, sizeof(*c));
}

int cfg_load_curve(struct cfg_load *l, const struct cfg_node *own)
{
    static const char *const required[] = {"public_key", "secret_key", "broker_key", NULL};
    const struct cfg_node *curve = cfg_node_get(own, "curve");
    struct cfg_curve *c = &l->c->curve;
    int rc;

    if (curve == NULL) {
        return 0;
    }
    for (size_t i = 0; required[i] != NULL; i++) {
        if (cfg_node_get(curve, required[i]) == NULL) {
            return cfg_fail_key(l, curve, required[i],
                                "is missing; curve needs public_key, secret_key and broker_key");
        }
    }
    if ((rc = load_public(l, curve, "public_key", &c->public_key)) != 0 ||
        (rc = load_public(l, curve, "broker_key", &c->broker_key)) != 0 ||
        (rc = cfg_get_secret(l, curve, "secret_key", CFG_ROLES_DAEMONS, &c->secret_key)) != 0 ||
        (rc = cfg_get_strs(l, curve, "allowed", CFG_ROLES_DAEMONS, &c->allowed)) != 0) {
        return rc;
    }
    if (c->secret_key != NULL &&
        (rc = check_z85(l, cfg_node_get(curve, "secret_key"), secret_view(c->secret_key))) != 0) {
        return rc;
    }
    for (char **a = c->allowed; a != NULL && *a != NULL; a++) {
        if ((*a)[0] != '\0' &&
            (rc = check_z85(l, cfg_node_get(curve, "allowed"), sv_of(*a))) != 0) {
            return rc;
        }
    }
    return 0;
}
