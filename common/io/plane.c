#include "io/plane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/plane_priv.h"

/* Messages handled in one turn of the loop; then others get theirs. */
#define TURN_MESSAGES_MAX 64U
/* Payloads up to this size are copied out of a received message, larger ones keep it alive. */
#define PAYLOAD_COPY_MAX  4096U
/* Sending: below, a copy is cheaper than a reference that another thread drops. */
#define SEND_COPY_MAX     1024U
#define HWM_DEFAULT       10000
#define LINGER_MS         500
#define RECONNECT_MS      20
#define RECONNECT_MAX_MS  500
#define WRITABLE_RETRY_MS 5U
#define ROUTING_ID_MAX    64U
#define PARTS_MAX         3U /* routing id, frame 0, frame 1 */

struct plane {
    struct plane_turn turn;
    struct plane_set *set;
    struct plane_hooks hooks;
    enum plane_kind kind;
    void *sock;
    void *monitor;
    uv_poll_t poll;
    uv_poll_t monitor_poll;
    uv_timer_t retry; /* on_writable of a ROUTER: which peer has room is not told */
    struct closer closer;
    bool is_up;
    bool is_in_turn;  /* receiving: sends need no mark, the turn ends with a look */
    bool wants_write; /* ERR_AGAIN was returned */
    bool may_be_writable;
    bool is_bad_told;      /* a failing handshake is reported once until it works */
    bool is_monitor_armed; /* it was read until nothing was left, once */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    struct plane_addr_file file; /* of a bound ipc endpoint */
    char zap_domain[32];         /* "" = no CURVE */
    char endpoint[MSG_ENDPOINT_MAX + 1];
};

static void bad(struct plane *p, struct str_view peer, const struct err *e)
{
    if (p->hooks.on_bad != NULL && !closer_is_closing(&p->closer)) {
        p->hooks.on_bad(p->hooks.ctx, peer, e);
    }
}

/* --- receiving ------------------------------------------------------------------------------- */

static void received_free(struct buf *b)
{
    zmq_msg_t *m = b->foreign;

    (void)zmq_msg_close(m);
    mem_free(m);
}

/* A buf of the message's bytes; a large message is moved into it (and left empty). NULL on out of
 * memory. */
static struct buf *payload_take(zmq_msg_t *m)
{
    zmq_msg_t *kept = NULL;
    struct buf *b = NULL;

    if (zmq_msg_size(m) <= PAYLOAD_COPY_MAX) {
        return buf_copy(zmq_msg_data(m), zmq_msg_size(m));
    }
    if ((kept = mem_alloc(sizeof(*kept))) == NULL) {
        return NULL;
    }
    (void)zmq_msg_init(kept);
    (void)zmq_msg_move(kept, m);
    if ((b = buf_wrap(zmq_msg_data(kept), zmq_msg_size(kept), received_free, kept)) == NULL) {
        (void)zmq_msg_close(kept);
        mem_free(kept);
    }
    return b;
}

static void message_deliver(struct plane *p, zmq_msg_t *parts, const struct str_view *views,
                            size_t count)
{
    size_t skip = p->kind == PLANE_ROUTER ? 1 : 0;
    struct plane_in in = {.peer = skip != 0 ? views[0] : (struct str_view){NULL, 0}};
    struct str_view payload;
    struct err e = {0};

    if (plane_frame_decode(&in, &payload, views + skip, count - skip, &e) != 0) {
        bad(p, in.peer, &e);
        return;
    }
    if (payload.n > 0 && (in.payload = payload_take(&parts[skip + 1])) == NULL) {
        (void)err_set(&e, ERR_NOMEM, "no memory for a payload of %zu bytes", payload.n);
        bad(p, in.peer, &e);
        return;
    }
    p->hooks.on_msg(p->hooks.ctx, &in);
    buf_unref(in.payload);
}

static int part_recv(zmq_msg_t *m, void *sock)
{
    int rc = 0;

    while ((rc = zmq_msg_recv(m, sock, ZMQ_DONTWAIT)) < 0 && errno == EINTR) {
    }
    return rc;
}

