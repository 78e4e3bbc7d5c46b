/* metric_kind.h - what metric.c (samples) and metric_render.c (exposition) share. Private to base.
 */
#ifndef CFD_BASE_METRIC_KIND_H
#define CFD_BASE_METRIC_KIND_H

#include <stddef.h>

#include "base/metric.h"

#define METRIC_LABELS_MAX  2
#define METRIC_BUCKETS     20
#define METRIC_VALUE_BYTES 64 /* longest label value; longer ones are cut */

enum metric_kind { METRIC_KIND_COUNTER, METRIC_KIND_GAUGE, METRIC_KIND_HISTOGRAM };

struct metric_family {
    enum metric_kind kind;
    struct str_view name;
    struct str_view labels; /* comma list */
    const char *help;
};

extern const struct metric_family metric_families[METRIC_COUNT];

/* Name of label `i` of the family; empty when it has fewer. */
struct str_view metric_label(const struct metric_family *f, unsigned i);

#endif
