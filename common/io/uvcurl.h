/* uvcurl.h - HTTP client: a libcurl multi handle on a uv loop, one object per transfer. The only place that knows
 * libcurl (uvcurl.c).
 *
 * Threads:  loop thread only.
 * Lifetime: a transfer lives from uvcurl_start until its on_done returned, or until uvcurl_cancel, after which no
 *           callback comes. Callbacks may call uvcurl_cancel/pause on their own transfer and start others.
 * Errors:   on_done gets ERR_UPSTREAM_CONNECT (nothing was sent), ERR_UPSTREAM_TIMEOUT, ERR_UPSTREAM_CUT (after
 *           sending began), ERR_LIMIT (answer above body_max) or 0 for any complete HTTP answer, whatever its status.
 * Safety:   TLS verification always on; only http and https; no redirects followed; no proxies from the environment;
 *           response heads at most 64 KiB. libcurl re-sends a request by itself when a reused connection closes before any
 *           reply: is_once forces a fresh connection, so that such a request is never sent twice. */
#ifndef CFD_IO_UVCURL_H
#define CFD_IO_UVCURL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

struct uvcurl;
struct uvcurl_xfer;

struct uvcurl_slice {
    struct str_view bytes; /* borrowed until on_done/cancel */
};

struct uvcurl_req {
    const char *method;           /* "GET", "POST", ... */
    const char *url;              /* copied */
    const char *const *headers;   /* "Name: value" strings, NULL-terminated, copied */
    const struct uvcurl_slice *body; /* sent in order with Content-Length; borrowed slices, array copied */
    size_t body_count;            /* at most 8; 0 = no body */
    unsigned connect_ms;          /* 0 = 10 s */
    unsigned first_byte_ms;       /* to the first byte of the final answer's head; 0 = none */
    unsigned idle_ms;             /* longest gap between received bytes; 0 = none; not counted while paused */
    unsigned total_ms;            /* 0 = none */
    uint64_t body_max;            /* 0 = no limit */
    bool is_once;                 /* use a fresh connection, see above */
    const char *ca_file;          /* NULL = system store */
};

struct uvcurl_hooks {
    /* Final head (1xx skipped). `headers`: raw lines "Name: value\r\n" without the status line, borrowed. */
    void (*on_head)(void *ctx, int status, struct str_view headers);
    void (*on_data)(void *ctx, struct str_view data); /* borrowed */
    void (*on_done)(void *ctx, int rc, const struct err *e);
    void *ctx;
};

int uvcurl_new(struct uvcurl **ret, struct loop *loop, unsigned connections_max, struct err *e);
/* Cancels every transfer (no callbacks) and closes. */
void uvcurl_close(struct uvcurl *u, void (*on_closed)(void *ctx), void *ctx);

/* On success *ret is valid until on_done or cancel. Callbacks never run inside this call. */
int uvcurl_start(struct uvcurl *u, struct uvcurl_xfer **ret, const struct uvcurl_req *req,
                 const struct uvcurl_hooks *hooks, struct err *e);
void uvcurl_pause(struct uvcurl_xfer *x);  /* stop reading from the server (back-pressure) */
void uvcurl_resume(struct uvcurl_xfer *x);
void uvcurl_cancel(struct uvcurl_xfer *x);
/* For hostile or relative header lines: finds a header by name in a raw head; false when absent. Borrowed result. */
bool uvcurl_header(struct str_view headers, const char *name, struct str_view *ret);

#endif
