/* zg_opts.h - what the zygote is told on its command line: limits and paths, never a secret.
 * Bounds: every number is checked against the same bounds as the configuration key it comes from.
 */
#ifndef CFD_SANDBOXD_ZG_OPTS_H
#define CFD_SANDBOXD_ZG_OPTS_H

#include <stdbool.h>
#include <stdint.h>

#define ZG_BINDS_MAX 64

struct zg_opts {
    bool is_check;                   /* --check */
    bool is_trace;                   /* --seccomp-trace */
    uint64_t memory_bytes;           /* --memory */
    uint64_t disk_bytes;             /* --disk */
    uint64_t pids_max;               /* --pids */
    uint64_t files_max;              /* --files */
    const char *root;                /* --root; NULL = the host's own directories */
    const char *binds[ZG_BINDS_MAX]; /* --bind, extra read-only paths */
    unsigned bind_count;
};

/* 0, or -1 with a line for people in ret_err. Strings are borrowed from argv. */
int zg_opts_parse(struct zg_opts *ret, int argc, char **argv, char *ret_err, unsigned err_cap);

#endif
