/* heap.h - intrusive binary min-heap of deadlines. Not thread-safe. A zeroed node is "not in a
 * heap". Ties are broken by insertion order. */
#ifndef CFD_BASE_HEAP_H
#define CFD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    uint64_t key; /* read-only while in a heap */
    uint64_t seq;
    size_t index1; /* 1-based position, 0 = not in a heap */
};

struct heap {
    struct heap_node **slots; /* owned; nodes borrowed */
    size_t count;
    size_t cap;
    uint64_t next_seq;
};

void heap_fini(struct heap *h);
int heap_put(struct heap *h, struct heap_node *n,
             uint64_t key);                            /* 0 or ERR_NOMEM; moves if already in */
void heap_remove(struct heap *h, struct heap_node *n); /* accepts a node not in the heap */
struct heap_node *heap_min(const struct heap *h);      /* NULL when empty */

#endif
