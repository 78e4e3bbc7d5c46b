#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "os/os_fds.h"
#include "os/os_priv.h"
#include "os/os_proc.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/cfd-test-os-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    return system(cmd);
}

/* Runs a shell script as os_spawn does and returns what it printed. */
static void run(struct os_spawn *s, const char *script, char *out, size_t cap, int *ret_status)
{
    char *const argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                          (char *)(uintptr_t)script, NULL};
    char *const envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", (char *)(uintptr_t) "ONLY=this",
                          NULL};
    int p[2];
    pid_t pid = 0;
    size_t n = 0;
    ssize_t k;
    struct err e = {0};

    assert_int_equal(pipe(p), 0);
    s->path = s->path != NULL ? s->path : "/bin/sh";
    s->argv = argv;
    s->envp = envp;
    s->stdout_fd = p[1];
    assert_int_equal(os_spawn(s, &pid, &e), 0);
    close(p[1]);
    while (n < cap - 1 && (k = read(p[0], out + n, cap - 1 - n)) > 0) {
        n += (size_t)k;
    }
    out[n] = '\0';
    close(p[0]);
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
}

static void test_spawn_environment_and_fds(void **state)
{
    char out[4096];
    char want[32];
    int status = 0;
    int extra = dup(2); /* must not reach the child */
    int p[2];
    int fds[2];
    struct os_spawn s = {.fds = fds, .fd_count = 2, .pid_variable = "LISTEN_PID"};

    (void)state;
    setenv("SECRET", "leak", 1);
    assert_int_equal(pipe(p), 0);
    fds[0] = p[1]; /* 3 */
    fds[1] = p[0]; /* 4 */
    run(&s,
        "echo SECRET=$SECRET ONLY=$ONLY pid=$$ listen=$LISTEN_PID; ls /proc/self/fd | tr '\\n' ' "
        "'; echo hello >&3",
        out, sizeof(out), &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(out, "SECRET= ONLY=this"));
    int pid = 0;
    int listen = 1;
    assert_int_equal(sscanf(strstr(out, "pid="), "pid=%d listen=%d", &pid, &listen), 2);
    assert_int_equal(pid, listen);
    assert_non_null(strstr(out, "0 1 2 3 4 5 ")); /* 5: ls itself */
    assert_null(strstr(out, " 6 "));
    assert_int_equal(read(p[0], want, 6), 6);
    assert_memory_equal(want, "hello\n", 6);
    close(p[0]);
    close(p[1]);
    close(extra);
}

