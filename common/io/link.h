/* link.h - a peer's link to the broker: a DEALER plane with HELLO/WELCOME, heartbeats and reconnect. Used by frontend,
 * worker and sandboxd.
 *
 *   DOWN --transport up--> GREETING (HELLO sent) --WELCOME--> UP
 *   GREETING, UP --transport lost, broker silent, BYE--> DOWN
 *
 * Threads: loop thread. Lifetime: link_close is asynchronous. Only while UP does link_send pass messages on; else
 * ERR_AGAIN, and the owner keeps or refuses its own work (nothing is queued here without the owner knowing). */
#ifndef CFD_IO_LINK_H
#define CFD_IO_LINK_H

#include "io/plane.h"

struct link;

struct link_hooks {
    /* Fills what HELLO says now: payload (worker's running jobs) may be set to an owned buf, moved to the link. */
    void (*on_greet)(void *ctx, struct buf **ret_payload);
    /* WELCOME came. `is_new_broker`: its instance differs from the last one seen (true the first time). */
    void (*on_up)(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w);
    void (*on_down)(void *ctx);
    /* Every message but WELCOME; HEARTBEAT is passed on too (its counts matter to frontends). */
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
    const char *name;          /* process name; also the routing id prefix */
    const char *own_endpoint;  /* frontend's return endpoint, else "" */
    uint32_t capacity;
    const struct plane_curve *curve;
};

int link_open(struct link **ret, struct loop *loop, const struct link_opts *opts, const struct link_hooks *hooks,
              struct err *e);
bool link_is_up(const struct link *l);
int link_send(struct link *l, struct str_view frame0, struct buf *payload);
/* Sends BYE: no more work, please. */
void link_say_bye(struct link *l);
void link_close(struct link *l, void (*on_closed)(void *ctx), void *ctx);

#endif
