/* loop.h - the event loop of a process: libuv loop, signals, drain sequence, loop-lag metric,
 * periodic tick.
 *
 * Threads: the loop thread only, unless said otherwise. Lifetime: one per daemon; embedded in its
 * main object. SIGTERM and SIGINT start the drain (on_drain once; a second signal or the drain
 * limit ends it hard); SIGHUP calls on_reload; SIGPIPE is ignored.
 *
 * Hard end: loop_run returns with is_forced set although handles are open. Then free nothing that
 * holds a handle; call loop_fini and leave the process with a non-zero status.
 *
 * Each second a loop with hooks sets the process metrics (lag, resident memory, uptime, failed soft
 * checks). */
#ifndef CFD_IO_LOOP_H
#define CFD_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "io/closer.h"

struct plane_set;

struct loop_hooks {
    void (*on_drain)(void *ctx);  /* stop taking work; call loop_stop when the last job ended */
    void (*on_reload)(void *ctx); /* may be NULL */
    void (*on_tick)(void *ctx);   /* every second, may be NULL */
    void *ctx;
};

struct loop {
    uv_loop_t uv;
    struct loop_hooks hooks;
    uv_signal_t sig_term, sig_int, sig_hup;
    uv_timer_t tick;
    uv_timer_t drain_limit;
    uv_check_t woke;     /* takes the time at which a poll returned */
    uv_prepare_t asleep; /* before the next poll: how long did the work take? */
    struct closer closer;
    bool is_draining;
    bool is_stopped;
    bool is_forced;
    bool is_main; /* it has hooks: the loop of a daemon */
    unsigned drain_ms;
    uint64_t lag_us; /* largest of the last full second */
    uint64_t lag_max_us;
    uint64_t tick_due_us;
    uint64_t woke_ms; /* uv_now at the last return from poll; 0 = not yet */
    uint64_t started_us;
    unsigned long soft_checks; /* already counted */
    int statm_fd;              /* /proc/self/statm, opened before the jail; -1 = none */
    struct plane_set *planes;  /* plane.c's per-loop state; NULL = no plane is open */
    void (*at_fini)(void);     /* set by plane.c: runs in loop_fini, where blocking is harmless */
};

/* `drain_ms`: how long a drain may take before the loop stops anyway. 0, or ERR_IO. */
int loop_init(struct loop *l, const struct loop_hooks *hooks, unsigned drain_ms);
/* Runs until loop_stop has been called and every handle is closed, or until the hard end. */
void loop_run(struct loop *l);
/* Closes the loop's own handles; the owner must close its own for loop_run to return. May be called
 * again. */
void loop_stop(struct loop *l);
/* The drain, as if SIGTERM had come. */
void loop_drain(struct loop *l);
/* After loop_run returned. REQUIREs that no handle is open (unless is_forced). Waits a short time
 * for messages that were sent last to leave the process. */
void loop_fini(struct loop *l);

int loop_err(int uv_code); /* uv code -> ERR_* */

#endif
