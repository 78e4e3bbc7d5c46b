/* wk_retry.h - what is tried again, and when. Pure: the caller brings clock and randomness.
 *
 * Retried: 408, 409, 429, every 5xx, a provider that cannot be reached, that cuts the connection or
 *          stays silent, as
 * long as tries and time are left and no byte of the answer was passed on. The provider's own
 * `x-should-retry` wins over the status. `retry-after-ms` and `retry-after` (seconds or a date) are
 * honoured; above WK_RETRY_AFTER_MAX_MS, or when the deadline comes first, the answer goes to the
 * client at once. */
#ifndef CFD_WORKERS_WK_RETRY_H
#define CFD_WORKERS_WK_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define WK_RETRY_AFTER_MAX_MS 60000U
#define WK_RETRY_BASE_MS      500U
#define WK_RETRY_CAP_MS       8000U

struct wk_retry_in {
    int rc; /* 0 = an HTTP answer came */
    int status;
    struct str_view headers; /* of that answer */
    unsigned tries;          /* made so far, >= 1 */
    unsigned tries_max;
    uint32_t left_ms;   /* until the deadline */
    bool is_repeatable; /* false: the call may have effects; only what surely did not run is sent
                           again */
    bool has_other;     /* another deployment is ready: no need to wait */
    uint32_t random;    /* for the jitter */
    uint64_t now_unix_ms;
};

/* Try again? Then *ret_delay_ms is how long to wait first. */
bool wk_retry_decide(const struct wk_retry_in *in, uint32_t *ret_delay_ms);

/* What the headers ask for, in ms; false when they do not say. */
bool wk_retry_after(struct str_view headers, uint64_t now_unix_ms, uint64_t *ret_ms);

#endif
