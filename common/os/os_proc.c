#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/os_fds.h"
#include "os/os_priv.h"

int os_exe_dir(char *dst, size_t cap, struct err *e)
{
    char path[OS_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n <= 0) {
        return err_errno(e, errno, "/proc/self/exe");
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');

    if (slash == NULL || (size_t)(slash - path) >= cap) {
        return err_set(e, ERR_HOST, "cannot find the directory of %s", path);
    }
    (void)sv_copy(dst, cap, sv_from(path, (size_t)(slash - path)));
    return 0;
}

/* --- in the child, between fork and exec: async-signal-safe calls only
 * ----------------------------------------- */

static void put_number(char *dst, long v)
{
    char digits[24];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    while (n > 0) {
        *dst++ = digits[--n];
    }
    *dst = '\0';
}

static void signals_reset(void)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++) {
        (void)sigaction(s, &dfl, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the descriptors to 3, 4, ... by way of numbers above all of them. */
static bool fds_place(const struct os_spawn *s)
{
    int high[OS_SPAWN_FDS_MAX];
    int null_fd = open("/dev/null", O_RDWR);

    if (null_fd < 0 || dup2(null_fd, 0) < 0 ||
        dup2(s->stdout_fd >= 0 ? s->stdout_fd : null_fd, 1) < 0) {
        return false;
    }
    for (unsigned i = 0; i < s->fd_count; i++) {
        if ((high[i] = fcntl(s->fds[i], F_DUPFD, 3 + OS_SPAWN_FDS_MAX)) < 0) {
            return false;
        }
    }
    for (unsigned i = 0; i < s->fd_count; i++) {
        if (dup2(high[i], 3 + (int)i) < 0) {
            return false;
        }
    }
    os_fds_close_from(3 + (int)s->fd_count);
    return true;
}

static _Noreturn void child_run(const struct os_spawn *s, char *pid_slot, pid_t parent)
{
    static const char failed[] = "cofferdam: cannot start a child process\n";

    signals_reset();
    if (pid_slot != NULL) {
        put_number(pid_slot, getpid());
    }
    if (!s->is_bound || (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent)) {
        if (fds_place(s) && (!s->drop_caps || os_priv_drop_caps(NULL) == 0)) {
            (void)execve(s->path, s->argv, s->envp);
        }
    }
    (void)!write(2, failed, sizeof(failed) - 1);
    _exit(127);
}

/* --- in the parent
 * -----------------------------------------------------------------------------------------------
 */

int os_spawn(const struct os_spawn *s, pid_t *ret, struct err *e)
{
    char **env = NULL;
    char *pid_text = NULL;
    char *pid_slot = NULL;
    size_t n = 0;
    int rc = ERR_INTERNAL;

    REQUIRE(s->fd_count <= OS_SPAWN_FDS_MAX);
    while (s->envp[n] != NULL) {
        n++;
    }
    if ((env = mem_calloc(n + 2, sizeof(*env))) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    memcpy(env, s->envp, n * sizeof(*env));
    if (s->pid_variable != NULL) {
        size_t len = strlen(s->pid_variable);

        if ((pid_text = mem_zalloc(len + 32)) == NULL) {
            rc = err_set(e, ERR_NOMEM, NULL);
            goto out;
        }
        (void)snprintf(pid_text, len + 32, "%s=", s->pid_variable);
        pid_slot = pid_text + len + 1;
        env[n] = pid_text;
    }
    struct os_spawn child = *s;
    pid_t parent = getpid();

    child.envp = env;
    pid_t pid = fork();

    if (pid == 0) {
        child_run(&child, pid_slot, parent);
    }
    if (pid < 0) {
        rc = err_errno(e, errno, "fork");
        goto out;
    }
    *ret = pid;
    rc = 0;
out:
    mem_free(pid_text);
    mem_free(env);
    return rc;
}
