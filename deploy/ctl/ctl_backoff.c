#include "ctl_backoff.h"

unsigned ctl_backoff_step(struct ctl_backoff *b, uint64_t lived_ms)
{
    unsigned wait = CTL_BACKOFF_FIRST_MS;

    if (lived_ms >= CTL_BACKOFF_RESET_MS) {
        b->failures = 0;
    }
    b->failures++;
    if (b->failures == 1) {
        return 0;
    }
    for (unsigned i = 2; i < b->failures && wait < CTL_BACKOFF_MAX_MS; i++) {
        wait *= 2;
    }
    return wait < CTL_BACKOFF_MAX_MS ? wait : CTL_BACKOFF_MAX_MS;
}
