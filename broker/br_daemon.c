#include "br_daemon.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "br_router.h"
#include "br_stats.h"
#include "io/closer.h"

#define PEERS_MAX            4096U
#define QUEUE_BYTES_MAX      (1ULL << 30)
#define CALLS_PER_WORKER_MAX 16384U
#define HEARTBEAT_MS         1000U
#define LIVENESS             3U
#define GRACE_MS             2000U
#define LIMBO_MS             30000U
#define SBX_WAIT_MS          2000U
#define UNREACHABLE_MAX      64U /* peers found gone in one step; more are found at the next send */

/* A local peer's process: its pidfd becomes readable when it ends. */
struct br_watch {
    uv_poll_t poll;
    struct list_link link;
    struct br_daemon *daemon;
    struct closer closer;
    uint64_t peer;
    int fd;
};

struct br_daemon {
    struct loop *loop;
    struct br_core *core;
    struct br_router *router;
    struct br_stats stats;
    struct list watches;
    struct bytes frame; /* scratch */
    uv_timer_t timer;
    uint64_t timer_due_ms; /* UINT64_MAX = not armed */
    struct closer closer;
    unsigned parts; /* not yet closed: timer, router, watches */
    bool is_stopping;
    void (*on_stopped)(void *ctx);
    void *ctx;
    char name[MSG_NAME_MAX + 1];
};

static void step(struct br_daemon *d, const struct br_event *ev);
static void stop(struct br_daemon *d);
static void part_closed(void *ctx);

void br_daemon_limits(struct br_limits *ret, const struct cfg *cfg)
{
    *ret = (struct br_limits){.peers_max = PEERS_MAX,
                              .queue_max = (unsigned)cfg->queue_jobs_max,
                              .per_key_max = (unsigned)cfg->queue_per_key_max,
                              .queue_bytes_max = QUEUE_BYTES_MAX,
                              .queue_wait_ms = (unsigned)cfg->queue_wait_s * 1000U,
                              .calls_per_worker_max = CALLS_PER_WORKER_MAX,
                              .heartbeat_ms = HEARTBEAT_MS,
                              .liveness = LIVENESS,
                              .grace_ms = GRACE_MS,
                              .limbo_ms = LIMBO_MS,
                              .sbx_wait_ms = SBX_WAIT_MS,
                              .fair = BR_FAIR_IN_FLIGHT};
}

/* --- process watches
 * -------------------------------------------------------------------------------------------------
 */

static void on_watch_closed(void *ctx)
{
    struct br_watch *w = ctx;
    struct br_daemon *d = w->daemon;

    (void)close(w->fd);
    mem_free(w);
    part_closed(d);
}

static void watch_close(struct br_watch *w)
{
    list_remove(&w->daemon->watches, &w->link);
    closer_close_one(&w->closer, (uv_handle_t *)&w->poll);
    closer_finish(&w->closer);
}

static void on_exited(uv_poll_t *h, int status, int events)
{
    struct br_watch *w = h->data;
    struct br_event ev = {.kind = BR_EV_EXITED, .peer = w->peer};

    (void)status;
    (void)events;
    (void)uv_poll_stop(h);
    step(w->daemon, &ev); /* UNWATCH closes it */
}

static void watch_open(struct br_daemon *d, uint64_t peer, uint32_t pid)
{
    struct br_watch *w = mem_zalloc(sizeof(*w));
    long fd = w != NULL ? syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;

    /* Without a watch, silence tells. ESRCH is a process that is gone already: its socket is too.
     */
    if (fd < 0 || uv_poll_init(&d->loop->uv, &w->poll, (int)fd) != 0) {
        if (fd >= 0) {
            (void)close((int)fd);
        }
        mem_free(w);
        return;
    }
    w->fd = (int)fd;
    w->peer = peer;
    w->daemon = d;
    w->poll.data = w;
    closer_init(&w->closer, on_watch_closed, w);
    closer_add(&w->closer);
    list_push_back(&d->watches, &w->link);
    d->parts++;
    (void)uv_poll_start(&w->poll, UV_READABLE, on_exited);
}

static void watch_drop(struct br_daemon *d, uint64_t peer)
{
    LIST_FOREACH_SAFE (k, tmp, &d->watches) {
        struct br_watch *w = CONTAINER_OF(k, struct br_watch, link);

        if (w->peer == peer) {
            watch_close(w);
            return;
        }
    }
}

/* --- actions
 * ---------------------------------------------------------------------------------------------------------
 */

