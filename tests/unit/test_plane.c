#include "io/plane.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include "base/mem.h"
#include "io_test.h"

struct side {
    struct plane *plane;
    unsigned msgs, bads, ups, downs, writables, closed;
    uint32_t next; /* expected HEARTBEAT.load */
    bool is_out_of_order;
    struct err bad;
    char peer[64];
    struct buf *last_payload;
    bool does_close_on_msg;
    bool does_echo;
    struct loop *loop;
    unsigned turn_msgs, turn_msgs_max; /* messages between two turns of the loop */
};

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct side *s = ctx;
    struct msg_body_HEARTBEAT m;

    s->msgs++;
    s->turn_msgs++;
    s->turn_msgs_max = s->turn_msgs > s->turn_msgs_max ? s->turn_msgs : s->turn_msgs_max;
    assert_int_equal(in->head.type, MSG_HEARTBEAT);
    assert_int_equal(msg_decode_HEARTBEAT(&m, in->fields), 0);
    s->is_out_of_order |= m.load != s->next;
    s->next = m.load + 1;
    (void)sv_copy(s->peer, sizeof(s->peer), in->peer);
    buf_unref(s->last_payload);
    s->last_payload = in->payload != NULL ? buf_ref(in->payload) : NULL;
    if (s->does_echo) {
        assert_int_equal(plane_send(s->plane, in->peer, in->frame0, in->payload), 0);
    }
    if (s->does_close_on_msg) {
        plane_close(s->plane, io_count, &s->closed);
        s->plane = NULL;
    }
}

static void on_bad(void *ctx, struct str_view peer, const struct err *e)
{
    struct side *s = ctx;

    (void)peer;
    s->bads++;
    s->bad = *e;
}

static void on_link(void *ctx, bool is_up)
{
    struct side *s = ctx;

    if (is_up) {
        s->ups++;
    } else {
        s->downs++;
    }
    assert_true(plane_is_up(s->plane) == is_up);
}

static void on_writable(void *ctx)
{
    ((struct side *)ctx)->writables++;
}

static int side_try(struct side *s, struct loop *l, struct plane_opts o, struct err *e)
{
    struct plane_hooks h = {on_msg, on_bad, on_link, on_writable, s};

    memset(s, 0, sizeof(*s));
    s->loop = l;
    return plane_open(&s->plane, l, &o, &h, e);
}

static void side_open(struct side *s, struct loop *l, struct plane_opts o)
{
    struct err e = {0};

    if (side_try(s, l, o, &e) != 0) {
        fail_msg("%s", e.text);
    }
}

static void side_close(struct side *s)
{
    buf_unref(s->last_payload);
    s->last_payload = NULL;
    if (s->plane != NULL) {
        plane_close(s->plane, io_count, &s->closed);
        s->plane = NULL;
    }
}

static struct bytes heartbeat(uint32_t load)
{
    struct bytes b;
    struct msg_head h = {.type = MSG_HEARTBEAT};
    struct msg_body_HEARTBEAT m = {.load = load};

    bytes_init(&b, 1024);
    assert_int_equal(msg_encode_HEARTBEAT(&b, &h, &m), 0);
    return b;
}

static int send_to(struct side *s, const char *peer, uint32_t load, struct buf *payload)
{
    struct bytes b = heartbeat(load);
    int rc = plane_send(s->plane, sv_of(peer), (struct str_view){b.p, b.n}, payload);

    bytes_fini(&b);
    return rc;
}

struct env {
    struct loop loop;
    char dir[64];
    char endpoint[128];
    struct side router, dealer;
};

static int env_start(void **state)
{
    struct env *t = calloc(1, sizeof(*t));

    io_dir_make(t->dir);
    (void)snprintf(t->endpoint, sizeof(t->endpoint), "ipc://%s/run/a.sock", t->dir);
    io_loop_start(&t->loop);
    *state = t;
    return 0;
}

static int env_end(void **state)
{
    struct env *t = *state;

    side_close(&t->router);
    side_close(&t->dealer);
    io_loop_end(&t->loop);
    io_dir_remove(t->dir);
    free(t);
    return 0;
}

