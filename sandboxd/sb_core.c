#include "sb_core.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "sb_session.h"

int sb_core_new(struct sb_core **ret, struct cfg *cfg, const char *owner_tag,
                const struct sb_core_provider *providers, unsigned provider_count,
                const struct sb_core_hooks *hooks)
{
    struct sb_core *c = mem_zalloc(sizeof(*c));

    if (c == NULL) {
        return ERR_NOMEM;
    }
    REQUIRE(provider_count <= sizeof(c->providers) / sizeof(c->providers[0]));
    list_init(&c->sessions);
    memcpy(c->providers, providers, provider_count * sizeof(providers[0]));
    c->provider_count = provider_count;
    c->hooks = *hooks;
    (void)sv_copy(c->owner_tag, sizeof(c->owner_tag), sv_of(owner_tag));
    c->cache = sb_cache_new(cfg->sandboxes_max);
    c->by_id = map_new(cfg->sandboxes_max);
    c->oplog = sb_oplog_new();
    c->cfg = cfg_ref(cfg);
    if (c->cache == NULL || c->by_id == NULL || c->oplog == NULL) {
        sb_core_free(c);
        return ERR_NOMEM;
    }
    *ret = c;
    return 0;
}

void sb_core_free(struct sb_core *c)
{
    if (c == NULL) {
        return;
    }
    REQUIRE(list_is_empty(&c->sessions));
    sb_cache_free(c->cache);
    map_free(c->by_id);
    sb_oplog_free(c->oplog);
    cfg_unref(c->cfg);
    mem_free(c);
}

/* --- answers
 * ---------------------------------------------------------------------------------------------------
 */

static void reply_error(struct sb_core *c, const struct sb_origin *to, const struct err *e)
{
    const struct sb_reply r = {
        .code = e->code, .retry_after_ms = e->retry_after_ms, .sandbox_id = "", .text = e->text};

    c->hooks.reply(c->hooks.ctx, to, &r);
}

static void reply_code(struct sb_core *c, const struct sb_origin *to, int code, const char *text)
{
    struct err e = {0};

    (void)err_set(&e, code, text != NULL ? "%s" : NULL, text);
    reply_error(c, to, &e);
}

static void reply_ok(struct sb_core *c, const struct sb_origin *to, const char *sandbox_id,
                     struct buf *payload)
{
    const struct sb_reply r = {.code = payload != NULL ? 0 : ERR_NOMEM,
                               .sandbox_id = sandbox_id,
                               .text = payload != NULL ? "" : err_info(ERR_NOMEM)->text,
                               .payload = payload};

    c->hooks.reply(c->hooks.ctx, to, &r);
}

/* --- finding and making sessions
 * --------------------------------------------------------------------------------- */

static int make_key(struct sb_cache_entry *key, const struct sb_core_call *call, struct err *e)
{
    int rc;

    memset(key, 0, sizeof(*key));
    if (call->scope == MSG_SCOPE_SESSION) {
        if (call->session.n == 0) {
            return err_set_param(e, ERR_MISSING_PARAM, "session_id", "session id is empty");
        }
        rc = sb_cache_key(key, 'S', &call->tenant, call->session);
    } else if (call->scope == MSG_SCOPE_REQUEST) {
        rc = sb_cache_key(key, 'R', &call->tenant, sv_from(call->origin.rid.b, REQUEST_ID_BYTES));
    } else {
        char random[16];

        id_random(random, sizeof(random));
        rc = sb_cache_key(key, 'B', &call->tenant, sv_from(random, sizeof(random)));
    }
    return rc != 0
               ? err_set_param(e, rc, "session_id", "session id too long; use at most 256 bytes")
               : 0;
}

/* The session that exists for this call, or NULL. */
static struct sb_session *find(struct sb_core *c, const struct sb_core_call *call)
{
    struct sb_cache_entry key;
    struct sb_cache_entry *found;

    if (call->scope == MSG_SCOPE_SANDBOX) {
        struct sb_session *s = map_get(c->by_id, call->session);

        /* another tenant's sandbox does not exist for this one */
        return s != NULL && id_equal(s->entry.tenant.b, call->tenant.b, TENANT_BYTES) ? s : NULL;
    }
    if (make_key(&key, call, NULL) != 0) {
        return NULL;
    }
    found = sb_cache_find(c->cache, &key);
    return found != NULL ? CONTAINER_OF(found, struct sb_session, entry) : NULL;
}

/* Finds whom to evict for one more session of the tenant. 0 with *ret_victim NULL when there is
 * room. */
