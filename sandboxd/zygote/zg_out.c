#include "zg_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "zg_jail.h"
#include "zg_util.h"

#define HOLD_BYTES  32768U
#define HOLD_MS     4
#define DRAIN_BYTES 65536U
#define DRAIN_TURNS 4 /* a fast writer must not keep the lock for ever */

enum out_mode {
    OUT_OFF,   /* in the zygote */
    OUT_CHILD, /* in a sandbox */
    OUT_FORKED /* in a process that user code forked */
};

static struct {
    pthread_mutex_t lock;
    enum out_mode mode;
    bool is_running;  /* between run_begin and run_end */
    bool is_ignoring; /* the thread has left the pipes out of its poll set */
    bool is_truncated;
    uint32_t run;
    uint64_t left; /* bytes of the cap not used yet */
    enum zyp_frame_type held_type;
    size_t held;
    int64_t last_ms; /* last send of text */
    char hold[HOLD_BYTES];
    char drain[DRAIN_BYTES];
} out = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void bytes_send(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = send(ZG_FD_STREAM, p, n, MSG_NOSIGNAL);

        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w < 0) {
            _exit(0); /* the owner is gone */
        }
        p += w;
        n -= (size_t)w;
    }
}

void zg_out_send(enum zyp_frame_type type, const void *p, size_t n)
{
    char small[ZYP_FRAME_HEAD + 1024]; /* short frames leave with one copy and one call */
    size_t with = n <= sizeof(small) - ZYP_FRAME_HEAD ? n : 0;

    zyp_frame_encode((uint8_t *)small, type, (uint32_t)n);
    if (with > 0) {
        memcpy(small + ZYP_FRAME_HEAD, p, with);
    }
    bytes_send(small, ZYP_FRAME_HEAD + with);
    bytes_send((const char *)p + with, n - with);
}

/* Text within the cap, in frames of bounded size. */
static void text_send(enum zyp_frame_type type, const char *p, size_t n)
{
    if (n > out.left) {
        n = (size_t)out.left;
        out.is_truncated = true;
    }
    out.left -= n;
    while (n > 0) {
        size_t step = n < ZYP_STREAM_MAX ? n : ZYP_STREAM_MAX;

        zg_out_send(type, p, step);
        p += step;
        n -= step;
    }
}

static void hold_flush(void)
{
    size_t n = out.held;

    out.held = 0;
    if (n > 0) {
        text_send(out.held_type, out.hold, n);
        out.last_ms = now_ms();
    }
}

static void pipe_drain(int fd, enum zyp_frame_type type)
{
    for (int i = 0; i < DRAIN_TURNS; i++) {
        ssize_t n = read(fd, out.drain, sizeof(out.drain));

        if (n <= 0) {
            return;
        }
        hold_flush();
        text_send(type, out.drain, (size_t)n);
        if ((size_t)n < sizeof(out.drain)) {
            return;
        }
    }
}

static void pipes_drain(void)
{
    pipe_drain(ZG_FD_OUT, ZYP_FRAME_STDOUT);
    pipe_drain(ZG_FD_ERR, ZYP_FRAME_STDERR);
}

static void thread_wake(void)
{
    uint64_t one = 1;

    (void)!write(ZG_FD_WAKE, &one, sizeof(one));
}

