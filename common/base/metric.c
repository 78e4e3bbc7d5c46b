#include "base/metric.h"

#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/metric_kind.h"

#define COUNTER   METRIC_KIND_COUNTER
#define GAUGE     METRIC_KIND_GAUGE
#define HISTOGRAM METRIC_KIND_HISTOGRAM
const struct metric_family metric_families[METRIC_COUNT] = {
#define X(id, kind, name, labels, help)                                                            \
    {kind, {name, sizeof(name) - 1}, {labels, sizeof(labels) - 1}, help},
    METRIC_TABLE(X)
#undef X
};
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM

static const struct {
    uint64_t us;
    const char *le;
} buckets[METRIC_BUCKETS] = {
    {100, "0.0001"},  {250, "0.00025"}, {500, "0.0005"},  {1000, "0.001"},    {2500, "0.0025"},
    {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"}, {50000, "0.05"},    {100000, "0.1"},
    {250000, "0.25"}, {500000, "0.5"},  {1000000, "1"},   {2500000, "2.5"},   {5000000, "5"},
    {10000000, "10"}, {30000000, "30"}, {60000000, "60"}, {120000000, "120"}, {300000000, "300"},
};

struct histogram {
    uint64_t counts[METRIC_BUCKETS + 1]; /* not cumulative; the last one is beyond all bounds */
    uint64_t sum_us;
};

struct series {
    char labels[METRIC_LABELS_MAX][METRIC_VALUE_BYTES];
    uint64_t count;         /* COUNTER */
    double value;           /* GAUGE */
    struct histogram histo; /* HISTOGRAM; allocated with the series only then */
};

static struct {
    struct series *series[METRIC_SERIES_MAX]; /* owned */
    unsigned count;
    unsigned last; /* found last, looked at first */
} values[METRIC_COUNT];

static uint64_t start_ms;

struct str_view metric_label(const struct metric_family *f, unsigned i)
{
    struct str_view s = f->labels;

    for (;;) {
        struct str_view head = {s.p, sv_find(s, ',')};

        if (i-- == 0) {
            return head;
        }
        if (head.n == s.n) {
            return (struct str_view){NULL, 0};
        }
        s.p += head.n + 1;
        s.n -= head.n + 1;
    }
}

static bool label_is(const char *have, const char *want)
{
    return strncmp(have, want, METRIC_VALUE_BYTES - 1) == 0;
}

static bool series_is(const struct series *s, const char *a, const char *b)
{
    return label_is(s->labels[0], a) && label_is(s->labels[1], b);
}

/* Plain ASCII only: a label value is ours, anything else in it is an accident. */
static void label_copy(char *dst, const char *src)
{
    size_t i;

    for (i = 0; src[i] != '\0' && i < METRIC_VALUE_BYTES - 1; i++) {
        dst[i] = src[i];
    }
    dst[i] = '\0';
}

static struct series *series_add(enum metric_id id, const char *a, const char *b)
{
    bool is_histo = metric_families[id].kind == METRIC_KIND_HISTOGRAM;
    struct series *s = mem_zalloc(is_histo ? sizeof(*s) : offsetof(struct series, histo));

    if (s != NULL) {
        label_copy(s->labels[0], a);
        label_copy(s->labels[1], b);
        values[id].last = values[id].count;
        values[id].series[values[id].count++] = s;
    }
    return s;
}

static struct series *series_find(enum metric_id id, const char *a, const char *b)
{
    if (values[id].count > 0 && series_is(values[id].series[values[id].last], a, b)) {
        return values[id].series[values[id].last];
    }
    for (unsigned i = 0; i < values[id].count; i++) {
        if (series_is(values[id].series[i], a, b)) {
            values[id].last = i;
            return values[id].series[i];
        }
    }
    return NULL;
}

/* The series of these labels; created on first use; NULL on out of memory (the sample is lost). */
static struct series *series_get(enum metric_id id, const char *a, const char *b)
{
    struct series *s;

    a = metric_label(&metric_families[id], 0).n > 0 && a != NULL ? a : "";
    b = metric_label(&metric_families[id], 1).n > 0 && b != NULL ? b : "";
    if ((s = series_find(id, a, b)) != NULL) {
        return s;
    }
    if (values[id].count == METRIC_SERIES_MAX - 1) { /* the last one is for everything else */
        a = *a != '\0' ? "other" : "";
        b = *b != '\0' ? "other" : "";
    }
    if (values[id].count == METRIC_SERIES_MAX) {
        return values[id].series[METRIC_SERIES_MAX - 1];
    }
    return series_add(id, a, b);
}

void metric_add(enum metric_id id, const char *a, const char *b, uint64_t n)
{
    struct series *s;

    REQUIRE((unsigned)id < METRIC_COUNT && metric_families[id].kind == METRIC_KIND_COUNTER);
    if ((s = series_get(id, a, b)) != NULL) {
        s->count += n;
    }
}

void metric_set(enum metric_id id, const char *a, const char *b, double v)
{
    struct series *s;

    REQUIRE((unsigned)id < METRIC_COUNT && metric_families[id].kind == METRIC_KIND_GAUGE);
    if ((s = series_get(id, a, b)) != NULL) {
        s->value = v;
    }
}

void metric_observe_us(enum metric_id id, const char *a, const char *b, uint64_t us)
{
    struct series *s;
    unsigned i = 0;

    REQUIRE((unsigned)id < METRIC_COUNT && metric_families[id].kind == METRIC_KIND_HISTOGRAM);
    if ((s = series_get(id, a, b)) == NULL) {
        return;
    }
    while (i < METRIC_BUCKETS && us > buckets[i].us) {
        i++;
    }
    s->histo.counts[i]++;
    s->histo.sum_us += us;
}

static void put_label(struct bytes *out, struct str_view name, const char *value)
{
    (void)bytes_put_sv(out, name);
    (void)bytes_put(out, "=\"", 2);
    for (; *value != '\0'; value++) {
        bool is_printable = *value >= ' ' && *value < 0x7f;

        if (*value == '"' || *value == '\\') {
            (void)bytes_put_char(out, '\\');
        }
        (void)bytes_put(out, is_printable ? value : "_", 1);
    }
    (void)bytes_put_char(out, '"');
}

/* name_suffix{a="x",b="y",le="0.1",process="p"} and a blank. */
static void put_head(struct bytes *out, const struct metric_family *f, const struct series *s,
                     const char *suffix, const char *le, const char *process)
{
    (void)bytes_put_sv(out, f->name);
    (void)bytes_put_str(out, suffix);
    (void)bytes_put_char(out, '{');
    for (unsigned i = 0; i < METRIC_LABELS_MAX; i++) {
        struct str_view name = metric_label(f, i);

        if (name.n > 0) {
            put_label(out, name, s->labels[i]);
            (void)bytes_put_char(out, ',');
        }
    }
    if (le != NULL) {
        put_label(out, SV_LIT("le"), le);
        (void)bytes_put_char(out, ',');
    }
    put_label(out, SV_LIT("process"), process);
    (void)bytes_put(out, "} ", 2);
}

static void put_histogram(struct bytes *out, const struct metric_family *f, const struct series *s,
                          const char *process)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i <= METRIC_BUCKETS; i++) {
        sum += s->histo.counts[i];
        put_head(out, f, s, "_bucket", i < METRIC_BUCKETS ? buckets[i].le : "+Inf", process);
        (void)bytes_put_u64(out, sum);
        (void)bytes_put_char(out, '\n');
    }
    put_head(out, f, s, "_sum", NULL, process);
    (void)bytes_printf(out, "%llu.%06u\n", (unsigned long long)(s->histo.sum_us / 1000000),
                       (unsigned)(s->histo.sum_us % 1000000));
    put_head(out, f, s, "_count", NULL, process);
    (void)bytes_put_u64(out, sum);
    (void)bytes_put_char(out, '\n');
}

