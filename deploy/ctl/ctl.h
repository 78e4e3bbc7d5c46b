/* ctl.h - the `cofferdam` command: what its commands share.
 *
 * Exit codes: 0 success; 1 the thing asked for failed (bad configuration, code raised, no gateway);
 * 2 wrong usage. */
#ifndef CFD_CTL_H
#define CFD_CTL_H

#include <stdbool.h>

#include "config/cfg.h"
#include "ctl_table.h"

#define CTL_DEFAULT_CONFIG "/etc/cofferdam/config.yaml"
#define CTL_PID_FILE       "cofferdam.pid"
#define CTL_CONFIG_COPY    "config.yaml" /* what the daemons read: the last good configuration */
#define CTL_HTTP_ADDR      "http.addr"   /* HOST:PORT really bound */
#define CTL_ADMIN_ADDR     "admin.addr"
#define CTL_RELOAD_RESULT  "reload.result" /* "N ok" or "N reason" */

struct ctl_opts {
    const char *config; /* never NULL */
    bool has_config;    /* --config or COFFERDAM_CONFIG was given */
    bool is_json;
    const char *sandbox; /* may be NULL */
    const char *arg;     /* may be NULL */
};

#define X(name, fn, options, args, usage, doc) int fn(const struct ctl_opts *o);
CTL_TABLE(X)
#undef X

/* Prints "cofferdam: TEXT" on stderr; returns 1. */
int ctl_complain(const struct err *e);
/* The configuration as the command itself needs it; complains on failure. */
int ctl_config(struct cfg **ret, const struct ctl_opts *o);
/* Loads `text` for every role; the first problem is in *e. */
int ctl_validate(const char *file, struct str_view text, cfg_notice_cb notice, void *ctx,
                 struct err *e);
/* Whole file, at most 1 MiB + 1. */
int ctl_read_file(struct bytes *out, const char *path, struct err *e);
/* "http://HOST:PORT" of a listener of the running gateway: `addr_file` in run_dir when it is there,
 * else `listen`. */
int ctl_url(char *dst, size_t cap, const struct cfg *c, const char *addr_file, const char *listen,
            struct err *e);
/* "http://HOST:PORT" of a listen address; the wildcard addresses become loopback ones. */
int ctl_listen_url(char *dst, size_t cap, const char *listen);

#endif
