#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "sb_local_int.h"

#define TO(s) (1U << SB_LOCAL_##s)
static const struct sm_state states[] = {
#define X(name, to) {#name, (to)},
    SB_LOCAL_STATES(X)
#undef X
};

void sb_local_box_move(struct sb_box *b, enum sb_local_state next, const char *why)
{
    b->state = (enum sb_local_state)sm_move(states, "local_box", b->seq, b->state, next, why);
    INVARIANT((b->has_run || b->has_file) == (b->state == SB_LOCAL_BUSY) ||
              b->state >= SB_LOCAL_DEAD);
}

static void on_closed(void *ctx)
{
    struct sb_box *b = ctx;
    struct sb_provider *p = b->p;
    struct sb_local_zygote *z = b->zygote;
    sb_destroyed_cb cb = b->destroyed;
    void *cb_ctx = b->destroyed_ctx;

    bytes_fini(&b->in);
    buf_unref(b->code);
    list_remove(&p->boxes, &b->all_link);
    mem_free(b);
    if (cb != NULL) {
        cb(cb_ctx, 0, NULL);
    }
    z->box_count--;
    sb_local_zygote_box_gone(z);
    sb_local_maybe_stopped(p);
}

static void on_timer(uv_timer_t *h)
{
    struct sb_box *b = h->data;

    if (b->state == SB_LOCAL_DYING) {
        if (b->destroyed != NULL) { /* the core need not wait longer; we still do */
            struct err e;
            sb_destroyed_cb cb = b->destroyed;

            b->destroyed = NULL;
            (void)err_set(&e, ERR_DEADLINE, "the sandbox was killed but has not ended yet");
            cb(b->destroyed_ctx, ERR_DEADLINE, &e);
        }
        return;
    }
    sb_local_run_on_timer(b);
}

struct sb_box *sb_local_box_new(struct sb_provider *p, struct sb_local_zygote *z)
{
    struct sb_box *b = mem_zalloc(sizeof(*b));

    if (b == NULL) {
        return NULL;
    }
    b->p = p;
    b->zygote = z;
    b->seq = ++p->next_seq;
    b->pidfd = -1;
    b->stream = -1;
    b->state = SB_LOCAL_SPAWNING;
    id_text(b->id, sizeof(b->id), "", 16);
    bytes_init(&b->in, (size_t)ZYP_DISPLAY_MAX + SB_LOCAL_READ_BYTES + ZYP_FRAME_HEAD);
    closer_init(&b->closer, on_closed, b);
    REQUIRE(uv_timer_init(&p->loop->uv, &b->timer) == 0);
    b->timer.data = b;
    b->timer.timer_cb = on_timer;
    closer_add(&b->closer);
    list_push_back(&p->boxes, &b->all_link);
    z->box_count++;
    z->spawning++;
    return b;
}

struct sb_box *sb_local_box_find(struct sb_provider *p, uint32_t seq)
{
    /* newest last; answers concern young boxes mostly */
    for (struct list_link *k = p->boxes.head.prev; k != &p->boxes.head; k = k->prev) {
        struct sb_box *b = CONTAINER_OF(k, struct sb_box, all_link);

        if (b->seq == seq && b->state != SB_LOCAL_GONE) {
            return b;
        }
    }
    return NULL;
}

static void on_stream(uv_poll_t *h, int status, int events)
{
    sb_local_run_on_stream(h->data, status < 0 ? UV_READABLE : events);
}

int sb_local_box_attach(struct sb_box *b, pid_t pid, int stream, int pidfd)
{
    b->pid = pid;
    b->stream = stream;
    b->pidfd = pidfd;
    if (uv_poll_init(&b->p->loop->uv, &b->stream_poll, stream) != 0) {
        return ERR_IO;
    }
    b->has_polls = true;
    b->stream_poll.data = b;
    closer_add(&b->closer);
    if (b->state == SB_LOCAL_SPAWNING) {
        sb_local_box_move(b, SB_LOCAL_STARTING, "spawned");
        b->poll_events = UV_READABLE;
        (void)uv_poll_start(&b->stream_poll, b->poll_events, on_stream);
    }
    return 0;
}

