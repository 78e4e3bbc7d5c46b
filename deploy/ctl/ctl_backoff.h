/* ctl_backoff.h - when a dead child is started again: at once, then after 0.1 s doubling to 5 s;
 * forgotten after 10 s of life. Pure. */
#ifndef CFD_CTL_BACKOFF_H
#define CFD_CTL_BACKOFF_H

#include <stdint.h>

#define CTL_BACKOFF_FIRST_MS 100U
#define CTL_BACKOFF_MAX_MS   5000U
#define CTL_BACKOFF_RESET_MS 10000U

struct ctl_backoff {
    unsigned failures; /* deaths in a row, each within CTL_BACKOFF_RESET_MS of its start */
};

/* A child that lived `lived_ms` died: milliseconds until the next start. */
unsigned ctl_backoff_step(struct ctl_backoff *b, uint64_t lived_ms);

#endif
