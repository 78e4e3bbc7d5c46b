/* br_dispatch.c - job x worker. The only file that spends credit. The worker with the most free
 * credit takes the next job; equals take turns. */
#include "br_int.h"

static bool credit_invariant(const struct br_peer *wk)
{
    return wk->credit + wk->jobs.count <= wk->capacity &&
           (wk->state != BR_PEER_GONE || wk->credit == 0);
}

void br_worker_set_credit(struct br_core *c, struct br_peer *wk, unsigned n)
{
    c->counts.credit = c->counts.credit - wk->credit + n;
    wk->credit = n;
    if (wk->state != BR_PEER_READY) {
        heap_remove(&c->ready, &wk->ready);
    } else if (wk->ready.index1 != 0) {
        (void)heap_put(&c->ready, &wk->ready, UINT32_MAX - n); /* only moves: cannot fail */
    }
    INVARIANT(credit_invariant(wk));
}

void br_worker_add_credit(struct br_core *c, struct br_peer *wk, unsigned n)
{
    unsigned used = wk->credit + (unsigned)wk->jobs.count;
    unsigned room = wk->capacity > used ? wk->capacity - used : 0;

    if (wk->state == BR_PEER_READY && wk->dies_ms == 0) {
        br_worker_set_credit(c, wk, wk->credit + (n < room ? n : room));
    }
}

void br_worker_attach(struct br_core *c, struct br_peer *wk, struct br_job *job)
{
    REQUIRE(job->wk == NULL);
    job->wk = wk;
    list_push_back(&wk->jobs, &job->wk_link);
    if (job->tenant != NULL) {
        br_queue_count_flight(c, job->tenant, 1);
    }
}

void br_worker_detach(struct br_core *c, struct br_job *job)
{
    if (job->wk != NULL) {
        list_remove(&job->wk->jobs, &job->wk_link);
        job->wk = NULL;
        if (job->tenant != NULL) {
            br_queue_count_flight(c, job->tenant, -1);
        }
    }
}

int br_worker_join(struct br_core *c, struct br_peer *wk)
{
    return heap_put(&c->ready, &wk->ready, UINT32_MAX);
}

/* NULL when none has credit. */
static struct br_peer *next_worker(const struct br_core *c)
{
    struct heap_node *n = heap_min(&c->ready);

    return n != NULL && n->key < UINT32_MAX ? CONTAINER_OF(n, struct br_peer, ready) : NULL;
}

static void dispatch(struct br_core *c, struct br_peer *wk, struct br_job *job,
                     struct str_view frame0, struct buf *payload)
{
    struct msg_head h = {.type = MSG_DISPATCH, .attempt = job->attempt, .flags = job->flags};

    if (job->deadline_ms != 0) {
        h.deadline_ms =
            job->deadline_ms > c->now_ms ? (uint32_t)(job->deadline_ms - c->now_ms) : 1U;
    }
    br_worker_set_credit(c, wk, wk->credit - 1);
    br_worker_attach(c, wk, job);
    br_job_move(c, job, BR_JOB_RUNNING, "dispatched");
    br_act_patched(c, wk, frame0, &h, payload);
}

bool br_dispatch_direct(struct br_core *c, struct br_job *job, const struct br_event *ev)
{
    struct br_peer *wk = c->queued.count == 0 ? next_worker(c) : NULL;

    if (wk == NULL) {
        return false;
    }
    dispatch(c, wk, job, ev->frame0, ev->payload);
    br_note_wait(c, 0);
    return true;
}

void br_dispatch_pump(struct br_core *c)
{
    while (c->queued.count > 0) {
        struct br_peer *wk = next_worker(c);
        struct br_job *job = wk != NULL ? br_queue_next(c) : NULL;

        if (job == NULL) {
            return;
        }
        heap_remove(&c->timers, &job->due);
        br_queue_remove(c, job);
        dispatch(c, wk, job, buf_view(job->frame0), job->payload);
        br_job_drop_payload(c, job);
        br_note_wait(c, c->now_ms - job->queued_ms);
    }
}

int br_on_credit(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_CREDIT m;
    int rc = msg_decode_CREDIT(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    if (p->credit + p->jobs.count + m.n > p->capacity) {
        c->counts.bad++; /* more than it said it can take: give no more than that */
    }
    br_worker_add_credit(c, p, m.n);
    return 0;
}
