#include "sb_session.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/sm.h"

#define TO(name) (1U << SB_SESSION_##name)

static const struct sm_state session_states[] = {
#define X(name, to) {#name, (to)},
    SB_SESSION_STATES(X)
#undef X
};

static void pump(struct sb_session *s);
static void create(struct sb_session *s);

/* --- state
 * -----------------------------------------------------------------------------------------------------
 */

static bool session_invariant(const struct sb_session *s)
{
    bool in_cache = s->entry.owner != NULL;

    return in_cache == (s->state < SB_SESSION_CLOSING) &&
           (s->state != SB_SESSION_BUSY || s->running != NULL) &&
           (s->state != SB_SESSION_IDLE || s->running == NULL) &&
           (s->state != SB_SESSION_GONE ||
            (s->box == NULL && s->running == NULL && !s->is_creating));
}

/* An entry in use is neither evicted nor expired. */
static void pin(struct sb_session *s)
{
    s->entry.is_pinned = s->state != SB_SESSION_IDLE || !list_is_empty(&s->waiting);
}

/* The only writer of s->state. */
static void move(struct sb_session *s, enum sb_session_state next, const char *why)
{
    s->state = (enum sb_session_state)sm_move(session_states, "session", s->created_unix_ms,
                                              s->state, next, why);
    pin(s);
    INVARIANT(session_invariant(s));
}

/* --- answers
 * ---------------------------------------------------------------------------------------------------
 */

static void reply(struct sb_session *s, const struct sb_origin *to, int code, uint32_t notes,
                  const char *text, struct buf *payload)
{
    const struct sb_reply r = {.code = code,
                               .notes = notes,
                               .sandbox_id = s->id,
                               .text = text != NULL ? text : "",
                               .payload = payload};

    s->core->hooks.reply(s->core->hooks.ctx, to, &r);
}

static void reply_all(struct sb_session *s, const struct sb_run *r, int code, const char *text,
                      struct buf *payload)
{
    for (unsigned i = 0; i < r->waiter_count; i++) {
        reply(s, &r->waiters[i], code, r->notes, text, payload);
    }
}

static void fail_waiting(struct sb_session *s, int code, const char *text)
{
    struct list_link *k;

    while ((k = list_first(&s->waiting)) != NULL) {
        struct sb_run *r = CONTAINER_OF(k, struct sb_run, link);

        list_remove(&s->waiting, k);
        reply_all(s, r, code, text, NULL);
        sb_run_free(r);
    }
}

void sb_session_put_json(const struct sb_session *s, struct bytes *b)
{
    static const char *const status[SB_SESSION_STATE_COUNT] = {
        [SB_SESSION_NEW] = "creating",      [SB_SESSION_EVICTING] = "creating",
        [SB_SESSION_CREATING] = "creating", [SB_SESSION_IDLE] = "idle",
        [SB_SESSION_BUSY] = "busy",         [SB_SESSION_CLOSING] = "closing",
        [SB_SESSION_GONE] = "closing",
    };
    uint64_t age_ms = clock_ms() - s->entry.last_access_ms;
    uint64_t now_s = clock_unix_ms() / 1000;

    (void)bytes_put_str(b, "{\"id\":");
    (void)bytes_put_json_str(b, sv_of(s->id));
    (void)bytes_printf(
        b, ",\"object\":\"sandbox\",\"created_at\":%llu,\"status\":\"%s\",\"provider\":\"%s\"",
        (unsigned long long)(s->created_unix_ms / 1000), status[s->state], s->provider->ops->name);
    (void)bytes_put_str(b, ",\"sandbox_tool\":");
    (void)bytes_put_json_str(b, sv_of(s->tool));
    (void)bytes_put_str(b, ",\"session_id\":");
    if (s->name[0] != '\0') {
        (void)bytes_put_json_str(b, sv_of(s->name));
    } else {
        (void)bytes_put_str(b, "null");
    }
    (void)bytes_printf(b, ",\"last_active_at\":%llu,\"expires_at\":%llu}",
                       (unsigned long long)(now_s - age_ms / 1000),
                       (unsigned long long)(now_s - age_ms / 1000 + s->core->cfg->sessions_ttl_s));
}

struct buf *sb_session_describe(const struct sb_session *s)
{
    struct bytes b;
    struct buf *ret = NULL;

