#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sb_local_int.h"

#define ARGS_MAX 80
#define ARG_CAP  64

/* ---- start -------------------------------------------------------------------------------- */

struct args {
    char text[8][ARG_CAP];
    char *binds[ARGS_MAX]; /* owned */
    unsigned bind_count;
    char *argv[ARGS_MAX + 16];
};

static int args_make(struct args *a, const struct sb_provider *p)
{
    const struct cfg *c = p->cfg;
    unsigned n = 0;
    static char name[] = "cofferdam-zygote";

    memset(a, 0, sizeof(*a));
    (void)snprintf(a->text[0], ARG_CAP, "--memory=%llu", (unsigned long long)c->local_memory_bytes);
    (void)snprintf(a->text[1], ARG_CAP, "--disk=%llu", (unsigned long long)c->local_disk_bytes);
    (void)snprintf(a->text[2], ARG_CAP, "--pids=%llu", (unsigned long long)c->local_pids_max);
    (void)snprintf(a->text[3], ARG_CAP, "--files=%llu", (unsigned long long)c->local_files_max);
    a->argv[n++] = name;
    for (unsigned i = 0; i < 4; i++) {
        a->argv[n++] = a->text[i];
    }
    for (unsigned i = 0; c->local_binds != NULL && c->local_binds[i] != NULL; i++) {
        if (a->bind_count == ARGS_MAX - 1) {
            return ERR_LIMIT;
        }
        size_t len = strlen(c->local_binds[i]) + sizeof("--bind=");

        if ((a->binds[a->bind_count] = mem_alloc(len)) == NULL) {
            return ERR_NOMEM;
        }
        (void)snprintf(a->binds[a->bind_count], len, "--bind=%s", c->local_binds[i]);
        a->argv[n++] = a->binds[a->bind_count++];
    }
    if (c->local_root != NULL && c->local_root[0] != '\0') {
        size_t len = strlen(c->local_root) + sizeof("--root=");

        if ((a->binds[a->bind_count] = mem_alloc(len)) == NULL) {
            return ERR_NOMEM;
        }
        (void)snprintf(a->binds[a->bind_count], len, "--root=%s", c->local_root);
        a->argv[n++] = a->binds[a->bind_count++];
    }
    return 0;
}

static void args_fini(struct args *a)
{
    for (unsigned i = 0; i < a->bind_count; i++) {
        mem_free(a->binds[i]);
    }
}

/* In the forked child: only async-signal-safe calls. */
static _Noreturn void child_exec(const struct sb_provider *p, const struct args *a, int ctl)
{
    static char *const env[] = {NULL};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    int high = fcntl(ctl, F_DUPFD, 16);

    if (null >= 0 && high >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
        dup2(high, ZYP_CTL_FD) == ZYP_CTL_FD &&
        syscall(SYS_close_range, (unsigned)ZYP_CTL_FD + 1, ~0U, 0U) == 0) {
        (void)execve(p->program, a->argv, env);
    }
    _exit(127);
}

static void on_closed(void *ctx)
{
    struct sb_local_zygote *z = ctx;
    struct sb_provider *p = z->p;

    list_remove(&p->zygotes, &z->link);
    mem_free(z);
    sb_local_maybe_stopped(p);
}

/* Removes what a killed zygote could not: DIR/<slot> and DIR, for each line. */
static void groups_sweep(const struct sb_local_zygote *z)
{
    struct str_view rest = sv_of(z->groups);

    while (rest.n > 0) {
        size_t n = sv_find(rest, '\n');
        char dir[PATH_MAX / 2];
        char sub[PATH_MAX];

        if (n > 0 && sv_copy(dir, sizeof(dir), (struct str_view){rest.p, n}) &&
            strstr(dir, "/cofferdam-") != NULL && access(dir, F_OK) == 0) {
            for (unsigned i = 0; i < 4096; i++) {
                (void)snprintf(sub, sizeof(sub), "%s/%u", dir, i);
                (void)rmdir(sub);
            }
            (void)rmdir(dir);
        }
        n = n < rest.n ? n + 1 : n;
        rest = (struct str_view){rest.p + n, rest.n - n};
    }
}

