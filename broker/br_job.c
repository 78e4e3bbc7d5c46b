/* br_job.c - the life of a job, from its first SUBMIT to the one place where it ends (br_job_end).
 * Picture: README.md. */
#include "br_int.h"

#include "base/mem.h"

#define JOB_POOL_MAX 4096U

const struct sm_state br_job_states[BR_JOB_STATE_COUNT] = {
#define X(name, to) {#name, (to)},
    BR_JOB_STATES(X)
#undef X
};

static bool job_invariant(const struct br_job *job)
{
    bool is_at_worker = job->state == BR_JOB_RUNNING || job->state == BR_JOB_CLAIMED ||
                        job->state == BR_JOB_CANCELLING;

    return (is_at_worker || job->wk == NULL) &&
           (job->state == BR_JOB_QUEUED) == list_link_is_in(&job->queue_link) &&
           (job->state != BR_JOB_CANCELLING || job->fe == NULL);
}

/* Moves to a state of a job at rest: the lists already say where it is. */
void br_job_move(struct br_core *c, struct br_job *job, enum br_job_state next, const char *why)
{
    uint64_t id;
    unsigned *gauge[BR_JOB_STATE_COUNT] = {
        [BR_JOB_QUEUED] = &c->counts.queued,   [BR_JOB_GRACE] = &c->counts.grace,
        [BR_JOB_RUNNING] = &c->counts.running, [BR_JOB_CANCELLING] = &c->counts.running,
        [BR_JOB_CLAIMED] = &c->counts.claimed, [BR_JOB_LIMBO] = &c->counts.limbo};

    memcpy(&id, job->rid.b, sizeof(id));
    if (gauge[job->state] != NULL) {
        (*gauge[job->state])--;
    }
    job->state = sm_move(br_job_states, "job", id, job->state, next, why);
    if (gauge[next] != NULL) {
        (*gauge[next])++;
    }
    INVARIANT(job_invariant(job));
}

struct br_job *br_job_find(const struct br_core *c, const struct request_id *rid)
{
    uint64_t hash = br_hash16(rid->b, c->seed);

    for (struct br_node *n = br_table_first(&c->jobs, hash); n != NULL; n = n->next) {
        struct br_job *job = CONTAINER_OF(n, struct br_job, node);

        if (n->hash == hash && memcmp(job->rid.b, rid->b, REQUEST_ID_BYTES) == 0) {
            return job;
        }
    }
    return NULL;
}

struct br_job *br_job_new(struct br_core *c, const struct request_id *rid, uint8_t attempt)
{
    struct br_job *job = c->free_jobs;

    if (job != NULL) {
        c->free_jobs = job->free_next;
        c->free_job_count--;
        memset(job, 0, sizeof(*job));
    } else if ((job = mem_zalloc(sizeof(*job))) == NULL) {
        return NULL;
    }
    job->rid = *rid;
    job->attempt = attempt;
    list_init(&job->calls);
    br_table_put(&c->jobs, &job->node, br_hash16(rid->b, c->seed));
    return job;
}

void br_job_set_frontend(struct br_core *c, struct br_job *job, struct br_peer *fe)
{
    (void)c;
    if (job->fe == fe) {
        return;
    }
    if (job->fe != NULL) {
        list_remove(&job->fe->jobs, &job->fe_link);
    }
    job->fe = fe;
    if (fe != NULL) {
        list_push_back(&fe->jobs, &job->fe_link);
    }
}

/* Keeps what a later dispatch needs: frame 0 and the body. */
int br_job_keep(struct br_core *c, struct br_job *job, const struct br_event *ev)
{
    struct buf *frame0 = buf_copy(ev->frame0.p, ev->frame0.n);

    if (frame0 == NULL) {
        return ERR_NOMEM;
    }
    br_job_drop_payload(c, job);
    job->frame0 = frame0;
    if (ev->payload != NULL) {
        job->payload = buf_ref(ev->payload);
        c->counts.queued_bytes += ev->payload->n;
    }
    return 0;
}

void br_job_drop_payload(struct br_core *c, struct br_job *job)
{
    if (job->payload != NULL) {
        c->counts.queued_bytes -= job->payload->n;
    }
    buf_unref(job->frame0);
    buf_unref(job->payload);
    job->frame0 = NULL;
    job->payload = NULL;
}

