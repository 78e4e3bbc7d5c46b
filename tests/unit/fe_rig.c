#include "fe_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define LIMIT_MS 20000U

/* --- loop
 * -------------------------------------------------------------------------------------------------------
 */

static void read_client(struct rig *r)
{
    char data[65536];
    ssize_t n = 0;

    while (r->fd >= 0 && !r->has_eof && (n = recv(r->fd, data, sizeof(data), MSG_DONTWAIT)) != -1) {
        if (n == 0) {
            r->has_eof = true;
        } else {
            bytes_put(&r->in, data, (size_t)n);
        }
    }
    if (n == -1 && errno != EAGAIN) {
        r->has_eof = true;
    }
}

static void turn(struct rig *r)
{
    struct timespec pause = {.tv_nsec = 200000};

    (void)uv_run(&r->fe->loop.uv, UV_RUN_NOWAIT);
    read_client(r);
    nanosleep(&pause, NULL);
}

void rig_until(struct rig *r, bool (*cond)(struct rig *r), const char *what)
{
    uint64_t end = clock_ms() + LIMIT_MS;

    while (!cond(r)) {
        if (clock_ms() > end) {
            fail_msg("waited in vain for %s; the client has: %.*s", what, (int)r->in.n,
                     r->in.n > 0 ? r->in.p : "");
        }
        turn(r);
    }
}

void rig_turn(struct rig *r, unsigned ms)
{
    uint64_t end = clock_ms() + ms;

    while (clock_ms() < end) {
        turn(r);
    }
}

/* --- broker
 * ------------------------------------------------------------------------------------------------------
 */

static void send_broker(struct rig *r, struct bytes *out)
{
    assert_int_equal(plane_send(r->broker, sv_of(r->fe_peer), sv_from(out->p, out->n), NULL), 0);
    bytes_fini(out);
}

static void welcome(struct rig *r, const struct plane_in *in)
{
    struct msg_body_HELLO hello;
    struct msg_head h = {.type = MSG_WELCOME};
    struct msg_body_WELCOME w = {.instance = r->instance,
                                 .heartbeat_ms = 60000,
                                 .liveness = 100,
                                 .workers = r->workers,
                                 .sandboxds = 1};
    struct bytes out = {0};

    assert_int_equal(msg_decode_HELLO(&hello, in->fields), 0);
    assert_int_equal(hello.role, MSG_ROLE_FRONTEND);
    (void)sv_copy(r->fe_peer, sizeof(r->fe_peer), in->peer);
    (void)sv_copy(r->endpoint, sizeof(r->endpoint), hello.endpoint);
    assert_int_equal(msg_encode_WELCOME(&out, &h, &w), 0);
    send_broker(r, &out);
    r->hellos++;
}

static void on_submit(struct rig *r, const struct plane_in *in)
{
    struct msg_body_SUBMIT m;

    assert_int_equal(msg_decode_SUBMIT(&m, in->fields), 0);
    r->submit = in->head;
    r->kind = m.kind;
    r->method = m.method;
    (void)sv_copy(r->path, sizeof(r->path), m.path);
    (void)sv_copy(r->headers, sizeof(r->headers), m.headers);
    bytes_reset(&r->payload);
    bytes_put_sv(&r->payload, buf_view(in->payload));
    r->submits++;
}

static void on_broker_msg(void *ctx, const struct plane_in *in)
{
    struct rig *r = ctx;
    struct msg_body_CANCEL m;

    if (in->head.type == MSG_HELLO) {
        welcome(r, in);
    } else if (in->head.type == MSG_SUBMIT) {
        on_submit(r, in);
    } else if (in->head.type == MSG_CANCEL) {
        assert_int_equal(msg_decode_CANCEL(&m, in->fields), 0);
        r->cancel_code = m.code;
        r->cancels++;
    }
}

static void on_plane_closed(void *ctx)
{
    ((struct rig *)ctx)->closed++;
}

static bool is_greeted(struct rig *r)
{
    return r->hellos > 0 && fe_links_is_up(r->fe, 0);
}

