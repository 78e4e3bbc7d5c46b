/* main.c - cofferdam-worker: options, configuration, links, jail, loop. No logic. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "config/cfg_log.h"
#include "os/os_fds.h"
#include "os/os_priv.h"
#include "wk_pool.h"

struct app {
    struct loop loop;
    struct wk_pool *pool;
    struct cfg *cfg;
    const char *config_file;
    const char *name;
};

static int load(struct app *app, struct cfg **ret, struct err *e)
{
    struct cfg *cfg = NULL;
    int rc = cfg_load(&cfg, app->config_file, CFG_FOR_WORKER, cfg_log_notice, NULL, e);
    enum log_level level;

    if (rc != 0 || cfg == NULL) {
        return rc != 0 ? rc : ERR_INTERNAL;
    }
    if (log_level_parse(sv_of(cfg->log_level), &level)) {
        log_set_level(level);
    }
    *ret = cfg;
    return 0;
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
    cfg_taken(cfg);
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
    struct cfg *cfg = NULL;
    struct err e = {0};
    int rc;

    if (load(app, &cfg, &e) != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return EXIT_FAILURE;
    }
    app->cfg = cfg;
    cfg_taken(cfg);
    if ((rc = loop_init(&app->loop, &hooks, (unsigned)cfg->drain_s * 1000)) != 0) {
        LOG(FATAL, NULL, KV_S("err", err_name(rc)));
        return EXIT_FAILURE;
    }
    opts.cfg = cfg;
    if (wk_pool_start(&app->pool, &opts, &e) != 0 || os_priv_drop_caps(&e) != 0 ||
        os_priv_no_dump(&e) != 0) { /* before the first foreign byte */
        LOG(FATAL, NULL, KV_ERR(&e));
        return EXIT_FAILURE;
    }
    LOG(START, NULL, KV_S("name", app->name), KV_I("pid", getpid()), KV_S("version", CFD_VERSION),
        KV_U("jobs", cfg->worker_jobs_max),
        KV_S("protections", "no new privileges, no capabilities, no core"));
    loop_run(&app->loop);
    bool is_forced = app->loop.is_forced;
    loop_fini(&app->loop);
    LOG(STOP, NULL, KV_S("reason", is_forced ? "drain took too long" : "drained"));
    if (!is_forced) {
        cfg_unref(app->cfg);
    }
    return is_forced ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int parse(int argc, char **argv, struct app *ret)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    int opt = 0;

    while ((opt = getopt_long(argc, argv, "c:n:hv", options, NULL)) != -1) {
        switch (opt) {
        case 'c':
            ret->config_file = optarg;
            break;
        case 'n':
            ret->name = optarg;
            break;
        case 'h':
            return usage(stdout, EXIT_SUCCESS);
        case 'v':
            (void)puts("cofferdam-worker " CFD_VERSION);
            return EXIT_SUCCESS;
        default:
            return usage(stderr, 2);
        }
    }
    if (ret->config_file == NULL || optind != argc || ret->name[0] == '\0' ||
        strlen(ret->name) > MSG_NAME_MAX) {
        return usage(stderr, 2);
    }
    return -1;
}

int main(int argc, char **argv)
{
    static struct app app = {.name = "worker-0"};
    struct err e = {0};
    int rc = parse(argc, argv, &app);

    if (rc >= 0) {
        return rc;
    }
    log_init(app.name);
    (void)os_fds_raise_limit();
    if (id_init() != 0) {
        (void)err_set(&e, ERR_INTERNAL, "cannot initialise the random source");
        LOG(FATAL, NULL, KV_ERR(&e));
        return EXIT_FAILURE;
    }
    return run(&app);
}
