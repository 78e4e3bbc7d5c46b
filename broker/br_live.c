/* br_live.c - who is alive: heartbeats in both directions, silence, and what the frontends are told
 * about it. */
#include "br_int.h"

#define RUNNING_SLACK_MS                                                                           \
    5000U /* past a running job's deadline, before the broker steps in itself */

unsigned br_live_count(const struct br_core *c, enum msg_role role)
{
    unsigned n = 0;

    LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
        n += CONTAINER_OF(k, struct br_peer, link)->state == BR_PEER_READY ? 1U : 0U;
    }
    return n;
}

static void send_beats(struct br_core *c, enum msg_role first, enum msg_role last)
{
    struct msg_head h = {.type = MSG_HEARTBEAT};
    struct msg_body_HEARTBEAT m = {.workers = c->said_workers, .sandboxds = c->said_sandboxds};
    struct br_frame f = BR_FRAME(c, HEARTBEAT, &h, &m);

    for (enum msg_role role = first; role <= last; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            br_act_send(c, CONTAINER_OF(k, struct br_peer, link), NULL, f, NULL);
        }
    }
}

void br_live_tell_counts(struct br_core *c)
{
    unsigned workers = c->counts.workers;
    unsigned sandboxds = c->counts.sandboxds;

    if (workers != c->said_workers || sandboxds != c->said_sandboxds) {
        c->said_workers = workers;
        c->said_sandboxds = sandboxds;
        send_beats(c, MSG_ROLE_FRONTEND, MSG_ROLE_FRONTEND);
    }
}

int br_on_heartbeat(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_HEARTBEAT m;
    int rc = msg_decode_HEARTBEAT(&m, ev->fields);

    (void)c;
    if (rc == 0) {
        p->load = m.load;
    }
    return rc;
}

/* A worker that forgot a job must not keep it here for ever: the oldest ones are looked at, in
 * order of dispatch. */
static void sweep_overdue(struct br_core *c, struct br_peer *wk)
{
    LIST_FOREACH_SAFE (k, tmp, &wk->jobs) {
        struct br_job *job = CONTAINER_OF(k, struct br_job, wk_link);

        if (job->state == BR_JOB_CANCELLING) {
            continue; /* has a timer of its own */
        }
        if (job->deadline_ms == 0 || c->now_ms < job->deadline_ms + RUNNING_SLACK_MS) {
            return;
        }
        br_job_cancel(c, job, ERR_DEADLINE);
    }
}

static void drop_silent(struct br_core *c)
{
    uint64_t patience = (uint64_t)c->limits.heartbeat_ms * c->limits.liveness;

    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);
            uint64_t seen = p->seen_ms > c->alive_floor_ms ? p->seen_ms : c->alive_floor_ms;

            if (c->now_ms > seen && c->now_ms - seen > patience) {
                br_peer_gone(c, p, "silent");
            } else if (role == MSG_ROLE_WORKER) {
                sweep_overdue(c, p);
            }
        }
    }
}

/* The kernel tells of an end at once, and so does a send, while what the process said last may
 * still be in our socket: a worker that drained would lose jobs that are done. So it gets no more
 * work, and is gone a moment later. */
void br_live_lost(struct br_core *c, struct br_peer *p, const char *why)
{
    if (p->dies_ms != 0) {
        return;
    }
    p->dies_of = why;
    p->dies_ms = c->now_ms + BR_LAST_WORDS_MS;
    if (p->dies_ms < c->exit_due_ms) {
        c->exit_due_ms = p->dies_ms;
    }
    if (p->role == MSG_ROLE_WORKER) {
        br_worker_set_credit(c, p, 0);
    }
}

static void bury_exited(struct br_core *c)
{
    c->exit_due_ms = UINT64_MAX;
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

            if (p->dies_ms != 0 && p->dies_ms <= c->now_ms) {
                br_peer_gone(c, p, p->dies_of);
            } else if (p->dies_ms != 0 && p->dies_ms < c->exit_due_ms) {
                c->exit_due_ms = p->dies_ms;
            }
        }
    }
}

void br_live_tick(struct br_core *c)
{
    if (c->exit_due_ms <= c->now_ms) {
        bury_exited(c);
    }
    if (c->now_ms < c->beat_due_ms) {
        return;
    }
    if (c->now_ms - c->beat_due_ms > c->limits.heartbeat_ms) {
        /* We slept (a stopped process, a suspended machine): their messages may still wait in our
         * socket. */
        c->alive_floor_ms = c->now_ms;
    }
    drop_silent(c);
    br_sbx_sweep_doubts(c);
    br_live_tell_counts(c);
    send_beats(c, MSG_ROLE_FRONTEND, MSG_ROLE_SANDBOXD);
    c->ended_per_s = (c->ended_per_s * 7U + (unsigned)c->ended_since_beat * 16U) / 8U;
    c->ended_since_beat = 0;
    c->beat_due_ms = c->now_ms + c->limits.heartbeat_ms;
}
