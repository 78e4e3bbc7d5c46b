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
#define WRITABLE_RETRY_MS 5U
#define PARTS_MAX         3U /* routing id, frame 0, frame 1 */

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
        plane_do_turn(p); /* what can still be read comes before the bad news */
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
    union {
        const char *shared;
        void *bytes; /* libzmq only reads them */
    } at = {.shared = payload->p};

    if (payload->n > SEND_COPY_MAX) {
        if (zmq_msg_init_data(m, at.bytes, payload->n, sent_free, payload) != 0) {
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
    if (has_payload && payload->n > PLANE_PAYLOAD_MAX) {
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

/* --- begin and end --------------------------------------------------------------------------- */

int plane_watch(struct plane *p, struct err *e)
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
    p->turn.fn = on_turn;
    (void)uv_poll_start(&p->poll, UV_READABLE, on_readable);
    (void)uv_poll_start(&p->monitor_poll, UV_READABLE, on_monitor);
    plane_set_mark(p->set, &p->turn); /* edges from before the watch began */
    return 0;
}

void plane_sockets_close(struct plane *p)
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

void plane_on_closed(void *ctx)
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
    plane_sockets_close(p); /* after uv let go of the descriptors */
}
