#include "ctl_super.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sm.h"
#include "os/os_proc.h"

struct kind_info {
    const char *name;
    const char *program;
    bool drop_caps;
    bool drains;
    unsigned stop_ms;
};

static const struct kind_info kinds[] = {
#define X(KIND, name, program, role, count, drop_caps, drains, stop_ms)                            \
    {name, program, drop_caps, drains, stop_ms},
    CTL_CHILD_TABLE(X)
#undef X
};

static const struct sm_state child_states[] = {
    [CTL_CHILD_WAITING] = {"WAITING", 1U << CTL_CHILD_RUNNING | 1U << CTL_CHILD_GONE},
    [CTL_CHILD_RUNNING] = {"RUNNING", 1U << CTL_CHILD_WAITING | 1U << CTL_CHILD_STOPPING},
    [CTL_CHILD_STOPPING] = {"STOPPING", 1U << CTL_CHILD_GONE},
    [CTL_CHILD_GONE] = {"GONE", 1U << CTL_CHILD_WAITING},
};

static void child_move(struct ctl_child *c, enum ctl_child_state next, const char *why)
{
    c->state =
        sm_move(child_states, "child", (uint64_t)c->kind << 32 | c->index, c->state, next, why);
    INVARIANT((c->pid > 0) == (c->state == CTL_CHILD_RUNNING || c->state == CTL_CHILD_STOPPING));
}

static unsigned wanted(const struct cfg *c, enum ctl_kind kind)
{
    switch (kind) {
#define X(KIND, name, program, role, count, drop_caps, drains, stop_ms)                            \
    case CTL_KIND_##KIND:                                                                          \
        return count;
        CTL_CHILD_TABLE(X)
#undef X
    case CTL_KIND_COUNT:
        break;
    }
    return 0;
}

/* --- one child
 * ---------------------------------------------------------------------------------------------------
 */

static int child_spawn(struct ctl_child *c, struct err *e)
{
    struct ctl_super *s = c->super;
    char path[640];
    char config_option[] = "--config";
    char name_option[] = "--name";
    char *argv[] = {path, config_option, s->config_path, name_option, c->name, NULL};
    char **env = ctl_env_make(s, c->kind);
    bool has_sockets = c->kind == CTL_KIND_FRONTEND && s->listen_count > 0;
    struct os_spawn spawn = {.path = path,
                             .argv = argv,
                             .envp = env,
                             .fds = s->listen_fds,
                             .fd_count = has_sockets ? s->listen_count : 0,
                             .pid_variable = has_sockets ? "LISTEN_PID" : NULL,
                             .is_bound = true,
                             .drop_caps = kinds[c->kind].drop_caps,
                             .stdout_fd = -1};

    if (env == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    (void)snprintf(path, sizeof(path), "%s/%s", s->exe_dir, kinds[c->kind].program);
    int rc = os_spawn(&spawn, &c->pid, e);

    for (char **v = env; *v != NULL; v++) {
        mem_wipe(*v, strlen(*v));
    }
    cfg_names_free(env);
    return rc;
}

static void on_start(uv_timer_t *t);

/* The child died, or could not be started; `lived_ms` decides when it is tried again. */
static void child_retry(struct ctl_child *c, uint64_t lived_ms)
{
    struct ctl_super *s = c->super;
    unsigned wait = ctl_backoff_step(&c->backoff, lived_ms);

    if (!s->is_ready && c->backoff.failures >= CTL_EARLY_FAILURES_MAX && !s->loop.is_draining) {
        LOG(FATAL, NULL, KV_S("name", c->name),
            KV_S("detail",
                 "failed again and again during the start; its own messages above say why"));
        s->is_failed = true;
        loop_drain(&s->loop);
        return;
    }
    (void)uv_timer_start(&c->timer, on_start, wait, 0);
}

static void on_start(uv_timer_t *t)
{
    struct ctl_child *c = t->data;
    struct err e = {0};

    if (c->state != CTL_CHILD_WAITING) {
        return;
    }
    c->started_ms = clock_ms();
    if (child_spawn(c, &e) != 0) {
        LOG(CHILD_EXIT, NULL, KV_S("name", c->name), KV_ERR(&e));
        child_retry(c, 0);
        return;
    }
    child_move(c, CTL_CHILD_RUNNING, "started");
    LOG(CHILD_START, NULL, KV_S("name", c->name), KV_I("pid", c->pid));
}

static struct ctl_child *child_get(struct ctl_super *s, enum ctl_kind kind, unsigned index)
{
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if (c->kind == kind && c->index == index) {
            return c;
        }
    }
    struct ctl_child *c = mem_zalloc(sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->super = s;
    c->kind = kind;
    c->index = index;
    c->state = CTL_CHILD_GONE;
    if (kind == CTL_KIND_BROKER) {
        (void)snprintf(c->name, sizeof(c->name), "%s", kinds[kind].name);
    } else {
        (void)snprintf(c->name, sizeof(c->name), "%s-%u", kinds[kind].name, index);
    }
    (void)uv_timer_init(&s->loop.uv, &c->timer);
    c->timer.data = c;
    closer_add(&s->closer);
    list_push_back(&s->children, &c->link);
    return c;
}

static void child_stop(struct ctl_child *c, const char *why)
{
    (void)uv_timer_stop(&c->timer);
    if (c->state == CTL_CHILD_WAITING) {
        child_move(c, CTL_CHILD_GONE, why);
    } else if (c->state == CTL_CHILD_RUNNING) {
        child_move(c, CTL_CHILD_STOPPING, why);
        (void)kill(c->pid, SIGTERM);
    }
}

void ctl_super_adjust(struct ctl_super *s)
{
    for (int k = 0; k < CTL_KIND_COUNT; k++) {
        for (unsigned i = 0; i < wanted(s->cfg, (enum ctl_kind)k); i++) {
            struct ctl_child *c = child_get(s, (enum ctl_kind)k, i);

            if (c == NULL) {
                LOG(OVERLOAD, NULL, KV_S("which", "memory"));
            } else if (c->state == CTL_CHILD_GONE) {
                child_move(c, CTL_CHILD_WAITING, "wanted");
                on_start(&c->timer);
            }
        }
    }
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if (c->index >= wanted(s->cfg, c->kind)) {
            child_stop(c, "not wanted any more");
        }
    }
}

