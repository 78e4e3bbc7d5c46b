/* metric.h - counters, gauges and histograms of one process. Loop thread only.
 *
 * Label values are copied on first use; at most METRIC_SERIES_MAX series per metric, later ones
 * fold into the value "other", so a hostile label cannot grow memory. */
#ifndef CFD_BASE_METRIC_H
#define CFD_BASE_METRIC_H

#include <stdint.h>

#include "base/metric_table.h"
#include "base/str.h"

#define METRIC_SERIES_MAX 64

enum metric_id {
#define X(id, kind, name, labels, help) METRIC_##id,
    METRIC_TABLE(X)
#undef X
        METRIC_COUNT
};

/* a, b: label values in table order, NULL when the metric has fewer labels. */
void metric_add(enum metric_id id, const char *a, const char *b, uint64_t n);
void metric_set(enum metric_id id, const char *a, const char *b, double v);
void metric_observe_us(enum metric_id id, const char *a, const char *b, uint64_t us);

/* Appends this process's samples, one per line, no HELP/TYPE, each with process="name". */
int metric_snapshot(struct bytes *out, const char *process_name);
/* Merges concatenated snapshots of many processes into one exposition: families in table order with
 * HELP and TYPE. Lines of unknown families are dropped (a snapshot comes from a peer). */
int metric_render(struct bytes *out, struct str_view snapshots);
void metric_reset(void); /* for tests */

#endif
