/* wk_timer.c - see wk_timer.h. Stopping leaves the uv timer armed: an early wake-up finds nothing
 * due. */
#include "wk_timer.h"

#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "io/loop.h"

static void on_uv_timer(uv_timer_t *h);

static void arm(struct wk_timers *ts)
{
    struct heap_node *first = heap_min(&ts->heap);
    uint64_t now = clock_ms();

    if (first == NULL || uv_is_closing((uv_handle_t *)&ts->uv) ||
        (ts->armed_ms != 0 && ts->armed_ms <= first->key)) {
        return;
    }
    ts->armed_ms = first->key;
    uv_update_time(ts->uv.loop);
    (void)uv_timer_start(&ts->uv, on_uv_timer, first->key > now ? first->key - now : 0, 0);
}

static void on_uv_timer(uv_timer_t *h)
{
    struct wk_timers *ts = h->data;
    struct heap_node *first;

    ts->armed_ms = 0;
    while ((first = heap_min(&ts->heap)) != NULL && first->key <= clock_ms()) {
        struct wk_timer *t = CONTAINER_OF(first, struct wk_timer, node);
        heap_remove(&ts->heap, first);
        t->fn(t);
    }
    arm(ts);
}

int wk_timers_start(struct wk_timers *ts, uv_loop_t *uv, struct closer *closer)
{
    int rc = uv_timer_init(uv, &ts->uv);

    if (rc != 0) {
        return loop_err(rc);
    }
    ts->uv.data = ts;
    closer_add(closer);
    return 0;
}

void wk_timers_stop(struct wk_timers *ts, struct closer *closer)
{
    heap_fini(&ts->heap);
    memset(&ts->heap, 0, sizeof(ts->heap));
    closer_close_one(closer, (uv_handle_t *)&ts->uv);
}

int wk_timer_set(struct wk_timers *ts, struct wk_timer *t, uint64_t at_ms,
                 void (*fn)(struct wk_timer *t))
{
    int rc;

    t->fn = fn;
    if ((rc = heap_put(&ts->heap, &t->node, at_ms)) == 0) {
        arm(ts);
    }
    return rc;
}

void wk_timer_stop(struct wk_timers *ts, struct wk_timer *t)
{
    heap_remove(&ts->heap, &t->node);
}
