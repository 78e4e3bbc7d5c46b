/* http1_write.h - the bytes of our answers: heads, chunk framing, error bodies. Pure, any thread.
 *
 * Errors: builders append to `out` and return its sticky rc (ERR_NOMEM, ERR_LIMIT). */
#ifndef CFD_FRONTEND_HTTP1_WRITE_H
#define CFD_FRONTEND_HTTP1_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum http1_framing {
    HTTP1_NO_BODY, /* 1xx, 204, 304: neither length nor coding is said */
    HTTP1_LENGTH,
    HTTP1_CHUNKED,
    HTTP1_UNTIL_CLOSE
};

#define HTTP1_DATE_CAP 30

struct http1_head {
    int status;
    unsigned minor;           /* HTTP/1.minor of the client */
    const char *date;         /* http1_date */
    const char *request_id;   /* req_..., NULL = none */
    const char *content_type; /* NULL = none, or already in `headers` */
    struct str_view headers;  /* 'name: value' CRLF each, checked */
    enum http1_framing framing;
    uint64_t length;
    bool is_close;
};

int http1_write_head(struct bytes *out, const struct http1_head *h);
const char *http1_reason(int status);                        /* "" when unknown */
void http1_date(char dst[HTTP1_DATE_CAP], uint64_t unix_ms); /* IMF-fixdate */

#define HTTP1_CHUNK_HEAD_MAX 20
/* "hex CRLF" into dst; returns its length. */
size_t http1_chunk_head(char dst[HTTP1_CHUNK_HEAD_MAX], uint64_t n);

/* OpenAI's error object with all four keys. */
int http1_error_body(struct bytes *out, const struct err *e);
/* Header lines an error answer needs: Retry-After, x-should-retry, WWW-Authenticate. */
int http1_error_headers(struct bytes *out, const struct err *e);
/* Whole seconds, 1..59, for a wait in ms. */
unsigned http1_retry_after_s(unsigned ms);

#endif
