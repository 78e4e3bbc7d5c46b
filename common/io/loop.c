#include "io/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"

#define TICK_MS 1000U
#define TICK_US 1000000U

int loop_err(int uv_code)
{
    switch (uv_code) {
    case 0:
        return 0;
    case UV_EOF:
        return ERR_EOF;
    case UV_EAGAIN:
        return ERR_AGAIN;
    case UV_ECANCELED:
        return ERR_CANCELLED;
    case UV_EINVAL:
        return ERR_INVALID;
    default:
        return uv_code < 0 ? err_from_errno(-uv_code) : ERR_INTERNAL;
    }
}

/* --- lag ------------------------------------------------------------------------------------- */

/* The loop reads its clock when a poll returns; what the callbacks of that turn take until the next
 * poll is the time that any other event had to wait. uv_now counts in whole milliseconds, so up to
 * one is taken off again. */
static void on_woke(uv_check_t *h)
{
    struct loop *l = h->data;

    l->woke_ms = uv_now(&l->uv);
}

static void lag_note(struct loop *l, uint64_t lag_us)
{
    if (lag_us > l->lag_max_us) {
        l->lag_max_us = lag_us;
    }
}

static void on_asleep(uv_prepare_t *h)
{
    struct loop *l = h->data;
    uint64_t now_us = uv_hrtime() / 1000U;
    uint64_t woke_us = (l->woke_ms + 1) * 1000U;

    if (l->woke_ms != 0 && now_us > woke_us) {
        lag_note(l, now_us - woke_us);
    }
}

static void metrics_set(struct loop *l)
{
    unsigned long soft = check_soft_count();
    unsigned long pages = 0;
    unsigned long resident = 0;
    char text[128];
    ssize_t n = 0;

    metric_set(METRIC_PROC_LOOP_LAG, NULL, NULL, (double)l->lag_us / 1e6);
    metric_set(METRIC_PROC_UPTIME, NULL, NULL,
               ((double)uv_hrtime() / 1e3 - (double)l->started_us) / 1e6);
    if (soft > l->soft_checks) {
        metric_add(METRIC_PROC_SOFT_CHECKS, NULL, NULL, soft - l->soft_checks);
        l->soft_checks = soft;
    }
    if (l->statm_fd < 0 || (n = pread(l->statm_fd, text, sizeof(text) - 1, 0)) <= 0) {
        return;
    }
    text[n] = '\0';
    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own text; overflow is not possible */
    if (sscanf(text, "%lu %lu", &pages, &resident) == 2) {
        metric_set(METRIC_PROC_RSS, NULL, NULL, (double)resident * (double)sysconf(_SC_PAGESIZE));
    }
}

static void on_tick(uv_timer_t *h)
{
    struct loop *l = h->data;
    uint64_t now_us = uv_hrtime() / 1000U;

    if (now_us > l->tick_due_us + 1000U) {
        lag_note(l, now_us - l->tick_due_us - 1000U);
    }
    l->tick_due_us = now_us + TICK_US;
    l->lag_us = l->lag_max_us;
    l->lag_max_us = 0;
    if (l->is_main) {
        metrics_set(l);
    }
    if (l->hooks.on_tick != NULL) {
        l->hooks.on_tick(l->hooks.ctx);
    }
}

/* --- drain and stop -------------------------------------------------------------------------- */

static void force(struct loop *l, const char *reason)
{
    LOG(STOP, NULL, KV_S("reason", reason));
    l->is_forced = true;
    uv_stop(&l->uv);
}

static void on_drain_limit(uv_timer_t *h)
{
    force(h->data, "the drain took longer than its limit");
}

void loop_drain(struct loop *l)
{
    if (l->is_draining || l->is_stopped) {
        return;
    }
    l->is_draining = true;
    LOG(DRAIN, NULL, KV_U("limit_ms", l->drain_ms));
    (void)uv_timer_start(&l->drain_limit, on_drain_limit, l->drain_ms, 0);
    uv_unref((uv_handle_t *)&l->drain_limit);
    if (l->hooks.on_drain != NULL) {
        l->hooks.on_drain(l->hooks.ctx);
    } else {
        loop_stop(l);
    }
}

