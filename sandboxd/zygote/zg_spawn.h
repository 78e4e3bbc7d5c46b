/* zg_spawn.h - the zygote's children: clone, bookkeeping, collecting what is left of them.
 *
 *   slot: FREE --spawn--> LIVE --exit, reaped--> DROPPING --control group removed--> FREE
 *
 * Threads:  the zygote's only thread. The interpreter must be single-threaded at every spawn
 * (checked at start). Lifetime: one zoo per process. A slot names the host uid and the control
 * group of a child and is reused in FIFO order. Bounds:   ZG_CHILDREN_MAX children. */
#ifndef CFD_SANDBOXD_ZG_SPAWN_H
#define CFD_SANDBOXD_ZG_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "zg_cgroup.h"
#include "zg_jail.h"
#include "zg_root.h"

#define ZG_CHILDREN_MAX 4096U

enum zg_slot_state { ZG_SLOT_FREE, ZG_SLOT_LIVE, ZG_SLOT_DROPPING };

struct zg_slot {
    enum zg_slot_state state;
    pid_t pid;
    uint32_t seq;
    int status;
    bool is_over; /* killed by zg_watch */
};

struct zg_zoo {
    struct zg_jail jail;
    struct zg_uids uids;
    struct zg_cgroups groups;
    struct zg_slot slots[ZG_CHILDREN_MAX];
    uint16_t free_ring[ZG_CHILDREN_MAX];
    unsigned free_head;
    unsigned free_count;
    unsigned live_count; /* LIVE and DROPPING */
    unsigned dropping_count;
    int next; /* slot whose group is made, -1 = none */
};

/* What a spawn hands over; all owned by the caller. */
struct zg_spawned {
    pid_t pid;
    int stream; /* sandboxd's end */
    int pidfd;
};

struct zg_exited {
    uint32_t seq;
    int status; /* as from waitpid */
    bool is_oom;
};

void zg_zoo_init(struct zg_zoo *z);
int zg_spawn(struct zg_zoo *z, uint32_t seq, struct zg_spawned *ret, struct zg_err *e);
/* Makes the group of the next child; off the critical path. */
int zg_spawn_prepare(struct zg_zoo *z, struct zg_err *e);
/* Next child that ended and of which nothing is left; false = none now. */
bool zg_collect(struct zg_zoo *z, struct zg_exited *ret);
/* Kills sandboxes that hold more than `most` bytes. */
void zg_watch(struct zg_zoo *z, uint64_t most);
void zg_kill_all(struct zg_zoo *z);

#endif
