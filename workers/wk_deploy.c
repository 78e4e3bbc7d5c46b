/* wk_deploy.c - see wk_deploy.h. */
#include "wk_deploy.h"

#include "base/check.h"

unsigned wk_pick_init(struct wk_pick *p, const struct cfg *cfg, struct wk_dep *deps,
                      struct str_view model, const char *provider)
{
    unsigned found[WK_DEPLOY_MAX];
    unsigned n = cfg_find_deployments(cfg, model, found, WK_DEPLOY_MAX);

    p->cfg = cfg;
    p->deps = deps;
    p->count = 0;
    p->tried = 0;
    for (unsigned i = 0; i < n; i++) {
        if (provider == NULL || strcmp(cfg->deployments[found[i]].provider, provider) == 0) {
            p->index[p->count++] = found[i];
        }
    }
    return p->count;
}

void wk_pick_init_one(struct wk_pick *p, const struct cfg *cfg, struct wk_dep *deps,
                      const struct cfg_deployment *d)
{
    p->cfg = cfg;
    p->deps = deps;
    p->count = 1;
    p->tried = 0;
    p->index[0] = (unsigned)(d - cfg->deployments);
}

static bool is_resting(const struct wk_pick *p, unsigned i, uint64_t now_ms)
{
    return p->deps != NULL && p->deps[p->index[i]].cool_until_ms > now_ms;
}

static bool is_open(const struct wk_pick *p, unsigned i, uint64_t now_ms, bool with_resting)
{
    return (p->tried & (1ULL << i)) == 0 && (with_resting || !is_resting(p, i, now_ms));
}

/* Best open entry, or `count`. */
static unsigned choose(struct wk_pick *p, uint64_t now_ms, bool with_resting)
{
    unsigned order = UINT32_MAX;
    unsigned best = p->count;
    int64_t total = 0;

    for (unsigned i = 0; i < p->count; i++) {
        unsigned o = p->cfg->deployments[p->index[i]].order;
        if (is_open(p, i, now_ms, with_resting) && o < order) {
            order = o;
        }
    }
    for (unsigned i = 0; i < p->count; i++) {
        const struct cfg_deployment *d = &p->cfg->deployments[p->index[i]];
        if (!is_open(p, i, now_ms, with_resting) || d->order != order) {
            continue;
        }
        if (p->deps == NULL) {
            return i;
        }
        p->deps[p->index[i]].weight_now += d->weight;
        total += d->weight;
        if (best == p->count ||
            p->deps[p->index[i]].weight_now > p->deps[p->index[best]].weight_now) {
            best = i;
        }
    }
    if (best < p->count) {
        p->deps[p->index[best]].weight_now -= total;
    }
    return best;
}

const struct cfg_deployment *wk_pick_next(struct wk_pick *p, uint64_t now_ms)
{
    unsigned i = 0;

    REQUIRE(p->count > 0);
    if (p->count > 1) {
        i = choose(p, now_ms, false);
        if (i == p->count) {
            i = choose(p, now_ms, true);
        }
        if (i == p->count) {
            p->tried = 0;
            i = choose(p, now_ms, false);
        }
        if (i == p->count) {
            i = choose(p, now_ms, true);
        }
    }
    p->tried |= 1ULL << i;
    return &p->cfg->deployments[p->index[i]];
}

bool wk_pick_has_other(const struct wk_pick *p, uint64_t now_ms)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (is_open(p, i, now_ms, false)) {
            return true;
        }
    }
    return false;
}

void wk_pick_note(struct wk_pick *p, const struct cfg_deployment *d, bool is_ok, uint64_t now_ms)
{
    struct wk_dep *h;

    if (p->deps == NULL || p->count < 2) {
        return; /* alone, it is used whatever happens */
    }
    h = &p->deps[d - p->cfg->deployments];
    if (is_ok) {
        h->fails = 0;
        h->cool_until_ms = 0;
    } else if (++h->fails >= WK_DEPLOY_FAILS_MAX) {
        h->fails = 0;
        h->cool_until_ms = now_ms + WK_DEPLOY_COOL_MS;
    }
}

int wk_deploy_model(const struct cfg_deployment *d, struct str_view asked, struct bytes *out)
{
    struct str_view model = sv_of(d->model);
    size_t star = sv_find(model, '*');
    size_t group_star = sv_find(sv_of(d->model_name), '*');

    if (star == model.n) {
        return bytes_put_sv(out, model);
    }
    (void)bytes_put(out, model.p, star);
    if (group_star < asked.n) {
        (void)bytes_put(out, asked.p + group_star, asked.n - group_star);
    }
    return bytes_put(out, model.p + star + 1, model.n - star - 1);
}
