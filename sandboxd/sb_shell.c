#include "sb_shell.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "config/cfg_log.h"
#include "io/link.h"
#include "sb_core.h"

#define LINKS_MAX         16
/* How often a broker is told of single requests\' sandboxes, which it may have failed to close. */
#define BOXES_EVERY_S     10
/* Answers that wait while a link's queue is full; output events beyond it are dropped, results
 * never. */
#define BACKLOG_BYTES_MAX (64U * 1024U * 1024U)

struct backlog {
    struct list_link link;
    struct bytes frame0;
    struct buf *payload;
};

struct broker {
    struct shell *shell;
    struct link *link;
    struct list backlog;
    size_t backlog_bytes;
    unsigned ticks_up;       /* seconds since WELCOME */
    uint32_t said_sandboxes; /* in the last SBX_SESSIONS */
};

struct shell {
    struct loop loop;
    const struct sb_shell_opts *opts;
    struct cfg *cfg;
    struct broker brokers[LINKS_MAX];
    unsigned broker_count;
    unsigned links_open;
    struct sb_core_provider provider;
    struct sb_core *core;
    struct bytes scratch;
    bool is_draining;
    bool is_stopping;
    uint64_t drain_until_ms; /* runs may end until then */
};

/* --- sending
 * ---------------------------------------------------------------------------------------------------
 */

static void backlog_put(struct broker *b, struct buf *payload, bool is_droppable)
{
    struct shell *s = b->shell;
    struct backlog *k;

    if (is_droppable && b->backlog_bytes > BACKLOG_BYTES_MAX) {
        LOG(OVERLOAD, NULL, KV_S("what", "answers to the broker"), KV_U("bytes", b->backlog_bytes));
        return;
    }
    k = mem_zalloc(sizeof(*k));
    if (k == NULL || bytes_put(&k->frame0, s->scratch.p, s->scratch.n) != 0) {
        mem_free(k);
        return;
    }
    k->payload = payload != NULL ? buf_ref(payload) : NULL;
    b->backlog_bytes += k->frame0.n + (payload != NULL ? payload->n : 0);
    list_push_back(&b->backlog, &k->link);
}

static void backlog_pop(struct broker *b, struct backlog *k)
{
    list_remove(&b->backlog, &k->link);
    b->backlog_bytes -= k->frame0.n + (k->payload != NULL ? k->payload->n : 0);
    bytes_fini(&k->frame0);
    buf_unref(k->payload);
    mem_free(k);
}

/* Sends what is in scratch. Without a link the answer is dropped: runs are on record and the asker
 * asks again. */
static void send_scratch(struct broker *b, struct buf *payload, bool is_droppable)
{
    struct shell *s = b->shell;

    if (b->link == NULL || !link_is_up(b->link)) {
        return;
    }
    if (!list_is_empty(&b->backlog) ||
        link_send(b->link, sv_from(s->scratch.p, s->scratch.n), payload) == ERR_AGAIN) {
        backlog_put(b, payload, is_droppable);
    }
}

static void on_writable(void *ctx)
{
    struct broker *b = ctx;

    LIST_FOREACH_SAFE (l, tmp, &b->backlog) {
        struct backlog *k = CONTAINER_OF(l, struct backlog, link);

        if (link_send(b->link, sv_from(k->frame0.p, k->frame0.n), k->payload) == ERR_AGAIN) {
            return;
        }
        backlog_pop(b, k);
    }
}

static struct msg_head head_for(const struct sb_origin *to, uint8_t type)
{
    return (struct msg_head){.type = type, .rid = to->rid};
}

static void on_reply(void *ctx, const struct sb_origin *to, const struct sb_reply *r)
{
    struct shell *s = ctx;
    struct msg_head h = head_for(to, MSG_SBX_RESULT);
    struct str_view text = sv_of(r->text);
    struct msg_body_SBX_RESULT m = {
        .call = to->call,
        .code = r->code,
        .retry_after_ms = r->retry_after_ms,
        .notes = r->notes,
        .owner = sv_of(s->opts->name),
        .sandbox_id = sv_of(r->sandbox_id),
        .text = {text.p, text.n > MSG_TEXT_MAX ? MSG_TEXT_MAX : text.n},
    };

    bytes_reset(&s->scratch);
    if (SOFT_CHECK(msg_encode_SBX_RESULT(&s->scratch, &h, &m) == 0)) {
        send_scratch(to->link, r->payload, false);
    }
}