static struct plane_opts router_opts(const struct env *t)
{
    return (struct plane_opts){.kind = PLANE_ROUTER, .endpoint = t->endpoint};
}

static struct plane_opts dealer_opts(const struct env *t)
{
    return (struct plane_opts){
        .kind = PLANE_DEALER, .endpoint = t->endpoint, .routing_id = "peer-1"};
}

static void pair_open(struct env *t)
{
    side_open(&t->router, &t->loop, router_opts(t));
    side_open(&t->dealer, &t->loop, dealer_opts(t));
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_exchange(void **state)
{
    struct env *t = *state;
    struct stat st;
    char path[128];

    pair_open(t);
    (void)snprintf(path, sizeof(path), "%s/run", t->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700); /* nobody else may connect */
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    assert_string_equal(t->router.peer, "peer-1");
    assert_null(t->router.last_payload);
    assert_int_equal(send_to(&t->router, "peer-1", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->dealer.msgs, 1);
    assert_string_equal(t->dealer.peer, "");
}

static void test_payload_sizes(void **state)
{
    /* around the limits of copying on both sides, and far above libzmq's own buffers */
    static const size_t sizes[] = {1, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 100000, 5000000};
    struct env *t = *state;

    pair_open(t);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *p = NULL;
        struct buf *b = buf_new(sizes[i], &p);

        for (size_t k = 0; k < sizes[i]; k++) {
            p[k] = (char)(k * 31 + i);
        }
        assert_int_equal(send_to(&t->dealer, "", i, b), 0);
        IO_UNTIL(&t->loop, t->router.msgs, i + 1);
        assert_non_null(t->router.last_payload);
        assert_int_equal(t->router.last_payload->n, sizes[i]);
        assert_memory_equal(t->router.last_payload->p, b->p, sizes[i]);
        buf_unref(b);
    }
}

/* A large received payload is not copied again when it is sent on: what arrives is a view of the
 * message. */
static void test_payload_is_moved(void **state)
{
    struct env *t = *state;
    struct buf *b = NULL;
    char *p = NULL;

    pair_open(t);
    b = buf_new(1000000, &p);
    memset(p, 7, 1000000);
    assert_int_equal(send_to(&t->dealer, "", 0, b), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    assert_non_null(t->router.last_payload->free_fn); /* foreign bytes */
    buf_unref(b);
    /* kept beyond the callback and beyond the plane */
    b = buf_ref(t->router.last_payload);
    plane_close(t->router.plane, io_count, &t->router.closed);
    t->router.plane = NULL;
    IO_UNTIL(&t->loop, t->router.closed, 1);
    assert_int_equal(b->p[999999], 7);
    buf_unref(b);
}

static void test_many_in_bounded_turns(void **state)
{
    enum { COUNT = 100000 };
    struct env *t = *state;
    unsigned sent = 0;

    pair_open(t);
    while (sent < COUNT) {
        int rc = send_to(&t->dealer, "", sent, NULL);

        if (rc == 0) {
            sent++;
            if (sent % 500 != 0) {
                continue;
            }
        } else {
            assert_int_equal(rc, ERR_AGAIN);
        }
        t->router.turn_msgs = 0;
        (void)uv_run(&t->loop.uv, UV_RUN_NOWAIT);
    }
    while (t->router.msgs < COUNT) {
        t->router.turn_msgs = 0;
        (void)uv_run(&t->loop.uv, UV_RUN_ONCE);
    }
    assert_false(t->router.is_out_of_order);
    assert_in_range(t->router.turn_msgs_max, 1, 64 * 3);
    assert_int_equal(t->router.bads, 0);
}

/* Each side answers each message; an edge lost anywhere would stop the ball. */
static void test_ping_pong(void **state)
{
    struct env *t = *state;

    pair_open(t);
    t->router.does_echo = t->dealer.does_echo = true;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(send_to(&t->dealer, "", i, NULL), 0);
    }
    IO_UNTIL(&t->loop, t->router.msgs, 20000);
    t->router.does_echo = t->dealer.does_echo = false;
}

static void test_high_water_dealer(void **state)
{
    struct env *t = *state;
    struct plane_opts o = dealer_opts(t);
    struct buf *b = NULL;
    unsigned sent = 0;
    char *p = NULL;
    int rc = 0;

    side_open(&t->router, &t->loop, router_opts(t));
    o.send_hwm = 10;
    side_open(&t->dealer, &t->loop, o);
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    b = buf_new(100000, &p);
    memset(p, 1, 100000);
    /* The loop does not turn, so the router reads nothing. */
    while (sent < 100000 && (rc = send_to(&t->dealer, "", sent, b)) == 0) {
        sent++;
    }
    assert_int_equal(rc, ERR_AGAIN);
    IO_UNTIL(&t->loop, t->dealer.writables, 1);
    assert_int_equal(send_to(&t->dealer, "", sent, b), 0);
    IO_UNTIL(&t->loop, t->router.msgs, sent + 1);
    assert_false(t->router.is_out_of_order);
    assert_int_equal(t->router.bads, 0); /* nothing was sent in part */
    buf_unref(b);
}

static void test_high_water_router(void **state)
{
    struct env *t = *state;
    struct plane_opts o = router_opts(t);
    struct buf *b = NULL;
    unsigned sent = 0;
    char *p = NULL;
    int rc = 0;

    o.send_hwm = 10;
    side_open(&t->router, &t->loop, o);
    side_open(&t->dealer, &t->loop, dealer_opts(t));
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    b = buf_new(100000, &p);
    memset(p, 1, 100000);
    while (sent < 100000 && (rc = send_to(&t->router, "peer-1", sent, b)) == 0) {
        sent++;
    }
    assert_int_equal(rc, ERR_AGAIN);
    do {
        unsigned seen = t->router.writables;

        IO_UNTIL(&t->loop, t->router.writables, seen + 1);
    } while ((rc = send_to(&t->router, "peer-1", sent, b)) == ERR_AGAIN);
    assert_int_equal(rc, 0);
    IO_UNTIL(&t->loop, t->dealer.msgs, sent + 1);
    assert_false(t->dealer.is_out_of_order);
    assert_int_equal(t->dealer.bads, 0);
    buf_unref(b);
}

static void test_unknown_peer(void **state)
{
    struct env *t = *state;

    pair_open(t);
    assert_int_equal(send_to(&t->router, "nobody", 0, NULL), ERR_NOT_FOUND);
    assert_int_equal(send_to(&t->router, "", 0, NULL), ERR_NOT_FOUND);
    /* and the socket is as good as before */
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    assert_int_equal(send_to(&t->router, "peer-1", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->dealer.msgs, 1);
}

static void test_gone_peer(void **state)
{
    struct env *t = *state;
    int rc = 0;

    pair_open(t);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    side_close(&t->dealer);
    IO_UNTIL(&t->loop, t->dealer.closed, 1);
    for (unsigned i = 0; i < 2000 && (rc = send_to(&t->router, "peer-1", i, NULL)) == 0; i++) {
        io_turn_for(&t->loop, 5);
    }
    assert_int_equal(rc, ERR_NOT_FOUND);
}

static void test_not_connected(void **state)
{
    struct env *t = *state;

    side_open(&t->dealer, &t->loop, dealer_opts(t));
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), ERR_AGAIN);
    io_turn_for(&t->loop, 100);
    assert_int_equal(t->dealer.ups + t->dealer.writables + t->dealer.bads, 0);
    side_open(&t->router, &t->loop, router_opts(t));
    IO_UNTIL(&t->loop, t->dealer.writables, 1); /* the earlier ERR_AGAIN is over */
    assert_int_equal(t->dealer.ups, 1);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
}

