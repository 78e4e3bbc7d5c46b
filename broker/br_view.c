/* br_view.c - the core's numbers for the outside, and the check of its structure for tests. */
#include "br_int.h"

#include "base/metric.h"

void br_note_wait(struct br_core *c, uint64_t wait_ms)
{
    (void)c;
    metric_observe_us(METRIC_BR_WAIT_SECONDS, NULL, NULL, wait_ms * 1000U);
}

void br_core_counts(const struct br_core *c, uint64_t now_ms, struct br_counts *ret)
{
    struct list_link *oldest = list_first(&c->queued);

    *ret = c->counts;
    ret->tenants_queued = (unsigned)c->turns.count;
    ret->calls = (unsigned)c->calls.count;
    ret->oldest_wait_ms = 0;
    if (oldest != NULL) {
        uint64_t since = CONTAINER_OF(oldest, struct br_job, age_link)->queued_ms;

        ret->oldest_wait_ms = now_ms > since ? now_ms - since : 0;
    }
}

bool br_core_next_peer(const struct br_core *c, uint64_t now_ms, size_t *it,
                       struct br_peer_info *ret)
{
    size_t i = 0;

    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        if (i + c->peers[role].count <= *it) {
            i += c->peers[role].count;
            continue;
        }
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            const struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

            if (i++ < *it) {
                continue;
            }
            *ret = (struct br_peer_info){
                .name = p->name,
                .role = br_role_name(role),
                .state = br_peer_states[p->state].name,
                .pid = p->shown_pid,
                .in_flight = (unsigned)(role == MSG_ROLE_SANDBOXD ? p->calls.count : p->jobs.count),
                .credit = p->credit,
                .capacity = p->capacity,
                .load = p->load,
                .lag_us = p->lag_us,
                .sessions = p->sessions,
                .sandboxes = p->sandboxes,
                .last_seen_ms = now_ms > p->seen_ms ? now_ms - p->seen_ms : 0,
                .is_sandboxd = role == MSG_ROLE_SANDBOXD,
                .stats = buf_view(p->stats),
            };
            (*it)++;
            return true;
        }
    }
    return false;
}

bool br_core_next_queue(const struct br_core *c, uint64_t now_ms, size_t *it,
                        struct br_queue_info *ret)
{
    const struct br_tenant *t;
    const struct br_job *job;

    if (*it >= c->turns.count) {
        return false;
    }
    t = CONTAINER_OF(c->turns.slots[(*it)++], struct br_tenant, turn);
    job = CONTAINER_OF(t->queue.head.next, struct br_job, queue_link);
    *ret = (struct br_queue_info){.tenant = t->id,
                                  .depth = (unsigned)t->queue.count,
                                  .in_flight = t->in_flight,
                                  .oldest_wait_ms =
                                      now_ms > job->queued_ms ? now_ms - job->queued_ms : 0};
    return true;
}

/* --- structure
 * -------------------------------------------------------------------------------------------------------
 */

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            return #cond;                                                                          \
        }                                                                                          \
    } while (0)

struct tally {
    unsigned state[BR_JOB_STATE_COUNT];
    size_t at_workers;
    size_t at_frontends;
    size_t boxes;
    uint64_t queued_bytes;
};

static const char *check_job(const struct br_job *job, struct tally *t)
{
    bool is_at_worker = job->state == BR_JOB_RUNNING || job->state == BR_JOB_CLAIMED ||
                        job->state == BR_JOB_CANCELLING;
    bool has_timer = job->due.index1 != 0;

    CHECK(job->state > BR_JOB_NEW && job->state < BR_JOB_ENDED);
    CHECK((job->wk != NULL) == is_at_worker);
    CHECK(has_timer == (job->state != BR_JOB_RUNNING));
    CHECK((job->state == BR_JOB_QUEUED) == list_link_is_in(&job->queue_link));
    CHECK((job->state == BR_JOB_QUEUED) == list_link_is_in(&job->age_link));
    CHECK((job->frame0 != NULL) == (job->state == BR_JOB_QUEUED || job->state == BR_JOB_GRACE));
    CHECK((job->fe == NULL) == (job->state == BR_JOB_CANCELLING || job->state == BR_JOB_CLAIMED) ||
          (job->fe == NULL && job->state == BR_JOB_LIMBO));
    CHECK(job->tenant != NULL || job->fe == NULL);
    CHECK((job->sbx != NULL) == list_link_is_in(&job->sbx_link));
    CHECK(job->wk == NULL || br_peer_is_live(job->wk));
    CHECK(job->fe == NULL || br_peer_is_live(job->fe));
    CHECK(job->sbx == NULL || br_peer_is_live(job->sbx));
    t->state[job->state]++;
    t->at_workers += job->wk != NULL ? 1U : 0U;
    t->at_frontends += job->fe != NULL ? 1U : 0U;
    t->boxes += job->sbx != NULL ? 1U : 0U;
    t->queued_bytes += job->payload != NULL ? job->payload->n : 0;
    return NULL;
}

