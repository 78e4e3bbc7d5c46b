#include "io/plane.h"

#include <pthread.h>

#include "io_test.h"

struct keys {
    char public_key[41], secret_key[41];
};

struct side {
    struct plane *plane;
    unsigned msgs, bads, ups, downs, closed;
    struct err bad;
};

struct env {
    struct loop loop;
    char dir[64];
    char endpoint[128];
    struct keys server, good, evil;
    struct side router, dealer;
};

static void on_msg(void *ctx, const struct plane_in *in)
{
    (void)in;
    ((struct side *)ctx)->msgs++;
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

    *(is_up ? &s->ups : &s->downs) += 1;
}

static int side_open(struct side *s, struct loop *l, const struct plane_opts *o, struct err *e)
{
    struct plane_hooks h = {.on_msg = on_msg, .on_bad = on_bad, .on_link = on_link, .ctx = s};

    memset(s, 0, sizeof(*s));
    return plane_open(&s->plane, l, o, &h, e);
}

static void side_close(struct side *s)
{
    if (s->plane != NULL) {
        plane_close(s->plane, io_count, &s->closed);
        s->plane = NULL;
    }
}

static int send_one(struct side *s)
{
    struct bytes b = {0};
    struct msg_head h = {.type = MSG_HEARTBEAT};
    struct msg_body_HEARTBEAT m = {0};
    int rc = 0;

    assert_int_equal(msg_encode_HEARTBEAT(&b, &h, &m), 0);
    rc = plane_send(s->plane, (struct str_view){NULL, 0}, (struct str_view){b.p, b.n}, NULL);
    bytes_fini(&b);
    return rc;
}

static int env_start(void **state)
{
    struct env *t = calloc(1, sizeof(*t));

    io_dir_make(t->dir);
    (void)snprintf(t->endpoint, sizeof(t->endpoint), "ipc://%s/a.sock", t->dir);
    io_loop_start(&t->loop);
    assert_int_equal(plane_curve_keypair(t->server.public_key, t->server.secret_key), 0);
    assert_int_equal(plane_curve_keypair(t->good.public_key, t->good.secret_key), 0);
    assert_int_equal(plane_curve_keypair(t->evil.public_key, t->evil.secret_key), 0);
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

static void router_open(struct env *t)
{
    const char *const allowed[] = {t->server.public_key, t->good.public_key, NULL};
    struct plane_curve c = {t->server.secret_key, t->server.public_key, NULL, allowed};
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = t->endpoint, .curve = &c};
    struct err e = {0};

    if (side_open(&t->router, &t->loop, &o, &e) != 0) {
        fail_msg("%s", e.text);
    }
}

static void dealer_open(struct env *t, const struct keys *k, const char *server_key)
{
    struct plane_curve c = {k->secret_key, k->public_key, server_key, NULL};
    struct plane_opts o = {.kind = PLANE_DEALER, .endpoint = t->endpoint, .curve = &c};
    struct err e = {0};

    if (side_open(&t->dealer, &t->loop, &o, &e) != 0) {
        fail_msg("%s", e.text);
    }
}

static void test_allowed(void **state)
{
    struct env *t = *state;

    router_open(t);
    dealer_open(t, &t->good, t->server.public_key);
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    assert_int_equal(send_one(&t->dealer), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
    assert_int_equal(t->router.bads + t->dealer.bads, 0);
}

/* Nothing gets in, the router tells why, and it still serves those that are allowed. */
static void refused_check(struct env *t, int code)
{
    IO_UNTIL(&t->loop, t->router.bads, 1);
    assert_int_equal(t->router.bad.code, code);
    io_turn_for(&t->loop, 200);
    assert_int_equal(t->dealer.ups, 0);
    assert_int_equal(send_one(&t->dealer), ERR_AGAIN);
    side_close(&t->dealer);
    IO_UNTIL(&t->loop, t->dealer.closed, 1);
    assert_int_equal(t->router.msgs, 0);
    dealer_open(t, &t->good, t->server.public_key);
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    assert_int_equal(send_one(&t->dealer), 0);
    IO_UNTIL(&t->loop, t->router.msgs, 1);
}

static void test_unknown_key(void **state)
{
    struct env *t = *state;

    router_open(t);
    dealer_open(t, &t->evil, t->server.public_key);
    refused_check(t, ERR_PEER_FORBIDDEN);
}

static void test_wrong_server_key(void **state)
{
    struct env *t = *state;

    router_open(t);
    dealer_open(t, &t->good, t->evil.public_key);
    refused_check(t, ERR_PEER_MALFORMED);
}

static void test_plain_client(void **state)
{
    struct env *t = *state;
    struct plane_opts o = {.kind = PLANE_DEALER, .endpoint = t->endpoint};
    struct err e = {0};

    router_open(t);
    assert_int_equal(side_open(&t->dealer, &t->loop, &o, &e), 0);
    refused_check(t, ERR_PEER_MALFORMED);
}

/* A client that expects CURVE must not talk to somebody who has no key. */
static void test_plain_server(void **state)
{
    struct env *t = *state;
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = t->endpoint};
    struct err e = {0};

    assert_int_equal(side_open(&t->router, &t->loop, &o, &e), 0);
    dealer_open(t, &t->good, t->server.public_key);
    IO_UNTIL(&t->loop, t->dealer.bads, 1);
    io_turn_for(&t->loop, 200);
    assert_int_equal(t->dealer.ups, 0);
    assert_int_equal(t->dealer.bads, 1); /* told once, not at each attempt */
}