void sb_local_box_kill(struct sb_box *b)
{
    if (b->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGKILL, NULL, 0U);
    }
}

/* Nothing comes out of it any more. */
static void stream_stop(struct sb_box *b)
{
    if (b->has_polls) {
        (void)uv_poll_stop(&b->stream_poll);
        b->poll_events = 0;
    }
}

static void pool_leave(struct sb_box *b)
{
    if (list_link_is_in(&b->pool_link)) {
        list_remove(b->is_warm ? &b->p->warm : &b->p->parked, &b->pool_link);
    }
}

static void spawning_leave(struct sb_box *b)
{
    if (b->state <= SB_LOCAL_WARMING) {
        b->zygote->spawning--;
    }
}

/* Ends in on_closed. */
static void box_close(struct sb_box *b, const char *why)
{
    stream_stop(b);
    pool_leave(b);
    sb_local_box_move(b, SB_LOCAL_GONE, why);
    if (b->has_polls) {
        closer_close_one(&b->closer, (uv_handle_t *)&b->stream_poll);
    }
    if (b->has_pid_poll) {
        closer_close_one(&b->closer, (uv_handle_t *)&b->pid_poll);
    }
    closer_close_one(&b->closer, (uv_handle_t *)&b->timer);
    if (b->stream >= 0) {
        (void)close(b->stream);
    }
    if (b->pidfd >= 0) {
        (void)close(b->pidfd);
    }
    closer_finish(&b->closer);
}

static void dying_start(struct sb_box *b, const char *why)
{
    spawning_leave(b);
    pool_leave(b);
    stream_stop(b);
    sb_local_box_move(b, SB_LOCAL_DYING, why);
    sb_local_box_kill(b);
    (void)uv_timer_start(&b->timer, on_timer, SB_LOCAL_KILL_MS, 0);
}

void sb_local_box_retire(struct sb_box *b)
{
    if (b->state < SB_LOCAL_IDLE) {
        dying_start(b, "retired");
    }
}

void sb_local_box_destroy(struct sb_box *b, sb_destroyed_cb cb, void *ctx)
{
    REQUIRE(!b->is_destroyed && b->state >= SB_LOCAL_IDLE && b->state <= SB_LOCAL_DEAD);
    b->destroyed = cb;
    b->destroyed_ctx = ctx;
    b->is_destroyed = true;
    b->on_dead = NULL;
    if (b->state != SB_LOCAL_DEAD) {
        dying_start(b, "destroy");
    } else if (!b->has_run &&
               !b->has_file) { /* else its end is about to be reported from the timer */
        sb_local_box_end(b);
    }
}

void sb_local_box_end(struct sb_box *b)
{
    box_close(b, "destroyed");
}

static void why_set(struct sb_box *b, int status, bool is_oom)
{
    const char *what = NULL;
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (b->is_broken) {
        what = "it broke the protocol and was killed";
    } else if (b->is_killed_for_time) {
        (void)snprintf(b->why, sizeof(b->why),
                       b->stop == SB_LOCAL_STOP_TIME
                           ? "killed after %g s: time limit, and it did not stop when interrupted"
                           : "killed: it did not stop when interrupted",
                       (double)b->timeout_ms / 1000);
        return;
    } else if (is_oom && sig == SIGKILL) {
        (void)snprintf(b->why, sizeof(b->why), "out of memory: more than %llu MiB",
                       (unsigned long long)(b->p->cfg->local_memory_bytes >> 20));
        return;
    } else if (sig == SIGSYS) {
        what = "killed: it made a system call that is forbidden in a sandbox";
    } else if (b->zygote->is_dead) {
        what = "the process that holds the local sandboxes ended";
    } else if (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE ||
               sig == SIGABRT) {
        (void)snprintf(b->why, sizeof(b->why), "the interpreter crashed (signal %d, %s)", sig,
                       strsignal(sig));
        return;
    } else if (sig != 0) {
        (void)snprintf(b->why, sizeof(b->why), "the interpreter was killed (signal %d)", sig);
        return;
    } else {
        (void)snprintf(b->why, sizeof(b->why), "the interpreter exited (status %d)",
                       WEXITSTATUS(status));
        return;
    }
    (void)snprintf(b->why, sizeof(b->why), "%s", what);
}