    bytes_init(&b, 8192);
    sb_session_put_json(s, &b);
    if (b.rc == 0) {
        ret = buf_from_bytes(&b);
    }
    bytes_fini(&b);
    return ret;
}

/* --- end
 * -------------------------------------------------------------------------------------------------------
 */

static void stop_check(struct sb_core *c)
{
    if (c->is_stopping && list_is_empty(&c->sessions) && c->dead_boxes == 0 && c->stopped != NULL) {
        void (*done)(void *) = c->stopped;

        c->stopped = NULL;
        done(c->stopped_ctx);
    }
}

static void victim_gone(struct sb_session *s)
{
    struct sb_session *evictor = s->evictor;

    s->evictor = NULL;
    if (evictor != NULL) {
        evictor->victim = NULL;
        create(evictor);
    }
}

static void gone(struct sb_session *s)
{
    struct sb_core *c = s->core;

    move(s, SB_SESSION_GONE, "ended");
    LOG(SANDBOX_GONE, NULL, KV_S("id", s->id), KV_S("provider", s->provider->ops->name),
        KV_S("why", s->close_why));
    if (s->has_delete_origin) {
        reply(s, &s->delete_origin, 0, 0, NULL, NULL);
    }
    victim_gone(s);
    list_remove(&c->sessions, &s->all);
    mem_free(s);
    stop_check(c);
}

static void on_destroyed(void *ctx, int rc, const struct err *e)
{
    struct sb_session *s = ctx;

    if (rc != 0) {
        LOG(SANDBOX_LOST, NULL, KV_S("id", s->id), KV_S("during", "delete"),
            KV_S("err", err_name(rc)), KV_S("detail", e != NULL ? e->text : ""));
    }
    s->box = NULL;
    metric_add(METRIC_SB_DELETES, s->provider->ops->name, s->close_why, 1);
    gone(s);
}

static void on_dead_destroyed(void *ctx, int rc, const struct err *e)
{
    struct sb_core *c = ctx;

    (void)rc;
    (void)e;
    c->dead_boxes--;
    stop_check(c);
}

/* Lets go of a box that died; the session lives on and gets another one when it is used. */
static void drop_dead_box(struct sb_session *s, const char *why)
{
    struct sb_box *box = s->box;

    if (box == NULL) {
        return;
    }
    LOG(SANDBOX_LOST, NULL, KV_S("id", s->id), KV_S("why", why));
    s->box = NULL;
    s->was_lost = true;
    (void)map_take(s->core->by_id, sv_of(s->id));
    s->core->dead_boxes++;
    metric_add(METRIC_SB_DELETES, s->provider->ops->name, "lost", 1);
    s->provider->ops->destroy(box, on_dead_destroyed, s->core);
}

static void on_dead(void *ctx, const char *why)
{
    struct sb_session *s = ctx;

    if (s->state == SB_SESSION_IDLE) {
        drop_dead_box(s, why);
    }
    /* BUSY: the end of the run says so. CLOSING: the delete does. */
}

static void leave_cache(struct sb_session *s)
{
    sb_cache_remove(s->core->cache, &s->entry);
    if (s->id[0] != '\0' && map_get(s->core->by_id, sv_of(s->id)) == s) {
        (void)map_take(s->core->by_id, sv_of(s->id));
    }
    if (s->entry.is_counted) {
        s->core->hooks.changed(s->core->hooks.ctx);
    }
}

static void finish_closing(struct sb_session *s)
{
    if (s->is_creating) {
        return; /* on_created comes back here */
    }
    if (s->box != NULL) {
        s->provider->ops->destroy(s->box, on_destroyed, s);
    } else {
        gone(s);
    }
}

void sb_session_close(struct sb_session *s, int code, const char *why)
{
    if (s->state >= SB_SESSION_CLOSING) {
        return;
    }
    s->close_why = why;
    leave_cache(s);
    if (s->victim != NULL) {
        s->victim->evictor = NULL;
        s->victim = NULL;
    }
    move(s, SB_SESSION_CLOSING, why);
    fail_waiting(s, code, why);
    if (s->running != NULL) {
        s->running->is_cancelled = true;
    }
    finish_closing(s);
}

/* --- beginning
 * -------------------------------------------------------------------------------------------------
 */