/* Receives and delivers one message. False = none is there. */
static bool message_recv(struct plane *p)
{
    size_t parts_max = p->kind == PLANE_ROUTER ? PARTS_MAX : PARTS_MAX - 1;
    zmq_msg_t parts[PARTS_MAX];
    struct str_view views[PARTS_MAX];
    size_t count = 0;
    bool is_more = true;
    bool is_there = true;

    while (is_more) {
        zmq_msg_t scrap;
        zmq_msg_t *at = count < parts_max ? &parts[count] : &scrap;

        (void)zmq_msg_init(at);
        if (part_recv(at, p->sock) < 0) {
            (void)zmq_msg_close(at);
            is_there = false;
            break;
        }
        is_more = zmq_msg_more(at) != 0;
        if (at != &scrap) {
            views[count] = sv_from(zmq_msg_data(at), zmq_msg_size(at));
        } else {
            (void)zmq_msg_close(&scrap);
        }
        count++;
    }
    if (is_there) {
        message_deliver(p, parts, views, count);
    }
    for (size_t i = 0; i < count && i < parts_max; i++) {
        (void)zmq_msg_close(&parts[i]);
    }
    return is_there;
}

/* Reads ZMQ_EVENTS, which also makes libzmq take in what its own thread has to say. */
static int events_get(struct plane *p)
{
    int events = 0;
    size_t n = sizeof(events);

    while (zmq_getsockopt(p->sock, ZMQ_EVENTS, &events, &n) != 0 && errno == EINTR) {
    }
    return events;
}

static void writable_tell(struct plane *p)
{
    bool is_now = p->kind == PLANE_ROUTER ? p->may_be_writable
                                          : (p->is_up && (events_get(p) & ZMQ_POLLOUT) != 0);

    p->may_be_writable = false;
    if (is_now) {
        p->wants_write = false;
        (void)uv_timer_stop(&p->retry);
        if (p->hooks.on_writable != NULL) {
            p->hooks.on_writable(p->hooks.ctx);
        }
    }
}

/* One bounded turn. It ends with a receive that found nothing, which arms the edge again, or marks
 * the plane for more. */
static void plane_do_turn(struct plane *p)
{
    unsigned n = 0;

    plane_set_unmark(p->set, &p->turn);
    p->is_in_turn = true;
    while (n < TURN_MESSAGES_MAX && !closer_is_closing(&p->closer) && message_recv(p)) {
        n++;
    }
    p->is_in_turn = false;
    if (closer_is_closing(&p->closer)) {
        return;
    }
    if (n == TURN_MESSAGES_MAX) {
        plane_set_postpone(p->set, &p->turn);
    }
    if (p->wants_write) {
        writable_tell(p);
    }
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    struct plane *p = h->data;

    (void)status;
    (void)events;
    p->may_be_writable = true;
    plane_do_turn(p);
}

static void on_retry(uv_timer_t *h)
{
    struct plane *p = h->data;

    p->may_be_writable = true;
    plane_do_turn(p);
}

/* --- link state ------------------------------------------------------------------------------ */

static void link_set(struct plane *p, bool is_up)
{
    if (p->kind != PLANE_DEALER || p->is_up == is_up) {
        return;
    }
    if (is_up) {
        (void)events_get(p); /* takes in the new pipe, so that the first send finds it */
        p->is_bad_told = false;
    } else {
        plane_do_turn(p); /* what had arrived comes before the bad news */
    }
    if (closer_is_closing(&p->closer)) {
        return;
    }
    p->is_up = is_up;
    plane_set_mark(p->set, &p->turn);
    if (p->hooks.on_link != NULL) {
        p->hooks.on_link(p->hooks.ctx, is_up);
    }
}

static void handshake_failed(struct plane *p, unsigned event, uint32_t value)
{
    struct err e = {0};

    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        (void)err_set(&e, ERR_PEER_FORBIDDEN, "%s: a CURVE key was refused (status %" PRIu32 ")",
                      p->endpoint, value);
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
        (void)err_set(&e, ERR_PEER_MALFORMED,
                      "%s: a handshake failed (0x%" PRIx32
                      "): CURVE on one side only, or a wrong server key?",
                      p->endpoint, value);
    } else if (p->kind == PLANE_DEALER && value != 0) {
        (void)err_set(&e, ERR_PEER_MALFORMED, "%s: the other side ended the handshake: %s",
                      p->endpoint, zmq_strerror((int)value));
    } else {
        return; /* somebody connected and left */
    }
    if (p->kind == PLANE_DEALER) {
        if (p->is_bad_told) {
            return;
        }
        p->is_bad_told = true;
    }
    bad(p, (struct str_view){NULL, 0}, &e);
}

