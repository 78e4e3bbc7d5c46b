/* plane_priv.h - shared by plane*.c only: the per-loop set of planes, frame decoding, addresses,
 * the ZAP handler. */
#ifndef CFD_IO_PLANE_PRIV_H
#define CFD_IO_PLANE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "io/closer.h"
#include "io/plane.h"

#define PLANE_CURVE_KEY_BYTES 32
#define PLANE_PAYLOAD_MAX     ((size_t)MSG_PAYLOAD_MAX)

struct plane_zap;

/* A plane that must be looked at before the loop sleeps: a send may have swallowed the edge that
 * announced input. */
struct plane_turn {
    struct list_link link; /* in plane_set.marked or .postponed */
    bool is_postponed;
    void (*fn)(struct plane_turn *t);
};

struct plane_addr_file {
    uint64_t dev, ino;
};

/* All planes of one loop. One prepare handle looks at the marked ones; the idle handle keeps the
 * loop awake while there is more to do than one turn allows. */
struct plane_set {
    struct loop *loop;     /* borrowed */
    void *zmq;             /* the process's context, a counted reference */
    unsigned refs;         /* open planes */
    struct list marked;    /* to be looked at before the loop sleeps */
    struct list postponed; /* have more than one turn allows: next turn of the loop */
    uv_prepare_t prepare;
    uv_idle_t idle;
    struct closer closer;
    struct plane_zap *zap; /* owned; NULL until the first CURVE ROUTER */
};

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

/* plane.c: starts watching an opened plane; closes its sockets; the end of its last handle. */
int plane_watch(struct plane *p, struct err *e);
void plane_sockets_close(struct plane *p);
void plane_on_closed(void *ctx);

/* The set of the loop, made when there is none; takes a reference. */
int plane_set_get(struct plane_set **ret, struct loop *loop, struct err *e);
void plane_set_put(struct plane_set *s);
void plane_set_mark(struct plane_set *s, struct plane_turn *t); /* nothing when already in a list */
void plane_set_postpone(struct plane_set *s, struct plane_turn *t);
void plane_set_unmark(struct plane_set *s, struct plane_turn *t);

/* Pure: checks the parts of a message (without the routing id) and fills head, frame0 and fields of
 * *ret. `payload` is set to the second part, empty when absent. */
int plane_frame_decode(struct plane_in *ret, struct str_view *payload, const struct str_view *parts,
                       size_t count, struct err *e);

/* Checks an endpoint; a tcp one must be loopback unless has_curve. */
int plane_addr_check(const char *endpoint, bool has_curve, struct err *e);
/* ipc://: creates the directory, refuses a path where somebody listens, removes a stale socket.
 * Others: nothing. */
int plane_addr_prepare(const char *endpoint, struct err *e);
/* The socket file of a bound ipc:// endpoint, {0, 0} for others. */
struct plane_addr_file plane_addr_file(const char *endpoint);
/* Removes the file if it is still that one: libzmq leaves it behind, and a successor may have bound
 * already. */
void plane_addr_remove(const char *endpoint, struct plane_addr_file file);

/* The authentication handler of the process. A domain names one ROUTER and its admitted keys (Z85,
 * copied). */
int plane_zap_add(struct plane_set *s, const char *domain, const char *const *allowed,
                  struct err *e);
void plane_zap_remove(struct plane_set *s, const char *domain);
void plane_zap_close(struct plane_zap *z,
                     struct closer *closer); /* its handle is counted in `closer` */
/* After the closer is done. */
void plane_zap_free(struct plane_zap *z);

/* errno of libzmq -> ERR_*, with "what: text". */
int plane_zmq_err(struct err *e, const char *what);
int plane_zmq_fd(void *sock, uv_os_sock_t *ret);

#endif
