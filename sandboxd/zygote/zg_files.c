#include "zg_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sb_zygote_proto.h"
#include "zg_out.h"
#include "zg_util.h"

#define TOP         "/mnt/data"
#define DEPTH_MAX   8
#define SEEN_MAX    2048U
#define EMPTY_BYTES 40 /* what tmpfs calls the size of a directory without entries */

/* ---- one operation ------------------------------------------------------------------------ */

static int beneath(int top, const char *path, int flags, unsigned mode)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = mode,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
}

/* Opens the directory that `path` ends in and points *ret_name at the last part; makes what is
 * missing when told to. `path` is changed for a while. */
static int parent_open(int top, char *path, bool is_making, const char **ret_name)
{
    char *slash = strrchr(path, '/');
    int fd = 0;

    *ret_name = slash != NULL ? slash + 1 : path;
    if (**ret_name == '\0' || strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    if (slash == NULL) {
        return beneath(top, ".", O_PATH | O_DIRECTORY, 0);
    }
    for (char *p = strchr(path, '/'); is_making && p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        fd = beneath(top, path, O_PATH | O_DIRECTORY, 0);
        if (fd >= 0) {
            (void)close(fd);
        } else if (errno == ENOENT) {
            const char *name;
            int up = parent_open(top, path, false, &name);

            if (up < 0 || mkdirat(up, name, 0755) != 0) {
                *p = '/';
                return -1;
            }
            (void)close(up);
        }
        *p = '/';
    }
    *slash = '\0';
    fd = beneath(top, path, O_PATH | O_DIRECTORY, 0);
    *slash = '/';
    return fd;
}

static int put(int top, char *path, const void *data, size_t n)
{
    static unsigned counter;
    const char *name;
    char temporary[32];
    int dir = parent_open(top, path, true, &name);

    if (dir < 0) {
        return -1;
    }
    (void)snprintf(temporary, sizeof(temporary), ".put-%u", ++counter);
    (void)unlinkat(dir, temporary, 0);
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int rc = fd >= 0 ? zg_write_all(fd, data, n) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (rc == 0) {
        rc = renameat(dir, temporary, dir, name);
    }
    int native = errno;

    if (rc != 0) {
        (void)unlinkat(dir, temporary, 0);
    }
    (void)close(dir);
    errno = native;
    return rc;
}

static int take_away(int top, char *path)
{
    const char *name;
    int dir = parent_open(top, path, false, &name);

    if (dir < 0) {
        return -1;
    }
    int rc = unlinkat(dir, name, 0);

    if (rc != 0 && errno == EISDIR) {
        rc = unlinkat(dir, name, AT_REMOVEDIR);
    }
    int native = errno;

    (void)close(dir);
    errno = native;
    return rc;
}

/* The answer being built; the first four bytes are the error. */
static struct {
    uint8_t *p;
    size_t n;
    size_t cap;
} answer;

static int answer_room(size_t n)
{
    if (answer.cap - answer.n >= n) {
        return 0;
    }
    size_t cap = (answer.n + n) * 2;
    uint8_t *p = realloc(answer.p, cap);

    if (p == NULL) {
        errno = ENOMEM;
        return -1;
    }
    answer.p = p;
    answer.cap = cap;
    return 0;
}

static char kind_of(mode_t mode)
{
    return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : 'o';
}

static int entry_add(const struct stat *st, const char *name)
{
    struct zyp_entry e = {.kind = kind_of(st->st_mode),
                          .size = (uint64_t)st->st_size,
                          .mtime_ms = (uint64_t)st->st_mtim.tv_sec * 1000 +
                                      (uint64_t)st->st_mtim.tv_nsec / 1000000,
                          .name = name,
                          .name_len = strlen(name)};

    if (answer.n + ZYP_ENTRY_HEAD + e.name_len > ZYP_LIST_MAX) {
        errno = E2BIG;
        return -1;
    }
    if (answer_room(ZYP_ENTRY_HEAD + e.name_len) != 0) {
        return -1;
    }
    answer.n += zyp_entry_encode(answer.p + answer.n, &e);
    return 0;
}

static int get(int top, const char *path)
{
    struct stat st;
    int fd = beneath(top, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    int rc = -1;

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    } else if (st.st_size > (off_t)ZYP_FILE_MAX) {
        errno = EFBIG;
    } else if (answer_room((size_t)st.st_size) == 0) {
        size_t want = (size_t)st.st_size;
        ssize_t got = 1;

        for (size_t at = 0; at < want && got > 0; at += (size_t)got, answer.n += (size_t)got) {
            got = read(fd, answer.p + answer.n, want - at);
            got = got < 0 ? 0 : got;
        }
        rc = 0;
    }
    int native = errno;

    (void)close(fd);
    errno = native;
    return rc;
}

static int list(int top, const char *path)
{
    int fd = beneath(top, *path == '\0' ? "." : path, O_RDONLY | O_DIRECTORY, 0);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *ent;
    struct stat st;
    unsigned n = 0;
    int rc = d != NULL ? 0 : -1;

    while (rc == 0 && (ent = readdir(d)) != NULL) {
        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0 ||
            fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (++n > ZYP_ENTRIES_MAX) {
            errno = E2BIG;
            rc = -1;
        } else {
            rc = entry_add(&st, ent->d_name);
        }
    }
    int native = errno;

    if (d != NULL) {
        (void)closedir(d);
    }
    errno = native;
    return rc;
}

static int describe(int top, const char *path)
{
    struct stat st;
    int fd = beneath(top, path, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0) {
        return -1;
    }
    int rc = fstat(fd, &st);

    (void)close(fd);
    return rc == 0 ? entry_add(&st, path) : -1;
}

static int request_do(int top, const struct zyp_file *f, char *path)
{
    switch (f->op) {
    case ZYP_FILE_PUT:
        return put(top, path, f->data, f->data_len);
    case ZYP_FILE_GET:
        return get(top, path);
    case ZYP_FILE_LIST:
        return list(top, path);
    case ZYP_FILE_STAT:
        return describe(top, path);
    case ZYP_FILE_DELETE:
        return take_away(top, path);
    }
    errno = EINVAL;
    return -1;
}

void zg_files_do(const void *request, size_t n)
{
    static char path[ZYP_PATH_MAX + 1];
    struct zyp_file f;
    int rc = -1;
    int top = open(TOP, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (answer_room(64) != 0) {
        _exit(1);
    }
    answer.n = 4;
    errno = EINVAL;
    if (top >= 0 && zyp_file_decode(&f, request, n) == 0) {
        memcpy(path, f.path, f.path_len);
        path[f.path_len] = '\0';
        rc = request_do(top, &f, path);
    }
    uint32_t native = rc == 0 ? 0 : (uint32_t)errno;

    if (top >= 0) {
        (void)close(top);
    }
    for (unsigned i = 0; i < 4; i++) {
        answer.p[i] = (uint8_t)(native >> (8 * i));
    }
    zg_out_send(ZYP_FRAME_FILE_REPLY, answer.p, rc == 0 ? answer.n : 4);
    free(answer.p);
    memset(&answer, 0, sizeof(answer));
    zg_files_changed(1);
}

/* ---- what a run changed ------------------------------------------------------------------- */

/* A file as it was last seen, by a hash of its path: enough to tell that it is another one now. */
struct seen {
    uint64_t path;
    uint64_t state;
};

static struct seen *seen; /* none until the first file comes to be; sorted by nothing, SEEN_MAX */
static unsigned seen_count;

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ b[i]) * 1099511628211ULL;
    }
    return h;
}

