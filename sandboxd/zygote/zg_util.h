/* zg_util.h - small helpers of the zygote: error texts, whole writes, one-shot files.
 * Threads: any. Nothing here allocates, so all of it may run between clone and the interpreter's
 * own fork handling. */
#ifndef CFD_SANDBOXD_ZG_UTIL_H
#define CFD_SANDBOXD_ZG_UTIL_H

#include <stdbool.h>
#include <stddef.h>

/* One error for people, filled by the step that failed. */
struct zg_err {
    char text[1024];
};

/* Formats into *e and returns -1; with a non-zero errno value appends ": strerror". */
int zg_fail(struct zg_err *e, int native, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes all of it, through EINTR. 0 or -1 with errno. */
int zg_write_all(int fd, const void *p, size_t n);
/* Reads exactly n bytes. 1 = done, 0 = end of input before the first byte, -1 = error or cut short.
 */
int zg_read_all(int fd, void *p, size_t n);
/* Opens, writes `s` with one write, closes. 0 or -1 with errno. */
int zg_put_at(int dirfd, const char *path, const char *s);
/* Reads at most cap-1 bytes and adds a NUL; number of bytes or -1. */
long zg_slurp(const char *path, char *dst, size_t cap);

#endif
