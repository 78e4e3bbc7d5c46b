#include "br_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "br_int.h"

static void on_step_failed(const struct rig *r, const char *why)
{
    fprintf(stderr, "after the step at %llu ms: not true: %s\n", (unsigned long long)r->now_ms,
            why);
    fail();
}

void rig_init(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    r->setup.limits = (struct br_limits){.peers_max = 100,
                                         .queue_max = 1000,
                                         .per_key_max = 100,
                                         .queue_bytes_max = 1U << 20,
                                         .queue_wait_ms = 60000,
                                         .calls_per_worker_max = 8,
                                         .heartbeat_ms = 1000,
                                         .liveness = 3,
                                         .grace_ms = 2000,
                                         .limbo_ms = 30000,
                                         .sbx_wait_ms = 2000,
                                         .fair = BR_FAIR_ROUND_ROBIN};
    r->setup.pid_ns = 77;
    r->now_ms = 1000;
    rig_restart(r);
}

void rig_restart(struct rig *r)
{
    br_core_free(r->core);
    r->core = NULL;
    r->setup.now_ms = r->now_ms;
    r->setup.instance.b[0]++;
    assert_int_equal(br_core_new(&r->core, &r->setup), 0);
}

void rig_fini(struct rig *r)
{
    br_core_free(r->core);
    bytes_fini(&r->text);
}

struct request_id rig_rid(uint32_t n)
{
    struct request_id rid = {
        {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)}};

    return rid;
}

uint32_t rig_rid_number(const struct request_id *rid)
{
    return (uint32_t)rid->b[0] | (uint32_t)rid->b[1] << 8 | (uint32_t)rid->b[2] << 16 |
           (uint32_t)rid->b[3] << 24;
}

struct tenant_id rig_tenant(uint32_t t)
{
    struct tenant_id id = {
        {(uint8_t)t, (uint8_t)(t >> 8), (uint8_t)(t >> 16), (uint8_t)(t >> 24), 0xEE}};

    return id;
}

/* --- actions as text
 * ---------------------------------------------------------------------------------------------------
 */

static void text_code(struct rig *r, int code)
{
    (void)bytes_printf(&r->text, " %s", code == 0 ? "OK" : err_name(code));
}

static void text_fields(struct rig *r, const struct rig_out *o)
{
    union {
        struct msg_body_HEARTBEAT beat;
        struct msg_body_WELCOME welcome;
        struct msg_body_REFUSE refuse;
        struct msg_body_CANCEL cancel;
        struct msg_body_BYE bye;
        struct msg_body_LOST lost;
        struct msg_body_SBX_CALL call;
        struct msg_body_SBX_EVENT event;
        struct msg_body_SBX_RESULT result;
        struct msg_body_SBX_CANCEL sbx_cancel;
        struct msg_body_DISPATCH dispatch;
    } m;
    int rc = 0;

    switch (o->head.type) {
    case MSG_HEARTBEAT:
        rc = msg_decode_HEARTBEAT(&m.beat, o->fields);
        (void)bytes_printf(&r->text, " w=%u s=%u", m.beat.workers, m.beat.sandboxds);
        break;
    case MSG_WELCOME:
        rc = msg_decode_WELCOME(&m.welcome, o->fields);
        (void)bytes_printf(&r->text, " w=%u s=%u", m.welcome.workers, m.welcome.sandboxds);
        break;
    case MSG_REFUSE:
        rc = msg_decode_REFUSE(&m.refuse, o->fields);
        text_code(r, m.refuse.code);
        break;
    case MSG_CANCEL:
        rc = msg_decode_CANCEL(&m.cancel, o->fields);
        text_code(r, m.cancel.code);
        break;
    case MSG_BYE:
        rc = msg_decode_BYE(&m.bye, o->fields);
        text_code(r, m.bye.code);
        break;
    case MSG_LOST:
        rc = msg_decode_LOST(&m.lost, o->fields);
        break;
    case MSG_DISPATCH:
        rc = msg_decode_DISPATCH(&m.dispatch, o->fields);
        break;
    case MSG_SBX_CALL:
        rc = msg_decode_SBX_CALL(&m.call, o->fields);
        if (m.call.call == BR_CALL_OWN) {
            (void)bytes_put_str(&r->text, " #own");
        } else {
            (void)bytes_printf(&r->text, " #%u.%u", m.call.call >> 8, m.call.call & 255U);
        }
        (void)bytes_printf(&r->text, " op=%u", m.call.op);
        break;
    case MSG_SBX_EVENT:
        rc = msg_decode_SBX_EVENT(&m.event, o->fields);
        (void)bytes_printf(&r->text, " #%u", m.event.call);
        break;
    case MSG_SBX_RESULT:
        rc = msg_decode_SBX_RESULT(&m.result, o->fields);
        (void)bytes_printf(&r->text, " #%u", m.result.call);
        text_code(r, m.result.code);
        break;
    case MSG_SBX_CANCEL:
        rc = msg_decode_SBX_CANCEL(&m.sbx_cancel, o->fields);
        (void)bytes_printf(&r->text, " #%u.%u", m.sbx_cancel.call >> 8, m.sbx_cancel.call & 255U);
        break;
    default:
        break;
    }
    assert_int_equal(rc, 0);
}