void br_job_end(struct br_core *c, struct br_job *job, const char *why)
{
    if (job->state == BR_JOB_QUEUED) {
        br_queue_remove(c, job);
    }
    heap_remove(&c->timers, &job->due);
    br_worker_detach(c, job);
    br_job_set_frontend(c, job, NULL);
    br_sbx_job_ended(c, job);
    br_job_drop_payload(c, job);
    br_job_move(c, job, BR_JOB_ENDED, why);
    br_tenant_unref(c, job->tenant);
    br_table_remove(&c->jobs, &job->node);
    c->ended_since_beat++;
    if (c->free_job_count < JOB_POOL_MAX) {
        job->free_next = c->free_jobs;
        c->free_jobs = job;
        c->free_job_count++;
    } else {
        mem_free(job);
    }
}

static enum br_refused refused_kind(int code)
{
    switch (code) {
    case ERR_QUEUE_FULL:
        return BR_REFUSED_QUEUE;
    case ERR_RATE_LIMIT:
        return BR_REFUSED_KEY;
    case ERR_UNAVAILABLE:
        return BR_REFUSED_WAIT;
    case ERR_DEADLINE:
        return BR_REFUSED_DEADLINE;
    default:
        return BR_REFUSED_OTHER;
    }
}

void br_job_refuse(struct br_core *c, struct br_job *job, int code, unsigned retry_after_ms,
                   const char *text)
{
    if (job->fe != NULL) {
        br_send_refuse(c, job->fe, &job->rid, job->attempt, code, retry_after_ms, text);
    }
    c->counts.refused[refused_kind(code)]++;
    c->counts.jobs_refused++;
    br_job_end(c, job, "refused");
}

/* Into a state with a timer. Without memory for the timer the job ends at once, as if the time were
 * over. */
void br_job_wait(struct br_core *c, struct br_job *job, enum br_job_state state, unsigned ms,
                 const char *why)
{
    br_job_move(c, job, state, why);
    if (heap_put(&c->timers, &job->due, c->now_ms + ms) != 0) {
        br_job_due(c, job);
    }
}

int br_job_queue(struct br_core *c, struct br_job *job, bool is_first)
{
    uint64_t due = c->now_ms + c->limits.queue_wait_ms;

    if (job->deadline_ms != 0 && job->deadline_ms < due) {
        due = job->deadline_ms;
    }
    job->queued_ms = c->now_ms;
    if (heap_put(&c->timers, &job->due, due) != 0 || br_queue_put(c, job, is_first) != 0) {
        br_job_refuse(c, job, ERR_NOMEM, BR_RETRY_SOON_MS,
                      "the broker is out of memory; try again");
        return ERR_NOMEM;
    }
    br_job_move(c, job, BR_JOB_QUEUED, "waits for a worker");
    return 0;
}

void br_job_cancel(struct br_core *c, struct br_job *job, int code)
{
    br_send_cancel(c, job->wk, &job->rid, job->attempt, code);
    br_job_set_frontend(c, job, NULL);
    br_job_wait(c, job, BR_JOB_CANCELLING, c->limits.limbo_ms, "cancelled");
}

void br_job_lost(struct br_core *c, struct br_job *job, const char *worker, const char *why)
{
    br_act_note(c, BR_NOTE_LOST, NULL, job, why, 0, job->attempt);
    br_send_lost(c, job, worker);
    if (job->state != BR_JOB_QUEUED &&
        (job->sbx != NULL || job->is_adopted || job->calls.count > 0)) {
        br_job_drop_payload(c, job);
        br_job_wait(c, job, BR_JOB_LIMBO, c->limits.limbo_ms, why);
        return;
    }
    c->counts.jobs_lost++;
    br_job_end(c, job, why);
}

void br_job_worker_lost(struct br_core *c, struct br_job *job, const char *worker)
{
    br_worker_detach(c, job);
    heap_remove(&c->timers, &job->due);
    if (job->state == BR_JOB_CANCELLING) {
        c->counts.jobs_cancelled++;
        br_job_end(c, job, "its worker is gone");
        return;
    }
    br_job_lost(c, job, worker, "its worker is gone");
}

void br_job_frontend_gone(struct br_core *c, struct br_job *job)
{
    if (job->state == BR_JOB_RUNNING) {
        br_job_cancel(c, job, ERR_CANCELLED);
        return;
    }
    c->counts.jobs_cancelled++;
    br_job_end(c, job, "its frontend is gone");
}

