/* br_table.h - an intrusive hash table: no allocation per entry, so adding to it cannot fail.
 *
 * Threads:  one. Lifetime: nodes are embedded in their owners and borrowed while in the table.
 * Errors:   when growing finds no memory the chains just get longer.
 * Bounds:   none of its own; the owners are bounded. The caller gives the hash and compares keys.
 */
#ifndef CFD_BROKER_BR_TABLE_H
#define CFD_BROKER_BR_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

struct br_node {
    struct br_node *next;
    uint64_t hash;
};

struct br_table {
    struct br_node **slots; /* owned; NULL = no memory yet, everything hangs in `only` */
    struct br_node *only;
    size_t mask;
    size_t count;
};

/* Mixes 16 bytes that are random already (request ids, SHA-256 prefixes) with a per-process seed.
 */
static inline uint64_t br_hash16(const void *p, uint64_t seed)
{
    uint64_t a;
    uint64_t b;

    memcpy(&a, p, 8);
    memcpy(&b, (const char *)p + 8, 8);
    a = (a ^ seed) * 0x9E3779B97F4A7C15U;
    b = (b ^ (seed >> 32) ^ (a >> 29)) * 0xBF58476D1CE4E5B9U;
    a ^= b ^ (b >> 31);
    return a ^ (a >> 33);
}

static inline struct br_node **br_table_slot(struct br_table *t, uint64_t hash)
{
    return t->slots != NULL ? &t->slots[hash & t->mask] : &t->only;
}

/* First node of the chain that may hold `hash`; go on with ->next, compare ->hash first. */
static inline struct br_node *br_table_first(const struct br_table *t, uint64_t hash)
{
    return t->slots != NULL ? t->slots[hash & t->mask] : t->only;
}

static inline void br_table_grow(struct br_table *t)
{
    size_t old_slots = t->slots != NULL ? t->mask + 1 : 1;
    size_t slots = t->slots != NULL ? old_slots * 2 : 64;
    struct br_node **fresh = mem_calloc(slots, sizeof(*fresh));

    if (fresh == NULL) {
        return;
    }
    for (size_t i = 0; i < old_slots; i++) {
        struct br_node *n = t->slots != NULL ? t->slots[i] : t->only;

        while (n != NULL) {
            struct br_node *next = n->next;
            struct br_node **slot = &fresh[n->hash & (slots - 1)];

            n->next = *slot;
            *slot = n;
            n = next;
        }
    }
    mem_free(t->slots);
    t->slots = fresh;
    t->mask = slots - 1;
    t->only = NULL;
}

static inline void br_table_put(struct br_table *t, struct br_node *n, uint64_t hash)
{
    struct br_node **slot;

    if (t->slots == NULL || t->count > t->mask) {
        br_table_grow(t);
    }
    slot = br_table_slot(t, hash);
    n->hash = hash;
    n->next = *slot;
    *slot = n;
    t->count++;
}

static inline void br_table_remove(struct br_table *t, struct br_node *n)
{
    struct br_node **slot = br_table_slot(t, n->hash);

    while (*slot != NULL && *slot != n) {
        slot = &(*slot)->next;
    }
    if (*slot == n) {
        *slot = n->next;
        n->next = NULL;
        t->count--;
    }
}

/* Frees the slots, not the nodes. */
static inline void br_table_fini(struct br_table *t)
{
    mem_free(t->slots);
    t->slots = NULL;
    t->only = NULL;
    t->count = 0;
}

#endif
