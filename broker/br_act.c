/* br_act.c - records what a step decided: the list of actions, and the frames they send. */
#include "br_int.h"

#include "base/mem.h"

void br_acts_reset(struct br_core *c)
{
    for (size_t i = 0; i < c->act_count; i++) {
        buf_unref(c->acts[i].payload);
    }
    c->act_count = 0;
    bytes_reset(&c->arena);
}

void br_acts_finish(struct br_core *c)
{
    for (size_t i = 0; i < c->act_count; i++) {
        struct br_act *a = &c->acts[i];

        if (a->frame0_at != SIZE_MAX) {
            a->frame0.p = c->arena.p + a->frame0_at;
        }
    }
}

struct br_act *br_act_add(struct br_core *c, enum br_act_kind kind)
{
    struct br_act *a;

    if (c->act_count == c->act_cap) {
        size_t cap = c->act_cap == 0 ? 64 : c->act_cap * 2;
        struct br_act *more = mem_realloc(c->acts, cap * sizeof(*more));

        if (more == NULL) {
            return NULL;
        }
        c->acts = more;
        c->act_cap = cap;
    }
    a = &c->acts[c->act_count++];
    memset(a, 0, sizeof(*a));
    a->kind = kind;
    a->frame0_at = SIZE_MAX;
    return a;
}

static void peer_break(struct br_core *c, struct br_peer *p)
{
    if (p != NULL) {
        p->is_broken = true;
        c->has_broken = true;
    }
}

struct br_frame br_frame_end(struct br_core *c, int rc)
{
    return (struct br_frame){c->frame_at, rc != 0 ? 0 : c->arena.n - c->frame_at};
}

void br_act_send(struct br_core *c, struct br_peer *p, const struct br_addr *to, struct br_frame f,
                 struct buf *payload)
{
    struct br_act *a;

    if (p != NULL && p->state == BR_PEER_GONE) {
        return;
    }
    if (f.n == 0 || (a = br_act_add(c, BR_ACT_SEND)) == NULL) {
        peer_break(c, p);
        return;
    }
    a->peer = p != NULL ? p->serial : 0;
    a->to = p != NULL ? br_peer_addr(p) : *to;
    a->frame0_at = f.at;
    a->frame0.n = f.n;
    a->payload = payload != NULL ? buf_ref(payload) : NULL;
}

void br_act_patched(struct br_core *c, struct br_peer *p, struct str_view frame0,
                    const struct msg_head *h, struct buf *payload)
{
    size_t at = c->arena.n;
    int rc = bytes_put(&c->arena, frame0.p, frame0.n);

    if (rc == 0) {
        msg_head_patch(c->arena.p + at, h->type, h->attempt, h->deadline_ms, h->flags);
    }
    br_act_send(c, p, NULL, (struct br_frame){at, rc != 0 ? 0 : c->arena.n - at}, payload);
}

/* `call` is the first field of every message about sandbox calls (a test pins this). */
void br_act_patched_call(struct br_core *c, struct br_peer *p, struct str_view frame0,
                         const struct msg_head *h, uint32_t call, struct buf *payload)
{
    size_t at = c->arena.n;
    int rc = bytes_put(&c->arena, frame0.p, frame0.n);

    if (rc == 0) {
        msg_head_patch(c->arena.p + at, h->type, h->attempt, h->deadline_ms, h->flags);
        for (unsigned i = 0; i < sizeof(call); i++) {
            c->arena.p[at + MSG_HEAD_BYTES + i] = (char)(uint8_t)(call >> (8U * i));
        }
    }
    br_act_send(c, p, NULL, (struct br_frame){at, rc != 0 ? 0 : c->arena.n - at}, payload);
}

void br_act_note(struct br_core *c, enum br_note note, const struct br_peer *p,
                 const struct br_job *job, const char *text, int code, unsigned n)
{
    struct br_act *a = br_act_add(c, BR_ACT_NOTE);

    if (a == NULL) {
        return; /* only a log line */
    }
    a->note = note;
    a->name = p != NULL ? p->name : "";
    a->role = p != NULL ? br_role_name(p->role) : "";
    a->text = text;
    a->code = code;
    a->n = n;
    if (job != NULL) {
        a->rid = job->rid;
    }
}

void br_send_bye(struct br_core *c, struct br_peer *p, const struct br_addr *to, int code,
                 const char *text)
{
    struct msg_head h = {.type = MSG_BYE};
    struct msg_body_BYE m = {.code = code, .text = sv_of(text)};

    br_act_send(c, p, to, BR_FRAME(c, BYE, &h, &m), NULL);
}

void br_send_refuse(struct br_core *c, struct br_peer *fe, const struct request_id *rid,
                    uint8_t attempt, int code, unsigned retry_after_ms, const char *text)
{
    struct msg_head h = {.type = MSG_REFUSE, .attempt = attempt, .rid = *rid};
    struct msg_body_REFUSE m = {
        .code = code, .retry_after_ms = retry_after_ms, .text = sv_of(text)};

    br_act_send(c, fe, NULL, BR_FRAME(c, REFUSE, &h, &m), NULL);
}

void br_send_lost(struct br_core *c, const struct br_job *job, const char *worker)
{
    struct msg_head h = {.type = MSG_LOST, .attempt = job->attempt, .rid = job->rid};
    struct msg_body_LOST m = {.worker = sv_of(worker)};

    if (job->fe != NULL) {
        br_act_send(c, job->fe, NULL, BR_FRAME(c, LOST, &h, &m), NULL);
        c->counts.lost++;
    }
}

void br_send_cancel(struct br_core *c, struct br_peer *wk, const struct request_id *rid,
                    uint8_t attempt, int code)
{
    struct msg_head h = {.type = MSG_CANCEL, .attempt = attempt, .rid = *rid};
    struct msg_body_CANCEL m = {.code = code};

    br_act_send(c, wk, NULL, BR_FRAME(c, CANCEL, &h, &m), NULL);
}
