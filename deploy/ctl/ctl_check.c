/* cofferdam check: everything `up` needs, said in one go. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "ctl.h"
#include "ctl_child_table.h"
#include "ctl_listen.h"
#include "os/os_proc.h"

static int report(bool is_good, const char *what, const char *detail)
{
    (void)printf("%s %s%s%s\n", is_good ? "ok  " : "FAIL", what, detail[0] != '\0' ? ": " : "",
                 detail);
    return is_good ? 0 : 1;
}

static void on_notice(void *ctx, unsigned line, const char *key, const char *why)
{
    const char *const *file = ctx;

    (void)printf("note %s:%u: %s: %s\n", *file, line, key, why);
}

/* The directory, or the nearest one above it that exists, must be writable. */
static int check_dir(const char *key, const char *path)
{
    char part[OS_PATH_MAX];
    char detail[OS_PATH_MAX + 128];

    (void)snprintf(part, sizeof(part), "%s", path);
    while (access(part, F_OK) != 0 && strrchr(part, '/') != part) {
        *strrchr(part, '/') = '\0';
    }
    if (access(part, F_OK) != 0) {
        (void)snprintf(part, sizeof(part), "/");
    }
    bool is_good = access(part, W_OK | X_OK) == 0;

    if (is_good) {
        (void)snprintf(detail, sizeof(detail), "%s", path);
    } else {
        (void)snprintf(
            detail, sizeof(detail),
            "%s: %s is not writable for this user; set cofferdam.%s to another directory", path,
            part, key);
    }
    return report(is_good, key, detail);
}

static int check_listen(const struct cfg *c, const char *key, const char *addr)
{
    char lock[512];
    char bound[128];
    struct err e = {0};
    pid_t pid = 0;
    int fd = -1;

    (void)snprintf(lock, sizeof(lock), "%s/" CTL_PID_FILE, c->run_dir);
    if (addr[0] == '\0') {
        return report(true, key, "off");
    }
    if (os_lock_holder(&pid, lock, &e) == 0) {
        (void)snprintf(bound, sizeof(bound), "%.60s (a gateway runs, process %ld)", addr,
                       (long)pid);
        return report(true, key, bound);
    }
    if (ctl_listen(&fd, bound, sizeof(bound), addr, key, &e) != 0) {
        return report(false, key, e.text);
    }
    (void)close(fd);
    return report(true, key, addr);
}

static int check_programs(const struct cfg *c, const char *dir)
{
    static const char *const names[] = {
#define X(KIND, name, program, ...) program,
        CTL_CHILD_TABLE(X)
#undef X
            "cofferdam-zygote"};
    char path[640];
    int bad = 0;

    (void)c;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if (access(path, X_OK) != 0) {
            (void)snprintf(path, sizeof(path), "%s/%s: %s; install it beside the cofferdam command",
                           dir, names[i], strerror(errno));
            bad |= report(false, "program", path);
        }
    }
    return bad;
}

static char *zygote_arg(const char *name, const char *value)
{
    size_t cap = strlen(name) + strlen(value) + 4;
    char *arg = mem_alloc(cap);

    if (arg != NULL) {
        (void)snprintf(arg, cap, "--%s=%s", name, value);
    }
    return arg;
}

/* The program that would make sandboxes says itself what this host offers. */
static int check_sandbox(const struct cfg *c, const char *dir)
{
    char path[640];
    char check_option[] = "--check";
    char path_variable[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *argv[68] = {path, check_option};
    char *const envp[] = {path_variable, NULL};
    struct os_spawn spawn = {
        .path = path, .argv = argv, .envp = envp, .is_bound = true, .stdout_fd = STDOUT_FILENO};
    struct err e = {0};
    size_t n = 2;
    pid_t pid = 0;
    int status = 0;

    if (c->sandboxds == 0) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/cofferdam-zygote", dir);
    if (c->local_root[0] != '\0') {
        argv[n++] = zygote_arg("root", c->local_root);
    }
    for (char **b = c->local_binds; b != NULL && *b != NULL && n < 66; b++) {
        argv[n++] = zygote_arg("bind", *b);
    }
    (void)fflush(stdout);
    int rc = os_spawn(&spawn, &pid, &e);

    for (size_t i = 2; i < n; i++) {
        mem_free(argv[i]);
    }
    if (rc != 0) {
        return report(false, "local sandbox", e.text);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    return report(is_good, "local sandbox",
                  is_good ? "" : "this host cannot run it; the lines above say what is missing");
}

int ctl_cmd_check(const struct ctl_opts *o)
{
    const char *file = o->config;
    struct bytes text = {0};
    struct cfg *c = NULL;
    struct err e = {0};
    char dir[512];
    int bad = 0;

    bytes_init(&text, 0);
    int rc = ctl_read_file(&text, o->config, &e);

    if (rc == 0) {
        rc = ctl_validate(o->config, sv_from(text.p, text.n), on_notice, &file, &e);
    }
    if (text.p != NULL) {
        mem_wipe(text.p, text.n);
    }
    bytes_fini(&text);
    if (rc != 0) {
        (void)report(false, "configuration", e.text);
        return 1;
    }
    bad |= report(true, "configuration", o->config);
    if (cfg_load(&c, o->config, CFG_FOR_CTL, NULL, NULL, &e) != 0) {
        return report(false, "configuration", e.text);
    }
    bad |= check_dir("run_dir", c->run_dir);
    bad |= check_dir("state_dir", c->state_dir);
    if (c->frontends > 0) {
        bad |= check_listen(c, "listen", c->listen);
        bad |= check_listen(c, "admin_listen", c->admin_listen);
    }
    if (os_exe_dir(dir, sizeof(dir), &e) != 0) {
        bad |= report(false, "programs", e.text);
    } else if (check_programs(c, dir) != 0) {
        bad = 1;
    } else {
        bad |= check_sandbox(c, dir);
    }
    cfg_unref(c);
    return fflush(stdout) == 0 ? bad : 1;
}
