/* main.c - cofferdam-worker: options, configuration, links, jail, loop. No logic. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "wk_pool.h"

struct app {
    struct loop loop;
    struct wk_pool *pool;
    struct cfg *cfg;
    const char *config_file;
    const char *name;
};

static void on_notice(void *ctx, unsigned line, const char *key, const char *why)
{
    (void)ctx;
    LOG(CONFIG_NOTICE, NULL, KV_U("line", line), KV_S("key", key), KV_S("why", why));
}

static int load(struct app *app, struct cfg **ret, struct err *e)
{
    int rc = cfg_load(ret, app->config_file, CFG_FOR_WORKER, on_notice, NULL, e);
    enum log_level level;

    if (rc == 0 && log_level_parse(sv_of((*ret)->log_level), &level)) {
        log_set_level(level);
    }
    return rc;
}

static void on_drain(void *ctx)
{
    struct app *app = ctx;

    wk_pool_drain(app->pool);
}

static void on_reload(void *ctx)
{
    struct app *app = ctx;
    struct cfg *cfg = NULL;
    struct err e = {0};

    if (load(app, &cfg, &e) != 0) {
        LOG(CONFIG_REJECTED, NULL, KV_ERR(&e));
        return;
    }
    wk_pool_reload(app->pool, cfg);
    LOG(CONFIG_LOADED, NULL, KV_S("file", cfg->file), KV_U("generation", cfg->generation));
    cfg_unref(app->cfg);
    app->cfg = cfg;
}

static void on_tick(void *ctx)
{
    struct app *app = ctx;

    wk_pool_tick(app->pool);
}

static void on_stopped(void *ctx)
{
    struct app *app = ctx;

    app->pool = NULL;
    loop_stop(&app->loop);
}

static int usage(FILE *to, int status)
{
    (void)fputs(
        "usage: cofferdam-worker --config FILE [--name NAME]\n"
        "Calls model providers and runs the agentic loop for jobs that a broker dispatches.\n"
        "SIGTERM finishes running jobs and stops; SIGHUP reads the configuration again.\n",
        to);
    return status;
}

static int run(struct app *app)
{
    struct loop_hooks hooks = {
        .on_drain = on_drain, .on_reload = on_reload, .on_tick = on_tick, .ctx = app};
    struct wk_pool_opts opts = {
        .loop = &app->loop, .name = app->name, .on_stopped = on_stopped, .ctx = app};
    struct err e = {0};
    int rc;

    if ((rc = load(app, &app->cfg, &e)) != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return EXIT_FAILURE;
    }
    if ((rc = loop_init(&app->loop, &hooks, (unsigned)app->cfg->drain_s * 1000)) != 0) {
        LOG(FATAL, NULL, KV_S("err", err_name(rc)));
        return EXIT_FAILURE;
    }
    opts.cfg = app->cfg;
    if ((rc = wk_pool_start(&app->pool, &opts, &e)) != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return EXIT_FAILURE;
    }
    LOG(START, NULL, KV_S("name", app->name), KV_I("pid", getpid()), KV_S("version", CFD_VERSION),
        KV_U("jobs", app->cfg->worker_jobs_max));
    loop_run(&app->loop);
    bool is_forced = app->loop.is_forced;
    loop_fini(&app->loop);
    LOG(STOP, NULL, KV_S("reason", is_forced ? "drain took too long" : "drained"));
    if (!is_forced) {
        cfg_unref(app->cfg);
    }
    return is_forced ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct app app;

    app.name = "worker-0";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
            app.config_file = argv[++i];
        } else if (strcmp(argv[i], "--name") == 0 && i + 1 < argc) {
            app.name = argv[++i];
        } else if (strcmp(argv[i], "--help") == 0) {
            return usage(stdout, EXIT_SUCCESS);
        } else if (strcmp(argv[i], "--version") == 0) {
            (void)puts("cofferdam-worker " CFD_VERSION);
            return EXIT_SUCCESS;
        } else {
            return usage(stderr, 2);
        }
    }
    if (app.config_file == NULL || app.name[0] == '\0' || strlen(app.name) > MSG_NAME_MAX) {
        return usage(stderr, 2);
    }
    log_init(app.name);
    if (id_init() != 0) {
        LOG(FATAL, NULL, KV_S("err", "random numbers are not available"));
        return EXIT_FAILURE;
    }
    return run(&app);
}