static void lost_report(struct sb_box *b)
{
    struct err e;

    (void)err_set(&e, ERR_SANDBOX_LOST, "%s", b->why);
    if (b->has_file) {
        sb_local_file_finish(b, e.code, NULL, &e);
        return;
    }
    sb_local_run_finish(b, SB_END_LOST, &e);
}

static void idle_ended(struct sb_box *b)
{
    sb_local_box_move(b, SB_LOCAL_DEAD, "ended");
    if (b->on_dead != NULL) {
        b->on_dead(b->dead_ctx, b->why);
    }
}

/* After the rest of the socket has been delivered, in whose callbacks anything may have happened.
 */
static void busy_ended(struct sb_box *b)
{
    if (b->state == SB_LOCAL_IDLE) {
        idle_ended(b);
    } else if (b->state == SB_LOCAL_BUSY) {
        sb_local_box_move(b, SB_LOCAL_DEAD, "ended during a run");
        lost_report(b);
    } else if (b->state == SB_LOCAL_DYING) {
        if (b->has_run || b->has_file) {
            lost_report(b);
        }
        box_close(b, "destroyed");
    }
}

void sb_local_box_exited(struct sb_box *b, int status, bool is_oom)
{
    if (b->is_exit_known) {
        return;
    }
    b->is_exit_known = true;
    why_set(b, status, is_oom);
    (void)uv_timer_stop(&b->timer);
    stream_stop(b);
    switch (b->state) {
    case SB_LOCAL_SPAWNING:
    case SB_LOCAL_STARTING:
    case SB_LOCAL_WARMING:
        spawning_leave(b);
        box_close(b, "ended early");
        sb_local_serve_soon(b->p, SB_LOCAL_REFILL_MS);
        break;
    case SB_LOCAL_PARKED:
        box_close(b, "ended in the pool");
        sb_local_serve_soon(b->p, SB_LOCAL_REFILL_MS);
        break;
    case SB_LOCAL_IDLE:
        idle_ended(b);
        break;
    case SB_LOCAL_BUSY:
        sb_local_run_drain(b);
        busy_ended(b);
        break;
    case SB_LOCAL_DYING:
        if (b->has_run || b->has_file) {
            lost_report(b);
        }
        box_close(b, "destroyed");
        break;
    case SB_LOCAL_DEAD:
    case SB_LOCAL_GONE:
        break;
    }
}

static void on_pid(uv_poll_t *h, int status, int events)
{
    (void)status;
    (void)events;
    (void)uv_poll_stop(h);
    sb_local_box_exited(h->data, SIGKILL, false);
}

void sb_local_box_unwatched(struct sb_box *b)
{
    if (b->state == SB_LOCAL_GONE || b->is_exit_known) {
        return;
    }
    if (b->pidfd < 0) { /* never came to life */
        sb_local_box_exited(b, 0, false);
        return;
    }
    sb_local_box_retire(b); /* out of the pools at once */
    if (!b->has_pid_poll && uv_poll_init(&b->p->loop->uv, &b->pid_poll, b->pidfd) == 0) {
        b->has_pid_poll = true;
        b->pid_poll.data = b;
        closer_add(&b->closer);
        (void)uv_poll_start(&b->pid_poll, UV_READABLE, on_pid);
    }
    sb_local_box_kill(b); /* it has the order already; twice does no harm */
}
