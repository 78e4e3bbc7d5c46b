#include "zg_mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older libc headers lack it */
#endif

#define HUGE_BYTES   (2UL << 20)
#define REGION_BYTES (64UL << 20)

static struct {
    char *at; /* next arena in the current region */
    char *end;
    char *low; /* of all regions: a free below or above is not ours */
    char *high;
    bool is_sealed;
} regions;

static bool region_add(void)
{
    char *p = mmap(NULL, REGION_BYTES + HUGE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        return false;
    }
    char *start = p + (HUGE_BYTES - (uintptr_t)p % HUGE_BYTES) % HUGE_BYTES;

    if (start > p) {
        (void)munmap(p, (size_t)(start - p));
    }
    (void)munmap(start + REGION_BYTES, (size_t)(p + HUGE_BYTES - start));
    regions.at = start;
    regions.end = start + REGION_BYTES;
    regions.low = regions.low == NULL || start < regions.low ? start : regions.low;
    regions.high = regions.end > regions.high ? regions.end : regions.high;
    return true;
}

static void *plain_map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

void *zg_mem_arena_alloc(void *ctx, size_t size)
{
    (void)ctx;
    if (regions.is_sealed || size != ZG_ARENA_BYTES ||
        (regions.at == regions.end && !region_add())) {
        return plain_map(size);
    }
    void *p = regions.at;

    regions.at += ZG_ARENA_BYTES;
    return p;
}

void zg_mem_arena_free(void *ctx, void *p, size_t size)
{
    char *at = p;

    (void)ctx;
    if (at >= regions.low && at < regions.high) {
        (void)madvise(p, size, MADV_DONTNEED); /* the address stays ours */
    } else {
        (void)munmap(p, size);
    }
}

void zg_mem_seal(void)
{
    if (regions.at <
        regions.end) { /* children's limit on data is not spent on what nobody will use */
        (void)munmap(regions.at, (size_t)(regions.end - regions.at));
        regions.end = regions.at;
    }
    regions.is_sealed = true;
}

unsigned zg_mem_collapse(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned n = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        unsigned long from = 0;
        unsigned long to = 0;
        unsigned long inode = 0;
        char mode[8];

        if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, mode, &inode) != 4 || inode != 0 ||
            strcmp(mode, "rw-p") != 0 || strstr(line, "[stack]") != NULL) {
            continue;
        }
        from = (from + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
        for (; from + HUGE_BYTES <= to; from += HUGE_BYTES) {
            void *at = (void *)(uintptr_t)from;

            n += madvise(at, HUGE_BYTES, MADV_COLLAPSE) == 0 ? 1 : 0; /* fails on empty pieces */
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return n;
}
