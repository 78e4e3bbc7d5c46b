/* fuzz_map.c - the map against a naive model: each input byte is an operation on one of 64 keys. */
#include "base/check.h"
#include "base/err.h"
#include "base/map.h"

#define KEYS 64
#define MAX  40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char keys[KEYS][8];
static char values[2];

static struct str_view key(unsigned i)
{
    keys[i][0] = (char)('A' + i);
    return sv_from(keys[i], i % sizeof(keys[i]) + 1);
}

static void put(struct map *m, void **model, size_t *count, unsigned i)
{
    void *v = &values[i & 1];
    int rc = map_put(m, key(i), v);

    if (model[i] == NULL && *count == MAX) {
        REQUIRE(rc == ERR_LIMIT);
        return;
    }
    REQUIRE(rc == 0);
    *count += model[i] == NULL ? 1 : 0;
    model[i] = v;
}

static void take(struct map *m, void **model, size_t *count, unsigned i)
{
    REQUIRE(map_take(m, key(i)) == model[i]);
    *count -= model[i] != NULL ? 1 : 0;
    model[i] = NULL;
}

/* Visits everything once; removes keys that share a bit with `mask`. */
static void sweep(struct map *m, void **model, size_t *count, unsigned mask)
{
    bool seen[KEYS] = {false};
    struct str_view k;
    void *v;
    size_t it = 0;
    size_t visited = 0;
    size_t expected = *count;

    while (map_next(m, &it, &k, &v)) {
        unsigned i = (unsigned)(k.p[0] - 'A') % KEYS;

        REQUIRE(!seen[i] && model[i] == v && sv_eq(k, key(i)));
        seen[i] = true;
        visited++;
        if ((i & mask) != 0) {
            take(m, model, count, i);
        }
    }
    REQUIRE(visited == expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct map *m = map_new(MAX);
    void *model[KEYS] = {NULL};
    size_t count = 0;

    REQUIRE(m != NULL);
    for (size_t at = 0; at < size; at++) {
        unsigned i = data[at] % KEYS;

        switch (data[at] / KEYS) {
        case 0:
        case 1:
            put(m, model, &count, i);
            break;
        case 2:
            take(m, model, &count, i);
            break;
        default:
            sweep(m, model, &count, i);
            break;
        }
        REQUIRE(map_count(m) == count);
        REQUIRE(map_get(m, key(i)) == model[i]);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        REQUIRE(map_get(m, key(i)) == model[i]);
    }
    map_free(m);
    return 0;
}
