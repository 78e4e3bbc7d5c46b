/* A configuration subtree as JSON text. */
#include "base/mem.h"
#include "config/cfg_load.h"

static bool is_json_number(struct str_view v)
{
    size_t i = 0;
    size_t from;

    if (i < v.n && v.p[i] == '-') {
        i++;
    }
    from = i;
    while (i < v.n && v.p[i] >= '0' && v.p[i] <= '9') {
        i++;
    }
    if (i == from || (v.p[from] == '0' && i - from > 1)) {
        return false;
    }
    if (i < v.n && v.p[i] == '.') {
        from = ++i;
        while (i < v.n && v.p[i] >= '0' && v.p[i] <= '9') {
            i++;
        }
        if (i == from) {
            return false;
        }
    }
    return i == v.n;
}

static int put(struct cfg_load *l, struct bytes *out, const struct cfg_node *n, unsigned roles,
               bool all_strings);

static int put_scalar(struct cfg_load *l, struct bytes *out, const struct cfg_node *n,
                      unsigned roles, bool all_strings)
{
    struct str_view v;
    int b = cfg_node_bool(n);
    int rc;

    if (!all_strings && cfg_node_is_null(n)) {
        bytes_put_str(out, "null");
        return 0;
    }
    if (!all_strings && n->is_plain && b >= 0) {
        bytes_put_str(out, b == 1 ? "true" : "false");
        return 0;
    }
    if ((rc = cfg_resolve(l, n, roles, &v)) != 0) {
        return rc;
    }
    if (!all_strings && n->is_plain && v.p == n->text && is_json_number(v)) {
        bytes_put_sv(out, v);
    } else {
        bytes_put_json_str(out, v);
    }
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, CFG_YAML_DEPTH_MAX */
static int put_children(struct cfg_load *l, struct bytes *out, const struct cfg_node *n,
                        unsigned roles, bool all_strings)
{
    bool is_map = n->kind == CFG_NODE_MAP;

    bytes_put_char(out, is_map ? '{' : '[');
    for (const struct cfg_node *c = n->first; c != NULL; c = c->next) {
        int rc;

        if (c != n->first) {
            bytes_put_char(out, ',');
        }
        if (is_map) {
            bytes_put_json_str(out, sv_of(c->key));
            bytes_put_char(out, ':');
        }
        if (all_strings && c->kind != CFG_NODE_SCALAR) {
            return cfg_fail(l, c, "must be a string; nested values have no meaning here");
        }
        if ((rc = put(l, out, c, roles, all_strings)) != 0) {
            return rc;
        }
    }
    bytes_put_char(out, is_map ? '}' : ']');
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, CFG_YAML_DEPTH_MAX */
static int put(struct cfg_load *l, struct bytes *out, const struct cfg_node *n, unsigned roles,
               bool all_strings)
{
    return n->kind == CFG_NODE_SCALAR ? put_scalar(l, out, n, roles, all_strings)
                                      : put_children(l, out, n, roles, all_strings);
}

int cfg_get_json(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                 bool all_strings, char **ret)
{
    const struct cfg_node *n = NULL;
    struct bytes out = {0};
    int rc;

    if (!cfg_is_role(l, roles)) {
        return 0;
    }
    if ((rc = cfg_get_map(l, map, key, &n)) != 0 || n == NULL) {
        return rc;
    }
    bytes_init(&out, 262144);
    rc = put(l, &out, n, roles, all_strings);
    if (rc == 0 && out.rc != 0) {
        rc = out.rc == ERR_NOMEM ? cfg_nomem(l)
                                 : cfg_fail(l, n, "is larger than 256 KiB; make it smaller");
    }
    if (rc == 0) {
        mem_free(*ret);
        if ((*ret = mem_strndup(out.p, out.n)) == NULL) {
            rc = cfg_nomem(l);
        }
    }
    bytes_fini(&out);
    return rc;
}
