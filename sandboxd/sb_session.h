/* sb_session.h - one sandbox and everything that waits for it. Internal to sb_core.c and
 * sb_session.c.
 *
 *   NEW -> EVICTING -> CREATING -> IDLE <-> BUSY
 *   NEW -> CREATING;   IDLE -> CREATING (found dead: replaced)
 *   BUSY -> IDLE (ended, or lost: the next run replaces the sandbox)
 *   EVICTING, CREATING, IDLE, BUSY -> CLOSING -> GONE
 *
 * A session is in the cache from NEW to CLOSING. Pinned = anything but an IDLE one without waiting
 * runs. */
#ifndef CFD_SANDBOXD_SB_SESSION_H
#define CFD_SANDBOXD_SB_SESSION_H

#include "base/list.h"
#include "sb_cache.h"
#include "sb_core.h"
#include "sb_oplog.h"

/* clang-format off */
#define SB_SESSION_STATES(X) \
    X(NEW,      TO(EVICTING) | TO(CREATING) | TO(CLOSING)) \
    X(EVICTING, TO(CREATING) | TO(CLOSING)) \
    X(CREATING, TO(IDLE) | TO(CLOSING)) \
    X(IDLE,     TO(BUSY) | TO(CREATING) | TO(CLOSING)) \
    X(BUSY,     TO(IDLE) | TO(CLOSING)) \
    X(CLOSING,  TO(GONE)) \
    X(GONE,     0U)
/* clang-format on */

enum sb_session_state {
#define X(name, to) SB_SESSION_##name,
    SB_SESSION_STATES(X)
#undef X
        SB_SESSION_STATE_COUNT
};

struct sb_session {
    struct sb_cache_entry entry;
    struct sb_core *core;
    enum sb_session_state state;
    enum msg_sbx_scope scope;
    struct sb_origin maker;         /* the call that made it */
    char name[MSG_SESSION_MAX + 1]; /* client's session id, "" = none */
    char tool[MSG_NAME_MAX + 1];
    const struct sb_core_provider *provider;
    struct sb_box *box; /* NULL = none now */
    char id[SB_ID_MAX + 1];
    uint64_t created_unix_ms;
    uint64_t create_started_us;
    struct list waiting;    /* struct sb_run */
    struct sb_run *running; /* NULL unless BUSY, or CLOSING with the run's end still to come */
    bool was_lost;          /* the next sandbox is a replacement */
    bool is_creating;       /* a create is in flight, also while CLOSING */
    const char *close_why;
    struct sb_session *evictor; /* waits for this one's end */
    struct sb_session *victim;  /* whose end this one waits for */
    uint64_t evict_deadline_ms;
    bool has_delete_origin;
    struct sb_origin delete_origin; /* answered when the delete is confirmed */
    struct list_link all;           /* in core->sessions */
};

struct sb_core {
    struct cfg *cfg;
    char owner_tag[MSG_NAME_MAX + 1];
    struct sb_core_provider providers[4];
    unsigned provider_count;
    struct sb_core_hooks hooks;
    struct sb_cache *cache;
    struct map *by_id; /* sandbox id -> struct sb_session */
    struct sb_oplog *oplog;
    struct list sessions; /* every session not GONE */
    unsigned dead_boxes;  /* destroys in flight of boxes that no session owns any more */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    bool is_stopping;
};

/* Makes a session with its key set and adds it to the cache; nothing is created yet. */
int sb_session_new(struct sb_session **ret, struct sb_core *c, const struct sb_cache_entry *key,
                   enum msg_sbx_scope scope, struct str_view name,
                   const struct cfg_sandbox_tool *tool, struct err *e);
/* Starts making the sandbox, after `victim` (may be NULL) has ended. */
void sb_session_open(struct sb_session *s, struct sb_session *victim);
/* Queues a run or an open; the session owns it. */
void sb_session_enqueue(struct sb_session *s, struct sb_run *r);
/* Ends the session; everything that waits is answered with `code` and `why` (static text). */
void sb_session_close(struct sb_session *s, int code, const char *why);
/* Gives up waiting for a victim whose delete takes too long. */
void sb_session_evict_timeout(struct sb_session *s);
/* Drops or interrupts the run that `origin` waits for; false when it waits for none here. */
bool sb_session_cancel(struct sb_session *s, const struct sb_origin *origin);
/* The sandbox object of the HTTP API. */
struct buf *sb_session_describe(const struct sb_session *s);
void sb_session_put_json(const struct sb_session *s, struct bytes *b);

#endif
