/* link.h - a peer's link to the broker: a DEALER plane with HELLO/WELCOME, heartbeats and
 * reconnect. Used by frontend, worker and sandboxd.
 *
 *   DOWN --transport up--> GREETING (HELLO sent) --WELCOME--> UP
 *   GREETING, UP --transport lost, broker silent, BYE--> DOWN
 *
 * A WELCOME that does not come within LINK_WELCOME_MS starts over with a new HELLO. While UP,
 * silence of the broker for liveness x heartbeat_ms (both from WELCOME) means it is dead. After a
 * BYE the next HELLO waits LINK_BYE_WAIT_MS. The link itself logs LINK_UP, LINK_DOWN and PEER_BAD.
 *
 * Threads: loop thread. Lifetime: link_close is asynchronous. Only while UP does link_send pass
 * messages on; else ERR_AGAIN, and the owner keeps or refuses its own work (nothing is queued here
 * without the owner knowing). */
#ifndef CFD_IO_LINK_H
#define CFD_IO_LINK_H

#include "io/plane.h"

#define LINK_WELCOME_MS  3000U
#define LINK_BYE_WAIT_MS 1000U
#define LINK_STATS_MS    1000U

struct link;

struct link_hooks {
    /* Fills what HELLO says now: payload (worker's running jobs) may be set to an owned buf, moved
     * to the link. May be NULL. */
    void (*on_greet)(void *ctx, struct buf **ret_payload);
    /* WELCOME came. `is_new_broker`: its instance differs from the last one seen (true the first
     * time). */
    void (*on_up)(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w);
    void (*on_down)(void *ctx);
    /* While UP, every message but WELCOME; HEARTBEAT is passed on too (its counts matter to
     * frontends). BYE comes before the on_down that it causes. */
    void (*on_msg)(void *ctx, const struct plane_in *in);
    uint32_t (*on_load)(void *ctx); /* for HEARTBEAT.load; may be NULL */
    /* Metrics text for STATS, appended to `out` about once a second; may be NULL. */
    void (*on_stats)(void *ctx, struct bytes *out);
    void (*on_writable)(void *ctx); /* after ERR_AGAIN while UP */
    void *ctx;
};

struct link_opts {
    const char *endpoint;
    enum msg_role role;
    const char *name;         /* process name; also the routing id prefix */
    const char *own_endpoint; /* frontend's return endpoint, else "" */
    uint32_t capacity;
    const struct plane_curve *curve; /* NULL = none */
};

int link_open(struct link **ret, struct loop *loop, const struct link_opts *opts,
              const struct link_hooks *hooks, struct err *e);
bool link_is_up(const struct link *l);
int link_send(struct link *l, struct str_view frame0, struct buf *payload);
/* Sends BYE: no more work, please. Messages still pass; a later reconnect says it again after
 * HELLO. */
void link_say_bye(struct link *l);
/* May be called from any callback of the link. No callback but on_closed (may be NULL) comes after
 * it. */
void link_close(struct link *l, void (*on_closed)(void *ctx), void *ctx);

#endif