static void test_router_restart(void **state)
{
    struct env *t = *state;

    pair_open(t);
    for (unsigned round = 1; round <= 3; round++) {
        side_close(&t->router);
        IO_UNTIL(&t->loop, t->dealer.downs, round);
        side_open(&t->router, &t->loop, router_opts(t));
        IO_UNTIL(&t->loop, t->dealer.ups, round + 1);
        assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
        IO_UNTIL(&t->loop, t->router.msgs, 1);
    }
}

/* The old connection is still there when the new process of the same name comes: the new one wins.
 */
static void test_same_routing_id(void **state)
{
    struct env *t = *state;
    struct side second;

    pair_open(t);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    side_open(&second, &t->loop, dealer_opts(t));
    IO_UNTIL(&t->loop, second.ups, 1);
    t->router.next = 5;
    assert_int_equal(send_to(&second, "", 5, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 2);
    assert_int_equal(send_to(&t->router, "peer-1", 0, NULL), 0);
    IO_UNTIL(&t->loop, second.msgs, 1);
    assert_int_equal(t->dealer.msgs, 0);
    side_close(&t->dealer); /* before it connects again and takes the name back */
    side_close(&second);
    IO_UNTIL(&t->loop, second.closed, 1);
}

/* The last words before a close arrive, although the loop ends at once. */
static void test_close_flushes(void **state)
{
    struct env *t = *state;
    struct buf *b = NULL;
    char *p = NULL;

    pair_open(t);
    b = buf_new(20000, &p);
    memset(p, 1, 20000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(send_to(&t->dealer, "", i, b), 0);
    }
    buf_unref(b);
    side_close(&t->dealer);
    IO_UNTIL(&t->loop, t->router.msgs, 1000);
    assert_false(t->router.is_out_of_order);
    assert_int_equal(t->dealer.closed, 1);
}

static void test_close_in_callback(void **state)
{
    struct env *t = *state;

    pair_open(t);
    t->router.does_close_on_msg = true;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(send_to(&t->dealer, "", i, NULL), 0);
    }
    IO_UNTIL(&t->loop, t->router.closed, 1);
    assert_int_equal(t->router.msgs, 1);
}

