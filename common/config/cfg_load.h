/* cfg_load.h - inside common/config only: the state of one load and the typed getters that every
 * section uses.
 *
 * Errors: each getter reports "FILE:LINE: KEY: problem; remedy" in l->e and returns ERR_CONFIG; an
 * absent or null entry is no error and leaves *ret as it is. Strings and secrets resolve
 * os.environ/NAME when the role is in `roles`; otherwise references and secrets stay NULL. */
#ifndef CFD_CONFIG_CFG_LOAD_H
#define CFD_CONFIG_CFG_LOAD_H

#include "base/map.h"
#include "config/cfg.h"
#include "config/cfg_yaml.h"

#define CFG_ROLES_FE (1U << CFG_FOR_FRONTEND)
#define CFG_ROLES_WK (1U << CFG_FOR_WORKER)
#define CFG_ROLES_SB (1U << CFG_FOR_SANDBOXD)
#define CFG_ROLES_ALL                                                                              \
    ((1U << CFG_FOR_CTL) | CFG_ROLES_FE | (1U << CFG_FOR_BROKER) | CFG_ROLES_WK | CFG_ROLES_SB)
#define CFG_ROLES_DAEMONS (CFG_ROLES_ALL & ~(1U << CFG_FOR_CTL))

#define CFG_ENTRIES_MAX 10000U /* deployments, tools, keys: each */
#define CFG_STRINGS_MAX 1000U  /* entries of one list of strings */

struct cfg_load {
    struct cfg *c;    /* owned by cfg_load() */
    const char *file; /* borrowed */
    enum cfg_role role;
    cfg_notice_cb notice; /* may be NULL */
    void *notice_ctx;
    struct err *e;
    const struct cfg_node *env; /* environment_variables, may be NULL */
    struct map
        *env_used; /* names taken from the process environment; values are the keys' own marker */
    struct bytes ignored; /* list of keys without a meaning here */
    unsigned ignored_line;
};

/* cfg_get.c */
int cfg_fail(struct cfg_load *l, const struct cfg_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* As cfg_fail for a key that `map` lacks. */
int cfg_fail_key(struct cfg_load *l, const struct cfg_node *map, const char *key, const char *fmt,
                 ...) __attribute__((format(printf, 4, 5)));
void cfg_note(struct cfg_load *l, const struct cfg_node *at, const char *why);
/* Remembers every key of `map` that is not in the NULL-terminated list `known`. */
void cfg_ignore_others(struct cfg_load *l, const struct cfg_node *map, const char *const *known);
void cfg_ignore(struct cfg_load *l, const struct cfg_node *entry);
bool cfg_is_role(const struct cfg_load *l, unsigned roles);
/* Value of a scalar: itself, or what os.environ/NAME names; borrowed. ERR_NOT_FOUND: a reference
 * not for this role. */
int cfg_resolve(struct cfg_load *l, const struct cfg_node *n, unsigned roles, struct str_view *ret);
/* Variable of environment_variables or of the process; NULL view when unset or empty. Recorded as
 * used. */
struct str_view cfg_env(struct cfg_load *l, const char *name);
int cfg_get_map(struct cfg_load *l, const struct cfg_node *map, const char *key,
                const struct cfg_node **ret);
int cfg_get_seq(struct cfg_load *l, const struct cfg_node *map, const char *key,
                const struct cfg_node **ret);
int cfg_str_of(struct cfg_load *l, const struct cfg_node *n, unsigned roles, char **ret);
int cfg_get_str(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                char **ret);
int cfg_get_secret(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                   struct secret **ret);
int cfg_get_strs(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                 char ***ret);
int cfg_get_bool(struct cfg_load *l, const struct cfg_node *map, const char *key, bool *ret);
/* Whole numbers, floats without a fraction, numeric strings; with `has_unit` also k, m, g (powers
 * of 1024). */
int cfg_u64_of(struct cfg_load *l, const struct cfg_node *n, uint64_t lo, uint64_t hi,
               bool has_unit, uint64_t *ret);
int cfg_get_uint(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned lo,
                 unsigned hi, unsigned *ret);
/* Seconds, fractions allowed, to milliseconds; 1 ms to 24 h. */
int cfg_get_seconds(struct cfg_load *l, const struct cfg_node *map, const char *key,
                    unsigned *ret_ms);
/* The subtree as JSON. `all_strings`: a flat map of strings (metadata, environment). */
int cfg_get_json(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                 bool all_strings, char **ret);
/* http or https URL; trailing slashes are cut. */
int cfg_get_url(struct cfg_load *l, const struct cfg_node *map, const char *key, unsigned roles,
                char **ret);
int cfg_nomem(struct cfg_load *l);

/* cfg_models.c, cfg_tools.c, cfg_own.c: one top-level section each */
int cfg_load_models(struct cfg_load *l, const struct cfg_node *root);
int cfg_load_tools(struct cfg_load *l, const struct cfg_node *root);
int cfg_load_litellm(struct cfg_load *l, const struct cfg_node *root);
int cfg_load_own(struct cfg_load *l, const struct cfg_node *root);
void cfg_deployment_fini(struct cfg_deployment *d);
void cfg_tool_fini(struct cfg_sandbox_tool *t);

#endif
