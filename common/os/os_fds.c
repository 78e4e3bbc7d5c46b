#include "os/os_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int os_fd_cloexec(int fd, bool on, struct err *e)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0 || fcntl(fd, F_SETFD, on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC) < 0) {
        return err_errno(e, errno, "close-on-exec flag");
    }
    return 0;
}

void os_fds_close_from(int first)
{
    long max = 0;

    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) {
        return;
    }
    max = sysconf(_SC_OPEN_MAX); /* kernels before 5.9 */
    for (int fd = first; fd < max; fd++) {
        (void)close(fd);
    }
}

unsigned long os_fds_raise_limit(void)
{
    struct rlimit r = {0};

    if (getrlimit(RLIMIT_NOFILE, &r) != 0) {
        return 0;
    }
    if (r.rlim_cur < r.rlim_max) {
        rlim_t old = r.rlim_cur;

        r.rlim_cur = r.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &r) != 0) {
            return old;
        }
    }
    return r.rlim_cur;
}
