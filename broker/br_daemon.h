/* br_daemon.h - the shell around br_core: sockets, timer, process watches, configuration, log. It
 * decides nothing.
 *
 * Threads:  the loop's thread.
 * Lifetime: br_daemon_start .. on_stopped (after br_daemon_drain, or when asked to stop); then its
 * storage is gone. Errors:   start-up errors are returned; later ones are logged. */
#ifndef CFD_BROKER_BR_DAEMON_H
#define CFD_BROKER_BR_DAEMON_H

#include "br_core.h"
#include "config/cfg.h"
#include "io/loop.h"

struct br_daemon;

struct br_daemon_opts {
    const char *name;              /* copied */
    struct cfg *cfg;               /* borrowed during the call */
    void (*on_stopped)(void *ctx); /* everything is closed */
    void *ctx;
};

/* Binds and serves on `loop`. The owner's loop hooks call reload and drain. */
int br_daemon_start(struct br_daemon **ret, struct loop *loop, const struct br_daemon_opts *opts,
                    struct err *e);
/* Takes the limits of a new configuration. */
void br_daemon_reload(struct br_daemon *d, struct cfg *cfg);
/* Finishes what runs, says BYE, stops; at most `limit_ms`. */
void br_daemon_drain(struct br_daemon *d, unsigned limit_ms);
/* Endpoint of plane 0 (ipc) or 1 (tcp), NULL = not bound. Borrowed. */
const char *br_daemon_endpoint(const struct br_daemon *d, unsigned plane);
/* The limits a configuration means. */
void br_daemon_limits(struct br_limits *ret, const struct cfg *cfg);

#endif
