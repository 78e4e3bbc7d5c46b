/* The write queue of a connection: write what the socket takes now, keep references to the rest. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "fe_app.h"
#include "fe_conn.h"
#include "fe_request.h"

static struct fe_conn_seg *seg_at(struct fe_conn *c, size_t i)
{
    INVARIANT(i < c->seg_cap);
    return &c->segs[(c->seg_first + i) % c->seg_cap];
}

static int seg_reserve(struct fe_conn *c)
{
    size_t cap = c->seg_cap > 0 ? c->seg_cap * 2 : 8;
    struct fe_conn_seg *segs = NULL;

    if (c->seg_count < c->seg_cap) {
        return 0;
    }
    segs = mem_calloc(cap, sizeof(*segs));
    if (segs == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->seg_count; i++) {
        segs[i] = *seg_at(c, i);
    }
    mem_free(c->segs);
    c->segs = segs;
    c->seg_cap = cap;
    c->seg_first = 0;
    return 0;
}

static void seg_pop(struct fe_conn *c)
{
    struct fe_conn_seg *s = seg_at(c, 0);

    c->queued_bytes -= s->b->n - s->off;
    buf_unref(s->b);
    *s = (struct fe_conn_seg){NULL, 0};
    c->seg_first = (c->seg_first + 1) % c->seg_cap;
    c->seg_count--;
}

void fe_conn_queue_fini(struct fe_conn *c)
{
    while (c->seg_count > 0) {
        seg_pop(c);
    }
    mem_free(c->segs);
    c->segs = NULL;
    c->seg_cap = 0;
}

static int seg_push(struct fe_conn *c, struct fe_vec v)
{
    struct buf *b = NULL;
    size_t off = 0;

    if (v.n == 0) {
        return 0;
    }
    if (seg_reserve(c) != 0 || c->queued_bytes + v.n > FE_CONN_QUEUE_MAX) {
        return ERR_LIMIT;
    }
    if (v.owner != NULL && v.p + v.n == v.owner->p + v.owner->n) {
        b = buf_ref(v.owner); /* a tail of the owner */
        off = (size_t)(v.p - v.owner->p);
    } else if ((b = buf_copy(v.p, v.n)) == NULL) {
        return ERR_NOMEM;
    }
    *seg_at(c, c->seg_count++) = (struct fe_conn_seg){b, off};
    c->queued_bytes += v.n;
    return 0;
}

static void queue_start(struct fe_conn *c);

static void on_uv_write(uv_write_t *w, int status)
{
    struct fe_conn *c = CONTAINER_OF(w, struct fe_conn, write);

    c->is_writing = false;
    if (c->state == FE_CONN_CLOSED) {
        return;
    }
    if (status != 0) {
        fe_conn_close(c);
        return;
    }
    for (; c->seg_writing > 0; c->seg_writing--) {
        seg_pop(c);
    }
    c->progress_ms = uv_now(&c->fe->loop.uv);
    if (c->seg_count > 0) {
        queue_start(c);
    } else {
        fe_conn_on_flushed(c);
    }
    fe_conn_arm(c);
}

static void queue_start(struct fe_conn *c)
{
    uv_buf_t bufs[FE_CONN_WRITE_BUFS];
    unsigned n = 0;

    if (c->is_writing || c->seg_count == 0 || c->state == FE_CONN_CLOSED) {
        return;
    }
    for (; n < FE_CONN_WRITE_BUFS && n < c->seg_count; n++) {
        struct fe_conn_seg *s = seg_at(c, n);
        union {
            const char *in;
            char *out;
        } base = {.in = s->b->p + s->off}; /* uv_write does not change the bytes */

        bufs[n] = uv_buf_init(base.out, (unsigned)(s->b->n - s->off));
    }
    c->seg_writing = n;
    c->is_writing = true;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, bufs, n, on_uv_write) != 0) {
        c->is_writing = false;
        c->seg_writing = 0;
        fe_conn_close(c);
    }
}

/* Writes at once what the socket takes. Returns bytes written, or a negative uv code. */
static long write_now(struct fe_conn *c, const struct fe_vec *v, unsigned n)
{
    uv_buf_t bufs[8];

    REQUIRE(n <= 8);
    for (unsigned i = 0; i < n; i++) {
        union {
            const char *in;
            char *out;
        } base = {.in = v[i].p};

        bufs[i] = uv_buf_init(base.out, (unsigned)v[i].n);
    }
    long r = uv_try_write((uv_stream_t *)&c->tcp, bufs, n);

    return r == UV_EAGAIN ? 0 : r;
}

void fe_conn_send(struct fe_conn *c, const struct fe_vec *v, unsigned n)
{
    size_t done = 0;

    if (c->state == FE_CONN_CLOSED) {
        return;
    }
    if (c->seg_count == 0) {
        long r = write_now(c, v, n);

        if (r < 0) {
            fe_conn_close(c);
            return;
        }
        done = (size_t)r;
        c->progress_ms = uv_now(&c->fe->loop.uv);
    }
    for (unsigned i = 0; i < n; i++) {
        size_t skip = done < v[i].n ? done : v[i].n;

        done -= skip;
        if (seg_push(c, (struct fe_vec){v[i].p + skip, v[i].n - skip, v[i].owner}) != 0) {
            fe_conn_close(c);
            return;
        }
    }
    queue_start(c);
}

void fe_conn_on_flushed(struct fe_conn *c)
{
    if (c->req != NULL) {
        fe_request_on_flushed(c->req);
    }
    if (c->state == FE_CONN_FLUSH && c->seg_count == 0) {
        fe_conn_finish(c);
    }
}
