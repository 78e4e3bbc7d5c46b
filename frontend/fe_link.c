#include "fe_link.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "fe_app.h"
#include "fe_request.h"

static void counts_set(struct fe_link *l, uint32_t workers, uint32_t sandboxds)
{
    l->workers = workers;
    l->sandboxds = sandboxds;
}

static void on_up(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w)
{
    struct fe_link *l = ctx;
    bool is_again = l->was_up;

    (void)is_new_broker; /* a reconnect may have lost messages as well: both submit again */
    l->was_up = true;
    counts_set(l, w->workers, w->sandboxds);
    fe_request_on_broker_up(l->fe, l->index, is_again);
}

static void on_down(void *ctx)
{
    counts_set(ctx, 0, 0);
}

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct fe_link *l = ctx;
    struct msg_body_HEARTBEAT hb;
    struct err e = {0};

    switch (in->head.type) {
    case MSG_HEARTBEAT:
        if (msg_decode_HEARTBEAT(&hb, in->fields) == 0) {
            counts_set(l, hb.workers, hb.sandboxds);
        }
        break;
    case MSG_REFUSE:
        fe_request_on_refuse(l->fe, in);
        break;
    case MSG_LOST:
        fe_request_on_lost(l->fe, in);
        break;
    case MSG_STATS_REPLY:
        fe_admin_on_reply(l->fe, in);
        break;
    case MSG_BYE:
        break; /* the link goes down and comes back by itself */
    default:
        err_set(&e, ERR_PEER_FORBIDDEN, "%s from a broker", msg_name(in->head.type));
        LOG(PEER_BAD, NULL, KV_ERR(&e));
        break;
    }
}

static uint32_t on_load(void *ctx)
{
    struct fe_link *l = ctx;

    return (uint32_t)map_count(l->fe->requests);
}

static void on_stats(void *ctx, struct bytes *out)
{
    struct fe_link *l = ctx;

    fe_app_snapshot(l->fe, out);
}

static void on_writable(void *ctx)
{
    struct fe_link *l = ctx;

    fe_request_retry_sends(l->fe, l->index);
}

int fe_links_open(struct fe *fe, struct err *e)
{
    struct cfg_curve *k = &fe->cfg->curve;
    char secret[64] = "";
    struct plane_curve curve = {.public_key = k->public_key, .server_key = k->broker_key};
    int rc = 0;

    if (k->secret_key != NULL) {
        (void)sv_copy(secret, sizeof(secret), secret_view(k->secret_key));
        curve.secret_key = secret;
    }
    for (char **b = fe->cfg->brokers; b != NULL && *b != NULL && rc == 0; b++) {
        struct fe_link *l = &fe->links.at[fe->links.count];
        struct link_hooks hooks = {.on_up = on_up,
                                   .on_down = on_down,
                                   .on_msg = on_msg,
                                   .on_load = on_load,
                                   .on_stats = on_stats,
                                   .on_writable = on_writable,
                                   .ctx = l};
        struct link_opts opts = {
            .endpoint = *b,
            .role = MSG_ROLE_FRONTEND,
            .name = fe->name,
            .own_endpoint = fe_return_endpoint(fe),
            .curve = curve.secret_key != NULL && strncmp(*b, "tcp://", 6) == 0 ? &curve : NULL};

        if (fe->links.count == FE_LINKS_MAX) {
            rc = err_set(e, ERR_CONFIG, "more than %u brokers", FE_LINKS_MAX);
            break;
        }
        l->fe = fe;
        l->index = fe->links.count;
        rc = link_open(&l->link, &fe->loop, &opts, &hooks, e);
        if (rc == 0) {
            fe->links.count++;
        }
    }
    mem_wipe(secret, sizeof(secret));
    return rc;
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

void fe_links_close(struct fe *fe)
{
    for (unsigned i = 0; i < fe->links.count; i++) {
        if (fe->links.at[i].link != NULL) {
            link_close(fe->links.at[i].link, on_closed, NULL);
            fe->links.at[i].link = NULL;
        }
    }
}

void fe_links_say_bye(struct fe *fe)
{
    for (unsigned i = 0; i < fe->links.count; i++) {
        if (fe_links_is_up(fe, i)) {
            link_say_bye(fe->links.at[i].link);
        }
    }
}

bool fe_links_is_up(const struct fe *fe, unsigned index)
{
    return index < fe->links.count && fe->links.at[index].link != NULL &&
           link_is_up(fe->links.at[index].link);
}

unsigned fe_links_choose(const struct fe *fe, const struct tenant_id *tenant)
{
    unsigned n = fe->links.count;
    unsigned first = n > 1 ? ((unsigned)tenant->b[0] << 8 | tenant->b[1]) % n : 0;

    for (unsigned i = 0; i < n; i++) {
        if (fe_links_is_up(fe, (first + i) % n)) {
            return (first + i) % n;
        }
    }
    return FE_LINK_NONE;
}

int fe_links_send(struct fe *fe, unsigned index, struct str_view frame0, struct buf *payload)
{
    return fe_links_is_up(fe, index) ? link_send(fe->links.at[index].link, frame0, payload)
                                     : ERR_AGAIN;
}

void fe_links_counts(const struct fe *fe, unsigned *ret_up, uint32_t *ret_workers,
                     uint32_t *ret_sandboxds)
{
    *ret_up = 0;
    *ret_workers = *ret_sandboxds = 0;
    for (unsigned i = 0; i < fe->links.count; i++) {
        if (fe_links_is_up(fe, i)) {
            (*ret_up)++;
            *ret_workers += fe->links.at[i].workers;
            *ret_sandboxds += fe->links.at[i].sandboxds;
        }
    }
}
