/* br_int.h - what the files of the pure core share: its objects and the calls between the files.
 * Nobody outside br_*.c of the core includes it, except tests that look inside.
 *
 * A job is in exactly one place: at one worker (wk != NULL), in one tenant's queue, waiting with a
 * timer (GRACE, LIMBO), or ended and freed. Pictures: README.md. */
#ifndef CFD_BROKER_BR_INT_H
#define CFD_BROKER_BR_INT_H

#include "base/check.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/sm.h"
#include "br_core.h"
#include "br_table.h"

/* Every state machine of the core: one table gives the enum, the names and the edges. */
#define BR_TO(s) (1U << (s))

/* clang-format off */
#define BR_PEER_STATES(X) \
    X(NEW,      BR_TO(BR_PEER_READY) | BR_TO(BR_PEER_GONE)) \
    X(READY,    BR_TO(BR_PEER_DRAINING) | BR_TO(BR_PEER_GONE)) \
    X(DRAINING, BR_TO(BR_PEER_GONE)) \
    X(GONE,     0U)

#define BR_JOB_STATES(X) \
    X(NEW,        BR_TO(BR_JOB_QUEUED) | BR_TO(BR_JOB_GRACE) | BR_TO(BR_JOB_CLAIMED) | BR_TO(BR_JOB_RUNNING) | BR_TO(BR_JOB_ENDED)) \
    X(QUEUED,     BR_TO(BR_JOB_RUNNING) | BR_TO(BR_JOB_ENDED)) \
    X(GRACE,      BR_TO(BR_JOB_QUEUED) | BR_TO(BR_JOB_RUNNING) | BR_TO(BR_JOB_LIMBO) | BR_TO(BR_JOB_ENDED)) \
    X(CLAIMED,    BR_TO(BR_JOB_RUNNING) | BR_TO(BR_JOB_CANCELLING) | BR_TO(BR_JOB_QUEUED) | BR_TO(BR_JOB_GRACE) | BR_TO(BR_JOB_LIMBO) | BR_TO(BR_JOB_ENDED)) \
    X(RUNNING,    BR_TO(BR_JOB_CANCELLING) | BR_TO(BR_JOB_QUEUED) | BR_TO(BR_JOB_GRACE) | BR_TO(BR_JOB_LIMBO) | BR_TO(BR_JOB_ENDED)) \
    X(CANCELLING, BR_TO(BR_JOB_LIMBO) | BR_TO(BR_JOB_ENDED)) \
    X(LIMBO,      BR_TO(BR_JOB_QUEUED) | BR_TO(BR_JOB_ENDED)) \
    X(ENDED,      0U)
/* clang-format on */

enum br_peer_state {
#define X(name, to) BR_PEER_##name,
    BR_PEER_STATES(X)
#undef X
        BR_PEER_STATE_COUNT
};

enum br_job_state {
#define X(name, to) BR_JOB_##name,
    BR_JOB_STATES(X)
#undef X
        BR_JOB_STATE_COUNT
};

extern const struct sm_state br_peer_states[BR_PEER_STATE_COUNT];
extern const struct sm_state br_job_states[BR_JOB_STATE_COUNT];

/* A frontend, worker or sandboxd that said HELLO. From WELCOME until it is GONE; the storage goes
 * at the next step. */
struct br_peer {
    uint64_t serial;
    unsigned state; /* written by br_peer_move only */
    enum msg_role role;
    unsigned plane;
    uint8_t key[BR_PEER_ID_MAX + 1]; /* plane, routing id */
    size_t key_n;
    char name[MSG_NAME_MAX + 1];
    struct msg_id16 instance;
    uint32_t pid;       /* to watch; 0 = not in our pid namespace */
    uint32_t shown_pid; /* as it says */
    bool is_watched;
    bool is_broken; /* a message to it was lost for lack of memory: dropped at the next step */
    struct list_link link; /* in core->peers[role], or core->graveyard */
    uint64_t seen_ms;
    uint64_t dies_ms;    /* lost, and gone then, after its last words were heard; 0 = it lives */
    const char *dies_of; /* static */
    uint32_t load;
    uint32_t lag_us;
    struct buf *stats; /* owned; NULL = none yet */