/* The process is gone and so is the last box: close the handles, which ends in on_closed. */
static void maybe_close(struct sb_local_zygote *z)
{
    if (!z->is_dead || z->box_count > 0 || z->is_closing) {
        return;
    }
    z->is_closing = true;
    groups_sweep(z);
    closer_close_one(&z->closer, (uv_handle_t *)&z->ctl_poll);
    closer_close_one(&z->closer, (uv_handle_t *)&z->pid_poll);
    closer_close_one(&z->closer, (uv_handle_t *)&z->limit);
    (void)close(z->ctl);
    (void)close(z->pidfd);
    closer_finish(&z->closer);
}

static void boxes_unwatch(struct sb_local_zygote *z)
{
    LIST_FOREACH_SAFE (k, tmp, &z->p->boxes) {
        struct sb_box *b = CONTAINER_OF(k, struct sb_box, all_link);

        if (b->zygote == z) {
            sb_local_box_unwatched(b);
        }
    }
}

static void restart_plan(struct sb_local_zygote *z)
{
    struct sb_provider *p = z->p;

    if (p->is_stopping) {
        return;
    }
    if (z->is_ready && clock_ms() - z->started_ms > 10000) {
        p->backoff_ms = 0;
    }
    (void)uv_timer_start(&p->restart, p->restart.timer_cb, p->backoff_ms, 0);
    p->backoff_ms = p->backoff_ms == 0 ? 100 : p->backoff_ms * 2;
    p->backoff_ms =
        p->backoff_ms < SB_LOCAL_BACKOFF_MAX_MS ? p->backoff_ms : SB_LOCAL_BACKOFF_MAX_MS;
}

static void on_dead(struct sb_local_zygote *z)
{
    int status = 0;

    if (z->is_dead) {
        return;
    }
    z->is_dead = true;
    (void)uv_poll_stop(&z->ctl_poll);
    (void)uv_poll_stop(&z->pid_poll);
    (void)uv_timer_stop(&z->limit);
    (void)waitpid(z->pid, &status, 0); /* its pidfd is readable: does not block */
    bool was_wanted = !z->is_retired;

    if (was_wanted) {
        LOG(CHILD_EXIT, NULL, KV_S("name", "zygote"), KV_I("pid", z->pid), KV_I("status", status),
            KV_S("detail", z->failure), KV_S("next", "restart"));
    }
    if (z->p->cur == z) {
        z->p->cur = NULL;
    }
    boxes_unwatch(z);
    if (was_wanted) {
        restart_plan(z);
    }
    maybe_close(z);
}

static void on_pid(uv_poll_t *h, int status, int events)
{
    (void)status;
    (void)events;
    on_dead(h->data);
}

static void on_limit(uv_timer_t *h)
{
    struct sb_local_zygote *z = h->data;

    (void)snprintf(z->failure, sizeof(z->failure), "%s",
                   z->is_retired ? "did not end in time" : "was not ready in time");
    (void)kill(z->pid, SIGKILL);
}

static void groups_store(struct sb_local_zygote *z, const struct zyp_ctl *m)
{
    (void)sv_copy(z->groups, sizeof(z->groups), (struct str_view){m->text, m->text_len});
}

static void on_ready(struct sb_local_zygote *z, const struct zyp_ctl *m)
{
    z->is_ready = true;
    z->has = (uint32_t)m->num;
    groups_store(z, m);
    (void)uv_timer_stop(&z->limit);
    LOG(CHILD_START, NULL, KV_S("name", "zygote"), KV_I("pid", z->pid),
        KV_U("ms", clock_ms() - z->started_ms),
        KV_S("memory", (z->has & ZYP_HAS_CGROUP_MEMORY) != 0 ? "cgroup" : "watch"),
        KV_S("pids", (z->has & ZYP_HAS_CGROUP_PIDS) != 0 ? "cgroup" : "rlimit"),
        KV_S("uids", (z->has & ZYP_HAS_DISTINCT_UIDS) != 0 ? "distinct" : "shared"),
        KV_S("landlock", (z->has & ZYP_HAS_LANDLOCK) != 0 ? "yes" : "no"));
    sb_local_serve_soon(z->p, 0);
}

static void on_spawned(struct sb_local_zygote *z, const struct zyp_ctl *m, const int *fds)
{
    struct sb_box *b = sb_local_box_find(z->p, m->seq);

    if (b == NULL || b->zygote != z || b->state != SB_LOCAL_SPAWNING) {
        if (b == NULL) { /* given up meanwhile: closing its stream ends it */
            (void)close(fds[0]);
            (void)close(fds[1]);
            return;
        }
        (void)sb_local_box_attach(b, m->num, fds[0], fds[1]);
        sb_local_box_kill(b);
        return;
    }
    if (sb_local_box_attach(b, m->num, fds[0], fds[1]) != 0) {
        sb_local_box_retire(b);
    }
}

