/* wk_sbx.c - sandbox operations of a job: SBX_CALL through the broker to sandboxd, SBX_EVENT and
 * SBX_RESULT back.
 *
 *   UNSENT --link takes it--> SENT --SBX_RESULT--> freed
 *   UNSENT --no link for UNSENT_MAX_MS--> ERR_SANDBOX_UNAVAILABLE: nothing ran
 *   SENT   --link lost, back--> sent again with the same call and operation id: sandboxd answers it
 *   from its record SENT   --no link for SENT_MAX_MS--> ERR_SANDBOX_UNAVAILABLE: effects unknown
 *
 * The sandboxd that answered is remembered (`owner`), so that later calls of the job reach the same
 * one. Each call ends exactly once; a dropped one ends without a callback. */
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "wk_pool.h"

#define UNSENT_MAX_MS 5000
#define SENT_MAX_MS   30000

struct wk_sbx_call {
    struct list_link link; /* in the task's sbx_calls */
    struct wk_task *task;
    struct wk_sbx_hooks hooks;
    uint32_t number;
    bool is_sent;
    bool is_interrupted;
    uint64_t away_since_ms; /* since when it cannot be sent; 0 = it is with the broker */
    enum msg_sbx_op op;
    struct buf *payload;        /* a reference */
    struct msg_body_SBX_CALL m; /* its strings point into `strings` */
    char strings[];
};

static void call_free(struct wk_sbx_call *c)
{
    list_remove(&c->task->sbx_calls, &c->link);
    wk_task_wait_end(c->task);
    buf_unref(c->payload);
    mem_free(c);
}

static void give_result(struct wk_sbx_call *c, const struct wk_sbx_result *r)
{
    void (*on_result)(void *ctx, const struct wk_sbx_result *r) = c->hooks.on_result;
    void *ctx = c->hooks.ctx;

    call_free(c);
    on_result(ctx, r);
}

static void give_error(struct wk_sbx_call *c, int code, const char *text)
{
    struct wk_sbx_result r = {.code = code, .text = sv_of(text)};

    give_result(c, &r);
}

static bool is_remaking(const struct wk_sbx_call *c)
{
    return c->op == MSG_SBX_OPEN || c->op == MSG_SBX_RUN;
}

/* Encodes with what is known now (time left, owner) and sends. */
static int send_call(struct wk_sbx_call *c)
{
    struct wk_task *t = c->task;
    struct bytes *frame = &t->job.pool->frame;
    struct msg_head head = wk_task_head(t, MSG_SBX_CALL, 0);
    int rc;

    c->m.owner = sv_of(t->sbx_owner);
    bytes_reset(frame);
    if ((rc = msg_encode_SBX_CALL(frame, &head, &c->m)) != 0 ||
        (rc = wk_broker_send(t->broker, sv_from(frame->p, frame->n), c->payload)) != 0) {
        return rc;
    }
    c->is_sent = true;
    c->away_since_ms = 0;
    if (c->m.scope == MSG_SCOPE_REQUEST && is_remaking(c)) {
        t->has_request_sandbox = true;
    }
    return 0;
}

static void send_cancel(struct wk_sbx_call *c)
{
    struct wk_task *t = c->task;
    struct bytes *frame = &t->job.pool->frame;
    struct msg_head head = wk_task_head(t, MSG_SBX_CANCEL, 0);
    struct msg_body_SBX_CANCEL m = {.call = c->number, .owner = sv_of(t->sbx_owner)};

    bytes_reset(frame);
    if (msg_encode_SBX_CANCEL(frame, &head, &m) == 0) {
        (void)wk_broker_send(t->broker, sv_from(frame->p, frame->n), NULL);
    }
}

static struct str_view keep(char **at, struct str_view s)
{
    struct str_view kept = sv_from(*at, s.n);

    if (s.n > 0) {
        memcpy(*at, s.p, s.n);
        *at += s.n;
    }
    return kept;
}

static int check(const struct wk_sbx_req *req, struct err *e)
{
    if (req->session.n > MSG_SESSION_MAX) {
        return err_set_param(e, ERR_STRING_TOO_LONG, "session_id",
                             "The session or sandbox id is too long.");
    }
    if (req->tool.n > MSG_NAME_MAX) {
        return err_set_param(e, ERR_STRING_TOO_LONG, "sandbox_tool",
                             "The sandbox tool name is longer than %d bytes.", MSG_NAME_MAX);
    }
    if (req->params.n > MSG_PARAMS_MAX) {
        return err_set(e, ERR_STRING_TOO_LONG,
                       "The parameters of the sandbox are longer than %d bytes.", MSG_PARAMS_MAX);
    }
    return 0;
}

