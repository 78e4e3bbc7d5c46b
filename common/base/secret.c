#include "base/secret.h"

#include <sodium.h>

#include "base/mem.h"

/* sodium_malloc gives guard pages, mlock when the limit allows it, MADV_DONTDUMP, and wipes on
 * free. */
struct secret {
    char *p; /* owned */
    size_t n;
};

struct secret *secret_new(struct str_view value)
{
    struct secret *s;

    if (sodium_init() < 0 || (s = mem_zalloc(sizeof(*s))) == NULL) {
        return NULL;
    }
    /* one more byte: a NUL for libraries that want C strings, and never an empty allocation */
    s->p = value.n < SIZE_MAX ? sodium_malloc(value.n + 1) : NULL;
    if (s->p == NULL) {
        mem_free(s);
        return NULL;
    }
    if (value.n > 0) {
        memcpy(s->p, value.p, value.n);
    }
    s->p[value.n] = '\0';
    s->n = value.n;
    return s;
}

void secret_free(struct secret *s)
{
    if (s != NULL) {
        sodium_free(s->p);
        mem_free(s);
    }
}

struct str_view secret_view(const struct secret *s)
{
    return (struct str_view){s->p, s->n};
}
