/* wk_task.c - the life of one job: made from DISPATCH, routed, cancelled, done, freed when its
 * answer has left. */
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "wk_pass.h"
#include "wk_pool.h"

static const char *outcome_name(enum msg_outcome o)
{
    switch (o) {
    case MSG_OUTCOME_OK:
        return "ok";
    case MSG_OUTCOME_ERROR:
        return "error";
    case MSG_OUTCOME_CANCELLED:
        return "cancelled";
    case MSG_OUTCOME_REFUSED:
        return "refused";
    }
    return "error";
}

static void make_key(uint8_t dst[WK_TASK_KEY_BYTES], const struct request_id *rid, uint8_t attempt)
{
    memcpy(dst, rid->b, REQUEST_ID_BYTES);
    dst[REQUEST_ID_BYTES] = attempt;
}

struct wk_task *wk_pool_find(struct wk_pool *p, const struct request_id *rid, uint8_t attempt)
{
    uint8_t key[WK_TASK_KEY_BYTES];
    struct wk_task *t = NULL;

    if (attempt != 0) {
        make_key(key, rid, attempt);
        return map_get(p->tasks, sv_from(key, sizeof(key)));
    }
    for (uint8_t a = 2; a > 0 && t == NULL; a--) {
        make_key(key, rid, a);
        t = map_get(p->tasks, sv_from(key, sizeof(key)));
    }
    return t;
}

uint32_t wk_job_time_left(const struct wk_job *job)
{
    uint64_t now = clock_ms();

    if (job->deadline_ms == 0) {
        return UINT32_MAX;
    }
    if (now >= job->deadline_ms) {
        return 0;
    }
    return job->deadline_ms - now > UINT32_MAX - 1 ? UINT32_MAX - 1
                                                   : (uint32_t)(job->deadline_ms - now);
}

struct msg_head wk_task_head(const struct wk_task *t, uint8_t type, uint32_t flags)
{
    uint32_t left = t->job.deadline_ms != 0 ? wk_job_time_left(&t->job) : 0;
    struct msg_head h = {.type = type,
                         .attempt = t->job.attempt,
                         .deadline_ms = t->job.deadline_ms != 0 && left == 0 ? 1 : left,
                         .flags = flags,
                         .rid = t->job.rid,
                         .tenant = t->job.tenant};

    return h;
}

/* --- waiting for others --- */

void wk_task_wait_begin(struct wk_task *t)
{
    if (t->wait_depth++ == 0) {
        t->wait_from_us = clock_us();
    }
}

void wk_task_wait_end(struct wk_task *t)
{
    REQUIRE(t->wait_depth > 0);
    if (--t->wait_depth == 0) {
        t->job.waiting_us += clock_us() - t->wait_from_us;
    }
}

uint64_t wk_task_waited_us(const struct wk_task *t)
{
    return t->job.waiting_us + (t->wait_depth > 0 ? clock_us() - t->wait_from_us : 0);
}

/* --- the end --- */

static void report(struct wk_task *t)
{
    struct wk_pool *p = t->job.pool;
    uint64_t total = clock_us() - t->job.started_us;
    uint64_t waited = wk_task_waited_us(t);
    struct msg_head head = wk_task_head(t, MSG_DONE, 0);
    struct msg_body_DONE m = {
        .outcome = (uint8_t)t->outcome,
        .credit = p->is_draining ? 0 : 1,
        .busy_us = total > UINT32_MAX ? UINT32_MAX : (uint32_t)total,
    };
    const char *path = t->job.ops != NULL ? t->job.ops->path : "none";

    metric_add(METRIC_WK_JOBS, path, outcome_name(t->outcome), 1);
    metric_observe_us(METRIC_WK_OVERHEAD_SECONDS, NULL, NULL, total > waited ? total - waited : 0);
    bytes_reset(&p->frame);
    if (msg_encode_DONE(&p->frame, &head, &m) == 0) {
        wk_broker_send_kept(t->broker, t, sv_from(p->frame.p, p->frame.n), true);
    }
}

