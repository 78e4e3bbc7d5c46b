#include "fe_quota.h"

#include "base/map.h"
#include "base/mem.h"

struct fe_quota_entry {
    unsigned running;
    uint64_t micro_tokens; /* millionths of a request */
    uint64_t filled_ms;    /* when micro_tokens was right; 0 = never used */
};

struct fe_quota {
    struct map *entries; /* tenant -> struct fe_quota_entry, owned */
};

struct fe_quota *fe_quota_new(void)
{
    struct fe_quota *q = mem_zalloc(sizeof(*q));

    if (q != NULL && (q->entries = map_new(FE_QUOTA_KEYS_MAX)) == NULL) {
        mem_free(q);
        q = NULL;
    }
    return q;
}

void fe_quota_free(struct fe_quota *q)
{
    size_t it = 0;
    struct str_view key;
    void *value = NULL;

    if (q == NULL) {
        return;
    }
    while (map_next(q->entries, &it, &key, &value)) {
        mem_free(value);
    }
    map_free(q->entries);
    mem_free(q);
}

static struct fe_quota_entry *entry_of(struct fe_quota *q, const struct cfg_api_key *key)
{
    struct str_view k = sv_from(key->tenant.b, sizeof(key->tenant.b));
    struct fe_quota_entry *entry = map_get(q->entries, k);

    if (entry == NULL && (entry = mem_zalloc(sizeof(*entry))) != NULL &&
        map_put(q->entries, k, entry) != 0) {
        mem_free(entry);
        entry = NULL;
    }
    return entry;
}

/* A full bucket holds one minute's worth, and fills at rpm per minute. Returns ms until a request
 * fits; 0 = taken. */
static uint64_t take_token(struct fe_quota_entry *entry, unsigned rpm, uint64_t now_ms)
{
    const uint64_t one = 1000000U;
    const uint64_t full = one * rpm;
    const uint64_t minute = 60000U;
    uint64_t gap = now_ms - entry->filled_ms;

    if (entry->filled_ms == 0 || gap >= minute) {
        entry->micro_tokens = full;
    } else {
        entry->micro_tokens += gap * full / minute;
        entry->micro_tokens = entry->micro_tokens > full ? full : entry->micro_tokens;
    }
    entry->filled_ms = now_ms;
    if (entry->micro_tokens >= one) {
        entry->micro_tokens -= one;
        return 0;
    }
    return (one - entry->micro_tokens) * minute / full + 1;
}

int fe_quota_take(struct fe_quota *q, const struct cfg_api_key *key, uint64_t now_ms,
                  struct fe_quota_entry **ret, struct err *e)
{
    struct fe_quota_entry *entry = NULL;
    uint64_t wait_ms = 0;

    *ret = NULL;
    if (key == NULL || (key->rpm == 0 && key->max_parallel == 0)) {
        return 0;
    }
    entry = entry_of(q, key);
    if (entry == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    if (key->max_parallel != 0 && entry->running >= key->max_parallel) {
        err_set(e, ERR_RATE_LIMIT,
                "Too many requests at once for this API key: at most %u may run in parallel.",
                key->max_parallel);
        e->retry_after_ms = 1000;
        return ERR_RATE_LIMIT;
    }
    if (key->rpm != 0 && (wait_ms = take_token(entry, key->rpm, now_ms)) != 0) {
        err_set(e, ERR_RATE_LIMIT, "Rate limit reached for this API key: %u requests per minute.",
                key->rpm);
        e->retry_after_ms = (unsigned)wait_ms;
        return ERR_RATE_LIMIT;
    }
    entry->running++;
    *ret = entry;
    return 0;
}

void fe_quota_done(struct fe_quota_entry *entry)
{
    if (entry != NULL && entry->running > 0) {
        entry->running--;
    }
}
