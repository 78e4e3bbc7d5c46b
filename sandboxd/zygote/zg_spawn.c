#include "zg_spawn.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zg_child.h"
#include "zg_tid.h"
#include "zg_watch.h"

void zg_zoo_init(struct zg_zoo *z)
{
    memset(z, 0, sizeof(*z));
    z->next = -1;
    for (unsigned i = 0; i < ZG_CHILDREN_MAX; i++) {
        z->free_ring[i] = (uint16_t)i;
    }
    z->free_count = ZG_CHILDREN_MAX;
}

int zg_spawn_prepare(struct zg_zoo *z, struct zg_err *e)
{
    if (z->next >= 0) {
        return 0;
    }
    if (z->free_count == 0) {
        return zg_fail(e, 0, "%u sandboxes are the most one zygote holds", ZG_CHILDREN_MAX);
    }
    unsigned slot = z->free_ring[z->free_head];

    if (zg_cgroup_ready(&z->groups, slot, e) != 0) {
        return -1;
    }
    z->free_head = (z->free_head + 1) % ZG_CHILDREN_MAX;
    z->free_count--;
    z->next = (int)slot;
    return 0;
}

/* The clone with all namespaces; as the sandbox's own uid, which thereby owns the new user
 * namespace. */
static pid_t namespaces_clone(struct zg_zoo *z, unsigned host_id, int group_fd, int *ret_pidfd)
{
    const uint64_t own = (uint32_t)CLONE_NEWUSER | (uint32_t)CLONE_NEWPID | (uint32_t)CLONE_NEWNS |
                         (uint32_t)CLONE_NEWNET | (uint32_t)CLONE_NEWIPC | (uint32_t)CLONE_NEWUTS;
    struct clone_args args = {
        .flags = own | (uint32_t)CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .exit_signal = (uint64_t)SIGCHLD,
    };
    bool is_other = z->uids.count > 1;
    int native = 0;

    if (group_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)group_fd;
    }
    if (is_other && (setegid(host_id) != 0 || seteuid(host_id) != 0)) {
        return -1;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        return 0; /* everything else is zg_child's business */
    }
    native = errno;
    if (is_other && (seteuid(0) != 0 || setegid(0) != 0)) {
        _exit(1); /* cannot happen: the saved id is 0; going on as somebody else would be worse */
    }
    errno = native;
    return pid;
}

int zg_spawn(struct zg_zoo *z, uint32_t seq, struct zg_spawned *ret, struct zg_err *e)
{
    int pair[2];
    int pidfd = -1;

    if (zg_spawn_prepare(z, e) != 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return zg_fail(e, errno, "socketpair");
    }
    unsigned slot = (unsigned)z->next;
    unsigned host_id = z->uids.first + (z->uids.count > 1 ? slot % z->uids.count : 0);
    int group_fd = zg_cgroup_clone_fd(&z->groups, slot);
    pid_t pid = namespaces_clone(z, host_id, group_fd, &pidfd);

    if (pid == 0) {
        zg_tid_fix();
        zg_child_main(&z->jail, host_id, pair[1]);
    }
    int native = errno;

    (void)close(pair[1]);
    if (group_fd >= 0) {
        (void)close(group_fd);
    }
    if (pid < 0) {
        (void)close(pair[0]);
        return zg_fail(e, native, "cannot make a process with own namespaces");
    }
    z->next = -1;
    z->live_count++;
    z->slots[slot] = (struct zg_slot){ZG_SLOT_LIVE, pid, seq, 0, false};
    *ret = (struct zg_spawned){pid, pair[0], pidfd};
    return 0;
}

static void exits_take(struct zg_zoo *z)
{
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (unsigned i = 0; i < ZG_CHILDREN_MAX; i++) {
            if (z->slots[i].state == ZG_SLOT_LIVE && z->slots[i].pid == pid) {
                z->slots[i].state = ZG_SLOT_DROPPING;
                z->slots[i].status = status;
                z->dropping_count++;
                break;
            }
        }
    }
}

bool zg_collect(struct zg_zoo *z, struct zg_exited *ret)
{
    struct zg_err ignored;
    bool is_oom = false;

    exits_take(z);
    if (z->dropping_count > 0) {
        (void)zg_spawn_prepare(z, &ignored); /* out of a group that may have to go */
    }
    for (unsigned i = 0; z->dropping_count > 0 && i < ZG_CHILDREN_MAX; i++) {
        struct zg_slot *s = &z->slots[i];

        if (s->state != ZG_SLOT_DROPPING || zg_cgroup_drop(&z->groups, i, &is_oom) != 0) {
            continue;
        }
        *ret = (struct zg_exited){s->seq, s->status, is_oom || s->is_over};
        s->state = ZG_SLOT_FREE;
        z->dropping_count--;
        z->live_count--;
        z->free_ring[(z->free_head + z->free_count) % ZG_CHILDREN_MAX] = (uint16_t)i;
        z->free_count++;
        return true;
    }
    return false;
}

void zg_watch(struct zg_zoo *z, uint64_t most)
{
    for (unsigned i = 0; i < ZG_CHILDREN_MAX; i++) {
        struct zg_slot *s = &z->slots[i];

        if (s->state == ZG_SLOT_LIVE && zg_watch_bytes(s->pid) > most) {
            s->is_over = true;
            (void)kill(s->pid, SIGKILL);
        }
    }
}

void zg_kill_all(struct zg_zoo *z)
{
    for (unsigned i = 0; i < ZG_CHILDREN_MAX; i++) {
        if (z->slots[i].state == ZG_SLOT_LIVE) {
            (void)kill(z->slots[i].pid, SIGKILL);
        }
    }
}