/* Whether it is new or different; remembers it. */
static bool is_news(const char *path, const struct stat *st)
{
    uint64_t key = mix(14695981039346656037ULL, path, strlen(path));
    uint64_t state = mix(14695981039346656037ULL, &st->st_mtim, sizeof(st->st_mtim));

    state = mix(mix(state, &st->st_ino, sizeof(st->st_ino)), &st->st_size, sizeof(st->st_size));
    for (unsigned i = 0; i < seen_count; i++) {
        if (seen[i].path == key) {
            bool is_other = seen[i].state != state;

            seen[i].state = state;
            return is_other;
        }
    }
    if (seen == NULL) {
        seen = calloc(SEEN_MAX, sizeof(*seen));
    }
    if (seen == NULL || seen_count == SEEN_MAX) {
        return false; /* beyond the bound changes go unreported */
    }
    seen[seen_count++] = (struct seen){key, state};
    return true;
}

static void look(int dir, char *path, size_t at, unsigned depth, unsigned *budget)
{
    DIR *d = fdopendir(dir);
    struct dirent *ent;
    struct stat st;

    if (d == NULL) {
        (void)close(dir);
        return;
    }
    while (*budget > 0 && (ent = readdir(d)) != NULL) {
        size_t n = strlen(ent->d_name);

        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0 ||
            at + n + 1 > ZYP_PATH_MAX ||
            fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        (*budget)--;
        memcpy(path + at, ent->d_name, n + 1);
        if (S_ISREG(st.st_mode) && is_news(path, &st)) {
            (void)entry_add(&st, path);
        } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            int sub =
                openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            path[at + n] = '/';
            if (sub >= 0) {
                look(sub, path, at + n + 1, depth + 1, budget);
            }
        }
    }
    (void)closedir(d);
}

void zg_files_changed(int is_silent)
{
    static char path[ZYP_PATH_MAX + 1];
    struct stat st;
    unsigned budget = SEEN_MAX;
    int top = open(TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    /* nothing there and nothing was: two calls are all that a run without files pays */
    if (top < 0 || fstat(top, &st) != 0 || (st.st_size <= EMPTY_BYTES && seen_count == 0)) {
        if (top >= 0) {
            (void)close(top);
        }
        return;
    }
    answer.n = 0;
    look(top, path, 0, 0, &budget);
    if (answer.n > 0 && is_silent == 0) {
        (void)zg_out_emit(ZYP_FRAME_CHANGED, answer.p, answer.n);
    }
    free(answer.p);
    memset(&answer, 0, sizeof(answer));
}
