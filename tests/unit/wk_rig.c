#include "wk_rig.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/metric.h"

#define LIMIT_MS 10000

struct conn {
    uv_tcp_t tcp;
    struct rig *rig;
    struct bytes in;
    bool is_busy;
    const struct rig_reply *reply;
    unsigned part;
    uv_timer_t timer;
    unsigned open;
};

struct wr {
    uv_write_t w;
};

/* --- provider --- */

static void on_conn_closed(uv_handle_t *h)
{
    struct conn *c = h->data;

    if (--c->open == 0) {
        c->rig->open_handles--;
        bytes_fini(&c->in);
        free(c);
    }
}

static void conn_close(struct conn *c)
{
    if (!uv_is_closing((uv_handle_t *)&c->tcp)) {
        uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
        uv_close((uv_handle_t *)&c->timer, on_conn_closed);
    }
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
    static char store[65536];

    (void)h;
    (void)size;
    *buf = uv_buf_init(store, sizeof(store));
}

static void on_written(uv_write_t *w, int status)
{
    (void)status;
    free(w);
}

static void conn_next(struct conn *c);

static void on_part_timer(uv_timer_t *t)
{
    struct conn *c = t->data;
    const char *part = c->reply->parts[c->part];

    if (part == NULL) {
        bool does_close = c->reply->does_close;
        c->is_busy = false;
        if (does_close) {
            conn_close(c);
        } else {
            conn_next(c);
        }
        return;
    }
    uv_write_t *w = malloc(sizeof(*w));
    union {
        const char *in;
        char *out;
    } u = {part};
    uv_buf_t buf = uv_buf_init(u.out, (unsigned)strlen(part));
    c->part++;
    (void)uv_write(w, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
    (void)uv_timer_start(&c->timer, on_part_timer, 5, 0);
}

static bool whole_request(struct conn *c, size_t *ret_n)
{
    const char *end = c->in.n > 0 ? strstr(c->in.p, "\r\n\r\n") : NULL;
    const char *length = end != NULL ? strstr(c->in.p, "Content-Length: ") : NULL;
    size_t n;

    if (end == NULL) {
        return false;
    }
    n = (size_t)(end - c->in.p) + 4 +
        (length != NULL && length < end ? strtoul(length + 16, NULL, 10) : 0);
    *ret_n = n;
    return c->in.n >= n;
}

static void conn_next(struct conn *c)
{
    struct rig *r = c->rig;
    size_t n;

    if (c->is_busy || !whole_request(c, &n)) {
        return;
    }
    assert_true(r->request_count < RIG_REPLIES_MAX);
    r->requests[r->request_count++] = strndup(c->in.p, n);
    bytes_drop(&c->in, n);
    assert_true(r->reply_next < r->reply_count);
    c->reply = &r->replies[r->reply_next++];
    c->part = 0;
    c->is_busy = true;
    if (!c->reply->does_nothing) {
        (void)uv_timer_start(&c->timer, on_part_timer, 0, 0);
    }
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = s->data;

    if (n < 0) {
        c->rig->closed_connections++;
        conn_close(c);
        return;
    }
    (void)bytes_put(&c->in, buf->base, (size_t)n);
    conn_next(c);
}

static void on_connection(uv_stream_t *s, int status)
{
    struct rig *r = s->data;
    struct conn *c = calloc(1, sizeof(*c));

    assert_int_equal(status, 0);
    c->rig = r;
    c->open = 2;
    r->open_handles++;
    r->connections++;
    (void)uv_tcp_init(&r->loop.uv, &c->tcp);
    (void)uv_timer_init(&r->loop.uv, &c->timer);
    c->tcp.data = c;
    c->timer.data = c;
    assert_int_equal(uv_accept(s, (uv_stream_t *)&c->tcp), 0);
    (void)uv_tcp_nodelay(&c->tcp, 1);
    (void)uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

void rig_reply(struct rig *r, struct rig_reply reply)
{
    assert_true(r->reply_count < RIG_REPLIES_MAX);
    r->replies[r->reply_count++] = reply;
}

void rig_reply_json(struct rig *r, const char *status, const char *headers, const char *body)
{
    static char store[RIG_REPLIES_MAX][4096];
    char *dst = store[r->reply_count];

    (void)snprintf(
        dst, sizeof(store[0]),
        "HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s", status,
        headers, strlen(body), body);
    rig_reply(r, (struct rig_reply){.parts = {dst}});
}

/* --- planes --- */

static struct rig_heard *record(struct rig_inbox *in, const struct plane_in *m)
{
    struct rig_heard *h = &in->v[in->count];

    assert_true(in->count < RIG_HEARD_MAX);
    in->count++;
    memset(h, 0, sizeof(*h));
    h->type = m->head.type;
    h->attempt = m->head.attempt;
    h->flags = m->head.flags;
    h->deadline_ms = m->head.deadline_ms;
    h->rid = m->head.rid;
    h->n = m->payload != NULL ? m->payload->n : 0;
    h->payload = mem_strndup(m->payload != NULL ? m->payload->p : "", h->n);
    return h;
}

static void on_frontend_msg(void *ctx, const struct plane_in *m)
{
    struct rig *r = ctx;
    struct rig_heard *h = record(&r->at_frontend, m);
    struct msg_body_HEAD head;
    struct msg_body_END end;

    (void)sv_copy(r->fe_worker, sizeof(r->fe_worker), m->peer);
    if (h->type == MSG_HEAD) {
        assert_int_equal(msg_decode_HEAD(&head, m->fields), 0);
        h->status = head.status;
        h->length = head.length;
        (void)sv_copy(h->text, sizeof(h->text), head.headers);
    } else if (h->type == MSG_END) {
        assert_int_equal(msg_decode_END(&end, m->fields), 0);
        h->code = end.code;
        (void)sv_copy(h->text, sizeof(h->text), end.text);
    }
}

static void broker_send(struct rig *r, const struct bytes *frame, struct buf *payload)
{
    assert_int_equal(frame->rc, 0);
    assert_int_equal(plane_send(r->broker, sv_of(r->worker), sv_from(frame->p, frame->n), payload),
                     0);
}

static void welcome(struct rig *r, const struct plane_in *m)
{
    struct msg_head head = {.type = MSG_WELCOME};
    struct msg_body_WELCOME w = {
        .instance = r->broker_instance, .heartbeat_ms = 1000, .liveness = 3, .workers = 1};
    struct bytes frame = {0};

    r->hellos++;
    r->hello_n = m->payload != NULL ? m->payload->n : 0;
    assert_true(r->hello_n <= sizeof(r->hello));
    if (r->hello_n > 0) {
        memcpy(r->hello, m->payload->p, r->hello_n);
    }
    (void)msg_encode_WELCOME(&frame, &head, &w);
    broker_send(r, &frame, NULL);
    bytes_fini(&frame);
}

static void note_sbx(struct rig_heard *h, const struct plane_in *m)
{
    struct msg_body_SBX_CALL call;
    struct msg_body_SBX_CANCEL cancel;

    if (h->type == MSG_SBX_CALL) {
        assert_int_equal(msg_decode_SBX_CALL(&call, m->fields), 0);
        h->call = call.call;
        h->op = call.op;
        h->scope = call.scope;
        h->op_id = call.op_id;
        (void)snprintf(h->text, sizeof(h->text), "%.*s|%.*s|%.*s", (int)call.session.n,
                       call.session.p, (int)call.owner.n, call.owner.p, (int)call.tool.n,
                       call.tool.p);
    } else {
        assert_int_equal(msg_decode_SBX_CANCEL(&cancel, m->fields), 0);
        h->call = cancel.call;
    }
}

static void on_broker_msg(void *ctx, const struct plane_in *m)
{
    struct rig *r = ctx;
    struct rig_heard *h;
    struct msg_body_DONE done;
    struct msg_body_CREDIT credit;

    if (m->head.type == MSG_HEARTBEAT || m->head.type == MSG_STATS) {
        return;
    }
    (void)sv_copy(r->worker, sizeof(r->worker), m->peer);
    h = record(&r->at_broker, m);
    if (h->type == MSG_HELLO) {
        welcome(r, m);
    } else if (h->type == MSG_DONE) {
        assert_int_equal(msg_decode_DONE(&done, m->fields), 0);
        h->status = done.outcome;
    } else if (h->type == MSG_CREDIT) {
        assert_int_equal(msg_decode_CREDIT(&credit, m->fields), 0);
        h->status = credit.n;
    } else if (h->type == MSG_SBX_CALL || h->type == MSG_SBX_CANCEL) {
        note_sbx(h, m);
    }
}

static struct plane *bind_plane(struct rig *r, const char *name,
                                void (*on_msg)(void *ctx, const struct plane_in *in))
{
    struct plane_hooks hooks = {.on_msg = on_msg, .ctx = r};
    char endpoint[160];
    struct plane_opts opts = {.kind = PLANE_ROUTER, .endpoint = endpoint};
    struct plane *p = NULL;
    struct err e = {0};

    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/%s.sock", r->dir, name);
    if (plane_open(&p, &r->loop, &opts, &hooks, &e) != 0) {
        fail_msg("%s", e.text);
    }
    return p;
}

void rig_broker_up(struct rig *r)
{
    id_random(&r->broker_instance, sizeof(r->broker_instance));
    r->broker = bind_plane(r, "broker", on_broker_msg);
}

static void count_closed(void *ctx)
{
    (*(unsigned *)ctx)++;
}

void rig_broker_down(struct rig *r)
{
    unsigned closed = 0;

    plane_close(r->broker, count_closed, &closed);
    r->broker = NULL;
    rig_until(r, &closed, 1);
}

/* --- what the broker and the frontend say --- */

static struct msg_head head_of(uint8_t type, uint8_t number)
{
    struct msg_head h = {.type = type, .attempt = 1};

    memset(h.rid.b, number, sizeof(h.rid.b));
    memset(h.tenant.b, 7, sizeof(h.tenant.b));
    return h;
}

void rig_dispatch(struct rig *r, const struct rig_job *job)
{
    struct msg_head head = head_of(MSG_DISPATCH, job->number);
    char endpoint[160];
    struct msg_body_DISPATCH m = {
        .kind = (uint8_t)job->kind,
        .method = (uint8_t)(job->method != 0 ? job->method : MSG_METHOD_POST),
        .window = job->window != 0 ? job->window : 1U << 20,
        .path = sv_of(job->path),
        .headers = sv_of(job->headers),
    };
    struct buf *body = job->body != NULL ? buf_copy(job->body, strlen(job->body)) : NULL;
    struct bytes frame = {0};

    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/fe.sock", r->dir);
    m.endpoint = sv_of(endpoint);
    head.attempt = job->attempt != 0 ? job->attempt : 1;
    head.deadline_ms = job->deadline_ms;
    (void)msg_encode_DISPATCH(&frame, &head, &m);
    broker_send(r, &frame, body);
    buf_unref(body);
    bytes_fini(&frame);
}

void rig_cancel(struct rig *r, uint8_t number, int code)
{
    struct msg_head head = head_of(MSG_CANCEL, number);
    struct msg_body_CANCEL m = {.code = code};
    struct bytes frame = {0};

    (void)msg_encode_CANCEL(&frame, &head, &m);
    broker_send(r, &frame, NULL);
    bytes_fini(&frame);
}

void rig_window(struct rig *r, uint8_t number, uint32_t n)
{
    struct msg_head head = head_of(MSG_WINDOW, number);
    struct msg_body_WINDOW m = {.bytes = n};
    struct bytes frame = {0};

    (void)msg_encode_WINDOW(&frame, &head, &m);
    assert_int_equal(plane_send(r->frontend, sv_of(r->fe_worker), sv_from(frame.p, frame.n), NULL),
                     0);
    bytes_fini(&frame);
}

void rig_sbx_event(struct rig *r, uint8_t number, uint32_t call, enum msg_sbx_event kind,
                   const char *payload)
{
    struct msg_head head = head_of(MSG_SBX_EVENT, number);
    struct msg_body_SBX_EVENT m = {.call = call, .kind = (uint8_t)kind};
    struct buf *b = buf_copy(payload, strlen(payload));
    struct bytes frame = {0};

    (void)msg_encode_SBX_EVENT(&frame, &head, &m);
    broker_send(r, &frame, b);
    buf_unref(b);
    bytes_fini(&frame);
}

void rig_sbx_result(struct rig *r, uint8_t number, uint32_t call, int code, const char *text,
                    const char *payload)
{
    struct msg_head head = head_of(MSG_SBX_RESULT, number);
    struct msg_body_SBX_RESULT m = {.call = call,
                                    .code = code,
                                    .owner = SV_LIT("sandboxd-0"),
                                    .sandbox_id = SV_LIT("box1"),
                                    .text = sv_of(text)};
    struct buf *b = buf_copy(payload, strlen(payload));
    struct bytes frame = {0};

    (void)msg_encode_SBX_RESULT(&frame, &head, &m);
    broker_send(r, &frame, b);
    buf_unref(b);
    bytes_fini(&frame);
}

/* --- waiting --- */

static void on_wake(uv_timer_t *t)
{
    (void)t;
}

static void on_wake_closed(uv_handle_t *h)
{
    *(bool *)h->data = true;
}

/* Turns the loop until is_over(arg) or `ms` passed; returns whether it was over. */
static bool turn(struct rig *r, unsigned ms, bool (*is_over)(const void *arg), const void *arg)
{
    uint64_t end = clock_ms() + ms;
    bool is_closed = false;
    uv_timer_t t;

    (void)uv_timer_init(&r->loop.uv, &t);
    (void)uv_timer_start(&t, on_wake, 5, 5);
    while (!is_over(arg) && clock_ms() < end) {
        (void)uv_run(&r->loop.uv, UV_RUN_ONCE);
    }
    bool ret = is_over(arg);
    t.data = &is_closed;
    uv_close((uv_handle_t *)&t, on_wake_closed);
    while (!is_closed) {
        (void)uv_run(&r->loop.uv, UV_RUN_NOWAIT);
    }
    return ret;
}

struct want {
    const unsigned *counter;
    const struct rig_inbox *in;
    uint8_t type;
    unsigned n;
};

unsigned rig_count(const struct rig_inbox *in, uint8_t type)
{
    unsigned n = 0;

    for (unsigned i = 0; i < in->count; i++) {
        n += in->v[i].type == type ? 1U : 0U;
    }
    return n;
}

static bool is_heard(const void *arg)
{
    const struct want *w = arg;

    return rig_count(w->in, w->type) >= w->n;
}

static bool is_counted(const void *arg)
{
    const struct want *w = arg;

    return *w->counter >= w->n;
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

struct rig_heard *rig_wait(struct rig *r, struct rig_inbox *in, uint8_t type, unsigned n)
{
    struct want w = {.in = in, .type = type, .n = n};
    unsigned seen = 0;

    if (!turn(r, LIMIT_MS, is_heard, &w)) {
        fail_msg("waited in vain for %s number %u; there are %u", msg_name(type), n,
                 rig_count(in, type));
    }
    for (unsigned i = 0; i < in->count; i++) {
        if (in->v[i].type == type && ++seen == n) {
            return &in->v[i];
        }
    }
    return NULL;
}

void rig_until(struct rig *r, const unsigned *counter, unsigned want)
{
    struct want w = {.counter = counter, .n = want};

    if (!turn(r, LIMIT_MS, is_counted, &w)) {
        fail_msg("waited in vain: %u of %u", *counter, want);
    }
}

void rig_turn_for(struct rig *r, unsigned ms)
{
    (void)turn(r, ms, never, NULL);
}

/* --- start and stop --- */

static void put_models(struct bytes *out, const char *models, unsigned port)
{
    const char *at;

    while ((at = strstr(models, "PORT")) != NULL) {
        (void)bytes_put(out, models, (size_t)(at - models));
        (void)bytes_printf(out, "%u", port);
        models = at + 4;
    }
    (void)bytes_put_str(out, models);
}

static void write_config(struct rig *r, const char *models, const char *extra)
{
    struct bytes text = {0};
    FILE *f;

    (void)bytes_put_str(&text, "model_list:\n");
    put_models(&text, models, r->port);
    (void)bytes_printf(&text, "cofferdam:\n  run_dir: %s\n  worker: {jobs: 64}\n%s", r->dir, extra);
    (void)snprintf(r->config, sizeof(r->config), "%s/c.yaml", r->dir);
    f = fopen(r->config, "w");
    assert_non_null(f);
    (void)fwrite(text.p, 1, text.n, f);
    (void)fclose(f);
    bytes_fini(&text);
}

static void on_stopped(void *ctx)
{
    struct rig *r = ctx;

    r->pool = NULL;
    r->stopped++;
}

static void on_tick(void *ctx)
{
    struct rig *r = ctx;

    if (r->pool != NULL) {
        wk_pool_tick(r->pool);
    }
}

static void on_drain(void *ctx)
{
    (void)ctx;
}

static void listen_provider(struct rig *r)
{
    struct sockaddr_in a;
    struct sockaddr_storage bound;
    int n = sizeof(bound);

    (void)uv_tcp_init(&r->loop.uv, &r->listener);
    r->listener.data = r;
    (void)uv_ip4_addr("127.0.0.1", 0, &a);
    assert_int_equal(uv_tcp_bind(&r->listener, (const struct sockaddr *)&a, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&r->listener, 16, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&r->listener, (struct sockaddr *)&bound, &n), 0);
    r->port = ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
}

void rig_start(struct rig *r, const char *models, const char *extra)
{
    struct loop_hooks hooks = {.on_drain = on_drain, .on_tick = on_tick, .ctx = r};
    struct wk_pool_opts opts = {
        .loop = &r->loop, .name = "worker-t", .on_stopped = on_stopped, .ctx = r};
    struct err e = {0};

    memset(r, 0, sizeof(*r));
    assert_int_equal(id_init(), 0);
    log_set_level(LOG_LEVEL_ERROR);
    (void)strcpy(r->dir, "/tmp/cfd-wk-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->at_broker.v = calloc(RIG_HEARD_MAX, sizeof(struct rig_heard));
    r->at_frontend.v = calloc(RIG_HEARD_MAX, sizeof(struct rig_heard));
    assert_int_equal(loop_init(&r->loop, &hooks, 5000), 0);
    listen_provider(r);
    write_config(r, models, extra);
    if (cfg_load(&r->cfg, r->config, CFG_FOR_WORKER, NULL, NULL, &e) != 0) {
        fail_msg("%s", e.text);
    }
    rig_broker_up(r);
    r->frontend = bind_plane(r, "fe", on_frontend_msg);
    opts.cfg = r->cfg;
    if (wk_pool_start(&r->pool, &opts, &e) != 0) {
        fail_msg("%s", e.text);
    }
    (void)rig_wait(r, &r->at_broker, MSG_CREDIT, 1);
}

static void inbox_free(struct rig_inbox *in)
{
    for (unsigned i = 0; i < in->count; i++) {
        mem_free(in->v[i].payload);
    }
    free(in->v);
}

static void on_listener_closed(uv_handle_t *h)
{
    struct rig *r = h->data;

    r->stopped++;
}

static void close_walk(uv_handle_t *h, void *arg)
{
    struct rig *r = arg;

    if (h->type == UV_TCP && h != (uv_handle_t *)&r->listener && h->data != NULL &&
        !uv_is_closing(h)) {
        conn_close(h->data);
    }
}

static void unlink_in(const struct rig *r, const char *name)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    (void)unlink(path);
}

void rig_stop(struct rig *r)
{
    if (r->pool != NULL) {
        wk_pool_stop(r->pool);
    }
    rig_until(r, &r->stopped, 1);
    if (r->broker != NULL) {
        plane_close(r->broker, NULL, NULL);
    }
    plane_close(r->frontend, NULL, NULL);
    uv_walk(&r->loop.uv, close_walk, r);
    uv_close((uv_handle_t *)&r->listener, on_listener_closed);
    rig_until(r, &r->stopped, 2);
    loop_stop(&r->loop);
    loop_run(&r->loop);
    loop_fini(&r->loop);
    cfg_unref(r->cfg);
    inbox_free(&r->at_broker);
    inbox_free(&r->at_frontend);
    for (unsigned i = 0; i < r->request_count; i++) {
        free(r->requests[i]);
    }
    (void)unlink(r->config);
    unlink_in(r, "broker.sock");
    unlink_in(r, "fe.sock");
    assert_int_equal(rmdir(r->dir), 0);
    metric_reset();
    for (unsigned i = 0; i < 200 && mem_live() > 0; i++) {
        (void)usleep(5000); /* libzmq frees on its own thread */
    }
    assert_int_equal(mem_live(), 0);
}
