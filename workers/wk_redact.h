/* wk_redact.h - keeps the operator's provider keys out of what a provider says to a client. Pure.
 *
 * Some providers repeat the key they refuse. The key is the operator's, not the client's. */
#ifndef CFD_WORKERS_WK_REDACT_H
#define CFD_WORKERS_WK_REDACT_H

#include <stdbool.h>

#include "base/str.h"
#include "config/cfg.h"

/* Shorter keys ("none", "EMPTY") are no secrets, and words would be lost with them. */
#define WK_REDACT_MIN 8

/* Is the api_key of a deployment in the text? Of any: a retry may have asked another one. */
bool wk_redact_is_needed(const struct cfg *cfg, struct str_view text);

/* Length of the longest such key; 0 = there is none. */
size_t wk_redact_longest(const struct cfg *cfg);

/* Appends the text with each such key replaced by [redacted]. Returns out->rc. */
int wk_redact(const struct cfg *cfg, struct str_view text, struct bytes *out);

#endif