static void on_event(void *ctx, const struct sb_origin *to, enum msg_sbx_event kind,
                     struct str_view data)
{
    struct shell *s = ctx;
    struct msg_head h = head_for(to, MSG_SBX_EVENT);
    struct msg_body_SBX_EVENT m = {.call = to->call, .kind = (uint8_t)kind};
    struct buf *payload = data.n > 0 ? buf_copy(data.p, data.n) : NULL;

    bytes_reset(&s->scratch);
    if (SOFT_CHECK(msg_encode_SBX_EVENT(&s->scratch, &h, &m) == 0)) {
        send_scratch(to->link, payload, true);
    }
    buf_unref(payload);
}

static void put_tenant(void *ctx, const struct tenant_id *t, unsigned n)
{
    struct bytes *b = ctx;
    const char le[4] = {(char)(n & 0xff), (char)((n >> 8) & 0xff), (char)((n >> 16) & 0xff),
                        (char)((n >> 24) & 0xff)};

    (void)bytes_put(b, t->b, TENANT_BYTES);
    (void)bytes_put(b, le, sizeof(le));
}

static void put_box(void *ctx, const struct request_id *rid, const struct tenant_id *t)
{
    struct bytes *b = ctx;

    (void)bytes_put(b, rid->b, REQUEST_ID_BYTES);
    (void)bytes_put(b, t->b, TENANT_BYTES);
}

static void send_boxes(struct broker *b)
{
    struct shell *s = b->shell;
    struct msg_head h = {.type = MSG_SBX_BOXES};
    struct msg_body_SBX_BOXES m = {0};
    struct bytes list = {0};
    struct buf *payload = NULL;

    sb_core_each_request(s->core, b, put_box, &list);
    m.boxes = (uint32_t)(list.n / MSG_BOX_REC_BYTES);
    if (m.boxes > 0 && list.rc == 0 && (payload = buf_from_bytes(&list)) != NULL) {
        bytes_reset(&s->scratch);
        if (SOFT_CHECK(msg_encode_SBX_BOXES(&s->scratch, &h, &m) == 0)) {
            send_scratch(b, payload, true);
        }
    }
    buf_unref(payload);
    bytes_fini(&list);
}

static void send_sessions(struct broker *b)
{
    struct shell *s = b->shell;
    struct msg_head h = {.type = MSG_SBX_SESSIONS};
    struct msg_body_SBX_SESSIONS m = {.sessions = sb_core_sessions(s->core),
                                      .sandboxes = sb_core_sandboxes(s->core)};
    struct bytes list = {0};
    struct buf *payload = NULL;

    sb_core_each_tenant(s->core, put_tenant, &list);
    if (list.n > 0) {
        payload = buf_from_bytes(&list);
    }
    b->said_sandboxes = m.sandboxes;
    bytes_reset(&s->scratch);
    if (SOFT_CHECK(msg_encode_SBX_SESSIONS(&s->scratch, &h, &m) == 0)) {
        send_scratch(b, payload, false);
    }
    buf_unref(payload);
    bytes_fini(&list);
}

static void on_changed(void *ctx)
{
    struct shell *s = ctx;

    for (unsigned i = 0; i < s->broker_count && s->core != NULL; i++) {
        send_sessions(&s->brokers[i]);
    }
}

/* --- receiving
 * ---------------------------------------------------------------------------------------------------
 */

static int handle_call(struct broker *b, const struct plane_in *in)
{
    struct msg_body_SBX_CALL m;
    int rc = msg_decode_SBX_CALL(&m, in->fields);

    if (rc != 0) {
        return rc;
    }
    const struct sb_core_call call = {
        .origin = {.link = b, .rid = in->head.rid, .call = m.call},
        .tenant = in->head.tenant,
        .op = (enum msg_sbx_op)m.op,
        .scope = (enum msg_sbx_scope)m.scope,
        .session = m.session,
        .op_id = m.op_id,
        .sessions_max = m.sessions_max,
        .timeout_ms = m.timeout_ms,
        .tool = m.tool,
        .payload = in->payload,
    };

    sb_core_call(b->shell->core, &call);
    return 0;
}

