/* cfg_yaml.h - a YAML file as a bounded tree of nodes. The only place that knows libyaml
 * (cfg_yaml.c).
 *
 * Threads:  any; trees are not shared.
 * Lifetime: cfg_node_free frees and wipes a whole tree; every node is owned by its parent.
 * Errors:   ERR_CONFIG with "FILE:LINE: problem; remedy"; on error nothing was made.
 * Bounds:   CFG_YAML_* below; aliases are expanded by copying and count against the same bounds, so
 * an exponential file ends with an error. Duplicate keys, keys that are not scalars, foreign tags,
 * NUL bytes and a second document are errors. Merge keys (<<) work. */
#ifndef CFD_CONFIG_CFG_YAML_H
#define CFD_CONFIG_CFG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define CFG_YAML_FILE_MAX  1048576U
#define CFG_YAML_DEPTH_MAX 32U
#define CFG_YAML_NODES_MAX 50000U
#define CFG_YAML_TEXT_MAX  4194304U /* all scalars after expansion */
#define CFG_YAML_KEYS_MAX  2000U    /* of one map */
#define CFG_YAML_KEY_MAX   256U     /* bytes of one key */

enum cfg_node_kind { CFG_NODE_SCALAR, CFG_NODE_MAP, CFG_NODE_SEQ };

struct cfg_node {
    enum cfg_node_kind kind;
    bool is_plain; /* scalar written without quotes: null, numbers and booleans mean themselves */
    unsigned line;
    unsigned index; /* position in a sequence */
    unsigned count; /* children */
    char *key;      /* owned; of a map entry, else NULL */
    char *text;     /* owned; of a scalar, else NULL */
    size_t len;
    struct cfg_node *parent; /* borrowed; NULL for the root */
    struct cfg_node *first;  /* owned children, in file order */
    struct cfg_node *last;
    struct cfg_node *next;
    struct cfg_node *hidden; /* owned; the sources of merge keys */
};

/* Parses one document whose root is a map (an empty file is an empty map). `file` is for messages.
 */
int cfg_yaml_parse(struct cfg_node **ret, const char *file, struct str_view text, struct err *e);
void cfg_node_free(struct cfg_node *n); /* accepts NULL */

/* The entry of a map, or NULL when absent or null; `map` may be NULL. */
const struct cfg_node *cfg_node_get(const struct cfg_node *map, const char *key);
bool cfg_node_is_null(const struct cfg_node *n); /* plain empty, ~, null; NULL too */
/* 1 true, 0 false, -1 neither. Plain YAML 1.1 words; quoted "true" and "false" too. */
int cfg_node_bool(const struct cfg_node *n);
/* "a.b[2].c" from the root; cut to cap. */
void cfg_node_path(const struct cfg_node *n, char *dst, size_t cap);

#endif