/* One monitor event: frame of event (u16) and value (u32), frame of address. False = none there. */
static bool monitor_recv(struct plane *p)
{
    zmq_msg_t m;
    uint16_t event = 0;
    uint32_t value = 0;
    bool is_more = true;
    bool is_first = true;

    while (is_more) {
        (void)zmq_msg_init(&m);
        if (part_recv(&m, p->monitor) < 0) {
            (void)zmq_msg_close(&m);
            return false;
        }
        is_more = zmq_msg_more(&m) != 0;
        if (is_first && zmq_msg_size(&m) == sizeof(event) + sizeof(value)) {
            const char *at = zmq_msg_data(&m);

            memcpy(&event, at, sizeof(event));
            memcpy(&value, at + sizeof(event), sizeof(value));
        }
        is_first = false;
        (void)zmq_msg_close(&m);
    }
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        link_set(p, true);
    } else if (event == ZMQ_EVENT_DISCONNECTED) {
        link_set(p, false);
    } else if (event != 0) {
        handshake_failed(p, event, value);
    }
    return true;
}

/* Until nothing is left: that arms the edge again. */
static void monitor_drain(struct plane *p)
{
    while (!closer_is_closing(&p->closer) && monitor_recv(p)) {
    }
}

static void on_monitor(uv_poll_t *h, int status, int events)
{
    (void)status;
    (void)events;
    monitor_drain(h->data);
}

