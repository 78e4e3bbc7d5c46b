/* wk_pool.h - the worker process: jobs, credit, brokers, timers. Shared by the worker's own files;
 * handlers use wk_job.h.
 *
 * Threads:  loop thread.
 * Lifetime: wk_pool_start to the callback of the drain. A task lives from DISPATCH until its answer
 *           has left and wk_job_done was called.
 * Bounds:   worker.jobs tasks, split evenly over the brokers; WK_BROKERS_MAX brokers; messages kept
 *           for a broker that
 * is away: at most two per task (DONE, CLOSE). */
#ifndef CFD_WORKERS_WK_POOL_H
#define CFD_WORKERS_WK_POOL_H

#include "base/list.h"
#include "base/map.h"
#include "io/closer.h"
#include "io/link.h"
#include "io/loop.h"
#include "io/uvcurl.h"
#include "wk_deploy.h"
#include "wk_job.h"
#include "wk_out.h"
#include "wk_scan.h"
#include "wk_timer.h"

#define WK_BROKERS_MAX    16
#define WK_TASK_KEY_BYTES 17 /* request id, attempt */

/* One broker this worker serves. */
struct wk_broker {
    struct wk_pool *pool;
    struct link *link;
    unsigned capacity;
    unsigned running;   /* tasks it dispatched */
    struct list unsent; /* struct wk_frame: DONE and CLOSE that must arrive */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

/* A message kept until its broker takes it. */
struct wk_frame {
    struct list_link link;
    uint8_t key[WK_TASK_KEY_BYTES]; /* of the task */
    bool is_done; /* DONE: until then the broker is told that the job still runs */
    size_t n;
    char bytes[];
};

struct wk_pool {
    struct loop *loop;
    struct uvcurl *curl;
    struct wk_return *ret;
    struct cfg *cfg; /* a reference */
    char name[MSG_NAME_MAX + 1];
    struct map *tasks; /* key -> struct wk_task */
    struct list list;  /* struct wk_task.all */
    struct list dirty; /* struct wk_out.dirty */
    struct wk_timers timers;
    uv_check_t check; /* both flush: after polling, and before it blocks */
    uv_prepare_t prepare;
    struct closer closer;
    struct wk_broker brokers[WK_BROKERS_MAX];
    unsigned broker_count;
    struct wk_dep *deps;   /* by deployment index of cfg */
    struct bytes frame;    /* scratch for encoding */
    struct bytes text;     /* scratch for URLs and header lines; wiped after use with a secret */
    struct wk_scan scan;   /* of the job being routed, */
    struct str_view model; /* and the model it asks for; borrowed while it is routed */
    uint64_t rng;
    struct cfg *first_cfg; /* a reference: the one the process started with */
    struct plane_curve curve;
    struct wk_timer last; /* all jobs have ended while draining */
    unsigned parts;       /* still closing */
    bool is_draining;
    bool is_stopping;
    void (*on_stopped)(void *ctx);
    void *ctx;
};

/* A job with what the worker itself keeps about it. */
struct wk_task {
    struct wk_job job; /* first */
    struct wk_broker *broker;
    struct list_link all;
    struct wk_timer deadline;
    struct wk_out out;
    unsigned wait_depth; /* model calls and sandbox calls in flight */
    uint64_t wait_from_us;
    struct list sbx_calls; /* struct wk_sbx_call */
    uint32_t sbx_next;
    char sbx_owner[MSG_NAME_MAX + 1];
    bool has_request_sandbox; /* something was asked with scope REQUEST and not closed */
    bool is_superseded;       /* a later attempt runs here: its sandbox is not ours to close */
    bool is_done;
    int cancel_code;
    enum msg_outcome outcome;
    char strings[]; /* endpoint, path */
};

struct wk_pool_opts {
    struct loop *loop;
    struct cfg *cfg; /* a reference is taken */
    const char *name;
    void (*on_stopped)(
        void *ctx); /* after wk_pool_drain: everything is closed, the pool is freed */
    void *ctx;
};

int wk_pool_start(struct wk_pool **ret, const struct wk_pool_opts *o, struct err *e);
void wk_pool_drain(struct wk_pool *p); /* BYE; on_stopped when the last job ended */
void wk_pool_stop(struct wk_pool *p);  /* at once: jobs are cancelled */
void wk_pool_reload(struct wk_pool *p, struct cfg *cfg);
void wk_pool_tick(struct wk_pool *p); /* every second */

static inline struct wk_task *wk_task_of(struct wk_job *job)
{
    return (struct wk_task *)job;
}

/* Draining and no job left: closes everything in a later turn. */
void wk_pool_maybe_end(struct wk_pool *p);

/* wk_broker.c */
int wk_broker_open(struct wk_broker *b, const char *endpoint, const struct plane_curve *curve,
                   struct err *e);
void wk_broker_close(struct wk_broker *b, void (*on_closed)(void *ctx), void *ctx);

/* wk_task.c */
void wk_task_start(struct wk_broker *b, const struct plane_in *in,
                   const struct msg_body_DISPATCH *m);
void wk_task_cancel(struct wk_task *t, int code); /* may free it */
void wk_task_discard(
    struct wk_task *t); /* frees it, if it is done: nobody waits for what is left */

/* NULL = unknown. Attempt 0 finds the latest one. */
struct wk_task *wk_pool_find(struct wk_pool *p, const struct request_id *rid, uint8_t attempt);
/* From now on / no longer waiting for others. Calls nest. */
void wk_task_wait_begin(struct wk_task *t);
void wk_task_wait_end(struct wk_task *t);
/* Waited so far, the wait going on included. */
uint64_t wk_task_waited_us(const struct wk_task *t);
/* The answer of a finished task has left. Called by wk_out; may free the task. */
void wk_task_on_drained(struct wk_task *t);
/* Sends to the task's broker. When it is away or full: kept and sent later if `is_kept`, else
 * ERR_AGAIN. */
int wk_broker_send(struct wk_broker *b, struct str_view frame0, struct buf *payload);
void wk_broker_send_kept(struct wk_broker *b, struct wk_task *t, struct str_view frame0,
                         bool is_done);
uint32_t wk_pool_random(struct wk_pool *p);
/* Head of a message about this task. */
struct msg_head wk_task_head(const struct wk_task *t, uint8_t type, uint32_t flags);

/* wk_route.c */
void wk_route_start(struct wk_task *t);

/* wk_sbx.c */
void wk_sbx_on_up(struct wk_broker *b); /* sends what could not be sent, and again what was lost */
void wk_sbx_on_down(struct wk_broker *b);
void wk_sbx_on_event(struct wk_task *t, const struct msg_body_SBX_EVENT *m,
                     struct str_view payload);
void wk_sbx_on_result(struct wk_task *t, const struct msg_body_SBX_RESULT *m,
                      struct str_view payload);
void wk_sbx_tick(struct wk_task *t, uint64_t now_ms);
void wk_sbx_drop_all(struct wk_task *t);

#endif
