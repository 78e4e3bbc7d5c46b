/* wk_out.c - see wk_out.h. */
#include "wk_out.h"

#include "base/check.h"
#include "base/clock.h"
#include "wk_pool.h"

static struct wk_out *out_of(const struct wk_job *job)
{
    return job->out;
}

static bool is_stuck(const struct wk_out *o)
{
    return o->stuck_frame.n > 0;
}

static size_t pending(const struct wk_out *o)
{
    return (o->one != NULL ? o->one->n - o->one_at : 0) + o->acc.n;
}

static void drop_data(struct wk_out *o)
{
    buf_unref(o->one);
    o->one = NULL;
    o->one_at = 0;
    bytes_reset(&o->acc);
}

/* Memory ran out under the answer: what waits is lost, so it cannot end well. */
static void set_broken(struct wk_out *o, int rc)
{
    drop_data(o);
    if (o->end.code == 0) {
        (void)err_set(&o->end, rc, NULL);
    }
}

void wk_out_init(struct wk_out *o, struct wk_job *job, struct wk_conn *conn, uint32_t window)
{
    o->job = job;
    o->conn = conn;
    o->window = window;
    o->stream = MSG_STREAM_NONE;
    bytes_init(&o->acc, (size_t)MSG_PAYLOAD_MAX);
    job->out = o;
}

void wk_out_fini(struct wk_out *o)
{
    wk_out_drop(o);
    bytes_fini(&o->headers);
    bytes_fini(&o->acc);
    bytes_fini(&o->stuck_frame);
}

void wk_out_drop(struct wk_out *o)
{
    drop_data(o);
    wk_return_unwait(&o->waiter);
    if (list_link_is_in(&o->dirty)) {
        list_remove(&o->job->pool->dirty, &o->dirty);
    }
    bytes_reset(&o->stuck_frame);
    buf_unref(o->stuck_payload);
    o->stuck_payload = NULL;
    wk_return_drop(o->conn);
    o->conn = NULL;
    o->state = WK_OUT_CLOSED;
}

bool wk_out_is_drained(const struct wk_out *o)
{
    return o->state == WK_OUT_CLOSED && !is_stuck(o);
}

/* --- event boundaries --- */

size_t wk_out_event_cut(const char *s, size_t n)
{
    while (n > 1) {
        const char *lf = memrchr(s, '\n', n);
        if (lf == NULL || lf == s) {
            return 0;
        }
        size_t at = (size_t)(lf - s);
        if (s[at - 1] == '\n' || (s[at - 1] == '\r' && at >= 2 && s[at - 2] == '\n')) {
            return at + 1;
        }
        n = at;
    }
    return 0;
}

uint32_t wk_out_sequence(struct str_view s)
{
    static const char key[] = "\"sequence_number\":";
    size_t end = wk_out_event_cut(s.p, s.n);
    const char *hit;
    uint32_t v = 0;

    if (end < 3) {
        return 0;
    }
    size_t from = wk_out_event_cut(s.p, end - 2);
    size_t n =
        end - from > 512 ? 512 : end - from; /* the number stands near the front of the event */
    if ((hit = memmem(s.p + from, n, key, sizeof(key) - 1)) == NULL) {
        return 0;
    }
    for (hit += sizeof(key) - 1; hit < s.p + from + n && *hit == ' '; hit++) {
    }
    for (; hit < s.p + from + n && *hit >= '0' && *hit <= '9'; hit++) {
        if (v > UINT32_MAX / 10 - 1) {
            return 0;
        }
        v = v * 10 + (uint32_t)(*hit - '0');
    }
    return v + 1;
}

/* --- sending --- */

static void on_conn_writable(struct wk_waiter *w);

/* Sends the frame in the pool's scratch; keeps it when the connection does not take it. */
static void send_frame(struct wk_out *o, struct buf *payload)
{
    struct bytes *frame = &o->job->pool->frame;
    int rc =
        frame->rc != 0 ? frame->rc : wk_return_send(o->conn, sv_from(frame->p, frame->n), payload);

    if (rc == 0) {
        return;
    }
    if (rc != ERR_AGAIN || bytes_put(&o->stuck_frame, frame->p, frame->n) != 0) {
        set_broken(o, rc == ERR_AGAIN ? ERR_NOMEM : rc);
        bytes_reset(&o->stuck_frame);
        o->state = WK_OUT_CLOSED; /* the frontend ends it at its deadline */
        return;
    }
    o->stuck_payload = payload != NULL ? buf_ref(payload) : NULL;
    wk_return_wait(o->conn, &o->waiter, on_conn_writable);
}

