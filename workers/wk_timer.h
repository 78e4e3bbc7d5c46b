/* wk_timer.h - many deadlines on one uv timer. Loop thread.
 *
 * A zeroed wk_timer is stopped. `fn` runs with the timer stopped, and may set it again or free its
 * owner. */
#ifndef CFD_WORKERS_WK_TIMER_H
#define CFD_WORKERS_WK_TIMER_H

#include <uv.h>

#include "base/heap.h"
#include "io/closer.h"

struct wk_timer {
    struct heap_node node;
    void (*fn)(struct wk_timer *t);
};

struct wk_timers {
    struct heap heap;
    uv_timer_t uv;
    uint64_t armed_ms; /* when the uv timer fires, 0 = not armed */
};

int wk_timers_start(struct wk_timers *ts, uv_loop_t *uv, struct closer *closer);
void wk_timers_stop(struct wk_timers *ts,
                    struct closer *closer); /* closes the uv timer; no fn runs any more */
/* Sets or moves; `at_ms` on clock_ms. ERR_NOMEM. */
int wk_timer_set(struct wk_timers *ts, struct wk_timer *t, uint64_t at_ms,
                 void (*fn)(struct wk_timer *t));
void wk_timer_stop(struct wk_timers *ts, struct wk_timer *t);

#endif
