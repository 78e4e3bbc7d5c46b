/* closer.h - counts the open uv handles of one owner and calls back once when the last has closed.
 *
 * uv handles are embedded in their owner; the owner's storage is freed only from `done`. Late
 * callbacks of the owner check closer_is_closing first. handle->data stays the owner's until the
 * very end.
 *
 * Threads: the loop thread of the handles. Bounds: CLOSER_SLOTS handles closing at one time need no
 * memory; more are fine and allocate a few bytes each. */
#ifndef CFD_IO_CLOSER_H
#define CFD_IO_CLOSER_H

#include <stdbool.h>
#include <uv.h>

#define CLOSER_SLOTS 4

struct closer;

/* Remembers which closer a closing handle belongs to. Private to closer.c. */
struct closer_slot {
    struct closer_slot *next;
    const uv_handle_t *handle; /* NULL = free */
    struct closer *owner;
};

struct closer {
    unsigned open;
    bool is_closing;
    void (*done)(void *ctx);
    void *ctx;
    struct closer_slot slots[CLOSER_SLOTS];
};

void closer_init(struct closer *c, void (*done)(void *ctx), void *ctx);
/* Registers an initialised handle; handle->data stays the owner's. It must be closed by
 * closer_close_one with this closer. */
void closer_add(struct closer *c);
/* Closes one handle that was added. */
void closer_close_one(struct closer *c, uv_handle_t *h);
/* Declares the end: once every added handle is closed, `done` runs (at once when none is open). The
 * caller closes each handle with closer_close_one, before or after. */
void closer_finish(struct closer *c);
static inline bool closer_is_closing(const struct closer *c)
{
    return c->is_closing;
}

#endif