int sb_session_new(struct sb_session **ret, struct sb_core *c, const struct sb_cache_entry *key,
                   enum msg_sbx_scope scope, struct str_view name,
                   const struct cfg_sandbox_tool *tool, struct err *e)
{
    struct sb_session *s;
    int rc;
    const struct sb_core_provider *provider = NULL;

    for (unsigned i = 0; i < c->provider_count; i++) {
        if (strcmp(c->providers[i].ops->name, tool->provider) == 0) {
            provider = &c->providers[i];
        }
    }
    if (provider == NULL) {
        return err_set(e, ERR_SANDBOX_UNAVAILABLE,
                       "sandbox tool '%s': this build has no provider '%s'", tool->name,
                       tool->provider);
    }
    s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    s->entry = *key;
    s->entry.is_counted = scope != MSG_SCOPE_REQUEST;
    s->core = c;
    s->scope = scope;
    s->provider = provider;
    s->close_why = "closed";
    s->created_unix_ms = clock_unix_ms();
    list_init(&s->waiting);
    if (!sv_copy(s->name, sizeof(s->name), name) ||
        !sv_copy(s->tool, sizeof(s->tool), sv_of(tool->name))) {
        mem_free(s);
        return err_set(e, ERR_STRING_TOO_LONG, "session id or sandbox tool name too long");
    }
    rc = sb_cache_add(c->cache, &s->entry, clock_ms());
    if (rc != 0) {
        mem_free(s);
        if (rc == ERR_LIMIT) {
            e->retry_after_ms = 1000;
            rc = err_set(
                e, ERR_SANDBOX_CAPACITY,
                "this gateway runs as many sandboxes as it may (sessions.total); retry later");
        }
        return rc;
    }
    pin(s);
    list_push_back(&c->sessions, &s->all);
    if (s->entry.is_counted) {
        c->hooks.changed(c->hooks.ctx);
    }
    *ret = s;
    return 0;
}

void sb_session_open(struct sb_session *s, struct sb_session *victim)
{
    if (victim == NULL) {
        create(s);
        return;
    }
    s->victim = victim;
    victim->evictor = s;
    s->evict_deadline_ms = clock_ms() + SB_EVICT_WAIT_MS;
    move(s, SB_SESSION_EVICTING, "makes room");
    sb_session_close(victim, ERR_SANDBOX_CAPACITY, "evicted");
}

void sb_session_evict_timeout(struct sb_session *s)
{
    REQUIRE(s->state == SB_SESSION_EVICTING);
    s->victim->evictor = NULL;
    s->victim = NULL;
    create(s);
}

static int adopt_box(struct sb_session *s, struct sb_box *box)
{
    s->box = box;
    (void)sv_copy(s->id, sizeof(s->id), sv_of(s->provider->ops->id(box)));
    return map_put(s->core->by_id, sv_of(s->id), s);
}

static void on_created(void *ctx, int rc, struct sb_box *box, const struct err *e)
{
    struct sb_session *s = ctx;
    const char *provider = s->provider->ops->name;

    s->is_creating = false;
    metric_add(METRIC_SB_CREATES, provider, rc == 0 ? "ok" : "error", 1);
    metric_observe_us(METRIC_SB_CREATE_SECONDS, provider, NULL, clock_us() - s->create_started_us);
    if (s->state == SB_SESSION_CLOSING) {
        s->box = rc == 0 ? box : NULL;
        finish_closing(s);
        return;
    }
    if (rc != 0) {
        LOG(SANDBOX_LOST, NULL, KV_S("during", "create"), KV_S("provider", provider),
            KV_S("err", err_name(rc)), KV_S("detail", e != NULL ? e->text : ""));
        fail_waiting(s, rc, e != NULL && e->text[0] != '\0' ? e->text : err_info(rc)->text);
        sb_session_close(s, rc, "create failed");
        return;
    }
    rc = adopt_box(s, box);
    if (rc != 0) {
        fail_waiting(s, rc, err_info(rc)->text);
        sb_session_close(s, rc, "out of memory");
        return;
    }
    LOG(SANDBOX_CREATE, NULL, KV_S("id", s->id), KV_S("provider", provider),
        KV_U("us", clock_us() - s->create_started_us));
    s->provider->ops->set_on_dead(box, on_dead, s);
    move(s, SB_SESSION_IDLE, "created");
    pump(s);
}