static int handle_cancel(struct broker *b, const struct plane_in *in)
{
    struct msg_body_SBX_CANCEL m;
    int rc = msg_decode_SBX_CANCEL(&m, in->fields);

    if (rc == 0) {
        const struct sb_origin origin = {.link = b, .rid = in->head.rid, .call = m.call};

        sb_core_cancel(b->shell->core, &origin);
    }
    return rc;
}

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct broker *b = ctx;
    int rc = 0;

    if (in->head.type == MSG_SBX_CALL) {
        rc = handle_call(b, in);
    } else if (in->head.type == MSG_SBX_CANCEL) {
        rc = handle_cancel(b, in);
    } else if (in->head.type != MSG_HEARTBEAT && in->head.type != MSG_BYE) {
        rc = ERR_PEER_FORBIDDEN;
    }
    if (rc != 0) {
        LOG(PEER_BAD, &in->head.rid, KV_S("message", msg_name(in->head.type)),
            KV_S("err", err_name(rc)));
    }
}

static void on_up(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w)
{
    struct broker *b = ctx;

    (void)is_new_broker;
    (void)w;
    b->ticks_up = 0;
    send_sessions(b);
}

static void on_down(void *ctx)
{
    struct broker *b = ctx;

    LIST_FOREACH_SAFE (l, tmp, &b->backlog) {
        backlog_pop(b, CONTAINER_OF(l, struct backlog, link));
    }
    if (b->shell->core != NULL) {
        sb_core_link_lost(b->shell->core, b);
    }
}

static uint32_t on_load(void *ctx)
{
    const struct broker *b = ctx;

    return sb_core_sandboxes(b->shell->core);
}

static void on_stats(void *ctx, struct bytes *out)
{
    const struct broker *b = ctx;

    (void)metric_snapshot(out, b->shell->opts->name);
}

/* --- life
 * ------------------------------------------------------------------------------------------------------
 */

static void on_reload(void *ctx)
{
    struct shell *s = ctx;
    struct cfg *cfg = NULL;
    struct err e = {0};

    if (cfg_load(&cfg, s->opts->config_file, CFG_FOR_SANDBOXD, cfg_log_notice, NULL, &e) != 0) {
        LOG(CONFIG_REJECTED, NULL, KV_ERR(&e));
        return;
    }
    sb_core_reload(s->core, cfg);
    cfg_unref(s->cfg);
    s->cfg = cfg;
    cfg_taken(cfg);
}

static void on_link_closed(void *ctx)
{
    struct broker *b = ctx;
    struct shell *s = b->shell;

    b->link = NULL;
    if (--s->links_open == 0) {
        loop_stop(&s->loop);
    }
}

static void close_links(struct shell *s)
{
    if (s->links_open == 0) {
        loop_stop(&s->loop);
    }
    for (unsigned i = 0; i < s->broker_count; i++) {
        if (s->brokers[i].link != NULL) {
            on_down(&s->brokers[i]);
            link_close(s->brokers[i].link, on_link_closed, &s->brokers[i]);
        }
    }
}

static void on_provider_stopped(void *ctx)
{
    struct shell *s = ctx;

    close_links(s);
}

static void on_core_stopped(void *ctx)
{
    struct shell *s = ctx;

    s->provider.ops->stop(s->provider.provider, on_provider_stopped, s);
}

/* Stops once nothing runs any more, or the time for that is up. */
static void stop_when_idle(struct shell *s)
{
    if (!s->is_stopping && (!sb_core_is_busy(s->core) || clock_ms() >= s->drain_until_ms)) {
        s->is_stopping = true;
        sb_core_stop(s->core, on_core_stopped, s);
    }
}

static void on_drain(void *ctx)
{
    struct shell *s = ctx;

    if (s->is_draining) {
        return;
    }
    s->is_draining = true;
    /* the last part of the loop's own limit is for deleting */
    s->drain_until_ms = clock_ms() + s->cfg->drain_s * 1000 * 4 / 5;
    LOG(DRAIN, NULL, KV_U("sandboxes", sb_core_sandboxes(s->core)));
    for (unsigned i = 0; i < s->broker_count; i++) {
        if (s->brokers[i].link != NULL) {
            link_say_bye(s->brokers[i].link);
        }
    }
    stop_when_idle(s);
}