    struct list jobs; /* worker: at it (br_job.wk_link); frontend: its open ones (fe_link) */

    /* worker: credit + jobs.count <= capacity */
    unsigned capacity;
    unsigned credit;
    struct heap_node ready; /* in core->ready while READY */
    struct list calls;      /* br_call.wk_link; sandboxd: br_call.sbx_link */

    /* sandboxd */
    struct list boxes;  /* jobs whose request sandbox is here (br_job.sbx_link) */
    struct list places; /* br_place.link */
    unsigned sessions;
    unsigned sandboxes;
};

/* A tenant with jobs here. Exists while it has any. */
struct br_tenant {
    struct br_node node;
    struct tenant_id id;
    struct list queue;     /* br_job.queue_link */
    struct heap_node turn; /* in core->turns while the queue is not empty */
    unsigned in_flight;    /* at workers */
    unsigned refs;         /* jobs that point here */
    struct br_tenant *free_next;
};

struct br_job {
    struct br_node node;
    struct request_id rid;
    unsigned state; /* written by br_job_move only */
    uint8_t attempt;
    bool is_started;          /* bytes reached the client: never dispatch again */
    bool is_adopted;          /* claimed by a worker: what it did before is not known here */
    struct br_tenant *tenant; /* NULL while only a worker has told us of it */
    struct br_peer *fe;       /* NULL = gone, or not yet back */
    struct list_link fe_link;
    struct br_peer *wk; /* NULL = not at a worker */
    struct list_link wk_link;
    struct list_link queue_link; /* in its tenant's queue */
    struct list_link age_link;   /* in core->queued, oldest first */
    struct heap_node due;        /* in core->timers while it waits for something */
    uint64_t deadline_ms;        /* 0 = none */
    uint64_t queued_ms;
    struct buf *frame0;   /* owned, while it may still be dispatched */
    struct buf *payload;  /* owned, likewise */
    uint32_t flags;       /* to pass on with DISPATCH */
    uint64_t claim_stamp; /* of the HELLO that last listed it */
    struct br_peer *sbx;  /* its request-scope sandbox lives there; NULL = none or closed */
    struct list_link sbx_link;
    struct tenant_id sbx_tenant;
    struct list calls; /* br_call.job_link */
    struct br_job *free_next;
};

/* A sandbox call in flight: at a sandboxd, or parked until one comes. */
struct br_call {
    struct br_node node;
    struct request_id rid;
    struct tenant_id tenant;
    uint32_t call;
    uint8_t attempt;
    uint8_t op;
    uint8_t scope;
    bool is_cancelled;
    struct br_job *job; /* NULL = the job ended */
    struct list_link job_link;
    struct br_peer *wk; /* NULL = nobody waits for the answer */
    struct list_link wk_link;
    struct br_peer *sbx; /* NULL = parked */
    struct list_link sbx_link;
    struct br_place *place; /* NULL = none */
    struct list_link parked_link;
    uint64_t parked_until_ms;
    uint32_t timeout_ms;     /* of the run */
    uint64_t doubt_until_ms; /* its sandboxd greeted anew: the call may never have reached it; 0 =
                                no doubt */
    struct buf *frame0;      /* owned while parked */
    struct buf *payload;     /* owned while parked */
    char owner[MSG_NAME_MAX + 1];
    struct br_call *free_next;
};

/* Where the sessions of a tenant are. */
struct br_place {
    struct br_node node;
    struct tenant_id tenant;
    struct br_peer *sbx; /* never NULL */
    struct list_link link;
    uint32_t sessions; /* as reported */
    unsigned calls;    /* in flight */
    uint64_t round;    /* of the report that last named it */
};

#define BR_PLACES_MAX    200000U
#define BR_LAST_WORDS_MS 20U
#define BR_GOODBYE_MS    100U
#define BR_STATS_MAX     (256U * 1024U) /* metrics text of one peer */
#define BR_RETRY_SOON_MS 1000U

