#include "base/heap.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

static void place(struct heap *h, size_t i, struct heap_node *n)
{
    h->slots[i] = n;
    n->index1 = i + 1;
}

static void sift_up(struct heap *h, size_t i, struct heap_node *n)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;

        if (!is_before(n, h->slots[parent])) {
            break;
        }
        place(h, i, h->slots[parent]);
        i = parent;
    }
    place(h, i, n);
}

static void sift_down(struct heap *h, size_t i, struct heap_node *n)
{
    size_t child;

    while ((child = 2 * i + 1) < h->count) {
        if (child + 1 < h->count && is_before(h->slots[child + 1], h->slots[child])) {
            child++;
        }
        if (!is_before(h->slots[child], n)) {
            break;
        }
        place(h, i, h->slots[child]);
        i = child;
    }
    place(h, i, n);
}

static void settle(struct heap *h, size_t i, struct heap_node *n)
{
    if (i > 0 && is_before(n, h->slots[(i - 1) / 2])) {
        sift_up(h, i, n);
    } else {
        sift_down(h, i, n);
    }
}

static bool is_mine(const struct heap *h, const struct heap_node *n)
{
    return n->index1 <= h->count && h->slots[n->index1 - 1] == n;
}

void heap_fini(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        h->slots[i]->index1 = 0;
    }
    mem_free(h->slots);
    *h = (struct heap){0};
}

int heap_put(struct heap *h, struct heap_node *n, uint64_t key)
{
    if (n->index1 != 0) {
        REQUIRE(is_mine(h, n));
        n->key = key;
        n->seq = h->next_seq++;
        settle(h, n->index1 - 1, n);
        return 0;
    }
    if (h->count == h->cap) {
        size_t cap = h->cap > 0 ? 2 * h->cap : 16;
        struct heap_node **slots = cap <= SIZE_MAX / sizeof(struct heap_node *)
                                       ? mem_realloc(h->slots, cap * sizeof(struct heap_node *))
                                       : NULL;

        if (slots == NULL) {
            return ERR_NOMEM;
        }
        h->slots = slots;
        h->cap = cap;
    }
    n->key = key;
    n->seq = h->next_seq++;
    sift_up(h, h->count++, n);
    return 0;
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    size_t i;
    struct heap_node *last;

    if (n->index1 == 0) {
        return;
    }
    REQUIRE(is_mine(h, n));
    i = n->index1 - 1;
    last = h->slots[--h->count];
    n->index1 = 0;
    if (last != n) {
        settle(h, i, last);
    }
}

struct heap_node *heap_min(const struct heap *h)
{
    return h->count > 0 ? h->slots[0] : NULL;
}
