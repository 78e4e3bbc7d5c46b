/* fe_server.h - the listeners: where they come from, how many connections, when to pause.
 *
 * Listeners are inherited (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES "http" and "admin"; without names
 * the first is http and the second admin) or bound from the configuration. At limits.connections
 * the next connection stays un-accepted until one ends. When descriptors run out, libuv's reserve
 * descriptor sheds the waiting connections; it is counted. */
#ifndef CFD_FRONTEND_FE_SERVER_H
#define CFD_FRONTEND_FE_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "io/closer.h"

struct fe;

struct fe_listener {
    struct fe_server *server;
    uv_tcp_t tcp;
    bool is_open;
    bool is_admin;
    bool is_paused; /* a connection waits un-accepted */
};

struct fe_server {
    struct fe *fe;
    struct fe_listener listeners[2]; /* http, admin */
    struct closer closer;
    struct list conns;  /* struct fe_conn.link */
    unsigned conns_max; /* by the descriptor limit */
};

int fe_server_open(struct fe_server *s, struct fe *fe, struct err *e);
/* Stops accepting and closes idle connections; running ones go on. */
void fe_server_drain(struct fe_server *s);
/* Closes everything. */
void fe_server_close(struct fe_server *s);
/* "host:port" really listened on, or "". */
void fe_server_address(const struct fe_server *s, bool is_admin, char *dst, size_t cap);
/* A connection ended: accept the one that waits. */
void fe_server_on_conn_gone(struct fe_server *s);

#endif