static void on_spawn_failed(struct sb_local_zygote *z, const struct zyp_ctl *m)
{
    struct sb_box *b = sb_local_box_find(z->p, m->seq);
    char why[256];

    (void)sv_copy(why, sizeof(why), (struct str_view){m->text, m->text_len});
    if (b != NULL && b->zygote == z) {
        sb_local_box_exited(b, 0, false);
    }
    sb_local_spawn_failed(z->p, why);
}

static void on_message(struct sb_local_zygote *z, const struct zyp_ctl *m, const int *fds)
{
    struct sb_box *b = NULL;

    switch (m->type) {
    case ZYP_CTL_READY:
        on_ready(z, m);
        break;
    case ZYP_CTL_FAILED:
        (void)sv_copy(z->failure, sizeof(z->failure), (struct str_view){m->text, m->text_len});
        break;
    case ZYP_CTL_NOTICE:
        LOG(SANDBOX_NOTICE, NULL, KV_SV("detail", ((struct str_view){m->text, m->text_len})));
        break;
    case ZYP_CTL_SPAWNED:
        if (fds[1] >= 0) {
            on_spawned(z, m, fds);
        }
        break;
    case ZYP_CTL_SPAWN_FAILED:
        on_spawn_failed(z, m);
        break;
    case ZYP_CTL_EXITED:
        b = sb_local_box_find(z->p, m->seq);
        if (b != NULL && b->zygote == z) {
            sb_local_box_exited(b, m->num, (m->flags & ZYP_FLAG_OOM) != 0);
        }
        break;
    case ZYP_CTL_SPAWN: /* ours; the decoder refuses it from there */
        break;
    }
}

/* One datagram with its descriptors. 1, 0 = nothing now, -1 = the zygote is gone or speaks
 * nonsense. */
static int message_take(struct sb_local_zygote *z)
{
    char data[ZYP_CTL_MAX];
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {data, sizeof(data)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    struct zyp_ctl m;
    int fds[2] = {-1, -1};
    ssize_t n = recvmsg(z->ctl, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return -1;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        size_t bytes = c->cmsg_len - CMSG_LEN(0);

        memcpy(fds, CMSG_DATA(c), bytes < sizeof(fds) ? bytes : sizeof(fds));
    }
    bool is_good = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                   zyp_ctl_decode(&m, data, (size_t)n, true) == 0 &&
                   (m.type == ZYP_CTL_SPAWNED) == (fds[1] >= 0);

    if (!is_good) {
        for (unsigned i = 0; i < 2; i++) {
            if (fds[i] >= 0) {
                (void)close(fds[i]);
            }
        }
        return -1;
    }
    on_message(z, &m, fds);
    return 1;
}

static void on_ctl(uv_poll_t *h, int status, int events)
{
    struct sb_local_zygote *z = h->data;
    int rc = 1;

    (void)status;
    (void)events;
    for (unsigned i = 0; i < 64 && rc == 1; i++) {
        rc = message_take(z);
    }
    if (rc < 0) { /* its death is seen through the pidfd; nonsense ends it */
        (void)uv_poll_stop(&z->ctl_poll);
        (void)kill(z->pid, SIGKILL);
    }
}

static int handles_open(struct sb_local_zygote *z)
{
    uv_loop_t *uv = &z->p->loop->uv;

    closer_init(&z->closer, on_closed, z);
    if (uv_poll_init(uv, &z->ctl_poll, z->ctl) != 0) {
        return ERR_IO;
    }
    z->ctl_poll.data = z;
    closer_add(&z->closer);
    /* the loop owns the handle from here on; the pidfd is always pollable, so the rest cannot fail
     */
    REQUIRE(uv_poll_init(uv, &z->pid_poll, z->pidfd) == 0);
    z->pid_poll.data = z;
    closer_add(&z->closer);
    REQUIRE(uv_timer_init(uv, &z->limit) == 0);
    z->limit.data = z;
    closer_add(&z->closer);
    (void)uv_poll_start(&z->ctl_poll, UV_READABLE, on_ctl);
    (void)uv_poll_start(&z->pid_poll, UV_READABLE, on_pid);
    (void)uv_timer_start(&z->limit, on_limit, SB_LOCAL_READY_MS, 0);
    return 0;
}

int sb_local_zygote_start(struct sb_provider *p, struct err *e)
{
    struct sb_local_zygote *z = mem_zalloc(sizeof(*z));
    struct args *a = mem_zalloc(sizeof(*a));
    int pair[2] = {-1, -1};
    int rc = z != NULL && a != NULL ? args_make(a, p) : ERR_NOMEM;

    if (rc != 0) {
        (void)err_set(e, rc, NULL);
        goto out;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        rc = err_errno(e, errno, "zygote: socketpair");
        goto out;
    }
    z->p = p;
    z->started_ms = clock_ms();
    z->ctl = pair[0];
    pair[0] = -1;
    z->pid = fork();
    if (z->pid == 0) {
        child_exec(p, a, pair[1]);
    }
    z->pidfd = z->pid > 0 ? (int)syscall(SYS_pidfd_open, z->pid, 0U) : -1;
    if (z->pidfd < 0 || handles_open(z) != 0) {
        rc = err_errno(e, errno, "zygote: fork");
        if (z->pid > 0) {
            (void)kill(z->pid, SIGKILL);
            (void)waitpid(z->pid, NULL, 0);
        }
        (void)close(z->ctl);
        goto out;
    }
    list_push_back(&p->zygotes, &z->link);
    p->cur = z;
    z = NULL; /* the list's now */
out:
    for (unsigned i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            (void)close(pair[i]);
        }
    }
    if (a != NULL) {
        args_fini(a);
    }
    mem_free(a);
    mem_free(z);
    return rc;
}