static void *thread_main(void *arg)
{
    struct pollfd fds[4] = {{ZG_FD_STREAM, POLLRDHUP, 0},
                            {ZG_FD_WAKE, POLLIN, 0},
                            {ZG_FD_OUT, POLLIN, 0},
                            {ZG_FD_ERR, POLLIN, 0}};
    uint64_t count;

    for (;;) {
        (void)pthread_mutex_lock(&out.lock);
        int timeout = out.is_running && out.held > 0 ? HOLD_MS : -1;
        nfds_t n = out.is_ignoring ? 2 : 4;
        (void)pthread_mutex_unlock(&out.lock);

        int rc = poll(fds, n, timeout);

        if (rc > 0 && (fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
            _exit(0); /* the owner is gone; as the namespace's first process we take all others
                         along */
        }
        if (rc > 0 && (fds[1].revents & POLLIN) != 0) {
            (void)!read(ZG_FD_WAKE, &count, sizeof(count));
        }
        bool is_readable = n == 4 && ((fds[2].revents | fds[3].revents) & POLLIN) != 0;

        (void)pthread_mutex_lock(&out.lock);
        if (out.is_running) {
            pipes_drain();
            if (rc == 0) {
                hold_flush();
            }
        } else if (is_readable) {
            out.is_ignoring = true;
        }
        (void)pthread_mutex_unlock(&out.lock);
    }
    return arg;
}

void zg_out_init(void)
{
    out.mode = OUT_CHILD;
}

bool zg_out_is_off(void)
{
    return out.mode == OUT_OFF;
}

int zg_out_start(void)
{
    pthread_attr_t attr;
    pthread_t t;
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, 256U << 10);
    int rc = pthread_create(&t, &attr, thread_main, NULL);

    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

void zg_out_run_begin(uint32_t run, uint64_t cap)
{
    (void)pthread_mutex_lock(&out.lock);
    out.run = run;
    out.left = cap;
    out.is_truncated = false;
    out.is_running = true;
    out.last_ms = 0;
    if (out.is_ignoring) {
        out.is_ignoring = false;
        thread_wake();
    }
    pipes_drain();
    hold_flush();
    (void)pthread_mutex_unlock(&out.lock);
}

void zg_out_run_end(void)
{
    uint8_t end[8];

    if (out.mode != OUT_CHILD) {
        return;
    }
    (void)pthread_mutex_lock(&out.lock);
    pipes_drain();
    hold_flush();
    out.is_running = false;
    zyp_end_encode(end, &(struct zyp_end){out.run, out.is_truncated ? ZYP_END_TRUNCATED : 0});
    zg_out_send(ZYP_FRAME_END, end, sizeof(end));
    (void)pthread_mutex_unlock(&out.lock);
}

/* Sends at once when nothing went out lately, else holds back for the thread, so that a loop of
 * prints costs a frame per HOLD_MS and a single print no delay. */
static void text_put(enum zyp_frame_type type, const char *p, size_t n)
{
    if (out.held > 0 && (out.held_type != type || out.held + n > HOLD_BYTES)) {
        hold_flush();
    }
    int64_t now = now_ms();

    if (n > HOLD_BYTES || (out.held == 0 && now - out.last_ms > HOLD_MS)) {
        text_send(type, p, n);
        out.last_ms = now;
        return;
    }
    memcpy(out.hold + out.held, p, n);
    out.held_type = type;
    out.held += n;
    if (out.held == n) {
        thread_wake();
    }
}

void zg_out_write(enum zyp_frame_type type, const void *p, size_t n)
{
    if (out.mode == OUT_FORKED) {
        (void)zg_write_all(type == ZYP_FRAME_STDOUT ? 1 : 2, p, n);
        return;
    }
    if (out.mode == OUT_OFF || n == 0) {
        return;
    }
    (void)pthread_mutex_lock(&out.lock);
    if (out.is_running) {
        pipes_drain();
        text_put(type, p, n);
    } else if ((out.held == 0 || out.held_type == type) && out.held + n <= HOLD_BYTES) {
        memcpy(out.hold + out.held, p,
               n); /* a thread of an earlier cell: shown with the next one */
        out.held_type = type;
        out.held += n;
    }
    (void)pthread_mutex_unlock(&out.lock);
}

bool zg_out_emit(enum zyp_frame_type type, const void *p, size_t n)
{
    bool is_sent = false;
    bool is_free = type == ZYP_FRAME_COUNT || type == ZYP_FRAME_CHANGED; /* not output */

    if (out.mode != OUT_CHILD) {
        return false;
    }
    (void)pthread_mutex_lock(&out.lock);
    if (out.is_running) {
        pipes_drain();
        hold_flush();
        if (n <= zyp_frame_limit(type) && (n <= out.left || is_free)) {
            out.left -= is_free ? 0 : n;
            zg_out_send(type, p, n);
            is_sent = true;
        } else {
            out.is_truncated = true;
        }
    }
    (void)pthread_mutex_unlock(&out.lock);
    return is_sent;
}

void zg_out_forked(void)
{
    out.mode = OUT_FORKED;
    (void)close(ZG_FD_STREAM);
    (void)close(ZG_FD_OUT);
    (void)close(ZG_FD_ERR);
    (void)close(ZG_FD_WAKE);
}
