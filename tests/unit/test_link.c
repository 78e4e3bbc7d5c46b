#include "io/link.h"

#include <unistd.h>

#include "io_test.h"

/* A broker that does what the test says. */
struct broker {
    struct loop *loop;
    struct plane *plane;
    char endpoint[128];
    struct msg_id16 instance;
    uint32_t heartbeat_ms, liveness;
    bool is_mute; /* answers nothing */
    unsigned hellos, heartbeats, byes, stats, others, closed;
    char peer[128];
    struct msg_body_HELLO hello;
    char hello_name[MSG_NAME_MAX + 1], hello_endpoint[MSG_ENDPOINT_MAX + 1];
    size_t hello_payload;
    uint32_t load;
    char stats_text[64];
};

struct owner {
    struct link *link;
    unsigned ups, downs, msgs, greets, closed, writables;
    bool was_new;
    struct msg_body_WELCOME welcome;
    uint8_t last_type;
    const char *greeting;
    bool closes_on_up, closes_on_down, closes_on_msg, closes_on_greet;
};

struct env {
    struct loop loop;
    char dir[64];
    struct broker broker;
    struct owner owner;
};

static void to_peer(struct broker *b, struct bytes *f, int rc)
{
    assert_int_equal(rc, 0);
    (void)plane_send(b->plane, sv_of(b->peer), (struct str_view){f->p, f->n}, NULL);
    bytes_fini(f);
}

static void broker_welcome(struct broker *b)
{
    struct bytes f = {0};
    struct msg_head h = {.type = MSG_WELCOME};
    struct msg_body_WELCOME m = {b->instance, b->heartbeat_ms, b->liveness, 3, 4};

    to_peer(b, &f, msg_encode_WELCOME(&f, &h, &m));
}

static void broker_heartbeat(struct broker *b)
{
    struct bytes f = {0};
    struct msg_head h = {.type = MSG_HEARTBEAT};
    struct msg_body_HEARTBEAT m = {0, 1, 1};

    to_peer(b, &f, msg_encode_HEARTBEAT(&f, &h, &m));
}

static void broker_bye(struct broker *b)
{
    struct bytes f = {0};
    struct msg_head h = {.type = MSG_BYE};
    struct msg_body_BYE m = {ERR_PEER_VERSION, SV_LIT("go away")};

    to_peer(b, &f, msg_encode_BYE(&f, &h, &m));
}

static void broker_on_hello(struct broker *b, const struct plane_in *in)
{
    b->hellos++;
    assert_int_equal(msg_decode_HELLO(&b->hello, in->fields), 0);
    (void)sv_copy(b->hello_name, sizeof(b->hello_name), b->hello.name);
    (void)sv_copy(b->hello_endpoint, sizeof(b->hello_endpoint), b->hello.endpoint);
    b->hello_payload = in->payload != NULL ? in->payload->n : 0;
    if (!b->is_mute) {
        broker_welcome(b);
    }
}

static void broker_on_msg(void *ctx, const struct plane_in *in)
{
    struct broker *b = ctx;
    struct msg_body_HEARTBEAT m;

    (void)sv_copy(b->peer, sizeof(b->peer), in->peer);
    if (in->head.type == MSG_HELLO) {
        broker_on_hello(b, in);
    } else if (in->head.type == MSG_HEARTBEAT) {
        b->heartbeats++;
        assert_int_equal(msg_decode_HEARTBEAT(&m, in->fields), 0);
        b->load = m.load;
        if (!b->is_mute) {
            broker_heartbeat(b);
        }
    } else if (in->head.type == MSG_BYE) {
        b->byes++;
    } else if (in->head.type == MSG_STATS) {
        b->stats++;
        (void)sv_copy(b->stats_text, sizeof(b->stats_text), buf_view(in->payload));
    } else {
        b->others++;
    }
}

static void broker_open(struct broker *b)
{
    struct plane_hooks h = {.on_msg = broker_on_msg, .ctx = b};
    struct plane_opts o = {.kind = PLANE_ROUTER, .endpoint = b->endpoint};

    id_random(&b->instance, sizeof(b->instance));
    assert_int_equal(plane_open(&b->plane, b->loop, &o, &h, NULL), 0);
}