static void send_end(struct wk_out *o)
{
    struct msg_head head = wk_task_head(wk_task_of(o->job), MSG_END, 0);
    struct msg_body_END m = {
        .code = o->end.code,
        .retry_after_ms = o->end.retry_after_ms,
        .param = sv_of(o->end.param),
        .text = sv_of(o->end.text),
    };

    o->state = WK_OUT_CLOSED;
    bytes_reset(&o->job->pool->frame);
    if (msg_encode_END(&o->job->pool->frame, &head, &m) != 0) {
        set_broken(o, ERR_NOMEM);
        return;
    }
    send_frame(o, NULL);
}

static void send_head(struct wk_out *o, struct buf *payload, uint32_t flags)
{
    struct wk_task *t = wk_task_of(o->job);
    struct msg_head head = wk_task_head(t, MSG_HEAD, flags);
    uint64_t total = clock_us() - o->job->started_us;
    uint64_t waited = wk_task_waited_us(t);
    struct msg_body_HEAD m = {
        .status = o->status,
        .stream = (uint8_t)o->stream,
        .length = o->length,
        .overhead_us = total > waited ? (uint32_t)(total - waited) : 0,
        .processing_ms = o->processing_ms,
        .headers = sv_from(o->headers.p, o->headers.n),
    };

    if ((flags & MSG_FLAG_LAST) != 0 && o->length == MSG_LENGTH_UNKNOWN &&
        o->stream == MSG_STREAM_NONE) {
        m.length = payload != NULL ? payload->n : 0;
    }
    bytes_reset(&o->job->pool->frame);
    if (msg_encode_HEAD(&o->job->pool->frame, &head, &m) != 0) {
        /* wk_out_head let something through that no frame can carry, or memory is short */
        (void)err_set(&o->end, ERR_INTERNAL, "the answer's head cannot be sent");
        send_end(o);
        return;
    }
    o->state = WK_OUT_SENT;
    send_frame(o, payload);
}

static void send_chunk(struct wk_out *o, struct buf *payload, uint32_t flags)
{
    struct msg_head head = wk_task_head(wk_task_of(o->job), MSG_CHUNK, flags);
    struct msg_body_CHUNK m = {.sequence = o->sequence};

    if (m.sequence == 0 && o->stream == MSG_STREAM_RESPONSES) {
        m.sequence = wk_out_sequence(buf_view(payload));
    }
    bytes_reset(&o->job->pool->frame);
    if (msg_encode_CHUNK(&o->job->pool->frame, &head, &m) != 0) {
        set_broken(o, ERR_NOMEM);
        return;
    }
    send_frame(o, payload);
}

static void unref_parent(struct buf *b)
{
    buf_unref(b->foreign);
}

/* Next piece of a body that is not an event stream, within window and piece size. */
static struct buf *take_plain(struct wk_out *o)
{
    size_t max = o->window < (int64_t)WK_OUT_PIECE_MAX ? (size_t)o->window : WK_OUT_PIECE_MAX;
    struct buf *b = NULL;

    if (o->one != NULL) {
        size_t left = o->one->n - o->one_at;
        if (left <= max || (o->one_at == 0 && left <= (size_t)o->window)) {
            b = o->one_at == 0 ? o->one
                               : buf_wrap(o->one->p + o->one_at, left, unref_parent, o->one);
            if (b != NULL) {
                o->one = NULL; /* moved */
                o->one_at = 0;
            }
            return b;
        }
        b = buf_wrap(o->one->p + o->one_at, max, unref_parent, o->one);
        if (b != NULL) {
            (void)buf_ref(o->one);
            o->one_at += max;
        }
        return b;
    }
    if (o->acc.n <= max) {
        return buf_from_bytes(&o->acc);
    }
    if ((b = buf_copy(o->acc.p, max)) != NULL) {
        bytes_drop(&o->acc, max);
    }
    return b;
}

/* The whole events that are there; NULL with *ret_none when there are none yet. */
static struct buf *take_events(struct wk_out *o, bool *ret_none)
{
    bool is_all = o->is_ending && o->end.code == 0;
    struct buf *b;
    size_t cut;

