#include "sb_local.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "sb_local_int.h"

int sb_local_find_program(char *dst, size_t cap, struct err *e)
{
    static const char *const places[] = {"", "../bin/", "../libexec/cofferdam/"};
    const char *given = getenv("COFFERDAM_ZYGOTE");
    char self[PATH_MAX / 2];

    if (given != NULL && given[0] == '/') {
        (void)snprintf(dst, cap, "%s", given);
        return access(dst, X_OK) == 0
                   ? 0
                   : err_set(e, ERR_HOST, "COFFERDAM_ZYGOTE=%.200s is not a program", given);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0) {
        return err_set(e, ERR_HOST, "cannot read /proc/self/exe; is /proc mounted?");
    }
    self[n] = '\0';
    char *slash = strrchr(self, '/');

    REQUIRE(slash != NULL);
    slash[1] = '\0';
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(dst, cap, "%s%scofferdam-zygote", self, places[i]);
        if (access(dst, X_OK) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_HOST,
                   "cofferdam-zygote is neither in %.200s nor in ../bin; install it there or set "
                   "COFFERDAM_ZYGOTE",
                   self);
}

/* ---- pools -------------------------------------------------------------------------------- */

void sb_local_serve_soon(struct sb_provider *p, unsigned delay_ms)
{
    if (closer_is_closing(&p->closer)) {
        return;
    }
    if (uv_is_active((uv_handle_t *)&p->serve) && delay_ms > 0 &&
        uv_timer_get_due_in(&p->serve) <= delay_ms) {
        return;
    }
    (void)uv_timer_start(&p->serve, p->serve.timer_cb, delay_ms, 0);
}

static struct sb_box *pool_take(struct sb_provider *p)
{
    struct list *l = !list_is_empty(&p->warm) ? &p->warm : &p->parked;
    struct list_link *k = list_first(l);

    if (k == NULL) {
        return NULL;
    }
    list_remove(l, k);
    return CONTAINER_OF(k, struct sb_box, pool_link);
}

static struct sb_local_waiter *waiter_first(const struct sb_provider *p)
{
    struct list_link *k = list_first(&p->waiters);

    return k != NULL ? CONTAINER_OF(k, struct sb_local_waiter, link) : NULL;
}

static void waiter_end(struct sb_provider *p, struct sb_local_waiter *w, int rc, struct sb_box *b,
                       const struct err *e)
{
    sb_created_cb cb = w->cb;
    void *ctx = w->ctx;

    list_remove(&p->waiters, &w->link);
    mem_free(w);
    cb(ctx, rc, b, e);
}

static void waiters_serve(struct sb_provider *p)
{
    static const struct err none;
    struct sb_box *b = NULL;

    struct sb_local_waiter *w = NULL;

    while ((w = waiter_first(p)) != NULL && (b = pool_take(p)) != NULL) {
        sb_local_box_move(b, SB_LOCAL_IDLE, "taken");
        waiter_end(p, w, 0, b, &none);
    }
}

/* Asks for as many children as waiters and pools miss. */
static void pools_fill(struct sb_provider *p)
{
    struct sb_local_zygote *z = p->cur;
    struct sb_box *b = NULL;

    if (z == NULL || !z->is_ready || p->is_stopping || clock_ms() < p->spawn_not_before_ms) {
        return;
    }
    size_t want = p->waiters.count + p->cfg->local_pool_parked + p->cfg->local_pool_warm;

    while (p->parked.count + p->warm.count + z->spawning < want &&
           z->spawning < SB_LOCAL_SPAWNS_MAX && (b = sb_local_box_new(p, z)) != NULL) {
        if (sb_local_zygote_spawn(z, b->seq) != 0) { /* its queue is full: later */
            sb_local_box_exited(b, 0, false);
            return;
        }
    }
}

