#include "zg_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zg_landlock.h"

struct child {
    const struct zg_jail *jail;
    unsigned host_id;
    int stream;
    const char *what; /* detail of a failure */
};

static int failed(struct child *c, const char *what)
{
    c->what = what;
    return -1;
}

static int id_map_step(struct child *c)
{
    char line[64];

    if (prctl(PR_SET_DUMPABLE, 1) != 0 ||
        zg_put_at(AT_FDCWD, "/proc/self/setgroups", "deny") != 0) {
        return failed(c, "setgroups");
    }
    (void)snprintf(line, sizeof(line), "%u %u 1", ZG_INSIDE_ID, c->host_id);
    if (zg_put_at(AT_FDCWD, "/proc/self/gid_map", line) != 0) {
        return failed(c, "gid_map");
    }
    if (zg_put_at(AT_FDCWD, "/proc/self/uid_map", line) != 0) {
        return failed(c, "uid_map");
    }
    if (setresgid(ZG_INSIDE_ID, ZG_INSIDE_ID, ZG_INSIDE_ID) != 0 ||
        setresuid(ZG_INSIDE_ID, ZG_INSIDE_ID, ZG_INSIDE_ID) != 0) {
        return failed(c, "setresuid");
    }
    /* changing ids cleared it; needed again for /proc/self below */
    return prctl(PR_SET_DUMPABLE, 1);
}

/* Dies with the zygote: by signal, and at once if it is gone already. */
static int parent_step(struct child *c)
{
    struct pollfd life = {.fd = c->jail->life_fd, .events = 0};

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return failed(c, "PR_SET_PDEATHSIG");
    }
    (void)close(c->jail->life_write_fd);
    if (poll(&life, 1, 0) != 0) {
        _exit(0);
    }
    return zg_put_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
}

static int names_step(struct child *c)
{
    if (unshare(CLONE_NEWCGROUP) != 0) {
        return failed(c, "cgroup namespace");
    }
    if (setsid() < 0) { /* kill(0, ...) reaches a process group across pid namespaces */
        return failed(c, "setsid");
    }
    return sethostname("sandbox", 7);
}

static int mounts_step(struct child *c)
{
    char options[160];

    (void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=65536,mode=755,uid=%u,gid=%u",
                   (unsigned long long)c->jail->opts->disk_bytes, ZG_INSIDE_ID, ZG_INSIDE_ID);
    if (mount("sandbox", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) {
        return failed(c, "tmpfs");
    }
    if (mkdir("/tmp/data", 0755) != 0 || mkdir("/tmp/tmp", 0700) != 0 ||
        mkdir("/tmp/shm", 0700) != 0 || chmod("/tmp/tmp", 01777) != 0 ||
        chmod("/tmp/shm", 01777) != 0) {
        return failed(c, "mkdir");
    }
    if (mount("/tmp/data", "/mnt/data", NULL, MS_BIND, NULL) != 0 ||
        mount("/tmp/shm", "/dev/shm", NULL, MS_BIND, NULL) != 0 ||
        mount("/tmp/tmp", "/tmp", NULL, MS_BIND, NULL) != 0) {
        return failed(c, "bind");
    }
    return chdir("/mnt/data");
}

/* Only processes, no host facts; and only this pid namespace's. */
static int proc_step(struct child *c)
{
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid") != 0) {
        return failed(c, "the host must show an unmasked /proc to the zygote");
    }
    return 0;
}

static int fds_step(struct child *c)
{
    int out[2];
    int err[2];
    int high[4];
    int null = open("/dev/null", O_RDONLY);
    int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (null < 0 || wake < 0 || pipe2(out, 0) != 0 || pipe2(err, 0) != 0) {
        return failed(c, "pipe");
    }
    /* first out of the way of 0..6, then into place */
    const int from[4] = {c->stream, out[0], err[0], wake};
    const int to[4] = {ZG_FD_STREAM, ZG_FD_OUT, ZG_FD_ERR, ZG_FD_WAKE};
    int out_w = fcntl(out[1], F_DUPFD, 16);
    int err_w = fcntl(err[1], F_DUPFD, 16);
    int in = fcntl(null, F_DUPFD, 16);

    for (unsigned i = 0; i < 4; i++) {
        high[i] = fcntl(from[i], F_DUPFD, 16);
        if (high[i] < 0) {
            return failed(c, "dup");
        }
    }
    if (dup2(in, 0) < 0 || dup2(out_w, 1) < 0 || dup2(err_w, 2) < 0) {
        return failed(c, "dup2");
    }
    for (unsigned i = 0; i < 4; i++) {
        if (dup3(high[i], to[i], O_CLOEXEC) < 0) {
            return failed(c, "dup3");
        }
    }
    if (fcntl(ZG_FD_OUT, F_SETFL, O_NONBLOCK) != 0 || fcntl(ZG_FD_ERR, F_SETFL, O_NONBLOCK) != 0) {
        return failed(c, "O_NONBLOCK");
    }
    return (int)syscall(SYS_close_range, (unsigned)ZG_FD_WAKE + 1, ~0U, 0U);
}

