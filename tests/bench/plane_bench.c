/* plane_bench - what a hop over the message plane costs: DEALER -> ROUTER -> DEALER between two
 * processes over ipc://.
 *
 *   plane_bench [messages [payload bytes [in flight]]]
 *
 * Prints the time per hop (half a round trip) and the processor time of both processes, libzmq's
 * own threads included. The line "bare" is the same exchange with blocking libzmq calls and no
 * event loop: the floor. Run by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "io/plane.h"

#define WARM_UP 2000U

struct bench {
    struct loop loop;
    struct plane *plane;
    uv_timer_t linger;
    char endpoint[128];
    size_t payload_bytes;
    unsigned count, window, done, sent;
    uint64_t *sent_us, *took_us;
    uint64_t started_us, ended_us;
    struct bytes frame;
    struct buf *payload;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "plane_bench: %s\n", what);
    _exit(1);
}

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000U;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static double cpu_us(int who)
{
    struct rusage u;

    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void report(const char *name, struct bench *b, double cpu_own, double cpu_echo)
{
    unsigned n = b->count - WARM_UP;

    qsort(b->took_us + WARM_UP, n, sizeof(uint64_t), by_value);
    (void)printf(
        "%-6s per hop p50 %.1f us  p99 %.1f us   %.0f round trips/s   cpu per round trip %.1f us "
        "(%.1f asking, %.1f echoing)\n",
        name, (double)b->took_us[WARM_UP + n / 2] / 2.0,
        (double)b->took_us[WARM_UP + n * 99 / 100] / 2.0,
        (double)b->count * 1e6 / (double)(b->ended_us - b->started_us),
        (cpu_own + cpu_echo) / b->count, cpu_own / b->count, cpu_echo / b->count);
}

/* --- over the plane -------------------------------------------------------------------------- */

static void echo_on_linger(uv_timer_t *t)
{
    struct bench *b = t->data;

    uv_close((uv_handle_t *)t, NULL);
    plane_close(b->plane, NULL, NULL);
    loop_stop(&b->loop);
}

static void echo_on_msg(void *ctx, const struct plane_in *in)
{
    struct bench *b = ctx;

    (void)plane_send(b->plane, in->peer, in->frame0, in->payload);
    if (in->head.type == MSG_BYE) { /* a DEALER may lose what it had not read when its peer went */
        (void)uv_timer_init(&b->loop.uv, &b->linger);
        b->linger.data = b;
        (void)uv_timer_start(&b->linger, echo_on_linger, 200, 0);
    }
}

static void ask_send(struct bench *b)
{
    while (b->sent < b->count && b->sent - b->done < b->window) {
        b->sent_us[b->sent] = now_us();
        if (plane_send(b->plane, (struct str_view){NULL, 0},
                       (struct str_view){b->frame.p, b->frame.n}, b->payload) != 0) {
            return; /* on_writable follows */
        }
        b->sent++;
    }
}

static void ask_on_msg(void *ctx, const struct plane_in *in)
{
    struct bench *b = ctx;

    if (in->head.type == MSG_BYE) {
        plane_close(b->plane, NULL, NULL);
        loop_stop(&b->loop);
        return;
    }
    b->took_us[b->done] = now_us() - b->sent_us[b->done];
    b->done++;
    if (b->done < b->count) {
        ask_send(b);
        return;
    }
    b->ended_us = now_us();
    msg_head_patch(b->frame.p, MSG_BYE, 0, 0, 0);
    (void)plane_send(b->plane, (struct str_view){NULL, 0},
                     (struct str_view){b->frame.p, b->frame.n}, NULL);
}

static void ask_on_link(void *ctx, bool is_up)
{
    struct bench *b = ctx;

    if (is_up) {
        b->started_us = now_us();
        ask_send(b);
    }
}

static void ask_on_writable(void *ctx)
{
    ask_send(ctx);
}

static void plane_run(struct bench *b, enum plane_kind kind)
{
    struct plane_hooks ask = {
        .on_msg = ask_on_msg, .on_link = ask_on_link, .on_writable = ask_on_writable, .ctx = b};
    struct plane_hooks echo = {.on_msg = echo_on_msg, .ctx = b};
    struct plane_opts o = {.kind = kind, .endpoint = b->endpoint, .routing_id = "asker"};
    struct err e = {0};

    if (loop_init(&b->loop, NULL, 1000) != 0 ||
        plane_open(&b->plane, &b->loop, &o, kind == PLANE_DEALER ? &ask : &echo, &e) != 0) {
        die(e.text);
    }
    loop_run(&b->loop);
    loop_fini(&b->loop);
}

