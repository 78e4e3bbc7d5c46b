/* br_place.c - which sandboxd a call goes to. All sessions of a tenant live on one: where a
 * sandboxd says they are, else by rendezvous hash over the live ones, so that every broker comes to
 * the same answer. A request's own sandbox stays where it was opened; new ones go to the least
 * loaded. */
#include "br_int.h"

#include "base/mem.h"
#include "proto/wire.h"

static struct br_place *place_find(const struct br_core *c, const struct tenant_id *id)
{
    uint64_t hash = br_hash16(id->b, c->seed);

    for (struct br_node *n = br_table_first(&c->places, hash); n != NULL; n = n->next) {
        struct br_place *place = CONTAINER_OF(n, struct br_place, node);

        if (n->hash == hash && memcmp(place->tenant.b, id->b, TENANT_BYTES) == 0) {
            return place;
        }
    }
    return NULL;
}

static void place_free(struct br_core *c, struct br_place *place)
{
    c->counts.sessions -= place->sessions;
    list_remove(&place->sbx->places, &place->link);
    br_table_remove(&c->places, &place->node);
    mem_free(place);
}

static void place_set_sandboxd(struct br_place *place, struct br_peer *sbx)
{
    if (place->sbx != NULL) {
        LIST_FOREACH_SAFE (k, tmp, &place->sbx->calls) {
            struct br_call *call = CONTAINER_OF(k, struct br_call, sbx_link);

            if (call->place == place) {
                call->place = NULL; /* ends where it is, without a say in where the next one goes */
                place->calls--;
            }
        }
        list_remove(&place->sbx->places, &place->link);
    }
    place->sbx = sbx;
    list_push_back(&sbx->places, &place->link);
}

static void place_set_sessions(struct br_core *c, struct br_place *place, uint32_t n)
{
    c->counts.sessions = c->counts.sessions - place->sessions + n;
    place->sessions = n;
}

/* NULL on out of memory or at the cap: the tenant is then placed by hash alone. */
static struct br_place *place_new(struct br_core *c, const struct tenant_id *id,
                                  struct br_peer *sbx)
{
    struct br_place *place = c->places.count < BR_PLACES_MAX ? mem_zalloc(sizeof(*place)) : NULL;

    if (place != NULL) {
        place->tenant = *id;
        place_set_sandboxd(place, sbx);
        br_table_put(&c->places, &place->node, br_hash16(id->b, c->seed));
    }
    return place;
}

void br_place_count_call(struct br_core *c, struct br_place *place, int delta)
{
    place->calls = delta > 0 ? place->calls + 1 : place->calls - 1;
    if (place->calls == 0 && place->sessions == 0) {
        place_free(c, place);
    }
}

void br_place_sandboxd_gone(struct br_core *c, struct br_peer *sbx)
{
    LIST_FOREACH_SAFE (k, tmp, &sbx->places) {
        struct br_place *place = CONTAINER_OF(k, struct br_place, link);

        INVARIANT(place->calls == 0); /* its calls were answered before */
        place_free(c, place);
    }
}

static uint64_t rendezvous_score(const struct tenant_id *id, const struct br_peer *sbx)
{
    uint8_t in[TENANT_BYTES + MSG_NAME_MAX];
    uint8_t out[32];
    uint64_t score;
    size_t n = strlen(sbx->name);

    memcpy(in, id->b, TENANT_BYTES);
    memcpy(in + TENANT_BYTES, sbx->name, n);
    id_sha256(out, in, TENANT_BYTES + n);
    memcpy(&score, out, sizeof(score));
    return score;
}

static struct br_peer *by_rendezvous(const struct br_core *c, const struct tenant_id *id)
{
    struct br_peer *best = NULL;
    uint64_t best_score = 0;

    LIST_FOREACH_SAFE (k, tmp, &c->peers[MSG_ROLE_SANDBOXD]) {
        struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);
        uint64_t score = p->state == BR_PEER_READY ? rendezvous_score(id, p) : 0;

        if (p->state == BR_PEER_READY && (best == NULL || score > best_score)) {
            best = p;
            best_score = score;
        }
    }
    return best;
}

/* In 1/1024 of its capacity. */
static uint64_t load_of(const struct br_peer *p)
{
    uint64_t used = p->sandboxes > p->load ? p->sandboxes : p->load;

    used += p->calls.count;
    return used * 1024U / (p->capacity > 0 ? p->capacity : 1024U);
}

static struct br_peer *by_load(const struct br_core *c)
{
    struct br_peer *best = NULL;