static void on_tick(void *ctx)
{
    struct shell *s = ctx;

    if (!s->is_stopping) {
        sb_core_tick(s->core);
    }
    for (unsigned i = 0; i < s->broker_count; i++) {
        struct broker *b = &s->brokers[i];

        if (b->said_sandboxes != sb_core_sandboxes(s->core)) {
            send_sessions(b); /* sandboxes of single requests change too often to be told at once */
        }
        if (++b->ticks_up % BOXES_EVERY_S == 0) {
            send_boxes(b);
        }
    }
    if (s->is_draining) {
        stop_when_idle(s);
    }
}

static int open_links(struct shell *s, struct err *e)
{
    for (unsigned i = 0; s->cfg->brokers[i] != NULL && i < LINKS_MAX; i++) {
        struct broker *b = &s->brokers[i];
        const char *allowed[] = {NULL};
        struct plane_curve curve = {.public_key = s->cfg->curve.public_key,
                                    .secret_key = s->cfg->curve.secret_key != NULL
                                                      ? secret_view(s->cfg->curve.secret_key).p
                                                      : NULL,
                                    .server_key = s->cfg->curve.broker_key,
                                    .allowed = allowed};
        const struct link_opts lo = {
            .endpoint = s->cfg->brokers[i],
            .role = MSG_ROLE_SANDBOXD,
            .name = s->opts->name,
            .own_endpoint = "",
            .capacity = (uint32_t)(s->cfg->sandboxes_max > 65535 ? 65535 : s->cfg->sandboxes_max),
            .curve = s->cfg->curve.public_key != NULL ? &curve : NULL};
        const struct link_hooks lh = {.on_up = on_up,
                                      .on_down = on_down,
                                      .on_msg = on_msg,
                                      .on_load = on_load,
                                      .on_stats = on_stats,
                                      .on_writable = on_writable,
                                      .ctx = b};
        int rc;

        b->shell = s;
        list_init(&b->backlog);
        rc = link_open(&b->link, &s->loop, &lo, &lh, e);
        if (rc != 0) {
            return rc;
        }
        s->broker_count++;
        s->links_open++;
    }
    return 0;
}

static int start(struct shell *s, struct err *e)
{
    static const struct sb_core_hooks hooks_proto = {
        .reply = on_reply, .event = on_event, .changed = on_changed};
    struct sb_core_hooks hooks = hooks_proto;
    int rc;

    hooks.ctx = s;
    s->provider.ops = &sb_local_ops;
    if ((rc = s->provider.ops->start(&s->provider.provider, &s->loop, s->cfg, e)) != 0) {
        return err_wrap(e, "local sandboxes");
    }
    if ((rc = sb_core_new(&s->core, s->cfg, s->opts->name, &s->provider, 1, &hooks)) != 0) {
        return err_set(e, rc, NULL);
    }
    return open_links(s, e);
}

int sb_shell_run(const struct sb_shell_opts *opts, struct err *e)
{
    struct shell *s = mem_zalloc(sizeof(*s));
    struct loop_hooks hooks = {
        .on_drain = on_drain, .on_reload = on_reload, .on_tick = on_tick, .ctx = s};
    enum log_level level;
    int rc;

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    s->opts = opts;
    rc = cfg_load(&s->cfg, opts->config_file, CFG_FOR_SANDBOXD, cfg_log_notice, NULL, e);
    if (rc != 0) {
        mem_free(s);
        return rc;
    }
    if (log_level_parse(sv_of(s->cfg->log_level), &level)) {
        log_set_level(level);
    }
    cfg_taken(s->cfg);
    rc = loop_init(&s->loop, &hooks, (unsigned)(s->cfg->drain_s * 1000));
    if (rc == 0) {
        rc = start(s, e);
        if (rc == 0) {
            LOG(START, NULL, KV_I("pid", getpid()), KV_S("version", CFD_VERSION),
                KV_S("provider", s->provider.ops->name));
        } else if (s->core != NULL) {
            sb_core_stop(s->core, on_core_stopped, s);
        } else if (s->provider.provider != NULL) {
            s->provider.ops->stop(s->provider.provider, on_provider_stopped, s);
        } else {
            loop_stop(&s->loop);
        }
        loop_run(&s->loop);
        loop_fini(&s->loop);
    }
    sb_core_free(s->core);
    cfg_unref(s->cfg);
    bytes_fini(&s->scratch);
    mem_free(s);
    return rc;
}
