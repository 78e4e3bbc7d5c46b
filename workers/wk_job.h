/* wk_job.h - one dispatched job and what handlers may do with it: answer, call the model, use a
 * sandbox.
 *
 * wk_pool owns jobs; a handler (wk_fast, wk_icept, wk_sandbox, wk_object) is chosen by wk_route and
 * keeps its state in job->handler. Exactly one of wk_out_finish / wk_out_error / wk_out_abort ends
 * the answer; after it, when the handler's own pending operations are over, the handler calls
 * wk_job_done once.
 *
 * Threads: loop thread. Lifetime: from DISPATCH to the return of wk_job_done. */
#ifndef CFD_WORKERS_WK_JOB_H
#define CFD_WORKERS_WK_JOB_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "config/cfg.h"
#include "proto/msg.h"

struct wk_pool;
struct wk_out;
struct wk_job;

/* What a handler implements. */
struct wk_handler_ops {
    const char *path; /* metric label: fast, loop, sandbox, object */
    void (*on_cancel)(struct wk_job *job,
                      int code); /* client gone or deadline: stop everything, then wk_job_done */
    void (*on_writable)(struct wk_job *job); /* the output window opened again */
};

struct wk_job {
    struct wk_pool *pool; /* borrowed */
    struct request_id rid;
    struct tenant_id tenant;
    uint8_t attempt; /* 1, 2 */
    enum msg_kind kind;
    enum msg_method method;
    unsigned sessions_max;
    uint64_t deadline_ms; /* clock_ms(); 0 = none */
    uint64_t started_us;
    uint64_t waiting_us; /* spent waiting for models and sandboxes: not our overhead */
    char *endpoint;      /* frontend's return endpoint; owned */
    char *path;          /* request target; owned */
    struct buf *headers; /* client headers, 'name: value' CRLF each; owned */
    struct buf *body;    /* the client's bytes; owned; NULL when empty */
    struct cfg *cfg;     /* owned reference: the configuration this job started with */
    const struct wk_handler_ops *ops;
    void *handler;      /* the handler's own state */
    struct wk_out *out; /* owned by wk_out */
    bool is_cancelled;
};

/* The job is over (after the answer ended or on_cancel was handled): sends DONE, frees the job. */
void wk_job_done(struct wk_job *job, enum msg_outcome outcome);
/* Milliseconds until the deadline; UINT32_MAX when none, 0 when passed. */
uint32_t wk_job_time_left(const struct wk_job *job);

/* --- answering (wk_out.c) --- */

struct wk_head {
    int status;
    struct str_view
        headers;     /* 'name: value' CRLF each, no framing headers; borrowed during the call */
    uint64_t length; /* MSG_LENGTH_UNKNOWN = chunked */
    enum msg_stream stream;
    uint32_t processing_ms; /* waited for the model; UINT32_MAX = none was called */
};

/* Starts the answer. REQUIREs that none was started. */
void wk_out_head(struct wk_job *job, const struct wk_head *head);
/* Sends body bytes (a reference is taken). Data written in one loop turn after wk_out_head travels
 * with it. `sequence`: see CHUNK. Returns false when the window is used up: stop producing until
 * on_writable (what was passed is still sent). */
bool wk_out_data(struct wk_job *job, struct buf *data, uint32_t sequence);
/* The same for borrowed bytes, which are copied; `sequence` not known. */
bool wk_out_write(struct wk_job *job, struct str_view data);
/* Ends a started answer well. */
void wk_out_finish(struct wk_job *job);
/* Before wk_out_head: a whole error answer from the table and *e (OpenAI object, Retry-After). */
void wk_out_error(struct wk_job *job, const struct err *e);
/* After wk_out_head: the answer is cut; the frontend ends it as the stream kind demands. */
void wk_out_abort(struct wk_job *job, const struct err *e);
bool wk_out_is_started(const struct wk_job *job);
bool wk_out_is_ended(const struct wk_job *job);
bool wk_out_is_writable(const struct wk_job *job);

/* --- calling a model (wk_upstream.c) --- */

struct wk_up; /* one logical model call: deployments in turn, retries with back-off, never after
                 on_head */

