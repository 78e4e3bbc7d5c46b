/* br_peer.c - the peers: how they come, how they leave, what is known of them. Picture: README.md.
 */
#include "br_int.h"

#include "base/mem.h"

const struct sm_state br_peer_states[BR_PEER_STATE_COUNT] = {
#define X(name, to) {#name, (to)},
    BR_PEER_STATES(X)
#undef X
};

const char *br_role_name(enum msg_role role)
{
    switch (role) {
    case MSG_ROLE_FRONTEND:
        return "frontend";
    case MSG_ROLE_WORKER:
        return "worker";
    case MSG_ROLE_SANDBOXD:
        return "sandboxd";
    case MSG_ROLE_BROKER:
        return "broker";
    }
    return "?";
}

struct br_addr br_peer_addr(const struct br_peer *p)
{
    return (struct br_addr){p->plane, {(const char *)p->key + 1, p->key_n - 1}};
}

static struct str_view peer_key(const struct br_peer *p)
{
    return sv_from(p->key, p->key_n);
}

struct br_peer *br_peer_find(const struct br_core *c, const struct br_addr *addr)
{
    uint8_t key[BR_PEER_ID_MAX + 1];

    if (addr->id.n == 0 || addr->id.n > BR_PEER_ID_MAX) {
        return NULL;
    }
    key[0] = (uint8_t)addr->plane;
    memcpy(key + 1, addr->id.p, addr->id.n);
    return map_get(c->by_key, sv_from(key, addr->id.n + 1));
}

struct br_peer *br_peer_by_serial(const struct br_core *c, uint64_t serial)
{
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

            if (p->serial == serial) {
                return p;
            }
        }
    }
    return NULL;
}

struct br_peer *br_peer_by_name(const struct br_core *c, enum msg_role role, struct str_view name)
{
    if (name.n == 0) {
        return NULL;
    }
    LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
        struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

        if (sv_eq(sv_of(p->name), name)) {
            return p;
        }
    }
    return NULL;
}

static unsigned *ready_gauge(struct br_core *c, enum msg_role role)
{
    switch (role) {
    case MSG_ROLE_FRONTEND:
        return &c->counts.frontends;
    case MSG_ROLE_WORKER:
        return &c->counts.workers;
    case MSG_ROLE_SANDBOXD:
        return &c->counts.sandboxds;
    case MSG_ROLE_BROKER:
        break;
    }
    INVARIANT(false); /* a peer is a frontend, a worker or a sandboxd */
    return NULL;
}

void br_peer_move(struct br_core *c, struct br_peer *p, enum br_peer_state next, const char *why)
{
    unsigned *gauge = ready_gauge(c, p->role);

    *gauge -= p->state == BR_PEER_READY ? 1U : 0U;
    p->state = sm_move(br_peer_states, "peer", p->serial, p->state, next, why);
    *gauge += p->state == BR_PEER_READY ? 1U : 0U;
}

/* --- leaving
 * -------------------------------------------------------------------------------------------------------
 */

static void worker_gone(struct br_core *c, struct br_peer *wk)
{
    br_worker_set_credit(c, wk, 0);
    br_sbx_worker_gone(c, wk);
    LIST_FOREACH_SAFE (k, tmp, &wk->jobs) {
        br_job_worker_lost(c, CONTAINER_OF(k, struct br_job, wk_link), wk->name);
    }
}

static void frontend_gone(struct br_core *c, struct br_peer *fe)
{
    LIST_FOREACH_SAFE (k, tmp, &fe->jobs) {
        br_job_frontend_gone(c, CONTAINER_OF(k, struct br_job, fe_link));
    }
}

void br_peer_gone(struct br_core *c, struct br_peer *p, const char *why)
{
    struct br_act *a;
    size_t in_flight = p->role == MSG_ROLE_SANDBOXD ? p->calls.count : p->jobs.count;

    if (p->state == BR_PEER_GONE) {
        return;
    }
    br_act_note(c, p->state == BR_PEER_DRAINING && in_flight == 0 ? BR_NOTE_LEFT : BR_NOTE_GONE, p,
                NULL, why, 0, (unsigned)in_flight);
    br_peer_move(c, p, BR_PEER_GONE, why);
    list_remove(&c->peers[p->role], &p->link);
    list_push_back(&c->graveyard, &p->link);
    (void)map_take(c->by_key, peer_key(p));
    if (p->is_watched && (a = br_act_add(c, BR_ACT_UNWATCH)) != NULL) {
        a->peer = p->serial;
    }
    if (p->role == MSG_ROLE_WORKER) {
        worker_gone(c, p);
    } else if (p->role == MSG_ROLE_FRONTEND) {
        frontend_gone(c, p);
    } else {
        br_sbx_sandboxd_gone(c, p);
        br_place_sandboxd_gone(c, p);
    }
    INVARIANT(p->jobs.count == 0 && p->calls.count == 0 && p->boxes.count == 0 &&
              p->places.count == 0);
}

