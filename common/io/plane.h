/* plane.h - one ZeroMQ socket on a uv loop that carries protocol messages (proto/msg.h). The only
 * place that knows ZeroMQ (plane*.c); its types do not appear here.
 *
 * ZMQ_FD is edge-triggered: ZMQ_EVENTS is read again after every send and receive, and work per
 * loop turn is bounded (the rest is scheduled for the next turn, never lost).
 *
 * A peer that connects again under the routing id of an older connection takes its place: a
 * restarted process is never locked out by its own ghost. So routing ids name processes; who may
 * connect at all is decided by the mode of the socket's directory (0700) or by CURVE.
 *
 * Threads:  loop thread only. libzmq frees sent buffers on its own thread, which `struct buf`
 * allows. Lifetime: plane_close is asynchronous; `on_closed` runs when storage may go. No callback
 * after it. Errors:   a malformed frame from a peer is dropped and reported through on_bad; nothing
 * aborts. Bounds:   send and receive high-water marks in messages, per peer; payload at most
 * MSG_PAYLOAD_MAX. Do not send from a uv_prepare callback that was started before the loop's first
 * plane was opened: the missed edge would be noticed one turn late. */
#ifndef CFD_IO_PLANE_H
#define CFD_IO_PLANE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "io/loop.h"
#include "proto/msg.h"

struct plane;

enum plane_kind {
    PLANE_DEALER, /* connects to one endpoint */
    PLANE_ROUTER  /* binds; peers are named by their routing id; sending to an unknown one is
                     ERR_NOT_FOUND */
};

/* CURVE keys, Z85 text (40 characters). All NULL/empty = no CURVE (only for ipc:// and loopback).
 */
struct plane_curve {
    const char *secret_key; /* own; never logged */
    const char *public_key; /* own */
    const char *server_key; /* DEALER: the ROUTER's public key */
    const char *const
        *allowed; /* ROUTER: public keys of clients that may connect, NULL-terminated */
};

struct plane_in {
    struct msg_head head;
    struct str_view peer;   /* routing id of the sender (ROUTER), empty for DEALER; borrowed */
    struct str_view frame0; /* header + fields, borrowed; may be sent on */
    struct str_view fields; /* for msg_decode_*, borrowed */
    struct buf *payload;    /* NULL when empty; borrowed, buf_ref to keep */
};

struct plane_hooks {
    void (*on_msg)(void *ctx, const struct plane_in *in);
    /* A message was dropped, or (peer empty) a handshake failed: ERR_PEER_FORBIDDEN for a refused
     * key. May be NULL. */
    void (*on_bad)(void *ctx, struct str_view peer, const struct err *e);
    /* DEALER: transport connected or lost. What a DEALER had not read when its connection ended is
     * gone (libzmq drops it together with what it had not sent); a ROUTER still reads everything
     * that arrived. May be NULL. */
    void (*on_link)(void *ctx, bool is_up);
    /* After ERR_AGAIN: try again. A ROUTER does not know which peer has room, so it may come in
     * vain. May be NULL. */
    void (*on_writable)(void *ctx);
    void *ctx;
};

struct plane_opts {
    enum plane_kind kind;
    const char *endpoint;   /* ipc://... or tcp://host:port; for a ROUTER the bind address. Copied.
                               Without CURVE   tcp is only for loopback (ERR_CONFIG else) */
    const char *routing_id; /* DEALER: own id, at most 64 bytes, copied; NULL = random */
    int send_hwm;           /* 0 = 10000 */
    int recv_hwm;           /* 0 = 10000 */
    const struct plane_curve *curve; /* NULL = none; copied */
};

/* Opens, binds or starts connecting. ipc:// parents are created 0700; a stale socket file is
 * replaced only when nobody listens (ERR_CONFLICT else). On success *ret is owned by the caller
 * until plane_close. */
int plane_open(struct plane **ret, struct loop *loop, const struct plane_opts *opts,
               const struct plane_hooks *hooks, struct err *e);
/* Sends one message: `frame0` (msg_encode_* output, copied) and the payload (may be NULL; a
 * reference is taken; sent without copying when large). `peer` empty for a DEALER. ERR_AGAIN at the
 * high-water mark or, for a DEALER, while not connected; ERR_NOT_FOUND for an unknown peer. Nothing
 * is sent in part. */
int plane_send(struct plane *p, struct str_view peer, struct str_view frame0, struct buf *payload);
/* True when a DEALER is connected. */
bool plane_is_up(const struct plane *p);
/* The endpoint actually bound (a tcp port of * resolved). Borrowed. */
const char *plane_endpoint(const struct plane *p);
/* May be called from any callback of the plane. Messages already taken by plane_send still leave
 * (for a short time, if the peer is slow). `on_closed` (may be NULL) never runs inside this call.
 */
void plane_close(struct plane *p, void (*on_closed)(void *ctx), void *ctx);

/* Writes a new CURVE key pair, 41 bytes each with NUL. */
int plane_curve_keypair(char public_key[41], char secret_key[41]);

#endif
