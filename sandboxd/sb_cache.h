/* sb_cache.h - which sandbox sessions exist: by key, least recently used per tenant, and by time to
 * live. Pure: no I/O, no clock.
 *
 * Threads:  loop thread.
 * Lifetime: entries are embedded in their sessions; the cache borrows them and never frees one.
 * Errors:   0 or ERR_*; on error nothing changed.
 * Bounds:   `total_max` entries. The cap per tenant is the caller's decision (sb_cache_count,
 * sb_cache_lru_idle). */
#ifndef CFD_SANDBOXD_SB_CACHE_H
#define CFD_SANDBOXD_SB_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/id.h"
#include "base/list.h"
#include "base/str.h"

#define SB_KEY_MAX 384

struct sb_cache;
struct sb_cache_tenant;

struct sb_cache_entry {
    char key[SB_KEY_MAX]; /* length-prefixed parts, so no join of two ids equals another's */
    size_t key_len;
    struct tenant_id tenant;
    bool is_counted; /* counts towards the tenant's cap (sessions do, single requests do not) */
    bool is_pinned;  /* in use: neither evicted nor expired */
    uint64_t last_access_ms;
    struct list_link lru;          /* in the tenant's list, oldest first */
    struct sb_cache_tenant *owner; /* NULL = not in the cache */
    struct heap_node ttl;
};

struct sb_cache *sb_cache_new(size_t total_max); /* NULL on out of memory */
void sb_cache_free(struct sb_cache *c);          /* REQUIREs that it is empty */

/* Builds a key into e->key from a scope letter, the tenant and an id. ERR_STRING_TOO_LONG when it
 * does not fit. */
int sb_cache_key(struct sb_cache_entry *e, char scope, const struct tenant_id *tenant,
                 struct str_view id);
struct sb_cache_entry *sb_cache_find(const struct sb_cache *c, const struct sb_cache_entry *probe);

/* Adds an entry with key and tenant set. ERR_LIMIT when full, ERR_CONFLICT when the key exists. */
int sb_cache_add(struct sb_cache *c, struct sb_cache_entry *e, uint64_t now_ms);
void sb_cache_remove(struct sb_cache *c, struct sb_cache_entry *e);
/* Makes `e` the newest of its tenant; its life counts from now. */
void sb_cache_touch(struct sb_cache *c, struct sb_cache_entry *e, uint64_t now_ms);

unsigned sb_cache_count(const struct sb_cache *c,
                        const struct tenant_id *tenant); /* counted entries */
/* The tenant's least recently used counted entry that is not pinned; NULL when all are in use. */
struct sb_cache_entry *sb_cache_lru_idle(const struct sb_cache *c, const struct tenant_id *tenant);
/* The next entry not pinned whose last access is at least ttl_ms ago, or NULL. Pinned ones get a
 * new turn. */
struct sb_cache_entry *sb_cache_expired(struct sb_cache *c, uint64_t now_ms, uint64_t ttl_ms);

/* Calls back for each tenant with counted entries. */
void sb_cache_each_tenant(const struct sb_cache *c,
                          void (*cb)(void *ctx, const struct tenant_id *t, unsigned n), void *ctx);
/* The tenant's entries, oldest first; start with NULL. Counted or not. */
struct sb_cache_entry *sb_cache_next_of(const struct sb_cache *c, const struct tenant_id *tenant,
                                        const struct sb_cache_entry *after);

#endif
