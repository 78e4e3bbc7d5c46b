/* fe_http.h - bytes of a client connection in, requests out. The only place that knows llhttp
 * (fe_http.c).
 *
 * Two opinions: our own strict scan of the raw bytes, and llhttp in strict mode. A request is
 * delivered only when both accept it and agree about its framing; what is in doubt is an error,
 * never repaired.
 *
 * Pure: no I/O, no clock. Threads: one. Lifetime: one object per connection; views in fe_http_head
 * stay valid until the first fe_http_next after FE_HTTP_END. Errors:   FE_HTTP_ERROR sticks;
 * fe_http_error says what to answer. The connection must close after it. Bounds: FE_HTTP_LINE_MAX,
 * FE_HTTP_HEAD_MAX, FE_HTTP_FIELDS_MAX; bodies by fe_http_limit_body. */
#ifndef CFD_FRONTEND_FE_HTTP_H
#define CFD_FRONTEND_FE_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "fe_check.h"
#include "proto/msg.h"

#define FE_HTTP_LINE_MAX   8192U
#define FE_HTTP_HEAD_MAX   65536U
#define FE_HTTP_FIELDS_MAX 100U

enum fe_http_event {
    FE_HTTP_MORE, /* the input is used up */
    FE_HTTP_HEAD, /* a request head is complete and valid */
    FE_HTTP_BODY, /* *ret_body holds body bytes, borrowed from the input */
    FE_HTTP_END,  /* the request is complete */
    FE_HTTP_ERROR
};

struct fe_http_field {
    struct str_view name;  /* as sent */
    struct str_view value; /* trimmed */
};

struct fe_http_head {
    enum msg_method method;
    struct str_view method_text;
    struct fe_target target;
    struct str_view host;
    unsigned minor;     /* HTTP/1.minor */
    bool is_keep_alive; /* what the client asked for */
    bool is_chunked;
    bool has_expect;         /* Expect: 100-continue */
    uint64_t content_length; /* 0 when chunked or absent */
    unsigned field_count;
    struct fe_http_field fields[FE_HTTP_FIELDS_MAX];
};

struct fe_http;

struct fe_http *fe_http_new(void); /* NULL on out of memory */
void fe_http_free(struct fe_http *h);

/* Consumes a part of *in and reports one event. Call again until MORE or ERROR. */
enum fe_http_event fe_http_next(struct fe_http *h, struct str_view *in, struct str_view *ret_body);
/* From HEAD on. */
const struct fe_http_head *fe_http_head(const struct fe_http *h);
/* Largest body of the current request; call at HEAD. Beyond it: ERR_BODY_TOO_LARGE. */
void fe_http_limit_body(struct fe_http *h, uint64_t max);
const struct err *fe_http_error(const struct fe_http *h);
/* No byte of a request is waiting for the rest of it. */
bool fe_http_is_idle(const struct fe_http *h);

/* The only field of that name; 0 = none, 1 = found, 2 = more than one. */
unsigned fe_http_find(const struct fe_http_head *head, const char *name, struct str_view *ret);

#endif
