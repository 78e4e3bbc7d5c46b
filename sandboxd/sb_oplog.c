#include "sb_oplog.h"

#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#define KEY_BYTES (TENANT_BYTES + 16)

struct entry {
    char key[KEY_BYTES];
    uint64_t at_ms;
    struct sb_op_result result;
    struct list_link age; /* oldest first */
};

struct sb_oplog {
    struct map *by_key;
    struct list age;
    size_t bytes;
};

static void key_make(char key[KEY_BYTES], const struct tenant_id *tenant, const struct msg_id16 *op)
{
    memcpy(key, tenant->b, TENANT_BYTES);
    memcpy(key + TENANT_BYTES, op->b, sizeof(op->b));
}

static size_t entry_bytes(const struct entry *e)
{
    return sizeof(*e) + (e->result.payload != NULL ? e->result.payload->n : 0);
}

static void entry_drop(struct sb_oplog *l, struct entry *e)
{
    (void)map_take(l->by_key, sv_from(e->key, KEY_BYTES));
    list_remove(&l->age, &e->age);
    l->bytes -= entry_bytes(e);
    buf_unref(e->result.payload);
    mem_free(e);
}

static void trim(struct sb_oplog *l, uint64_t now_ms)
{
    struct list_link *k;

    while ((k = list_first(&l->age)) != NULL) {
        struct entry *e = CONTAINER_OF(k, struct entry, age);

        if (l->age.count <= SB_OPLOG_ENTRIES_MAX && l->bytes <= SB_OPLOG_BYTES_MAX &&
            now_ms < e->at_ms + SB_OPLOG_TTL_MS) {
            return;
        }
        entry_drop(l, e);
    }
}

struct sb_oplog *sb_oplog_new(void)
{
    struct sb_oplog *l = mem_zalloc(sizeof(*l));

    if (l == NULL) {
        return NULL;
    }
    list_init(&l->age);
    l->by_key = map_new(SB_OPLOG_ENTRIES_MAX + 1);
    if (l->by_key == NULL) {
        mem_free(l);
        return NULL;
    }
    return l;
}

void sb_oplog_free(struct sb_oplog *l)
{
    struct list_link *k;

    if (l == NULL) {
        return;
    }
    while ((k = list_first(&l->age)) != NULL) {
        entry_drop(l, CONTAINER_OF(k, struct entry, age));
    }
    map_free(l->by_key);
    mem_free(l);
}

int sb_oplog_put(struct sb_oplog *l, const struct tenant_id *tenant, const struct msg_id16 *op,
                 const struct sb_op_result *r, uint64_t now_ms)
{
    struct entry *e;
    char key[KEY_BYTES];

    key_make(key, tenant, op);
    if (map_get(l->by_key, sv_from(key, KEY_BYTES)) != NULL) {
        return 0;
    }
    e = mem_zalloc(sizeof(*e));
    if (e == NULL) {
        return ERR_NOMEM;
    }
    memcpy(e->key, key, KEY_BYTES);
    e->at_ms = now_ms;
    e->result = *r;
    if (map_put(l->by_key, sv_from(e->key, KEY_BYTES), e) != 0) {
        mem_free(e);
        return ERR_NOMEM;
    }
    if (r->payload != NULL) {
        (void)buf_ref(r->payload);
    }
    list_push_back(&l->age, &e->age);
    l->bytes += entry_bytes(e);
    trim(l, now_ms);
    return 0;
}

const struct sb_op_result *sb_oplog_get(struct sb_oplog *l, const struct tenant_id *tenant,
                                        const struct msg_id16 *op, uint64_t now_ms)
{
    const struct entry *e;
    char key[KEY_BYTES];

    trim(l, now_ms);
    key_make(key, tenant, op);
    e = map_get(l->by_key, sv_from(key, KEY_BYTES));
    return e != NULL ? &e->result : NULL;
}
