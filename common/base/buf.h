/* buf.h - immutable bytes with an atomic reference count.
 *
 * Threads:  refs may be taken and dropped on any thread (libzmq frees on its own).
 * Lifetime: created with one reference; the last buf_unref frees, through `free_fn` for foreign
 * bytes. Bounds:   none of its own; callers cap sizes. */
#ifndef CFD_BASE_BUF_H
#define CFD_BASE_BUF_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/str.h"

struct buf {
    atomic_uint refs;
    const char *p;
    size_t n;
    void (*free_fn)(struct buf *b); /* NULL = storage follows the struct */
    void *foreign;                  /* for free_fn */
};

/* Copies. NULL on out of memory. */
struct buf *buf_copy(const void *p, size_t n);
/* Uninitialised storage of n bytes to be filled by the creator before sharing; *ret_p writable. */
struct buf *buf_new(size_t n, char **ret_p);
/* Moves the bytes out of `b` (left empty) without copying. */
struct buf *buf_from_bytes(struct bytes *b);
/* Wraps foreign bytes; `free_fn` runs once, on any thread, and must free `foreign`, not the buf. */
struct buf *buf_wrap(const void *p, size_t n, void (*free_fn)(struct buf *b), void *foreign);
struct buf *buf_ref(struct buf *b);
void buf_unref(struct buf *b); /* accepts NULL */

static inline struct str_view buf_view(const struct buf *b)
{
    return b != NULL ? (struct str_view){b->p, b->n} : (struct str_view){NULL, 0};
}

#endif