static int limit_set(int what, uint64_t want)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)what, &r) != 0) {
        return -1;
    }
    rlim_t v = r.rlim_max == RLIM_INFINITY || want < r.rlim_max ? (rlim_t)want : r.rlim_max;

    return setrlimit((__rlimit_resource_t)what, &(struct rlimit){v, v});
}

static int limits_step(struct child *c)
{
    const struct zg_opts *o = c->jail->opts;

    if (limit_set(RLIMIT_CORE, 0) != 0 || limit_set(RLIMIT_NOFILE, o->files_max) != 0 ||
        limit_set(RLIMIT_NPROC, o->pids_max) != 0 || limit_set(RLIMIT_FSIZE, o->disk_bytes) != 0 ||
        limit_set(RLIMIT_DATA, c->jail->data_bytes) != 0 || limit_set(RLIMIT_MEMLOCK, 65536) != 0 ||
        limit_set(RLIMIT_MSGQUEUE, 0) != 0 || limit_set(RLIMIT_SIGPENDING, 1024) != 0) {
        return failed(c, "setrlimit");
    }
    return 0;
}

static int caps_step(struct child *c)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    for (unsigned long cap = 0; cap < 64 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
    }
    if (errno != EINVAL) { /* EINVAL: past the kernel's last capability */
        return failed(c, "bounding set");
    }
    if (prctl(PR_SET_SECUREBITS,
              SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
              0, 0, 0) != 0) {
        return failed(c, "securebits");
    }
    return (int)syscall(SYS_capset, &head, none);
}

static int privs_step(struct child *c)
{
    if (prctl(PR_SET_DUMPABLE, 0) != 0) {
        return failed(c, "PR_SET_DUMPABLE");
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int landlock_step(struct child *c)
{
    return c->jail->landlock_abi == 0 ? 0 : zg_landlock_enter(c->jail->landlock_abi);
}

static int seccomp_step(struct child *c)
{
    return zg_seccomp_load(&c->jail->filter);
}

static int signals_step(struct child *c)
{
    sigset_t none;

    (void)c;
    (void)sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

static const struct {
    const char *name;
    const char *doc;
    int (*run)(struct child *c);
} steps[] = {
    {"user-namespace", "unprivileged uid outside, one mapped uid inside", id_map_step},
    {"parent-death", "dies with its owner", parent_step},
    {"namespaces", "own pid, net, ipc, uts, mount and cgroup namespaces", names_step},
    {"mounts", "read-only root, own /tmp and /mnt/data of limited size", mounts_step},
    {"proc", "own /proc with processes only", proc_step},
    {"descriptors", "nothing inherited but its own stream", fds_step},
    {"rlimits", "files, processes, data, file size, no core", limits_step},
    {"capabilities", "all sets empty, bounding set dropped", caps_step},
    {"no-new-privs", "set-uid programs gain nothing; not dumpable", privs_step},
    {"signals", "default handlers", signals_step},
    {"landlock", "files, TCP and signals once more, where the kernel has it", landlock_step},
    {"seccomp", "system call allow-list", seccomp_step},
};

unsigned zg_jail_step_count(void)
{
    return sizeof(steps) / sizeof(steps[0]);
}

const char *zg_jail_step_doc(unsigned i, const char **ret_name)
{
    *ret_name = steps[i].name;
    return steps[i].doc;
}

int zg_jail_enter(const struct zg_jail *j, unsigned host_id, int stream, struct zg_err *e)
{
    struct child c = {.jail = j, .host_id = host_id, .stream = stream};

    for (unsigned i = 0; i < zg_jail_step_count(); i++) {
        if (steps[i].run(&c) != 0) {
            return zg_fail(e, errno, "isolation step %s%s%s", steps[i].name,
                           c.what != NULL ? ", " : "", c.what != NULL ? c.what : "");
        }
    }
    return 0;
}
