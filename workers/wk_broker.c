/* wk_broker.c - one broker's link: HELLO with the running jobs, credit, dispatch, cancel, sandbox
 * answers.
 *
 * A task stays "running" towards its broker until DONE was handed to the link, so that a broker
 * that comes back adopts jobs whose end it could not hear yet. */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "wk_pool.h"

static void put_rec(uint8_t *dst, const struct request_id *rid, uint8_t attempt)
{
    memcpy(dst, rid->b, REQUEST_ID_BYTES);
    dst[REQUEST_ID_BYTES] = attempt;
}

static void on_greet(void *ctx, struct buf **ret_payload)
{
    struct wk_broker *b = ctx;
    size_t max = b->pool->list.count + b->unsent.count;
    size_t n = 0;
    char *dst;
    struct buf *recs;

    if (max == 0 || (recs = buf_new(max * MSG_JOB_REC_BYTES, &dst)) == NULL) {
        return;
    }
    LIST_FOREACH_SAFE (k, tmp, &b->pool->list) {
        struct wk_task *t = CONTAINER_OF(k, struct wk_task, all);
        if (t->broker == b) {
            put_rec((uint8_t *)dst + n++ * MSG_JOB_REC_BYTES, &t->job.rid, t->job.attempt);
        }
    }
    LIST_FOREACH_SAFE (k, tmp, &b->unsent) {
        struct wk_frame *f = CONTAINER_OF(k, struct wk_frame, link);
        if (f->is_done) {
            memcpy((uint8_t *)dst + n++ * MSG_JOB_REC_BYTES, f->key, MSG_JOB_REC_BYTES);
        }
    }
    recs->n = n * MSG_JOB_REC_BYTES;
    if (n == 0) {
        buf_unref(recs);
        return;
    }
    *ret_payload = recs;
}

static void send_credit(struct wk_broker *b)
{
    unsigned used = b->running;
    struct msg_head head = {.type = MSG_CREDIT};
    struct msg_body_CREDIT m;

    LIST_FOREACH_SAFE (k, tmp, &b->unsent) {
        used += CONTAINER_OF(k, struct wk_frame, link)->is_done ? 1U : 0U;
    }
    if (b->pool->is_draining || used >= b->capacity) {
        return;
    }
    m.n = (uint16_t)(b->capacity - used);
    bytes_reset(&b->pool->frame);
    if (msg_encode_CREDIT(&b->pool->frame, &head, &m) == 0) {
        (void)link_send(b->link, sv_from(b->pool->frame.p, b->pool->frame.n), NULL);
    }
}

static void flush_unsent(struct wk_broker *b)
{
    struct list_link *k;

    while ((k = list_first(&b->unsent)) != NULL) {
        struct wk_frame *f = CONTAINER_OF(k, struct wk_frame, link);
        if (link_send(b->link, sv_from(f->bytes, f->n), NULL) == ERR_AGAIN) {
            return;
        }
        list_remove(&b->unsent, k);
        mem_free(f);
    }
}

static void on_up(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w)
{
    struct wk_broker *b = ctx;

    (void)w;
    (void)is_new_broker; /* the same or another one: HELLO told it what runs */
    send_credit(b);      /* first: what is still to be reported counts as running */
    flush_unsent(b);
    wk_sbx_on_up(b);
    if (b->pool->is_draining) {
        link_say_bye(b->link);
    }
}

static void on_down(void *ctx)
{
    struct wk_broker *b = ctx;

    wk_sbx_on_down(b);
}

static void on_writable(void *ctx)
{
    struct wk_broker *b = ctx;

    flush_unsent(b);
    wk_sbx_on_up(b);
}

static void on_cancel(struct wk_broker *b, const struct plane_in *in)
{
    struct msg_body_CANCEL m;
    struct wk_task *t;

    if (msg_decode_CANCEL(&m, in->fields) == 0 &&
        (t = wk_pool_find(b->pool, &in->head.rid, in->head.attempt)) != NULL) {
        wk_task_cancel(t, m.code);
    }
}

