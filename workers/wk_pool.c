/* wk_pool.c - see wk_pool.h. Start, drain, stop, reload; the brokers' messages are in wk_broker.c,
 * tasks in wk_task.c.
 */
#include "wk_pool.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"

static void flush_dirty(struct wk_pool *p)
{
    struct list_link *k;
    size_t n = p->dirty.count; /* those that become dirty again get the next turn */

    while (n-- > 0 && (k = list_first(&p->dirty)) != NULL) {
        list_remove(&p->dirty, k);
        wk_out_flush_turn(CONTAINER_OF(k, struct wk_out, dirty));
    }
}

static void on_check(uv_check_t *h)
{
    flush_dirty(h->data);
}

static void on_prepare(uv_prepare_t *h)
{
    flush_dirty(h->data);
}

uint32_t wk_pool_random(struct wk_pool *p)
{
    /* xorshift64*: jitter and rotation only */
    p->rng ^= p->rng >> 12;
    p->rng ^= p->rng << 25;
    p->rng ^= p->rng >> 27;
    return (uint32_t)((p->rng * 0x2545F4914F6CDD1DULL) >> 32);
}

/* --- the end --- */

static void on_pool_closed(void *ctx)
{
    struct wk_pool *p = ctx;
    void (*cb)(void *ctx) = p->on_stopped;
    void *cb_ctx = p->ctx;

    map_free(p->tasks);
    cfg_unref(p->cfg);
    cfg_unref(p->first_cfg);
    mem_free(p->deps);
    bytes_fini(&p->frame);
    bytes_fini(&p->text);
    mem_free(p);
    if (cb != NULL) {
        cb(cb_ctx);
    }
}

static void on_part_closed(void *ctx)
{
    struct wk_pool *p = ctx;

    if (--p->parts == 0) {
        on_pool_closed(p);
    }
}

static void close_all(struct wk_pool *p)
{
    if (p->is_stopping) {
        return;
    }
    p->is_stopping = true;
    p->parts = 1; /* held while closing; then: closer, return planes, curl, links */
    p->parts++;
    wk_timers_stop(&p->timers, &p->closer);
    closer_close_one(&p->closer, (uv_handle_t *)&p->check);
    closer_close_one(&p->closer, (uv_handle_t *)&p->prepare);
    closer_finish(&p->closer);
    if (p->ret != NULL) {
        p->parts++;
        wk_return_close(p->ret, on_part_closed, p);
    }
    if (p->curl != NULL) {
        p->parts++;
        uvcurl_close(p->curl, on_part_closed, p);
    }
    for (unsigned i = 0; i < p->broker_count; i++) {
        p->parts++;
        wk_broker_close(&p->brokers[i], on_part_closed, p);
    }
    on_part_closed(p);
}

/* A later turn closes everything: this may run deep inside a callback of what is to be closed. */
static void on_last_ended(struct wk_timer *t)
{
    close_all(CONTAINER_OF(t, struct wk_pool, last));
}

void wk_pool_maybe_end(struct wk_pool *p)
{
    if (p->is_draining && !p->is_stopping && list_is_empty(&p->list) &&
        wk_timer_set(&p->timers, &p->last, clock_ms(), on_last_ended) != 0) {
        LOG(OVERLOAD, NULL, KV_S("limit", "memory"));
    }
}

void wk_pool_drain(struct wk_pool *p)
{
    if (p->is_draining) {
        return;
    }
    p->is_draining = true;
    for (unsigned i = 0; i < p->broker_count; i++) {
        link_say_bye(p->brokers[i].link);
    }
    wk_pool_maybe_end(p);
}

void wk_pool_stop(struct wk_pool *p)
{
    wk_pool_drain(p);
    LIST_FOREACH_SAFE (k, tmp, &p->list) {
        wk_task_cancel(CONTAINER_OF(k, struct wk_task, all), ERR_DRAINING);
    }
    LIST_FOREACH_SAFE (k, tmp, &p->list) {
        wk_task_discard(CONTAINER_OF(k, struct wk_task, all));
    }
    wk_pool_maybe_end(p);
}

/* --- running --- */

void wk_pool_tick(struct wk_pool *p)
{
    uint64_t now = clock_ms();

    metric_set(METRIC_WK_IN_FLIGHT, NULL, NULL, (double)p->list.count);
    if (p->is_stopping) {
        return;
    }
    wk_return_tick(p->ret, now);
    LIST_FOREACH_SAFE (k, tmp, &p->list) {
        struct wk_task *t = CONTAINER_OF(k, struct wk_task, all);
        if (!list_is_empty(&t->sbx_calls)) {
            wk_sbx_tick(t, now);
        }
    }
}

/* Health starts anew with each configuration: an index means something else now. */
static int set_cfg(struct wk_pool *p, struct cfg *cfg)
{
    struct wk_dep *deps = mem_calloc(cfg->deployment_count + 1U, sizeof(*deps));

    if (deps == NULL) {
        return ERR_NOMEM;
    }
    mem_free(p->deps);
    p->deps = deps;
    cfg_unref(p->cfg);
    p->cfg = cfg_ref(cfg);
    return 0;
}

void wk_pool_reload(struct wk_pool *p, struct cfg *cfg)
{
    if (set_cfg(p, cfg) != 0) {
        LOG(OVERLOAD, NULL, KV_S("limit", "memory"), KV_S("effect", "the old configuration stays"));
    }
}

/* --- start --- */

