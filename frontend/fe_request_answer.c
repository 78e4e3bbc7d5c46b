/* Answers of workers: heads, chunks, ends, and the window given back. */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "fe_app.h"
#include "fe_headers.h"
#include "fe_request.h"
#include "fe_request_int.h"

/* --- flow control
 * ------------------------------------------------------------------------------------------------------
 */

/* Gives back what has left for the client, half a window at a time. */
static void grant(struct fe_request *r)
{
    uint64_t taken = r->received - r->granted;
    uint64_t queued = r->conn->queued_bytes;
    int rc = 0;

    if (taken <= queued || taken - queued < FE_WINDOW_BYTES / 2) {
        return;
    }
    taken -= queued;
    if (taken > UINT32_MAX) {
        taken = UINT32_MAX;
    }
    rc = fe_return_grant(r->fe, sv_from(r->peer, r->peer_n), &r->rid, r->attempt, (uint32_t)taken);
    r->wants_grant = rc == ERR_AGAIN;
    if (rc == 0) {
        r->granted += taken;
    }
}

void fe_request_on_flushed(struct fe_request *r)
{
    grant(r);
}

void fe_request_retry_grants(struct fe *fe)
{
    LIST_FOREACH_SAFE (k, tmp, &fe->open) {
        struct fe_request *r = CONTAINER_OF(k, struct fe_request, link);

        if (r->wants_grant) {
            grant(r);
        }
    }
}

/* --- head
 * ---------------------------------------------------------------------------------------------------------------
 */

static bool has_header(struct str_view lines, struct str_view name)
{
    while (lines.n > 0) {
        size_t end = sv_find(lines, '\n');

        if (lines.n > name.n && lines.p[name.n] == ':' &&
            sv_eq_nocase(sv_from(lines.p, name.n), name)) {
            return true;
        }
        end = end < lines.n ? end + 1 : end;
        lines = sv_from(lines.p + end, lines.n - end);
    }
    return false;
}

static void put_ms(struct bytes *out, const char *name, uint64_t us)
{
    unsigned rest = (unsigned)(us % 1000U);
    char digits[] = {
        '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10), '\r',
        '\n'};

    bytes_put_str(out, name);
    bytes_put(out, ": ", 2);
    bytes_put_u64(out, us / 1000U);
    bytes_put(out, digits, sizeof(digits));
}

/* The answer's header lines: the worker's, checked, and ours. */
static const char *build_headers(struct bytes *out, const struct fe_request *r,
                                 const struct msg_body_HEAD *m)
{
    unsigned bad = fe_headers_from_worker(out, m->headers);
    struct str_view lines = sv_from(out->p, out->n);
    bool has_type = has_header(lines, SV_LIT("content-type"));
    bool has_cache = has_header(lines, SV_LIT("cache-control"));
    bool has_accel = has_header(lines, SV_LIT("x-accel-buffering"));

    if (bad > 0) {
        LOG(PEER_BAD, &r->rid, KV_S("detail", "malformed header lines from a worker"),
            KV_U("lines", bad));
    }
    if (m->processing_ms != UINT32_MAX) {
        bytes_put_str(out, "openai-processing-ms: ");
        bytes_put_u64(out, m->processing_ms);
        bytes_put(out, "\r\n", 2);
        put_ms(out, "x-cofferdam-overhead-ms", (uint64_t)m->overhead_us + r->own_us);
    }
    if (r->is_event_stream) {
        if (!has_cache) {
            bytes_put_str(out, "cache-control: no-cache\r\n");
        }
        if (!has_accel) {
            bytes_put_str(out, "x-accel-buffering: no\r\n");
        }
    }
    if (has_type) {
        return NULL;
    }
    return r->is_event_stream ? "text/event-stream; charset=utf-8" : "application/json";
}

/* A worker still answers a request that is gone: its CANCEL was lost, so it is said again. */
static void on_stray(struct fe *fe, const struct plane_in *in)
{
    if ((in->head.flags & MSG_FLAG_LAST) == 0 && fe_request_find(fe, &in->head.rid) == NULL) {
        fe_request_cancel_stray(fe, &in->head);
    }
}