static void text_out(struct rig *r, const struct rig_out *o)
{
    bool is_beat = o->head.type == MSG_HEARTBEAT || o->head.type == MSG_WELCOME;

    if (is_beat && !r->shows_beats) {
        return;
    }
    (void)bytes_printf(&r->text, "%s %s", o->to, msg_name(o->head.type));
    if (!is_beat && o->head.type != MSG_BYE) {
        (void)bytes_printf(&r->text, " %u/%u", rig_rid_number(&o->head.rid), o->head.attempt);
    }
    text_fields(r, o);
    if (o->payload != NULL) {
        (void)bytes_printf(&r->text, " \"%.*s\"", (int)o->payload->n, o->payload->p);
    }
    (void)bytes_put_char(&r->text, '\n');
}

static void send_act(struct rig *r, const struct br_act *a)
{
    char to[64];
    struct rig_out o = {.to = to, .frame0 = a->frame0, .fields = a->frame0, .payload = a->payload};

    (void)sv_copy(to, sizeof(to), a->to.id);
    assert_int_equal(msg_head_decode(&o.head, &o.fields), 0);
    if (r->on_out != NULL) {
        r->on_out(r->ctx, &o);
    } else {
        text_out(r, &o);
    }
}

static void take_acts(struct rig *r, const struct br_act *acts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct br_act *a = &acts[i];

        switch (a->kind) {
        case BR_ACT_SEND:
            send_act(r, a);
            break;
        case BR_ACT_WATCH:
            (void)bytes_printf(&r->text, "watch %u\n", a->pid);
            break;
        case BR_ACT_UNWATCH:
            (void)bytes_put_str(&r->text, "unwatch\n");
            break;
        case BR_ACT_STATS:
            (void)bytes_put_str(&r->text, "stats\n");
            break;
        case BR_ACT_STOP:
            (void)bytes_put_str(&r->text, "stop\n");
            break;
        case BR_ACT_NOTE:
            if (r->shows_ends && (a->note == BR_NOTE_LEFT || a->note == BR_NOTE_GONE)) {
                (void)bytes_printf(&r->text, "%s %s n=%u\n", a->name,
                                   a->note == BR_NOTE_LEFT ? "left" : "gone", a->n);
            }
            break;
        }
    }
}

/* --- events
 * ---------------------------------------------------------------------------------------------------------------
 */

void rig_step(struct rig *r, const struct br_event *ev)
{
    size_t n;
    const struct br_act *acts;
    const char *bad;
    bool has_fault = ++r->steps == r->fail_step;

    if (has_fault) {
        (void)mem_fail_nth(r->fail_nth);
    }
    acts = br_core_step(r->core, r->now_ms, ev, &n);
    if (has_fault) {
        r->has_fired = mem_fail_nth(-1) != 0;
    }
    bad = br_core_check(r->core);
    if (bad != NULL) {
        on_step_failed(r, bad);
    }
    take_acts(r, acts, n);
}

