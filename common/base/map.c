#include "base/map.h"

#include <pthread.h>
#include <sodium.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

#define SLOTS_MIN 16

struct node {
    uint64_t hash;
    size_t index; /* in `dense` */
    void *value;  /* borrowed */
    size_t key_n;
    char key[];
};

/* Open addressing with linear probing over `slots`, at most three quarters full; `dense` holds the
 * same nodes without holes, for iteration: backwards, so that a removal (the last one fills the
 * hole) disturbs only what was visited. */
struct map {
    struct node **slots; /* owned, slots_n a power of two or 0 */
    struct node **dense; /* owned, room for three quarters of slots_n */
    size_t slots_n;
    size_t count;
    size_t max;
};

static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

static void make_hash_key(void)
{
    int rc = sodium_init();

    INVARIANT(rc >= 0);
    randombytes_buf(hash_key, sizeof(hash_key));
}

static uint64_t hash_of(struct str_view key)
{
    union {
        unsigned char b[crypto_shorthash_BYTES];
        uint64_t u;
    } out;

    (void)crypto_shorthash(out.b, (const unsigned char *)(key.n > 0 ? key.p : ""), key.n, hash_key);
    return out.u;
}

struct map *map_new(size_t max)
{
    struct map *m = mem_zalloc(sizeof(*m));

    (void)pthread_once(&hash_key_once, make_hash_key);
    if (m != NULL) {
        m->max = max;
    }
    return m;
}

void map_free(struct map *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        mem_free(m->dense[i]);
    }
    mem_free(m->slots);
    mem_free(m->dense);
    mem_free(m);
}

size_t map_count(const struct map *m)
{
    return m->count;
}

/* The slot that holds `key`, or the free one where it would go. Needs slots. */
static size_t find_slot(const struct map *m, struct str_view key, uint64_t hash)
{
    size_t mask = m->slots_n - 1;
    size_t i = (size_t)hash & mask;
    const struct node *n;

    while ((n = m->slots[i]) != NULL) {
        if (n->hash == hash && n->key_n == key.n &&
            (key.n == 0 || memcmp(n->key, key.p, key.n) == 0)) {
            break;
        }
        i = (i + 1) & mask;
    }
    return i;
}

void *map_get(const struct map *m, struct str_view key)
{
    const struct node *n;

    if (m->count == 0) {
        return NULL;
    }
    n = m->slots[find_slot(m, key, hash_of(key))];
    return n != NULL ? n->value : NULL;
}

static int grow(struct map *m)
{
    size_t slots_n = m->slots_n > 0 ? 2 * m->slots_n : SLOTS_MIN;
    struct node **slots = mem_calloc(slots_n, sizeof(struct node *));
    struct node **dense;

    if (slots == NULL) {
        return ERR_NOMEM;
    }
    if ((dense = mem_realloc(m->dense, slots_n / 4 * 3 * sizeof(struct node *))) == NULL) {
        mem_free(slots);
        return ERR_NOMEM;
    }
    mem_free(m->slots);
    m->slots = slots;
    m->dense = dense;
    m->slots_n = slots_n;
    for (size_t i = 0; i < m->count; i++) {
        size_t at = (size_t)dense[i]->hash & (slots_n - 1);

        while (slots[at] != NULL) {
            at = (at + 1) & (slots_n - 1);
        }
        slots[at] = dense[i];
    }
    return 0;
}

int map_put(struct map *m, struct str_view key, void *value)
{
    uint64_t hash = hash_of(key);
    struct node *n;
    size_t at = 0;
    int rc;

    REQUIRE(value != NULL);
    if (m->slots_n > 0) {
        at = find_slot(m, key, hash);
        if (m->slots[at] != NULL) {
            m->slots[at]->value = value;
            return 0;
        }
    }
    if (m->count >= m->max) {
        return ERR_LIMIT;
    }
    if (key.n > SIZE_MAX - sizeof(*n) || (n = mem_alloc(sizeof(*n) + key.n)) == NULL) {
        return ERR_NOMEM;
    }
    if (m->count >= m->slots_n / 4 * 3) {
        if ((rc = grow(m)) != 0) {
            mem_free(n);
            return rc;
        }
        at = find_slot(m, key, hash);
    }
    n->hash = hash;
    n->index = m->count;
    n->value = value;
    n->key_n = key.n;
    if (key.n > 0) {
        memcpy(n->key, key.p, key.n);
    }
    m->slots[at] = n;
    m->dense[m->count++] = n;
    return 0;
}

/* Empties slot `hole` and moves back what would no longer be found past it. */
static void close_hole(struct map *m, size_t hole)
{
    size_t mask = m->slots_n - 1;
    size_t i = hole;

    for (;;) {
        size_t home;

        m->slots[hole] = NULL;
        do {
            i = (i + 1) & mask;
            if (m->slots[i] == NULL) {
                return;
            }
            home = (size_t)m->slots[i]->hash & mask;
        } while (((i - home) & mask) <
                 ((i - hole) & mask)); /* its home lies after the hole: it may stay */
        m->slots[hole] = m->slots[i];
        hole = i;
    }
}

void *map_take(struct map *m, struct str_view key)
{
    size_t at;
    struct node *n;
    struct node *last;
    void *value;

    if (m->count == 0) {
        return NULL;
    }
    at = find_slot(m, key, hash_of(key));
    if ((n = m->slots[at]) == NULL) {
        return NULL;
    }
    close_hole(m, at);
    last = m->dense[--m->count];
    m->dense[n->index] = last;
    last->index = n->index;
    value = n->value;
    mem_free(n);
    return value;
}

bool map_next(const struct map *m, size_t *it, struct str_view *ret_key, void **ret_value)
{
    /* *it is 1 + the index returned last, 0 at the start */
    size_t i = *it == 0 ? m->count : *it - 1;

    if (i > m->count) {
        i = m->count;
    }
    if (i == 0) {
        *it = 1;
        return false;
    }
    i--;
    *it = i + 1;
    if (ret_key != NULL) {
        *ret_key = (struct str_view){m->dense[i]->key, m->dense[i]->key_n};
    }
    if (ret_value != NULL) {
        *ret_value = m->dense[i]->value;
    }
    return true;
}