void rig_broker_up(struct rig *r)
{
    char endpoint[128];
    struct plane_hooks hooks = {.on_msg = on_broker_msg, .ctx = r};
    struct plane_opts opts = {.kind = PLANE_ROUTER, .endpoint = endpoint};
    struct err e = {0};

    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/run/broker.sock", r->dir);
    id_random(&r->instance, sizeof(r->instance));
    r->hellos = 0;
    if (plane_open(&r->broker, &r->fe->loop, &opts, &hooks, &e) != 0) {
        fail_msg("%s", e.text);
    }
    RIG_UNTIL(r, is_greeted);
}

static bool is_link_down(struct rig *r)
{
    return !fe_links_is_up(r->fe, 0);
}

static bool are_planes_closed(struct rig *r)
{
    return r->closed > 0;
}

void rig_broker_down(struct rig *r)
{
    r->closed = 0;
    plane_close(r->broker, on_plane_closed, r);
    r->broker = NULL;
    RIG_UNTIL(r, are_planes_closed);
    RIG_UNTIL(r, is_link_down);
}

void rig_lost(struct rig *r, uint8_t attempt)
{
    struct msg_head h = {
        .type = MSG_LOST, .attempt = attempt, .rid = r->submit.rid, .tenant = r->submit.tenant};
    struct msg_body_LOST m = {.worker = SV_LIT("w")};
    struct bytes out = {0};

    assert_int_equal(msg_encode_LOST(&out, &h, &m), 0);
    send_broker(r, &out);
}

void rig_refuse(struct rig *r, int code, uint32_t retry_after_ms, const char *text)
{
    struct msg_head h = {.type = MSG_REFUSE, .attempt = r->submit.attempt, .rid = r->submit.rid};
    struct msg_body_REFUSE m = {
        .code = code, .retry_after_ms = retry_after_ms, .text = sv_of(text)};
    struct bytes out = {0};

    assert_int_equal(msg_encode_REFUSE(&out, &h, &m), 0);
    send_broker(r, &out);
}

/* --- worker
 * -------------------------------------------------------------------------------------------------------
 */

static void on_worker_msg(void *ctx, const struct plane_in *in)
{
    struct rig *r = ctx;
    struct msg_body_WINDOW m;

    assert_int_equal(in->head.type, MSG_WINDOW);
    assert_int_equal(msg_decode_WINDOW(&m, in->fields), 0);
    r->windows++;
    r->window_bytes += m.bytes;
}

static bool is_worker_up(struct rig *r)
{
    return plane_is_up(r->worker);
}

static void send_worker(struct rig *r, struct bytes *out, const char *body, size_t n)
{
    struct plane_hooks hooks = {.on_msg = on_worker_msg, .ctx = r};
    struct plane_opts opts = {
        .kind = PLANE_DEALER, .endpoint = r->endpoint, .routing_id = "worker"};
    struct err e = {0};
    struct buf *b = n > 0 ? buf_copy(body, n) : NULL;

    if (r->worker == NULL) {
        assert_int_equal(plane_open(&r->worker, &r->fe->loop, &opts, &hooks, &e), 0);
        RIG_UNTIL(r, is_worker_up);
    }
    assert_int_equal(plane_send(r->worker, (struct str_view){NULL, 0}, sv_from(out->p, out->n), b),
                     0);
    buf_unref(b);
    bytes_fini(out);
}

static struct msg_head direct(const struct rig *r, uint8_t type, uint8_t attempt, uint32_t flags)
{
    return (struct msg_head){.type = type,
                             .attempt = attempt != 0 ? attempt : r->submit.attempt,
                             .rid = r->submit.rid,
                             .tenant = r->submit.tenant,
                             .flags = flags};
}

void rig_head(struct rig *r, uint8_t attempt, struct msg_body_HEAD m, const char *body,
              uint32_t flags)
{
    struct msg_head h = direct(r, MSG_HEAD, attempt, flags);
    struct bytes out = {0};

    assert_int_equal(msg_encode_HEAD(&out, &h, &m), 0);
    send_worker(r, &out, body, strlen(body));
}

