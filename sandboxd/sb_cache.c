#include "sb_cache.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

struct sb_cache_tenant {
    struct tenant_id id;
    struct list lru; /* oldest first */
    unsigned counted;
};

struct sb_cache {
    struct map *by_key;
    struct map *tenants; /* tenant bytes -> struct sb_cache_tenant, owned */
    struct heap ttl;
    size_t total_max;
};

struct sb_cache *sb_cache_new(size_t total_max)
{
    struct sb_cache *c = mem_zalloc(sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->total_max = total_max;
    c->by_key = map_new(total_max);
    c->tenants = map_new(total_max);
    if (c->by_key == NULL || c->tenants == NULL) {
        map_free(c->by_key);
        map_free(c->tenants);
        mem_free(c);
        return NULL;
    }
    return c;
}

void sb_cache_free(struct sb_cache *c)
{
    if (c == NULL) {
        return;
    }
    REQUIRE(map_count(c->by_key) == 0);
    map_free(c->by_key);
    map_free(c->tenants);
    heap_fini(&c->ttl);
    mem_free(c);
}

int sb_cache_key(struct sb_cache_entry *e, char scope, const struct tenant_id *tenant,
                 struct str_view id)
{
    size_t at = 0;

    if (id.n > SB_KEY_MAX - TENANT_BYTES - 3) {
        return ERR_STRING_TOO_LONG;
    }
    e->key[at++] = scope;
    memcpy(e->key + at, tenant->b, TENANT_BYTES);
    at += TENANT_BYTES;
    e->key[at++] = (char)(id.n >> 8);
    e->key[at++] = (char)(id.n & 0xff);
    if (id.n > 0) {
        memcpy(e->key + at, id.p, id.n);
    }
    e->key_len = at + id.n;
    e->tenant = *tenant;
    return 0;
}

struct sb_cache_entry *sb_cache_find(const struct sb_cache *c, const struct sb_cache_entry *probe)
{
    return map_get(c->by_key, sv_from(probe->key, probe->key_len));
}

static struct sb_cache_tenant *tenant_find(const struct sb_cache *c, const struct tenant_id *tenant)
{
    return map_get(c->tenants, sv_from(tenant->b, TENANT_BYTES));
}

static void tenant_drop_if_empty(struct sb_cache *c, struct sb_cache_tenant *t)
{
    if (list_is_empty(&t->lru)) {
        (void)map_take(c->tenants, sv_from(t->id.b, TENANT_BYTES));
        mem_free(t);
    }
}

static struct sb_cache_tenant *tenant_get(struct sb_cache *c, const struct tenant_id *tenant)
{
    struct sb_cache_tenant *t = tenant_find(c, tenant);

    if (t != NULL) {
        return t;
    }
    t = mem_zalloc(sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    t->id = *tenant;
    list_init(&t->lru);
    if (map_put(c->tenants, sv_from(tenant->b, TENANT_BYTES), t) != 0) {
        mem_free(t);
        return NULL;
    }
    return t;
}

int sb_cache_add(struct sb_cache *c, struct sb_cache_entry *e, uint64_t now_ms)
{
    struct sb_cache_tenant *t;
    int rc;

    REQUIRE(e->owner == NULL);
    if (sb_cache_find(c, e) != NULL) {
        return ERR_CONFLICT;
    }
    if (map_count(c->by_key) >= c->total_max) {
        return ERR_LIMIT;
    }
    t = tenant_get(c, &e->tenant);
    if (t == NULL) {
        return ERR_NOMEM;
    }
    rc = heap_put(&c->ttl, &e->ttl, now_ms);
    if (rc == 0) {
        rc = map_put(c->by_key, sv_from(e->key, e->key_len), e);
    }
    if (rc != 0) {
        heap_remove(&c->ttl, &e->ttl);
        tenant_drop_if_empty(c, t);
        return rc;
    }
    e->owner = t;
    e->last_access_ms = now_ms;
    list_push_back(&t->lru, &e->lru);
    t->counted += e->is_counted ? 1U : 0U;
    return 0;
}

void sb_cache_remove(struct sb_cache *c, struct sb_cache_entry *e)
{
    struct sb_cache_tenant *t = e->owner;

    REQUIRE(t != NULL);
    (void)map_take(c->by_key, sv_from(e->key, e->key_len));
    heap_remove(&c->ttl, &e->ttl);
    list_remove(&t->lru, &e->lru);
    t->counted -= e->is_counted ? 1U : 0U;
    e->owner = NULL;
    tenant_drop_if_empty(c, t);
}

void sb_cache_touch(struct sb_cache *c, struct sb_cache_entry *e, uint64_t now_ms)
{
    REQUIRE(e->owner != NULL);
    e->last_access_ms = now_ms;
    list_remove(&e->owner->lru, &e->lru);
    list_push_back(&e->owner->lru, &e->lru);
    INVARIANT(heap_put(&c->ttl, &e->ttl, now_ms) == 0); /* moving a node needs no memory */
}

unsigned sb_cache_count(const struct sb_cache *c, const struct tenant_id *tenant)
{
    const struct sb_cache_tenant *t = tenant_find(c, tenant);

    return t != NULL ? t->counted : 0;
}

struct sb_cache_entry *sb_cache_lru_idle(const struct sb_cache *c, const struct tenant_id *tenant)
{
    struct sb_cache_tenant *t = tenant_find(c, tenant);

    if (t == NULL) {
        return NULL;
    }
    LIST_FOREACH_SAFE (k, tmp, &t->lru) {
        struct sb_cache_entry *e = CONTAINER_OF(k, struct sb_cache_entry, lru);

        if (e->is_counted && !e->is_pinned) {
            return e;
        }
    }
    return NULL;
}

struct sb_cache_entry *sb_cache_expired(struct sb_cache *c, uint64_t now_ms, uint64_t ttl_ms)
{
    /* A pinned entry is put behind the present moment, so the loop sees each entry at most once. */
    for (;;) {
        struct heap_node *n = heap_min(&c->ttl);

        if (n == NULL || n->key > now_ms || now_ms - n->key < ttl_ms) {
            return NULL;
        }
        struct sb_cache_entry *e = CONTAINER_OF(n, struct sb_cache_entry, ttl);

        if (!e->is_pinned) {
            return e;
        }
        INVARIANT(heap_put(&c->ttl, n, now_ms + 1) == 0);
    }
}

void sb_cache_each_tenant(const struct sb_cache *c,
                          void (*cb)(void *ctx, const struct tenant_id *t, unsigned n), void *ctx)
{
    size_t it = 0;
    struct str_view key;
    void *value;

    while (map_next(c->tenants, &it, &key, &value)) {
        const struct sb_cache_tenant *t = value;

        if (t->counted > 0) {
            cb(ctx, &t->id, t->counted);
        }
    }
}

struct sb_cache_entry *sb_cache_next_of(const struct sb_cache *c, const struct tenant_id *tenant,
                                        const struct sb_cache_entry *after)
{
    const struct sb_cache_tenant *t = tenant_find(c, tenant);
    struct list_link *k;

    if (t == NULL) {
        return NULL;
    }
    k = after == NULL ? t->lru.head.next : after->lru.next;
    return k == &t->lru.head ? NULL : CONTAINER_OF(k, struct sb_cache_entry, lru);
}
