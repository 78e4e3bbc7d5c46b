/* cofferdam-broker: every queue of the system. Options, configuration, sockets, then the loop; the
 * work is in br_daemon.c and br_core.c. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/id.h"
#include "base/log.h"
#include "br_daemon.h"
#include "config/cfg_log.h"

#define DRAIN_SLACK_MS 2000U /* for the goodbyes, after the drain's own limit */

struct app {
    struct loop loop;
    struct br_daemon *daemon;
    struct cfg *cfg;
    const char *file;
};

static int usage(FILE *to, int rc)
{
    fprintf(to, "usage: cofferdam-broker --config FILE [--name NAME]\n"
                "  --config FILE  configuration (YAML)\n"
                "  --name NAME    process name in logs and metrics (default broker-0)\n"
                "  --version      print the version\n");
    return rc;
}

static void on_drain(void *ctx)
{
    struct app *a = ctx;

    br_daemon_drain(a->daemon, (unsigned)a->cfg->drain_s * 1000U);
}

static void set_log_level(const struct cfg *cfg)
{
    enum log_level level;

    if (log_level_parse(sv_of(cfg->log_level), &level)) {
        log_set_level(level);
    }
}

static void on_reload(void *ctx)
{
    struct app *a = ctx;
    struct cfg *fresh = NULL;
    struct err e = {0};

    if (cfg_load(&fresh, a->file, CFG_FOR_BROKER, cfg_log_notice, NULL, &e) != 0) {
        LOG(CONFIG_REJECTED, NULL, KV_ERR(&e));
        return;
    }
    cfg_unref(a->cfg);
    a->cfg = fresh;
    set_log_level(fresh);
    cfg_taken(fresh);
    br_daemon_reload(a->daemon, fresh);
}

static void on_stopped(void *ctx)
{
    struct app *a = ctx;

    a->daemon = NULL;
    loop_stop(&a->loop);
}

static int run(struct app *a, const char *name, struct err *e)
{
    struct loop_hooks hooks = {.on_drain = on_drain, .on_reload = on_reload, .ctx = a};
    struct br_daemon_opts opts = {.name = name, .on_stopped = on_stopped, .ctx = a};
    int rc;

    if ((rc = cfg_load(&a->cfg, a->file, CFG_FOR_BROKER, cfg_log_notice, NULL, e)) != 0) {
        return rc;
    }
    set_log_level(a->cfg);
    cfg_taken(a->cfg);
    if ((rc = loop_init(&a->loop, &hooks, (unsigned)a->cfg->drain_s * 1000U + DRAIN_SLACK_MS)) !=
        0) {
        return err_set(e, rc, "cannot start the event loop");
    }
    opts.cfg = a->cfg;
    if ((rc = br_daemon_start(&a->daemon, &a->loop, &opts, e)) != 0) {
        loop_stop(&a->loop);
    } else {
        const char *tcp = br_daemon_endpoint(a->daemon, 1);
        bool has_no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;

        LOG(START, NULL, KV_S("version", CFD_VERSION),
            KV_S("endpoint", br_daemon_endpoint(a->daemon, 0)),
            KV_S("tcp", tcp != NULL ? tcp : "off"),
            KV_S("protections", has_no_new_privs ? "no_new_privs" : "none"));
    }
    loop_run(&a->loop);
    loop_fini(&a->loop);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"version", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct app app = {.file = NULL};
    const char *name = "broker-0";
    struct err e = {0};
    int opt;
    int rc;

    while ((opt = getopt_long(argc, argv, "c:n:vh", options, NULL)) != -1) {
        if (opt == 'c') {
            app.file = optarg;
        } else if (opt == 'n') {
            name = optarg;
        } else if (opt == 'v') {
            printf("cofferdam-broker %s\n", CFD_VERSION);
            return 0;
        } else {
            return opt == 'h' ? usage(stdout, 0) : usage(stderr, 2);
        }
    }
    if (app.file == NULL || optind != argc || name[0] == '\0' || strlen(name) > 31) {
        return usage(stderr, 2);
    }
    log_init(name);
    if (id_init() != 0) {
        LOG(FATAL, NULL, KV_S("detail", "libsodium cannot be initialised"));
        return 1;
    }
    rc = run(&app, name, &e);
    cfg_unref(app.cfg);
    if (rc != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return 1;
    }
    LOG(STOP, NULL, KV_S("why", "drained"));
    return 0;
}
