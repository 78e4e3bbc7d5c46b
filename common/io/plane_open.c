/* Opening a plane: options, keys, monitor, bind or connect. What it does afterwards is in plane.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/mem.h"
#include "io/plane_priv.h"

#define HWM_DEFAULT      10000
#define LINGER_MS        500
#define RECONNECT_MS     20
#define RECONNECT_MAX_MS 500
#define ROUTING_ID_MAX   64U

static int opt_int(void *sock, int name, int v)
{
    return zmq_setsockopt(sock, name, &v, sizeof(v));
}

static int options_set(struct plane *p, const struct plane_opts *o, struct err *e)
{
    int64_t size_max = (int64_t)PLANE_PAYLOAD_MAX;
    int rc = opt_int(p->sock, ZMQ_LINGER, LINGER_MS);

    rc |= opt_int(p->sock, ZMQ_SNDHWM, o->send_hwm > 0 ? o->send_hwm : HWM_DEFAULT);
    rc |= opt_int(p->sock, ZMQ_RCVHWM, o->recv_hwm > 0 ? o->recv_hwm : HWM_DEFAULT);
    rc |= zmq_setsockopt(p->sock, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max));
    if (strncmp(p->endpoint, "tcp://", 6) == 0) {
        rc |= opt_int(p->sock, ZMQ_TCP_KEEPALIVE, 1);
        rc |= opt_int(p->sock, ZMQ_TCP_KEEPALIVE_IDLE, 30);
        rc |= opt_int(p->sock, ZMQ_IPV6, strchr(p->endpoint, '[') != NULL);
    }
    if (p->kind == PLANE_ROUTER) {
        rc |= opt_int(p->sock, ZMQ_ROUTER_MANDATORY, 1);
        rc |= opt_int(p->sock, ZMQ_ROUTER_HANDOVER, 1);
    } else {
        rc |= opt_int(p->sock, ZMQ_IMMEDIATE, 1);
        rc |= opt_int(p->sock, ZMQ_RECONNECT_IVL, RECONNECT_MS);
        rc |= opt_int(p->sock, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    }
    if (rc == 0 && p->kind == PLANE_DEALER && o->routing_id != NULL) {
        size_t n = strlen(o->routing_id);

        if (n == 0 || n > ROUTING_ID_MAX) {
            return err_set(e, ERR_CONFIG, "a process name must have 1 to %u bytes", ROUTING_ID_MAX);
        }
        rc = zmq_setsockopt(p->sock, ZMQ_ROUTING_ID, o->routing_id, n);
    }
    return rc == 0 ? 0 : plane_zmq_err(e, "cannot set socket options");
}

static bool has_key(const char *key)
{
    return key != NULL && key[0] != '\0';
}

static bool has_curve(const struct plane_curve *c)
{
    return c != NULL && (has_key(c->secret_key) || has_key(c->public_key));
}

static int key_set(void *sock, int name, const char *key, const char *what, struct err *e)
{
    if (!has_key(key) || strlen(key) != 40 || zmq_setsockopt(sock, name, key, 40) != 0) {
        return err_set(e, ERR_CONFIG,
                       "the CURVE %s key is missing or not a Z85 key of 40 characters", what);
    }
    return 0;
}

static int curve_set(struct plane *p, const struct plane_curve *c, struct err *e)
{
    static _Atomic unsigned next_domain;
    int rc = key_set(p->sock, ZMQ_CURVE_SECRETKEY, c->secret_key, "secret", e);

    if (rc != 0 || (rc = key_set(p->sock, ZMQ_CURVE_PUBLICKEY, c->public_key, "public", e)) != 0) {
        return rc;
    }
    if (p->kind == PLANE_DEALER) {
        return key_set(p->sock, ZMQ_CURVE_SERVERKEY, c->server_key, "server", e);
    }
    (void)snprintf(p->zap_domain, sizeof(p->zap_domain), "cofferdam-%u", next_domain++);
    if ((rc = plane_zap_add(p->set, p->zap_domain, c->allowed, e)) != 0) {
        return rc;
    }
    if (opt_int(p->sock, ZMQ_CURVE_SERVER, 1) != 0 ||
        zmq_setsockopt(p->sock, ZMQ_ZAP_DOMAIN, p->zap_domain, strlen(p->zap_domain)) != 0) {
        return plane_zmq_err(e, "cannot turn CURVE on");
    }
    return 0;
}

static int monitor_open(struct plane *p, struct err *e)
{
    static _Atomic unsigned next_monitor;
    int events = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    char name[64];

    if (p->kind == PLANE_DEALER) {
        events |= ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
    }
    (void)snprintf(name, sizeof(name), "inproc://cofferdam-monitor-%u", next_monitor++);
    if (zmq_socket_monitor(p->sock, name, events) != 0 ||
        (p->monitor = zmq_socket(p->set->zmq, ZMQ_PAIR)) == NULL ||
        opt_int(p->monitor, ZMQ_LINGER, 0) != 0 || zmq_connect(p->monitor, name) != 0) {
        return plane_zmq_err(e, "cannot watch the connection");
    }
    return 0;
}

static int transport_start(struct plane *p, struct err *e)
{
    size_t n = sizeof(p->endpoint);
    int rc = 0;

    if (p->kind == PLANE_DEALER) {
        return zmq_connect(p->sock, p->endpoint) == 0 ? 0 : plane_zmq_err(e, p->endpoint);
    }
    if ((rc = plane_addr_prepare(p->endpoint, e)) != 0) {
        return rc;
    }
    if (zmq_bind(p->sock, p->endpoint) != 0) {
        return plane_zmq_err(e, p->endpoint);
    }
    if (zmq_getsockopt(p->sock, ZMQ_LAST_ENDPOINT, p->endpoint, &n) != 0) {
        return plane_zmq_err(e, p->endpoint);
    }
    p->file = plane_addr_file(p->endpoint);
    return 0;
}

int plane_open(struct plane **ret, struct loop *loop, const struct plane_opts *opts,
               const struct plane_hooks *hooks, struct err *e)
{
    struct plane *p = NULL;
    int rc = plane_addr_check(opts->endpoint, has_curve(opts->curve), e);

    if (rc != 0) {
        return rc;
    }
    if ((p = mem_zalloc(sizeof(*p))) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    if ((rc = plane_set_get(&p->set, loop, e)) != 0) {
        mem_free(p);
        return rc;
    }
    closer_init(&p->closer, plane_on_closed, p);
    p->hooks = *hooks;
    p->kind = opts->kind;
    (void)snprintf(p->endpoint, sizeof(p->endpoint), "%s", opts->endpoint);
    if ((p->sock = zmq_socket(p->set->zmq, p->kind == PLANE_ROUTER ? ZMQ_ROUTER : ZMQ_DEALER)) ==
        NULL) {
        rc = plane_zmq_err(e, "cannot create a socket");
    } else if ((rc = options_set(p, opts, e)) == 0 && (rc = monitor_open(p, e)) == 0 &&
               (!has_curve(opts->curve) || (rc = curve_set(p, opts->curve, e)) == 0) &&
               (rc = transport_start(p, e)) == 0 && (rc = plane_watch(p, e)) == 0) {
        *ret = p;
        return 0;
    }
    plane_sockets_close(p);
    closer_finish(&p->closer); /* frees p, now or when the handles have closed */
    return rc;
}

int plane_curve_keypair(char public_key[41], char secret_key[41])
{
    return zmq_curve_keypair(public_key, secret_key) == 0 ? 0 : ERR_NOT_IMPLEMENTED;
}
