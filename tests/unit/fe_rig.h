/* fe_rig.h - a whole frontend in this process, with a broker, a worker and a client that the test
 * plays itself. */
#ifndef CFD_TEST_FE_RIG_H
#define CFD_TEST_FE_RIG_H

#include "../support/unit.h"

#include "fe_app.h"
#include "fe_request.h"
#include "io/plane.h"

struct rig {
    char dir[64];
    struct fe *fe;
    struct plane *broker; /* NULL = down */
    struct plane *worker;
    unsigned closed; /* planes closed */
    struct msg_id16 instance;
    uint32_t workers;
    /* what the broker saw */
    char fe_peer[72];
    char endpoint[MSG_ENDPOINT_MAX + 1];
    unsigned hellos, submits, cancels;
    struct msg_head submit; /* the last one */
    char path[512];
    char headers[1024];
    uint8_t kind, method;
    struct bytes payload;
    int cancel_code;
    /* what the worker saw */
    unsigned windows;
    uint64_t window_bytes;
    /* the client */
    int fd;
    struct bytes in;
    bool has_eof;
};

int rig_start(struct rig *r, const char *extra); /* extra: lines under cofferdam: */
void rig_stop(struct rig *r);
void rig_broker_up(struct rig *r);
void rig_broker_down(struct rig *r);
/* Turns the loop until cond(r) holds, or fails the test. */
void rig_until(struct rig *r, bool (*cond)(struct rig *r), const char *what);
#define RIG_UNTIL(r, cond) rig_until((r), (cond), #cond)
void rig_turn(struct rig *r, unsigned ms); /* a while in which something must not happen */

void rig_connect(struct rig *r);
void rig_hang_up(struct rig *r);
void rig_send(struct rig *r, const char *text);
void rig_post(struct rig *r, const char *path, const char *body);
bool rig_has(struct rig *r, const char *text); /* in what the client received */
bool rig_is_submitted(struct rig *r);          /* r->submits > 0 */
void rig_forget(struct rig *r);                /* what was received and seen so far */

/* From the worker, for the last SUBMIT; attempt 0 = of that SUBMIT. */
void rig_head(struct rig *r, uint8_t attempt, struct msg_body_HEAD m, const char *body,
              uint32_t flags);
void rig_chunk(struct rig *r, uint8_t attempt, const char *body, size_t n, uint32_t flags);
void rig_end(struct rig *r, int code, const char *param, const char *text, uint32_t retry_after_ms);
/* From the broker. */
void rig_lost(struct rig *r, uint8_t attempt);
void rig_refuse(struct rig *r, int code, uint32_t retry_after_ms, const char *text);

#endif
