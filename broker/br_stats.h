/* br_stats.h - the broker's numbers as text: metrics of all processes, and the status document.
 *
 * Threads:  loop thread (metrics are per process). Lifetime: the counters already exported live in
 * struct br_stats. Bounds:   BR_STATS_REPLY_MAX bytes; at most BR_STATS_QUEUES_MAX tenants are
 * listed, the rest is summed in `jobs`. */
#ifndef CFD_BROKER_BR_STATS_H
#define CFD_BROKER_BR_STATS_H

#include "br_core.h"

#define BR_STATS_REPLY_MAX  ((size_t)32 * 1024 * 1024)
#define BR_STATS_QUEUES_MAX 256U

struct br_stats {
    const char *name; /* borrowed */
    uint32_t pid;
    uint64_t started_ms;
    uint64_t generation; /* of the configuration */
    struct br_counts exported;
};

/* Brings this process's metrics up to the core's numbers. */
void br_stats_export(struct br_stats *s, const struct br_core *c, uint64_t now_ms);
/* Appends the snapshots of all peers and of this process. */
int br_stats_metrics(struct br_stats *s, const struct br_core *c, uint64_t now_ms,
                     struct bytes *out);
/* Appends the status document, one JSON object. */
int br_stats_status(const struct br_stats *s, const struct br_core *c, uint64_t now_ms,
                    struct bytes *out);

#endif