void br_peer_bad(struct br_core *c, struct br_peer *p, const struct br_addr *from, int code,
                 const char *text)
{
    c->counts.bad++;
    br_act_note(c, BR_NOTE_BAD, p, NULL, text, code, 0);
    br_send_bye(c, p, from, code, text);
    if (p != NULL) {
        br_peer_gone(c, p, text);
    }
}

static void peer_free(struct br_peer *p)
{
    buf_unref(p->stats);
    mem_free(p);
}

void br_graveyard_clear(struct br_core *c)
{
    LIST_FOREACH_SAFE (k, tmp, &c->graveyard) {
        list_remove(&c->graveyard, k);
        peer_free(CONTAINER_OF(k, struct br_peer, link));
    }
}

void br_peers_free(struct br_core *c)
{
    for (enum msg_role role = MSG_ROLE_FRONTEND; role < MSG_ROLE_BROKER; role++) {
        LIST_FOREACH_SAFE (k, tmp, &c->peers[role]) {
            list_remove(&c->peers[role], k);
            peer_free(CONTAINER_OF(k, struct br_peer, link));
        }
    }
    br_graveyard_clear(c);
    map_free(c->by_key);
    c->by_key = NULL;
}

/* --- coming
 * ----------------------------------------------------------------------------------------------------------
 */

static unsigned peer_count(const struct br_core *c)
{
    return (unsigned)map_count(c->by_key);
}

static void peer_set_key(struct br_peer *p, const struct br_addr *addr)
{
    p->plane = addr->plane;
    p->key[0] = (uint8_t)addr->plane;
    memcpy(p->key + 1, addr->id.p, addr->id.n);
    p->key_n = addr->id.n + 1;
}

/* NULL on out of memory. */
static struct br_peer *peer_new(struct br_core *c, const struct br_addr *addr,
                                const struct msg_body_HELLO *m)
{
    struct br_peer *p = mem_zalloc(sizeof(*p));

    if (p == NULL) {
        return NULL;
    }
    p->serial = ++c->last_serial;
    p->role = (enum msg_role)m->role;
    peer_set_key(p, addr);
    (void)sv_copy(p->name, sizeof(p->name), m->name);
    list_init(&p->jobs);
    list_init(&p->calls);
    list_init(&p->boxes);
    list_init(&p->places);
    if (map_put(c->by_key, peer_key(p), p) != 0) {
        mem_free(p);
        return NULL;
    }
    if (p->role == MSG_ROLE_WORKER && br_worker_join(c, p) != 0) {
        (void)map_take(c->by_key, peer_key(p));
        mem_free(p);
        return NULL;
    }
    list_push_back(&c->peers[p->role], &p->link);
    return p;
}

static void peer_watch(struct br_core *c, struct br_peer *p)
{
    struct br_act *a;

    if (p->pid != 0 && !p->is_watched && (a = br_act_add(c, BR_ACT_WATCH)) != NULL) {
        p->is_watched = true;
        a->peer = p->serial;
        a->pid = p->pid;
        a->name = p->name;
    }
}

/* Each HELLO gets a broker instance of its own: whatever was under way on an older connection may
 * be lost, so the peer must say again what it has. */
static void send_welcome(struct br_core *c, struct br_peer *p)
{
    struct msg_head h = {.type = MSG_WELCOME};
    struct msg_body_WELCOME m = {.instance = c->instance,
                                 .heartbeat_ms = c->limits.heartbeat_ms,
                                 .liveness = c->limits.liveness,
                                 .workers = c->counts.workers,
                                 .sandboxds = c->counts.sandboxds};

    for (unsigned i = 0; i < 8; i++) {
        m.instance.b[8 + i] ^= (uint8_t)(c->joins >> (8 * i));
    }
    br_act_send(c, p, NULL, BR_FRAME(c, WELCOME, &h, &m), NULL);
}

static const char *hello_judge(const struct br_core *c, const struct br_peer *p,
                               const struct br_event *ev, const struct msg_body_HELLO *m,
                               int *ret_code)
{
    size_t n = ev->payload != NULL ? ev->payload->n : 0;

    *ret_code = ERR_PEER_FORBIDDEN;
    if (m->role == MSG_ROLE_BROKER) {
        return "a broker cannot join a broker";
    }
    if (m->role == MSG_ROLE_WORKER && m->capacity == 0) {
        return "a worker needs a capacity of at least 1";
    }
    *ret_code = ERR_PEER_MALFORMED;
    if (m->role == MSG_ROLE_WORKER &&
        (n % MSG_JOB_REC_BYTES != 0 || n / MSG_JOB_REC_BYTES > m->capacity)) {
        return "the list of running jobs is malformed or longer than the capacity";
    }
    *ret_code = ERR_LIMIT;
    if (p == NULL && peer_count(c) >= c->limits.peers_max) {
        return "too many peers";
    }
    return NULL;
}

