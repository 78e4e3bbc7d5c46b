/* sb_core.h - the decisions of sandboxd: calls in, provider operations and answers out. It does no
 * I/O of its own: the shell passes calls in and sends answers, providers do the work through
 * sb_provider.h, time comes from base/clock.
 *
 * Threads:  loop thread. Lifetime: sb_core_stop, its callback, then sb_core_free.
 * Rules (each has a test in tests/sim/test_sb_core.c):
 *   - one run at a time per sandbox, first come first served; different sandboxes side by side
 *   - concurrent first calls of one session make one sandbox
 *   - a tenant's cap: a new session first evicts the least recently used idle one and waits (at
 * most SB_EVICT_WAIT_MS) until it is deleted; never one that is in use: then ERR_SANDBOX_CAPACITY
 *   - the time to live counts from the last access; single requests have it too, as a backstop
 * behind CLOSE
 *   - a sandbox found dead before a run is replaced once; one lost during a run is never run again
 *   - a repeated operation id is answered from the record, or joins the run that is under way */
#ifndef CFD_SANDBOXD_SB_CORE_H
#define CFD_SANDBOXD_SB_CORE_H

#include "base/buf.h"
#include "config/cfg.h"
#include "sb_provider.h"
#include "sb_run.h"

#define SB_EVICT_WAIT_MS 5000
#define SB_QUEUE_MAX     64 /* runs waiting in one session */

struct sb_core;

struct sb_reply {
    int code;
    unsigned retry_after_ms;
    uint32_t notes;
    const char *sandbox_id; /* "" = none */
    const char *text;       /* "" = none */
    struct buf *payload;    /* borrowed; may be NULL */
};

struct sb_core_hooks {
    void (*reply)(void *ctx, const struct sb_origin *to, const struct sb_reply *r);
    void (*event)(void *ctx, const struct sb_origin *to, enum msg_sbx_event kind,
                  struct str_view data);
    void (*changed)(void *ctx); /* the sessions per tenant changed */
    void *ctx;
};

struct sb_core_provider {
    const struct sb_provider_ops *ops;
    struct sb_provider *provider; /* borrowed; started */
};

struct sb_core_call {
    struct sb_origin origin;
    struct tenant_id tenant;
    enum msg_sbx_op op;
    enum msg_sbx_scope scope;
    struct str_view session;
    struct msg_id16 op_id;
    unsigned sessions_max; /* 0 = configured */
    uint32_t timeout_ms;   /* 0 = configured */
    struct str_view tool;
    struct buf *payload; /* borrowed */
};

/* `cfg`: a reference is taken. `owner_tag`: copied. Providers are borrowed until sb_core_stop's
 * callback. */
int sb_core_new(struct sb_core **ret, struct cfg *cfg, const char *owner_tag,
                const struct sb_core_provider *providers, unsigned provider_count,
                const struct sb_core_hooks *hooks);
void sb_core_free(
    struct sb_core *c); /* accepts NULL; only after the stop callback, or when nothing was called */
void sb_core_call(struct sb_core *c, const struct sb_core_call *call);
/* The asker no longer wants the call: a waiting run is dropped, a running one interrupted when
 * nobody else waits. */
void sb_core_cancel(struct sb_core *c, const struct sb_origin *origin);
/* No answer can reach this link any more. Runs go on: their results are recorded. */
void sb_core_link_lost(struct sb_core *c, const void *link);
void sb_core_tick(struct sb_core *c); /* about once a second: TTL, eviction waits, metrics */
void sb_core_reload(struct sb_core *c, struct cfg *cfg);
/* Deletes every sandbox, answers every waiting call, then calls back once. */
void sb_core_stop(struct sb_core *c, void (*done)(void *ctx), void *ctx);

/* Does any sandbox run code, or wait to? */
bool sb_core_is_busy(const struct sb_core *c);
unsigned sb_core_sessions(const struct sb_core *c); /* counted sessions */
unsigned
sb_core_sandboxes(const struct sb_core *c); /* all that exist or are being made or deleted */
/* Calls back for each sandbox of a single request that came by `link`. */
void sb_core_each_request(const struct sb_core *c, const void *link,
                          void (*cb)(void *ctx, const struct request_id *rid,
                                     const struct tenant_id *t),
                          void *ctx);
void sb_core_each_tenant(const struct sb_core *c,
                         void (*cb)(void *ctx, const struct tenant_id *t, unsigned n), void *ctx);

#endif
