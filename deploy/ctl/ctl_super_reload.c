/* A new configuration: validated for every role first; refused as a whole or taken as a whole. The
 * daemons read the supervisor's copy, so none of them sees a file that was not validated, and one
 * that is started again later reads the same as the others. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/cfg_log.h"
#include "config/cfg_text.h"
#include "ctl.h"
#include "ctl_super.h"
#include "os/os_proc.h"

static void tell(struct ctl_super *s, const char *verdict)
{
    char text[ERR_TEXT_MAX + 64];
    int n = snprintf(text, sizeof(text), "%lu %s\n", ++s->reloads, verdict);

    (void)os_file_replace(s->cfg->run_dir, CTL_RELOAD_RESULT, text, (size_t)n, NULL);
}

/* What only a start can change. */
static int check_fixed(const struct cfg *old, const struct cfg *now, struct err *e)
{
    const struct {
        const char *key;
        bool is_same;
    } fixed[] = {
        {"listen", strcmp(old->listen, now->listen) == 0},
        {"admin_listen", strcmp(old->admin_listen, now->admin_listen) == 0},
        {"run_dir", strcmp(old->run_dir, now->run_dir) == 0},
        {"state_dir", strcmp(old->state_dir, now->state_dir) == 0},
        {"frontends", (old->frontends == 0) == (now->frontends == 0)},
    };

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (!fixed[i].is_same) {
            return err_set(e, ERR_CONFIG,
                           "%s: cofferdam.%s: cannot change while running; restart cofferdam up",
                           now->file, fixed[i].key);
        }
    }
    return 0;
}

static int load(struct ctl_super *s, struct bytes *text, struct cfg **ret, struct err *e)
{
    int rc = ctl_read_file(text, s->file, e);

    if (rc != 0 ||
        (rc = ctl_validate(s->file, sv_from(text->p, text->n), cfg_log_notice, NULL, e)) != 0) {
        return rc;
    }
    return cfg_load_text(ret, s->file, sv_from(text->p, text->n), CFG_FOR_CTL, NULL, NULL, e);
}

static void take(struct ctl_super *s, struct cfg *now)
{
    cfg_unref(s->cfg);
    s->cfg = now;
    LIST_FOREACH_SAFE (l, next, &s->children) {
        struct ctl_child *c = CONTAINER_OF(l, struct ctl_child, link);

        if (c->state == CTL_CHILD_RUNNING) {
            (void)kill(c->pid, SIGHUP);
        }
    }
    ctl_super_adjust(s);
}

void ctl_super_reload(struct ctl_super *s)
{
    struct bytes text = {0};
    struct cfg *now = NULL;
    struct err e = {0};
    int rc;

    bytes_init(&text, 0);
    if ((rc = load(s, &text, &now, &e)) == 0 && (rc = check_fixed(s->cfg, now, &e)) == 0 &&
        (rc = os_file_replace(s->cfg->run_dir, CTL_CONFIG_COPY, text.p, text.n, &e)) == 0) {
        rc = ctl_env_load(s, s->config_path, &e);
    }
    if (text.p != NULL) {
        mem_wipe(text.p, text.n);
    }
    bytes_fini(&text);
    if (rc != 0) {
        LOG(CONFIG_REJECTED, NULL, KV_S("file", s->file), KV_ERR(&e));
        cfg_unref(now);
        tell(s, e.text);
        return;
    }
    cfg_taken(now);
    take(s, now);
    tell(s, "ok");
}