static void on_serve(uv_timer_t *h)
{
    struct sb_provider *p = h->data;
    bool had_waiters = !list_is_empty(&p->waiters);

    waiters_serve(p);
    if (had_waiters && list_is_empty(&p->waiters) && p->parked.count + p->warm.count > 0) {
        sb_local_serve_soon(
            p, SB_LOCAL_REFILL_MS); /* a fork now would slow down the first run of what was taken */
        return;
    }
    pools_fill(p);
    if (!list_is_empty(&p->waiters) && !uv_is_active((uv_handle_t *)&p->sweep)) {
        (void)uv_timer_start(&p->sweep, p->sweep.timer_cb, 500, 500);
    }
}

void sb_local_on_ready(struct sb_box *b)
{
    struct sb_provider *p = b->p;
    bool is_new = b->state == SB_LOCAL_STARTING;

    p->spawn_failures = 0;
    if (is_new && list_is_empty(&p->waiters) && p->warm.count < p->cfg->local_pool_warm &&
        p->parked.count >= p->cfg->local_pool_parked) {
        struct buf *none = buf_copy("", 0);

        if (none != NULL) {
            sb_local_box_move(b, SB_LOCAL_WARMING, "pool");
            sb_local_run_start(b, none, 0, SB_LOCAL_WAIT_MS);
            buf_unref(none);
            return;
        }
    }
    b->zygote->spawning--;
    sb_local_box_move(b, SB_LOCAL_PARKED, "ready");
    list_push_back(b->is_warm ? &p->warm : &p->parked, &b->pool_link);
    if (!list_is_empty(&p->waiters)) {
        waiters_serve(p); /* a frame of this box brought us here, no caller's call */
    }
    sb_local_serve_soon(p, SB_LOCAL_REFILL_MS);
}

void sb_local_spawn_failed(struct sb_provider *p, const char *why)
{
    unsigned shift = p->spawn_failures < 6 ? p->spawn_failures : 6;
    struct err e;

    p->spawn_failures++;
    p->spawn_not_before_ms = clock_ms() + (50U << shift);
    LOG(SANDBOX_LOST, NULL, KV_S("provider", "local"), KV_S("during", "create"),
        KV_S("detail", why));
    (void)err_set(&e, ERR_SANDBOX_UNAVAILABLE, "local sandbox: %s", why);
    struct sb_local_waiter *w = waiter_first(p);

    if (w != NULL) {
        waiter_end(p, w, e.code, NULL, &e);
    }
    sb_local_serve_soon(p, 50U << shift);
}

static void on_sweep(uv_timer_t *h)
{
    struct sb_provider *p = h->data;
    uint64_t now = clock_ms();
    struct err e;

    (void)err_set(&e, ERR_SANDBOX_UNAVAILABLE, "no local sandbox was ready within %d s: %s",
                  SB_LOCAL_WAIT_MS / 1000,
                  p->cur == NULL      ? "their zygote does not run"
                  : !p->cur->is_ready ? "their zygote is starting"
                                      : "the host is overloaded");
    struct sb_local_waiter *w = NULL;

    while ((w = waiter_first(p)) != NULL) {
        if (now - w->since_ms < SB_LOCAL_WAIT_MS) {
            sb_local_serve_soon(p, 0);
            return;
        }
        waiter_end(p, w, e.code, NULL, &e);
    }
    (void)uv_timer_stop(h);
}

static void on_restart(uv_timer_t *h)
{
    struct sb_provider *p = h->data;
    struct err e;

    if (p->cur == NULL && !p->is_stopping && sb_local_zygote_start(p, &e) != 0) {
        LOG(SANDBOX_LOST, NULL, KV_S("provider", "local"), KV_S("during", "zygote start"),
            KV_ERR(&e));
        (void)uv_timer_start(h, on_restart, SB_LOCAL_BACKOFF_MAX_MS, 0);
    }
}

/* ---- operations --------------------------------------------------------------------------- */

static void on_closed(void *ctx)
{
    struct sb_provider *p = ctx;
    void (*cb)(void *) = p->on_stopped;
    void *cb_ctx = p->stopped_ctx;

    bytes_fini(&p->scratch);
    mem_free(p->read_buf);
    cfg_unref(p->cfg);
    mem_free(p);
    if (cb != NULL) {
        cb(cb_ctx);
    }
}