/* --- bare libzmq ----------------------------------------------------------------------------- */

static void bare_echo(struct bench *b)
{
    void *ctx = zmq_ctx_new();
    void *s = zmq_socket(ctx, ZMQ_ROUTER);
    unsigned ended = 0;

    if (zmq_bind(s, b->endpoint) != 0) {
        die("cannot bind");
    }
    while (ended < b->count) {
        zmq_msg_t m;
        int more = 0;

        (void)zmq_msg_init(&m);
        if (zmq_msg_recv(&m, s, 0) < 0) {
            die("cannot receive");
        }
        more = zmq_msg_more(&m);
        (void)zmq_msg_send(&m, s, more != 0 ? ZMQ_SNDMORE : 0);
        ended += more == 0;
    }
    (void)zmq_close(s);
    (void)zmq_ctx_term(ctx);
}

static void bare_ask(struct bench *b)
{
    void *ctx = zmq_ctx_new();
    void *s = zmq_socket(ctx, ZMQ_DEALER);
    size_t n = b->payload != NULL ? b->payload->n : 0;
    char *in = malloc(n + b->frame.n + 1);

    (void)zmq_connect(s, b->endpoint);
    b->started_us = now_us();
    while (b->done < b->count) {
        while (b->sent < b->count && b->sent - b->done < b->window) {
            b->sent_us[b->sent++] = now_us();
            (void)zmq_send(s, b->frame.p, b->frame.n, n > 0 ? ZMQ_SNDMORE : 0);
            if (n > 0) {
                (void)zmq_send(s, b->payload->p, n, 0);
            }
        }
        (void)zmq_recv(s, in, b->frame.n, 0);
        if (n > 0) {
            (void)zmq_recv(s, in, n, 0);
        }
        b->took_us[b->done] = now_us() - b->sent_us[b->done];
        b->done++;
    }
    b->ended_us = now_us();
    free(in);
    (void)zmq_close(s);
    (void)zmq_ctx_term(ctx);
}

/* --- both ------------------------------------------------------------------------------------ */

static void run(const char *name, struct bench *b, bool is_bare)
{
    double echo_before = cpu_us(RUSAGE_CHILDREN);
    double own_before = cpu_us(RUSAGE_SELF);
    pid_t child = 0;
    int status = 0;

    b->done = b->sent = 0;
    (void)fflush(stdout);
    if ((child = fork()) == 0) {
        if (is_bare) {
            bare_echo(b);
        } else {
            plane_run(b, PLANE_ROUTER);
        }
        _exit(0);
    }
    if (is_bare) {
        bare_ask(b);
    } else {
        plane_run(b, PLANE_DEALER);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        die("the echo failed");
    }
    report(name, b, cpu_us(RUSAGE_SELF) - own_before, cpu_us(RUSAGE_CHILDREN) - echo_before);
}

static unsigned argument(int argc, char **argv, int at, unsigned otherwise)
{
    return argc > at ? (unsigned)strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct bench b = {.count = argument(argc, argv, 1, 50000) + WARM_UP,
                      .payload_bytes = argument(argc, argv, 2, 300),
                      .window = argument(argc, argv, 3, 1)};
    struct msg_head h = {.type = MSG_CHUNK};
    struct msg_body_CHUNK m = {0};
    char dir[] = "/tmp/cfd-bench-XXXXXX";
    char *p = NULL;

    if (mkdtemp(dir) == NULL || msg_encode_CHUNK(&b.frame, &h, &m) != 0) {
        die("cannot set up");
    }
    (void)snprintf(b.endpoint, sizeof(b.endpoint), "ipc://%s/a.sock", dir);
    b.sent_us = calloc(b.count, sizeof(uint64_t));
    b.took_us = calloc(b.count, sizeof(uint64_t));
    if (b.payload_bytes > 0) {
        b.payload = buf_new(b.payload_bytes, &p);
        memset(p, 'x', b.payload_bytes);
    }
    (void)printf("%u messages, %zu bytes of payload, %u in flight\n", b.count - WARM_UP,
                 b.payload_bytes, b.window);
    run("bare", &b, true);
    (void)unlink(b.endpoint + 6);
    run("plane", &b, false);
    (void)unlink(b.endpoint + 6);
    (void)rmdir(dir);
    buf_unref(b.payload);
    bytes_fini(&b.frame);
    free(b.sent_us);
    free(b.took_us);
    return 0;
}