void rig_wait(struct rig *r, uint64_t ms)
{
    uint64_t until = r->now_ms + ms;
    struct br_event tick = {.kind = BR_EV_TICK};
    uint64_t due;

    while ((due = br_core_next_due(r->core)) <= until) {
        r->now_ms = due > r->now_ms ? due : r->now_ms;
        rig_step(r, &tick);
        /* a step that makes no headway would turn for ever */
        assert_true(br_core_next_due(r->core) > r->now_ms || r->fail_step != 0);
    }
    r->now_ms = until;
}

void rig_send(struct rig *r, const char *from, struct bytes *out, int rc, struct buf *payload)
{
    struct br_event ev = {.kind = BR_EV_MSG, .from = {0, sv_of(from)}, .payload = payload};

    assert_int_equal(rc, 0);
    ev.frame0 = ev.fields = sv_from(out->p, out->n);
    assert_int_equal(msg_head_decode(&ev.head, &ev.fields), 0);
    if (r->on_in != NULL) {
        r->on_in(r->ctx, from, &ev.head);
    }
    rig_step(r, &ev);
}

static void hello(struct rig *r, const char *id, enum msg_role role, uint32_t capacity,
                  struct buf *claims)
{
    struct msg_head h = {.type = MSG_HELLO};
    struct msg_body_HELLO m = {.role = (uint8_t)role,
                               .name = sv_of(id),
                               .instance = {{r->instance}},
                               .capacity = capacity};

    RIG_SEND(r, id, HELLO, &h, &m, claims);
}

void rig_hello(struct rig *r, const char *id, enum msg_role role, uint32_t capacity)
{
    hello(r, id, role, capacity, NULL);
}

void rig_hello_claims(struct rig *r, const char *id, uint32_t capacity, const uint32_t (*claims)[2],
                      size_t n)
{
    char *at;
    struct buf *b = buf_new(n * MSG_JOB_REC_BYTES, &at);

    assert_non_null(b);
    for (size_t i = 0; i < n; i++) {
        struct request_id rid = rig_rid(claims[i][0]);

        memcpy(at, rid.b, REQUEST_ID_BYTES);
        at[REQUEST_ID_BYTES] = (char)claims[i][1];
        at += MSG_JOB_REC_BYTES;
    }
    hello(r, id, MSG_ROLE_WORKER, capacity, b);
    buf_unref(b);
}

void rig_bye(struct rig *r, const char *id)
{
    struct msg_head h = {.type = MSG_BYE};
    struct msg_body_BYE m = {.code = 0};

    RIG_SEND(r, id, BYE, &h, &m, NULL);
}

void rig_beat(struct rig *r, const char *id)
{
    struct msg_head h = {.type = MSG_HEARTBEAT};
    struct msg_body_HEARTBEAT m = {.load = 0};

    RIG_SEND(r, id, HEARTBEAT, &h, &m, NULL);
}

void rig_credit(struct rig *r, const char *wk, uint16_t n)
{
    struct msg_head h = {.type = MSG_CREDIT};
    struct msg_body_CREDIT m = {.n = n};

    RIG_SEND(r, wk, CREDIT, &h, &m, NULL);
}

void rig_submit(struct rig *r, const char *fe, uint32_t request, uint8_t attempt, uint32_t tenant,
                uint32_t flags, uint32_t deadline_ms)
{
    struct msg_head h = {.type = MSG_SUBMIT,
                         .attempt = attempt,
                         .flags = flags,
                         .deadline_ms = deadline_ms,
                         .rid = rig_rid(request),
                         .tenant = rig_tenant(tenant)};
    struct msg_body_SUBMIT m = {.kind = 1,
                                .method = 3,
                                .window = 65536,
                                .endpoint = SV_LIT("ipc:///r"),
                                .path = SV_LIT("/v1/responses")};
    char body[32];
    struct buf *b;

    (void)snprintf(body, sizeof(body), "b%u", request);
    b = buf_copy(body, strlen(body));
    RIG_SEND(r, fe, SUBMIT, &h, &m, b);
    buf_unref(b);
}

void rig_done(struct rig *r, const char *wk, uint32_t request, uint8_t attempt)
{
    struct msg_head h = {.type = MSG_DONE, .attempt = attempt, .rid = rig_rid(request)};
    struct msg_body_DONE m = {.outcome = MSG_OUTCOME_OK, .credit = 1};

    RIG_SEND(r, wk, DONE, &h, &m, NULL);
}

