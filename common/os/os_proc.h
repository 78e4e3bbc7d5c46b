/* os_proc.h - starting other programs, and the files that say which process is in charge of a
 * directory.
 *
 * Threads: the main thread only (the death signal of a child follows the thread that made it). */
#ifndef CFD_OS_PROC_H
#define CFD_OS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define OS_PATH_MAX      4096
#define OS_SPAWN_FDS_MAX 8

/* Directory of the running program, symbolic links resolved, without a trailing slash. */
int os_exe_dir(char *dst, size_t cap, struct err *e);

struct os_spawn {
    const char *path;
    char *const *argv;        /* NULL-terminated */
    char *const *envp;        /* NULL-terminated; the whole environment of the child */
    const int *fds;           /* become 3, 4, ... in the child; all others but 0-2 are closed */
    unsigned fd_count;        /* at most OS_SPAWN_FDS_MAX */
    const char *pid_variable; /* environment variable set to the child's process id, e.g.
                                 LISTEN_PID; may be NULL */
    bool is_bound;            /* the child is killed when this thread ends */
    bool drop_caps;           /* os_priv_drop_caps in the child */
    int stdout_fd; /* becomes the child's stdout; -1 = /dev/null; stdin is always /dev/null */
};

/* fork and exec. The child starts with default signals and an empty mask; when it cannot exec, it
 * ends with 127. */
int os_spawn(const struct os_spawn *s, pid_t *ret, struct err *e);

/* Makes `path` and its missing parents, 0700. One that is there already must be ours, and ours
 * alone to write. */
int os_dir_make(const char *path, struct err *e);
/* Replaces the file `dir`/`name` in one step; 0600. */
int os_file_replace(const char *dir, const char *name, const void *p, size_t n, struct err *e);
/* Takes the lock file, whose text becomes our process id. ERR_CONFLICT when another process holds
 * it. The lock lasts until this process closes any descriptor of the file; forked children do not
 * have it. */
int os_lock_take(int *ret_fd, const char *path, struct err *e);
/* Removes the file and gives the lock up. */
void os_lock_release(int fd, const char *path);
/* Process id of the holder; ERR_NOT_FOUND when nobody holds the lock. */
int os_lock_holder(pid_t *ret, const char *path, struct err *e);

#endif
