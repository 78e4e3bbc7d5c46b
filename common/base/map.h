/* map.h - byte-string keys to borrowed pointers; keyed SipHash, so hostile keys cannot collide on
 * purpose. Keys are copied. Not thread-safe. Cap: `max` entries, ERR_LIMIT beyond. */
#ifndef CFD_BASE_MAP_H
#define CFD_BASE_MAP_H

#include <stddef.h>

#include "base/str.h"

struct map;

struct map *map_new(size_t max); /* NULL on out of memory */
void map_free(struct map *m);    /* accepts NULL; values are not touched */
size_t map_count(const struct map *m);
void *map_get(const struct map *m, struct str_view key); /* NULL = absent */
/* Adds or replaces. `value` not NULL. 0, ERR_NOMEM or ERR_LIMIT. */
int map_put(struct map *m, struct str_view key, void *value);
void *map_take(struct map *m, struct str_view key); /* removes and returns, NULL = absent */

/* Iteration: start with *it = 0; returns false at the end. Removing the entry just returned is
 * allowed; adding during iteration is not. */
bool map_next(const struct map *m, size_t *it, struct str_view *ret_key, void **ret_value);

#endif
