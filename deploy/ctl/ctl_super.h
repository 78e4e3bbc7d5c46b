/* ctl_super.h - the supervisor of `cofferdam up`: starts the daemons, starts dead ones again,
 * reloads, stops in order.
 *
 *   a child:   WAITING --start--> RUNNING --died--> WAITING (back-off)
 *              RUNNING --told to stop--> STOPPING --died--> GONE      WAITING --not wanted--> GONE
 * --wanted--> WAITING stopping:  frontends, then workers, then sandboxd, then the broker; each kind
 * gets its time, then SIGKILL
 *
 * Threads:  loop thread. Children die with this process (PR_SET_PDEATHSIG).
 * Secrets:  a child's environment holds a fixed short list and the variables that its role reads
 * from the configuration; nothing secret is in an argument list. */
#ifndef CFD_CTL_SUPER_H
#define CFD_CTL_SUPER_H

#include <sys/types.h>

#include "base/list.h"
#include "config/cfg.h"
#include "ctl_backoff.h"
#include "ctl_child_table.h"
#include "io/closer.h"
#include "io/loop.h"
#include "io/uvcurl.h"

#define CTL_EARLY_FAILURES_MAX                                                                     \
    5U /* deaths of one child in a row, before the first readiness, that end the start */

enum ctl_kind {
#define X(KIND, ...) CTL_KIND_##KIND,
    CTL_CHILD_TABLE(X)
#undef X
        CTL_KIND_COUNT
};

enum ctl_child_state { CTL_CHILD_WAITING, CTL_CHILD_RUNNING, CTL_CHILD_STOPPING, CTL_CHILD_GONE };

struct ctl_child {
    struct list_link link;
    struct ctl_super *super;
    enum ctl_kind kind;
    unsigned index;
    unsigned state; /* enum ctl_child_state; written by child_move only */
    char name[32];
    pid_t pid; /* 0 = none */
    uint64_t started_ms;
    struct ctl_backoff backoff;
    uv_timer_t timer; /* next start */
};

struct ctl_super {
    struct loop loop;
    struct closer closer;
    struct list children;
    struct cfg *cfg;  /* owned reference */
    const char *file; /* the operator's file; borrowed */
    char exe_dir[512];
    char config_path[256]; /* the copy that the daemons read */
    int listen_fds[2];
    unsigned listen_count;
    char url[128]; /* "" when no frontend runs here */
    char **env_names[CTL_KIND_COUNT];
    uv_signal_t sig_child;
    uv_timer_t phase_timer;
    uv_timer_t ready_timer;
    struct uvcurl *curl; /* while not ready */
    struct uvcurl_xfer *probe;
    int probe_status;
    unsigned probes;
    unsigned probes_good; /* in a row */
    unsigned long reloads;
    int phase; /* kind being stopped, or CTL_KIND_COUNT while running */
    bool is_ready;
    bool is_failed; /* exit code 1 */
};

/* Takes over `cfg`. listen_fds, listen_count, url, file and config_path are filled in by the
 * caller. Returns the exit code. */
int ctl_super_run(struct ctl_super *s, struct cfg *cfg);

/* ctl_super_env.c */
/* Variables that the roles need from the file, into s->env_names; on error nothing changed. */
int ctl_env_load(struct ctl_super *s, const char *file, struct err *e);
/* Environment of a child: owned array and strings, freed with cfg_names_free. NULL on out of
 * memory. */
char **ctl_env_make(const struct ctl_super *s, enum ctl_kind kind);
void ctl_env_free(struct ctl_super *s);

/* ctl_super_ready.c: asks /readyz until it is, then prints the line. */
int ctl_ready_start(struct ctl_super *s, struct err *e);
void ctl_ready_stop(struct ctl_super *s);

/* ctl_super_reload.c */
void ctl_super_reload(struct ctl_super *s);

/* Makes the number of children what s->cfg wants. */
void ctl_super_adjust(struct ctl_super *s);

#endif
