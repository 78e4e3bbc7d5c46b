#include "base/mem.h"

#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_in = -1; /* allocations until the one that fails; negative = none will */
static atomic_bool has_fired;
static atomic_long live;

static bool must_fail(void)
{
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) < 0) {
        return false;
    }
    if (atomic_fetch_sub_explicit(&fail_in, 1, memory_order_relaxed) != 0) {
        return false;
    }
    atomic_store_explicit(&has_fired, true, memory_order_relaxed);
    return true;
}

static void *counted(void *p)
{
    if (p != NULL) {
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    }
    return p;
}

void *mem_alloc(size_t n)
{
    return must_fail() ? NULL : counted(malloc(n > 0 ? n : 1));
}

void *mem_zalloc(size_t n)
{
    return mem_calloc(1, n);
}

void *mem_calloc(size_t k, size_t n)
{
    if (k == 0 || n == 0) {
        k = n = 1;
    }
    return must_fail() || k > SIZE_MAX / n ? NULL : counted(calloc(k, n));
}

void *mem_realloc(void *p, size_t n)
{
    if (p == NULL) {
        return mem_alloc(n);
    }
    return must_fail() ? NULL : realloc(p, n > 0 ? n : 1);
}

void mem_free(void *p)
{
    if (p != NULL) {
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        free(p);
    }
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? mem_alloc(n + 1) : NULL;

    if (p != NULL) {
        if (n > 0) {
            memcpy(p, s, n);
        }
        p[n] = '\0';
    }
    return p;
}

void mem_wipe(void *p, size_t n)
{
    if (n > 0) {
        sodium_memzero(p, n);
    }
}

int mem_fail_nth(long n)
{
    bool fired = atomic_exchange(&has_fired, false);

    atomic_store(&fail_in, n < 0 ? -1 : n);
    return fired ? 1 : 0;
}

unsigned long mem_live(void)
{
    long n = atomic_load_explicit(&live, memory_order_relaxed);

    return n > 0 ? (unsigned long)n : 0;
}