static void test_close_with_unread(void **state)
{
    struct env *t = *state;

    pair_open(t);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(send_to(&t->dealer, "", i, NULL), 0);
    }
    side_close(&t->router);
    side_close(&t->dealer);
    IO_UNTIL(&t->loop, t->router.closed, 1);
}

/* --- hostile peers --------------------------------------------------------------------------- */

struct raw {
    void *ctx, *sock;
};

static void raw_open(struct raw *r, const struct env *t)
{
    int linger = 1000;

    r->ctx = zmq_ctx_new();
    r->sock = zmq_socket(r->ctx, ZMQ_DEALER);
    (void)zmq_setsockopt(r->sock, ZMQ_LINGER, &linger, sizeof(linger));
    assert_int_equal(zmq_connect(r->sock, t->endpoint), 0);
}

static void raw_close(struct raw *r)
{
    (void)zmq_close(r->sock);
    (void)zmq_ctx_term(r->ctx);
}

static void raw_send(struct raw *r, const void *const parts[], const size_t sizes[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(zmq_send(r->sock, parts[i], sizes[i], i + 1 < n ? ZMQ_SNDMORE : 0),
                         (int)sizes[i]);
    }
}

static void test_malformed(void **state)
{
    struct env *t = *state;
    struct bytes ok = heartbeat(0);
    struct bytes version = heartbeat(0);
    struct raw r;

    version.p[1] = (char)(MSG_VERSION + 1);
    side_open(&t->router, &t->loop, router_opts(t));
    raw_open(&r, t);
    raw_send(&r, (const void *[]){"x"}, (size_t[]){1}, 1);
    IO_UNTIL(&t->loop, t->router.bads, 1);
    assert_int_equal(t->router.bad.code, ERR_PEER_MALFORMED);
    raw_send(&r, (const void *[]){""}, (size_t[]){0}, 1);
    IO_UNTIL(&t->loop, t->router.bads, 2);
    raw_send(&r, (const void *[]){ok.p}, (size_t[]){MSG_HEAD_BYTES - 1}, 1);
    IO_UNTIL(&t->loop, t->router.bads, 3);
    raw_send(&r, (const void *[]){version.p}, (size_t[]){version.n}, 1);
    IO_UNTIL(&t->loop, t->router.bads, 4);
    assert_int_equal(t->router.bad.code, ERR_PEER_VERSION);
    raw_send(&r, (const void *[]){ok.p, "p", "q"}, (size_t[]){ok.n, 1, 1}, 3);
    IO_UNTIL(&t->loop, t->router.bads, 5);
    assert_int_equal(t->router.bad.code, ERR_PEER_MALFORMED);
    raw_send(&r, (const void *[]){ok.p, "p", "q", "r", "s", "t"}, (size_t[]){ok.n, 1, 1, 1, 1, 1},
             6);
    IO_UNTIL(&t->loop, t->router.bads, 6);
    assert_int_equal(t->router.msgs, 0);
    /* the same peer may do better; an empty payload is no payload */
    raw_send(&r, (const void *[]){ok.p, ""}, (size_t[]){ok.n, 0}, 2);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    assert_null(t->router.last_payload);
    raw_close(&r);
    bytes_fini(&ok);
    bytes_fini(&version);
}