void rig_cancel(struct rig *r, const char *fe, uint32_t request)
{
    struct msg_head h = {.type = MSG_CANCEL, .rid = rig_rid(request)};
    struct msg_body_CANCEL m = {.code = ERR_CANCELLED};

    RIG_SEND(r, fe, CANCEL, &h, &m, NULL);
}

void rig_call(struct rig *r, const char *wk, uint32_t request, uint8_t attempt, uint32_t tenant,
              uint32_t call, enum msg_sbx_op op, enum msg_sbx_scope scope)
{
    struct msg_head h = {.type = MSG_SBX_CALL,
                         .attempt = attempt,
                         .rid = rig_rid(request),
                         .tenant = rig_tenant(tenant)};
    struct msg_body_SBX_CALL m = {.call = call,
                                  .op = (uint8_t)op,
                                  .scope = (uint8_t)scope,
                                  .timeout_ms = 10000,
                                  .session = scope == MSG_SCOPE_SESSION ? SV_LIT("s") : SV_LIT("")};

    RIG_SEND(r, wk, SBX_CALL, &h, &m, NULL);
}

void rig_sbx_cancel(struct rig *r, const char *wk, uint32_t request, uint8_t attempt, uint32_t call)
{
    struct msg_head h = {.type = MSG_SBX_CANCEL, .attempt = attempt, .rid = rig_rid(request)};
    struct msg_body_SBX_CANCEL m = {.call = call};

    RIG_SEND(r, wk, SBX_CANCEL, &h, &m, NULL);
}

void rig_result(struct rig *r, const char *sb, uint32_t request, uint32_t folded)
{
    struct msg_head h = {.type = MSG_SBX_RESULT, .rid = rig_rid(request)};
    struct msg_body_SBX_RESULT m = {.call = folded, .owner = sv_of(sb)};

    RIG_SEND(r, sb, SBX_RESULT, &h, &m, NULL);
}

void rig_output(struct rig *r, const char *sb, uint32_t request, uint32_t folded, const char *text)
{
    struct msg_head h = {.type = MSG_SBX_EVENT, .rid = rig_rid(request)};
    struct msg_body_SBX_EVENT m = {.call = folded, .kind = MSG_SBX_STDOUT};
    struct buf *b = buf_copy(text, strlen(text));

    RIG_SEND(r, sb, SBX_EVENT, &h, &m, b);
    buf_unref(b);
}

void rig_sessions(struct rig *r, const char *sb, const uint32_t (*tenants)[2], size_t n)
{
    struct msg_head h = {.type = MSG_SBX_SESSIONS};
    struct msg_body_SBX_SESSIONS m = {.sessions = (uint32_t)n, .sandboxes = (uint32_t)n};
    char *at = NULL;
    struct buf *b = buf_new(n * MSG_TENANT_REC_BYTES, &at);

    assert_non_null(b);
    for (size_t i = 0; i < n; i++) {
        struct tenant_id id = rig_tenant(tenants[i][0]);

        memcpy(at, id.b, TENANT_BYTES);
        for (unsigned k = 0; k < 4; k++) {
            at[TENANT_BYTES + k] = (char)(uint8_t)(tenants[i][1] >> (8 * k));
        }
        at += MSG_TENANT_REC_BYTES;
    }
    RIG_SEND(r, sb, SBX_SESSIONS, &h, &m, b);
    buf_unref(b);
}

void rig_exited(struct rig *r, const char *name, enum br_event_kind kind)
{
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        struct br_peer *p = br_peer_by_name(r->core, role, sv_of(name));

        if (p != NULL) {
            struct br_event ev = {.kind = kind, .peer = p->serial};

            rig_step(r, &ev);
            rig_wait(r, !r->hears_last_words ? BR_LAST_WORDS_MS : 0);
            return;
        }
    }
    fail_msg("no peer %s", name);
}

void rig_expect(struct rig *r, const char *lines)
{
    assert_string_equal(r->text.p != NULL ? r->text.p : "", lines);
    bytes_reset(&r->text);
    if (r->text.p != NULL) {
        r->text.p[0] = '\0';
    }
}
