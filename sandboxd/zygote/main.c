/* cofferdam-zygote: a warm interpreter that forks isolated sandboxes for sandboxd. It holds no
 * secret and no network. Order: options, control groups (host paths), own namespaces, template
 * root, interpreter, seal, loop. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sb_zygote_proto.h"
#include "zg_check.h"
#include "zg_landlock.h"
#include "zg_mem.h"
#include "zg_python.h"
#include "zg_spawn.h"
#include "zg_tid.h"
#include "zg_watch.h"

#define DROP_RETRY_MS 20

static struct zg_zoo zoo;
static bool is_check;

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
const char *__asan_default_options(void);

/* Foreign code may crash and run out of memory here; that must look as it does without the
 * sanitizer. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:handle_segv=0:handle_sigbus=0:handle_abort=0:detect_leaks="
           "0";
}
#endif

static void ctl_send(const struct zyp_ctl *m, const int *fds, unsigned fd_count)
{
    char data[ZYP_CTL_MAX];
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {data, zyp_ctl_encode(data, m)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    while (sendmsg(ZYP_CTL_FD, &msg, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

static void text_send(enum zyp_ctl_type type, uint32_t seq, const char *text)
{
    ctl_send(&(struct zyp_ctl){.type = type, .seq = seq, .text = text, .text_len = strlen(text)},
             NULL, 0);
}

static void on_notice(const char *text)
{
    if (is_check) {
        (void)printf("notice: no %s\n", text);
    } else {
        text_send(ZYP_CTL_NOTICE, 0, text);
    }
}

static int die(const char *text)
{
    if (is_check) {
        (void)printf("start: no %s\n", text);
        (void)fflush(stdout);
    } else {
        (void)fprintf(stderr, "cofferdam-zygote: %s\n", text);
        text_send(ZYP_CTL_FAILED, 0, text);
    }
    zg_cgroup_fini(&zoo.groups);
    return 1;
}

/* A clean environment: nothing of the caller's, and no thread pools in libraries. */
static void environment_set(void)
{
    static const char *const vars[][2] = {
        {"PATH", "/usr/local/bin:/usr/bin:/bin"},
        {"LANG", "C.UTF-8"},
        {"LC_ALL", "C.UTF-8"},
        {"TZ", "UTC"},
        {"HOME", "/var/lib/cofferdam"},
        {"USER", "sandbox"},
        {"LOGNAME", "sandbox"},
        {"TERM", "dumb"},
        {"TMPDIR", "/tmp"},
        {"IPYTHONDIR", "/var/lib/cofferdam/ipython"},
        {"MPLCONFIGDIR", "/var/lib/cofferdam/matplotlib"},
        {"MPLBACKEND", "Agg"},
        {"OPENBLAS_NUM_THREADS", "1"},
        {"OMP_NUM_THREADS", "1"},
        {"MKL_NUM_THREADS", "1"},
        {"BLIS_NUM_THREADS", "1"},
        {"NUMEXPR_NUM_THREADS", "1"},
        {"VECLIB_MAXIMUM_THREADS", "1"},
    };

    (void)clearenv();
    for (unsigned i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        (void)setenv(vars[i][0], vars[i][1], 1);
    }
}