static void reply_stats(struct br_daemon *d, const struct br_act *a)
{
    struct msg_head h = {.type = MSG_STATS_REPLY};
    struct msg_body_STATS_REPLY m = {.call = a->call};
    struct buf *payload = NULL;
    struct bytes text;
    int rc;

    bytes_init(&text, BR_STATS_REPLY_MAX);
    rc = a->what == MSG_STATS_METRICS ? br_stats_metrics(&d->stats, d->core, clock_ms(), &text)
                                      : br_stats_status(&d->stats, d->core, clock_ms(), &text);
    if (rc == 0 && text.n > 0) {
        payload = buf_from_bytes(&text);
    }
    bytes_reset(&d->frame);
    if (msg_encode_STATS_REPLY(&d->frame, &h, &m) == 0) {
        (void)br_router_send(d->router, &a->to, sv_from(d->frame.p, d->frame.n), payload);
    }
    buf_unref(payload);
    bytes_fini(&text);
}

static void log_note(const struct br_act *a)
{
    switch (a->note) {
    case BR_NOTE_JOIN:
        LOG(PEER_JOIN, NULL, KV_S("peer", a->name), KV_S("role", a->role), KV_U("capacity", a->n));
        return;
    case BR_NOTE_LEFT:
        LOG(PEER_LEFT, NULL, KV_S("peer", a->name), KV_S("role", a->role), KV_S("why", a->text));
        return;
    case BR_NOTE_GONE:
        LOG(PEER_GONE, NULL, KV_S("peer", a->name), KV_S("role", a->role), KV_S("why", a->text),
            KV_U("in_flight", a->n));
        return;
    case BR_NOTE_BAD:
        LOG(PEER_BAD, NULL, KV_S("peer", a->name), KV_S("role", a->role),
            KV_S("err", err_name(a->code)), KV_S("detail", a->text));
        return;
    case BR_NOTE_LOST:
        LOG(JOB_LOST, &a->rid, KV_S("why", a->text), KV_U("attempt", a->n));
        return;
    case BR_NOTE_RETRY:
        LOG(JOB_RETRY, &a->rid, KV_S("why", a->text), KV_U("attempt", a->n));
        return;
    }
}

/* A peer that cannot be reached, or takes nothing, is gone. */
static bool send_act(struct br_daemon *d, const struct br_act *a)
{
    int rc = br_router_send(d->router, &a->to, a->frame0, a->payload);

    return rc == 0 || a->peer == 0;
}

static unsigned carry_out(struct br_daemon *d, const struct br_act *acts, size_t n,
                          uint64_t *ret_unreachable)
{
    unsigned lost = 0;

    for (size_t i = 0; i < n; i++) {
        const struct br_act *a = &acts[i];

        switch (a->kind) {
        case BR_ACT_SEND:
            if (!send_act(d, a) && lost < UNREACHABLE_MAX &&
                (lost == 0 || ret_unreachable[lost - 1] != a->peer)) {
                ret_unreachable[lost++] = a->peer;
            }
            break;
        case BR_ACT_WATCH:
            watch_open(d, a->peer, a->pid);
            break;
        case BR_ACT_UNWATCH:
            watch_drop(d, a->peer);
            break;
        case BR_ACT_STATS:
            reply_stats(d, a);
            break;
        case BR_ACT_NOTE:
            log_note(a);
            break;
        case BR_ACT_STOP:
            stop(d);
            return 0;
        }
    }
    return lost;
}

static void on_timer(uv_timer_t *h)
{
    struct br_daemon *d = h->data;
    struct br_event ev = {.kind = BR_EV_TICK};

    d->timer_due_ms = UINT64_MAX;
    step(d, &ev);
}

/* An armed timer that is too early only costs an empty step; so it is moved only when it is too
 * late. */
static void timer_arm(struct br_daemon *d, uint64_t now_ms)
{
    uint64_t due = br_core_next_due(d->core);

    if (!d->is_stopping && due < d->timer_due_ms) {
        d->timer_due_ms = due;
        uv_update_time(&d->loop->uv);
        (void)uv_timer_start(&d->timer, on_timer, due > now_ms ? due - now_ms : 0, 0);
    }
}

