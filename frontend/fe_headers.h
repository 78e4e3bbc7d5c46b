/* fe_headers.h - which header fields cross the gateway, in both directions. Pure. */
#ifndef CFD_FRONTEND_FE_HEADERS_H
#define CFD_FRONTEND_FE_HEADERS_H

#include "fe_http.h"

/* Appends the client's fields that may matter to a worker as 'name: value' CRLF, names in lower
 * case. Never a credential, a cookie, a hop-by-hop or a framing field. `session_header` may be
 * empty. */
int fe_headers_to_worker(struct bytes *out, const struct fe_http_head *head,
                         struct str_view session_header);

/* Appends a worker's header lines after checking each; lines of framing, of the connection, and
 * those this process writes itself are dropped. Returns how many lines were malformed (and
 * dropped). */
unsigned fe_headers_from_worker(struct bytes *out, struct str_view lines);

#endif
