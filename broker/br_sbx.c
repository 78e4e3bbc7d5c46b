/* br_sbx.c - sandbox calls: worker -> broker -> sandboxd and back. A call is known by (request,
 * attempt, number), so that the answers of a lost attempt never reach the next one. Each call of a
 * living worker is answered exactly once: by its sandboxd, or from here. */
#include "br_int.h"
#include "proto/wire.h"

#include "base/mem.h"

#define CALL_POOL_MAX    1024U
#define DOUBT_DEFAULT_MS 60000U /* for a call without a time limit of its own */

#define ATTEMPT_BITS 8U
#define NUMBER_MAX   (BR_CALL_OWN >> ATTEMPT_BITS) /* of a worker's call; this one is never used */

static uint32_t number_fold(uint32_t call, uint8_t attempt)
{
    return call << ATTEMPT_BITS | attempt;
}

static uint64_t call_hash(const struct br_core *c, const struct request_id *rid, uint8_t attempt,
                          uint32_t call)
{
    return br_hash16(rid->b, c->seed ^ (((uint64_t)call << 8 | attempt) * 0x9E3779B97F4A7C15U));
}

static struct br_call *call_find_exact(const struct br_core *c, const struct request_id *rid,
                                       uint8_t attempt, uint32_t number)
{
    uint64_t hash = call_hash(c, rid, attempt, number);

    for (struct br_node *n = br_table_first(&c->calls, hash); n != NULL; n = n->next) {
        struct br_call *call = CONTAINER_OF(n, struct br_call, node);

        if (n->hash == hash && call->call == number && call->attempt == attempt &&
            memcmp(call->rid.b, rid->b, REQUEST_ID_BYTES) == 0) {
            return call;
        }
    }
    return NULL;
}

static struct br_call *call_find_folded(const struct br_core *c, const struct request_id *rid,
                                        uint32_t folded)
{
    return call_find_exact(c, rid, (uint8_t)(folded & 0xFFU), folded >> ATTEMPT_BITS);
}

static struct br_call *call_new(struct br_core *c)
{
    struct br_call *call = c->free_calls;

    if (call != NULL) {
        c->free_calls = call->free_next;
        c->free_call_count--;
        memset(call, 0, sizeof(*call));
        return call;
    }
    return mem_zalloc(sizeof(*call));
}

static void call_set_worker(struct br_call *call, struct br_peer *wk)
{
    if (call->wk != NULL) {
        list_remove(&call->wk->calls, &call->wk_link);
    }
    call->wk = wk;
    if (wk != NULL) {
        list_push_back(&wk->calls, &call->wk_link);
    }
}

static void call_set_job(struct br_call *call, struct br_job *job)
{
    if (call->job != NULL) {
        list_remove(&call->job->calls, &call->job_link);
    }
    call->job = job;
    if (job != NULL) {
        list_push_back(&job->calls, &call->job_link);
    }
}

static void call_drop_parked(struct br_core *c, struct br_call *call)
{
    if (list_link_is_in(&call->parked_link)) {
        list_remove(&c->parked, &call->parked_link);
    }
    buf_unref(call->frame0);
    buf_unref(call->payload);
    call->frame0 = NULL;
    call->payload = NULL;
}

static void call_free(struct br_core *c, struct br_call *call)
{
    call_drop_parked(c, call);
    call_set_worker(call, NULL);
    call_set_job(call, NULL);
    if (call->sbx != NULL) {
        list_remove(&call->sbx->calls, &call->sbx_link);
        call->sbx = NULL;
    }
    if (call->place != NULL) {
        br_place_count_call(c, call->place, -1);
    }
    br_table_remove(&c->calls, &call->node);
    if (c->free_call_count < CALL_POOL_MAX) {
        call->free_next = c->free_calls;
        c->free_calls = call;
        c->free_call_count++;
    } else {
        mem_free(call);
    }
}

/* --- answers from here
 * --------------------------------------------------------------------------------------------- */

static void send_result(struct br_core *c, struct br_peer *wk, const struct msg_head *of,
                        uint32_t number, int code, uint32_t notes, const char *text)
{
    struct msg_head h = {
        .type = MSG_SBX_RESULT, .attempt = of->attempt, .rid = of->rid, .tenant = of->tenant};
    struct msg_body_SBX_RESULT m = {.call = number,
                                    .code = code,
                                    .retry_after_ms =
                                        code == ERR_SANDBOX_UNAVAILABLE ? BR_RETRY_SOON_MS : 0,
                                    .notes = notes,
                                    .text = sv_of(text)};

    br_act_send(c, wk, NULL, BR_FRAME(c, SBX_RESULT, &h, &m), NULL);
}