    if (o->one != NULL) {
        cut = is_all ? o->one->n : wk_out_event_cut(o->one->p, o->one->n);
        if (o->acc.n == 0 && cut == o->one->n) {
            b = o->one;
            o->one = NULL;
            o->is_partial_sent = false;
            return b;
        }
        struct bytes both;
        bytes_init(&both, (size_t)MSG_PAYLOAD_MAX);
        (void)bytes_put(&both, o->one->p, o->one->n);
        if (bytes_put(&both, o->acc.p, o->acc.n) != 0) {
            bytes_fini(&both);
            return NULL;
        }
        buf_unref(o->one);
        o->one = NULL;
        bytes_fini(&o->acc);
        o->acc = both;
    }
    cut = is_all ? o->acc.n : wk_out_event_cut(o->acc.p, o->acc.n);
    if (cut == 0) {
        if (o->is_ending) {
            bytes_reset(&o->acc); /* half an event before an error helps nobody */
        }
        if (o->acc.n <= WK_OUT_PARTIAL_MAX) {
            *ret_none = true;
            return NULL;
        }
        cut = o->acc.n;
    }
    o->is_partial_sent = wk_out_event_cut(o->acc.p, cut) != cut;
    if (cut == o->acc.n) {
        return buf_from_bytes(&o->acc);
    }
    if ((b = buf_copy(o->acc.p, cut)) != NULL) {
        bytes_drop(&o->acc, cut);
    }
    return b;
}

/* What may be sent now, or NULL. */
static struct buf *take_ready(struct wk_out *o)
{
    bool is_none = false;
    struct buf *b;

    if (pending(o) == 0 || o->window <= 0) {
        return NULL;
    }
    b = o->stream == MSG_STREAM_NONE ? take_plain(o) : take_events(o, &is_none);
    if (b == NULL && !is_none) {
        set_broken(o, ERR_NOMEM);
        o->is_ending = true;
    }
    if (b != NULL) {
        o->window -= (int64_t)b->n;
    }
    return b;
}

/* Sends one message if one is due; false when there is nothing to send now. */
static bool send_next(struct wk_out *o, bool is_turn_end)
{
    struct buf *payload = take_ready(o);
    bool is_last = o->is_ending && o->end.code == 0 && pending(o) == 0;
    uint32_t flags = is_last ? MSG_FLAG_LAST : 0;

    if (o->state == WK_OUT_HELD) {
        bool may_go_alone = is_turn_end && (o->stream != MSG_STREAM_NONE || o->length == 0);
        if (o->is_ending && o->end.code != 0) {
            buf_unref(payload);
            drop_data(o);
            send_end(o); /* nothing was sent: a clean error answer is still possible */
            return true;
        }
        if (payload == NULL && !is_last && !may_go_alone) {
            return false;
        }
        send_head(o, payload, flags);
    } else if (payload != NULL) {
        send_chunk(o, payload, flags);
    } else if (o->is_ending && pending(o) == 0) {
        send_end(o);
    } else {
        return false;
    }
    buf_unref(payload);
    if (is_last) {
        o->state = WK_OUT_CLOSED;
    }
    return true;
}

static void flush(struct wk_out *o, bool is_turn_end)
{
    while ((o->state == WK_OUT_HELD || o->state == WK_OUT_SENT) && !is_stuck(o) &&
           send_next(o, is_turn_end)) {
    }
}

static void mark_dirty(struct wk_out *o)
{
    if (!list_link_is_in(&o->dirty)) {
        list_push_back(&o->job->pool->dirty, &o->dirty);
    }
}

/* After progress from outside: tells whoever waits for it. May free the task. */
static void after_progress(struct wk_out *o)
{
    if (wk_out_is_drained(o)) {
        wk_task_on_drained(wk_task_of(o->job));
    } else if (o->is_starved && !o->is_ending && wk_out_is_writable(o->job)) {
        o->is_starved = false;
        o->job->ops->on_writable(o->job);
    }
}

static void on_conn_writable(struct wk_waiter *w)
{
    struct wk_out *o = CONTAINER_OF(w, struct wk_out, waiter);

    if (is_stuck(o)) {
        int rc =
            wk_return_send(o->conn, sv_from(o->stuck_frame.p, o->stuck_frame.n), o->stuck_payload);
        if (rc == ERR_AGAIN) {
            wk_return_wait(o->conn, w, on_conn_writable);
            return;
        }
        bytes_reset(&o->stuck_frame);
        buf_unref(o->stuck_payload);
        o->stuck_payload = NULL;
        if (rc != 0) {
            set_broken(o, rc);
            o->state = WK_OUT_CLOSED;
        }
    }
    flush(o, true);
    after_progress(o);
}

void wk_out_flush_turn(struct wk_out *o)
{
    flush(o, true);
    after_progress(o);
}