static void broker_close(struct broker *b)
{
    if (b->plane != NULL) {
        plane_close(b->plane, io_count, &b->closed);
    }
    b->plane = NULL;
}

static void owner_close(struct owner *o)
{
    if (o->link != NULL) {
        link_close(o->link, io_count, &o->closed);
    }
    o->link = NULL;
}

static void on_greet(void *ctx, struct buf **ret_payload)
{
    struct owner *o = ctx;

    o->greets++;
    if (o->greeting != NULL) {
        *ret_payload = buf_copy(o->greeting, strlen(o->greeting));
    }
    if (o->closes_on_greet) {
        owner_close(o);
    }
}

static void on_up(void *ctx, bool is_new_broker, const struct msg_body_WELCOME *w)
{
    struct owner *o = ctx;

    o->ups++;
    o->was_new = is_new_broker;
    o->welcome = *w;
    assert_true(link_is_up(o->link));
    if (o->closes_on_up) {
        owner_close(o);
    }
}

static void on_down(void *ctx)
{
    struct owner *o = ctx;

    o->downs++;
    assert_false(link_is_up(o->link));
    if (o->closes_on_down) {
        owner_close(o);
    }
}

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct owner *o = ctx;

    o->msgs++;
    o->last_type = in->head.type;
    if (o->closes_on_msg) {
        owner_close(o);
    }
}

static uint32_t on_load(void *ctx)
{
    (void)ctx;
    return 42;
}

static void on_stats(void *ctx, struct bytes *out)
{
    (void)ctx;
    (void)bytes_put_str(out, "metric 1\n");
}

static int env_start(void **state)
{
    struct env *t = calloc(1, sizeof(*t));

    assert_int_equal(id_init(), 0);
    io_dir_make(t->dir);
    io_loop_start(&t->loop);
    t->broker.loop = &t->loop;
    t->broker.heartbeat_ms = 30;
    t->broker.liveness = 3;
    (void)snprintf(t->broker.endpoint, sizeof(t->broker.endpoint), "ipc://%s/broker.sock", t->dir);
    *state = t;
    return 0;
}

static int env_end(void **state)
{
    struct env *t = *state;

    owner_close(&t->owner);
    broker_close(&t->broker);
    io_loop_end(&t->loop);
    io_dir_remove(t->dir);
    free(t);
    return 0;
}

static void owner_open(struct env *t)
{
    struct link_hooks h = {on_greet, on_up, on_down, on_msg, on_load, on_stats, NULL, &t->owner};
    struct link_opts o = {.endpoint = t->broker.endpoint,
                          .role = MSG_ROLE_WORKER,
                          .name = "worker-0",
                          .own_endpoint = "ipc:///x",
                          .capacity = 7};
    struct err e = {0};

    if (link_open(&t->owner.link, &t->loop, &o, &h, &e) != 0) {
        fail_msg("%s", e.text);
    }
}

static void both_open(struct env *t)
{
    broker_open(&t->broker);
    owner_open(t);
    IO_UNTIL(&t->loop, t->owner.ups, 1);
}

static int send_one(struct env *t)
{
    struct bytes f = {0};
    struct msg_head h = {.type = MSG_CREDIT};
    struct msg_body_CREDIT m = {1};
    int rc = 0;

    assert_int_equal(msg_encode_CREDIT(&f, &h, &m), 0);
    rc = link_send(t->owner.link, (struct str_view){f.p, f.n}, NULL);
    bytes_fini(&f);
    return rc;
}

static void test_hello(void **state)
{
    struct env *t = *state;
    struct stat st;

    t->owner.greeting = "jobs";
    both_open(t);
    assert_true(t->owner.was_new);
    assert_int_equal(t->owner.welcome.workers, 3);
    assert_int_equal(t->owner.welcome.sandboxds, 4);
    assert_int_equal(t->broker.hellos, 1);
    assert_int_equal(t->broker.hello.role, MSG_ROLE_WORKER);
    assert_int_equal(t->broker.hello.pid, getpid());
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_true(t->broker.hello.pid_ns == st.st_ino);
    assert_int_equal(t->broker.hello.capacity, 7);
    assert_string_equal(t->broker.hello_name, "worker-0");
    assert_string_equal(t->broker.hello_endpoint, "ipc:///x");
    assert_int_equal(t->broker.hello_payload, 4);
    assert_int_equal(strncmp(t->broker.peer, "worker-0.", 9), 0);
    assert_int_equal(send_one(t), 0);
    IO_UNTIL(&t->loop, t->broker.others, 1);
}