static const char *check_jobs(const struct br_core *c, struct tally *t)
{
    const char *bad = NULL;
    size_t n = 0;

    for (size_t i = 0; i <= c->jobs.mask && bad == NULL; i++) {
        struct br_node *k = c->jobs.slots != NULL ? c->jobs.slots[i] : c->jobs.only;

        for (; k != NULL && bad == NULL; k = k->next) {
            n++;
            bad = check_job(CONTAINER_OF(k, struct br_job, node), t);
        }
    }
    if (bad != NULL) {
        return bad;
    }
    CHECK(n == c->jobs.count);
    CHECK(t->state[BR_JOB_QUEUED] == c->counts.queued && c->queued.count == c->counts.queued);
    CHECK(t->state[BR_JOB_GRACE] == c->counts.grace);
    CHECK(t->state[BR_JOB_RUNNING] + t->state[BR_JOB_CANCELLING] == c->counts.running);
    CHECK(t->state[BR_JOB_CLAIMED] == c->counts.claimed);
    CHECK(t->state[BR_JOB_LIMBO] == c->counts.limbo);
    CHECK(c->timers.count == n - t->state[BR_JOB_RUNNING]);
    CHECK(t->queued_bytes == c->counts.queued_bytes);
    return NULL;
}

static const char *check_peers(const struct br_core *c, const struct tally *t)
{
    size_t at_workers = 0;
    size_t at_frontends = 0;
    size_t boxes = 0;
    size_t total = 0;
    size_t ready = 0;
    unsigned credit = 0;

    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            const struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

            total++;
            CHECK(p->role == role && br_peer_is_live(p));
            CHECK(role != MSG_ROLE_WORKER || p->credit + p->jobs.count <= p->capacity);
            CHECK((p->ready.index1 != 0) == (role == MSG_ROLE_WORKER && p->state == BR_PEER_READY));
            CHECK(p->ready.index1 == 0 || p->ready.key == UINT32_MAX - p->credit);
            CHECK(role == MSG_ROLE_SANDBOXD || (p->boxes.count == 0 && p->places.count == 0));
            at_workers += role == MSG_ROLE_WORKER ? p->jobs.count : 0;
            at_frontends += role == MSG_ROLE_FRONTEND ? p->jobs.count : 0;
            boxes += p->boxes.count;
            credit += p->credit;
            ready += p->ready.index1 != 0 ? 1U : 0U;
        }
    }
    CHECK(total == map_count(c->by_key));
    CHECK(at_workers == t->at_workers && at_frontends == t->at_frontends && boxes == t->boxes);
    CHECK(credit == c->counts.credit && ready == c->ready.count);
    CHECK(br_live_count(c, MSG_ROLE_WORKER) == c->counts.workers);
    CHECK(br_live_count(c, MSG_ROLE_FRONTEND) == c->counts.frontends);
    CHECK(br_live_count(c, MSG_ROLE_SANDBOXD) == c->counts.sandboxds);
    return NULL;
}

static const char *check_tenants(const struct br_core *c)
{
    size_t waiting = 0;
    size_t queued = 0;

    for (size_t i = 0; i <= c->tenants.mask; i++) {
        struct br_node *k = c->tenants.slots != NULL ? c->tenants.slots[i] : c->tenants.only;

        for (; k != NULL; k = k->next) {
            const struct br_tenant *t = CONTAINER_OF(k, struct br_tenant, node);

            CHECK(t->refs > 0 && t->queue.count + t->in_flight <= t->refs);
            CHECK((t->turn.index1 != 0) == (t->queue.count > 0));
            waiting += t->queue.count > 0 ? 1U : 0U;
            queued += t->queue.count;
        }
    }
    CHECK(waiting == c->turns.count && queued == c->queued.count);
    return NULL;
}

static const char *check_calls(const struct br_core *c)
{
    size_t n = 0;
    size_t parked = 0;
    unsigned sessions = 0;

    for (size_t i = 0; i <= c->calls.mask; i++) {
        struct br_node *k = c->calls.slots != NULL ? c->calls.slots[i] : c->calls.only;

        for (; k != NULL; k = k->next) {
            const struct br_call *call = CONTAINER_OF(k, struct br_call, node);

            n++;
            parked += call->sbx == NULL ? 1U : 0U;
            CHECK((call->sbx == NULL) == list_link_is_in(&call->parked_link));
            CHECK((call->sbx == NULL) == (call->frame0 != NULL));
            CHECK(call->wk == NULL || br_peer_is_live(call->wk));
            CHECK(call->sbx == NULL || br_peer_is_live(call->sbx));
            CHECK(call->place == NULL || call->place->sbx == call->sbx);
        }
    }
    CHECK(n == c->calls.count && parked == c->parked.count);
    for (size_t i = 0; i <= c->places.mask; i++) {
        struct br_node *k = c->places.slots != NULL ? c->places.slots[i] : c->places.only;

        for (; k != NULL; k = k->next) {
            const struct br_place *place = CONTAINER_OF(k, struct br_place, node);

            CHECK(place->calls > 0 || place->sessions > 0);
            CHECK(br_peer_is_live(place->sbx));
            sessions += place->sessions;
        }
    }
    CHECK(sessions == c->counts.sessions);
    return NULL;
}

const char *br_core_check(const struct br_core *c)
{
    struct tally t = {{0}, 0, 0, 0, 0};
    const char *bad = check_jobs(c, &t);

    if (bad == NULL) {
        bad = check_peers(c, &t);
    }
    if (bad == NULL) {
        bad = check_tenants(c);
    }
    return bad != NULL ? bad : check_calls(c);
}
