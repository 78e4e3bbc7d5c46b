/* br_router.h - the sockets of the broker: one ROUTER on the run directory's ipc socket and, when
 * configured, one on tcp with CURVE. The only file that touches planes. A peer is (plane, routing
 * id).
 *
 * Threads:  loop thread.
 * Lifetime: br_router_close is asynchronous; no event after it.
 * Errors:   malformed frames arrive as BR_EV_BAD; a send that fails tells why.
 * Bounds:   the planes' high-water marks. */
#ifndef CFD_BROKER_BR_ROUTER_H
#define CFD_BROKER_BR_ROUTER_H

#include "br_core.h"
#include "config/cfg.h"
#include "io/loop.h"

struct br_router;

typedef void (*br_router_event_cb)(void *ctx, const struct br_event *ev);

/* Binds ipc://<run_dir>/broker.sock and cfg->broker_listen. `cfg` is borrowed during the call. */
int br_router_open(struct br_router **ret, struct loop *loop, const struct cfg *cfg,
                   br_router_event_cb on_event, void *ctx, struct err *e);
/* 0; ERR_NOT_FOUND: the peer is gone; ERR_AGAIN: it takes nothing. */
int br_router_send(struct br_router *r, const struct br_addr *to, struct str_view frame0,
                   struct buf *payload);
/* The endpoints that are bound; NULL beyond the last. Borrowed. */
const char *br_router_endpoint(const struct br_router *r, unsigned plane);
void br_router_close(struct br_router *r, void (*on_closed)(void *ctx), void *ctx);

#endif
