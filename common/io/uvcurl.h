/* uvcurl.h - HTTP client: a libcurl multi handle on a uv loop, one object per transfer. The only
 * place that knows libcurl (uvcurl*.c).
 *
 * Threads:  loop thread only.
 * Lifetime: a transfer lives from uvcurl_start until its on_done returned, or until uvcurl_cancel,
 * after which no callback comes. Callbacks may call uvcurl_cancel/pause on their own transfer and
 * start others. Errors:   on_done gets ERR_UPSTREAM_CONNECT (nothing was sent: name, connect, TLS,
 * or connect_ms over), ERR_UPSTREAM_TIMEOUT (another limit is over), ERR_UPSTREAM_CUT (after
 * sending began), ERR_UPSTREAM_BAD (not HTTP, or a head above UVCURL_HEAD_MAX), ERR_LIMIT (answer
 * above body_max), ERR_NOMEM, or 0 for any complete HTTP answer, whatever its status. Bounds:
 * connections_max connections, further transfers wait for one; a paused transfer holds at most one
 * read (UVCURL_READ_BYTES) in memory. Safety:   TLS verification always on; only http and https; no
 * redirects followed; no proxies from the environment; response heads at most UVCURL_HEAD_MAX
 * bytes. libcurl re-sends a request by itself when a reused connection closes before any reply:
 * is_once forces a fresh connection, so that such a request is never sent twice. */
#ifndef CFD_IO_UVCURL_H
#define CFD_IO_UVCURL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

#define UVCURL_READ_BYTES 32768
#define UVCURL_HEAD_MAX   32768
#define UVCURL_SLICES_MAX 8
#define UVCURL_CONNECT_MS 10000U

struct uvcurl;
struct uvcurl_xfer;

struct uvcurl_slice {
    struct str_view bytes; /* borrowed until on_done/cancel */
};

struct uvcurl_req {
    const char *method; /* "GET", "POST", ... */
    const char *url;    /* copied */
    /* "Name: value" strings, NULL-terminated, copied; may be NULL. Framing and connection headers
     * (Content-Length, Transfer-Encoding, Connection, Expect) are ours and are left out. */
    const char *const *headers;
    const struct uvcurl_slice
        *body;              /* sent in order with Content-Length; borrowed slices, array copied */
    size_t body_count;      /* at most UVCURL_SLICES_MAX; 0 = no body */
    unsigned connect_ms;    /* 0 = UVCURL_CONNECT_MS */
    unsigned first_byte_ms; /* from sending to the head of the final answer; 0 = none */
    unsigned idle_ms;  /* longest gap between received bytes; 0 = none; not counted while paused */
    unsigned total_ms; /* 0 = none */
    uint64_t body_max; /* 0 = no limit */
    bool is_once;      /* use a fresh connection, see above */
    const char *ca_file; /* NULL = system store */
};

struct uvcurl_hooks {
    /* Final head (1xx skipped). `headers`: raw lines "Name: value\r\n" without the status line,
     * borrowed. */
    void (*on_head)(void *ctx, int status, struct str_view headers);
    void (*on_data)(void *ctx, struct str_view data); /* borrowed; not while paused */
    void (*on_done)(void *ctx, int rc,
                    const struct err *e); /* last callback; may come while paused, after all data */
    void *ctx;
};

/* `connections_max`: 0 = no limit. */
int uvcurl_new(struct uvcurl **ret, struct loop *loop, unsigned connections_max, struct err *e);
/* Cancels every transfer (no callbacks) and closes. May be called from a callback. `on_closed` (may
 * be NULL) never runs inside this call. */
void uvcurl_close(struct uvcurl *u, void (*on_closed)(void *ctx), void *ctx);

/* On success *ret is valid until on_done or cancel. Callbacks never run inside this call.
 * ERR_INVALID: a bad method, header or URL; ERR_NOMEM. */
int uvcurl_start(struct uvcurl *u, struct uvcurl_xfer **ret, const struct uvcurl_req *req,
                 const struct uvcurl_hooks *hooks, struct err *e);
void uvcurl_pause(struct uvcurl_xfer *x);  /* stop reading from the server (back-pressure) */
void uvcurl_resume(struct uvcurl_xfer *x); /* data never comes inside this call */
void uvcurl_cancel(struct uvcurl_xfer *x);
/* For hostile or relative header lines: finds a header by name in a raw head; false when absent.
 * Borrowed result. */
bool uvcurl_header(struct str_view headers, const char *name, struct str_view *ret);

#endif
