/* The directory and lock file part of os_proc.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os_proc.h"

int os_dir_make(const char *path, struct err *e)
{
    char part[OS_PATH_MAX];
    struct stat st;

    if (path[0] != '/' || strlen(path) >= sizeof(part)) {
        return err_set(e, ERR_HOST, "%.200s: not an absolute path", path);
    }
    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p == '/' || *p == '\0') {
            char at = *p;

            *p = '\0';
            if (mkdir(part, 0700) != 0 && errno != EEXIST) {
                return err_set(e, ERR_HOST, "%.200s: cannot make the directory: %s", part,
                               strerror(errno));
            }
            *p = at;
        }
        if (*p == '\0') {
            break;
        }
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_HOST, "%.200s: not a directory", path);
    }
    if (access(path, W_OK | X_OK) != 0) {
        return err_set(e, ERR_HOST, "%.200s: not writable for this user", path);
    }
    if (st.st_uid != geteuid()) {
        return err_set(e, ERR_HOST, "%.200s: belongs to another user", path);
    }
    if ((st.st_mode & 022) != 0) {
        return err_set(e, ERR_HOST,
                       "%.200s: other users may write to it; choose a directory of its own", path);
    }
    return 0;
}

int os_file_replace(const char *dir, const char *name, const void *p, size_t n, struct err *e)
{
    char tmp[OS_PATH_MAX];
    char path[OS_PATH_MAX];
    const char *at = p;
    int rc = ERR_INTERNAL;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (snprintf(tmp, sizeof(tmp), "%s/.%s.new", dir, name) >= (int)sizeof(tmp)) {
        return err_set(e, ERR_HOST, "%.200s: path too long", dir);
    }
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        return err_set(e, ERR_HOST, "%.200s: cannot write: %s", tmp, strerror(errno));
    }
    while (n > 0) {
        ssize_t k = write(fd, at, n);

        if (k < 0 && errno != EINTR) {
            rc = err_set(e, ERR_HOST, "%.200s: cannot write: %s", tmp, strerror(errno));
            goto fail;
        }
        at += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    if (rename(tmp, path) != 0) {
        rc = err_set(e, ERR_HOST, "%.200s: cannot replace: %s", path, strerror(errno));
        goto fail;
    }
    (void)close(fd);
    return 0;
fail:
    (void)close(fd);
    (void)unlink(tmp);
    return rc;
}

/* The file may have been removed by a holder that ended between open and lock. */
static bool is_same_file(int fd, const char *path)
{
    struct stat a;
    struct stat b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int lock_open(int *ret_fd, const char *path, struct err *e)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0) {
            return err_set(e, ERR_HOST, "%.200s: cannot open: %s", path, strerror(errno));
        }
        if (fcntl(fd, F_SETLK, &lock) != 0) {
            int saved = errno;

            (void)close(fd);
            return saved == EAGAIN || saved == EACCES
                       ? err_set(e, ERR_CONFLICT, "%.200s: held by another process", path)
                       : err_set(e, ERR_HOST, "%.200s: cannot lock: %s", path, strerror(saved));
        }
        if (is_same_file(fd, path)) {
            *ret_fd = fd;
            return 0;
        }
        (void)close(fd);
    }
}

int os_lock_take(int *ret_fd, const char *path, struct err *e)
{
    char text[32];
    int fd = -1;
    int rc = lock_open(&fd, path, e);

    if (rc != 0) {
        return rc;
    }
    int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        rc = err_set(e, ERR_HOST, "%.200s: cannot write: %s", path, strerror(errno));
        (void)close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

void os_lock_release(int fd, const char *path)
{
    (void)unlink(path);
    (void)close(fd);
}

int os_lock_holder(pid_t *ret, const char *path, struct err *e)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return err_set(e, ERR_NOT_FOUND, "%.200s: %s", path, strerror(errno));
    }
    bool is_free =
        fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK; /* asks, takes nothing */
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    (void)close(fd);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;

    if (is_free || pid <= 1) {
        return err_set(e, ERR_NOT_FOUND, "%.200s: nobody holds it", path);
    }
    *ret = (pid_t)pid;
    return 0;
}
