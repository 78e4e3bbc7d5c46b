#include "zg_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int zg_fail(struct zg_err *e, int native, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    if (native != 0 && n >= 0 && (size_t)n < sizeof(e->text)) {
        (void)snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %s", strerror(native));
    }
    return -1;
}

int zg_write_all(int fd, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t w = write(fd, at, n);

        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w < 0) {
            return -1;
        }
        at += w;
        n -= (size_t)w;
    }
    return 0;
}

int zg_read_all(int fd, void *p, size_t n)
{
    char *at = p;
    size_t done = 0;

    while (done < n) {
        ssize_t r = read(fd, at + done, n - done);

        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            return -1;
        }
        if (r == 0) {
            return done == 0 ? 0 : -1;
        }
        done += (size_t)r;
    }
    return 1;
}

int zg_put_at(int dirfd, const char *path, const char *s)
{
    int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    ssize_t w = write(fd, s, strlen(s));
    int native = errno;

    (void)close(fd);
    errno = native;
    return w == (ssize_t)strlen(s) ? 0 : -1;
}

long zg_slurp(const char *path, char *dst, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;

    if (fd < 0) {
        return -1;
    }
    while (n + 1 < cap) {
        ssize_t r = read(fd, dst + n, cap - 1 - n);

        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r <= 0) {
            break;
        }
        n += (size_t)r;
    }
    (void)close(fd);
    dst[n] = '\0';
    return (long)n;
}
