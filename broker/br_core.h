/* br_core.h - the broker's whole decision logic: an event goes in, a list of things to do comes
 * out. Pure: no I/O, no clock, no event loop; time is an argument. br_daemon.c is the shell around
 * it, tests/sim drives it in virtual time.
 *
 * Threads:  one at a time.
 * Lifetime: br_core_new .. br_core_free. The actions of a step, and everything they point to, live
 * until the next step. Errors:   a peer's mistake drops that peer (BYE) and is counted; a lack of
 * memory refuses the job or drops the peer that would miss a message, so that both resynchronise by
 * HELLO. Bounds:   br_limits: peers, queued jobs in all and per tenant, queued bytes, calls per
 * worker. */
#ifndef CFD_BROKER_BR_CORE_H
#define CFD_BROKER_BR_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/msg.h"

#define BR_PEER_ID_MAX  255        /* bytes of a routing id */
#define BR_ATTEMPTS_MAX 2          /* dispatches of one request */
#define BR_CALL_OWN     UINT32_MAX /* `call` of the broker's own CLOSE */

struct br_core;

/* Which tenant is next when a worker is free. */
enum br_fair {
    BR_FAIR_IN_FLIGHT,  /* the one with the fewest jobs at workers; ties take turns */
    BR_FAIR_ROUND_ROBIN /* strictly in turn */
};

struct br_limits {
    unsigned peers_max;
    unsigned queue_max;            /* jobs waiting in all */
    unsigned per_key_max;          /* jobs waiting per tenant */
    uint64_t queue_bytes_max;      /* bodies waiting in all */
    unsigned queue_wait_ms;        /* longest wait for a worker */
    unsigned calls_per_worker_max; /* sandbox calls in flight */
    unsigned heartbeat_ms;
    unsigned liveness;    /* missed heartbeats that mean death */
    unsigned grace_ms;    /* a resubmitted job waits so long for a worker's claim */
    unsigned limbo_ms;    /* a lost or claimed job waits so long for its frontend */
    unsigned sbx_wait_ms; /* a sandbox call waits so long for a sandboxd to come (back) */
    enum br_fair fair;
};

struct br_setup {
    struct br_limits limits;
    struct msg_id16 instance; /* random, new at each start */
    uint64_t pid_ns;          /* own pid namespace, 0 = pids cannot be watched */
    uint64_t now_ms;
};

/* Where a peer is: which plane of the router, and its routing id there. */
struct br_addr {
    unsigned plane;
    struct str_view id; /* borrowed */
};

enum br_event_kind {
    BR_EV_MSG,         /* from, head, frame0, fields, payload */
    BR_EV_BAD,         /* from, code: the transport got something that is not a message */
    BR_EV_EXITED,      /* peer: its process ended (pidfd) */
    BR_EV_UNREACHABLE, /* peer: an action could not be sent to it */
    BR_EV_TICK,        /* time passed: br_core_next_due */
    BR_EV_LIMITS,      /* limits: new ones take effect */
    BR_EV_DRAIN        /* drain_ms: finish what runs, at most so long, then BYE to all and STOP */
};

struct br_event {
    enum br_event_kind kind;
    struct br_addr from; /* borrowed */
    struct msg_head head;
    struct str_view frame0; /* borrowed until the actions were carried out */
    struct str_view fields; /* borrowed */
    struct buf *payload;    /* borrowed; the core takes references */
    int code;
    uint64_t peer;
    const struct br_limits *limits; /* borrowed */
    unsigned drain_ms;
};

enum br_act_kind {
    BR_ACT_SEND,    /* to, peer, frame0, payload */
    BR_ACT_WATCH,   /* peer, pid: tell BR_EV_EXITED when this process ends */
    BR_ACT_UNWATCH, /* peer */
    BR_ACT_STATS,   /* to, peer, call, what: render and answer STATS_REPLY */
    BR_ACT_NOTE,    /* note and its fields: for the log */
    BR_ACT_STOP     /* drained: leave */
};

