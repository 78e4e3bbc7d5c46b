/* cofferdam reload: SIGHUP to the supervisor of this run_dir, and its verdict. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "io/loop.h"
#include "os/os_proc.h"

#define POLL_MS 20U
#define WAIT_MS 10000U

struct wait {
    struct loop loop;
    uv_timer_t timer;
    const char *path;
    unsigned long before;
    unsigned waited_ms;
    struct bytes text;
    bool is_answered;
};

static unsigned long result_read(struct bytes *out, const char *path)
{
    struct err ignored;

    bytes_reset(out);
    if (ctl_read_file(out, path, &ignored) != 0 || out->n == 0) {
        return 0;
    }
    return strtoul(out->p, NULL, 10);
}

static void finish(struct wait *w)
{
    uv_close((uv_handle_t *)&w->timer, NULL);
    loop_stop(&w->loop);
}

static void on_timer(uv_timer_t *t)
{
    struct wait *w = t->data;

    w->waited_ms += POLL_MS;
    w->is_answered = result_read(&w->text, w->path) > w->before;
    if (w->is_answered || w->waited_ms >= WAIT_MS) {
        finish(w);
    }
}

static void on_drain(void *ctx)
{
    finish(ctx);
}

static int wait_result(struct wait *w)
{
    struct loop_hooks hooks = {.on_drain = on_drain, .ctx = w};

    if (loop_init(&w->loop, &hooks, 1000) != 0) {
        return ERR_IO;
    }
    (void)uv_timer_init(&w->loop.uv, &w->timer);
    w->timer.data = w;
    (void)uv_timer_start(&w->timer, on_timer, POLL_MS, POLL_MS);
    loop_run(&w->loop);
    loop_fini(&w->loop);
    return 0;
}

int ctl_cmd_reload(const struct ctl_opts *o)
{
    struct wait w = {.path = NULL};
    struct cfg *c = NULL;
    struct err e = {0};
    char pid_path[512];
    char result_path[512];
    pid_t pid = 0;
    int rc = 1;

    if (ctl_config(&c, o) != 0) {
        return 1;
    }
    (void)snprintf(pid_path, sizeof(pid_path), "%s/" CTL_PID_FILE, c->run_dir);
    (void)snprintf(result_path, sizeof(result_path), "%s/" CTL_RELOAD_RESULT, c->run_dir);
    bytes_init(&w.text, 8192);
    w.path = result_path;
    w.before = result_read(&w.text, result_path);
    if (os_lock_holder(&pid, pid_path, &e) != 0) {
        (void)fprintf(stderr, "cofferdam: nothing runs in %s; start it with cofferdam up\n",
                      c->run_dir);
    } else if (kill(pid, SIGHUP) != 0) {
        (void)fprintf(stderr, "cofferdam: cannot signal process %ld: %s\n", (long)pid,
                      strerror(errno));
    } else if (wait_result(&w) != 0 || !w.is_answered) {
        (void)fprintf(stderr, "cofferdam: process %ld did not say what became of it; see its log\n",
                      (long)pid);
    } else {
        const char *verdict = w.text.p + strspn(w.text.p, "0123456789 ");

        if (strcmp(verdict, "ok\n") == 0) {
            (void)printf("configuration reloaded\n");
            rc = 0;
        } else {
            (void)fprintf(stderr, "cofferdam: refused, nothing changed: %s", verdict);
        }
    }
    bytes_fini(&w.text);
    cfg_unref(c);
    return rc;
}