static int unix_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static void test_not_zmq(void **state)
{
    struct env *t = *state;
    char junk[512];
    int fd = -1;

    pair_open(t);
    memset(junk, 'A', sizeof(junk));
    fd = unix_connect(t->endpoint + strlen("ipc://"));
    assert_int_equal(write(fd, junk, sizeof(junk)), (ssize_t)sizeof(junk));
    io_turn_for(&t->loop, 50);
    (void)close(fd);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
}

/* --- addresses ------------------------------------------------------------------------------- */

static void test_address_in_use(void **state)
{
    struct env *t = *state;
    struct side other;
    struct err e = {0};

    pair_open(t);
    assert_int_equal(side_try(&other, &t->loop, router_opts(t), &e), ERR_CONFLICT);
    assert_non_null(strstr(e.text, "in use"));
    /* and the first one was not disturbed */
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
}

static void test_stale_socket(void **state)
{
    struct env *t = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[128];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(dir, sizeof(dir), "%s/run", t->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", t->endpoint + strlen("ipc://"));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    (void)close(fd); /* leaves the file behind, as a killed process does */
    pair_open(t);
}

static void test_bad_addresses(void **state)
{
    struct env *t = *state;
    static const char *const bad[] = {"",          "ipc://",          "http://x", "tcp://0.0.0.0:*",
                                      "tcp://*:*", "tcp://10.0.0.1:1"};
    struct plane_opts o = {.kind = PLANE_ROUTER};
    char longish[300];
    struct err e = {0};
    FILE *f = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        o.endpoint = bad[i];
        assert_int_equal(side_try(&t->router, &t->loop, o, &e), ERR_CONFIG);
        assert_true(e.text[0] != '\0');
    }
    memset(longish, 'a', sizeof(longish) - 1);
    longish[sizeof(longish) - 1] = '\0';
    memcpy(longish, "ipc:///", 7);
    o.endpoint = longish;
    assert_int_equal(side_try(&t->router, &t->loop, o, &e), ERR_CONFIG);
    longish[150] = '\0';
    assert_int_equal(side_try(&t->router, &t->loop, o, &e), ERR_CONFIG);
    /* a plain file is not ours to remove */
    (void)snprintf(longish, sizeof(longish), "ipc://%s/plain", t->dir);
    f = fopen(longish + strlen("ipc://"), "w");
    assert_non_null(f);
    (void)fclose(f);
    assert_int_equal(side_try(&t->router, &t->loop, o, &e), ERR_CONFLICT);
    memset(&t->router, 0, sizeof(t->router));
}

static void test_tcp(void **state)
{
    struct env *t = *state;
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = "tcp://127.0.0.1:*"};

    side_open(&t->router, &t->loop, o);
    assert_null(strchr(plane_endpoint(t->router.plane), '*'));
    o = dealer_opts(t);
    o.endpoint = plane_endpoint(t->router.plane);
    side_open(&t->dealer, &t->loop, o);
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    assert_int_equal(send_to(&t->dealer, "", 0, NULL), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
}

/* --- out of memory --------------------------------------------------------------------------- */

