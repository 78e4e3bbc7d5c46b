/* zg_seccomp.h - the system call filter of sandboxes. Compiled once in the zygote (libseccomp),
 * loaded in each child with one system call. Calls with no use in a sandbox fail with EPERM (clone3
 * with ENOSYS, so that libc falls back to clone, whose flags can be checked); a call of a foreign
 * architecture kills. */
#ifndef CFD_SANDBOXD_ZG_SECCOMP_H
#define CFD_SANDBOXD_ZG_SECCOMP_H

#include <linux/filter.h>

#include "zg_util.h"

struct zg_seccomp {
    struct sock_filter *prog; /* owned for the life of the process */
    unsigned short count;
};

int zg_seccomp_build(struct zg_seccomp *ret, struct zg_err *e);
/* In the child, after no_new_privs. 0 or -1 with errno. Allocates nothing. */
int zg_seccomp_load(const struct zg_seccomp *s);

#endif
