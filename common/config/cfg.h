/* cfg.h - the validated configuration: one immutable, reference-counted snapshot.
 *
 * Threads:  loop thread only. Lifetime: cfg_load gives one reference; jobs hold their own while
 * they run, so that a reload never changes a running job. All pointers inside are owned by the
 * snapshot. Errors:   one struct err whose text is "FILE:LINE: KEY: problem; remedy" for the first
 * fatal problem; notices (ignored or skipped things) go to a callback. Secrets:  a role only gets
 * the secrets it needs (CFG_FOR_*): sandboxd no model or client key, frontend no provider key,
 * broker none. Others are NULL. Client keys exist only as their SHA-256. Roles:    os.environ/NAME
 * is resolved only where the role needs the value; elsewhere it may be unset and the string is
 *           NULL. `cofferdam:` scalars are needed by every role. CFG_FOR_CTL needs nothing else, so
 * `status` works without the daemons' environment; `check` and `up` load the file once for each
 * role. For roles other than FRONTEND the tenants of api_keys are all zero and match nothing. */
#ifndef CFD_CONFIG_CFG_H
#define CFD_CONFIG_CFG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/secret.h"

enum cfg_role { CFG_FOR_CTL, CFG_FOR_FRONTEND, CFG_FOR_BROKER, CFG_FOR_WORKER, CFG_FOR_SANDBOXD };

/* One entry of model_list. */
struct cfg_deployment {
    char *model_name;   /* the public group; "*" and a name ending in "*" are wildcards */
    char *provider;     /* "openai", ... : the part of litellm_params.model before the first '/',
                           default openai */
    char *model;        /* the rest: what the provider is sent; "*" = what the client sent */
    char *api_base;     /* without trailing '/'; default by provider */
    char *organization; /* may be NULL */
    struct secret *api_key; /* NULL = none (or not for this role) */
    char **headers; /* extra "Name: value" (litellm_params.extra_headers), NULL-terminated; may be
                       NULL */
    char *ca_file;  /* may be NULL */
    unsigned timeout_ms; /* whole call; 0 = default */
    unsigned stream_timeout_ms;
    int max_retries; /* -1 = default */
    unsigned weight; /* >= 1 */
    unsigned order;  /* lower first */
    unsigned
        rounds_max; /* litellm_params.max_agentic_loops; 0 = code_interpreter.max_agentic_loops */
};

struct cfg_sandbox_tool {
    char *name;
    char *provider;         /* local, e2b, opensandbox */
    struct secret *api_key; /* NULL = none */
    char *api_base;
    char *domain;
    char *sandbox_url;
    char *template_id;
    unsigned timeout_s;        /* lifetime; 0 = provider default */
    int allow_internet_access; /* -1 = provider default, 0, 1 */
    char *network_policy_json; /* as given, converted to JSON; may be NULL */
    char *resource_limits_json;
    char *metadata_json;
    char *env_vars_json;
    unsigned request_timeout_ms; /* control calls; default 60000 */
};

/* One entry of cofferdam.api_keys, and the master key (name "master"). */
struct cfg_api_key {
    char *name;
    struct tenant_id tenant; /* SHA-256 of the key */
    unsigned max_sessions;   /* 0 = sessions.per_key */
    unsigned rpm;            /* requests per minute, 0 = no limit */
    unsigned max_parallel;   /* requests at once, 0 = no limit */
};

struct cfg_curve {
    char *public_key; /* Z85; own */
    struct secret *secret_key;
    char *broker_key; /* the broker's public key */
    char **allowed;   /* peers' public keys, NULL-terminated */
};

struct cfg {
    unsigned refs;
    char *file;
    uint64_t generation; /* counts what took effect in this process (cfg_log.h); 0 = not yet */

    struct cfg_deployment *deployments;
    unsigned deployment_count;
    char *
        *model_names; /* distinct public groups without wildcards, in file order, NULL-terminated */
    struct cfg_sandbox_tool *sandbox_tools; /* the implicit `local` tool is always there, last */
    unsigned sandbox_tool_count;
    struct cfg_api_key *api_keys;
    unsigned api_key_count;
    bool allow_anonymous; /* a request without a key is served: no key is configured, or
                             cofferdam.allow_anonymous */

    /* litellm_settings */
    bool interception_enabled;
    char **interception_providers; /* NULL = all; NULL-terminated */
    char *interception_tool;       /* sandbox tool name */
    int num_retries;               /* default 2 */
    unsigned request_timeout_ms;   /* default 600000 */

    /* cofferdam: scalars come from cfg_table.h (name, type, default, bounds, doc) */
#define CFG_CTYPE_str                           char *
#define CFG_CTYPE_num                           uint64_t
#define CFG_CTYPE_bool                          bool
#define X(path, type, member, def, lo, hi, doc) CFG_CTYPE_##type member;
#include "config/cfg_table.h"
    CFG_TABLE(X)
#undef X

    char **brokers;         /* endpoints, NULL-terminated; default ipc://<run_dir>/broker.sock */
    char **local_binds;     /* extra read-only paths in local sandboxes, NULL-terminated */
    struct cfg_curve curve; /* all NULL when unused */
};

typedef void (*cfg_notice_cb)(void *ctx, unsigned line, const char *key, const char *why);

/* Reads, resolves os.environ/NAME, validates. On success *ret is owned (cfg_unref). */
int cfg_load(struct cfg **ret, const char *file, enum cfg_role role, cfg_notice_cb notice,
             void *ctx, struct err *e);
struct cfg *cfg_ref(struct cfg *c);
void cfg_unref(struct cfg *c); /* accepts NULL */

/* Deployments that serve `model`: exact names first, else the longest wildcard. Fills up to `max`
 * indexes in file order; returns how many. */
unsigned cfg_find_deployments(const struct cfg *c, struct str_view model, unsigned *ret_index,
                              unsigned max);
/* NULL name = the interception tool, else the first configured tool, else local. NULL when unknown.
 */
const struct cfg_sandbox_tool *cfg_find_tool(const struct cfg *c, struct str_view name);
/* Constant time over all keys. NULL = no match; the all-zero (anonymous) tenant never matches. */
const struct cfg_api_key *cfg_find_key(const struct cfg *c, const struct tenant_id *tenant);
bool cfg_has_keys(const struct cfg *c);
/* Names of environment variables that `role` needs from `file` (os.environ/NAME), for the
 * supervisor, which passes only those on. NULL-terminated array owned by the caller, freed with
 * cfg_names_free. */
int cfg_env_names(char ***ret, const char *file, enum cfg_role role, struct err *e);
void cfg_names_free(char **names);
/* Splits "host:port" or "[v6]:port"; the host is an IP address or localhost (given back as
 * 127.0.0.1); the port may be 0. 0 or ERR_INVALID. */
int cfg_split_listen(const char *listen, char *ret_host, size_t host_cap, uint16_t *ret_port);

#endif
