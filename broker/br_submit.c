/* br_submit.c - what a SUBMIT means, by what is known of its request; and what a worker's claims
 * mean. A request is known by its id; a job here stands for its newest attempt. */
#include "br_int.h"

static bool is_resubmit(const struct br_event *ev)
{
    return (ev->head.flags & MSG_FLAG_RESUBMIT) != 0;
}

static void refuse_stranger(struct br_core *c, struct br_peer *fe, const struct br_event *ev,
                            int code, unsigned retry_after_ms, const char *text)
{
    c->counts.refused[code == ERR_QUEUE_FULL   ? BR_REFUSED_QUEUE
                      : code == ERR_RATE_LIMIT ? BR_REFUSED_KEY
                                               : BR_REFUSED_OTHER]++;
    br_send_refuse(c, fe, &ev->head.rid, ev->head.attempt, code, retry_after_ms, text);
}

static void set_deadline(struct br_core *c, struct br_job *job, const struct br_event *ev)
{
    job->deadline_ms = ev->head.deadline_ms != 0 ? c->now_ms + ev->head.deadline_ms : 0;
    job->flags = ev->head.flags & MSG_FLAG_STREAM;
}

/* Out of memory while the job is in no queue: it ends with a refusal. */
static int refuse_nomem(struct br_core *c, struct br_job *job)
{
    br_job_refuse(c, job, ERR_NOMEM, BR_RETRY_SOON_MS, "the broker is out of memory; try again");
    return 0;
}

static int submit_new(struct br_core *c, struct br_peer *fe, const struct br_event *ev)
{
    bool is_fresh = ev->head.attempt <= 1 && !is_resubmit(ev);
    struct br_tenant *t;
    struct br_job *job;
    int rc;

    if (is_fresh && c->is_draining) {
        c->counts.held++; /* its frontend keeps it and submits it to the next broker */
        return 0;
    }
    if ((t = br_tenant_ref(c, &ev->head.tenant)) == NULL) {
        refuse_stranger(c, fe, ev, ERR_NOMEM, BR_RETRY_SOON_MS,
                        "the broker is out of memory; try again");
        return 0;
    }
    if ((job = br_job_new(c, &ev->head.rid, ev->head.attempt)) == NULL) {
        br_tenant_unref(c, t);
        refuse_stranger(c, fe, ev, ERR_NOMEM, BR_RETRY_SOON_MS,
                        "the broker is out of memory; try again");
        return 0;
    }
    job->tenant = t;
    job->is_started = (ev->head.flags & MSG_FLAG_STARTED) != 0;
    set_deadline(c, job, ev);
    br_job_set_frontend(c, job, fe);
    if (is_resubmit(ev)) {
        c->is_restart = true;
        job->is_adopted = true; /* an earlier broker may have let it run */
        if (br_job_keep(c, job, ev) != 0) {
            return refuse_nomem(c, job);
        }
        br_job_wait(c, job, BR_JOB_GRACE, c->limits.grace_ms, "may still run at a worker");
        return 0;
    }
    if (br_dispatch_direct(c, job, ev)) {
        return 0;
    }
    if (is_fresh && (rc = br_queue_admit(c, t, ev->payload != NULL ? ev->payload->n : 0)) != 0) {
        br_job_refuse(c, job, rc, br_queue_retry_ms(c),
                      rc == ERR_RATE_LIMIT
                          ? "too many requests of this API key are waiting; try again later"
                          : "the request queue is full; try again later");
        return 0;
    }
    if (br_job_keep(c, job, ev) != 0) {
        return refuse_nomem(c, job);
    }
    (void)br_job_queue(c, job, !is_fresh);
    return 0;
}

/* The worker's run of an older attempt no longer matters. */
static void abandon_run(struct br_core *c, struct br_job *job)
{
    if (job->wk != NULL) {
        br_send_cancel(c, job->wk, &job->rid, job->attempt, ERR_CANCELLED);
        br_worker_detach(c, job);
    }
    heap_remove(&c->timers, &job->due);
}