static void call_answer(struct br_core *c, struct br_call *call, int code, uint32_t notes,
                        const char *text)
{
    struct msg_head of = {.attempt = call->attempt, .rid = call->rid, .tenant = call->tenant};

    if (call->wk != NULL) {
        send_result(c, call->wk, &of, call->call, code, notes, text);
    }
    call_free(c, call);
}

/* --- calls out
 * -------------------------------------------------------------------------------------------------------
 */

static void job_set_box(struct br_job *job, struct br_peer *sbx, const struct tenant_id *tenant)
{
    if (job->sbx != NULL) {
        list_remove(&job->sbx->boxes, &job->sbx_link);
    }
    job->sbx = sbx;
    if (sbx != NULL) {
        list_push_back(&sbx->boxes, &job->sbx_link);
        job->sbx_tenant = *tenant;
    }
}

/* Remembers where the request's own sandbox lives, or that it was closed. */
static void note_box(struct br_call *call, struct br_peer *sbx)
{
    struct br_job *job = call->job;

    if (job == NULL || call->scope != MSG_SCOPE_REQUEST) {
        return;
    }
    if (call->op == MSG_SBX_CLOSE || call->op == MSG_SBX_DELETE) {
        job_set_box(job, NULL, NULL);
        job->is_adopted = false;
    } else if (call->op != MSG_SBX_LIST) {
        job_set_box(job, sbx, &call->tenant);
    }
}

static uint32_t time_left(const struct br_core *c, const struct br_job *job)
{
    if (job == NULL || job->deadline_ms == 0) {
        return 0;
    }
    return job->deadline_ms > c->now_ms ? (uint32_t)(job->deadline_ms - c->now_ms) : 1U;
}

static void call_route(struct br_core *c, struct br_call *call, struct br_peer *sbx,
                       struct br_place *place, struct str_view frame0, struct buf *payload)
{
    struct msg_head h = {
        .type = MSG_SBX_CALL, .attempt = call->attempt, .deadline_ms = time_left(c, call->job)};

    call->sbx = sbx;
    list_push_back(&sbx->calls, &call->sbx_link);
    if (place != NULL) {
        call->place = place;
        br_place_count_call(c, place, 1);
    }
    note_box(call, sbx);
    br_act_patched_call(c, sbx, frame0, &h, number_fold(call->call, call->attempt), payload);
}

/* Keeps the call until a sandboxd is there, for a short while. */
static void call_park(struct br_core *c, struct br_call *call, struct str_view frame0,
                      struct buf *payload)
{
    call->frame0 = buf_copy(frame0.p, frame0.n);
    if (call->frame0 == NULL) {
        call_answer(c, call, ERR_NOMEM, 0, "the broker is out of memory");
        return;
    }
    call->payload = payload != NULL ? buf_ref(payload) : NULL;
    call->parked_until_ms = c->now_ms + c->limits.sbx_wait_ms;
    list_push_back(&c->parked, &call->parked_link);
}

static bool is_closing(uint8_t op)
{
    return op == MSG_SBX_CLOSE || op == MSG_SBX_DELETE;
}

/* What to answer at once; *ret_text NULL = nothing, the call may go out. */
static int call_judge(struct br_core *c, const struct br_peer *wk, const struct br_job *job,
                      const struct br_event *ev, const struct msg_body_SBX_CALL *m,
                      const char **ret_text)
{
    if (job == NULL || job->wk != wk ||
        (ev->head.attempt != 0 && ev->head.attempt != job->attempt)) {
        *ret_text = "the job of this call is over";
        return m->op == MSG_SBX_CLOSE ? 0 : ERR_CANCELLED;
    }
    if (job->tenant != NULL &&
        memcmp(&job->tenant->id, &ev->head.tenant, sizeof(job->tenant->id)) != 0) {
        c->counts.bad++;
        *ret_text = "the job belongs to another tenant";
        return ERR_FORBIDDEN;
    }
    if (m->call >= NUMBER_MAX) {
        *ret_text = "too many sandbox calls in one request";
        return ERR_LIMIT;
    }
    if (wk->calls.count >= c->limits.calls_per_worker_max) {
        *ret_text = "too many sandbox calls of this worker are in flight";
        return ERR_LIMIT;
    }
    *ret_text = NULL;
    return 0;
}