static void grace_over(struct br_core *c, struct br_job *job)
{
    if (job->deadline_ms != 0 && job->deadline_ms <= c->now_ms) {
        br_job_refuse(c, job, ERR_DEADLINE, 0,
                      "the request ran out of time while the broker was away");
    } else if (job->is_started || job->attempt >= BR_ATTEMPTS_MAX) {
        br_job_lost(c, job, "", "no worker claimed it");
    } else {
        job->attempt++;
        br_act_note(c, BR_NOTE_RETRY, NULL, job, "no worker claimed it after the broker restarted",
                    0, job->attempt);
        (void)br_job_queue(c, job, true);
    }
}

/* Its timer went off. */
void br_job_due(struct br_core *c, struct br_job *job)
{
    heap_remove(&c->timers, &job->due);
    switch ((enum br_job_state)job->state) {
    case BR_JOB_QUEUED:
        if (job->deadline_ms != 0 && job->deadline_ms <= c->now_ms) {
            br_job_refuse(c, job, ERR_DEADLINE, 0,
                          "the request ran out of time while it waited for a worker");
        } else {
            br_job_refuse(c, job, ERR_UNAVAILABLE, br_queue_retry_ms(c),
                          c->counts.workers == 0
                              ? "no worker is connected; start one, or try again later"
                              : "no worker became free in time (queue.wait_s); try again later");
        }
        return;
    case BR_JOB_GRACE:
        grace_over(c, job);
        return;
    case BR_JOB_CLAIMED:
        br_job_cancel(c, job, ERR_CANCELLED); /* its frontend never came back */
        return;
    case BR_JOB_LIMBO:
        c->counts.jobs_lost++;
        br_job_end(c, job, "its frontend did not try again");
        return;
    case BR_JOB_CANCELLING:
        c->counts.jobs_cancelled++;
        br_job_end(c, job, "its worker never said DONE");
        return;
    case BR_JOB_NEW:
    case BR_JOB_RUNNING:
    case BR_JOB_ENDED:
    case BR_JOB_STATE_COUNT:
        break;
    }
    INVARIANT(false); /* a timer without a reason */
}

static void count_outcome(struct br_core *c, const struct br_job *job, uint8_t outcome)
{
    if (job->state == BR_JOB_CANCELLING || outcome == MSG_OUTCOME_CANCELLED) {
        c->counts.jobs_cancelled++;
    } else if (outcome == MSG_OUTCOME_OK) {
        c->counts.jobs_ok++;
    } else if (outcome == MSG_OUTCOME_REFUSED) {
        c->counts.jobs_refused++;
    } else {
        c->counts.jobs_error++;
    }
}

int br_on_done(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_DONE m;
    struct br_job *job;
    int rc = msg_decode_DONE(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    job = br_job_find(c, &ev->head.rid);
    if (job == NULL || job->wk != p ||
        (ev->head.attempt != 0 && ev->head.attempt != job->attempt)) {
        c->counts.unknown++;
    } else {
        count_outcome(c, job, m.outcome);
        job->is_adopted = false; /* it ended in order: what it opened, its worker has closed */
        br_job_end(c, job, "done");
    }
    br_worker_add_credit(c, p, m.credit);
    return 0;
}

int br_on_cancel(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_CANCEL m;
    struct br_job *job;
    int rc = msg_decode_CANCEL(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    job = br_job_find(c, &ev->head.rid);
    if (job == NULL || job->fe != p) {
        c->counts.unknown++; /* it ended meanwhile */
    } else if (job->state == BR_JOB_RUNNING) {
        br_job_cancel(c, job, m.code);
    } else {
        c->counts.jobs_cancelled++;
        br_job_end(c, job, "cancelled before it ran");
    }
    return 0;
}

void br_jobs_free(struct br_core *c)
{
    for (size_t i = 0; i <= c->jobs.mask; i++) {
        struct br_node *n = c->jobs.slots != NULL ? c->jobs.slots[i] : c->jobs.only;

        while (n != NULL) {
            struct br_job *job = CONTAINER_OF(n, struct br_job, node);

            n = n->next;
            buf_unref(job->frame0);
            buf_unref(job->payload);
            mem_free(job);
        }
    }
    br_table_fini(&c->jobs);
    while (c->free_jobs != NULL) {
        struct br_job *job = c->free_jobs;

        c->free_jobs = job->free_next;
        mem_free(job);
    }
}
