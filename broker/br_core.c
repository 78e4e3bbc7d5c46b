/* br_core.c - one step of the broker: which event, which handler, then whatever became possible or
 * due. */
#include "br_core.h"

#include "base/mem.h"
#include "br_int.h"

int br_core_new(struct br_core **ret, const struct br_setup *setup)
{
    struct br_core *c = mem_zalloc(sizeof(*c));

    if (c == NULL) {
        return ERR_NOMEM;
    }
    c->limits = setup->limits;
    c->instance = setup->instance;
    c->pid_ns = setup->pid_ns;
    c->now_ms = setup->now_ms;
    c->beat_due_ms = setup->now_ms + c->limits.heartbeat_ms;
    c->exit_due_ms = UINT64_MAX;
    c->settle_until_ms = setup->now_ms + c->limits.sbx_wait_ms;
    memcpy(&c->seed, setup->instance.b, sizeof(c->seed));
    bytes_init(&c->arena, 1U << 30);
    for (unsigned i = 0; i < MSG_ROLE_BROKER; i++) {
        list_init(&c->peers[i]);
    }
    list_init(&c->graveyard);
    list_init(&c->queued);
    list_init(&c->parked);
    if ((c->by_key = map_new(65536)) == NULL || bytes_reserve(&c->arena, 64U * 1024U) != 0) {
        br_core_free(c);
        return ERR_NOMEM;
    }
    *ret = c;
    return 0;
}

static void tenants_free(struct br_core *c)
{
    for (size_t i = 0; i <= c->tenants.mask; i++) {
        struct br_node *n = c->tenants.slots != NULL ? c->tenants.slots[i] : c->tenants.only;

        while (n != NULL) {
            struct br_tenant *t = CONTAINER_OF(n, struct br_tenant, node);

            n = n->next;
            mem_free(t);
        }
    }
    br_table_fini(&c->tenants);
    while (c->free_tenants != NULL) {
        struct br_tenant *t = c->free_tenants;

        c->free_tenants = t->free_next;
        mem_free(t);
    }
}

void br_core_free(struct br_core *c)
{
    if (c == NULL) {
        return;
    }
    br_acts_reset(c);
    heap_fini(&c->turns); /* they write to their nodes: before these go */
    heap_fini(&c->ready);
    heap_fini(&c->timers);
    br_calls_free(c);
    br_jobs_free(c);
    br_places_free(c);
    tenants_free(c);
    br_peers_free(c);
    bytes_fini(&c->arena);
    mem_free(c->acts);
    mem_free(c);
}

/* --- messages
 * --------------------------------------------------------------------------------------------------------
 */

typedef int (*on_msg_fn)(struct br_core *c, struct br_peer *p, const struct br_event *ev);

static const on_msg_fn handlers[] = {
    [MSG_HEARTBEAT] = br_on_heartbeat,
    [MSG_BYE] = br_on_bye,
    [MSG_SUBMIT] = br_on_submit,
    [MSG_CREDIT] = br_on_credit,
    [MSG_DONE] = br_on_done,
    [MSG_CANCEL] = br_on_cancel,
    [MSG_SBX_CALL] = br_on_sbx_call,
    [MSG_SBX_EVENT] = br_on_sbx_event,
    [MSG_SBX_RESULT] = br_on_sbx_result,
    [MSG_SBX_CANCEL] = br_on_sbx_cancel,
    [MSG_SBX_SESSIONS] = br_on_sbx_sessions,
    [MSG_SBX_BOXES] = br_on_sbx_boxes,
    [MSG_STATS] = br_on_stats,
    [MSG_STATS_GET] = br_on_stats_get,
};

static void on_stranger(struct br_core *c, const struct br_event *ev, const char *text)
{
    /* After a restart every peer that did not notice gets here: not a breach, but it must greet.
     * Only one that believes to be connected sends heartbeats; leftovers of an older connection
     * must not disturb a greeting under way. */
    c->counts.unknown++;
    if (ev->head.type == MSG_HEARTBEAT) {
        br_send_bye(c, NULL, &ev->from, ERR_PEER_FORBIDDEN, text);
    }
}

static void on_msg(struct br_core *c, const struct br_event *ev)
{
    struct br_peer *p = br_peer_find(c, &ev->from);
    const char *text = "";
    int rc;

    if (ev->from.id.n == 0 || ev->from.id.n > BR_PEER_ID_MAX) {
        c->counts.bad++;
        return;
    }
    if (br_admit(p, &ev->head, &text) != 0) {
        if (p == NULL) {
            on_stranger(c, ev, text);
        } else {
            br_peer_bad(c, p, NULL, ERR_PEER_FORBIDDEN, text);
        }
        return;
    }
    if (ev->head.type == MSG_HELLO) {
        br_on_hello(c, p, ev);
        return;
    }
    p->seen_ms = c->now_ms;
    if (ev->head.type >= sizeof(handlers) / sizeof(handlers[0]) ||
        handlers[ev->head.type] == NULL) {
        br_peer_bad(c, p, NULL, ERR_PEER_FORBIDDEN, "this message does not go to a broker");
        return;
    }
    if ((rc = handlers[ev->head.type](c, p, ev)) != 0) {
        br_peer_bad(c, p, NULL, rc, msg_name(ev->head.type));
    }
}

