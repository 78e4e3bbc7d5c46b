#include "base/ring.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* Each field is atomic on its own: a dump during a note may mix two notes, never read a torn
 * pointer. */
struct slot {
    _Atomic uint64_t at_ms;
    _Atomic uint64_t id;
    const char *_Atomic what; /* all strings are static */
    const char *_Atomic from;
    const char *_Atomic to;
    const char *_Atomic why;
};

static struct slot slots[RING_SLOTS];
static _Atomic uint64_t next_slot;

void ring_note(const char *what, uint64_t id, const char *from, const char *to, const char *why)
{
    uint64_t i = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed);
    struct slot *s = &slots[i % RING_SLOTS];

    atomic_store_explicit(&s->at_ms, clock_ms(), memory_order_relaxed);
    atomic_store_explicit(&s->id, id, memory_order_relaxed);
    atomic_store_explicit(&s->from, from, memory_order_relaxed);
    atomic_store_explicit(&s->to, to, memory_order_relaxed);
    atomic_store_explicit(&s->why, why, memory_order_relaxed);
    atomic_store_explicit(&s->what, what, memory_order_release);
}

struct line {
    char text[512];
    size_t n;
};

static void add_str(struct line *l, const char *s)
{
    for (s = s != NULL ? s : "-"; *s != '\0' && l->n < sizeof(l->text) - 1; s++) {
        l->text[l->n++] = *s;
    }
}

static void add_u64(struct line *l, uint64_t v)
{
    char digits[24];
    size_t i = sizeof(digits) - 1;

    digits[i] = '\0';
    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    add_str(l, digits + i);
}

static void dump_slot(int fd, struct slot *s)
{
    struct line l = {.n = 0};
    const char *what = atomic_load_explicit(&s->what, memory_order_acquire);
    ssize_t n;

    if (what == NULL) {
        return;
    }
    add_str(&l, "ring ");
    add_u64(&l, atomic_load_explicit(&s->at_ms, memory_order_relaxed));
    add_str(&l, " ");
    add_str(&l, what);
    add_str(&l, " ");
    add_u64(&l, atomic_load_explicit(&s->id, memory_order_relaxed));
    add_str(&l, " ");
    add_str(&l, atomic_load_explicit(&s->from, memory_order_relaxed));
    add_str(&l, " -> ");
    add_str(&l, atomic_load_explicit(&s->to, memory_order_relaxed));
    add_str(&l, " : ");
    add_str(&l, atomic_load_explicit(&s->why, memory_order_relaxed));
    l.text[l.n++] = '\n';
    n = write(fd, l.text, l.n);
    (void)n; /* a dump that cannot be written is lost */
}

void ring_dump(int fd)
{
    uint64_t end = atomic_load_explicit(&next_slot, memory_order_relaxed);
    uint64_t start = end > RING_SLOTS ? end - RING_SLOTS : 0;

    for (uint64_t i = start; i < end; i++) {
        dump_slot(fd, &slots[i % RING_SLOTS]);
    }
}
