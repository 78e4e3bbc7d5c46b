/* cofferdam up: what must be right before the first child starts, and what is removed after the
 * last has ended. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/cfg_log.h"
#include "config/cfg_text.h"
#include "ctl.h"
#include "ctl_listen.h"
#include "ctl_super.h"
#include "os/os_fds.h"
#include "os/os_proc.h"

/* Static: after a forced end, handles inside it still belong to the loop. */
static struct ctl_super super;

/* The daemons' sockets: whoever holds the lock owns them, and none of its children lives now. */
static void sockets_remove(const char *run_dir)
{
    char path[512];
    DIR *d = opendir(run_dir);
    struct dirent *ent;

    while (d != NULL && (ent = readdir(d)) != NULL) {
        size_t n = strlen(ent->d_name);

        if (n > 5 && strcmp(ent->d_name + n - 5, ".sock") == 0 && n < 128) {
            (void)snprintf(path, sizeof(path), "%s/%s", run_dir, ent->d_name);
            (void)unlink(path);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

static int dir_make(const struct cfg *c, const char *path, const char *key, struct err *e)
{
    struct err why = {0};
    int rc = os_dir_make(path, &why);

    return rc == 0 ? 0
                   : err_set(e, rc,
                             "cofferdam.%s: %.250s; set it in %.150s to a directory that this user "
                             "may write",
                             key, why.text, c->file);
}

/* Directories, the lock, and a clean slate in run_dir. */
static int prepare_dirs(const struct cfg *c, char *lock_path, size_t cap, int *ret_lock,
                        struct err *e)
{
    static const char *const stale[] = {CTL_HTTP_ADDR, CTL_ADMIN_ADDR, CTL_RELOAD_RESULT};
    char path[512];
    int rc = dir_make(c, c->run_dir, "run_dir", e);

    if (rc != 0 || (rc = dir_make(c, c->state_dir, "state_dir", e)) != 0) {
        return rc;
    }
    (void)snprintf(lock_path, cap, "%s/" CTL_PID_FILE, c->run_dir);
    if ((rc = os_lock_take(ret_lock, lock_path, e)) != 0) {
        return rc == ERR_CONFLICT
                   ? err_set(
                         e, rc,
                         "another cofferdam runs in %s; stop it or set another cofferdam.run_dir",
                         c->run_dir)
                   : rc;
    }
    for (size_t i = 0; i < sizeof(stale) / sizeof(stale[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", c->run_dir, stale[i]);
        (void)unlink(path);
    }
    sockets_remove(c->run_dir);
    return 0;
}

static int listen_one(struct ctl_super *s, const char *listen_addr, const char *key,
                      const char *file, struct err *e)
{
    char addr[128];
    int rc = ctl_listen(&s->listen_fds[s->listen_count], addr, sizeof(addr), listen_addr, key, e);

    if (rc != 0) {
        return rc;
    }
    if (s->listen_count++ == 0) {
        (void)ctl_listen_url(s->url, sizeof(s->url), addr);
    }
    return os_file_replace(s->cfg->run_dir, file, addr, strlen(addr), e);
}

static int open_sockets(struct ctl_super *s, struct err *e)
{
    const struct cfg *c = s->cfg;
    int rc;

    if (c->frontends == 0) {
        return 0;
    }
    if ((rc = listen_one(s, c->listen, "cofferdam.listen", CTL_HTTP_ADDR, e)) != 0 ||
        c->admin_listen[0] == '\0') {
        return rc;
    }
    return listen_one(s, c->admin_listen, "cofferdam.admin_listen", CTL_ADMIN_ADDR, e);
}

static void clean_up(struct ctl_super *s, const char *run_dir, const char *lock_path, int lock)
{
    static const char *const files[] = {CTL_HTTP_ADDR, CTL_ADMIN_ADDR, CTL_RELOAD_RESULT,
                                        CTL_CONFIG_COPY};
    char path[512];

    for (unsigned i = 0; i < s->listen_count; i++) {
        (void)close(s->listen_fds[i]);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", run_dir, files[i]);
        (void)unlink(path);
    }
    sockets_remove(run_dir);
    os_lock_release(lock, lock_path);
}

/* Validates the operator's file and keeps its bytes. */
static int load(struct bytes *text, struct cfg **ret, const char *file, struct err *e)
{
    int rc = ctl_read_file(text, file, e);

    if (rc != 0 ||
        (rc = ctl_validate(file, sv_from(text->p, text->n), cfg_log_notice, NULL, e)) != 0) {
        return rc;
    }
    return cfg_load_text(ret, file, sv_from(text->p, text->n), CFG_FOR_CTL, NULL, NULL, e);
}

int ctl_cmd_up(const struct ctl_opts *o)
{
    struct ctl_super *s = &super;
    struct bytes text = {0};
    struct err e = {0};
    char lock_path[512];
    char run_dir[128];
    int lock = -1;
    bool is_run = false;
    int rc;

    bytes_init(&text, 0);
    s->file = o->config;
    if ((rc = load(&text, &s->cfg, o->config, &e)) != 0 ||
        (rc = prepare_dirs(s->cfg, lock_path, sizeof(lock_path), &lock, &e)) != 0) {
        goto out;
    }
    enum log_level level = LOG_LEVEL_INFO;

    (void)log_level_parse(sv_of(s->cfg->log_level), &level);
    log_set_level(level);
    cfg_taken(s->cfg);
    (void)snprintf(run_dir, sizeof(run_dir), "%s", s->cfg->run_dir);
    (void)snprintf(s->config_path, sizeof(s->config_path), "%s/" CTL_CONFIG_COPY, run_dir);
    if ((rc = os_file_replace(run_dir, CTL_CONFIG_COPY, text.p != NULL ? text.p : "", text.n,
                              &e)) == 0) {
        rc = open_sockets(s, &e);
    }
    (void)os_fds_raise_limit(); /* for the frontends' connections */
    if (rc == 0) {
        is_run = true;
        rc = ctl_super_run(s, s->cfg);
        e.text[0] = '\0';
    }
    clean_up(s, run_dir, lock_path, lock);
out:
    if (text.p != NULL) {
        mem_wipe(text.p, text.n);
    }
    bytes_fini(&text);
    if (!is_run) { /* the supervisor gave it back */
        cfg_unref(s->cfg);
    }
    s->cfg = NULL;
    if (rc != 0 && e.text[0] != '\0') {
        return ctl_complain(&e);
    }
    return rc != 0 ? 1 : 0;
}