/* The frontend takes part in a job that only a worker had told of, or had lost its frontend. */
static int adopt_frontend(struct br_core *c, struct br_job *job, struct br_peer *fe,
                          const struct br_event *ev)
{
    br_job_set_frontend(c, job, fe);
    set_deadline(c, job, ev);
    job->is_started = job->is_started || (ev->head.flags & MSG_FLAG_STARTED) != 0;
    if (job->tenant == NULL) {
        if ((job->tenant = br_tenant_ref(c, &ev->head.tenant)) == NULL) {
            return ERR_NOMEM;
        }
        if (job->wk != NULL) {
            br_queue_count_flight(c, job->tenant, 1);
        }
    }
    return 0;
}

/* Its run is over and known to be lost: again with `attempt`, or LOST when it may not. */
static void run_again(struct br_core *c, struct br_job *job, unsigned attempt,
                      const struct br_event *ev)
{
    if (job->is_started || attempt > BR_ATTEMPTS_MAX) {
        if (job->state == BR_JOB_LIMBO) {
            br_send_lost(c, job, "");
            (void)heap_put(&c->timers, &job->due, c->now_ms + c->limits.limbo_ms);
            return;
        }
        br_job_lost(c, job, "", "its run is lost and may not be repeated");
        return;
    }
    job->attempt = (uint8_t)attempt;
    if (br_job_keep(c, job, ev) != 0) {
        (void)refuse_nomem(c, job);
        return;
    }
    br_act_note(c, BR_NOTE_RETRY, NULL, job, "its worker was lost", 0, attempt);
    (void)br_job_queue(c, job, true);
}