static void step(struct br_daemon *d, const struct br_event *ev)
{
    uint64_t unreachable[UNREACHABLE_MAX];
    uint64_t now_ms = clock_ms();
    const struct br_act *acts;
    size_t n;
    unsigned lost;

    if (d->is_stopping) {
        return;
    }
    acts = br_core_step(d->core, now_ms, ev, &n);
    lost = carry_out(d, acts, n, unreachable);
    while (lost > 0 && !d->is_stopping) {
        struct br_event gone = {.kind = BR_EV_UNREACHABLE, .peer = unreachable[--lost]};
        uint64_t more[UNREACHABLE_MAX];
        unsigned more_n;

        acts = br_core_step(d->core, now_ms, &gone, &n);
        more_n = carry_out(d, acts, n, more);
        for (unsigned i = 0; i < more_n && lost < UNREACHABLE_MAX; i++) {
            unreachable[lost++] = more[i];
        }
    }
    timer_arm(d, now_ms);
}

static void on_router_event(void *ctx, const struct br_event *ev)
{
    step(ctx, ev);
}

/* --- start and stop
 * ----------------------------------------------------------------------------------------------------
 */

static void daemon_free(struct br_daemon *d)
{
    br_core_free(d->core);
    bytes_fini(&d->frame);
    mem_free(d);
}

/* After the last part nothing refers to the daemon any more. */
static void part_closed(void *ctx)
{
    struct br_daemon *d = ctx;
    void (*on_stopped)(void *ctx) = d->on_stopped;
    void *on_ctx = d->ctx;

    if (--d->parts > 0) {
        return;
    }
    REQUIRE(d->is_stopping);
    daemon_free(d);
    if (on_stopped != NULL) {
        on_stopped(on_ctx);
    }
}

static void stop(struct br_daemon *d)
{
    if (d->is_stopping) {
        return;
    }
    d->is_stopping = true;
    LIST_FOREACH_SAFE (k, tmp, &d->watches) {
        watch_close(CONTAINER_OF(k, struct br_watch, link));
    }
    (void)uv_timer_stop(&d->timer);
    closer_close_one(&d->closer, (uv_handle_t *)&d->timer);
    closer_finish(&d->closer);
    br_router_close(d->router, part_closed, d);
}

static int core_start(struct br_daemon *d, const struct cfg *cfg)
{
    struct br_setup setup = {.now_ms = clock_ms()};
    struct stat st;

    br_daemon_limits(&setup.limits, cfg);
    id_random(&setup.instance, sizeof(setup.instance));
    if (stat("/proc/self/ns/pid", &st) == 0) {
        setup.pid_ns = st.st_ino;
    }
    return br_core_new(&d->core, &setup);
}

int br_daemon_start(struct br_daemon **ret, struct loop *loop, const struct br_daemon_opts *opts,
                    struct err *e)
{
    struct br_daemon *d = mem_zalloc(sizeof(*d));
    int rc;

    if (d == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    d->loop = loop;
    list_init(&d->watches);
    bytes_init(&d->frame, 4096);
    (void)sv_copy(d->name, sizeof(d->name), sv_of(opts->name));
    d->stats = (struct br_stats){.name = d->name,
                                 .pid = (uint32_t)getpid(),
                                 .started_ms = clock_ms(),
                                 .generation = opts->cfg->generation};
    d->on_stopped = opts->on_stopped;
    d->ctx = opts->ctx;
    d->timer_due_ms = UINT64_MAX;
    if ((rc = core_start(d, opts->cfg)) != 0) {
        daemon_free(d);
        return err_set(e, rc, NULL);
    }
    if ((rc = br_router_open(&d->router, loop, opts->cfg, on_router_event, d, e)) != 0) {
        daemon_free(d);
        return rc;
    }
    (void)uv_timer_init(&loop->uv, &d->timer);
    d->timer.data = d;
    closer_init(&d->closer, part_closed, d);
    closer_add(&d->closer);
    d->parts = 2;
    timer_arm(d, clock_ms());
    *ret = d;
    return 0;
}

void br_daemon_reload(struct br_daemon *d, struct cfg *cfg)
{
    struct br_limits limits;
    struct br_event ev = {.kind = BR_EV_LIMITS, .limits = &limits};

    br_daemon_limits(&limits, cfg);
    d->stats.generation = cfg->generation;
    step(d, &ev);
}

void br_daemon_drain(struct br_daemon *d, unsigned limit_ms)
{
    struct br_event ev = {.kind = BR_EV_DRAIN, .drain_ms = limit_ms};

    step(d, &ev);
}

const char *br_daemon_endpoint(const struct br_daemon *d, unsigned plane)
{
    return br_router_endpoint(d->router, plane);
}
