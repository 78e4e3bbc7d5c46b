/* br_rig.h - drives br_core in virtual time: messages in by hand, actions out as text lines or to a
 * callback. Every step is followed by br_core_check. Shared by the stories, the simulation and the
 * unit tests of the broker.
 *
 * A peer is named by its routing id ("wk0"); request n has the id whose first four bytes are n;
 * tenant t likewise. Lines: wk0 DISPATCH 1/1 "body"      to wk0: request 1, attempt 1, payload fe0
 * REFUSE 1/1 QUEUE_FULL    wk0 SBX_RESULT 1/1 #0 OK "payload"    watch 42    unwatch    stats stop
 */
#ifndef CFD_TESTS_BR_RIG_H
#define CFD_TESTS_BR_RIG_H

#include "br_core.h"

struct rig_out {
    const char *to; /* routing id, NUL-terminated; borrowed during the callback, like all of it */
    struct msg_head head;
    struct str_view fields;
    struct str_view frame0;
    struct buf *payload;
};

struct rig {
    struct br_core *core;
    struct br_setup setup;
    uint64_t now_ms;
    struct bytes text;     /* lines since the last rig_expect */
    bool shows_beats;      /* HEARTBEAT and WELCOME lines too */
    bool shows_ends;       /* a line for each peer that left or is gone */
    bool hears_last_words; /* rig_exited does not wait until the peer is gone */
    uint8_t instance;      /* of the next HELLO; the same value = the same process */
    void (*on_out)(void *ctx, const struct rig_out *o); /* instead of text */
    void (*on_in)(void *ctx, const char *from,
                  const struct msg_head *h); /* for tracing; may be NULL */
    void *ctx;
    unsigned steps;     /* taken so far */
    unsigned fail_step; /* in this one (from 1) the allocation number fail_nth (from 0) fails; 0 =
                           none */
    long fail_nth;
    bool has_fired;
};

void rig_init(struct rig *r);
void rig_fini(struct rig *r);
void rig_restart(struct rig *r); /* a new broker: everything it knew is gone */

void rig_step(struct rig *r, const struct br_event *ev);
/* Moves the time on, with every tick that becomes due. */
void rig_wait(struct rig *r, uint64_t ms);
/* A frame in `out` (reset afterwards) from peer `from`. */
void rig_send(struct rig *r, const char *from, struct bytes *out, int rc, struct buf *payload);
#define RIG_SEND(r, from, NAME, head, body, payload)                                               \
    do {                                                                                           \
        struct bytes out_ = {0};                                                                   \
        int rc_ = msg_encode_##NAME(&out_, (head), (body));                                        \
        rig_send((r), (from), &out_, rc_, (payload));                                              \
        bytes_fini(&out_);                                                                         \
    } while (0)

struct request_id rig_rid(uint32_t n);
uint32_t rig_rid_number(const struct request_id *rid);
struct tenant_id rig_tenant(uint32_t t);

void rig_hello(struct rig *r, const char *id, enum msg_role role, uint32_t capacity);
/* claims: pairs (request, attempt), `n` of them */
void rig_hello_claims(struct rig *r, const char *id, uint32_t capacity, const uint32_t (*claims)[2],
                      size_t n);
void rig_bye(struct rig *r, const char *id);
void rig_beat(struct rig *r, const char *id);
void rig_credit(struct rig *r, const char *wk, uint16_t n);
void rig_submit(struct rig *r, const char *fe, uint32_t request, uint8_t attempt, uint32_t tenant,
                uint32_t flags, uint32_t deadline_ms);
void rig_done(struct rig *r, const char *wk, uint32_t request, uint8_t attempt);
void rig_cancel(struct rig *r, const char *fe, uint32_t request);
void rig_call(struct rig *r, const char *wk, uint32_t request, uint8_t attempt, uint32_t tenant,
              uint32_t call, enum msg_sbx_op op, enum msg_sbx_scope scope);
void rig_sbx_cancel(struct rig *r, const char *wk, uint32_t request, uint8_t attempt,
                    uint32_t call);
/* As a sandboxd answers: with the number it was given. */
void rig_result(struct rig *r, const char *sb, uint32_t request, uint32_t folded);
void rig_output(struct rig *r, const char *sb, uint32_t request, uint32_t folded, const char *text);
void rig_sessions(struct rig *r, const char *sb, const uint32_t (*tenants)[2], size_t n);
/* By name: what the shell would tell of a peer. */
void rig_exited(struct rig *r, const char *name, enum br_event_kind kind);

/* The lines since the last call are exactly these; "" = none. */
void rig_expect(struct rig *r, const char *lines);

#endif
