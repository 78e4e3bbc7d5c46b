/* cofferdam-frontend - the process that clients talk to. Options, configuration, listeners, loop;
 * no logic. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "fe_app.h"
#include "os/os_priv.h"

static int usage(FILE *to, int code)
{
    (void)fputs("usage: cofferdam-frontend --config FILE [--name NAME]\n"
                "Serves HTTP on the inherited listeners (LISTEN_FDS) or on cofferdam.listen and "
                "cofferdam.admin_listen.\n",
                to);
    return code;
}

static int parse(int argc, char **argv, struct fe_app_opts *ret)
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
            (void)usage(stdout, 0);
            return 0;
        case 'v':
            (void)puts("cofferdam-frontend " CFD_VERSION);
            return 0;
        default:
            return usage(stderr, 2);
        }
    }
    return ret->config_file == NULL || optind != argc ? usage(stderr, 2) : -1;
}

int main(int argc, char **argv)
{
    struct fe_app_opts opts = {.name = "frontend-0"};
    struct fe *fe = NULL;
    struct err e = {0};
    char listen[64];
    char admin[64];
    int rc = parse(argc, argv, &opts);

    if (rc >= 0) {
        return rc;
    }
    log_init(opts.name);
    if (id_init() != 0) {
        err_set(&e, ERR_INTERNAL, "cannot initialise the random source");
        LOG(FATAL, NULL, KV_ERR(&e));
        return 1;
    }
    if (fe_app_new(&fe, &opts, &e) != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return 1;
    }
    if (os_priv_drop_caps(&e) != 0 ||
        os_priv_no_dump(&e) != 0) { /* before the first foreign byte */
        LOG(FATAL, NULL, KV_ERR(&e));
        return 1;
    }
    fe_server_address(&fe->server, false, listen, sizeof(listen));
    fe_server_address(&fe->server, true, admin, sizeof(admin));
    LOG(START, NULL, KV_S("name", opts.name), KV_I("pid", getpid()), KV_S("version", CFD_VERSION),
        KV_S("listen", listen), KV_S("admin", admin),
        KV_S("protections", "no new privileges, no capabilities, no core"));
    fe_app_run(fe);
    fe_app_free(fe);
    LOG(STOP, NULL, KV_S("reason", "drained"));
    return 0;
}
