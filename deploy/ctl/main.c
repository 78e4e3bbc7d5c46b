/* cofferdam: the operator's command. Options only; each command has its own file. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "ctl.h"

struct command {
    const char *name;
    int (*fn)(const struct ctl_opts *o);
    const char *options;
    int args;
    const char *usage;
    const char *doc;
};

static const struct command commands[] = {
#define X(name, fn, options, args, usage, doc) {name, fn, options, args, usage, doc},
    CTL_TABLE(X)
#undef X
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int help(FILE *to, int rc)
{
    (void)fprintf(to, "usage: cofferdam COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(to, "  %-13s %s\n%16s%s\n", commands[i].name, commands[i].usage, "",
                      commands[i].doc);
    }
    (void)fprintf(
        to, "\n  --config FILE   configuration; default $COFFERDAM_CONFIG, else " CTL_DEFAULT_CONFIG
            "\n"
            "  --json          the status document as it is\n"
            "  --sandbox TOOL  sandbox_tool_name to run in; default: the configured one\n"
            "  --help, --version\n\n"
            "COFFERDAM_API_KEY is the key that `run` sends.\n");
    return rc;
}

static int command_help(const struct command *c, FILE *to, int rc)
{
    (void)fprintf(to, "usage: cofferdam %s%s%s\n  %s\n", c->name, c->usage[0] != '\0' ? " " : "",
                  c->usage, c->doc);
    return rc;
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int wrong(const struct command *c, const char *what, const char *which)
{
    (void)fprintf(stderr, "cofferdam %s: %s%s\n", c->name, what, which);
    return command_help(c, stderr, 2);
}

static int run(const struct command *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},  {"json", no_argument, NULL, 'j'},
        {"sandbox", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0}};
    const char *env = getenv("COFFERDAM_CONFIG");
    struct ctl_opts o = {.config = CTL_DEFAULT_CONFIG};
    char letter[2] = "";
    int opt;

    if (env != NULL && env[0] != '\0') {
        o.config = env;
        o.has_config = true;
    }
    opterr = 0;
    while ((opt = getopt_long(argc, argv, ":c:js:hv", options, NULL)) != -1) {
        letter[0] = (char)opt;
        if (opt == '?' || opt == ':') {
            return wrong(c, opt == '?' ? "unknown option " : "a value is missing after ",
                         argv[optind - 1]);
        }
        if (opt == 'h') {
            return command_help(c, stdout, 0);
        }
        if (opt == 'v') {
            (void)printf("cofferdam %s\n", CFD_VERSION);
            return 0;
        }
        if (strstr(c->options, letter) == NULL) {
            return wrong(c, "this command does not take ", argv[optind - 1]);
        }
        if (opt == 'c') {
            o.config = optarg;
            o.has_config = true;
        } else if (opt == 'j') {
            o.is_json = true;
        } else {
            o.sandbox = optarg;
        }
    }
    if (argc - optind > c->args) {
        return wrong(c, "unexpected argument ", argv[optind + c->args]);
    }
    if (argc - optind < c->args) {
        return wrong(c, "an argument is missing", "");
    }
    o.arg = argc > optind ? argv[optind] : NULL;
    return c->fn(&o);
}

int main(int argc, char **argv)
{
    const struct command *c;

    log_init("cofferdam");
    if (id_init() != 0) {
        (void)fprintf(stderr, "cofferdam: libsodium cannot be initialised\n");
        return 1;
    }
    if (argc < 2) {
        return help(stderr, 2);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return help(stdout, 0);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0) {
        (void)printf("cofferdam %s\n", CFD_VERSION);
        return 0;
    }
    if ((c = find(argv[1])) == NULL) {
        (void)fprintf(stderr, "cofferdam: unknown command %s\n", argv[1]);
        return help(stderr, 2);
    }
    return run(c, argc - 1, argv + 1);
}
