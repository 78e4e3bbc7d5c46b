/* zg_jail.h - what a freshly cloned child does before it may touch anything from outside: one table
 * of steps, all of them required. Runs between clone and the interpreter's fork handling: no
 * allocation, no locks, no stdio buffers.
 *
 * Errors: the name of the step that failed and why; the child then ends. Never a weaker sandbox. */
#ifndef CFD_SANDBOXD_ZG_JAIL_H
#define CFD_SANDBOXD_ZG_JAIL_H

#include <stdint.h>

#include "zg_opts.h"
#include "zg_seccomp.h"
#include "zg_util.h"

/* Descriptors of a child; everything else is closed. 1 and 2 are the write ends of the pipes. */
#define ZG_FD_STREAM 3 /* to sandboxd */
#define ZG_FD_OUT    4 /* read end of the pipe behind descriptor 1 */
#define ZG_FD_ERR    5 /* read end of the pipe behind descriptor 2 */
#define ZG_FD_WAKE   6 /* eventfd of the output thread */

#define ZG_INSIDE_ID 1000U /* uid and gid inside */

/* What all children share; read-only after start. */
struct zg_jail {
    const struct zg_opts *opts;
    struct zg_seccomp filter;
    int landlock_abi;    /* 0 = the kernel has none */
    uint64_t data_bytes; /* RLIMIT_DATA: the zygote's own data plus the memory limit */
    int life_fd;         /* read end of a pipe whose write end only the zygote holds */
    int life_write_fd;   /* that write end, to be closed in the child */
};

unsigned zg_jail_step_count(void);
const char *zg_jail_step_doc(unsigned i, const char **ret_name);
/* `host_id`: the uid and gid outside. `stream`: the child's end of its socket. 0 or -1. */
int zg_jail_enter(const struct zg_jail *j, unsigned host_id, int stream, struct zg_err *e);

#endif
