/* zg_seccomp.h - the system call filter of sandboxes: an allow-list (zg_seccomp_table.h). Compiled
 * once in the zygote (libseccomp), loaded in each child with one system call. What is not listed
 * does not exist (ENOSYS), what is known but useless is refused (EPERM), what only a break-out
 * wants kills the process, and so does a call of a foreign architecture.
 *
 * Test mode (--seccomp-trace): every call that would be refused or kill is refused, and a line on
 * descriptor 2 names it. For finding out what a library misses; not for strangers' code, which
 * could take the handler away.
 *
 * Lifetime: once per process. Errors: text. */
#ifndef CFD_SANDBOXD_ZG_SECCOMP_H
#define CFD_SANDBOXD_ZG_SECCOMP_H

#include <linux/filter.h>

#include "zg_util.h"

struct zg_seccomp {
    struct sock_filter *prog; /* owned for the life of the process */
    unsigned short count;
};

int zg_seccomp_build(struct zg_seccomp *ret, bool is_trace, struct zg_err *e);
/* In the child, after no_new_privs. 0 or -1 with errno. Allocates nothing. */
int zg_seccomp_load(const struct zg_seccomp *s);

#endif