static void on_return_msg(void *ctx, const struct plane_in *in)
{
    struct wk_pool *p = ctx;
    struct msg_body_WINDOW m;
    struct wk_task *t;

    if (in->head.type != MSG_WINDOW || msg_decode_WINDOW(&m, in->fields) != 0) {
        LOG(PEER_BAD, &in->head.rid, KV_S("peer", "frontend"),
            KV_S("message", msg_name(in->head.type)));
        return;
    }
    if ((t = wk_pool_find(p, &in->head.rid, in->head.attempt)) != NULL) {
        wk_out_add_window(&t->out, m.bytes);
    }
}

static void start_handles(struct wk_pool *p)
{
    /* Started after the links are open: prepare callbacks run latest-started first, and what they
     * send must be seen by the planes' own. They do not keep the loop alive. */
    p->check.data = p;
    p->prepare.data = p;
    (void)uv_check_start(&p->check, on_check);
    (void)uv_prepare_start(&p->prepare, on_prepare);
    uv_unref((uv_handle_t *)&p->check);
    uv_unref((uv_handle_t *)&p->prepare);
}

static int init_handles(struct wk_pool *p)
{
    uv_loop_t *uv = &p->loop->uv;
    int rc = wk_timers_start(&p->timers, uv, &p->closer);

    if (rc != 0) {
        return rc;
    }
    (void)uv_check_init(uv, &p->check); /* these two cannot fail */
    closer_add(&p->closer);
    (void)uv_prepare_init(uv, &p->prepare);
    closer_add(&p->closer);
    return 0;
}

static int start_brokers(struct wk_pool *p, const struct plane_curve *curve, struct err *e)
{
    unsigned n = 0;
    int rc;

    while (p->cfg->brokers[n] != NULL && n < WK_BROKERS_MAX) {
        n++;
    }
    if (n == 0 || p->cfg->brokers[n] != NULL) {
        return err_set(e, ERR_CONFIG, "a worker serves 1 to %d brokers; check cofferdam.brokers",
                       WK_BROKERS_MAX);
    }
    unsigned share = (unsigned)p->cfg->worker_jobs_max / n;
    for (unsigned i = 0; i < n; i++) {
        struct wk_broker *b = &p->brokers[i];
        b->pool = p;
        b->capacity = share > 0 ? share : 1;
        list_init(&b->unsent);
        if ((rc = wk_broker_open(b, p->cfg->brokers[i], curve, e)) != 0) {
            return rc;
        }
        p->broker_count++;
    }
    return 0;
}

static int start_parts(struct wk_pool *p, struct err *e)
{
    char routing_id[MSG_NAME_MAX + 1];
    bool has_curve = p->cfg->curve.secret_key != NULL;
    char hex[9];
    uint8_t random[4];
    int rc;

    id_random(random, sizeof(random));
    id_random(&p->rng, sizeof(p->rng));
    p->rng |= 1;
    hex_encode(hex, random, sizeof(random));
    (void)snprintf(routing_id, sizeof(routing_id), "%.40s-%s", p->name, hex);
    if (has_curve) {
        p->curve.secret_key = secret_view(p->cfg->curve.secret_key).p;
        p->curve.public_key = p->cfg->curve.public_key;
        p->curve.server_key = p->cfg->curve.broker_key;
    }
    struct wk_return_opts ro = {.loop = p->loop,
                                .routing_id = routing_id,
                                .curve = has_curve ? &p->curve : NULL,
                                .on_msg = on_return_msg,
                                .ctx = p};
    if ((rc = uvcurl_new(&p->curl, p->loop, (unsigned)p->cfg->worker_connections_max, e)) != 0) {
        return rc;
    }
    if ((rc = wk_return_new(&p->ret, &ro)) != 0) {
        return err_set(e, rc, NULL);
    }
    if ((rc = start_brokers(p, has_curve ? &p->curve : NULL, e)) != 0) {
        return rc;
    }
    start_handles(p);
    return 0;
}

int wk_pool_start(struct wk_pool **ret, const struct wk_pool_opts *o, struct err *e)
{
    struct wk_pool *p = mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    p->loop = o->loop;
    (void)sv_copy(p->name, sizeof(p->name), sv_of(o->name));
    list_init(&p->list);
    list_init(&p->dirty);
    bytes_init(&p->frame, 2UL * MSG_HEADERS_MAX + 2UL * MSG_PARAMS_MAX);
    bytes_init(&p->text, 1048576);
    closer_init(&p->closer, on_part_closed, p);
    (void)bytes_reserve(&p->text, 16384); /* keys pass through it: it had better not move */
    p->tasks = map_new((size_t)o->cfg->worker_jobs_max * 2 + 2UL * WK_BROKERS_MAX);
    if (p->tasks == NULL || set_cfg(p, o->cfg) != 0 || init_handles(p) != 0) {
        map_free(p->tasks);
        cfg_unref(p->cfg);
        mem_free(p->deps);
        bytes_fini(&p->text);
        mem_free(p);
        return err_set(e, ERR_NOMEM, NULL);
    }
    p->first_cfg = cfg_ref(o->cfg); /* its keys are used as long as the process lives */
    if ((rc = start_parts(p, e)) != 0) {
        p->is_draining = true;
        close_all(p); /* frees in a later turn */
        return rc;
    }
    p->on_stopped = o->on_stopped;
    p->ctx = o->ctx;
    *ret = p;
    return 0;
}