static void call_start(struct br_core *c, struct br_peer *wk, struct br_job *job,
                       const struct br_event *ev, const struct msg_body_SBX_CALL *m)
{
    struct br_call *call = call_new(c);
    struct br_place *place = NULL;
    struct br_peer *sbx;

    if (call == NULL) {
        send_result(c, wk, &ev->head, m->call, ERR_NOMEM, 0, "the broker is out of memory");
        return;
    }
    call->rid = ev->head.rid;
    call->tenant = ev->head.tenant;
    call->attempt = job->attempt;
    call->call = m->call;
    call->op = m->op;
    call->scope = m->scope;
    call->timeout_ms = m->timeout_ms;
    (void)sv_copy(call->owner, sizeof(call->owner), m->owner);
    br_table_put(&c->calls, &call->node, call_hash(c, &call->rid, call->attempt, call->call));
    call_set_worker(call, wk);
    call_set_job(call, job);
    if (call->scope == MSG_SCOPE_REQUEST && is_closing(call->op) && job->sbx == NULL &&
        br_peer_by_name(c, MSG_ROLE_SANDBOXD, m->owner) == NULL) {
        job->is_adopted = false;
        call_answer(c, call, 0, 0, ""); /* there is none */
        return;
    }
    sbx = br_place_choose(c, call, m->owner, &place);
    if (sbx != NULL) {
        call_route(c, call, sbx, place, ev->frame0, ev->payload);
    } else {
        call_park(c, call, ev->frame0, ev->payload);
    }
}

int br_on_sbx_call(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_CALL m;
    const char *text = NULL;
    struct br_job *job;
    struct br_call *old;
    int rc = msg_decode_SBX_CALL(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    job = br_job_find(c, &ev->head.rid);
    rc = call_judge(c, p, job, ev, &m, &text);
    if (text != NULL) {
        send_result(c, p, &ev->head, m.call, rc, 0, rc == 0 ? "" : text);
        return 0;
    }
    if ((old = call_find_exact(c, &ev->head.rid, job->attempt, m.call)) != NULL) {
        if (old->wk == NULL) {
            call_set_worker(old, p); /* its answer is on the way */
        }
        c->counts.unknown++;
        return 0;
    }
    call_start(c, p, job, ev, &m);
    return 0;
}

static void send_sbx_cancel(struct br_core *c, struct br_call *call)
{
    struct msg_head h = {
        .type = MSG_SBX_CANCEL, .attempt = call->attempt, .rid = call->rid, .tenant = call->tenant};
    struct msg_body_SBX_CANCEL m = {.call = number_fold(call->call, call->attempt),
                                    .owner = sv_of(call->sbx->name)};

    if (!call->is_cancelled) {
        call->is_cancelled = true;
        br_act_send(c, call->sbx, NULL, BR_FRAME(c, SBX_CANCEL, &h, &m), NULL);
    }
}

int br_on_sbx_cancel(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_CANCEL m;
    struct br_call *call;
    struct br_job *job;
    uint8_t attempt = ev->head.attempt;
    int rc = msg_decode_SBX_CANCEL(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    if (attempt == 0 && (job = br_job_find(c, &ev->head.rid)) != NULL) {
        attempt = job->attempt; /* it does not say: the one that runs */
    }
    call = call_find_exact(c, &ev->head.rid, attempt, m.call);
    if (call == NULL || call->wk != p) {
        c->counts.unknown++; /* answered meanwhile */
    } else if (call->sbx == NULL) {
        call_answer(c, call, ERR_CANCELLED, 0, "cancelled before it reached a sandbox");
    } else {
        send_sbx_cancel(c, call);
    }
    return 0;
}

/* --- answers of sandboxds
 * ---------------------------------------------------------------------------------------------- */

/* A worker that outlived a broker still waits for calls that this broker never saw. */
static struct br_peer *worker_of_adopted(const struct br_core *c, const struct request_id *rid,
                                         uint8_t attempt)
{
    struct br_job *job = br_job_find(c, rid);

    return job != NULL && job->is_adopted && job->attempt == attempt ? job->wk : NULL;
}

static void answer_pass(struct br_core *c, struct br_peer *wk, const struct br_event *ev,
                        uint32_t folded)
{
    struct msg_head h = {
        .type = ev->head.type, .attempt = (uint8_t)(folded & 0xFFU), .flags = ev->head.flags};

    br_act_patched_call(c, wk, ev->frame0, &h, folded >> ATTEMPT_BITS, ev->payload);
}

/* Passes an answer on; returns the call it belongs to, if there is one. */
static struct br_call *answer_route(struct br_core *c, struct br_peer *sbx,
                                    const struct br_event *ev, uint32_t folded)
{
    struct br_call *call = call_find_folded(c, &ev->head.rid, folded);
    struct br_peer *wk;

    if (folded == BR_CALL_OWN) {
        return NULL; /* a CLOSE of ours is done */
    }
    if (call == NULL &&
        (wk = worker_of_adopted(c, &ev->head.rid, (uint8_t)(folded & 0xFFU))) != NULL) {
        answer_pass(c, wk, ev, folded);
        return NULL;
    }
    if (call == NULL || call->sbx != sbx) {
        c->counts.unknown++;
        return NULL;
    }
    call->doubt_until_ms = 0;
    if (call->wk != NULL) {
        answer_pass(c, call->wk, ev, folded);
    }
    return call;
}

int br_on_sbx_event(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_EVENT m;
    int rc = msg_decode_SBX_EVENT(&m, ev->fields);

    if (rc == 0) {
        (void)answer_route(c, p, ev, m.call);
    }
    return rc;
}

int br_on_sbx_result(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_RESULT m;
    struct br_call *call;
    int rc = msg_decode_SBX_RESULT(&m, ev->fields);

    if (rc == 0 && (call = answer_route(c, p, ev, m.call)) != NULL) {
        call_free(c, call);
    }
    return rc;
}

/* --- ends
 * ---------------------------------------------------------------------------------------------------------------
 */

void br_sbx_worker_gone(struct br_core *c, struct br_peer *wk)
{
    LIST_FOREACH_SAFE (k, tmp, &wk->calls) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, wk_link);

        call_set_worker(call, NULL);
        if (call->sbx == NULL) {
            call_free(c, call); /* nobody heard of it */
        }
    }
}