static int make_room(struct sb_core *c, const struct sb_core_call *call,
                     struct sb_session **ret_victim, struct err *e)
{
    unsigned cap =
        call->sessions_max != 0 ? call->sessions_max : (unsigned)c->cfg->sessions_per_key;
    struct sb_cache_entry *lru;

    *ret_victim = NULL;
    if (call->scope == MSG_SCOPE_REQUEST || sb_cache_count(c->cache, &call->tenant) < cap) {
        return 0;
    }
    lru = sb_cache_lru_idle(c->cache, &call->tenant);
    if (lru == NULL) {
        e->retry_after_ms = 1000;
        return err_set(e, ERR_SANDBOX_CAPACITY,
                       "all %u sandbox sessions of this API key are in use; wait for a run to end "
                       "or use an existing "
                       "session_id",
                       cap);
    }
    *ret_victim = CONTAINER_OF(lru, struct sb_session, entry);
    return 0;
}

static int session_make(struct sb_core *c, const struct sb_core_call *call, struct sb_session **ret,
                        struct sb_session **ret_victim, struct err *e)
{
    const struct cfg_sandbox_tool *tool = cfg_find_tool(c->cfg, call->tool);
    struct sb_cache_entry key;
    int rc;

    if (c->is_stopping) {
        return err_set(e, ERR_SANDBOX_UNAVAILABLE, "sandboxd is shutting down");
    }
    if (tool == NULL) {
        return err_set_param(e, call->tool.n > 0 ? ERR_INVALID : ERR_SANDBOX_UNAVAILABLE,
                             "sandbox_tool", "no sandbox tool named '%.*s' is configured",
                             (int)call->tool.n, call->tool.n > 0 ? call->tool.p : "");
    }
    if ((rc = make_key(&key, call, e)) != 0 || (rc = make_room(c, call, ret_victim, e)) != 0) {
        return rc;
    }
    return sb_session_new(ret, c, &key, call->scope,
                          call->scope == MSG_SCOPE_SESSION ? call->session : SV_LIT(""), tool, e);
}

/* --- calls
 * -----------------------------------------------------------------------------------------------------
 */

/* True when the call was answered from the record or joined a run under way. */
static bool is_repeated(struct sb_core *c, const struct sb_core_call *call)
{
    static const struct msg_id16 none;
    const struct sb_op_result *res;
    struct sb_session *s;

    if (call->op != MSG_SBX_RUN || memcmp(&call->op_id, &none, sizeof(none)) == 0) {
        return false;
    }
    res = sb_oplog_get(c->oplog, &call->tenant, &call->op_id, clock_ms());
    if (res != NULL) {
        const struct sb_reply r = {.code = res->code,
                                   .notes = res->notes | MSG_SBX_NOTE_REPEATED,
                                   .sandbox_id = res->sandbox_id,
                                   .text = "",
                                   .payload = res->payload};

        c->hooks.reply(c->hooks.ctx, &call->origin, &r);
        return true;
    }
    s = find(c, call);
    if (s == NULL) {
        return false;
    }
    struct sb_run *r = s->running;

    if (r != NULL && memcmp(&r->op_id, &call->op_id, sizeof(none)) == 0 && !r->is_cancelled) {
        return sb_run_add_waiter(r, &call->origin) == 0;
    }
    LIST_FOREACH_SAFE (k, tmp, &s->waiting) {
        r = CONTAINER_OF(k, struct sb_run, link);
        if (r->op == MSG_SBX_RUN && memcmp(&r->op_id, &call->op_id, sizeof(none)) == 0) {
            return sb_run_add_waiter(r, &call->origin) == 0;
        }
    }
    return false;
}

static void call_use(struct sb_core *c, const struct sb_core_call *call)
{
    struct err e = {0};
    struct sb_session *victim = NULL;
    struct sb_session *s;
    struct sb_run *r;
    bool is_new = false;

    if (is_repeated(c, call)) {
        return;
    }
    s = find(c, call);
    if (s == NULL && call->scope == MSG_SCOPE_SANDBOX && call->session.n > 0) {
        (void)err_set(&e, ERR_SANDBOX_NOT_FOUND, "no sandbox '%.*s'",
                      (int)(call->session.n > 128 ? 128 : call->session.n), call->session.p);
        reply_error(c, &call->origin, &e);
        return;
    }
    struct buf *code = call->payload != NULL ? buf_ref(call->payload) : buf_copy("", 0);

    r = code != NULL ? sb_run_new(&call->origin, call->op, c->cfg->local_output_max_bytes) : NULL;
    if (r == NULL) {
        buf_unref(code);
        reply_code(c, &call->origin, ERR_NOMEM, NULL);
        return;
    }
    if (s == NULL) {
        if (session_make(c, call, &s, &victim, &e) != 0) {
            buf_unref(code);
            sb_run_free(r);
            reply_error(c, &call->origin, &e);
            return;
        }
        s->maker = call->origin;
        r->notes |= MSG_SBX_NOTE_CREATED;
        is_new = true;
    }
    r->tenant = call->tenant;
    r->op_id = call->op_id;
    r->timeout_ms = call->timeout_ms;
    r->code = code;
    sb_session_enqueue(s, r);
    if (is_new) {
        sb_session_open(s, victim);
    }
}