int wk_sbx_start(struct wk_job *job, struct wk_sbx_call **ret, const struct wk_sbx_req *req,
                 const struct wk_sbx_hooks *hooks, struct err *e)
{
    struct wk_task *t = wk_task_of(job);
    struct wk_sbx_call *c;
    char *at;
    int rc;

    if ((rc = check(req, e)) != 0) {
        return rc;
    }
    c = mem_alloc(sizeof(*c) + req->session.n + req->tool.n + req->params.n);
    if (c == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    memset(c, 0, sizeof(*c));
    at = c->strings;
    c->task = t;
    c->hooks = *hooks;
    c->op = req->op;
    c->number = t->sbx_next++;
    c->payload = req->payload != NULL ? buf_ref(req->payload) : NULL;
    c->m = (struct msg_body_SBX_CALL){
        .call = c->number,
        .op = (uint8_t)req->op,
        .scope = (uint8_t)req->scope,
        .session = keep(&at, req->session),
        .op_id = req->op_id,
        .sessions_max = (uint16_t)(job->sessions_max > UINT16_MAX ? UINT16_MAX : job->sessions_max),
        .timeout_ms = req->timeout_ms,
        .tool = keep(&at, req->tool),
        .params = keep(&at, req->params),
    };
    list_push_back(&t->sbx_calls, &c->link);
    wk_task_wait_begin(t);
    rc = send_call(c);
    if (rc == ERR_AGAIN) {
        c->away_since_ms = clock_ms();
    } else if (rc != 0) {
        call_free(c);
        return err_set(e, rc, NULL);
    }
    *ret = c;
    return 0;
}

void wk_sbx_interrupt(struct wk_sbx_call *c)
{
    if (c->is_interrupted) {
        return;
    }
    c->is_interrupted = true;
    if (c->is_sent) {
        send_cancel(c);
    }
}

void wk_sbx_drop(struct wk_sbx_call *c)
{
    wk_sbx_interrupt(c);
    call_free(c);
}

void wk_sbx_drop_all(struct wk_task *t)
{
    struct list_link *k;

    while ((k = list_first(&t->sbx_calls)) != NULL) {
        wk_sbx_drop(CONTAINER_OF(k, struct wk_sbx_call, link));
    }
}

void wk_sbx_close_request(struct wk_job *job)
{
    struct wk_task *t = wk_task_of(job);
    struct msg_head head = wk_task_head(t, MSG_SBX_CALL, 0);
    struct msg_body_SBX_CALL m = {
        .op = MSG_SBX_CLOSE, .scope = MSG_SCOPE_REQUEST, .owner = sv_of(t->sbx_owner)};

    if (!t->has_request_sandbox || t->is_superseded) {
        return;
    }
    t->has_request_sandbox = false;
    m.call = t->sbx_next++;
    bytes_reset(&job->pool->frame);
    if (msg_encode_SBX_CALL(&job->pool->frame, &head, &m) == 0) {
        wk_broker_send_kept(t->broker, t, sv_from(job->pool->frame.p, job->pool->frame.n), false);
    }
}

/* --- from the broker --- */

static struct wk_sbx_call *find(struct wk_task *t, uint32_t number)
{
    LIST_FOREACH_SAFE (k, tmp, &t->sbx_calls) {
        struct wk_sbx_call *c = CONTAINER_OF(k, struct wk_sbx_call, link);
        if (c->number == number) {
            return c;
        }
    }
    return NULL; /* dropped meanwhile */
}

void wk_sbx_on_event(struct wk_task *t, const struct msg_body_SBX_EVENT *m, struct str_view payload)
{
    struct wk_sbx_call *c = find(t, m->call);

    if (c != NULL && c->hooks.on_event != NULL) {
        c->hooks.on_event(c->hooks.ctx, (enum msg_sbx_event)m->kind, payload);
    }
}

void wk_sbx_on_result(struct wk_task *t, const struct msg_body_SBX_RESULT *m,
                      struct str_view payload)
{
    struct wk_sbx_call *c = find(t, m->call);
    struct wk_sbx_result r = {
        .code = m->code,
        .retry_after_ms = m->retry_after_ms,
        .notes = m->notes,
        .sandbox_id = m->sandbox_id,
        .text = m->text,
        .payload = payload,
    };

    if (m->owner.n > 0) {
        (void)sv_copy(t->sbx_owner, sizeof(t->sbx_owner), m->owner);
    }
    if (c != NULL) {
        give_result(c, &r);
    }
}

/* Results may free calls, tasks even: take one at a time and start over. */
static struct wk_sbx_call *next_unsent(struct wk_broker *b)
{
    LIST_FOREACH_SAFE (k, tmp, &b->pool->list) {
        struct wk_task *t = CONTAINER_OF(k, struct wk_task, all);
        if (t->broker != b) {
            continue;
        }
        LIST_FOREACH_SAFE (j, tmp2, &t->sbx_calls) {
            struct wk_sbx_call *c = CONTAINER_OF(j, struct wk_sbx_call, link);
            if (c->away_since_ms != 0) {
                return c;
            }
        }
    }
    return NULL;
}

void wk_sbx_on_down(struct wk_broker *b)
{
    uint64_t now = clock_ms();

    LIST_FOREACH_SAFE (k, tmp, &b->pool->list) {
        struct wk_task *t = CONTAINER_OF(k, struct wk_task, all);
        if (t->broker != b) {
            continue;
        }
        LIST_FOREACH_SAFE (j, tmp2, &t->sbx_calls) {
            struct wk_sbx_call *c = CONTAINER_OF(j, struct wk_sbx_call, link);
            if (c->away_since_ms == 0) {
                c->away_since_ms = now;
            }
        }
    }
}

void wk_sbx_on_up(struct wk_broker *b)
{
    struct wk_sbx_call *c;

    while ((c = next_unsent(b)) != NULL) {
        int rc = send_call(c);
        if (rc == ERR_AGAIN) {
            return;
        }
        if (rc != 0) {
            give_error(c, rc, err_info(rc)->text);
        } else if (c->is_interrupted) {
            send_cancel(c);
        }
    }
}

void wk_sbx_tick(struct wk_task *t, uint64_t now_ms)
{
    LIST_FOREACH_SAFE (k, tmp, &t->sbx_calls) {
        struct wk_sbx_call *c = CONTAINER_OF(k, struct wk_sbx_call, link);
        if (c->away_since_ms == 0 ||
            now_ms - c->away_since_ms < (c->is_sent ? SENT_MAX_MS : UNSENT_MAX_MS)) {
            continue;
        }
        give_error(c, ERR_SANDBOX_UNAVAILABLE,
                   c->is_sent ? "the sandbox service is unreachable; the code may have run"
                              : "the sandbox service is unreachable; nothing ran");
        return; /* the task may be gone; the others get the next tick */
    }
}
