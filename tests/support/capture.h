/* capture.h - what tests need to look at a process from outside: stderr as text, and death by
 * assertion. Single-threaded tests only. */
#ifndef CFD_TESTS_SUPPORT_CAPTURE_H
#define CFD_TESTS_SUPPORT_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct capture {
    int fd;
    int saved;
};

/* From here on fd 2 goes to memory. */
static inline void capture_start(struct capture *c)
{
    fflush(stderr);
    c->fd = memfd_create("stderr", MFD_CLOEXEC);
    c->saved = dup(STDERR_FILENO);
    if (c->fd < 0 || c->saved < 0 || dup2(c->fd, STDERR_FILENO) < 0) {
        abort();
    }
}

/* Gives fd 2 back and returns what was written: a NUL-terminated string for free(). */
static inline char *capture_end(struct capture *c)
{
    off_t n = lseek(c->fd, 0, SEEK_END);
    char *text = n >= 0 ? calloc(1, (size_t)n + 1) : NULL;

    if (text == NULL || pread(c->fd, text, (size_t)n, 0) != n ||
        dup2(c->saved, STDERR_FILENO) < 0) {
        abort();
    }
    close(c->fd);
    close(c->saved);
    return text;
}

/* Runs fn(arg) in a child. True when it died of SIGABRT; *ret_text = its stderr, for free(). */
static inline bool capture_abort(void (*fn)(void *arg), void *arg, char **ret_text)
{
    struct capture c;
    int status = 0;
    pid_t pid;

    capture_start(&c);
    pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        fn(arg);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        abort();
    }
    *ret_text = capture_end(&c);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
