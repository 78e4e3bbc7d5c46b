/* wk_headers.h - which header lines cross the gateway, in both directions. Pure.
 *
 * Blocks are lines 'name: value' ended by CRLF (a last line may lack it). Malformed lines and
 * values with control characters never pass. Names are matched without regard to case. */
#ifndef CFD_WORKERS_WK_HEADERS_H
#define CFD_WORKERS_WK_HEADERS_H

#include <stdbool.h>

#include "base/str.h"

/* Steps through a block: false at the end. Start with *at = 0. Malformed lines are skipped. */
bool wk_headers_next(struct str_view block, size_t *at, struct str_view *ret_name,
                     struct str_view *ret_value);

/* First value of `name`; false when absent. */
bool wk_headers_find(struct str_view block, const char *name, struct str_view *ret);

/* May this client header go to a model provider? Credentials, framing, x-stainless-* and everything
 * unknown do not. */
bool wk_headers_is_forwarded(struct str_view name);

/* Appends the provider's headers that a client may see to `out`, lower-case names: no framing or
 * hop-by-hop headers (also those that Connection names), no cookies, nothing about the operator's
 * account; x-request-id becomes x-provider-request-id. Returns out->rc. */
int wk_headers_filter(struct str_view block, struct bytes *out);

/* Content-Length as a number; false when absent or not one. */
bool wk_headers_length(struct str_view block, uint64_t *ret);

/* Is the content type an event stream? */
bool wk_headers_is_event_stream(struct str_view block);

#endif