/* Two CURVE sockets in one process: a key allowed at one is not allowed at the other. */
static void test_domains(void **state)
{
    struct env *t = *state;
    const char *const allowed[] = {t->evil.public_key, NULL};
    struct plane_curve c = {t->server.secret_key, t->server.public_key, NULL, allowed};
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = "tcp://127.0.0.1:*", .curve = &c};
    struct side other;
    struct err e = {0};

    router_open(t);
    assert_int_equal(side_open(&other, &t->loop, &o, &e), 0);
    (void)snprintf(t->endpoint, sizeof(t->endpoint), "%s", plane_endpoint(other.plane));
    dealer_open(t, &t->good, t->server.public_key);
    IO_UNTIL(&t->loop, other.bads, 1);
    assert_int_equal(other.bad.code, ERR_PEER_FORBIDDEN);
    assert_int_equal(t->dealer.ups, 0);
    side_close(&t->dealer);
    dealer_open(t, &t->evil, t->server.public_key);
    IO_UNTIL(&t->loop, t->dealer.ups, 1);
    side_close(&other);
    IO_UNTIL(&t->loop, other.closed, 1);
}

/* The handler goes with the last socket and comes back with the next. */
static void test_open_again(void **state)
{
    struct env *t = *state;

    for (unsigned i = 0; i < 3; i++) {
        router_open(t);
        dealer_open(t, &t->good, t->server.public_key);
        IO_UNTIL(&t->loop, t->dealer.ups, 1);
        side_close(&t->dealer);
        side_close(&t->router);
        IO_UNTIL(&t->loop, t->router.closed, 1);
        IO_UNTIL(&t->loop, t->dealer.closed, 1);
    }
}

static void test_bad_keys(void **state)
{
    struct env *t = *state;
    const char *const none[] = {NULL};
    const char *const junk[] = {t->good.public_key, "short", NULL};
    const char *const ok[] = {t->good.public_key, NULL};
    struct plane_curve cases[] = {
        {t->server.secret_key, t->server.public_key, NULL, NULL},
        {t->server.secret_key, t->server.public_key, NULL, none},
        {t->server.secret_key, t->server.public_key, NULL, junk},
        {NULL, t->server.public_key, NULL, ok},
        {t->server.secret_key, NULL, NULL, ok},
        {"too short", t->server.public_key, NULL, ok},
        {"                                        ", t->server.public_key, NULL, ok},
    };
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = "tcp://0.0.0.0:*"};
    struct err e = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        o.curve = &cases[i];
        assert_int_equal(side_open(&t->router, &t->loop, &o, &e), ERR_CONFIG);
        assert_true(e.text[0] != '\0');
        assert_null(strstr(e.text, t->server.secret_key));
    }
    o.kind = PLANE_DEALER;
    o.endpoint = "tcp://10.0.0.1:1";
    o.curve = &cases[0]; /* no server key */
    assert_int_equal(side_open(&t->router, &t->loop, &o, &e), ERR_CONFIG);
    memset(&t->router, 0, sizeof(t->router));
}

#define T(f) cmocka_unit_test_setup_teardown(f, env_start, env_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_allowed),      T(test_unknown_key), T(test_wrong_server_key), T(test_plain_client),
        T(test_plain_server), T(test_domains),     T(test_open_again),       T(test_bad_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