struct br_core {
    struct br_limits limits;
    struct msg_id16 instance;
    uint64_t pid_ns;
    uint64_t now_ms; /* of the current step */
    uint64_t seed;   /* for hashes */

    struct map *by_key; /* plane + routing id -> br_peer */
    struct list peers[MSG_ROLE_BROKER];
    struct list graveyard;
    uint64_t last_serial;
    uint64_t joins;
    bool has_broken;
    unsigned said_workers, said_sandboxds; /* what the frontends were told last */

    struct br_table jobs;
    struct br_table tenants;
    struct br_table calls;
    struct br_table places;
    struct list queued; /* all QUEUED jobs, oldest first */
    struct heap turns;  /* tenants with waiting jobs */
    struct heap ready;  /* workers, most credit first */
    struct heap timers; /* jobs that wait for something */
    bool has_doubts;    /* some call has doubt_until_ms */
    struct list parked; /* calls without a sandboxd, by parked_until_ms */
    struct br_job *free_jobs;
    struct br_tenant *free_tenants;
    struct br_call *free_calls;
    unsigned free_job_count, free_tenant_count, free_call_count;

    uint64_t beat_due_ms;
    uint64_t exit_due_ms;    /* earliest dies_ms of a peer, UINT64_MAX = none */
    uint64_t alive_floor_ms; /* nobody is judged by silence before this */
    uint64_t report_round;
    bool is_restart; /* peers knew an earlier broker: let them all come back before placing sessions
                        anew */
    uint64_t settle_until_ms;
    bool is_draining;
    bool is_leaving; /* BYE was said to all */
    bool is_stopped;
    uint64_t drain_until_ms;
    uint64_t ended_since_beat;
    unsigned ended_per_s; /* moving average, in 1/16 */

    struct br_counts counts;

    struct br_act *acts;
    size_t act_count;
    size_t act_cap;
    struct bytes arena; /* encoded frames of this step */
    size_t frame_at;    /* where the frame being encoded begins in it */
};

/* --- br_act.c: recording what to do
 * ------------------------------------------------------------------------------ */
void br_acts_reset(struct br_core *c);
void br_acts_finish(struct br_core *c); /* offsets become pointers */
/* An encoded frame in the arena. */
struct br_frame {
    size_t at;
    size_t n;
};
/* Sends it to `p`, or to `to` when `p` is NULL. Nothing is sent to a peer that is gone. */
void br_act_send(struct br_core *c, struct br_peer *p, const struct br_addr *to, struct br_frame f,
                 struct buf *payload);
/* Encodes into the arena; on out of memory the frame is empty and sending it marks the peer as
 * broken. */