void wk_out_add_window(struct wk_out *o, uint32_t bytes)
{
    o->window += bytes;
    if (o->window > INT32_MAX) {
        o->window = INT32_MAX;
    }
    if (o->state == WK_OUT_SENT) {
        flush(o, true);
        after_progress(o);
    }
}

/* --- what handlers call --- */

void wk_out_head(struct wk_job *job, const struct wk_head *head)
{
    struct wk_out *o = out_of(job);

    if (o->state == WK_OUT_CLOSED) {
        return; /* dropped: the client is gone */
    }
    REQUIRE(o->state == WK_OUT_IDLE);
    o->state = WK_OUT_HELD;
    o->status = (uint16_t)head->status;
    o->stream = head->stream;
    o->length = head->length;
    o->processing_ms = head->processing_ms;
    if (head->status < 100 || head->status > 599 || head->headers.n > MSG_HEADERS_MAX) {
        set_broken(o, ERR_UPSTREAM_BAD); /* no message can carry it; answered as an error */
    } else if (bytes_put_sv(&o->headers, head->headers) != 0) {
        set_broken(o, o->headers.rc);
    }
    mark_dirty(o);
}

static bool after_data(struct wk_out *o)
{
    if (o->acc.rc != 0) {
        set_broken(o, o->acc.rc);
    } else if (pending(o) >= WK_OUT_FLUSH_BYTES) {
        flush(o, false);
    }
    if (pending(o) > 0) {
        mark_dirty(o);
    }
    if (!wk_out_is_writable(o->job)) {
        o->is_starved = true;
        return false;
    }
    return true;
}

bool wk_out_write(struct wk_job *job, struct str_view data)
{
    struct wk_out *o = out_of(job);

    if (o->state == WK_OUT_CLOSED || o->is_ending || o->end.code != 0) {
        return true;
    }
    REQUIRE(o->state != WK_OUT_IDLE);
    (void)bytes_put_sv(&o->acc, data);
    o->sequence = 0;
    return after_data(o);
}

bool wk_out_data(struct wk_job *job, struct buf *data, uint32_t sequence)
{
    struct wk_out *o = out_of(job);

    if (o->state == WK_OUT_CLOSED || o->is_ending || o->end.code != 0) {
        return true;
    }
    REQUIRE(o->state != WK_OUT_IDLE);
    if (o->one == NULL && o->acc.n == 0) {
        o->one = buf_ref(data);
        o->one_at = 0;
    } else {
        (void)bytes_put(&o->acc, data->p, data->n);
    }
    o->sequence = sequence;
    return after_data(o);
}

void wk_out_finish(struct wk_job *job)
{
    struct wk_out *o = out_of(job);

    if (o->state == WK_OUT_CLOSED || o->is_ending) {
        return;
    }
    REQUIRE(o->state != WK_OUT_IDLE);
    o->is_ending = true;
    flush(o, false);
}

void wk_out_fail(struct wk_out *o, const struct err *e)
{
    if (o->state == WK_OUT_CLOSED || o->is_ending) {
        return;
    }
    o->is_ending = true;
    if (o->end.code == 0) {
        o->end = *e;
        o->end.code = e->code != 0 ? e->code : ERR_INTERNAL;
    }
    if (o->state == WK_OUT_IDLE) {
        o->state = WK_OUT_HELD; /* nothing goes out but END */
    }
    if (o->state == WK_OUT_SENT && o->is_partial_sent) {
        (void)bytes_put(&o->acc, "\n\n", 2); /* keeps the error event apart */
    }
    flush(o, false);
}

void wk_out_error(struct wk_job *job, const struct err *e)
{
    REQUIRE(out_of(job)->state == WK_OUT_IDLE || out_of(job)->state == WK_OUT_CLOSED);
    wk_out_fail(out_of(job), e);
}

void wk_out_abort(struct wk_job *job, const struct err *e)
{
    wk_out_fail(out_of(job), e);
}

bool wk_out_is_started(const struct wk_job *job)
{
    return out_of(job)->state != WK_OUT_IDLE;
}

bool wk_out_is_ended(const struct wk_job *job)
{
    return out_of(job)->is_ending || out_of(job)->state == WK_OUT_CLOSED;
}

bool wk_out_is_writable(const struct wk_job *job)
{
    const struct wk_out *o = out_of(job);

    if (o->state == WK_OUT_CLOSED) {
        return true; /* what comes is discarded; nobody would wake the producer again */
    }
    return !is_stuck(o) && o->window > 0 && pending(o) < WK_OUT_PENDING_HIGH;
}