static void call_delete(struct sb_core *c, const struct sb_core_call *call)
{
    struct sb_session *s = find(c, call);

    if (s == NULL) {
        if (call->op == MSG_SBX_CLOSE) {
            const struct sb_reply r = {.sandbox_id = "", .text = ""};

            c->hooks.reply(c->hooks.ctx, &call->origin,
                           &r); /* nothing was made, or it is gone already */
        } else {
            reply_code(c, &call->origin, ERR_SANDBOX_NOT_FOUND, "no such sandbox");
        }
        return;
    }
    if (call->op == MSG_SBX_CLOSE && s->scope != MSG_SCOPE_REQUEST) {
        struct buf *object = sb_session_describe(s);

        reply_ok(c, &call->origin, s->id, object); /* a session's sandbox stays */
        buf_unref(object);
        return;
    }
    s->has_delete_origin = true;
    s->delete_origin = call->origin;
    sb_session_close(s, ERR_CANCELLED, call->op == MSG_SBX_CLOSE ? "request ended" : "deleted");
}

static void call_list(struct sb_core *c, const struct sb_core_call *call)
{
    struct bytes b;
    struct buf *payload = NULL;
    bool is_first = true;

    bytes_init(&b, 16U * 1024U * 1024U);
    (void)bytes_put_str(&b, "{\"data\":[");
    for (struct sb_cache_entry *e = sb_cache_next_of(c->cache, &call->tenant, NULL); e != NULL;
         e = sb_cache_next_of(c->cache, &call->tenant, e)) {
        const struct sb_session *s = CONTAINER_OF(e, struct sb_session, entry);

        if (!e->is_counted || s->id[0] == '\0') {
            continue;
        }
        if (!is_first) {
            (void)bytes_put_char(&b, ',');
        }
        is_first = false;
        sb_session_put_json(s, &b);
    }
    (void)bytes_put_str(&b, "]}");
    if (b.rc == 0) {
        payload = buf_from_bytes(&b);
    }
    bytes_fini(&b);
    reply_ok(c, &call->origin, "", payload);
    buf_unref(payload);
}

static void call_get(struct sb_core *c, const struct sb_core_call *call)
{
    struct sb_session *s = find(c, call);

    if (s == NULL) {
        reply_code(c, &call->origin, ERR_SANDBOX_NOT_FOUND, "no such sandbox");
        return;
    }
    struct buf *object = sb_session_describe(s);

    reply_ok(c, &call->origin, s->id, object);
    buf_unref(object);
}

void sb_core_call(struct sb_core *c, const struct sb_core_call *call)
{
    switch (call->op) {
    case MSG_SBX_OPEN:
    case MSG_SBX_RUN:
        call_use(c, call);
        return;
    case MSG_SBX_CLOSE:
    case MSG_SBX_DELETE:
        call_delete(c, call);
        return;
    case MSG_SBX_LIST:
        call_list(c, call);
        return;
    case MSG_SBX_GET:
        call_get(c, call);
        return;
    case MSG_SBX_PUT_FILE:
    case MSG_SBX_GET_FILE:
    case MSG_SBX_LIST_FILES:
        reply_code(c, &call->origin, ERR_NOT_IMPLEMENTED,
                   "this gateway does not transfer files to sandboxes");
        return;
    }
    reply_code(c, &call->origin, ERR_NOT_IMPLEMENTED, "unknown sandbox operation");
}

void sb_core_cancel(struct sb_core *c, const struct sb_origin *origin)
{
    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        if (sb_session_cancel(CONTAINER_OF(k, struct sb_session, all), origin)) {
            return;
        }
    }
    /* answered already: the two messages crossed */
}