#define BR_FRAME(c, NAME, head, body)                                                              \
    ((c)->frame_at = (c)->arena.n,                                                                 \
     br_frame_end((c), msg_encode_##NAME(&(c)->arena, (head), (body))))
struct br_frame br_frame_end(struct br_core *c, int rc); /* what was added since frame_at */
/* Passes a copy on with another type, attempt, deadline and flags. */
void br_act_patched(struct br_core *c, struct br_peer *p, struct str_view frame0,
                    const struct msg_head *h, struct buf *payload);
/* The same, with another call number. */
void br_act_patched_call(struct br_core *c, struct br_peer *p, struct str_view frame0,
                         const struct msg_head *h, uint32_t call, struct buf *payload);
struct br_act *br_act_add(struct br_core *c, enum br_act_kind kind); /* NULL on out of memory */
void br_act_note(struct br_core *c, enum br_note note, const struct br_peer *p,
                 const struct br_job *job, const char *text, int code, unsigned n);
void br_send_bye(struct br_core *c, struct br_peer *p, const struct br_addr *to, int code,
                 const char *text);
void br_send_refuse(struct br_core *c, struct br_peer *fe, const struct request_id *rid,
                    uint8_t attempt, int code, unsigned retry_after_ms, const char *text);
void br_send_lost(struct br_core *c, const struct br_job *job, const char *worker);
void br_send_cancel(struct br_core *c, struct br_peer *wk, const struct request_id *rid,
                    uint8_t attempt, int code);

/* --- br_peer.c
 * -----------------------------------------------------------------------------------------------------
 */
const char *br_role_name(enum msg_role role);
struct br_peer *br_peer_find(const struct br_core *c, const struct br_addr *addr);
struct br_peer *br_peer_by_serial(const struct br_core *c, uint64_t serial);
struct br_peer *br_peer_by_name(const struct br_core *c, enum msg_role role, struct str_view name);
struct br_addr br_peer_addr(const struct br_peer *p);
void br_peer_move(struct br_core *c, struct br_peer *p, enum br_peer_state next, const char *why);
/* It is dead or left: what it had is lost, cancelled or dropped, by role. The storage lives until
 * the next step. */
void br_peer_gone(struct br_core *c, struct br_peer *p, const char *why);
/* It broke the protocol: BYE, and gone. `p` NULL: an unknown sender at `from`. */
void br_peer_bad(struct br_core *c, struct br_peer *p, const struct br_addr *from, int code,
                 const char *text);
void br_peers_free(struct br_core *c);
void br_graveyard_clear(struct br_core *c);
void br_on_hello(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_bye(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_stats(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_stats_get(struct br_core *c, struct br_peer *p, const struct br_event *ev);
static inline bool br_peer_is_live(const struct br_peer *p)
{
    return p->state == BR_PEER_READY || p->state == BR_PEER_DRAINING;
}

/* --- br_live.c
 * -----------------------------------------------------------------------------------------------------
 */
int br_on_heartbeat(struct br_core *c, struct br_peer *p, const struct br_event *ev);
void br_live_tick(struct br_core *c); /* beats due, silent peers */
/* Its process ended, or it cannot be reached. `why` is static. */
void br_live_lost(struct br_core *c, struct br_peer *p, const char *why);
void br_live_tell_counts(struct br_core *c); /* frontends hear of a change at once */
unsigned br_live_count(const struct br_core *c, enum msg_role role); /* ready ones */

/* --- br_queue.c: tenants and whose turn it is
 * ---------------------------------------------------------------------- */
struct br_tenant *br_tenant_ref(struct br_core *c,
                                const struct tenant_id *id); /* NULL on out of memory */
void br_tenant_unref(struct br_core *c, struct br_tenant *t);
/* 0, or ERR_QUEUE_FULL, ERR_RATE_LIMIT: may one more job of this tenant wait? */
int br_queue_admit(const struct br_core *c, const struct br_tenant *t, size_t payload_bytes);
int br_queue_put(struct br_core *c, struct br_job *job, bool is_first); /* ERR_NOMEM */
void br_queue_remove(struct br_core *c, struct br_job *job);
struct br_job *br_queue_next(const struct br_core *c); /* NULL when empty */
void br_queue_count_flight(struct br_core *c, struct br_tenant *t, int delta);
unsigned br_queue_retry_ms(const struct br_core *c);

/* --- br_dispatch.c: the only place credit is spent
 * ------------------------------------------------------------------ */
void br_dispatch_pump(struct br_core *c);
/* Hands a fresh SUBMIT straight to a worker when nobody waits. */
bool br_dispatch_direct(struct br_core *c, struct br_job *job, const struct br_event *ev);
int br_worker_join(struct br_core *c, struct br_peer *wk); /* ERR_NOMEM */
void br_worker_add_credit(struct br_core *c, struct br_peer *wk, unsigned n);
void br_worker_set_credit(struct br_core *c, struct br_peer *wk, unsigned n);
void br_worker_attach(struct br_core *c, struct br_peer *wk, struct br_job *job);
void br_worker_detach(struct br_core *c, struct br_job *job);
/* For the metric of waiting times. */
void br_note_wait(struct br_core *c, uint64_t wait_ms);
int br_on_credit(struct br_core *c, struct br_peer *p, const struct br_event *ev);

/* --- br_job.c
 * -------------------------------------------------------------------------------------------------------
 */
struct br_job *br_job_find(const struct br_core *c, const struct request_id *rid);
void br_job_move(struct br_core *c, struct br_job *job, enum br_job_state next, const char *why);
struct br_job *br_job_new(struct br_core *c, const struct request_id *rid,
                          uint8_t attempt); /* NULL on out of memory */
/* Ends it for good: leaves every list, closes its sandbox, goes back to the pool. */
void br_job_end(struct br_core *c, struct br_job *job, const char *why);
void br_job_refuse(struct br_core *c, struct br_job *job, int code, unsigned retry_after_ms,
                   const char *text);
void br_job_worker_lost(struct br_core *c, struct br_job *job, const char *worker);
void br_job_frontend_gone(struct br_core *c, struct br_job *job);
/* At a worker: passes CANCEL on, and waits for DONE. */
void br_job_cancel(struct br_core *c, struct br_job *job, int code);
/* Its run is over or abandoned without an answer: LOST to the frontend; keeps what a next attempt
 * must find. */
void br_job_lost(struct br_core *c, struct br_job *job, const char *worker, const char *why);
void br_job_set_frontend(struct br_core *c, struct br_job *job, struct br_peer *fe);
void br_job_wait(struct br_core *c, struct br_job *job, enum br_job_state state, unsigned ms,
                 const char *why);
int br_job_keep(struct br_core *c, struct br_job *job, const struct br_event *ev);
void br_job_due(struct br_core *c, struct br_job *job);
int br_job_queue(struct br_core *c, struct br_job *job, bool is_first);
void br_job_drop_payload(struct br_core *c, struct br_job *job);
int br_on_done(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_cancel(struct br_core *c, struct br_peer *p, const struct br_event *ev);
void br_jobs_free(struct br_core *c);

/* --- br_submit.c: what a SUBMIT means, by what is known of the request
 * ------------------------------------------------ */
int br_on_submit(struct br_core *c, struct br_peer *p, const struct br_event *ev);
/* A worker says it runs these: adopt what fits, cancel what is stale, and tell which of its jobs it
 * has lost. */
void br_claims_take(struct br_core *c, struct br_peer *wk, struct str_view records);

/* --- br_sbx.c: sandbox calls
 * ----------------------------------------------------------------------------------------- */
int br_on_sbx_call(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_sbx_cancel(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_sbx_event(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_sbx_result(struct br_core *c, struct br_peer *p, const struct br_event *ev);
void br_sbx_worker_gone(struct br_core *c, struct br_peer *wk);
void br_sbx_sandboxd_gone(struct br_core *c, struct br_peer *sbx);
/* The same sandboxd on a new connection: what was on its way to it may be lost. */
void br_sbx_sandboxd_back(struct br_core *c, struct br_peer *sbx);
void br_sbx_sweep_doubts(struct br_core *c);
void br_sbx_job_ended(struct br_core *c, struct br_job *job);
void br_sbx_unpark(struct br_core *c);
void br_sbx_tick(struct br_core *c);
uint64_t br_sbx_next_due(const struct br_core *c);
void br_calls_free(struct br_core *c);

/* --- br_place.c: which sandboxd
 * ---------------------------------------------------------------------------------------- */
/* Where a call goes; NULL = nowhere now. `ret_place` gets the tenant's place when the call keeps
 * it, else NULL. */
struct br_peer *br_place_choose(struct br_core *c, const struct br_call *call,
                                struct str_view owner, struct br_place **ret_place);
void br_place_count_call(struct br_core *c, struct br_place *place, int delta);
void br_place_sandboxd_gone(struct br_core *c, struct br_peer *sbx);
int br_on_sbx_sessions(struct br_core *c, struct br_peer *p, const struct br_event *ev);
int br_on_sbx_boxes(struct br_core *c, struct br_peer *p, const struct br_event *ev);
/* After a restart, until the peers had time to say what they have. */
bool br_is_settling(const struct br_core *c);
void br_places_free(struct br_core *c);

/* --- br_admit.c
 * --------------------------------------------------------------------------------------------------------
 */
/* May this sender send this now? 0 or ERR_PEER_FORBIDDEN; *ret_text says why. `p` NULL = it never
 * said HELLO. */
int br_admit(const struct br_peer *p, const struct msg_head *h, const char **ret_text);

#endif
