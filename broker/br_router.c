#include "br_router.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/plane.h"

#define PLANES_MAX 2U
#define SEND_HWM                                                                                   \
    100000 /* messages to one peer: the output of many runs of code may be on its way to one       \
              worker */
#define Z85_KEY_BYTES 40

struct br_port {
    struct br_router *router;
    struct plane *plane;
    unsigned index;
};

struct br_router {
    struct br_port ports[PLANES_MAX];
    unsigned open;
    br_router_event_cb on_event;
    void *ctx;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    bool is_closing;
};

static void on_plane_msg(void *ctx, const struct plane_in *in)
{
    const struct br_port *port = ctx;
    struct br_event ev = {.kind = BR_EV_MSG,
                          .from = {port->index, in->peer},
                          .head = in->head,
                          .frame0 = in->frame0,
                          .fields = in->fields,
                          .payload = in->payload};

    port->router->on_event(port->router->ctx, &ev);
}

static void on_plane_bad(void *ctx, struct str_view peer, const struct err *e)
{
    const struct br_port *port = ctx;
    struct br_event ev = {.kind = BR_EV_BAD, .from = {port->index, peer}, .code = e->code};

    LOG(PEER_BAD, NULL, KV_S("endpoint", plane_endpoint(port->plane)), KV_ERR(e));
    port->router->on_event(port->router->ctx, &ev);
}

static int port_open(struct br_router *r, unsigned index, struct loop *loop, const char *endpoint,
                     const struct plane_curve *curve, struct err *e)
{
    struct br_port *port = &r->ports[index];
    struct plane_opts opts = {.kind = PLANE_ROUTER,
                              .endpoint = endpoint,
                              .send_hwm = SEND_HWM,
                              .recv_hwm = SEND_HWM,
                              .curve = curve};
    struct plane_hooks hooks = {.on_msg = on_plane_msg, .on_bad = on_plane_bad, .ctx = port};
    int rc;

    port->router = r;
    port->index = index;
    if ((rc = plane_open(&port->plane, loop, &opts, &hooks, e)) == 0) {
        r->open++;
    }
    return rc;
}

static int tcp_open(struct br_router *r, struct loop *loop, const struct cfg *cfg, struct err *e)
{
    char secret[Z85_KEY_BYTES + 1] = "";
    struct plane_curve curve = {.public_key = cfg->curve.public_key,
                                .secret_key = secret,
                                .allowed = (const char *const *)cfg->curve.allowed};
    bool has_curve = cfg->curve.secret_key != NULL;
    int rc;

    if (has_curve) {
        (void)sv_copy(secret, sizeof(secret), secret_view(cfg->curve.secret_key));
    }
    rc = port_open(r, 1, loop, cfg->broker_listen, has_curve ? &curve : NULL, e);
    mem_wipe(secret, sizeof(secret));
    return rc;
}

int br_router_open(struct br_router **ret, struct loop *loop, const struct cfg *cfg,
                   br_router_event_cb on_event, void *ctx, struct err *e)
{
    struct br_router *r = mem_zalloc(sizeof(*r));
    char endpoint[160];
    int rc;

    if (r == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    r->on_event = on_event;
    r->ctx = ctx;
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/broker.sock", cfg->run_dir);
    if ((rc = port_open(r, 0, loop, endpoint, NULL, e)) != 0) {
        mem_free(r);
        return rc;
    }
    if (cfg->broker_listen[0] != '\0' && (rc = tcp_open(r, loop, cfg, e)) != 0) {
        br_router_close(r, NULL, NULL);
        return rc;
    }
    *ret = r;
    return 0;
}

int br_router_send(struct br_router *r, const struct br_addr *to, struct str_view frame0,
                   struct buf *payload)
{
    if (r->is_closing || to->plane >= PLANES_MAX || r->ports[to->plane].plane == NULL) {
        return ERR_NOT_FOUND;
    }
    return plane_send(r->ports[to->plane].plane, to->id, frame0, payload);
}

const char *br_router_endpoint(const struct br_router *r, unsigned plane)
{
    return plane < PLANES_MAX && r->ports[plane].plane != NULL
               ? plane_endpoint(r->ports[plane].plane)
               : NULL;
}

static void on_plane_closed(void *ctx)
{
    struct br_router *r = ctx;

    if (--r->open == 0) {
        void (*on_closed)(void *ctx) = r->on_closed;
        void *closed_ctx = r->closed_ctx;

        mem_free(r);
        if (on_closed != NULL) {
            on_closed(closed_ctx);
        }
    }
}

void br_router_close(struct br_router *r, void (*on_closed)(void *ctx), void *ctx)
{
    unsigned planes = 0;
    struct plane *open[PLANES_MAX];

    r->is_closing = true;
    r->on_closed = on_closed;
    r->closed_ctx = ctx;
    for (unsigned i = 0; i < PLANES_MAX; i++) {
        if (r->ports[i].plane != NULL) {
            open[planes++] = r->ports[i].plane;
            r->ports[i].plane = NULL;
        }
    }
    for (unsigned i = 0; i < planes; i++) {
        plane_close(open[i], on_plane_closed, r); /* the last one may free r, now */
    }
}