static void test_open_out_of_memory(void **state)
{
    struct env *t = *state;
    struct err e = {0};
    int rc = ERR_NOMEM;

    for (long nth = 0; nth < 20 && rc != 0; nth++) {
        (void)mem_fail_nth(nth);
        rc = side_try(&t->router, &t->loop, router_opts(t), &e);
        (void)mem_fail_nth(-1);
        if (rc != 0) {
            assert_int_equal(rc, ERR_NOMEM);
            memset(&t->router, 0, sizeof(t->router));
            (void)uv_run(&t->loop.uv, UV_RUN_NOWAIT);
        }
    }
    assert_int_equal(rc, 0);
}

/* A payload that finds no memory is dropped and reported; the next message is whole again. */
static void test_receive_out_of_memory(void **state)
{
    static const size_t sizes[] = {100, 100000, 100000}; /* copied, moved */
    static const long nths[] = {0, 0, 1};
    struct env *t = *state;

    pair_open(t);
    for (unsigned i = 0; i < 3; i++) {
        char *p = NULL;
        struct buf *b = buf_new(sizes[i], &p);

        memset(p, 1, sizes[i]);
        assert_int_equal(send_to(&t->dealer, "", i, b), 0);
        (void)mem_fail_nth(nths[i]);
        IO_UNTIL(&t->loop, t->router.bads, i + 1);
        (void)mem_fail_nth(-1);
        assert_int_equal(t->router.bad.code, ERR_NOMEM);
        assert_int_equal(t->router.msgs, i);
        t->router.next = i;
        assert_int_equal(send_to(&t->dealer, "", i, b), 0);
        IO_UNTIL(&t->loop, t->router.msgs, i + 1);
        assert_int_equal(t->router.last_payload->n, sizes[i]);
        buf_unref(b);
    }
}

/* --- two threads ----------------------------------------------------------------------------- */

struct echo_thread {
    pthread_t thread;
    struct plane_opts opts;
    unsigned want;
};

static void *echo_main(void *arg)
{
    struct echo_thread *th = arg;
    struct env t = {0};

    io_loop_start(&t.loop);
    side_open(&t.dealer, &t.loop, th->opts);
    t.dealer.does_echo = true;
    IO_UNTIL(&t.loop, t.dealer.ups, 1);
    assert_int_equal(send_to(&t.dealer, "", 0, NULL), 0);
    IO_UNTIL(&t.loop, t.dealer.msgs, th->want);
    side_close(&t.dealer);
    io_loop_end(&t.loop);
    return NULL;
}

/* Buffers are dropped on libzmq's thread and on both loops. */
static void test_two_threads(void **state)
{
    struct env *t = *state;
    struct echo_thread th = {.opts = dealer_opts(t), .want = 500};
    struct buf *b = NULL;
    char *p = NULL;

    side_open(&t->router, &t->loop, router_opts(t));
    assert_int_equal(pthread_create(&th.thread, NULL, echo_main, &th), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    b = buf_new(30000, &p);
    memset(p, 1, 30000);
    for (unsigned i = 0; i < th.want; i++) {
        assert_int_equal(send_to(&t->router, "peer-1", i, b), 0);
    }
    buf_unref(b);
    IO_UNTIL(&t->loop, t->router.msgs, th.want + 1);
    assert_int_equal(pthread_join(th.thread, NULL), 0);
    assert_int_equal(t->router.last_payload->n, 30000);
}

#define T(f) cmocka_unit_test_setup_teardown(f, env_start, env_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_exchange),
        T(test_payload_sizes),
        T(test_payload_is_moved),
        T(test_many_in_bounded_turns),
        T(test_ping_pong),
        T(test_high_water_dealer),
        T(test_high_water_router),
        T(test_unknown_peer),
        T(test_gone_peer),
        T(test_not_connected),
        T(test_router_restart),
        T(test_same_routing_id),
        T(test_close_flushes),
        T(test_close_in_callback),
        T(test_close_with_unread),
        T(test_malformed),
        T(test_not_zmq),
        T(test_address_in_use),
        T(test_stale_socket),
        T(test_bad_addresses),
        T(test_tcp),
        T(test_open_out_of_memory),
        T(test_receive_out_of_memory),
        T(test_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