static void create(struct sb_session *s)
{
    const struct cfg_sandbox_tool *tool = cfg_find_tool(s->core->cfg, sv_of(s->tool));
    struct sb_create_opts o = {.cfg = s->core->cfg,
                               .tool = tool,
                               .tenant = s->entry.tenant,
                               .owner_tag = s->core->owner_tag};

    move(s, SB_SESSION_CREATING, s->was_lost ? "replaced" : "new");
    if (tool == NULL) { /* a reload took it away while this session waited */
        fail_waiting(s, ERR_SANDBOX_UNAVAILABLE, "the sandbox tool is no longer configured");
        sb_session_close(s, ERR_SANDBOX_UNAVAILABLE, "sandbox tool removed");
        return;
    }
    s->is_creating = true;
    s->create_started_us = clock_us();
    s->provider->ops->create(s->provider->provider, &o, on_created, s);
}

/* --- runs
 * ------------------------------------------------------------------------------------------------------
 */

static void on_event(void *ctx, enum sb_event_kind kind, struct str_view data)
{
    struct sb_session *s = ctx;
    struct sb_run *r = s->running;
    enum msg_sbx_event out;

    if (r == NULL) {
        return;
    }
    out = sb_run_event(r, kind, data);
    for (unsigned i = 0; out != 0 && i < r->waiter_count; i++) {
        s->core->hooks.event(s->core->hooks.ctx, &r->waiters[i], out, data);
    }
}

static const char *end_name(enum sb_end end)
{
    switch (end) {
    case SB_END_OK:
        return "ok";
    case SB_END_TIMEOUT:
        return "timeout";
    case SB_END_INTERRUPTED:
        return "interrupted";
    case SB_END_LOST:
        return "lost";
    }
    return "?";
}

static void record(struct sb_session *s, struct sb_run *r, int code, struct buf *payload)
{
    struct sb_op_result res = {.code = code, .notes = r->notes, .payload = payload};

    if (!sb_run_has_op_id(r)) {
        return;
    }
    (void)sv_copy(res.sandbox_id, sizeof(res.sandbox_id), sv_of(s->id));
    (void)sb_oplog_put(s->core->oplog, &r->tenant, &r->op_id, &res, clock_ms());
}

static void answer_run(struct sb_session *s, struct sb_run *r, enum sb_end end, const struct err *e)
{
    static const char *const names[] = {[SB_END_OK] = NULL,
                                        [SB_END_TIMEOUT] = "TimeoutError",
                                        [SB_END_INTERRUPTED] = "KeyboardInterrupt",
                                        [SB_END_LOST] = "SandboxLost"};
    const char *text = e != NULL && e->text[0] != '\0' ? e->text : NULL;
    struct buf *payload = sb_run_result(r, names[end], text, s->id);
    int code = payload == NULL ? ERR_NOMEM : r->is_cancelled ? ERR_CANCELLED : 0;
    uint64_t us = clock_us() - r->started_us;

    metric_add(METRIC_SB_RUNS, s->provider->ops->name, end_name(end), 1);
    metric_observe_us(METRIC_SB_RUN_SECONDS, s->provider->ops->name, NULL, us);
    LOG(RUN_DONE, r->waiter_count > 0 ? &r->waiters[0].rid : NULL, KV_S("id", s->id),
        KV_S("end", end_name(end)), KV_U("us", us),
        KV_U("out_bytes", r->out.n + r->err.n + r->results.n));
    record(s, r, code, payload);
    reply_all(s, r, code, text, payload);
    buf_unref(payload);
}

/* Puts a run back whose sandbox was found dead before anything of it ran. */
static bool retry_in_new_box(struct sb_session *s, struct sb_run *r, enum sb_end end,
                             const struct err *e)
{
    if (end != SB_END_LOST || e == NULL || e->code != ERR_SANDBOX_NOT_FOUND || r->was_replaced ||
        r->is_cancelled) {
        return false;
    }
    r->was_replaced = true;
    list_push_front(&s->waiting, &r->link);
    return true;
}

static void on_end(void *ctx, enum sb_end end, bool is_truncated, const struct err *e)
{
    struct sb_session *s = ctx;
    struct sb_run *r = s->running;
    bool is_retried = false;

    REQUIRE(r != NULL);
    s->running = NULL;
    r->is_truncated = r->is_truncated || is_truncated;
    if (s->state == SB_SESSION_BUSY) {
        is_retried = retry_in_new_box(s, r, end, e);
    }
    r->notes |= r->is_truncated ? MSG_SBX_NOTE_TRUNCATED : 0U;
    r->notes |= end == SB_END_TIMEOUT ? MSG_SBX_NOTE_TIMEOUT : 0U;
    r->notes |= end == SB_END_LOST && !is_retried ? MSG_SBX_NOTE_INTERRUPTED : 0U;
    if (!is_retried) {
        answer_run(s, r, end, e);
        sb_run_free(r);
    }
    if (s->state != SB_SESSION_BUSY) {
        return; /* closing: the delete is under way */
    }
    sb_cache_touch(s->core->cache, &s->entry, clock_ms());
    move(s, SB_SESSION_IDLE, end_name(end));
    if (end == SB_END_LOST) {
        drop_dead_box(s, e != NULL ? e->text : "lost");
    }
    pump(s);
}

