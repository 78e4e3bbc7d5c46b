#include "io/closer.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* uv's close callback gets the handle alone, and handle->data belongs to the owner. So the handles
 * that are closing right now stand in a small table of this thread. */
#define BUCKETS 256U

static _Thread_local struct closer_slot *buckets[BUCKETS];

static struct closer_slot **bucket_of(const uv_handle_t *h)
{
    uintptr_t v = (uintptr_t)h;

    return &buckets[((v >> 4) ^ (v >> 12)) % BUCKETS];
}

static bool slot_is_inline(const struct closer *c, const struct closer_slot *s)
{
    return s >= c->slots && s < c->slots + CLOSER_SLOTS;
}

static struct closer_slot *slot_take(struct closer *c)
{
    for (size_t i = 0; i < CLOSER_SLOTS; i++) {
        if (c->slots[i].handle == NULL) {
            return &c->slots[i];
        }
    }
    return mem_zalloc(sizeof(struct closer_slot));
}

static void slot_put(struct closer *c, struct closer_slot *s)
{
    if (slot_is_inline(c, s)) {
        memset(s, 0, sizeof(*s));
    } else {
        mem_free(s);
    }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct closer_slot **at = bucket_of(h);
    struct closer_slot *s = NULL;
    struct closer *c = NULL;

    while (*at != NULL && (*at)->handle != h) {
        at = &(*at)->next;
    }
    INVARIANT(*at != NULL);
    s = *at;
    *at = s->next;
    c = s->owner;
    slot_put(c, s);
    INVARIANT(c->open > 0);
    c->open--;
    if (c->is_closing && c->open == 0) {
        c->done(c->ctx); /* may free the closer */
    }
}

void closer_init(struct closer *c, void (*done)(void *ctx), void *ctx)
{
    memset(c, 0, sizeof(*c));
    c->done = done;
    c->ctx = ctx;
}

void closer_add(struct closer *c)
{
    c->open++;
}

void closer_close_one(struct closer *c, uv_handle_t *h)
{
    struct closer_slot **at = bucket_of(h);
    struct closer_slot *s = slot_take(c);

    REQUIRE(c->open > 0);
    REQUIRE(s != NULL); /* out of memory with more than CLOSER_SLOTS handles closing at once */
    s->handle = h;
    s->owner = c;
    s->next = *at;
    *at = s;
    uv_close(h, on_handle_closed);
}

void closer_finish(struct closer *c)
{
    REQUIRE(!c->is_closing);
    c->is_closing = true;
    if (c->open == 0) {
        c->done(c->ctx);
    }
}
