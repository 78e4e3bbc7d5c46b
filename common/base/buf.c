#include "base/buf.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct buf *buf_new(size_t n, char **ret_p)
{
    struct buf *b;
    char *storage;

    if (n > SIZE_MAX - sizeof(*b) || (b = mem_alloc(sizeof(*b) + n)) == NULL) {
        return NULL;
    }
    storage = (char *)(b + 1);
    atomic_init(&b->refs, 1);
    b->p = storage;
    b->n = n;
    b->free_fn = NULL;
    b->foreign = NULL;
    *ret_p = storage;
    return b;
}

struct buf *buf_copy(const void *p, size_t n)
{
    char *dst;
    struct buf *b = buf_new(n, &dst);

    if (b != NULL && n > 0) {
        memcpy(dst, p, n);
    }
    return b;
}

struct buf *buf_wrap(const void *p, size_t n, void (*free_fn)(struct buf *b), void *foreign)
{
    struct buf *b = mem_alloc(sizeof(*b));

    if (b == NULL) {
        return NULL;
    }
    atomic_init(&b->refs, 1);
    b->p = p;
    b->n = n;
    b->free_fn = free_fn;
    b->foreign = foreign;
    return b;
}

static void free_moved(struct buf *b)
{
    mem_free(b->foreign);
}

struct buf *buf_from_bytes(struct bytes *b)
{
    struct buf *ret = buf_wrap(b->p, b->n, free_moved, b->p);

    if (ret != NULL) {
        b->p = NULL;
        b->n = b->cap = 0;
    }
    return ret;
}

struct buf *buf_ref(struct buf *b)
{
    unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

    INVARIANT(before > 0 && before < UINT32_MAX / 2);
    return b;
}

void buf_unref(struct buf *b)
{
    unsigned before;

    if (b == NULL) {
        return;
    }
    before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    INVARIANT(before > 0);
    if (before == 1) {
        if (b->free_fn != NULL) {
            b->free_fn(b);
        }
        mem_free(b);
    }
}