static void start_run(struct sb_session *s, struct sb_run *r)
{
    const struct sb_run_hooks hooks = {.on_event = on_event, .on_end = on_end, .ctx = s};
    uint32_t timeout_ms =
        r->timeout_ms != 0 ? r->timeout_ms : (uint32_t)(s->core->cfg->ci_run_timeout_s * 1000);

    s->running = r;
    if (s->was_lost) {
        r->notes |= MSG_SBX_NOTE_RESTARTED;
        s->was_lost = false;
    }
    r->started_us = clock_us();
    move(s, SB_SESSION_BUSY, "run");
    for (unsigned i = 0; i < r->waiter_count; i++) {
        s->core->hooks.event(s->core->hooks.ctx, &r->waiters[i], MSG_SBX_STARTED, sv_of(s->id));
    }
    s->provider->ops->run(s->box, r->code, timeout_ms, &hooks);
}

/* Takes from the queue what can be done now. */
static void pump(struct sb_session *s)
{
    struct list_link *k;

    while (s->state == SB_SESSION_IDLE && (k = list_first(&s->waiting)) != NULL) {
        struct sb_run *r = CONTAINER_OF(k, struct sb_run, link);

        if (s->box != NULL && !s->provider->ops->is_alive(s->box)) {
            drop_dead_box(s, "found dead");
        }
        if (s->box == NULL) {
            create(s);
            return;
        }
        list_remove(&s->waiting, k);
        if (r->op == MSG_SBX_RUN) {
            start_run(s, r);
            return;
        }
        struct buf *object = sb_session_describe(s);

        reply_all(s, r, object != NULL ? 0 : ERR_NOMEM, NULL, object);
        buf_unref(object);
        sb_run_free(r);
    }
    pin(s);
}

void sb_session_enqueue(struct sb_session *s, struct sb_run *r)
{
    sb_cache_touch(s->core->cache, &s->entry, clock_ms());
    if (r->op == MSG_SBX_OPEN && s->state == SB_SESSION_BUSY) {
        /* its sandbox is known: no need to wait for the run */
        struct buf *object = sb_session_describe(s);

        reply_all(s, r, object != NULL ? 0 : ERR_NOMEM, NULL, object);
        buf_unref(object);
        sb_run_free(r);
        return;
    }
    if (s->waiting.count >= SB_QUEUE_MAX) {
        reply_all(s, r, ERR_SANDBOX_BUSY,
                  "too many runs wait for this sandbox; wait for their results first", NULL);
        sb_run_free(r);
        return;
    }
    list_push_back(&s->waiting, &r->link);
    pin(s);
    pump(s);
}

bool sb_session_cancel(struct sb_session *s, const struct sb_origin *origin)
{
    LIST_FOREACH_SAFE (k, tmp, &s->waiting) {
        struct sb_run *r = CONTAINER_OF(k, struct sb_run, link);

        if (sb_run_drop_waiter(r, origin)) {
            reply(s, origin, ERR_CANCELLED, 0, NULL, NULL);
            if (r->waiter_count == 0) {
                list_remove(&s->waiting, k);
                sb_run_free(r);
                pin(s);
            }
            return true;
        }
    }
    if (s->running == NULL || s->state != SB_SESSION_BUSY) {
        return false;
    }
    for (unsigned i = 0; i < s->running->waiter_count; i++) {
        if (!sb_origin_eq(&s->running->waiters[i], origin)) {
            continue;
        }
        if (s->running->waiter_count > 1) {
            (void)sb_run_drop_waiter(s->running, origin);
            reply(s, origin, ERR_CANCELLED, 0, NULL, NULL);
        } else {
            s->running->is_cancelled = true; /* answered when it has ended */
            s->provider->ops->interrupt(s->box);
        }
        return true;
    }
    return false;
}
