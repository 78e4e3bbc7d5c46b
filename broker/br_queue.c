/* br_queue.c - one queue per tenant, and whose turn it is. The tenant with the fewest jobs at
 * workers goes first (BR_FAIR_IN_FLIGHT), or all go strictly in turn; ties take turns in both. */
#include "br_int.h"

#include "base/mem.h"

#define TENANT_POOL_MAX 1024U
#define RETRY_MIN_MS    1000U
#define RETRY_MAX_MS    30000U

static struct br_tenant *tenant_find(const struct br_core *c, const struct tenant_id *id,
                                     uint64_t hash)
{
    for (struct br_node *n = br_table_first(&c->tenants, hash); n != NULL; n = n->next) {
        struct br_tenant *t = CONTAINER_OF(n, struct br_tenant, node);

        if (n->hash == hash && memcmp(t->id.b, id->b, TENANT_BYTES) == 0) {
            return t;
        }
    }
    return NULL;
}

struct br_tenant *br_tenant_ref(struct br_core *c, const struct tenant_id *id)
{
    uint64_t hash = br_hash16(id->b, c->seed);
    struct br_tenant *t = tenant_find(c, id, hash);

    if (t == NULL) {
        if ((t = c->free_tenants) != NULL) {
            c->free_tenants = t->free_next;
            c->free_tenant_count--;
            memset(t, 0, sizeof(*t));
        } else if ((t = mem_zalloc(sizeof(*t))) == NULL) {
            return NULL;
        }
        t->id = *id;
        list_init(&t->queue);
        br_table_put(&c->tenants, &t->node, hash);
    }
    t->refs++;
    return t;
}

void br_tenant_unref(struct br_core *c, struct br_tenant *t)
{
    if (t == NULL || --t->refs > 0) {
        return;
    }
    INVARIANT(t->queue.count == 0 && t->in_flight == 0);
    br_table_remove(&c->tenants, &t->node);
    if (c->free_tenant_count < TENANT_POOL_MAX) {
        t->free_next = c->free_tenants;
        c->free_tenants = t;
        c->free_tenant_count++;
    } else {
        mem_free(t);
    }
}

int br_queue_admit(const struct br_core *c, const struct br_tenant *t, size_t payload_bytes)
{
    if (c->queued.count >= c->limits.queue_max ||
        (c->counts.queued_bytes > 0 &&
         (c->counts.queued_bytes > c->limits.queue_bytes_max ||
          payload_bytes > c->limits.queue_bytes_max - c->counts.queued_bytes))) {
        return ERR_QUEUE_FULL;
    }
    if (t->queue.count >= c->limits.per_key_max) {
        return ERR_RATE_LIMIT;
    }
    return 0;
}

/* Puts the tenant behind all others of its key. */
static int turn_put(struct br_core *c, struct br_tenant *t)
{
    uint64_t key = c->limits.fair == BR_FAIR_IN_FLIGHT ? t->in_flight : 0;

    heap_remove(&c->turns, &t->turn);
    return heap_put(&c->turns, &t->turn, key);
}

int br_queue_put(struct br_core *c, struct br_job *job, bool is_first)
{
    struct br_tenant *t = job->tenant;

    if (t->queue.count == 0 && turn_put(c, t) != 0) {
        return ERR_NOMEM;
    }
    if (is_first) {
        list_push_front(&t->queue, &job->queue_link);
    } else {
        list_push_back(&t->queue, &job->queue_link);
    }
    list_push_back(&c->queued, &job->age_link);
    return 0;
}

void br_queue_remove(struct br_core *c, struct br_job *job)
{
    struct br_tenant *t = job->tenant;

    list_remove(&t->queue, &job->queue_link);
    list_remove(&c->queued, &job->age_link);
    if (t->queue.count == 0) {
        heap_remove(&c->turns, &t->turn);
    }
}

struct br_job *br_queue_next(const struct br_core *c)
{
    struct heap_node *n = heap_min(&c->turns);

    if (n == NULL) {
        return NULL;
    }
    return CONTAINER_OF(list_first(&CONTAINER_OF(n, struct br_tenant, turn)->queue), struct br_job,
                        queue_link);
}

void br_queue_count_flight(struct br_core *c, struct br_tenant *t, int delta)
{
    t->in_flight = delta > 0 ? t->in_flight + 1 : t->in_flight - 1;
    /* A dispatch ends the turn; a job that ends moves the tenant forward only where in-flight jobs
     * count. */
    if (t->queue.count > 0 && (delta > 0 || c->limits.fair == BR_FAIR_IN_FLIGHT)) {
        (void)turn_put(c, t); /* it was in the heap, so there is room */
    }
}

unsigned br_queue_retry_ms(const struct br_core *c)
{
    uint64_t per_s = c->ended_per_s / 16U;
    uint64_t ms = per_s > 0 ? c->queued.count * 1000U / per_s : RETRY_MIN_MS;

    if (ms < RETRY_MIN_MS) {
        return RETRY_MIN_MS;
    }
    return ms > RETRY_MAX_MS ? RETRY_MAX_MS : (unsigned)ms;
}
