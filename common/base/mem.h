/* mem.h - the allocation seam: counts, a fault hook for tests, and wiping for secrets.
 * Thread-safe. Sizes of 0 return a unique pointer. Multiplications are checked. */
#ifndef CFD_BASE_MEM_H
#define CFD_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t n);  /* NULL on failure */
void *mem_zalloc(size_t n); /* zeroed */
void *mem_calloc(size_t k, size_t n);
void *mem_realloc(void *p, size_t n);
void mem_free(void *p); /* accepts NULL */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* NUL-terminated copy of exactly n bytes */
void mem_wipe(void *p, size_t n);           /* not optimised away */

/* For tests: fail the n-th allocation from now on (0 = the next), once. -1 disables. Returns
 * whether the previous setting had fired. */
int mem_fail_nth(long n);
unsigned long mem_live(void); /* allocations not yet freed */

#endif
