#include "br_stats.h"

#include <inttypes.h>

#include "base/metric.h"

static void add(enum metric_id id, const char *label, uint64_t now, uint64_t before)
{
    if (now > before) {
        metric_add(id, label, NULL, now - before);
    }
}

static void export_counters(const struct br_counts *n, const struct br_counts *o)
{
    static const char *const reasons[BR_REFUSED_COUNT] = {"queue_full", "key_limit", "wait_limit",
                                                          "deadline", "other"};

    add(METRIC_BR_JOBS, "ok", n->jobs_ok, o->jobs_ok);
    add(METRIC_BR_JOBS, "error", n->jobs_error, o->jobs_error);
    add(METRIC_BR_JOBS, "cancelled", n->jobs_cancelled, o->jobs_cancelled);
    add(METRIC_BR_JOBS, "refused", n->jobs_refused, o->jobs_refused);
    add(METRIC_BR_JOBS, "lost", n->jobs_lost, o->jobs_lost);
    for (unsigned i = 0; i < BR_REFUSED_COUNT; i++) {
        add(METRIC_BR_REFUSED, reasons[i], n->refused[i], o->refused[i]);
    }
    add(METRIC_BR_LOST, NULL, n->lost, o->lost);
    add(METRIC_BR_BAD_MESSAGES, NULL, n->bad, o->bad);
}

void br_stats_export(struct br_stats *s, const struct br_core *c, uint64_t now_ms)
{
    struct br_counts n;

    br_core_counts(c, now_ms, &n);
    export_counters(&n, &s->exported);
    metric_set(METRIC_BR_QUEUE_DEPTH, NULL, NULL, (double)n.queued + (double)n.grace);
    metric_set(METRIC_BR_QUEUE_OLDEST, NULL, NULL, (double)n.oldest_wait_ms / 1000.0);
    metric_set(METRIC_BR_IN_FLIGHT, NULL, NULL, (double)n.running + (double)n.claimed);
    metric_set(METRIC_BR_CREDIT, NULL, NULL, (double)n.credit);
    metric_set(METRIC_BR_PEERS, "frontend", NULL, (double)n.frontends);
    metric_set(METRIC_BR_PEERS, "worker", NULL, (double)n.workers);
    metric_set(METRIC_BR_PEERS, "sandboxd", NULL, (double)n.sandboxds);
    metric_set(METRIC_BR_TENANTS, NULL, NULL, (double)n.tenants_queued);
    metric_set(METRIC_BR_SANDBOX_CALLS, NULL, NULL, (double)n.calls);
    metric_set(METRIC_BR_SESSIONS, NULL, NULL, (double)n.sessions);
    s->exported = n;
}

int br_stats_metrics(struct br_stats *s, const struct br_core *c, uint64_t now_ms,
                     struct bytes *out)
{
    struct br_peer_info p;
    size_t it = 0;

    br_stats_export(s, c, now_ms);
    while (br_core_next_peer(c, now_ms, &it, &p)) {
        if (p.stats.n > 0) {
            (void)bytes_put_sv(out, p.stats);
            if (p.stats.p[p.stats.n - 1] != '\n') {
                (void)bytes_put_char(out, '\n');
            }
        }
    }
    (void)metric_snapshot(out, s->name);
    return out->rc;
}

static void put_process(struct bytes *out, const struct br_peer_info *p, bool is_first)
{
    (void)bytes_put_str(out, is_first ? "{\"name\":" : ",{\"name\":");
    (void)bytes_put_json_str(out, sv_of(p->name));
    (void)bytes_printf(
        out,
        ",\"role\":\"%s\",\"pid\":%" PRIu32 ",\"state\":\"%s\",\"in_flight\":%u,\"credit\":%u,"
        "\"capacity\":%u,\"last_seen_ms\":%" PRIu64 ",\"load\":%" PRIu32 ",\"lag_us\":%" PRIu32 "}",
        p->role, p->pid, p->state, p->in_flight, p->credit, p->capacity, p->last_seen_ms, p->load,
        p->lag_us);
}

static void put_peers(struct bytes *out, const struct br_core *c, uint64_t now_ms)
{
    struct br_peer_info p;
    size_t it = 0;
    bool is_first = true;

    (void)bytes_put_str(out, ",\"processes\":[");
    while (br_core_next_peer(c, now_ms, &it, &p)) {
        put_process(out, &p, is_first);
        is_first = false;
    }
    (void)bytes_put_str(out, "],\"sandboxds\":[");
    it = 0;
    is_first = true;
    while (br_core_next_peer(c, now_ms, &it, &p)) {
        if (p.is_sandboxd) {
            (void)bytes_put_str(out, is_first ? "{\"name\":" : ",{\"name\":");
            (void)bytes_put_json_str(out, sv_of(p.name));
            (void)bytes_printf(out, ",\"sessions\":%u,\"sandboxes\":%u}", p.sessions, p.sandboxes);
            is_first = false;
        }
    }
    (void)bytes_put_char(out, ']');
}

static void put_queues(struct bytes *out, const struct br_core *c, uint64_t now_ms)
{
    struct br_queue_info q;
    size_t it = 0;

    (void)bytes_put_str(out, ",\"queues\":[");
    while (it < BR_STATS_QUEUES_MAX && br_core_next_queue(c, now_ms, &it, &q)) {
        (void)bytes_put_str(out, it == 1 ? "{\"tenant\":\"" : ",{\"tenant\":\"");
        (void)bytes_put_hex(out, q.tenant.b,
                            6); /* enough to tell keys apart, not enough to test a guess against */
        (void)bytes_printf(out, "\",\"depth\":%u,\"in_flight\":%u,\"oldest_wait_ms\":%" PRIu64 "}",
                           q.depth, q.in_flight, q.oldest_wait_ms);
    }
    (void)bytes_put_char(out, ']');
}

int br_stats_status(const struct br_stats *s, const struct br_core *c, uint64_t now_ms,
                    struct bytes *out)
{
    struct br_counts n;

    br_core_counts(c, now_ms, &n);
    (void)bytes_put_str(out, "{\"broker\":{\"name\":");
    (void)bytes_put_json_str(out, sv_of(s->name));
    (void)bytes_printf(out,
                       ",\"pid\":%" PRIu32 ",\"uptime_ms\":%" PRIu64
                       ",\"version\":\"%s\",\"config_generation\":%" PRIu64 "}",
                       s->pid, now_ms > s->started_ms ? now_ms - s->started_ms : 0, CFD_VERSION,
                       s->generation);
    put_peers(out, c, now_ms);
    put_queues(out, c, now_ms);
    (void)bytes_printf(out,
                       ",\"jobs\":{\"queued\":%u,\"in_flight\":%u,\"recovering\":%u,\"credit\":%u,"
                       "\"oldest_wait_ms\":%" PRIu64 ",\"ok\":%" PRIu64 ",\"error\":%" PRIu64
                       ",\"cancelled\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"lost\":%" PRIu64 "}",
                       n.queued, n.running + n.claimed, n.grace + n.limbo, n.credit,
                       n.oldest_wait_ms, n.jobs_ok, n.jobs_error, n.jobs_cancelled, n.jobs_refused,
                       n.lost);
    (void)bytes_printf(out,
                       ",\"sandbox_calls\":%u,\"sessions\":%u,\"bad_messages\":%" PRIu64
                       ",\"unknown_messages\":%" PRIu64 "}",
                       n.calls, n.sessions, n.bad, n.unknown);
    return out->rc;
}