/* --- stopping
 * ----------------------------------------------------------------------------------------------------
 */

static void finish(struct ctl_super *s)
{
    LIST_FOREACH_SAFE (l, next, &s->children) {
        closer_close_one(&s->closer,
                         (uv_handle_t *)&CONTAINER_OF(l, struct ctl_child, link)->timer);
    }
    closer_close_one(&s->closer, (uv_handle_t *)&s->sig_child);
    closer_close_one(&s->closer, (uv_handle_t *)&s->phase_timer);
    closer_close_one(&s->closer, (uv_handle_t *)&s->ready_timer);
    closer_finish(&s->closer);
    loop_stop(&s->loop);
}

static bool any_alive(struct ctl_super *s, int kind)
{
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if ((int)c->kind == kind && c->pid > 0) {
            return true;
        }
    }
    return false;
}

static void on_phase_limit(uv_timer_t *t)
{
    struct ctl_super *s = t->data;

    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if ((int)c->kind == s->phase && c->pid > 0) {
            LOG(OVERLOAD, NULL, KV_S("which", "time to stop"), KV_S("name", c->name),
                KV_S("then", "killed"));
            s->is_failed = true;
            (void)kill(c->pid, SIGKILL);
        }
    }
}

static void phase_enter(struct ctl_super *s, int phase);

/* The next kind, when none of the present one is left. */
/* NOLINTNEXTLINE(misc-no-recursion): one level for each kind of daemon */
static void phase_step(struct ctl_super *s)
{
    if (s->phase != CTL_KIND_COUNT && s->phase >= 0 && !any_alive(s, s->phase)) {
        phase_enter(s, s->phase - 1);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): one level for each kind of daemon */
static void phase_enter(struct ctl_super *s, int phase)
{
    s->phase = phase;
    (void)uv_timer_stop(&s->phase_timer);
    if (phase < 0) {
        finish(s);
        return;
    }
    uint64_t limit = kinds[phase].stop_ms + (kinds[phase].drains ? s->cfg->drain_s * 1000U : 0);

    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if ((int)c->kind == phase) {
            child_stop(c, "the supervisor stops");
        }
    }
    (void)uv_timer_start(&s->phase_timer, on_phase_limit, limit, 0);
    phase_step(s);
}

static void on_drain(void *ctx)
{
    struct ctl_super *s = ctx;

    ctl_ready_stop(s);
    phase_enter(s, CTL_KIND_COUNT - 1);
}

/* --- deaths
 * ------------------------------------------------------------------------------------------------------
 */