static void on_turn(struct plane_turn *t)
{
    struct plane *p = CONTAINER_OF(t, struct plane, turn);

    if (!p->is_monitor_armed) { /* the first turn after the start */
        p->is_monitor_armed = true;
        monitor_drain(p);
    }
    if (!closer_is_closing(&p->closer)) {
        plane_do_turn(p);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

/* Runs on any thread. */
static void sent_free(void *data, void *hint)
{
    (void)data;
    buf_unref(hint);
}

static int payload_wrap(zmq_msg_t *m, struct buf *payload)
{
    if (payload->n > SEND_COPY_MAX) {
        if (zmq_msg_init_data(m, (void *)(uintptr_t)payload->p, payload->n, sent_free, payload) !=
            0) {
            return ERR_NOMEM;
        }
        (void)buf_ref(payload);
        return 0;
    }
    if (zmq_msg_init_size(m, payload->n) != 0) {
        return ERR_NOMEM;
    }
    memcpy(zmq_msg_data(m), payload->p, payload->n);
    return 0;
}

/* Moves the part to libzmq; on failure it stays the caller's. */
static int part_send(zmq_msg_t *m, void *sock, int flags)
{
    while (zmq_msg_send(m, sock, flags | ZMQ_DONTWAIT) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* The first part decides: once libzmq took it, it takes the rest, or drops the whole message with
 * its peer. */
static int parts_send(struct plane *p, struct str_view peer, zmq_msg_t *head, zmq_msg_t *payload)
{
    if (p->kind == PLANE_ROUTER) {
        while (zmq_send(p->sock, peer.p, peer.n, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
            if (errno != EINTR) {
                return errno == EHOSTUNREACH ? ERR_NOT_FOUND : ERR_AGAIN;
            }
        }
    }
    if (part_send(head, p->sock, payload != NULL ? ZMQ_SNDMORE : 0) != 0 ||
        (payload != NULL && part_send(payload, p->sock, 0) != 0)) {
        return ERR_AGAIN;
    }
    return 0;
}

static void again_note(struct plane *p)
{
    p->wants_write = true;
    if (p->kind == PLANE_ROUTER && !uv_is_active((uv_handle_t *)&p->retry)) {
        (void)uv_timer_start(&p->retry, on_retry, WRITABLE_RETRY_MS, 0);
    }
}

int plane_send(struct plane *p, struct str_view peer, struct str_view frame0, struct buf *payload)
{
    bool has_payload = payload != NULL && payload->n > 0;
    zmq_msg_t head;
    zmq_msg_t body;
    int rc = ERR_INTERNAL;

    REQUIRE(!closer_is_closing(&p->closer));
    REQUIRE(frame0.n >= MSG_HEAD_BYTES);
    if (has_payload && payload->n > MSG_PAYLOAD_MAX) {
        return ERR_LIMIT;
    }
    if (p->kind == PLANE_ROUTER && peer.n == 0) {
        return ERR_NOT_FOUND;
    }
    if (p->kind == PLANE_DEALER && !p->is_up) {
        again_note(p);
        return ERR_AGAIN;
    }
    if (zmq_msg_init_size(&head, frame0.n) != 0) {
        return ERR_NOMEM;
    }
    memcpy(zmq_msg_data(&head), frame0.p, frame0.n);
    if (has_payload && (rc = payload_wrap(&body, payload)) != 0) {
        (void)zmq_msg_close(&head);
        return rc;
    }
    rc = parts_send(p, peer, &head, has_payload ? &body : NULL);
    (void)zmq_msg_close(&head); /* empty when it was sent */
    if (has_payload) {
        (void)zmq_msg_close(&body);
    }
    if (rc == ERR_AGAIN) {
        again_note(p);
    }
    if (!p->is_in_turn) {
        plane_set_mark(p->set,
                       &p->turn); /* the send may have swallowed the edge of an incoming message */
    }
    return rc;
}

/* --- open and close -------------------------------------------------------------------------- */

static int opt_int(void *sock, int name, int v)
{
    return zmq_setsockopt(sock, name, &v, sizeof(v));
}

static int options_set(struct plane *p, const struct plane_opts *o, struct err *e)
{
    int64_t size_max = MSG_PAYLOAD_MAX;
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

static int watch_start(struct plane *p, struct err *e)
{
    uv_os_sock_t fd = -1;
    uv_os_sock_t monitor_fd = -1;
    uv_loop_t *uv = &p->set->loop->uv;
    int rc = ERR_INTERNAL;

    if ((rc = plane_zmq_fd(p->sock, &fd)) != 0 ||
        (rc = plane_zmq_fd(p->monitor, &monitor_fd)) != 0 ||
        (rc = loop_err(uv_poll_init(uv, &p->poll, fd))) != 0) {
        return err_set(e, rc, "cannot watch the socket");
    }
    closer_add(&p->closer);
    p->poll.data = p;
    if ((rc = loop_err(uv_poll_init(uv, &p->monitor_poll, monitor_fd))) != 0) {
        closer_close_one(&p->closer, (uv_handle_t *)&p->poll);
        return err_set(e, rc, "cannot watch the connection");
    }
    closer_add(&p->closer);
    p->monitor_poll.data = p;
    (void)uv_timer_init(uv, &p->retry);
    closer_add(&p->closer);
    p->retry.data = p;
    (void)uv_poll_start(&p->poll, UV_READABLE, on_readable);
    (void)uv_poll_start(&p->monitor_poll, UV_READABLE, on_monitor);
    plane_set_mark(p->set, &p->turn);
    return 0;
}

static void sockets_close(struct plane *p)
{
    if (p->monitor != NULL) {
        (void)zmq_socket_monitor(p->sock, NULL, 0);
        (void)zmq_close(p->monitor);
    }
    if (p->sock != NULL) {
        plane_addr_remove(p->endpoint, p->file);
        (void)zmq_close(p->sock);
    }
    p->monitor = p->sock = NULL;
}

static void on_handles_closed(void *ctx)
{
    struct plane *p = ctx;
    void (*on_closed)(void *ctx) = p->on_closed;
    void *closed_ctx = p->closed_ctx;

    if (p->zap_domain[0] != '\0') {
        plane_zap_remove(p->set, p->zap_domain);
    }
    plane_set_put(p->set);
    mem_free(p);
    if (on_closed != NULL) {
        on_closed(closed_ctx);
    }
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
    closer_init(&p->closer, on_handles_closed, p);
    p->turn.fn = on_turn; /* marked by watch_start: edges from before the watch began */
    p->hooks = *hooks;
    p->kind = opts->kind;
    (void)snprintf(p->endpoint, sizeof(p->endpoint), "%s", opts->endpoint);
    if ((p->sock = zmq_socket(p->set->zmq, p->kind == PLANE_ROUTER ? ZMQ_ROUTER : ZMQ_DEALER)) ==
        NULL) {
        rc = plane_zmq_err(e, "cannot create a socket");
    } else if ((rc = options_set(p, opts, e)) == 0 && (rc = monitor_open(p, e)) == 0 &&
               (!has_curve(opts->curve) || (rc = curve_set(p, opts->curve, e)) == 0) &&
               (rc = transport_start(p, e)) == 0 && (rc = watch_start(p, e)) == 0) {
        *ret = p;
        return 0;
    }
    sockets_close(p);
    closer_finish(&p->closer); /* frees p, now or when the handles have closed */
    return rc;
}

bool plane_is_up(const struct plane *p)
{
    return p->is_up;
}

const char *plane_endpoint(const struct plane *p)
{
    return p->endpoint;
}

void plane_close(struct plane *p, void (*on_closed)(void *ctx), void *ctx)
{
    REQUIRE(!closer_is_closing(&p->closer));
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    p->is_up = false;
    plane_set_unmark(p->set, &p->turn);
    closer_close_one(&p->closer, (uv_handle_t *)&p->poll);
    closer_close_one(&p->closer, (uv_handle_t *)&p->monitor_poll);
    closer_close_one(&p->closer, (uv_handle_t *)&p->retry);
    closer_finish(&p->closer);
    sockets_close(p); /* after uv let go of the descriptors */
}

int plane_curve_keypair(char public_key[41], char secret_key[41])
{
    return zmq_curve_keypair(public_key, secret_key) == 0 ? 0 : ERR_NOT_IMPLEMENTED;
}
