/* zg_mem.h - makes the zygote's memory cheap to fork: interpreter arenas side by side, then 2 MiB
 * pages.
 *
 * A fork copies one page table entry per small page. Most of the zygote's memory is interpreter
 * objects, so their arenas are taken from large aligned regions and, once everything is imported,
 * collapsed into huge pages (where the kernel can: 6.1 and newer; otherwise forks are slower,
 * nothing else). Children share them; a write copies one small page only.
 *
 * Threads: the main thread. Lifetime: regions stay for the life of the process. */
#ifndef CFD_SANDBOXD_ZG_MEM_H
#define CFD_SANDBOXD_ZG_MEM_H

#include <stddef.h>

/* An arena of the interpreter; `size` must be ZG_ARENA_BYTES, others fall back to mmap. */
#define ZG_ARENA_BYTES (1U << 20)
void *zg_mem_arena_alloc(void *ctx, size_t size);
void zg_mem_arena_free(void *ctx, void *p, size_t size);
/* Children take new arenas from the system: a huge page filled for one small object would be waste.
 */
void zg_mem_seal(void);
/* Collapses every whole 2 MiB piece of anonymous writable memory. Returns how many. */
unsigned zg_mem_collapse(void);

#endif