static unsigned later(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* A frontend that lost sight of us submits a request that we know. */
static void resubmit_known(struct br_core *c, struct br_job *job, const struct br_event *ev)
{
    unsigned attempt = ev->head.attempt;

    switch ((enum br_job_state)job->state) {
    case BR_JOB_QUEUED:
        if (job->is_started) {
            br_job_lost(c, job, "", "bytes of an earlier attempt reached the client");
        }
        return;
    case BR_JOB_GRACE:
        job->attempt = (uint8_t)later(attempt, job->attempt);
        return;
    case BR_JOB_CLAIMED:
    case BR_JOB_RUNNING:
        if (attempt == job->attempt ||
            (attempt < job->attempt && (ev->head.flags & MSG_FLAG_STARTED) == 0)) {
            if (job->state == BR_JOB_CLAIMED) {
                heap_remove(&c->timers, &job->due);
                br_job_move(c, job, BR_JOB_RUNNING, "its frontend is back");
            }
            return;
        }
        abandon_run(c, job);
        if (attempt < job->attempt) {
            br_job_lost(c, job, "", "bytes of an earlier attempt reached the client");
            return;
        }
        job->attempt = (uint8_t)attempt;
        if (br_job_keep(c, job, ev) != 0) {
            (void)refuse_nomem(c, job);
            return;
        }
        br_job_wait(c, job, BR_JOB_GRACE, c->limits.grace_ms,
                    "a later attempt may run at a worker");
        return;
    case BR_JOB_LIMBO:
        heap_remove(&c->timers, &job->due);
        run_again(c, job, attempt > job->attempt ? attempt : job->attempt + 1U, ev);
        return;
    case BR_JOB_CANCELLING: /* moved on by the caller */
    case BR_JOB_NEW:
    case BR_JOB_ENDED:
    case BR_JOB_STATE_COUNT:
        break;
    }
    INVARIANT(false); /* a job in the table is in no state */
}

/* The next attempt of a request that we know. */
static void submit_known(struct br_core *c, struct br_job *job, const struct br_event *ev)
{
    unsigned attempt = ev->head.attempt;

    if (attempt > BR_ATTEMPTS_MAX) {
        abandon_run(c, job);
        br_job_refuse(c, job, ERR_WORKER_LOST, 0,
                      "the workers of all attempts of this request were lost");
        return;
    }
    if (job->state == BR_JOB_QUEUED) {
        job->attempt = (uint8_t)attempt;
        return;
    }
    abandon_run(c, job);
    run_again(c, job, attempt, ev);
}

int br_on_submit(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SUBMIT m;
    struct br_job *job;
    int rc = msg_decode_SUBMIT(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    if (ev->head.attempt == 0) {
        return ERR_PEER_MALFORMED;
    }
    if ((job = br_job_find(c, &ev->head.rid)) == NULL) {
        if (ev->head.attempt > BR_ATTEMPTS_MAX && !is_resubmit(ev)) {
            refuse_stranger(c, p, ev, ERR_WORKER_LOST, 0,
                            "the workers of all attempts of this request were lost");
            return 0;
        }
        return submit_new(c, p, ev);
    }
    if ((job->fe != NULL && job->fe != p) ||
        (job->tenant != NULL &&
         memcmp(&job->tenant->id, &ev->head.tenant, sizeof(job->tenant->id)) != 0)) {
        refuse_stranger(c, p, ev, ERR_CONFLICT, 0, "another request has this id");
        return 0;
    }
    if (!is_resubmit(ev) && ev->head.attempt <= job->attempt) {
        c->counts.unknown++; /* a duplicate */
        return 0;
    }
    if (job->state == BR_JOB_CANCELLING) {
        abandon_run(
            c, job); /* such a job has no frontend: it leaves the worker before it gets one again */
        br_job_move(c, job, BR_JOB_LIMBO, "its frontend is back");
    }
    if (adopt_frontend(c, job, p, ev) != 0) {
        abandon_run(c, job);
        return refuse_nomem(c, job);
    }
    if (is_resubmit(ev)) {
        resubmit_known(c, job, ev);
    } else {
        submit_known(c, job, ev);
    }
    return 0;
}

/* --- claims
 * ------------------------------------------------------------------------------------------------------
 */

static void claim_take(struct br_core *c, struct br_peer *wk, const struct request_id *rid,
                       uint8_t attempt)
{
    struct br_job *job = br_job_find(c, rid);

    if (job == NULL) {
        if (attempt == 0 || (job = br_job_new(c, rid, attempt)) == NULL) {
            br_send_cancel(c, wk, rid, attempt, ERR_CANCELLED);
            return;
        }
        c->is_restart = true;
        job->is_adopted = true;
        job->claim_stamp = c->joins;
        br_worker_attach(c, wk, job);
        br_job_wait(c, job, BR_JOB_CLAIMED, c->limits.limbo_ms, "a worker has it");
        return;
    }
    if (job->wk == wk && job->attempt == attempt) {
        return; /* as we know */
    }
    if ((job->state != BR_JOB_GRACE && job->state != BR_JOB_QUEUED) || job->attempt != attempt) {
        br_send_cancel(c, wk, rid, attempt, ERR_CANCELLED); /* an attempt that was given up */
        return;
    }
    if (job->state == BR_JOB_QUEUED) {
        br_queue_remove(c, job);
    }
    heap_remove(&c->timers, &job->due);
    br_job_drop_payload(c, job);
    job->is_adopted = true;
    job->claim_stamp = c->joins;
    br_worker_attach(c, wk, job);
    br_job_move(c, job, BR_JOB_RUNNING, "claimed");
}

static struct request_id record_get(struct str_view records, size_t at, uint8_t *ret_attempt)
{
    struct request_id rid;

    memcpy(rid.b, records.p + at, REQUEST_ID_BYTES);
    *ret_attempt = (uint8_t)records.p[at + REQUEST_ID_BYTES];
    return rid;
}

void br_claims_take(struct br_core *c, struct br_peer *wk, struct str_view records)
{
    uint8_t attempt;

    for (size_t at = 0; at + MSG_JOB_REC_BYTES <= records.n; at += MSG_JOB_REC_BYTES) {
        struct request_id rid = record_get(records, at, &attempt);
        struct br_job *job = br_job_find(c, &rid);

        if (job != NULL && job->wk == wk && job->attempt == attempt) {
            job->claim_stamp = c->joins;
        }
    }
    /* What it does not list it never got, or ended while the link was down. */
    LIST_FOREACH_SAFE (k, tmp, &wk->jobs) {
        struct br_job *job = CONTAINER_OF(k, struct br_job, wk_link);

        if (job->claim_stamp != c->joins) {
            br_send_cancel(c, wk, &job->rid, job->attempt, ERR_CANCELLED);
            br_job_worker_lost(c, job, wk->name);
        }
    }
    for (size_t at = 0; at + MSG_JOB_REC_BYTES <= records.n; at += MSG_JOB_REC_BYTES) {
        struct request_id rid = record_get(records, at, &attempt);

        claim_take(c, wk, &rid, attempt);
    }
}