    LIST_FOREACH_SAFE (k, tmp, &c->peers[MSG_ROLE_SANDBOXD]) {
        struct br_peer *p = CONTAINER_OF(k, struct br_peer, link);

        if (p->state == BR_PEER_READY && (best == NULL || load_of(p) < load_of(best))) {
            best = p;
        }
    }
    return best;
}

bool br_is_settling(const struct br_core *c)
{
    return c->is_restart && c->now_ms < c->settle_until_ms;
}

static struct br_peer *choose_for_tenant(struct br_core *c, const struct br_call *call,
                                         struct str_view owner, struct br_place **ret_place)
{
    struct br_place *place = place_find(c, &call->tenant);
    struct br_peer *sbx = br_peer_by_name(c, MSG_ROLE_SANDBOXD, owner);

    if (sbx != NULL) {
        *ret_place = place != NULL && place->sbx == sbx ? place : NULL;
        return sbx;
    }
    if (place != NULL && place->sbx->state == BR_PEER_READY) {
        *ret_place = place;
        return place->sbx;
    }
    if (place == NULL && br_is_settling(c)) {
        return NULL; /* the sandboxd that has them may not be back yet */
    }
    if ((sbx = by_rendezvous(c, &call->tenant)) == NULL) {
        return NULL;
    }
    if (place == NULL) {
        place = place_new(c, &call->tenant, sbx);
    } else {
        place_set_sessions(c, place, 0);
        place_set_sandboxd(place, sbx); /* the old one is leaving */
    }
    *ret_place = place;
    return sbx;
}

struct br_peer *br_place_choose(struct br_core *c, const struct br_call *call,
                                struct str_view owner, struct br_place **ret_place)
{
    struct br_peer *sbx;

    *ret_place = NULL;
    if (call->scope != MSG_SCOPE_REQUEST) {
        return choose_for_tenant(c, call, owner, ret_place);
    }
    if (call->job != NULL && call->job->sbx != NULL) {
        return call->job->sbx;
    }
    if ((sbx = br_peer_by_name(c, MSG_ROLE_SANDBOXD, owner)) != NULL) {
        return sbx;
    }
    if (owner.n > 0 && br_is_settling(c)) {
        return NULL;
    }
    return by_load(c);
}

/* Where the tenant's sessions are now, in the words of `p`. */
static void report_take(struct br_core *c, struct br_peer *p, const struct tenant_id *id,
                        uint32_t sessions)
{
    struct br_place *place = place_find(c, id);

    if (place == NULL) {
        place = place_new(c, id, p);
    } else if (place->sbx != p) {
        if (place->sbx->state == BR_PEER_READY && (place->sessions > 0 || place->calls > 0)) {
            return; /* two say they have them: the first one keeps the tenant */
        }
        place_set_sandboxd(place, p);
    }
    if (place != NULL) {
        place_set_sessions(c, place, sessions);
        place->round = c->report_round;
    }
}

int br_on_sbx_sessions(struct br_core *c, struct br_peer *p, const struct br_event *ev)
{
    struct msg_body_SBX_SESSIONS m;
    struct str_view in = buf_view(ev->payload);
    int rc = msg_decode_SBX_SESSIONS(&m, ev->fields);

    if (rc != 0) {
        return rc;
    }
    if (in.n % MSG_TENANT_REC_BYTES != 0) {
        return ERR_PEER_MALFORMED;
    }
    p->sessions = m.sessions;
    p->sandboxes = m.sandboxes;
    c->report_round++;
    while (in.n > 0) {
        struct tenant_id id;
        uint32_t n = 0;

        (void)wire_get_raw(&in, id.b, TENANT_BYTES);
        (void)wire_get_u32(&in, &n);
        if (n > 0) {
            report_take(c, p, &id, n);
        }
    }
    LIST_FOREACH_SAFE (k, tmp, &p->places) {
        struct br_place *place = CONTAINER_OF(k, struct br_place, link);

        if (place->round != c->report_round) {
            place_set_sessions(c, place, 0);
            if (place->calls == 0) {
                place_free(c, place);
            }
        }
    }
    br_sbx_unpark(c);
    return 0;
}

void br_places_free(struct br_core *c)
{
    for (size_t i = 0; i <= c->places.mask; i++) {
        struct br_node *n = c->places.slots != NULL ? c->places.slots[i] : c->places.only;

        while (n != NULL) {
            struct br_place *place = CONTAINER_OF(n, struct br_place, node);

            n = n->next;
            mem_free(place);
        }
    }
    br_table_fini(&c->places);
}