/* --- the other events
 * --------------------------------------------------------------------------------------------------
 */

static void drop_broken(struct br_core *c)
{
    if (!c->has_broken) {
        return;
    }
    c->has_broken = false;
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

            if (p->is_broken) {
                br_send_bye(c, p, NULL, ERR_NOMEM, "the broker ran out of memory; greet again");
                br_peer_gone(c, p, "a message to it was lost for lack of memory");
                return; /* the list may have changed; the rest at the next step */
            }
        }
    }
}

static void on_peer_event(struct br_core *c, const struct br_event *ev, const char *why)
{
    struct br_peer *p = br_peer_by_serial(c, ev->peer);

    if (p != NULL) {
        br_live_lost(c, p, why);
    }
}

static void on_drain(struct br_core *c, const struct br_event *ev)
{
    uint64_t until = c->now_ms + ev->drain_ms;

    if (!c->is_draining || (!c->is_leaving && until < c->drain_until_ms)) {
        c->is_draining = true;
        c->drain_until_ms = until;
    }
}

static void run_timers(struct br_core *c)
{
    struct heap_node *n;

    while ((n = heap_min(&c->timers)) != NULL && n->key <= c->now_ms) {
        br_job_due(c, CONTAINER_OF(n, struct br_job, due));
    }
    br_sbx_tick(c);
    br_live_tick(c);
    if (c->is_restart && c->now_ms >= c->settle_until_ms) {
        c->is_restart = false;
        br_sbx_unpark(c);
    }
}

/* Draining is over when nothing runs here, or when its time is. The goodbyes get a moment to be
 * read: a peer may drop what it has not read yet when the connection ends. */
static void check_drained(struct br_core *c)
{
    bool is_idle = c->jobs.count == 0 && c->calls.count == 0;

    if (!c->is_draining || c->is_stopped) {
        return;
    }
    if (c->is_leaving) {
        if (c->now_ms >= c->drain_until_ms) {
            c->is_stopped = true;
            (void)br_act_add(c, BR_ACT_STOP);
        }
        return;
    }
    if (!is_idle && c->now_ms < c->drain_until_ms) {
        return;
    }
    c->is_leaving = true;
    c->drain_until_ms = c->now_ms + BR_GOODBYE_MS;
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            br_send_bye(c, CONTAINER_OF(k, struct br_peer, link), NULL, ERR_DRAINING,
                        "the broker is stopping");
        }
    }
}

const struct br_act *br_core_step(struct br_core *c, uint64_t now_ms, const struct br_event *ev,
                                  size_t *ret_n)
{
    br_acts_reset(c);
    br_graveyard_clear(c);
    c->now_ms = now_ms > c->now_ms ? now_ms : c->now_ms;
    drop_broken(c);
    switch (ev->kind) {
    case BR_EV_MSG:
        on_msg(c, ev);
        break;
    case BR_EV_BAD:
        if (ev->from.id.n == 0) {
            c->counts.bad++; /* a handshake that failed: there is nobody to tell */
            break;
        }
        br_peer_bad(c, br_peer_find(c, &ev->from), &ev->from, ev->code,
                    ev->code == ERR_PEER_VERSION ? "another protocol version is spoken here"
                                                 : "malformed message");
        break;
    case BR_EV_EXITED:
        on_peer_event(c, ev, "its process ended");
        break;
    case BR_EV_UNREACHABLE:
        on_peer_event(c, ev, "it cannot be reached");
        break;
    case BR_EV_TICK:
        break;
    case BR_EV_LIMITS:
        c->limits = *ev->limits;
        break;
    case BR_EV_DRAIN:
        on_drain(c, ev);
        break;
    }
    run_timers(c);
    br_dispatch_pump(c);
    br_live_tell_counts(c);
    check_drained(c);
    br_acts_finish(c);
    *ret_n = c->act_count;
    return c->acts;
}

uint64_t br_core_next_due(const struct br_core *c)
{
    struct heap_node *n = heap_min(&c->timers);
    uint64_t due = c->beat_due_ms;
    uint64_t parked = br_sbx_next_due(c);

    if (n != NULL && n->key < due) {
        due = n->key;
    }
    if (c->exit_due_ms < due) {
        due = c->exit_due_ms;
    }
    if (parked < due) {
        due = parked;
    }
    if (c->is_restart && c->settle_until_ms < due) {
        due = c->settle_until_ms;
    }
    if (c->is_draining && !c->is_stopped && c->drain_until_ms < due) {
        due = c->drain_until_ms;
    }
    return c->has_broken ? c->now_ms : due;
}
