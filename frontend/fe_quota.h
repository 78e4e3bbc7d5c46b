/* fe_quota.h - rate and concurrency per API key. Pure: time is an argument.
 *
 * Lifetime: entries live as long as the object; a reload keeps the counts of keys that stay.
 * Bounds:   one entry per configured key that has a limit; FE_QUOTA_KEYS_MAX. */
#ifndef CFD_FRONTEND_FE_QUOTA_H
#define CFD_FRONTEND_FE_QUOTA_H

#include "config/cfg.h"

#define FE_QUOTA_KEYS_MAX 100000

struct fe_quota;
struct fe_quota_entry;

struct fe_quota *fe_quota_new(void); /* NULL on out of memory */
void fe_quota_free(struct fe_quota *q);

/* Takes one request of `key` (NULL = anonymous: no limits). On success *ret (may be NULL) goes to
 * fe_quota_done once. ERR_RATE_LIMIT with retry_after_ms when over a limit. */
int fe_quota_take(struct fe_quota *q, const struct cfg_api_key *key, uint64_t now_ms,
                  struct fe_quota_entry **ret, struct err *e);
void fe_quota_done(struct fe_quota_entry *entry); /* accepts NULL */

#endif
