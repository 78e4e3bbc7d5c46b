/* wk_rig.h - a worker's surroundings on one loop: a broker and a frontend that are played over real
 * planes, a provider that is a scripted TCP server, and the pool under test. Everything it hears is
 * recorded as text. */
#ifndef CFD_TESTS_UNIT_WK_RIG_H
#define CFD_TESTS_UNIT_WK_RIG_H

#include "../support/unit.h"

#include "base/clock.h"
#include "base/log.h"
#include "wk_pool.h"

#define RIG_HEARD_MAX   256
#define RIG_REPLIES_MAX 32

/* One message from the worker. */
struct rig_heard {
    uint8_t type;
    uint8_t attempt;
    uint32_t flags;
    uint32_t deadline_ms;
    struct request_id rid;
    int code;          /* END */
    unsigned status;   /* HEAD; DONE: outcome; CREDIT: n */
    uint64_t length;   /* HEAD */
    uint32_t call;     /* SBX_CALL, SBX_CANCEL */
    uint8_t op, scope; /* SBX_CALL */
    struct msg_id16 op_id;
    char text[1024]; /* HEAD: headers; END: text; SBX_CALL: session|owner|tool */
    char *payload;   /* NUL-terminated */
    size_t n;
};

struct rig_inbox {
    struct rig_heard *v; /* RIG_HEARD_MAX */
    unsigned count;
};

/* What the provider does with the next request: parts sent one after the other, each in a turn of
 * its own. */
struct rig_reply {
    const char *parts[8]; /* NULL-terminated */
    bool does_close;      /* after the last part */
    bool does_nothing;    /* never answers */
};

struct rig {
    char dir[64];
    char config[128];
    struct loop loop;
    struct wk_pool *pool;
    struct cfg *cfg;
    unsigned stopped;
    /* broker and frontend */
    struct plane *broker;
    struct plane *frontend;
    char worker[65];    /* routing id at the broker */
    char fe_worker[65]; /* routing id at the frontend */
    struct rig_inbox at_broker;
    struct rig_inbox at_frontend;
    bool does_not_welcome;
    struct msg_id16 broker_instance;
    char hello[256]; /* payload of the last HELLO */
    size_t hello_n;
    unsigned hellos;
    /* provider */
    uv_tcp_t listener;
    unsigned port;
    struct rig_reply replies[RIG_REPLIES_MAX];
    unsigned reply_count, reply_next;
    char *requests[RIG_REPLIES_MAX];
    unsigned request_count;
    unsigned connections;
    unsigned closed_connections; /* by the worker */
    unsigned open_handles;
};

/* `models`: the model_list entries with PORT for the provider's port; `extra`: more of the file. */
void rig_start(struct rig *r, const char *models, const char *extra);
void rig_stop(struct rig *r);
void rig_reply(struct rig *r, struct rig_reply reply);
/* A whole answer with a Content-Length. Static storage: up to RIG_REPLIES_MAX per test. */
void rig_reply_json(struct rig *r, const char *status, const char *headers, const char *body);

struct rig_job {
    uint8_t number; /* makes the request id */
    uint8_t attempt;
    enum msg_kind kind;
    enum msg_method method;
    const char *path;
    const char *headers;
    const char *body;
    uint32_t window;
    uint32_t deadline_ms;
};
void rig_dispatch(struct rig *r, const struct rig_job *job);
void rig_cancel(struct rig *r, uint8_t number, int code);
void rig_window(struct rig *r, uint8_t number, uint32_t bytes);
void rig_sbx_event(struct rig *r, uint8_t number, uint32_t call, enum msg_sbx_event kind,
                   const char *payload);
void rig_sbx_result(struct rig *r, uint8_t number, uint32_t call, int code, const char *text,
                    const char *payload);
void rig_broker_down(struct rig *r);
void rig_broker_up(struct rig *r);

/* Turns the loop until at least `n` messages of `type` came; returns the n-th (1-based). Fails the
 * test after 10 s. */
struct rig_heard *rig_wait(struct rig *r, struct rig_inbox *in, uint8_t type, unsigned n);
unsigned rig_count(const struct rig_inbox *in, uint8_t type);
void rig_until(struct rig *r, const unsigned *counter, unsigned want);
void rig_turn_for(struct rig *r, unsigned ms);

#endif
