/* fe_auth.h - who is calling: the API key of a request head to a tenant. Keys are never logged or
 * kept; only their SHA-256 is compared, in constant time over all configured keys. */
#ifndef CFD_FRONTEND_FE_AUTH_H
#define CFD_FRONTEND_FE_AUTH_H

#include "config/cfg.h"
#include "fe_http.h"

struct fe_caller {
    struct tenant_id tenant;       /* all zero = anonymous */
    const struct cfg_api_key *key; /* borrowed from the configuration; NULL = anonymous */
};

/* Order: x-litellm-api-key, Authorization: Bearer, x-api-key. Without any configured key everybody
 * is anonymous. 0 or ERR_UNAUTHORIZED with what to do about it. */
int fe_auth_check(struct fe_caller *ret, const struct cfg *cfg, const struct fe_http_head *head,
                  struct err *e);

#endif