static void test_spawn_missing_program(void **state)
{
    char out[64];
    int status = 0;
    struct os_spawn s = {.path = "/nonexistent"};

    (void)state;
    run(&s, "", out, sizeof(out), &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

static void test_spawn_drops_caps(void **state)
{
    char out[4096];
    int status = 0;
    struct os_spawn s = {.drop_caps = true, .is_bound = true};

    (void)state;
    run(&s, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status", out, sizeof(out), &status);
    assert_non_null(strstr(out, "CapPrm:\t0000000000000000"));
    assert_non_null(strstr(out, "CapEff:\t0000000000000000"));
    assert_non_null(strstr(out, "NoNewPrivs:\t1"));
    if (geteuid() == 0) {
        assert_non_null(strstr(out, "CapBnd:\t0000000000000000"));
    }
}

/* A bound child dies with the process that made it. */
static void test_spawn_is_bound(void **state)
{
    int p[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(p), 0);
    pid_t middle = fork();

    if (middle == 0) {
        char *const argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                              (char *)(uintptr_t) "echo up; exec sleep 1000", NULL};
        char *const envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
        struct os_spawn s = {
            .path = "/bin/sh", .argv = argv, .envp = envp, .stdout_fd = p[1], .is_bound = true};
        pid_t pid = 0;

        _exit(os_spawn(&s, &pid, NULL) == 0 && read(p[0], &byte, 1) == 1
                  ? 0
                  : 1); /* ends once the child is up */
    }
    close(p[1]);
    int status = 0;

    assert_int_equal(waitpid(middle, &status, 0), middle);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    while (read(p[0], &byte, 1) > 0) { /* the end of file comes when the orphan is dead */
    }
    close(p[0]);
}

static void test_dirs(void **state)
{
    char path[128];
    struct stat st;
    struct err e = {0};

    (void)state;
    snprintf(path, sizeof(path), "%s/a/b", dir);
    assert_int_equal(os_dir_make(path, &e), 0);
    assert_int_equal(os_dir_make(path, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(os_dir_make(path, &e), 0);
    assert_int_equal(chmod(path, 0777),
                     0); /* somebody else's place, like /tmp: neither used nor changed */
    assert_int_equal(os_dir_make(path, &e), ERR_HOST);
    assert_non_null(strstr(e.text, "other users may write"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0777);
    assert_int_equal(os_dir_make("relative", &e), ERR_HOST);
    assert_int_equal(os_dir_make("/proc/nothing/here", &e), ERR_HOST);
    snprintf(path, sizeof(path), "%s/file", dir);
    assert_int_equal(os_file_replace(dir, "file", "x", 1, &e), 0);
    assert_int_equal(os_dir_make(path, &e), ERR_HOST);
    assert_non_null(strstr(e.text, "not a directory"));
}

static void test_file_replace(void **state)
{
    char path[128];
    char text[16] = "";
    struct stat st;
    struct err e = {0};

    (void)state;
    snprintf(path, sizeof(path), "%s/f", dir);
    assert_int_equal(os_file_replace(dir, "f", "one", 3, &e), 0);
    assert_int_equal(os_file_replace(dir, "f", "second", 6, &e), 0);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof(text), f), 6);
    fclose(f);
    assert_memory_equal(text, "second", 6);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(os_file_replace("/nonexistent", "f", "x", 1, &e), ERR_HOST);
}

static void test_lock(void **state)
{
    char path[128];
    struct err e = {0};
    pid_t holder = 0;
    int fd = -1;
    int status = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/lock", dir);
    assert_int_equal(os_lock_holder(&holder, path, &e), ERR_NOT_FOUND);
    assert_int_equal(os_lock_take(&fd, path, &e), 0);
    pid_t child = fork(); /* another process sees the lock and its holder */

    if (child == 0) {
        int other = -1;
        bool is_held = os_lock_take(&other, path, &e) == ERR_CONFLICT &&
                       os_lock_holder(&holder, path, &e) == 0 && holder == getppid();

        _exit(is_held ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    os_lock_release(fd, path);
    assert_int_equal(access(path, F_OK), -1);
    child = fork();
    if (child == 0) {
        int other = -1;

        _exit(os_lock_holder(&holder, path, &e) == ERR_NOT_FOUND &&
                      os_lock_take(&other, path, &e) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_exe_dir(void **state)
{
    char path[OS_PATH_MAX];
    char small[2];
    struct err e = {0};

    (void)state;
    assert_int_equal(os_exe_dir(path, sizeof(path), &e), 0);
    assert_int_equal(path[0], '/');
    assert_int_equal(access(path, X_OK), 0);
    assert_int_equal(os_exe_dir(small, sizeof(small), &e), ERR_HOST);
    assert_true(os_fds_raise_limit() > 2);
    assert_int_equal(os_fd_cloexec(2, true, &e), 0);
    assert_int_equal(os_fd_cloexec(2, false, &e), 0);
    assert_true(os_fd_cloexec(-1, true, &e) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spawn_environment_and_fds),
        cmocka_unit_test(test_spawn_missing_program),
        cmocka_unit_test(test_spawn_drops_caps),
        cmocka_unit_test(test_spawn_is_bound),
        cmocka_unit_test(test_dirs),
        cmocka_unit_test(test_file_replace),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_exe_dir),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