static void log_malformed(const struct plane_in *in)
{
    struct err e = {0};

    err_set(&e, ERR_PEER_MALFORMED, "malformed %s", msg_name(in->head.type));
    LOG(PEER_BAD, &in->head.rid, KV_ERR(&e));
}

static void note_payload(struct fe_request *r, const struct plane_in *in, uint32_t sequence)
{
    if (in->payload == NULL) {
        return;
    }
    r->received += in->payload->n;
    r->last_byte_ms = clock_ms();
    fe_sse_pass(&r->sse, in->payload, sequence);
}

void fe_request_on_head(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find_for(fe, in);
    struct msg_body_HEAD m;
    struct bytes headers = {0};
    struct fe_answer a = {0};
    struct fe_conn *c = NULL;
    bool is_last = (in->head.flags & MSG_FLAG_LAST) != 0;

    if (r == NULL || r->state == FE_REQUEST_STARTED) {
        on_stray(fe, in);
        return;
    }
    if (msg_decode_HEAD(&m, in->fields) != 0 || m.status < 200 || in->peer.n > sizeof(r->peer)) {
        log_malformed(in);
        return;
    }
    c = r->conn;
    REQUIRE(!r->is_answered);
    r->is_answered = true;
    r->wants_submit = false;
    r->state = FE_REQUEST_STARTED;
    fe_request_body_drop(r);
    memcpy(r->peer, in->peer.p, in->peer.n);
    r->peer_n = in->peer.n;
    r->is_event_stream = m.stream != MSG_STREAM_NONE;
    fe_sse_init(&r->sse, (enum msg_stream)m.stream);
    a.status = m.status;
    a.content_type = build_headers(&headers, r, &m);
    a.headers = sv_from(headers.p, headers.n);
    a.length = is_last ? buf_view(in->payload).n : m.length;
    if (is_last) {
        fe_request_retire(r);
    } else {
        r->last_byte_ms = clock_ms();
        note_payload(r, in, 0);
    }
    fe_conn_answer(c, &a, in->payload, is_last);
    if (!is_last && c->req == r) {
        grant(r);
    }
    bytes_fini(&headers);
}

/* --- the rest
 * -------------------------------------------------------------------------------------------------------------
 */

void fe_request_on_chunk(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find_for(fe, in);
    struct msg_body_CHUNK m;
    struct fe_conn *c = NULL;
    bool is_last = (in->head.flags & MSG_FLAG_LAST) != 0;

    if (r == NULL || r->state != FE_REQUEST_STARTED) {
        on_stray(fe, in);
        return;
    }
    if (msg_decode_CHUNK(&m, in->fields) != 0) {
        log_malformed(in);
        return;
    }
    c = r->conn;
    if (is_last) {
        fe_request_retire(r);
        fe_conn_more(c, in->payload, true);
        return;
    }
    note_payload(r, in, m.sequence);
    fe_conn_more(c, in->payload, false); /* may free r */
    if (c->req == r) {
        grant(r);
    }
}

void fe_request_on_end(struct fe *fe, const struct plane_in *in)
{
    struct fe_request *r = fe_request_find_for(fe, in);
    struct msg_body_END m;
    struct err e = {0};
    struct fe_conn *c = NULL;

    if (r == NULL) {
        return;
    }
    if (msg_decode_END(&m, in->fields) != 0) {
        log_malformed(in);
        return;
    }
    if (m.code == 0 && r->state == FE_REQUEST_STARTED) {
        c = r->conn;
        fe_request_retire(r);
        fe_conn_more(c, NULL, true);
        return;
    }
    if (m.code == 0) {
        err_set(&e, ERR_INTERNAL, "The worker ended without an answer.");
    } else if (m.text.n > 0) {
        err_set(&e, m.code, "%.*s", (int)m.text.n, m.text.p);
    } else {
        err_set(&e, m.code, NULL);
    }
    (void)sv_copy(e.param, sizeof(e.param), m.param);
    e.retry_after_ms = m.retry_after_ms;
    fe_request_fail(r, &e);
}