static void test_heartbeats(void **state)
{
    struct env *t = *state;

    both_open(t);
    IO_UNTIL(&t->loop, t->broker.heartbeats, 5); /* beyond the liveness time, and still up */
    assert_int_equal(t->broker.load, 42);
    IO_UNTIL(&t->loop, t->owner.msgs, 3);
    assert_int_equal(t->owner.last_type, MSG_HEARTBEAT);
    assert_int_equal(t->owner.downs, 0);
}

static void test_stats(void **state)
{
    struct env *t = *state;

    both_open(t);
    IO_UNTIL(&t->loop, t->broker.stats, 1);
    assert_string_equal(t->broker.stats_text, "metric 1\n");
}

static void test_before_broker(void **state)
{
    struct env *t = *state;

    owner_open(t);
    assert_int_equal(send_one(t), ERR_AGAIN);
    io_turn_for(&t->loop, 50);
    assert_int_equal(t->owner.greets, 0);
    broker_open(&t->broker);
    IO_UNTIL(&t->loop, t->owner.ups, 1);
}

static void test_broker_restart(void **state)
{
    struct env *t = *state;

    both_open(t);
    for (unsigned i = 1; i <= 3; i++) {
        broker_close(&t->broker);
        IO_UNTIL(&t->loop, t->owner.downs, i);
        assert_int_equal(send_one(t), ERR_AGAIN);
        broker_open(&t->broker); /* another instance */
        IO_UNTIL(&t->loop, t->owner.ups, i + 1);
        assert_true(t->owner.was_new);
        assert_int_equal(send_one(t), 0);
    }
}

static void test_broker_silent(void **state)
{
    struct env *t = *state;
    uint64_t from = 0;

    both_open(t);
    t->broker.is_mute = true;
    from = clock_ms();
    IO_UNTIL(&t->loop, t->owner.downs, 1);
    assert_in_range(clock_ms() - from, 60, 1000);
    IO_UNTIL(&t->loop, t->broker.hellos,
             2); /* says hello again at once, over the same connection */
    t->broker.is_mute = false;
    broker_welcome(&t->broker);
    IO_UNTIL(&t->loop, t->owner.ups, 2);
    assert_false(t->owner.was_new);
}

static void test_no_welcome(void **state)
{
    struct env *t = *state;

    t->broker.is_mute = true;
    broker_open(&t->broker);
    owner_open(t);
    IO_UNTIL(&t->loop, t->broker.hellos, 2);
    assert_int_equal(t->owner.ups + t->owner.downs, 0);
    assert_int_equal(send_one(t), ERR_AGAIN);
    broker_heartbeat(&t->broker); /* before WELCOME nothing is passed on */
    t->broker.is_mute = false;
    broker_welcome(&t->broker);
    broker_welcome(&t->broker); /* a second one changes nothing */
    IO_UNTIL(&t->loop, t->owner.ups, 1);
    io_turn_for(&t->loop, 20);
    assert_int_equal(t->owner.ups, 1);
}

static void test_malformed_welcome(void **state)
{
    struct env *t = *state;
    struct bytes f = {0};
    struct msg_head h = {.type = MSG_WELCOME};
    struct msg_body_WELCOME m = {{{1}}, 50, 3, 0, 0};

    t->broker.is_mute = true;
    broker_open(&t->broker);
    owner_open(t);
    IO_UNTIL(&t->loop, t->broker.hellos, 1);
    assert_int_equal(msg_encode_WELCOME(&f, &h, &m), 0);
    (void)bytes_put_char(&f, 'x');
    to_peer(&t->broker, &f, 0);
    io_turn_for(&t->loop, 50);
    assert_int_equal(t->owner.ups, 0);
    broker_welcome(&t->broker);
    IO_UNTIL(&t->loop, t->owner.ups, 1);
}

static void test_broker_bye(void **state)
{
    struct env *t = *state;
    uint64_t from = 0;

    both_open(t);
    t->owner.msgs = 0;
    broker_bye(&t->broker);
    IO_UNTIL(&t->loop, t->owner.downs, 1);
    assert_int_equal(t->owner.last_type, MSG_BYE);
    from = clock_ms();
    IO_UNTIL(&t->loop, t->owner.ups, 2); /* later */
    assert_in_range(clock_ms() - from, LINK_BYE_WAIT_MS - 100, LINK_BYE_WAIT_MS + 2000);
}