static unsigned thread_count(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;

    while (d != NULL && readdir(d) != NULL) {
        n++;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n >= 2 ? n - 2 : 0;
}

/* VmData of this process in bytes: what a child starts with. */
static uint64_t data_bytes(void)
{
    static char text[8192];
    unsigned long long kib = 0;

    if (zg_slurp("/proc/self/status", text, sizeof(text)) > 0) {
        const char *at = strstr(text, "VmData:");

        if (at != NULL) {
            (void)sscanf(at, "VmData: %llu", &kib);
        }
    }
    return kib * 1024;
}

static int start(const struct zg_opts *o, struct zg_err *e)
{
    int life[2];

    zg_zoo_init(&zoo);
    environment_set();
    if (zg_tid_find(e) != 0) {
        return -1;
    }
    zg_cgroup_init(&zoo.groups, o);
    if (geteuid() == 0 && setgroups(0, NULL) != 0) {
        return zg_fail(e, errno, "setgroups");
    }
    if (pipe2(life, O_CLOEXEC) != 0) {
        return zg_fail(e, errno, "pipe");
    }
    zoo.jail.opts = o;
    zoo.jail.life_fd = life[0];
    zoo.jail.life_write_fd = life[1];
    zoo.jail.landlock_abi = zg_landlock_abi();
    if (zg_ns_enter(&zoo.uids, e) != 0 || zg_root_enter(o, e) != 0 ||
        zg_seccomp_build(&zoo.jail.filter, o->is_trace, e) != 0 ||
        zg_python_init(on_notice, e) != 0 || zg_root_seal(e) != 0) {
        return -1;
    }
    if (thread_count() != 1) {
        return zg_fail(e, 0,
                       "an imported module started threads: forked sandboxes would be broken");
    }
    zg_mem_seal();
    (void)zg_mem_collapse();
    zg_watch_init();
    zoo.jail.data_bytes = data_bytes() + o->memory_bytes;
    return zg_spawn_prepare(&zoo, e);
}

static void on_spawn(uint32_t seq)
{
    struct zg_err e;
    struct zg_spawned s;

    if (zg_spawn(&zoo, seq, &s, &e) != 0) {
        text_send(ZYP_CTL_SPAWN_FAILED, seq, e.text);
        return;
    }
    ctl_send(&(struct zyp_ctl){.type = ZYP_CTL_SPAWNED, .seq = seq, .num = s.pid},
             (const int[]){s.stream, s.pidfd}, 2);
    (void)close(s.stream);
    (void)close(s.pidfd);
}

/* False when sandboxd is gone or speaks nonsense. */
static bool on_ctl(void)
{
    char data[ZYP_CTL_MAX];
    struct zyp_ctl m;
    ssize_t n = recv(ZYP_CTL_FD, data, sizeof(data), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (n <= 0 || zyp_ctl_decode(&m, data, (size_t)n, false) != 0) {
        return false;
    }
    on_spawn(m.seq);
    return true;
}

static void exits_report(void)
{
    struct zg_exited x;

    while (zg_collect(&zoo, &x)) {
        ctl_send(&(struct zyp_ctl){.type = ZYP_CTL_EXITED,
                                   .seq = x.seq,
                                   .num = x.status,
                                   .flags = x.is_oom ? ZYP_FLAG_OOM : 0},
                 NULL, 0);
    }
}

static void ready_send(void)
{
    char text[ZYP_TEXT_MAX];
    size_t n = 0;
    const struct zg_cgroups *g = &zoo.groups;

    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        if (g->base[k] >= 0) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", g->path[k]);
        }
        n = n < sizeof(text) ? n : sizeof(text) - 1;
    }
    ctl_send(&(struct zyp_ctl){.type = ZYP_CTL_READY,
                               .num = (g->has[ZG_CGROUP_MEMORY] ? (int)ZYP_HAS_CGROUP_MEMORY : 0) |
                                      (g->has[ZG_CGROUP_PIDS] ? (int)ZYP_HAS_CGROUP_PIDS : 0) |
                                      (zoo.uids.count > 1 ? (int)ZYP_HAS_DISTINCT_UIDS : 0) |
                                      (zoo.jail.landlock_abi > 0 ? (int)ZYP_HAS_LANDLOCK : 0),
                               .text = text,
                               .text_len = n},
             NULL, 0);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Looks at the sandboxes' memory when nothing else limits it; with many of them less often, so that
 * it takes a twentieth of a processor at most. Milliseconds until the next look, -1 = none. */
static int memory_watch(void)
{
    static uint64_t next_ms;
    uint64_t now = now_ms();

    if (zoo.groups.has[ZG_CGROUP_MEMORY] || zoo.live_count == 0) {
        return -1;
    }
    if (now >= next_ms) {
        zg_watch(&zoo, zoo.jail.opts->memory_bytes);
        uint64_t took = now_ms() - now;

        next_ms = now + (took * 20 > ZG_WATCH_MS ? took * 20 : ZG_WATCH_MS);
    }
    return (int)(next_ms - now);
}

static void loop(int signals)
{
    struct pollfd fds[2] = {{ZYP_CTL_FD, POLLIN, 0}, {signals, POLLIN, 0}};
    struct signalfd_siginfo info;
    struct zg_err e;

    for (;;) {
        int watch = memory_watch();
        int timeout = zoo.dropping_count > 0 ? DROP_RETRY_MS : zoo.next < 0 ? 0 : watch;
        int rc = poll(fds, 2, timeout);

        if (rc > 0 && (fds[1].revents & POLLIN) != 0 &&
            read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
            info.ssi_signo != SIGCHLD) {
            return;
        }
        if (rc > 0 && fds[0].revents != 0 && !on_ctl()) {
            return;
        }
        exits_report();
        if (rc == 0 && zoo.next < 0 && zg_spawn_prepare(&zoo, &e) != 0) {
            (void)poll(fds, 2, 1000); /* no group to be had: the next spawn says why */
        }
    }
}

static void children_end(void)
{
    struct zg_exited x;

    zg_kill_all(&zoo);
    for (int i = 0; zoo.live_count > 0 && i < 500; i++) {
        while (zg_collect(&zoo, &x)) {
        }
        (void)poll(NULL, 0, 10);
    }
    if (zoo.next >= 0) { /* a group that no child was born into */
        bool is_oom;

        for (unsigned k = 0; zoo.groups.version == 1 && k < ZG_CGROUP_KINDS; k++) {
            if (zoo.groups.base[k] >= 0) {
                (void)zg_put_at(zoo.groups.base[k], "../cgroup.procs", "0");
            }
        }
        (void)zg_cgroup_drop(&zoo.groups, (unsigned)zoo.next, &is_oom);
    }
    zg_cgroup_fini(&zoo.groups);
}

int main(int argc, char **argv)
{
    static struct zg_opts opts;
    static struct zg_err e;
    sigset_t set;

    if (zg_opts_parse(&opts, argc, argv, e.text, sizeof(e.text)) != 0) {
        (void)fprintf(stderr, "cofferdam-zygote: %s\n", e.text);
        return 2;
    }
    is_check = opts.is_check;
    if (!is_check && fcntl(ZYP_CTL_FD, F_SETFD, FD_CLOEXEC) != 0) {
        (void)fprintf(stderr,
                      "cofferdam-zygote: started by cofferdam-sandboxd only (descriptor 3 is "
                      "its control socket); by hand: --check\n");
        return 2;
    }
    (void)setsid(); /* a terminal's ^C is sandboxd's business */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

    if (signals < 0 || start(&opts, &e) != 0) {
        return die(signals < 0 ? strerror(errno) : e.text);
    }
    int rc = 0;

    if (is_check) {
        rc = zg_check_run(&zoo);
    } else {
        ready_send();
        loop(signals);
    }
    children_end();
    (void)fflush(stdout);
    _exit(rc); /* the interpreter is not torn down: nothing to save, and it takes long */
}
