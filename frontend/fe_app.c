#include "fe_app.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "config/cfg_log.h"
#include "fe_conn.h"
#include "fe_local.h"
#include "fe_request.h"

#define REQUESTS_MAX 1000000U

const char *fe_app_date(struct fe *fe)
{
    uint64_t now_ms = clock_unix_ms();

    if (now_ms / 1000U != fe->date_s) {
        fe->date_s = now_ms / 1000U;
        http1_date(fe->date, now_ms);
    }
    return fe->date;
}

void fe_app_snapshot(struct fe *fe, struct bytes *out)
{
    metric_set(METRIC_FE_CONNECTIONS, NULL, NULL, (double)fe->server.conns.count);
    metric_set(METRIC_FE_IN_FLIGHT, NULL, NULL, (double)map_count(fe->requests));
    (void)metric_snapshot(out, fe->name);
}

/* --- configuration
 * ------------------------------------------------------------------------------------------------
 */

static int load(struct fe *fe, struct err *e)
{
    struct cfg *cfg = NULL;
    struct buf *models = NULL;
    enum log_level level = LOG_LEVEL_INFO;
    int rc = cfg_load(&cfg, fe->config_file, CFG_FOR_FRONTEND, cfg_log_notice, NULL, e);

    if (rc != 0) {
        return rc;
    }
    models = fe_local_models(cfg, fe->models_created_s);
    if (models == NULL) {
        cfg_unref(cfg);
        return err_set(e, ERR_NOMEM, NULL);
    }
    if (log_level_parse(sv_of(cfg->log_level), &level)) {
        log_set_level(level);
    }
    buf_unref(fe->models);
    cfg_unref(fe->cfg);
    fe->models = models;
    fe->cfg = cfg;
    cfg_taken(cfg);
    return 0;
}

/* --- hooks of the loop
 * --------------------------------------------------------------------------------------------- */

static void on_reload(void *ctx)
{
    struct fe *fe = ctx;
    struct err e = {0};

    if (load(fe, &e) != 0) {
        LOG(CONFIG_REJECTED, NULL, KV_ERR(&e));
    }
}

static void on_tick(void *ctx)
{
    struct fe *fe = ctx;

    fe_request_tick(fe);
    fe_admin_tick(fe);
}

static void stop(struct fe *fe)
{
    if (fe->is_stopped) {
        return;
    }
    fe->is_stopped = true;
    fe_server_close(&fe->server);
    fe_links_close(fe);
    fe_return_close(fe);
    loop_stop(&fe->loop);
}

void fe_app_check_drained(struct fe *fe)
{
    bool is_public = false;

    if (!fe->is_draining || fe->is_stopped) {
        return;
    }
    LIST_FOREACH_SAFE (k, tmp, &fe->server.conns) {
        is_public |= !CONTAINER_OF(k, struct fe_conn, link)->is_admin;
    }
    if (!is_public) {
        stop(fe);
    }
}

static void on_drain(void *ctx)
{
    struct fe *fe = ctx;

    fe->is_draining = true;
    fe_links_say_bye(fe);
    fe_server_drain(&fe->server);
    fe_app_check_drained(fe);
}

/* --- life
 * ------------------------------------------------------------------------------------------------------------
 */

/* Nothing was served yet: close what is open and let the loop run it off. */
static void abort_start(struct fe *fe)
{
    fe->is_draining = true;
    stop(fe);
    loop_run(&fe->loop);
}

static int open_all(struct fe *fe, struct err *e)
{
    int rc = fe_server_open(&fe->server, fe, e);

    if (rc == 0) {
        rc = fe_return_open(fe, e);
    }
    return rc == 0 ? fe_links_open(fe, e) : rc;
}

int fe_app_new(struct fe **ret, const struct fe_app_opts *opts, struct err *e)
{
    struct fe *fe = mem_zalloc(sizeof(*fe));
    struct loop_hooks hooks = {
        .on_drain = on_drain, .on_reload = on_reload, .on_tick = on_tick, .ctx = fe};
    int rc = ERR_NOMEM;

    if (fe == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    list_init(&fe->open);
    list_init(&fe->server.conns);
    fe->models_created_s = clock_unix_ms() / 1000U;
    fe->started_ms = clock_ms();
    fe->requests = map_new(REQUESTS_MAX);
    fe->quota = fe_quota_new();
    if (fe->requests == NULL || fe->quota == NULL) {
        err_set(e, ERR_NOMEM, NULL);
        goto fail;
    }
    if (!sv_copy(fe->config_file, sizeof(fe->config_file), sv_of(opts->config_file)) ||
        !sv_copy(fe->name, sizeof(fe->name), sv_of(opts->name))) {
        rc = err_set(e, ERR_CONFIG, "--config or --name is too long");
        goto fail;
    }
    if ((rc = load(fe, e)) != 0) {
        goto fail;
    }
    if ((rc = loop_init(&fe->loop, &hooks, (unsigned)fe->cfg->drain_s * 1000U)) != 0) {
        err_set(e, rc, "cannot start the event loop");
        goto fail;
    }
    if ((rc = open_all(fe, e)) != 0) {
        abort_start(fe);
        goto fail_loop;
    }
    *ret = fe;
    return 0;
fail_loop:
    loop_fini(&fe->loop);
fail:
    fe->is_stopped = true;
    cfg_unref(fe->cfg);
    buf_unref(fe->models);
    map_free(fe->requests);
    fe_quota_free(fe->quota);
    mem_free(fe);
    return rc;
}

void fe_app_run(struct fe *fe)
{
    loop_run(&fe->loop);
}

void fe_app_free(struct fe *fe)
{
    if (fe == NULL) {
        return;
    }
    if (!fe->loop.is_forced) {
        loop_fini(&fe->loop);
    }
    cfg_unref(fe->cfg);
    buf_unref(fe->models);
    map_free(fe->requests);
    fe_quota_free(fe->quota);
    mem_free(fe);
}