/* BYE as the answer to HELLO: the owner hears it although it was never up. */
static void test_refused(void **state)
{
    struct env *t = *state;

    t->broker.is_mute = true;
    broker_open(&t->broker);
    owner_open(t);
    IO_UNTIL(&t->loop, t->broker.hellos, 1);
    broker_bye(&t->broker);
    IO_UNTIL(&t->loop, t->owner.msgs, 1);
    assert_int_equal(t->owner.last_type, MSG_BYE);
    assert_int_equal(t->owner.downs, 0);
    IO_UNTIL(&t->loop, t->broker.hellos, 2);
}

static void test_say_bye(void **state)
{
    struct env *t = *state;

    both_open(t);
    link_say_bye(t->owner.link);
    IO_UNTIL(&t->loop, t->broker.byes, 1);
    assert_int_equal(send_one(t), 0); /* what is running still ends */
    IO_UNTIL(&t->loop, t->broker.others, 1);
    broker_close(&t->broker);
    IO_UNTIL(&t->loop, t->owner.downs, 1);
    broker_open(&t->broker);
    IO_UNTIL(&t->loop, t->broker.byes, 2); /* the next broker is told as well */
}

/* The last words before the close arrive. */
static void test_bye_and_close(void **state)
{
    struct env *t = *state;

    both_open(t);
    link_say_bye(t->owner.link);
    owner_close(&t->owner);
    IO_UNTIL(&t->loop, t->owner.closed, 1);
    IO_UNTIL(&t->loop, t->broker.byes, 1);
}

static void test_close_everywhere(void **state)
{
    struct env *t = *state;

    for (unsigned i = 0; i < 6; i++) {
        memset(&t->owner, 0, sizeof(t->owner));
        t->owner.closes_on_greet = i == 1;
        t->owner.closes_on_up = i == 2;
        t->owner.closes_on_msg = i == 3;
        t->owner.closes_on_down = i >= 4;
        t->broker.is_mute = false;
        broker_open(&t->broker);
        owner_open(t);
        if (i == 0) { /* before anything happened */
            owner_close(&t->owner);
        } else if (i >= 4) {
            IO_UNTIL(&t->loop, t->owner.ups, 1);
        }
        if (i == 4) {
            broker_close(&t->broker);
        } else if (i == 5) {
            t->broker.is_mute = true;
        }
        IO_UNTIL(&t->loop, t->owner.closed, 1);
        broker_close(&t->broker);
    }
}

static void test_bad_options(void **state)
{
    struct env *t = *state;
    struct link_hooks h = {.on_msg = on_msg, .ctx = &t->owner};
    struct link_opts o = {.endpoint = t->broker.endpoint, .role = MSG_ROLE_WORKER, .name = ""};
    struct err e = {0};
    char longish[MSG_ENDPOINT_MAX + 2];

    assert_int_equal(link_open(&t->owner.link, &t->loop, &o, &h, &e), ERR_CONFIG);
    memset(longish, 'a', sizeof(longish) - 1);
    longish[sizeof(longish) - 1] = '\0';
    o.name = longish;
    assert_int_equal(link_open(&t->owner.link, &t->loop, &o, &h, &e), ERR_CONFIG);
    o.name = "a";
    o.own_endpoint = longish;
    assert_int_equal(link_open(&t->owner.link, &t->loop, &o, &h, &e), ERR_CONFIG);
    o.own_endpoint = NULL;
    o.endpoint = "nonsense";
    assert_int_equal(link_open(&t->owner.link, &t->loop, &o, &h, &e), ERR_CONFIG);
}

#define T(f) cmocka_unit_test_setup_teardown(f, env_start, env_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_hello),
        T(test_heartbeats),
        T(test_stats),
        T(test_before_broker),
        T(test_broker_restart),
        T(test_broker_silent),
        T(test_no_welcome),
        T(test_malformed_welcome),
        T(test_broker_bye),
        T(test_refused),
        T(test_say_bye),
        T(test_bye_and_close),
        T(test_close_everywhere),
        T(test_bad_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
