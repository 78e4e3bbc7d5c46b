/* zg_cgroup.h - memory, pids and cpu limits per sandbox by control groups: version 2 where
 * delegated, version 1 where the zygote may write (root). Neither = rlimits alone, and READY says
 * so.
 *
 *   <own group>/cofferdam-<pid of the zygote>/<slot>
 *
 * Version 1: writing a pid into cgroup.procs costs an RCU grace period (milliseconds) when the
 * machine is idle. So the zygote moves *itself* into the next sandbox's group beforehand
 * (zg_cgroup_ready, off any critical path) and the child is born there. Version 2: the child is
 * cloned into the group (CLONE_INTO_CGROUP).
 *
 * Lifetime: a slot's group lives from ready/open to drop; the base directory from init to fini. A
 * zygote that starts removes what dead ones left. All paths are reached through descriptors, so
 * they work after pivot_root. Errors:   init never fails, it reports what is there. */
#ifndef CFD_SANDBOXD_ZG_CGROUP_H
#define CFD_SANDBOXD_ZG_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "zg_opts.h"
#include "zg_util.h"

enum zg_cgroup_kind { ZG_CGROUP_MEMORY, ZG_CGROUP_PIDS, ZG_CGROUP_CPU, ZG_CGROUP_KINDS };

struct zg_cgroups {
    int version;               /* 0 = none, 1, 2 */
    int base[ZG_CGROUP_KINDS]; /* directory descriptors, -1 = not available; version 2 uses [MEMORY]
                                  for all */
    bool has[ZG_CGROUP_KINDS];
    char path[ZG_CGROUP_KINDS][PATH_MAX]; /* as the host sees them */
    char why[256];                        /* why something is missing */
    uint64_t limit[ZG_CGROUP_KINDS];
};

void zg_cgroup_init(struct zg_cgroups *g, const struct zg_opts *o);
/* Makes the group of `slot`; version 1: moves the calling process into it. 0 or -1 with a text. */
int zg_cgroup_ready(struct zg_cgroups *g, unsigned slot, struct zg_err *e);
/* Version 2: descriptor for CLONE_INTO_CGROUP, to be closed by the caller; else -1. */
int zg_cgroup_clone_fd(const struct zg_cgroups *g, unsigned slot);
/* Removes the group of `slot`, whose last process has been reaped; tells whether the kernel killed
 * for memory. Returns 0, or -1 when it is still busy. */
int zg_cgroup_drop(struct zg_cgroups *g, unsigned slot, bool *ret_is_oom);
/* Back to the base and away with it. */
void zg_cgroup_fini(struct zg_cgroups *g);

#endif