static void put_series(struct bytes *out, const struct metric_family *f, const struct series *s,
                       const char *process)
{
    switch (f->kind) {
    case METRIC_KIND_COUNTER:
        put_head(out, f, s, "", NULL, process);
        (void)bytes_put_u64(out, s->count);
        (void)bytes_put_char(out, '\n');
        break;
    case METRIC_KIND_GAUGE:
        put_head(out, f, s, "", NULL, process);
        (void)bytes_printf(out, "%.15g\n", s->value);
        break;
    case METRIC_KIND_HISTOGRAM:
        put_histogram(out, f, s, process);
        break;
    }
}

static void take_process_values(void)
{
    struct series *s = series_get(METRIC_PROC_SOFT_CHECKS, NULL, NULL);
    uint64_t now = clock_ms();

    if (s != NULL) {
        s->count = check_soft_count();
    }
    if (start_ms == 0) {
        start_ms = now;
    }
    metric_set(METRIC_PROC_UPTIME, NULL, NULL, (double)(now - start_ms) / 1000.0);
}

int metric_snapshot(struct bytes *out, const char *process_name)
{
    take_process_values();
    for (unsigned id = 0; id < METRIC_COUNT; id++) {
        for (unsigned i = 0; i < values[id].count; i++) {
            put_series(out, &metric_families[id], values[id].series[i], process_name);
        }
    }
    return out->rc;
}

void metric_reset(void)
{
    for (unsigned id = 0; id < METRIC_COUNT; id++) {
        for (unsigned i = 0; i < values[id].count; i++) {
            mem_free(values[id].series[i]);
        }
        memset(&values[id], 0, sizeof(values[id]));
    }
    start_ms = 0;
}