static void on_link_msg(void *ctx, const struct plane_in *in)
{
    struct wk_broker *b = ctx;
    struct wk_task *t;

    if (in->head.type == MSG_DISPATCH) {
        struct msg_body_DISPATCH m;
        if (msg_decode_DISPATCH(&m, in->fields) == 0) {
            wk_task_start(b, in, &m);
        }
    } else if (in->head.type == MSG_CANCEL) {
        on_cancel(b, in);
    } else if (in->head.type == MSG_SBX_EVENT) {
        struct msg_body_SBX_EVENT m;
        if (msg_decode_SBX_EVENT(&m, in->fields) == 0 &&
            (t = wk_pool_find(b->pool, &in->head.rid, in->head.attempt)) != NULL) {
            wk_sbx_on_event(t, &m, buf_view(in->payload));
        }
    } else if (in->head.type == MSG_SBX_RESULT) {
        struct msg_body_SBX_RESULT m;
        if (msg_decode_SBX_RESULT(&m, in->fields) == 0 &&
            (t = wk_pool_find(b->pool, &in->head.rid, in->head.attempt)) != NULL) {
            wk_sbx_on_result(t, &m, buf_view(in->payload));
        }
    }
    /* HEARTBEAT and BYE are the link's business */
}

static uint32_t on_load(void *ctx)
{
    const struct wk_broker *b = ctx;

    return b->running;
}

static void on_stats(void *ctx, struct bytes *out)
{
    const struct wk_broker *b = ctx;

    if (b ==
        &b->pool->brokers[0]) { /* one broker keeps them; else each sample would appear twice */
        (void)metric_snapshot(out, b->pool->name);
    }
}

int wk_broker_open(struct wk_broker *b, const char *endpoint, const struct plane_curve *curve,
                   struct err *e)
{
    struct link_opts opts = {.endpoint = endpoint,
                             .role = MSG_ROLE_WORKER,
                             .name = b->pool->name,
                             .own_endpoint = "",
                             .capacity = b->capacity,
                             .curve = strncmp(endpoint, "tcp://", 6) == 0 ? curve : NULL};
    struct link_hooks hooks = {.on_greet = on_greet,
                               .on_up = on_up,
                               .on_down = on_down,
                               .on_msg = on_link_msg,
                               .on_load = on_load,
                               .on_stats = on_stats,
                               .on_writable = on_writable,
                               .ctx = b};

    return link_open(&b->link, b->pool->loop, &opts, &hooks, e);
}

static void on_link_closed(void *ctx)
{
    struct wk_broker *b = ctx;
    struct list_link *k;

    while ((k = list_first(&b->unsent)) != NULL) {
        list_remove(&b->unsent, k);
        mem_free(CONTAINER_OF(k, struct wk_frame, link));
    }
    b->on_closed(b->closed_ctx);
}

void wk_broker_close(struct wk_broker *b, void (*on_closed)(void *ctx), void *ctx)
{
    b->on_closed = on_closed;
    b->closed_ctx = ctx;
    link_close(b->link, on_link_closed, b);
}

int wk_broker_send(struct wk_broker *b, struct str_view frame0, struct buf *payload)
{
    return link_send(b->link, frame0, payload);
}

void wk_broker_send_kept(struct wk_broker *b, struct wk_task *t, struct str_view frame0,
                         bool is_done)
{
    struct wk_frame *f;

    if (list_is_empty(&b->unsent) && link_send(b->link, frame0, NULL) != ERR_AGAIN) {
        return;
    }
    if ((f = mem_alloc(sizeof(*f) + frame0.n)) == NULL) {
        LOG(OVERLOAD, &t->job.rid, KV_S("limit", "memory"));
        return; /* the broker learns it from the next HELLO */
    }
    memset(f, 0, sizeof(*f));
    put_rec(f->key, &t->job.rid, t->job.attempt);
    f->is_done = is_done;
    f->n = frame0.n;
    memcpy(f->bytes, frame0.p, frame0.n);
    list_push_back(&b->unsent, &f->link);
}