static void provider_close(struct sb_provider *p)
{
    closer_close_one(&p->closer, (uv_handle_t *)&p->serve);
    closer_close_one(&p->closer, (uv_handle_t *)&p->sweep);
    closer_close_one(&p->closer, (uv_handle_t *)&p->restart);
    closer_finish(&p->closer);
}

void sb_local_maybe_stopped(struct sb_provider *p)
{
    if (p->is_stopping && list_is_empty(&p->boxes) && list_is_empty(&p->zygotes) &&
        !closer_is_closing(&p->closer)) {
        provider_close(p);
    }
}

static void timer_open(struct sb_provider *p, uv_timer_t *t, uv_timer_cb cb)
{
    REQUIRE(uv_timer_init(&p->loop->uv, t) == 0);
    t->data = p;
    t->timer_cb = cb;
    closer_add(&p->closer);
}

/* A provider that never became one. */
static void start_undo(struct sb_provider *p)
{
    p->is_stopping = true;
    if (p->cur != NULL) {
        sb_local_zygote_retire(p->cur);
    }
    sb_local_maybe_stopped(p);
}

static int local_start(struct sb_provider **ret, struct loop *loop, struct cfg *cfg, struct err *e)
{
    struct sb_provider *p = mem_zalloc(sizeof(*p));
    int rc = ERR_INTERNAL;

    if (p == NULL || (p->read_buf = mem_alloc(SB_LOCAL_READ_BYTES)) == NULL) {
        mem_free(p);
        return err_set(e, ERR_NOMEM, NULL);
    }
    p->loop = loop;
    p->cfg = cfg_ref(cfg);
    list_init(&p->zygotes);
    list_init(&p->boxes);
    list_init(&p->parked);
    list_init(&p->warm);
    list_init(&p->waiters);
    bytes_init(&p->scratch, (size_t)ZYP_DISPLAY_MAX * 4);
    closer_init(&p->closer, on_closed, p);
    timer_open(p, &p->serve, on_serve);
    timer_open(p, &p->sweep, on_sweep);
    timer_open(p, &p->restart, on_restart);
    if ((rc = sb_local_find_program(p->program, sizeof(p->program), e)) != 0 ||
        (rc = sb_local_zygote_start(p, e)) != 0 || (rc = sb_local_zygote_wait(p->cur, e)) != 0) {
        start_undo(p);
        return rc;
    }
    *ret = p;
    return 0;
}

static bool strings_differ(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") != 0;
}

/* What the zygote was told on its command line. */
static bool limits_differ(const struct cfg *a, const struct cfg *b)
{
    if (a->local_memory_bytes != b->local_memory_bytes ||
        a->local_disk_bytes != b->local_disk_bytes || a->local_pids_max != b->local_pids_max ||
        a->local_files_max != b->local_files_max || strings_differ(a->local_root, b->local_root)) {
        return true;
    }
    char *const *x = a->local_binds;
    char *const *y = b->local_binds;

    for (; x != NULL && *x != NULL && y != NULL && *y != NULL; x++, y++) {
        if (strcmp(*x, *y) != 0) {
            return true;
        }
    }
    return (x != NULL && *x != NULL) || (y != NULL && *y != NULL);
}

/* Existing sandboxes keep the limits they were made with; new ones come from a new zygote when
 * limits changed. */
static void local_reload(struct sb_provider *p, struct cfg *cfg)
{
    struct cfg *before = p->cfg;

    p->cfg = cfg_ref(cfg);
    if (limits_differ(before, cfg) && !p->is_stopping) {
        if (p->cur != NULL) {
            sb_local_zygote_retire(p->cur);
        }
        (void)uv_timer_start(&p->restart, on_restart, 0, 0);
    }
    cfg_unref(before);
    sb_local_serve_soon(p, 0);
}