void rig_chunk(struct rig *r, uint8_t attempt, const char *body, size_t n, uint32_t flags)
{
    struct msg_head h = direct(r, MSG_CHUNK, attempt, flags);
    struct msg_body_CHUNK m = {.sequence = 0};
    struct bytes out = {0};

    assert_int_equal(msg_encode_CHUNK(&out, &h, &m), 0);
    send_worker(r, &out, body, n);
}

void rig_end(struct rig *r, int code, const char *param, const char *text, uint32_t retry_after_ms)
{
    struct msg_head h = direct(r, MSG_END, 0, 0);
    struct msg_body_END m = {
        .code = code, .retry_after_ms = retry_after_ms, .param = sv_of(param), .text = sv_of(text)};
    struct bytes out = {0};

    assert_int_equal(msg_encode_END(&out, &h, &m), 0);
    send_worker(r, &out, NULL, 0);
}

/* --- client
 * -------------------------------------------------------------------------------------------------------
 */

void rig_connect(struct rig *r)
{
    char address[64];
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    rig_hang_up(r);
    fe_server_address(&r->fe->server, false, address, sizeof(address));
    sa.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(r->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
}

void rig_hang_up(struct rig *r)
{
    if (r->fd >= 0) {
        (void)close(r->fd);
    }
    r->fd = -1;
    r->has_eof = false;
    bytes_reset(&r->in);
}

void rig_send(struct rig *r, const char *text)
{
    assert_int_equal(send(r->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

void rig_post(struct rig *r, const char *path, const char *body)
{
    char text[2048];

    (void)snprintf(text, sizeof(text),
                   "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer K\r\nContent-Type: "
                   "application/json\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   path, strlen(body), body);
    rig_send(r, text);
}

bool rig_has(struct rig *r, const char *text)
{
    return r->in.n > 0 && strstr(r->in.p, text) != NULL;
}

bool rig_is_submitted(struct rig *r)
{
    return r->submits > 0;
}

void rig_forget(struct rig *r)
{
    bytes_reset(&r->in);
    r->submits = r->cancels = r->windows = 0;
    r->window_bytes = 0;
}

/* --- start and stop
 * ------------------------------------------------------------------------------------------------
 */

int rig_start(struct rig *r, const char *extra)
{
    char file[128];
    struct fe_app_opts opts = {.config_file = file, .name = "frontend-t"};
    struct err e = {0};
    FILE *f = NULL;

    memset(r, 0, sizeof(*r));
    r->fd = -1;
    r->workers = 1;
    (void)snprintf(r->dir, sizeof(r->dir), "/tmp/cfd-fe-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    (void)snprintf(file, sizeof(file), "%s/config.yaml", r->dir);
    f = fopen(file, "w");
    assert_non_null(f);
    (void)fprintf(
        f,
        "model_list:\n  - {model_name: m, litellm_params: {model: openai/m, api_key: k}}\n"
        "cofferdam:\n  listen: 127.0.0.1:0\n  admin_listen: 127.0.0.1:0\n  log_level: error\n"
        "  run_dir: %s/run\n  state_dir: %s\n  api_keys: [{name: a, key: K}]\n%s",
        r->dir, r->dir, extra);
    (void)fclose(f);
    if (fe_app_new(&r->fe, &opts, &e) != 0) {
        fail_msg("%s", e.text);
    }
    (void)remove(file);
    return 0;
}

static bool is_drained(struct rig *r)
{
    return r->fe->is_stopped;
}

void rig_stop(struct rig *r)
{
    char path[128];

    rig_hang_up(r);
    if (r->worker != NULL) {
        plane_close(r->worker, on_plane_closed, r);
    }
    if (r->broker != NULL) {
        plane_close(r->broker, on_plane_closed, r);
    }
    loop_drain(&r->fe->loop);
    RIG_UNTIL(r, is_drained);
    fe_app_run(r->fe);
    fe_app_free(r->fe);
    bytes_fini(&r->payload);
    bytes_fini(&r->in);
    (void)snprintf(path, sizeof(path), "%s/run", r->dir);
    (void)rmdir(path);
    (void)rmdir(r->dir);
}