void br_sbx_sandboxd_gone(struct br_core *c, struct br_peer *sbx)
{
    LIST_FOREACH_SAFE (k, tmp, &sbx->calls) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, sbx_link);

        call_answer(c, call, ERR_SANDBOX_LOST,
                    call->op == MSG_SBX_RUN ? MSG_SBX_NOTE_INTERRUPTED : 0,
                    "the sandbox host was lost while it worked on this call; effects unknown");
    }
    LIST_FOREACH_SAFE (k, tmp, &sbx->boxes) {
        job_set_box(CONTAINER_OF(k, struct br_job, sbx_link), NULL, NULL);
    }
}

void br_sbx_sandboxd_back(struct br_core *c, struct br_peer *sbx)
{
    LIST_FOREACH_SAFE (k, tmp, &sbx->calls) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, sbx_link);

        call->doubt_until_ms = c->now_ms + c->limits.limbo_ms +
                               (call->timeout_ms != 0 ? call->timeout_ms : DOUBT_DEFAULT_MS);
        c->has_doubts = true;
    }
}

void br_sbx_sweep_doubts(struct br_core *c)
{
    if (!c->has_doubts) {
        return;
    }
    c->has_doubts = false;
    LIST_FOREACH_SAFE (p, tmp_p, &c->peers[MSG_ROLE_SANDBOXD]) {
        LIST_FOREACH_SAFE (k, tmp, &CONTAINER_OF(p, struct br_peer, link)->calls) {
            struct br_call *call = CONTAINER_OF(k, struct br_call, sbx_link);

            if (call->doubt_until_ms == 0) {
                continue;
            }
            if (call->doubt_until_ms > c->now_ms) {
                c->has_doubts = true;
            } else {
                call_answer(c, call, ERR_SANDBOX_LOST,
                            call->op == MSG_SBX_RUN ? MSG_SBX_NOTE_INTERRUPTED : 0,
                            "the connection to the sandbox host was lost during this call; effects "
                            "unknown");
            }
        }
    }
}