int sb_local_zygote_wait(struct sb_local_zygote *z, struct err *e)
{
    uint64_t end = clock_ms() + SB_LOCAL_READY_MS;

    while (!z->is_ready) {
        struct pollfd fds[2] = {{z->ctl, POLLIN, 0}, {z->pidfd, POLLIN, 0}};
        uint64_t now = clock_ms();

        if (now >= end) {
            return err_set(e, ERR_HOST, "the sandbox zygote was not ready within %d s",
                           SB_LOCAL_READY_MS / 1000);
        }
        (void)poll(fds, 2, (int)(end - now));
        if ((fds[0].revents & POLLIN) != 0 && message_take(z) > 0) {
            continue;
        }
        if (fds[1].revents != 0 || (fds[0].revents & (POLLHUP | POLLERR)) != 0) {
            return err_set(e, ERR_HOST, "the sandbox zygote (%.200s) cannot work: %s",
                           z->p->program,
                           z->failure[0] != '\0' ? z->failure
                                                 : "it ended at once; is it installed? run it with "
                                                   "--check");
        }
    }
    uv_update_time(&z->p->loop->uv); /* timers set next must not count the wait as passed */
    return 0;
}

int sb_local_zygote_spawn(struct sb_local_zygote *z, uint32_t seq)
{
    char data[ZYP_CTL_MAX];
    size_t n = zyp_ctl_encode(data, &(struct zyp_ctl){.type = ZYP_CTL_SPAWN, .seq = seq});

    return send(z->ctl, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n ? 0 : ERR_AGAIN;
}

void sb_local_zygote_retire(struct sb_local_zygote *z)
{
    z->is_retired = true;
    if (z->p->cur == z) {
        z->p->cur = NULL;
    }
    LIST_FOREACH_SAFE (k, tmp, &z->p->boxes) {
        struct sb_box *b = CONTAINER_OF(k, struct sb_box, all_link);

        if (b->zygote == z && b->state < SB_LOCAL_IDLE) {
            sb_local_box_retire(b);
        }
    }
    sb_local_zygote_box_gone(z);
}

void sb_local_zygote_box_gone(struct sb_local_zygote *z)
{
    if (z->is_retired && !z->is_dead && z->box_count == 0 &&
        uv_is_active((uv_handle_t *)&z->ctl_poll)) {
        /* its control socket's end tells it to go; the pidfd tells us that it went */
        (void)uv_poll_stop(&z->ctl_poll);
        (void)shutdown(z->ctl, SHUT_RDWR);
        (void)uv_timer_start(&z->limit, on_limit, SB_LOCAL_KILL_MS, 0);
    }
    maybe_close(z);
}