/* Frees what a task holds; not yet or no longer in the pool's books. */
static void task_free(struct wk_task *t)
{
    wk_out_fini(&t->out);
    buf_unref(t->job.headers);
    buf_unref(t->job.body);
    cfg_unref(t->job.cfg);
    mem_free(t);
}

static void finalize(struct wk_task *t)
{
    struct wk_pool *p = t->job.pool;
    uint8_t key[WK_TASK_KEY_BYTES];

    REQUIRE(list_is_empty(&t->sbx_calls));
    wk_timer_stop(&p->timers, &t->deadline);
    make_key(key, &t->job.rid, t->job.attempt);
    (void)map_take(p->tasks, sv_from(key, sizeof(key)));
    list_remove(&p->list, &t->all);
    t->broker->running--;
    report(t);
    task_free(t);
    wk_pool_maybe_end(p);
}

void wk_task_on_drained(struct wk_task *t)
{
    if (t->is_done) {
        finalize(t);
    }
}

void wk_task_discard(struct wk_task *t)
{
    if (t->is_done) {
        wk_out_drop(&t->out);
        finalize(t);
    }
}

void wk_job_done(struct wk_job *job, enum msg_outcome outcome)
{
    struct wk_task *t = wk_task_of(job);

    REQUIRE(!t->is_done);
    wk_sbx_close_request(job);
    wk_sbx_drop_all(t);
    if (t->cancel_code == ERR_CANCELLED) {
        wk_out_drop(&t->out); /* nobody listens */
    } else if (!wk_out_is_ended(job)) {
        struct err e = {0};
        (void)err_set(&e, t->cancel_code != 0 ? t->cancel_code : ERR_INTERNAL, NULL);
        wk_out_fail(&t->out, &e);
    }
    t->is_done = true;
    t->outcome = outcome;
    if (wk_out_is_drained(&t->out)) {
        finalize(t);
    }
}

void wk_task_cancel(struct wk_task *t, int code)
{
    if (t->is_done) {
        if (code == ERR_CANCELLED) {
            wk_task_discard(t); /* the rest of the answer has no reader */
        }
        return;
    }
    if (t->job.is_cancelled) {
        return;
    }
    t->job.is_cancelled = true;
    t->cancel_code = code < 0 ? code : ERR_CANCELLED;
    wk_timer_stop(&t->job.pool->timers, &t->deadline);
    t->job.ops->on_cancel(&t->job, t->cancel_code);
}

static void on_deadline(struct wk_timer *timer)
{
    wk_task_cancel(CONTAINER_OF(timer, struct wk_task, deadline), ERR_DEADLINE);
}

/* --- the beginning --- */

static char *put_string(char **at, struct str_view s)
{
    char *p = *at;

    memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    *at += s.n + 1;
    return p;
}

static int fill(struct wk_task *t, struct wk_broker *b, const struct plane_in *in,
                const struct msg_body_DISPATCH *m)
{
    struct wk_job *job = &t->job;
    char *at = t->strings;

    t->broker = b;
    list_init(&t->sbx_calls);
    job->pool = b->pool;
    job->rid = in->head.rid;
    job->tenant = in->head.tenant;
    job->attempt = in->head.attempt != 0 ? in->head.attempt : 1;
    job->kind = (enum msg_kind)m->kind;
    job->method = (enum msg_method)m->method;
    job->sessions_max = m->sessions_max;
    job->deadline_ms = in->head.deadline_ms != 0 ? clock_ms() + in->head.deadline_ms : 0;
    job->started_us = clock_us();
    job->endpoint = put_string(&at, m->endpoint);
    job->path = put_string(&at, m->path);
    job->body = in->payload != NULL ? buf_ref(in->payload) : NULL;
    job->cfg = cfg_ref(b->pool->cfg);
    if (m->headers.n > 0 && (job->headers = buf_copy(m->headers.p, m->headers.n)) == NULL) {
        return ERR_NOMEM;
    }
    return 0;
}