static void on_signal(uv_signal_t *h, int signum)
{
    struct loop *l = h->data;

    if (signum == SIGHUP) {
        if (l->hooks.on_reload != NULL && !l->is_draining) {
            l->hooks.on_reload(l->hooks.ctx);
        }
    } else if (l->is_draining) {
        force(l, "a second signal came during the drain");
    } else {
        loop_drain(l);
    }
}

static void on_own_closed(void *ctx)
{
    (void)ctx;
}

void loop_stop(struct loop *l)
{
    uv_handle_t *own[] = {
        (uv_handle_t *)&l->sig_term, (uv_handle_t *)&l->sig_int, (uv_handle_t *)&l->sig_hup,
        (uv_handle_t *)&l->tick,     (uv_handle_t *)&l->woke,    (uv_handle_t *)&l->asleep,
    };

    if (l->is_stopped) {
        return;
    }
    l->is_stopped = true;
    /* The limit keeps watching over the owner's closing; it is unreferenced and closed by loop_run.
     */
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        closer_close_one(&l->closer, own[i]);
    }
}

void loop_run(struct loop *l)
{
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    if (l->is_forced || !l->is_stopped) {
        return;
    }
    closer_close_one(&l->closer, (uv_handle_t *)&l->drain_limit);
    closer_finish(&l->closer);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

/* --- init ------------------------------------------------------------------------------------ */

static int signals_start(struct loop *l)
{
    int rc = 0;

    if ((rc = uv_signal_start(&l->sig_term, on_signal, SIGTERM)) != 0 ||
        (rc = uv_signal_start(&l->sig_int, on_signal, SIGINT)) != 0 ||
        (rc = uv_signal_start(&l->sig_hup, on_signal, SIGHUP)) != 0) {
        return rc;
    }
    return 0;
}

int loop_init(struct loop *l, const struct loop_hooks *hooks, unsigned drain_ms)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    memset(l, 0, sizeof(*l));
    l->statm_fd = -1;
    l->drain_ms = drain_ms;
    if (hooks != NULL) {
        l->hooks = *hooks;
        l->is_main = true;
    }
    if (uv_loop_init(&l->uv) != 0) {
        return ERR_IO;
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
    closer_init(&l->closer, on_own_closed, l);
    if (uv_signal_init(&l->uv, &l->sig_term) != 0) {
        (void)uv_loop_close(&l->uv);
        return ERR_IO;
    }
    (void)uv_signal_init(&l->uv, &l->sig_int); /* cannot fail once the first one has worked */
    (void)uv_signal_init(&l->uv, &l->sig_hup);
    (void)uv_timer_init(&l->uv, &l->tick);
    (void)uv_timer_init(&l->uv, &l->drain_limit);
    (void)uv_check_init(&l->uv, &l->woke);
    (void)uv_prepare_init(&l->uv, &l->asleep);
    l->sig_term.data = l->sig_int.data = l->sig_hup.data = l;
    l->tick.data = l->drain_limit.data = l->woke.data = l->asleep.data = l;
    for (int i = 0; i < 7; i++) {
        closer_add(&l->closer);
    }
    l->started_us = uv_hrtime() / 1000U;
    l->tick_due_us = l->started_us + TICK_US;
    (void)uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
    (void)uv_check_start(&l->woke, on_woke);
    (void)uv_prepare_start(&l->asleep, on_asleep);
    if (signals_start(l) != 0) {
        loop_stop(l);
        loop_run(l);
        (void)uv_loop_close(&l->uv);
        return ERR_IO;
    }
    l->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    return 0;
}

void loop_fini(struct loop *l)
{
    int rc = uv_loop_close(&l->uv);

    REQUIRE(rc == 0 || l->is_forced);
    if (l->statm_fd >= 0) {
        (void)close(l->statm_fd);
        l->statm_fd = -1;
    }
    if (l->at_fini != NULL && !l->is_forced) {
        l->at_fini();
        l->at_fini = NULL;
    }
}
