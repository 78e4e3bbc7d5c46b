/* fe_conn.h - one client connection: reads requests, writes answers in order, keeps time limits.
 *
 * Threads:  loop thread. Lifetime: from accept until its handles have closed; never freed inside
 * its own callbacks. Errors:   a broken connection cancels its request and closes; nobody is told.
 * Bounds:   FE_CONN_PIPELINE_MAX bytes of requests behind the running one (then reading stops); the
 * write queue holds at most what a worker may send ahead (its window), FE_CONN_QUEUE_MAX at the
 * outside. */
#ifndef CFD_FRONTEND_FE_CONN_H
#define CFD_FRONTEND_FE_CONN_H

#include <uv.h>

#include "base/buf.h"
#include "fe_conn_states.h"
#include "fe_http.h"
#include "fe_quota.h"
#include "fe_route.h"
#include "fe_server.h"
#include "http1_write.h"
#include "io/closer.h"

#define FE_CONN_PIPELINE_MAX   65536U
#define FE_CONN_QUEUE_MAX      (64U << 20)
#define FE_CONN_EARLY_BODY_MAX 65536U /* of a body read only to be dropped */
#define FE_CONN_LINGER_MS      1000U
#define FE_CONN_PROBE_MS       250U
#define FE_CONN_WRITE_BUFS     16U
#define FE_RID_TEXT_CAP        40

struct fe_request;

struct fe_conn_seg {
    struct buf *b; /* owned reference */
    size_t off;
};

/* Bytes to write; `owner` keeps them alive, NULL = copy what cannot be written now. */
struct fe_vec {
    const char *p;
    size_t n;
    struct buf *owner; /* borrowed */
};

struct fe_conn {
    struct list_link link;
    struct fe *fe;
    struct fe_server *server;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_shutdown_t shutdown;
    uv_write_t write;
    struct closer closer;
    unsigned state; /* enum fe_conn_state; written by conn_move */
    uint64_t id;
    bool is_admin;
    bool is_processing; /* inside conn_process: do not recurse */
    bool is_writing;    /* `write` is in use */
    bool is_read_paused;
    bool has_eof;             /* the client shut its side */
    unsigned probes;          /* sent since has_eof */
    uint64_t deadline_ms;     /* 0 = none */
    uint64_t progress_ms;     /* of the state's own clock: head start, body byte, written byte */
    struct fe_http *http;     /* owned */
    struct bytes in;          /* pipelined bytes behind the running request */
    struct bytes out;         /* head under construction, reused */
    struct bytes scratch;     /* body or headers under construction, reused */
    struct fe_conn_seg *segs; /* write queue, owned */
    size_t seg_first, seg_count, seg_cap;
    unsigned seg_writing; /* how many are in `write` */
    size_t queued_bytes;

    /* the request under way */
    struct request_id rid;
    char rid_text[FE_RID_TEXT_CAP];
    struct fe_route route;
    struct fe_quota_entry *quota; /* taken; borrowed */
    struct tenant_id tenant;
    unsigned sessions_max;
    char key_name[32];
    char method[8];      /* for the log */
    char client_rid[64]; /* the client's own x-request-id: logged, never used as a key */
    struct bytes body;
    struct fe_request *req; /* a job; owned by fe_request, which clears this */
    struct err early;       /* code != 0: refused, answered when the request is complete */
    bool must_close;        /* after this answer */
    bool is_head_request;
    bool has_rid;
    enum http1_framing framing;
    uint64_t body_left; /* HTTP1_LENGTH: still to be written */
    int status;
    uint64_t bytes_out;
    uint64_t body_start_ms;
    uint64_t ready_us; /* request complete */
    uint64_t first_us; /* first byte of the answer written */
};

struct fe_answer {
    int status;
    const char *content_type; /* NULL = in headers */
    struct str_view headers;  /* 'name: value' CRLF each, checked */
    uint64_t length;          /* MSG_LENGTH_UNKNOWN = until the end */
};

int fe_conn_open(struct fe_conn **ret, struct fe_server *server, bool is_admin);
/* Accepts from `listener` into the connection and starts reading. Frees itself on failure. */
void fe_conn_accept(struct fe_conn *c, uv_stream_t *listener);
void fe_conn_close(struct fe_conn *c);
/* Closes when nothing is under way; else the connection ends after its answer. */
void fe_conn_drain(struct fe_conn *c);

/* --- answering; exactly one of answer, answer_text, error per request
 * ------------------------------------------ */

/* Starts the answer; `first` (may be NULL) is its first part. is_last: it is complete. */
void fe_conn_answer(struct fe_conn *c, const struct fe_answer *a, struct buf *first, bool is_last);
/* A whole answer from memory. a->length is set here. */
void fe_conn_answer_text(struct fe_conn *c, struct fe_answer *a, struct str_view body);
/* An error answer. Closes when the connection must. */
void fe_conn_error(struct fe_conn *c, const struct err *e);
/* More of a started answer. `b` may be NULL with is_last. */
void fe_conn_more(struct fe_conn *c, struct buf *b, bool is_last);
/* Ends a started answer that cannot be completed: the connection goes down at once, visibly
 * unfinished. */
void fe_conn_cut(struct fe_conn *c);

/* --- inside (fe_conn*.c)
 * ---------------------------------------------------------------------------------------- */

void fe_conn_move(struct fe_conn *c, enum fe_conn_state next, const char *why);
void fe_conn_arm(struct fe_conn *c); /* sets the time limit of the present state */
void fe_conn_send(struct fe_conn *c, const struct fe_vec *v, unsigned n);
void fe_conn_queue_fini(struct fe_conn *c);
void fe_conn_on_flushed(struct fe_conn *c); /* the write queue ran empty */
void fe_conn_process(struct fe_conn *c, struct str_view in);
void fe_conn_finish(struct fe_conn *c);      /* the answer is written: next request, or close */
void fe_conn_end_request(struct fe_conn *c); /* counts, logs, gives the quota back */
void fe_conn_linger(struct fe_conn *c);
void fe_conn_resume_reading(struct fe_conn *c);

#endif
