/* cofferdam-sandboxd: the one owner of sandboxes and sessions. Options only; the work is in
 * sb_shell.c. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "sb_shell.h"

static int usage(FILE *to, int rc)
{
    fprintf(to, "usage: cofferdam-sandboxd --config FILE [--name NAME]\n"
                "  --config FILE  configuration (YAML)\n"
                "  --name NAME    process name in logs and metrics, unique among sandboxds "
                "(default sandboxd-0)\n"
                "  --version      print the version\n");
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"version", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct sb_shell_opts o = {.name = "sandboxd-0"};
    struct err e = {0};
    int opt;

    while ((opt = getopt_long(argc, argv, "c:n:vh", options, NULL)) != -1) {
        if (opt == 'c') {
            o.config_file = optarg;
        } else if (opt == 'n') {
            o.name = optarg;
        } else if (opt == 'v') {
            printf("cofferdam-sandboxd %s\n", CFD_VERSION);
            return 0;
        } else {
            return opt == 'h' ? usage(stdout, 0) : usage(stderr, 2);
        }
    }
    if (o.config_file == NULL || optind != argc || o.name[0] == '\0' || strlen(o.name) > 31) {
        return usage(stderr, 2);
    }
    log_init(o.name);
    if (id_init() != 0) {
        LOG(FATAL, NULL, KV_S("detail", "libsodium cannot be initialised"));
        return 1;
    }
    if (sb_shell_run(&o, &e) != 0) {
        LOG(FATAL, NULL, KV_ERR(&e));
        return 1;
    }
    LOG(STOP, NULL, KV_S("why", "stopped"));
    return 0;
}