static void send_close(struct br_core *c, struct br_peer *sbx, const struct request_id *rid,
                       uint8_t attempt, const struct tenant_id *tenant)
{
    struct msg_head h = {.type = MSG_SBX_CALL, .attempt = attempt, .rid = *rid, .tenant = *tenant};
    struct msg_body_SBX_CALL m = {.call = BR_CALL_OWN,
                                  .op = MSG_SBX_CLOSE,
                                  .scope = MSG_SCOPE_REQUEST,
                                  .owner = sv_of(sbx->name)};

    br_act_send(c, sbx, NULL, BR_FRAME(c, SBX_CALL, &h, &m), NULL);
    c->counts.closes++;
}

/* The job is over: whatever it still runs is interrupted, and its own sandbox is closed if the
 * worker did not. A worker that lives still gets the answers of its calls. */
void br_sbx_job_ended(struct br_core *c, struct br_job *job)
{
    LIST_FOREACH_SAFE (k, tmp, &job->calls) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, job_link);

        call_set_job(call, NULL);
        if (call->sbx == NULL) {
            call_answer(c, call, ERR_CANCELLED, 0, "the job of this call is over");
        } else if (!is_closing(call->op)) {
            send_sbx_cancel(c, call);
        }
    }
    if (job->sbx != NULL) {
        send_close(c, job->sbx, &job->rid, job->attempt, &job->sbx_tenant);
        job_set_box(job, NULL, NULL);
    } else if (job->is_adopted && job->tenant != NULL) {
        /* What it opened under an earlier broker is known only to the sandboxds: nobody minds a
         * CLOSE of nothing. */
        LIST_FOREACH_SAFE (k, tmp, &c->peers[MSG_ROLE_SANDBOXD]) {
            send_close(c, CONTAINER_OF(k, struct br_peer, link), &job->rid, job->attempt,
                       &job->tenant->id);
        }
    }
}

/* A CLOSE for each sandbox whose request is over. After a restart the requests are not all known
 * yet; the sandboxd says it again. */
int br_on_sbx_boxes(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_BOXES m;
    struct str_view in = buf_view(ev->payload);
    int rc = msg_decode_SBX_BOXES(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    if (in.n % MSG_BOX_REC_BYTES != 0) {
        return ERR_PEER_MALFORMED;
    }
    while (in.n > 0 && !br_is_settling(c)) {
        struct request_id rid;
        struct tenant_id tenant;

        (void)wire_get_raw(&in, rid.b, REQUEST_ID_BYTES);
        (void)wire_get_raw(&in, tenant.b, TENANT_BYTES);
        if (br_job_find(c, &rid) == NULL) {
            send_close(c, p, &rid, 0, &tenant);
        }
    }
    return 0;
}

/* --- parked calls
 * ---------------------------------------------------------------------------------------------------------
 */

void br_sbx_unpark(struct br_core *c)
{
    LIST_FOREACH_SAFE (k, tmp, &c->parked) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, parked_link);
        struct br_place *place = NULL;
        struct br_peer *sbx = br_place_choose(c, call, sv_of(call->owner), &place);

        if (sbx != NULL) {
            call_route(c, call, sbx, place, buf_view(call->frame0), call->payload);
            call_drop_parked(c, call);
        }
    }
}

uint64_t br_sbx_next_due(const struct br_core *c)
{
    struct list_link *k = list_first(&c->parked);

    return k != NULL ? CONTAINER_OF(k, struct br_call, parked_link)->parked_until_ms : UINT64_MAX;
}

void br_sbx_tick(struct br_core *c)
{
    struct list_link *k;

    while ((k = list_first(&c->parked)) != NULL) {
        struct br_call *call = CONTAINER_OF(k, struct br_call, parked_link);

        if (call->parked_until_ms > c->now_ms) {
            return;
        }
        call_answer(c, call, ERR_SANDBOX_UNAVAILABLE, 0,
                    "no sandboxd is connected; start one, or try again later");
    }
}

void br_calls_free(struct br_core *c)
{
    for (size_t i = 0; i <= c->calls.mask; i++) {
        struct br_node *n = c->calls.slots != NULL ? c->calls.slots[i] : c->calls.only;

        while (n != NULL) {
            struct br_call *call = CONTAINER_OF(n, struct br_call, node);

            n = n->next;
            buf_unref(call->frame0);
            buf_unref(call->payload);
            mem_free(call);
        }
    }
    br_table_fini(&c->calls);
    while (c->free_calls != NULL) {
        struct br_call *call = c->free_calls;

        c->free_calls = call->free_next;
        mem_free(call);
    }
}