struct wk_up_req {
    struct str_view model; /* public group name */
    enum msg_method method;
    const char *path;            /* below api_base, e.g. "/responses"; with query */
    const struct str_view *body; /* slices; borrowed until on_done or cancel */
    unsigned body_count;         /* at most 6 */
    /* Offset into which slice the provider's model name (a JSON string with quotes) is spliced:
     * after slice `model_after` (0-based); -1 = nowhere. */
    int model_after;
    bool is_stream;               /* Accept and timeouts */
    struct str_view content_type; /* default application/json */
    const char *provider_only;    /* NULL = any; else only deployments of this provider */
    const struct cfg_deployment
        *only; /* NULL, or the one deployment to ask whatever `model` says; of job->cfg */
};

struct wk_up_hooks {
    /* Final head, after retries are over. Error statuses arrive here too, with their body. */
    void (*on_head)(void *ctx, int status, struct str_view headers);
    void (*on_data)(void *ctx, struct str_view data);
    /* rc 0: complete. Not called after wk_up_cancel. */
    void (*on_done)(void *ctx, int rc, const struct err *e);
    void *ctx;
};

int wk_up_start(struct wk_job *job, struct wk_up **ret, const struct wk_up_req *req,
                const struct wk_up_hooks *hooks, struct err *e);
void wk_up_pause(struct wk_up *up);
void wk_up_resume(struct wk_up *up);
void wk_up_cancel(struct wk_up *up);
/* From on_data: what is still to come does not matter. No further on_data; on_done with 0 follows
 * when the answer ends, or after a short grace time when the provider keeps the connection open. (A
 * cancel would cost the connection also where its end is on its way.) */
void wk_up_finish(struct wk_up *up);
/* From on_data: the answer is whole, but what may still come is wanted. However the transfer ends,
 * on_done says 0. */
void wk_up_settle(struct wk_up *up);
/* The deployment that answers (valid from on_head on; before: the one being tried). */
const struct cfg_deployment *wk_up_deployment(const struct wk_up *up);

/* --- using a sandbox (wk_sbx.c) --- */

struct wk_sbx_call; /* one SBX_CALL in flight */

struct wk_sbx_req {
    enum msg_sbx_op op;
    enum msg_sbx_scope scope;
    struct str_view session; /* session id or sandbox id */
    struct msg_id16 op_id;   /* for RUN */
    struct str_view tool;    /* sandbox tool name, empty = default */
    struct str_view params;  /* JSON or empty */
    uint32_t timeout_ms;     /* of the run */
    struct buf *payload;     /* a reference is taken; may be NULL */
};

struct wk_sbx_result {
    int code; /* 0 or ERR_* */
    unsigned retry_after_ms;
    unsigned notes; /* enum msg_sbx_note */
    struct str_view sandbox_id;
    struct str_view text;
    struct str_view payload; /* JSON by op; RUN: CodeExecutionResult */
};

struct wk_sbx_hooks {
    void (*on_event)(void *ctx, enum msg_sbx_event kind, struct str_view payload); /* may be NULL */
    void (*on_result)(void *ctx,
                      const struct wk_sbx_result *r); /* exactly once unless cancelled with drop */
    void *ctx;
};

int wk_sbx_start(struct wk_job *job, struct wk_sbx_call **ret, const struct wk_sbx_req *req,
                 const struct wk_sbx_hooks *hooks, struct err *e);
/* Interrupts the run; on_result still comes. */
void wk_sbx_interrupt(struct wk_sbx_call *c);
/* Interrupts and forgets: no further callback. */
void wk_sbx_drop(struct wk_sbx_call *c);
/* Fire and forget: deletes the sandbox of a job without a session. Safe to call more than once or
 * when none was made.
 */
void wk_sbx_close_request(struct wk_job *job);

/* --- handlers --- */

void wk_fast_start(struct wk_job *job);    /* wk_fast.c: no code interpreter: bytes through */
void wk_icept_start(struct wk_job *job);   /* wk_icept.c: the agentic loop */
void wk_sandbox_start(struct wk_job *job); /* wk_sandbox.c: /v1/sandboxes... */
void wk_object_start(struct wk_job *job);  /* wk_object.c: provider objects by id */

#endif
