/* zg_root.h - the world the zygote and all its sandboxes see: namespaces of the zygote itself and
 * one read-only root.
 *
 *   host root                       template root (tmpfs, read-only after zg_root_seal)
 *   /usr /lib ... --ro binds-->     /usr /lib /lib64 /bin /sbin  /etc (a few files)  /dev (five
 * devices) /proc         --bind----->      /proc (covered by an own one in each sandbox) /tmp
 * /mnt/data /dev/shm: empty places that each sandbox mounts its own tmpfs on
 *
 * The zygote moves into it once (pivot_root); a child only copies the mount namespace. Because the
 * child's user namespace is less privileged, the kernel locks these mounts: the child cannot undo
 * or re-mount them.
 *
 * Lifetime: once per process, irreversible. Errors: text with the remedy. */
#ifndef CFD_SANDBOXD_ZG_ROOT_H
#define CFD_SANDBOXD_ZG_ROOT_H

#include "zg_opts.h"
#include "zg_util.h"

/* Host uids (and gids) that sandboxes run as: first ... first+count-1; count 1 = the caller's own
 * for all. */
struct zg_uids {
    unsigned first;
    unsigned count;
};

/* Own namespaces: user (ordinary users only), mount, net, ipc, uts. Fills the uid range. */
int zg_ns_enter(struct zg_uids *ret, struct zg_err *e);
/* Builds the template root and moves into it; still writable, for what imports want to write. */
int zg_root_enter(const struct zg_opts *o, struct zg_err *e);
/* Makes it read-only. */
int zg_root_seal(struct zg_err *e);

#endif
