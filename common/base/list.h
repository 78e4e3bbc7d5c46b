/* list.h - intrusive doubly linked list. Not thread-safe. A zeroed link is "not in a list". */
#ifndef CFD_BASE_LIST_H
#define CFD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct list_link {
    struct list_link *prev;
    struct list_link *next;
};

struct list {
    struct list_link head; /* head.next = first, head.prev = last */
    size_t count;
};

static inline void list_init(struct list *l)
{
    l->head.prev = l->head.next = &l->head;
    l->count = 0;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->count == 0;
}

static inline bool list_link_is_in(const struct list_link *k)
{
    return k->next != NULL;
}

static inline void list_insert_before(struct list *l, struct list_link *at, struct list_link *k)
{
    k->prev = at->prev;
    k->next = at;
    at->prev->next = k;
    at->prev = k;
    l->count++;
}

static inline void list_push_back(struct list *l, struct list_link *k)
{
    list_insert_before(l, &l->head, k);
}

static inline void list_push_front(struct list *l, struct list_link *k)
{
    list_insert_before(l, l->head.next, k);
}

/* A link that is in a list has both neighbours; gcc cannot know. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnull-dereference"
static inline void list_remove(struct list *l, struct list_link *k)
{
    k->prev->next = k->next;
    k->next->prev = k->prev;
    k->prev = k->next = NULL;
    l->count--;
}
#pragma GCC diagnostic pop

static inline struct list_link *list_first(const struct list *l)
{
    return l->count > 0 ? l->head.next : NULL;
}

static inline struct list_link *list_last(const struct list *l)
{
    return l->count > 0 ? l->head.prev : NULL;
}

/* `k` is the loop's own pointer, `tmp` holds the next one so that the body may remove `k`. */
#define LIST_FOREACH_SAFE(k, tmp, l)                                                               \
    for (struct list_link *k = (l)->head.next, *tmp = k->next; k != &(l)->head;                    \
         k = tmp, tmp = k->next)

#endif
