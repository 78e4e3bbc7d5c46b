#include "zg_opts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint64_t lo;
    uint64_t hi;
} numbers[] = {
    {"memory", 64ULL << 20, 1ULL << 40},
    {"disk", 1ULL << 20, 1ULL << 40},
    {"pids", 4, 4096},
    {"files", 16, 65536},
};

static uint64_t *number_slot(struct zg_opts *o, unsigned i)
{
    uint64_t *slots[] = {&o->memory_bytes, &o->disk_bytes, &o->pids_max, &o->files_max};

    return slots[i];
}

/* "--name=value" -> value, else NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, n) != 0 || arg[2 + n] != '=') {
        return NULL;
    }
    return arg + 3 + n;
}

static int number_parse(uint64_t *ret, unsigned i, const char *v, char *err, unsigned cap)
{
    char *end = NULL;

    errno = 0;
    unsigned long long n = strtoull(v, &end, 10);

    if (*v < '0' || *v > '9' || *end != '\0' || errno != 0 || n < numbers[i].lo ||
        n > numbers[i].hi) {
        (void)snprintf(err, cap, "--%s=%s: a number from %llu to %llu is needed", numbers[i].name,
                       v, (unsigned long long)numbers[i].lo, (unsigned long long)numbers[i].hi);
        return -1;
    }
    *ret = n;
    return 0;
}

static int path_parse(const char *v, const char *name, char *err, unsigned cap)
{
    if (v[0] != '/' || v[1] == '\0' || strstr(v, "/../") != NULL) {
        (void)snprintf(err, cap, "--%s=%s: an absolute path without .. is needed", name, v);
        return -1;
    }
    return 0;
}

static int arg_parse(struct zg_opts *o, const char *arg, char *err, unsigned cap)
{
    const char *v;

    if (strcmp(arg, "--check") == 0) {
        o->is_check = true;
        return 0;
    }
    if (strcmp(arg, "--seccomp-trace") == 0) {
        o->is_trace = true;
        return 0;
    }
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if ((v = value_of(arg, numbers[i].name)) != NULL) {
            return number_parse(number_slot(o, i), i, v, err, cap);
        }
    }
    if ((v = value_of(arg, "root")) != NULL) {
        o->root = v;
        return path_parse(v, "root", err, cap);
    }
    if ((v = value_of(arg, "bind")) != NULL) {
        if (o->bind_count == ZG_BINDS_MAX) {
            (void)snprintf(err, cap, "--bind: at most %d", ZG_BINDS_MAX);
            return -1;
        }
        o->binds[o->bind_count++] = v;
        return path_parse(v, "bind", err, cap);
    }
    (void)snprintf(err, cap,
                   "%s: unknown option; known: --check --seccomp-trace --memory= --disk= "
                   "--pids= --files= --root= --bind=",
                   arg);
    return -1;
}

int zg_opts_parse(struct zg_opts *ret, int argc, char **argv, char *ret_err, unsigned err_cap)
{
    struct zg_opts o = {
        .memory_bytes = 512ULL << 20, .disk_bytes = 256ULL << 20, .pids_max = 64, .files_max = 256};

    for (int i = 1; i < argc; i++) {
        if (arg_parse(&o, argv[i], ret_err, err_cap) != 0) {
            return -1;
        }
    }
    *ret = o;
    return 0;
}