void sb_core_link_lost(struct sb_core *c, const void *link)
{
    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

        if (s->has_delete_origin && s->delete_origin.link == link) {
            s->has_delete_origin = false;
        }
    }
}

/* --- time
 * ------------------------------------------------------------------------------------------------------
 */

static void measure(const struct sb_core *c)
{
    unsigned idle = 0;
    unsigned busy = 0;
    unsigned other = 0;
    size_t queued = 0;

    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        const struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

        idle += s->state == SB_SESSION_IDLE ? 1U : 0U;
        busy += s->state == SB_SESSION_BUSY ? 1U : 0U;
        other += s->state != SB_SESSION_IDLE && s->state != SB_SESSION_BUSY ? 1U : 0U;
        queued += s->waiting.count;
    }
    metric_set(METRIC_SB_SESSIONS, "idle", NULL, idle);
    metric_set(METRIC_SB_SESSIONS, "busy", NULL, busy);
    metric_set(METRIC_SB_SESSIONS, "other", NULL, other);
    metric_set(METRIC_SB_QUEUED_RUNS, NULL, NULL, (double)queued);
    for (unsigned i = 0; i < c->provider_count; i++) {
        if (c->providers[i].ops->stats != NULL) {
            c->providers[i].ops->stats(c->providers[i].provider);
        }
    }
}

void sb_core_tick(struct sb_core *c)
{
    uint64_t now = clock_ms();
    struct sb_cache_entry *e;

    while ((e = sb_cache_expired(c->cache, now, c->cfg->sessions_ttl_s * 1000)) != NULL) {
        sb_session_close(CONTAINER_OF(e, struct sb_session, entry), ERR_CANCELLED, "expired");
    }
    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

        if (s->state == SB_SESSION_EVICTING && now >= s->evict_deadline_ms) {
            sb_session_evict_timeout(s);
        }
    }
    measure(c);
}

void sb_core_reload(struct sb_core *c, struct cfg *cfg)
{
    struct cfg *old = c->cfg;

    c->cfg = cfg_ref(cfg);
    cfg_unref(old);
    for (unsigned i = 0; i < c->provider_count; i++) {
        c->providers[i].ops->reload(c->providers[i].provider, cfg);
    }
}

void sb_core_stop(struct sb_core *c, void (*done)(void *ctx), void *ctx)
{
    REQUIRE(!c->is_stopping);
    c->is_stopping = true;
    c->stopped = done;
    c->stopped_ctx = ctx;
    /* a close may end other sessions of the list, so start over after each */
    for (bool is_more = true; is_more;) {
        is_more = false;
        LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
            struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

            if (s->state < SB_SESSION_CLOSING) {
                sb_session_close(s, ERR_SANDBOX_UNAVAILABLE, "sandboxd is shutting down");
                is_more = true;
                break;
            }
        }
    }
    if (list_is_empty(&c->sessions) && c->dead_boxes == 0 && c->stopped != NULL) {
        c->stopped = NULL;
        done(ctx);
    }
}

bool sb_core_is_busy(const struct sb_core *c)
{
    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        const struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

        if (s->running != NULL || !list_is_empty(&s->waiting)) {
            return true;
        }
    }
    return false;
}

struct counter {
    unsigned sessions;
};

static void count_sessions(void *ctx, const struct tenant_id *t, unsigned n)
{
    struct counter *k = ctx;

    (void)t;
    k->sessions += n;
}

unsigned sb_core_sessions(const struct sb_core *c)
{
    struct counter k = {0};

    sb_cache_each_tenant(c->cache, count_sessions, &k);
    return k.sessions;
}

unsigned sb_core_sandboxes(const struct sb_core *c)
{
    return (unsigned)c->sessions.count + c->dead_boxes;
}

void sb_core_each_request(const struct sb_core *c, const void *link,
                          void (*cb)(void *ctx, const struct request_id *rid,
                                     const struct tenant_id *t),
                          void *ctx)
{
    LIST_FOREACH_SAFE (k, tmp, &c->sessions) {
        const struct sb_session *s = CONTAINER_OF(k, struct sb_session, all);

        if (s->scope == MSG_SCOPE_REQUEST && s->state < SB_SESSION_CLOSING &&
            s->maker.link == link) {
            cb(ctx, &s->maker.rid, &s->entry.tenant);
        }
    }
}

void sb_core_each_tenant(const struct sb_core *c,
                         void (*cb)(void *ctx, const struct tenant_id *t, unsigned n), void *ctx)
{
    sb_cache_each_tenant(c->cache, cb, ctx);
}