/* Into the pool's books; from here on `finalize` is the only way out. */
static int enroll(struct wk_task *t, struct wk_conn *conn, uint32_t window)
{
    struct wk_pool *p = t->job.pool;
    uint8_t key[WK_TASK_KEY_BYTES];
    int rc;

    make_key(key, &t->job.rid, t->job.attempt);
    if ((rc = map_put(p->tasks, sv_from(key, sizeof(key)), t)) != 0) {
        return rc;
    }
    if (t->job.deadline_ms != 0 &&
        (rc = wk_timer_set(&p->timers, &t->deadline, t->job.deadline_ms, on_deadline)) != 0) {
        (void)map_take(p->tasks, sv_from(key, sizeof(key)));
        return rc;
    }
    list_push_back(&p->list, &t->all);
    t->broker->running++;
    wk_out_init(&t->out, &t->job, conn, window);
    return 0;
}

/* A job that cannot even be kept: the broker hears DONE at once, the frontend END if it can be
 * told. */
static void refuse(struct wk_broker *b, const struct plane_in *in, struct wk_conn *conn,
                   const struct err *e)
{
    struct bytes *frame = &b->pool->frame;
    struct msg_head head = in->head;
    struct msg_body_END end = {.code = e->code, .text = sv_of(e->text)};
    struct msg_body_DONE m = {.outcome = MSG_OUTCOME_REFUSED, .credit = 1, .busy_us = 0};

    LOG(REQUEST_ERROR, &in->head.rid, KV_ERR(e));
    head.flags = 0;
    head.type = MSG_END;
    bytes_reset(frame);
    if (conn != NULL && msg_encode_END(frame, &head, &end) == 0) {
        (void)wk_return_send(conn, sv_from(frame->p, frame->n), NULL);
    }
    wk_return_drop(conn);
    head.type = MSG_DONE;
    bytes_reset(frame);
    if (msg_encode_DONE(frame, &head, &m) == 0) {
        (void)wk_broker_send(b, sv_from(frame->p, frame->n), NULL);
    }
}

/* An earlier attempt of the same request that still runs here is obsolete. */
static void supersede(struct wk_pool *p, const struct request_id *rid, uint8_t attempt)
{
    for (uint8_t a = 1; a < attempt && a < 8; a++) {
        struct wk_task *old = wk_pool_find(p, rid, a);
        if (old != NULL) {
            old->is_superseded = true;
            wk_task_cancel(old, ERR_CANCELLED);
        }
    }
}

void wk_task_start(struct wk_broker *b, const struct plane_in *in,
                   const struct msg_body_DISPATCH *m)
{
    struct wk_pool *p = b->pool;
    struct wk_conn *conn = NULL;
    struct wk_task *t;
    struct err e = {0};
    int rc;

    if (wk_pool_find(p, &in->head.rid, in->head.attempt != 0 ? in->head.attempt : 1) != NULL) {
        return; /* it runs already */
    }
    supersede(p, &in->head.rid, in->head.attempt);
    if (wk_return_take(p->ret, &conn, m->endpoint, &e) != 0) {
        refuse(b, in, NULL, &e);
        return;
    }
    t = mem_alloc(sizeof(*t) + m->endpoint.n + m->path.n + 2);
    if (t == NULL) {
        (void)err_set(&e, ERR_NOMEM, NULL);
        refuse(b, in, conn, &e);
        return;
    }
    memset(t, 0, sizeof(*t));
    if ((rc = fill(t, b, in, m)) != 0 || (rc = enroll(t, conn, m->window)) != 0) {
        (void)err_set(&e, rc, NULL);
        refuse(b, in, conn, &e);
        task_free(t);
        return;
    }
    if (b->running > b->capacity) {
        (void)err_set(&e, ERR_LIMIT, "the worker was given more jobs than it takes");
        wk_job_refuse(&t->job, &e);
        return;
    }
    wk_route_start(t);
}