/* The peer this HELLO continues: the same process, here or at an older address. Other holders of
 * its address or name are dead. NULL = a new peer. */
static struct br_peer *hello_match(struct br_core *c, struct br_peer *p, const struct br_event *ev,
                                   const struct msg_body_HELLO *m)
{
    struct br_peer *other;

    if (p != NULL && (memcmp(&p->instance, &m->instance, sizeof(m->instance)) != 0 ||
                      p->role != m->role || !sv_eq(sv_of(p->name), m->name))) {
        br_peer_gone(c, p, "its process restarted");
        p = NULL;
    }
    other = br_peer_by_name(c, (enum msg_role)m->role, m->name);
    if (p != NULL || other == NULL) {
        return p;
    }
    if (memcmp(&other->instance, &m->instance, sizeof(m->instance)) != 0) {
        br_peer_gone(c, other, "another process took its name");
        return NULL;
    }
    (void)map_take(c->by_key, peer_key(other));
    peer_set_key(other, &ev->from);
    if (map_put(c->by_key, peer_key(other), other) != 0) {
        br_peer_gone(c, other, "out of memory");
        return NULL;
    }
    return other;
}

static void hello_take(struct br_core *c, struct br_peer *p, const struct br_event *ev,
                       const struct msg_body_HELLO *m)
{
    p->instance = m->instance;
    p->seen_ms = c->now_ms;
    if (c->pid_ns != 0 && m->pid_ns == c->pid_ns) {
        p->pid = m->pid;
        peer_watch(c, p);
    }
    p->shown_pid = m->pid;
    if (p->state == BR_PEER_NEW) {
        br_peer_move(c, p, BR_PEER_READY, "hello");
        br_act_note(c, BR_NOTE_JOIN, p, NULL, "", 0, m->capacity);
    }
    send_welcome(c, p);
    if (p->role == MSG_ROLE_WORKER) {
        br_worker_set_credit(c, p, 0);
        if (m->capacity > p->capacity) {
            p->capacity = m->capacity;
        }
        br_claims_take(c, p, buf_view(ev->payload));
        p->capacity = m->capacity;
    } else {
        p->capacity = m->capacity;
    }
    if (p->role == MSG_ROLE_SANDBOXD) {
        br_sbx_sandboxd_back(c, p);
        br_sbx_unpark(c);
    }
}

void br_on_hello(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_HELLO m;
    const char *text;
    int code;

    if ((code = msg_decode_HELLO(&m, ev->fields)) != 0) {
        br_peer_bad(c, p, &ev->from, code, "malformed HELLO");
        return;
    }
    if ((text = hello_judge(c, p, ev, &m, &code)) != NULL) {
        br_peer_bad(c, p, &ev->from, code, text);
        return;
    }
    if (c->is_leaving) {
        br_send_bye(c, p, &ev->from, ERR_DRAINING, "the broker is stopping");
        return;
    }
    c->joins++;
    p = hello_match(c, p, ev, &m);
    if (p == NULL && (p = peer_new(c, &ev->from, &m)) == NULL) {
        br_send_bye(c, NULL, &ev->from, ERR_NOMEM, "the broker is out of memory; try again");
        return;
    }
    hello_take(c, p, ev, &m);
}

/* --- what else they say
 * ------------------------------------------------------------------------------------------------
 */

int br_on_bye(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_BYE m;
    int rc = msg_decode_BYE(&m, ev->fields);

    if (rc == 0 && p->state == BR_PEER_READY) {
        br_peer_move(c, p, BR_PEER_DRAINING, "it said BYE");
        if (p->role == MSG_ROLE_WORKER) {
            br_worker_set_credit(c, p, 0);
        }
    }
    return rc;
}

int br_on_stats(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_STATS m;
    int rc = msg_decode_STATS(&m, ev->fields);

    (void)c;
    if (rc == 0 && (ev->payload == NULL || ev->payload->n <= BR_STATS_MAX)) {
        buf_unref(p->stats);
        p->stats = ev->payload != NULL ? buf_ref(ev->payload) : NULL;
        p->lag_us = m.lag_us;
    }
    return rc;
}

int br_on_stats_get(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_STATS_GET m;
    struct br_act *a;
    int rc = msg_decode_STATS_GET(&m, ev->fields);

    if (rc == 0 && (a = br_act_add(c, BR_ACT_STATS)) != NULL) {
        a->peer = p->serial;
        a->to = br_peer_addr(p);
        a->call = m.call;
        a->what = m.what;
    }
    return rc;
}
