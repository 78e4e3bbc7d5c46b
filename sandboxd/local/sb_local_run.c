#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sb_local_int.h"
#include "sb_local_json.h"

static void poll_want(struct sb_box *b, int events)
{
    if (b->has_polls && b->poll_events != events && b->state != SB_LOCAL_GONE) {
        b->poll_events = events;
        (void)uv_poll_start(&b->stream_poll, events, b->stream_poll.poll_cb);
    }
}

/* ---- code out ----------------------------------------------------------------------------- */

/* Writes what the socket takes. */
static void code_write(struct sb_box *b)
{
    while (b->code != NULL) {
        size_t total = b->head_len + b->code->n;
        struct iovec iov[2];
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = 0};

        if (b->code_sent < b->head_len) {
            iov[m.msg_iovlen++] =
                (struct iovec){b->head + b->code_sent, b->head_len - b->code_sent};
        }
        size_t from = b->code_sent > b->head_len ? b->code_sent - b->head_len : 0;

        if (b->code->n > from) {
            struct iovec *v = &iov[m.msg_iovlen++];
            const char *at = b->code->p + from;

            memcpy(&v->iov_base, &at, sizeof(at)); /* sendmsg only reads it */
            v->iov_len = b->code->n - from;
        }
        ssize_t n = sendmsg(b->stream, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            poll_want(b, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (n < 0) { /* the child is gone; its exit is on the way */
            b->code_sent = total;
        } else {
            b->code_sent += (size_t)n;
        }
        if (b->code_sent == total) {
            buf_unref(b->code);
            b->code = NULL;
        }
    }
    poll_want(b, UV_READABLE);
}

void sb_local_run_start(struct sb_box *b, struct buf *code, uint32_t run, uint32_t timeout_ms)
{
    uint64_t cap = run != 0 ? b->p->cfg->local_output_max_bytes : 0;
    struct zyp_run head = {run, (uint32_t)b->p->cfg->local_cpu_s, cap};

    b->run = run;
    b->output_left = cap;
    b->timeout_ms = timeout_ms;
    b->stop = SB_LOCAL_STOP_NONE;
    b->is_truncated = false;
    memset(b->text, 0, sizeof(b->text));
    b->code = buf_ref(code);
    b->code_sent = 0;
    b->head_len = sizeof(b->head);
    zyp_frame_encode(b->head, ZYP_FRAME_RUN, (uint32_t)(ZYP_RUN_HEAD + code->n));
    zyp_run_encode(b->head + ZYP_FRAME_HEAD, &head);
    (void)uv_timer_start(&b->timer, b->timer.timer_cb, timeout_ms, 0);
    code_write(b);
}

void sb_local_file_send(struct sb_box *b, struct buf *body)
{
    b->code = buf_ref(body);
    b->code_sent = 0;
    b->head_len = ZYP_FRAME_HEAD;
    zyp_frame_encode(b->head, ZYP_FRAME_FILE, (uint32_t)body->n);
    code_write(b);
}

/* ---- stopping ----------------------------------------------------------------------------- */

static void nudge(struct sb_box *b)
{
    (void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGINT, NULL, 0U);
    (void)uv_timer_start(&b->timer, b->timer.timer_cb, SB_LOCAL_NUDGE_MS, 0);
}

void sb_local_run_interrupt(struct sb_box *b, enum sb_local_stop why)
{
    if (b->state != SB_LOCAL_BUSY || b->has_file || b->stop != SB_LOCAL_STOP_NONE) {
        return;
    }
    b->stop = why;
    b->kill_at_ms = clock_ms() + SB_LOCAL_GRACE_MS;
    nudge(b);
}

void sb_local_run_on_timer(struct sb_box *b)
{
    if (b->state == SB_LOCAL_WARMING) { /* a warm-up that hangs is no use */
        sb_local_box_retire(b);
        return;
    }
    if (b->has_file) {
        bool is_last = b->state == SB_LOCAL_DEAD && b->is_destroyed;

        sb_local_file_on_timer(b);
        if (is_last) { /* as below */
            sb_local_box_end(b);
        }
        return;
    }
    if (b->state == SB_LOCAL_DEAD && b->has_run) { /* run() of a dead box, answered here */
        struct err e;

        (void)err_set(&e, ERR_SANDBOX_LOST, "%s", b->why);
        bool was_destroyed = b->is_destroyed;

        sb_local_run_finish(b, SB_END_LOST, &e);
        if (was_destroyed) { /* a destroy from inside the callback has closed it itself */
            sb_local_box_end(b);
        }
        return;
    }
    if (b->state != SB_LOCAL_BUSY) {
        return;
    }
    if (b->stop == SB_LOCAL_STOP_NONE) {
        sb_local_run_interrupt(b, SB_LOCAL_STOP_TIME);
    } else if (clock_ms() < b->kill_at_ms) {
        nudge(b);
    } else {
        b->is_killed_for_time = true;
        sb_local_box_kill(b);
    }
}

/* ---- events in ---------------------------------------------------------------------------- */

void sb_local_run_finish(struct sb_box *b, enum sb_end end, const struct err *e)
{
    static const struct err none;
    struct sb_run_hooks hooks = b->hooks;
    bool is_truncated = b->is_truncated;

    if (b->state < SB_LOCAL_DEAD) { /* a dying box hears nothing but the end */
        for (unsigned i = 0; i < 2; i++) {
            struct str_view rest = sb_local_text_end(&b->text[i]);

            if (rest.n > 0 && !is_truncated && b->has_run && b->state < SB_LOCAL_DEAD) {
                hooks.on_event(hooks.ctx, i == 0 ? SB_EVENT_STDOUT : SB_EVENT_STDERR, rest);
            }
        }
    }
    if (!b->has_run) {
        return;
    }
    b->has_run = false;
    buf_unref(b->code);
    b->code = NULL;
    if (b->state != SB_LOCAL_DYING) {
        (void)uv_timer_stop(&b->timer);
    }
    if (b->state == SB_LOCAL_BUSY) {
        sb_local_box_move(b, SB_LOCAL_IDLE, "end");
    }
    hooks.on_end(hooks.ctx, end, is_truncated, e != NULL ? e : &none);
}

static void broken(struct sb_box *b)
{
    b->is_broken = true;
    (void)uv_poll_stop(&b->stream_poll);
    b->poll_events = 0;
    sb_local_box_kill(b);
}

/* Takes n bytes of output off the cap; false = no room, mark and drop. */
static bool output_take(struct sb_box *b, size_t n)
{
    if (n > b->output_left) {
        b->is_truncated = true;
        return false;
    }
    b->output_left -= n;
    return true;
}

static void on_text(struct sb_box *b, unsigned which, struct str_view data)
{
    struct str_view clean;

    if (data.n > b->output_left) {
        data.n = (size_t)b->output_left;
        b->is_truncated = true;
    }
    b->output_left -= data.n;
    if (sb_local_text_put(&b->text[which], data, &b->p->scratch, &clean) == 0 && clean.n > 0) {
        b->hooks.on_event(b->hooks.ctx, which == 0 ? SB_EVENT_STDOUT : SB_EVENT_STDERR, clean);
    }
}

/* False when the frame was nonsense. */
static bool on_json(struct sb_box *b, enum sb_event_kind kind, struct str_view data)
{
    struct bytes *out = &b->p->scratch;
    int rc = 0;

    if (!output_take(b, data.n)) {
        return true;
    }
    rc = kind == SB_EVENT_DISPLAY ? sb_local_json_display(data, out)
                                  : sb_local_json_exception(data, out);
    if (rc == 0) {
        b->hooks.on_event(b->hooks.ctx, kind, (struct str_view){out->p, out->n});
    }
    return rc != ERR_INVALID_JSON;
}

static bool on_count(struct sb_box *b, struct str_view data)
{
    uint64_t n = 0;
    char text[24];

    if (zyp_u64_decode(&n, data.p, data.n) != 0) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    b->hooks.on_event(b->hooks.ctx, SB_EVENT_COUNT, sv_of(text));
    return true;
}

static bool on_changed(struct sb_box *b, struct str_view data)
{
    struct bytes *out = &b->p->scratch;
    int rc = sb_local_file_entries(data, out);

    if (rc == 0) {
        b->hooks.on_event(b->hooks.ctx, SB_EVENT_FILES, (struct str_view){out->p, out->n});
    }
    return rc != ERR_INVALID;
}

static bool on_run_end(struct sb_box *b, struct str_view data)
{
    struct zyp_end end;
    struct err e;

    if (zyp_end_decode(&end, data.p, data.n) != 0 || end.run != b->run) {
        return false;
    }
    if (b->state == SB_LOCAL_WARMING) {
        (void)uv_timer_stop(&b->timer);
        b->is_warm = true;
        sb_local_on_ready(b);
        return true;
    }
    b->is_truncated = b->is_truncated || (end.flags & ZYP_END_TRUNCATED) != 0;
    if (b->stop == SB_LOCAL_STOP_TIME) {
        (void)err_set(&e, ERR_DEADLINE, "stopped after %g s: time limit",
                      (double)b->timeout_ms / 1000);
        sb_local_run_finish(b, SB_END_TIMEOUT, &e);
    } else if (b->stop == SB_LOCAL_STOP_INTERRUPT) {
        (void)err_set(&e, ERR_CANCELLED, "interrupted");
        sb_local_run_finish(b, SB_END_INTERRUPTED, &e);
    } else {
        sb_local_run_finish(b, SB_END_OK, NULL);
    }
    return true;
}

/* One whole frame. False = the child broke the protocol. */
static bool on_frame(struct sb_box *b, enum zyp_frame_type type, struct str_view data)
{
    bool has_run = b->state == SB_LOCAL_BUSY && b->has_run;

    switch (type) {
    case ZYP_FRAME_READY:
        if (b->state != SB_LOCAL_STARTING) {
            return false;
        }
        sb_local_on_ready(b);
        return true;
    case ZYP_FRAME_FAILED:
        if (b->state != SB_LOCAL_STARTING) {
            return false;
        }
        (void)sv_copy(b->why, sizeof(b->why), data);
        sb_local_spawn_failed(b->p, b->why);
        return true;
    case ZYP_FRAME_STDOUT:
    case ZYP_FRAME_STDERR:
        if (has_run) {
            on_text(b, type == ZYP_FRAME_STDOUT ? 0 : 1, data);
        }
        return has_run || b->state == SB_LOCAL_WARMING;
    case ZYP_FRAME_DISPLAY:
        return has_run ? on_json(b, SB_EVENT_DISPLAY, data) : b->state == SB_LOCAL_WARMING;
    case ZYP_FRAME_EXCEPTION:
        return has_run ? on_json(b, SB_EVENT_EXCEPTION, data) : b->state == SB_LOCAL_WARMING;
    case ZYP_FRAME_COUNT:
        return has_run ? on_count(b, data) : b->state == SB_LOCAL_WARMING;
    case ZYP_FRAME_END:
        return (has_run || b->state == SB_LOCAL_WARMING) && on_run_end(b, data);
    case ZYP_FRAME_CHANGED:
        return has_run && on_changed(b, data);
    case ZYP_FRAME_FILE_REPLY:
        return b->state == SB_LOCAL_BUSY && sb_local_file_on_reply(b, data);
    case ZYP_FRAME_RUN:
    case ZYP_FRAME_FILE:
        return false;
    }
    return false;
}

/* Frames at p[0..n); returns the bytes used, or -1 when the child broke the protocol. Stops when
 * the box may not hear more. */
static long frames_take(struct sb_box *b, const char *p, size_t n)
{
    size_t at = 0;
    struct zyp_frame f;

    while (b->state < SB_LOCAL_DEAD) {
        int rc = zyp_frame_decode(&f, p + at, n - at, true);

        if (rc == ZYP_SHORT) {
            break;
        }
        if (rc != 0 || (f.len > b->p->cfg->local_output_max_bytes + ZYP_STREAM_MAX &&
                        f.type != ZYP_FRAME_FILE_REPLY && f.type != ZYP_FRAME_CHANGED)) {
            return -1;
        }
        if (n - at - ZYP_FRAME_HEAD < f.len) {
            break;
        }
        if (!on_frame(b, f.type, (struct str_view){p + at + ZYP_FRAME_HEAD, f.len})) {
            return -1;
        }
        at += ZYP_FRAME_HEAD + f.len;
    }
    return (long)at;
}

/* 1 = something was read, 0 = nothing there now, -1 = end or broken. */
static int stream_read(struct sb_box *b)
{
    char *shared = b->p->read_buf;
    ssize_t n = recv(b->stream, shared, SB_LOCAL_READ_BYTES, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return -1;
    }
    const char *p = shared;
    size_t len = (size_t)n;

    if (b->in.n > 0) {
        if (bytes_put(&b->in, shared, len) != 0) {
            broken(b);
            return -1;
        }
        p = b->in.p;
        len = b->in.n;
    }
    long used = frames_take(b, p, len);

    if (used < 0) {
        if (b->state < SB_LOCAL_DEAD) {
            broken(b);
        }
        return -1;
    }
    if (b->in.n > 0) {
        bytes_drop(&b->in, (size_t)used);
        if (b->in.n == 0) {
            bytes_fini(&b->in);
            bytes_init(&b->in, (size_t)ZYP_DISPLAY_MAX + SB_LOCAL_READ_BYTES + ZYP_FRAME_HEAD);
        }
    } else if ((size_t)used < len && bytes_put(&b->in, p + used, len - (size_t)used) != 0) {
        broken(b);
        return -1;
    }
    return 1;
}

void sb_local_run_on_stream(struct sb_box *b, int events)
{
    int rc = 1;

    if ((events & UV_WRITABLE) != 0 && b->code != NULL) {
        code_write(b);
    }
    for (int i = 0; i < SB_LOCAL_READ_TURNS && rc > 0 && b->state < SB_LOCAL_DEAD; i++) {
        rc = stream_read(b);
    }
    if (rc < 0 && b->state < SB_LOCAL_DEAD && b->poll_events != 0) {
        /* the socket's end: its exit is on the way, or it only closed the socket and has to go */
        (void)uv_poll_stop(&b->stream_poll);
        b->poll_events = 0;
        sb_local_box_kill(b);
    }
}

void sb_local_run_drain(struct sb_box *b)
{
    for (int i = 0; b->state == SB_LOCAL_BUSY && i < 4096 && stream_read(b) > 0; i++) {
    }
}