enum br_note {
    BR_NOTE_JOIN, /* name, role */
    BR_NOTE_LEFT, /* name, role, text: it had said BYE, and nothing was in flight */
    BR_NOTE_GONE, /* name, role, text, n = jobs, or sandbox calls, in flight */
    BR_NOTE_BAD,  /* name, role, code, text */
    BR_NOTE_LOST, /* rid, name of the worker, text, n = attempt */
    BR_NOTE_RETRY /* rid, text, n = attempt */
};

/* One thing to do. Everything it points to is borrowed until the next step. */
struct br_act {
    enum br_act_kind kind;
    uint64_t peer; /* serial number, 0 = not a known peer */
    struct br_addr to;
    struct str_view frame0;
    size_t frame0_at; /* internal: offset in the arena, SIZE_MAX = frame0 is foreign */
    struct buf *payload;
    uint32_t pid;
    uint32_t call;
    uint8_t what;
    enum br_note note;
    struct request_id rid;
    const char *name;
    const char *role;
    const char *text;
    int code;
    unsigned n;
};

/* *ret is owned. 0 or ERR_NOMEM. */
int br_core_new(struct br_core **ret, const struct br_setup *setup);
void br_core_free(struct br_core *c); /* accepts NULL */

/* Takes one event; returns the actions in the order they must be carried out, *ret_n of them. */
const struct br_act *br_core_step(struct br_core *c, uint64_t now_ms, const struct br_event *ev,
                                  size_t *ret_n);

/* When the next BR_EV_TICK is due. Always in the future of the last step or equal to it. */
uint64_t br_core_next_due(const struct br_core *c);

/* Checks every structural invariant; returns NULL, or what is wrong. O(everything): for tests. */
const char *br_core_check(const struct br_core *c);

/* --- what the numbers are (br_stats.c and tests)
 * ---------------------------------------------------------------- */

enum br_refused {
    BR_REFUSED_QUEUE,
    BR_REFUSED_KEY,
    BR_REFUSED_WAIT,
    BR_REFUSED_DEADLINE,
    BR_REFUSED_OTHER,
    BR_REFUSED_COUNT
};

struct br_counts {
    uint64_t jobs_ok, jobs_error, jobs_cancelled, jobs_refused, jobs_lost; /* ended, by outcome */
    uint64_t refused[BR_REFUSED_COUNT];
    uint64_t lost;    /* LOST sent */
    uint64_t bad;     /* malformed or forbidden */
    uint64_t unknown; /* well-formed, about something that is not (or no longer) here */
    uint64_t held;    /* SUBMITs left to the next broker while draining */
    uint64_t closes;  /* CLOSE sent by the broker itself */
    unsigned queued, grace, running, claimed, limbo;
    unsigned tenants_queued;
    unsigned credit;
    unsigned calls;                         /* sandbox calls routed or parked */
    unsigned sessions;                      /* reported by the sandboxds */
    unsigned frontends, workers, sandboxds; /* ready ones */
    uint64_t queued_bytes;
    uint64_t oldest_wait_ms;
};
void br_core_counts(const struct br_core *c, uint64_t now_ms, struct br_counts *ret);

struct br_peer_info {
    const char *name; /* borrowed until the next step */
    const char *role;
    const char *state;
    uint32_t pid;
    unsigned in_flight, credit, capacity;
    uint32_t load;
    uint32_t lag_us;
    unsigned sessions, sandboxes; /* sandboxd */
    uint64_t last_seen_ms;        /* ago */
    bool is_sandboxd;
    struct str_view stats; /* its latest metrics text */
};
/* Peers one by one: start with *it = 0; false at the end. */
bool br_core_next_peer(const struct br_core *c, uint64_t now_ms, size_t *it,
                       struct br_peer_info *ret);

struct br_queue_info {
    struct tenant_id tenant;
    unsigned depth, in_flight;
    uint64_t oldest_wait_ms;
};
/* Tenants with waiting jobs, one by one, in the order of their next turn. */
bool br_core_next_queue(const struct br_core *c, uint64_t now_ms, size_t *it,
                        struct br_queue_info *ret);

#endif
