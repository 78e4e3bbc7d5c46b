/* wk_return.h - connections to the frontends' return endpoints, one DEALER each, shared by all jobs
 * of that frontend.
 *
 * Threads:  loop thread. Lifetime: a connection stays open while jobs hold it and WK_RETURN_IDLE_MS
 *           longer.
 * Errors:   ERR_INVALID for an endpoint that is neither ipc:// nor tcp://; ERR_LIMIT when
 *           WK_RETURN_MAX are in use.
 * Bounds:   WK_RETURN_MAX connections; an idle one makes room. */
#ifndef CFD_WORKERS_WK_RETURN_H
#define CFD_WORKERS_WK_RETURN_H

#include "base/list.h"
#include "io/plane.h"

#define WK_RETURN_MAX     256
#define WK_RETURN_IDLE_MS 60000

struct wk_return;
struct wk_conn;

/* Someone who waits for a connection to take more; zeroed = not waiting. */
struct wk_waiter {
    struct list_link link;
    struct wk_conn *conn;
    void (*fn)(struct wk_waiter *w);
};

struct wk_return_opts {
    struct loop *loop;
    const char *routing_id;          /* copied */
    const struct plane_curve *curve; /* for tcp://; NULL = none; borrowed until wk_return_close */
    void (*on_msg)(void *ctx, const struct plane_in *in);
    void *ctx;
};

int wk_return_new(struct wk_return **ret, const struct wk_return_opts *o);
/* A connection to `endpoint`, with a reference for the caller. */
int wk_return_take(struct wk_return *r, struct wk_conn **ret, struct str_view endpoint,
                   struct err *e);
void wk_return_drop(struct wk_conn *c); /* gives the reference back; accepts NULL */
/* As plane_send. After ERR_AGAIN register with wk_return_wait. */
int wk_return_send(struct wk_conn *c, struct str_view frame0, struct buf *payload);
/* `fn` runs once when the connection takes more; registering twice is harmless. */
void wk_return_wait(struct wk_conn *c, struct wk_waiter *w, void (*fn)(struct wk_waiter *w));
void wk_return_unwait(struct wk_waiter *w);
void wk_return_tick(struct wk_return *r, uint64_t now_ms); /* closes idle ones */
void wk_return_close(struct wk_return *r, void (*on_closed)(void *ctx), void *ctx);

#endif
