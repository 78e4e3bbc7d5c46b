/* wk_deploy.h - which deployment of a model group is tried next. Pure: the caller brings the clock.
 *
 * Lower `order` first; among equals a smooth weighted rotation. A deployment that failed
 * WK_DEPLOY_FAILS_MAX times in a row rests for WK_DEPLOY_COOL_MS and is used meanwhile only when
 * nothing else is left. Within one call each deployment is tried once before any is tried again. */
#ifndef CFD_WORKERS_WK_DEPLOY_H
#define CFD_WORKERS_WK_DEPLOY_H

#include "config/cfg.h"

#define WK_DEPLOY_MAX       64 /* deployments of one group that are looked at */
#define WK_DEPLOY_FAILS_MAX 3
#define WK_DEPLOY_COOL_MS   5000

/* A deployment's health. */
struct wk_dep {
    unsigned fails; /* in a row */
    uint64_t cool_until_ms;
    int64_t weight_now; /* of the rotation */
};

/* The deployments one call may use. `cfg` and `deps` are borrowed. */
struct wk_pick {
    const struct cfg *cfg;
    struct wk_dep
        *deps; /* by deployment index; NULL = no health is kept (an older configuration) */
    unsigned count;
    unsigned index[WK_DEPLOY_MAX];
    uint64_t tried; /* bit per entry of `index` */
};

/* Those of `model` (only of `provider` unless NULL). Returns how many. */
unsigned wk_pick_init(struct wk_pick *p, const struct cfg *cfg, struct wk_dep *deps,
                      struct str_view model, const char *provider);
/* Only this one. */
void wk_pick_init_one(struct wk_pick *p, const struct cfg *cfg, struct wk_dep *deps,
                      const struct cfg_deployment *d);
/* The next one to try; REQUIREs count > 0. */
const struct cfg_deployment *wk_pick_next(struct wk_pick *p, uint64_t now_ms);
/* Is there one that was not tried and does not rest? */
bool wk_pick_has_other(const struct wk_pick *p, uint64_t now_ms);
/* What the last try of `d` came to. */
void wk_pick_note(struct wk_pick *p, const struct cfg_deployment *d, bool is_ok, uint64_t now_ms);

/* The name the provider is sent: a '*' in its configured name stands for what '*' matched in the
 * group's name. */
int wk_deploy_model(const struct cfg_deployment *d, struct str_view asked, struct bytes *out);

#endif
