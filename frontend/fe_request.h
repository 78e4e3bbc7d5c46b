/* fe_request.h - a client request that is a job for a worker: submit, answer, retry, cancel.
 *
 *   PENDING --sent to a broker--> SENT --HEAD--> STARTED --LAST or END--> (gone)
 *   SENT --LOST, attempts left--> PENDING
 *   PENDING --queue.wait_s without a broker--> error 503
 *   any --client gone--> CANCEL to the broker, gone
 *
 * The body is kept until the answer starts, so that a lost worker or broker costs the client
 * nothing. Messages of an earlier attempt are ignored. Exactly one answer: `is_answered` is
 * REQUIREd false where an answer starts.
 *
 * Threads:  loop thread. Lifetime: from fe_request_start until its answer ended or its client went.
 * Bounds:   limits.requests; FE_WINDOW_BYTES in flight from the worker. */
#ifndef CFD_FRONTEND_FE_REQUEST_H
#define CFD_FRONTEND_FE_REQUEST_H

#include "fe_conn.h"
#include "fe_sse.h"
#include "io/plane.h"

#define FE_WINDOW_BYTES (1U << 20)
#define FE_ATTEMPTS_MAX 2U

enum fe_request_state { FE_REQUEST_PENDING, FE_REQUEST_SENT, FE_REQUEST_STARTED };

struct fe_request {
    struct list_link link; /* in fe.open */
    struct fe *fe;
    struct fe_conn *conn; /* borrowed */
    struct request_id rid;
    struct tenant_id tenant;
    enum fe_request_state state;
    uint8_t attempt;
    unsigned broker;     /* index in fe.links */
    struct bytes frame0; /* encoded SUBMIT; owned */
    struct buf *body;    /* owned; NULL once the answer started */
    uint64_t body_n;     /* counted in fe.body_bytes */
    uint64_t deadline_ms;
    uint64_t wait_until_ms; /* PENDING: gives up then */
    uint64_t own_us;        /* time spent here between the request's last byte and its submission */
    char peer[72];          /* routing id of the worker that answers */
    size_t peer_n;
    uint64_t received; /* payload bytes */
    uint64_t granted;  /* of them given back as window */
    bool wants_grant;  /* a WINDOW could not be sent */
    bool wants_submit; /* a SUBMIT is still to be sent; always so while PENDING */
    bool is_answered;
    bool is_event_stream;
    uint64_t last_byte_ms;
    struct fe_sse sse;
};

/* Takes over c->body. Answers an error itself when it cannot start. */
void fe_request_start(struct fe_conn *c, const struct fe_http_head *head);
/* The client is gone. Frees. */
void fe_request_abandon(struct fe_request *r);
/* What was queued on the connection has been written. */
void fe_request_on_flushed(struct fe_request *r);

/* Writes a comment into a silent event stream. */
void fe_request_keep_alive(struct fe_request *r);

struct fe_request *fe_request_find(struct fe *fe, const struct request_id *rid);
/* Messages from brokers and workers. */
void fe_request_on_refuse(struct fe *fe, const struct plane_in *in);
void fe_request_on_lost(struct fe *fe, const struct plane_in *in);
void fe_request_on_head(struct fe *fe, const struct plane_in *in);
void fe_request_on_chunk(struct fe *fe, const struct plane_in *in);
void fe_request_on_end(struct fe *fe, const struct plane_in *in);

/* A broker is there (again): every open request of it is submitted again, and everything pending.
 */
void fe_request_on_broker_up(struct fe *fe, unsigned broker, bool is_again);
void fe_request_retry_grants(struct fe *fe);
void fe_request_retry_sends(struct fe *fe, unsigned broker); /* after back-pressure */
/* Once a second: deadlines, waits, keep-alive comments. */
void fe_request_tick(struct fe *fe);

#endif