static void child_died(struct ctl_child *c, int status)
{
    struct ctl_super *s = c->super;
    pid_t pid = c->pid;
    bool is_stopping = c->state == CTL_CHILD_STOPPING;
    bool is_clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    c->pid = 0;
    child_move(c, is_stopping ? CTL_CHILD_GONE : CTL_CHILD_WAITING, "died");
    if (!is_stopping || !is_clean) {
        LOG(CHILD_EXIT, NULL, KV_S("name", c->name), KV_I("pid", pid),
            KV_I(WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)),
            KV_S("next", is_stopping ? "stopped" : "start again"));
    }
    if (!is_stopping) {
        child_retry(c, clock_ms() - c->started_ms);
    } else if (!s->loop.is_draining && c->index < wanted(s->cfg, c->kind)) {
        child_move(c, CTL_CHILD_WAITING, "wanted again"); /* two reloads in short order */
        on_start(&c->timer);
    }
}

static void on_sig_child(uv_signal_t *h, int signum)
{
    struct ctl_super *s = h->data;
    int status = 0;

    (void)signum;
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if (c->pid > 0 && waitpid(c->pid, &status, WNOHANG) == c->pid) {
            child_died(c, status);
        }
    }
    phase_step(s);
}

static void on_reload(void *ctx)
{
    ctl_super_reload(ctx);
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

/* --- the whole
 * ---------------------------------------------------------------------------------------------------
 */

static int check_programs(struct ctl_super *s, struct err *e)
{
    char path[640];
    int rc = os_exe_dir(s->exe_dir, sizeof(s->exe_dir), e);

    for (int k = 0; k < CTL_KIND_COUNT && rc == 0; k++) {
        (void)snprintf(path, sizeof(path), "%s/%s", s->exe_dir, kinds[k].program);
        if (wanted(s->cfg, (enum ctl_kind)k) > 0 && access(path, X_OK) != 0) {
            rc = err_set(e, ERR_HOST, "%.300s: %s; install it beside the cofferdam command", path,
                         strerror(errno));
        }
    }
    return rc;
}

static unsigned drain_limit_ms(const struct cfg *c)
{
    uint64_t sum = 10000;

    for (int k = 0; k < CTL_KIND_COUNT; k++) {
        sum += kinds[k].stop_ms + (kinds[k].drains ? c->drain_s * 1000U : 0);
    }
    return (unsigned)sum;
}

/* After a forced end: nothing may outlive the supervisor. */
static void kill_all(struct ctl_super *s)
{
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if (c->pid > 0) {
            (void)kill(c->pid, SIGKILL);
            (void)waitpid(c->pid, NULL, 0);
            c->pid = 0;
            s->is_failed = true;
        }
    }
}

static void children_free(struct ctl_super *s)
{
    struct list_link *l = s->children.head.next;

    while (l != &s->children.head) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        l = l->next;
        mem_free(c);
    }
}

int ctl_super_run(struct ctl_super *s, struct cfg *cfg)
{
    struct loop_hooks hooks = {.on_drain = on_drain, .on_reload = on_reload, .ctx = s};
    struct err e = {0};

    s->cfg = cfg;
    s->phase = CTL_KIND_COUNT;
    list_init(&s->children);
    if (check_programs(s, &e) != 0 || ctl_env_load(s, s->config_path, &e) != 0) {
        (void)fprintf(stderr, "cofferdam: %s\n", e.text);
        goto out;
    }
    if (loop_init(&s->loop, &hooks, drain_limit_ms(cfg)) != 0) {
        (void)fprintf(stderr, "cofferdam: cannot make an event loop\n");
        goto out;
    }
    closer_init(&s->closer, on_closed, s);
    (void)uv_signal_init(&s->loop.uv, &s->sig_child);
    (void)uv_timer_init(&s->loop.uv, &s->phase_timer);
    (void)uv_timer_init(&s->loop.uv, &s->ready_timer);
    s->sig_child.data = s->phase_timer.data = s->ready_timer.data = s;
    for (int i = 0; i < 3; i++) {
        closer_add(&s->closer);
    }
    if (uv_signal_start(&s->sig_child, on_sig_child, SIGCHLD) != 0 || ctl_ready_start(s, &e) != 0) {
        (void)fprintf(stderr, "cofferdam: cannot watch child processes: %s\n", e.text);
        s->is_failed = true;
        finish(s);
    } else {
        ctl_super_adjust(s);
    }
    loop_run(&s->loop);
    kill_all(s);
    bool is_forced = s->loop.is_forced;

    loop_fini(&s->loop);
    if (!is_forced) {
        children_free(s); /* after a forced end their timers are still in the loop */
    }
    ctl_env_free(s);
    cfg_unref(s->cfg);
    return s->is_failed || is_forced ? 1 : 0;
out:
    ctl_env_free(s);
    cfg_unref(s->cfg);
    return 1;
}