static void local_stop(struct sb_provider *p, void (*on_stopped)(void *ctx), void *ctx)
{
    struct err e;

    p->is_stopping = true;
    p->on_stopped = on_stopped;
    p->stopped_ctx = ctx;
    (void)uv_timer_stop(&p->restart);
    (void)uv_timer_stop(&p->sweep);
    (void)err_set(&e, ERR_DRAINING, NULL);
    struct sb_local_waiter *w = NULL;

    while ((w = waiter_first(p)) != NULL) {
        waiter_end(p, w, e.code, NULL, &e);
    }
    LIST_FOREACH_SAFE (k, tmp, &p->boxes) {
        struct sb_box *b = CONTAINER_OF(k, struct sb_box, all_link);

        if (b->state >= SB_LOCAL_IDLE && b->state <= SB_LOCAL_DEAD) {
            sb_local_box_destroy(b, NULL, NULL);
        }
    }
    LIST_FOREACH_SAFE (k, tmp, &p->zygotes) {
        sb_local_zygote_retire(CONTAINER_OF(k, struct sb_local_zygote, link));
    }
    sb_local_maybe_stopped(p);
}

static void local_create(struct sb_provider *p, const struct sb_create_opts *o, sb_created_cb cb,
                         void *ctx)
{
    struct sb_local_waiter *w = mem_zalloc(sizeof(*w));

    (void)o; /* limits are the whole provider's */
    if (w == NULL || p->is_stopping || p->waiters.count >= SB_LOCAL_WAITERS_MAX) {
        struct err e;

        mem_free(w);
        (void)err_set(&e, p->is_stopping ? ERR_DRAINING : ERR_SANDBOX_CAPACITY, NULL);
        cb(ctx, e.code, NULL, &e);
        return;
    }
    w->cb = cb;
    w->ctx = ctx;
    w->since_ms = clock_ms();
    list_push_back(&p->waiters, &w->link);
    sb_local_serve_soon(p, 0);
}

static const char *local_id(const struct sb_box *b)
{
    return b->id;
}

static bool local_is_alive(const struct sb_box *b)
{
    return b->state == SB_LOCAL_IDLE || b->state == SB_LOCAL_BUSY;
}

static void local_set_on_dead(struct sb_box *b, void (*on_dead)(void *ctx, const char *why),
                              void *ctx)
{
    b->on_dead = on_dead;
    b->dead_ctx = ctx;
}

static void local_run(struct sb_box *b, struct buf *code, uint32_t timeout_ms,
                      const struct sb_run_hooks *hooks)
{
    REQUIRE(!b->has_run && !b->has_file &&
            (b->state == SB_LOCAL_IDLE || b->state == SB_LOCAL_DEAD));
    b->hooks = *hooks;
    b->has_run = true;
    b->is_truncated = false;
    if (b->state == SB_LOCAL_DEAD) {
        (void)uv_timer_start(&b->timer, b->timer.timer_cb, 0, 0);
        return;
    }
    sb_local_box_move(b, SB_LOCAL_BUSY, "run");
    b->run = b->run == UINT32_MAX ? 1 : b->run + 1;
    sb_local_run_start(b, code, b->run, timeout_ms);
}

static void local_interrupt(struct sb_box *b)
{
    sb_local_run_interrupt(b, SB_LOCAL_STOP_INTERRUPT);
}

static void local_stats(struct sb_provider *p)
{
    metric_set(METRIC_SB_POOL, "parked", NULL, (double)p->parked.count);
    metric_set(METRIC_SB_POOL, "warm", NULL, (double)p->warm.count);
}

const struct sb_provider_ops sb_local_ops = {
    .name = "local",
    .is_remote = false,
    .start = local_start,
    .reload = local_reload,
    .stop = local_stop,
    .create = local_create,
    .id = local_id,
    .is_alive = local_is_alive,
    .set_on_dead = local_set_on_dead,
    .run = local_run,
    .interrupt = local_interrupt,
    .destroy = sb_local_box_destroy,
    .file = sb_local_file_start,
    .stats = local_stats,
};
