#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/cfg_log.h"
#include "ctl_super.h"

static const enum cfg_role roles[] = {
#define X(KIND, name, program, role, ...) role,
    CTL_CHILD_TABLE(X)
#undef X
};

/* What any process may see; everything else stays here. */
static const char *const passed[] = {"PATH", "HOME",   "LANG",          "LC_ALL",
                                     "TZ",   "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"};

int ctl_env_load(struct ctl_super *s, const char *file, struct err *e)
{
    char **names[CTL_KIND_COUNT] = {NULL};
    int rc = 0;

    for (int k = 0; k < CTL_KIND_COUNT && rc == 0; k++) {
        rc = cfg_env_names(&names[k], file, roles[k], e);
    }
    for (int k = 0; k < CTL_KIND_COUNT; k++) {
        if (rc != 0) {
            cfg_names_free(names[k]);
        } else {
            cfg_names_free(s->env_names[k]);
            s->env_names[k] = names[k];
        }
    }
    return rc;
}

void ctl_env_free(struct ctl_super *s)
{
    for (int k = 0; k < CTL_KIND_COUNT; k++) {
        cfg_names_free(s->env_names[k]);
        s->env_names[k] = NULL;
    }
}

static bool env_put(char **env, size_t *n, const char *name, const char *value)
{
    struct bytes b = {0};
    char *line = NULL;

    if (value == NULL) {
        return true;
    }
    bytes_init(&b, 1048576);
    bytes_printf(&b, "%s=", name);
    bytes_put_str(&b, value);
    line = b.rc == 0 ? mem_strndup(b.p, b.n) : NULL;
    if (b.p != NULL) {
        mem_wipe(b.p, b.n);
    }
    bytes_fini(&b);
    if (line == NULL) {
        return false;
    }
    env[(*n)++] = line;
    return true;
}

/* Settings of the sanitizers reach the daemons of an instrumented build. */
static bool put_sanitizers(char **env, size_t *n)
{
    static const char *const names[] = {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",
                                        "UBSAN_OPTIONS"};
    bool is_good = true;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        is_good = is_good && env_put(env, n, names[i], getenv(names[i]));
    }
    return is_good;
}

char **ctl_env_make(const struct ctl_super *s, enum ctl_kind kind)
{
    size_t max = sizeof(passed) / sizeof(passed[0]) + 16;
    char count[16];
    char **names = s->env_names[kind];
    size_t n = 0;
    bool is_good = true;

    for (char **p = names; p != NULL && *p != NULL; p++) {
        max++;
    }
    char **env = mem_calloc(max + 1, sizeof(*env));

    if (env == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        is_good = is_good && env_put(env, &n, passed[i], getenv(passed[i]));
    }
    for (char **p = names; p != NULL && *p != NULL; p++) {
        is_good = is_good && env_put(env, &n, *p, getenv(*p));
    }
    is_good = is_good && put_sanitizers(env, &n) && env_put(env, &n, CFG_ENV_SUPERVISED, "1");
    if (kind == CTL_KIND_FRONTEND && s->listen_count > 0) {
        (void)snprintf(count, sizeof(count), "%u", s->listen_count);
        is_good = is_good && env_put(env, &n, "LISTEN_FDS", count) &&
                  env_put(env, &n, "LISTEN_FDNAMES", s->listen_count > 1 ? "http:admin" : "http");
    }
    if (!is_good) {
        cfg_names_free(env);
        return NULL;
    }
    return env;
}
