/* The broker's shell on a real socket: fake frontend, worker and sandboxd on their links, all on
 * one loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "br_daemon.h"
#include "io/link.h"

#define PATIENCE_MS 5000U

/* One fake peer: its link and the last message of each type. */
struct peer {
    struct link *link;
    bool is_up;
    unsigned ups;
    unsigned got[64]; /* by message type */
    struct msg_head last[64];
    char payload[64][16384];
    uint32_t workers, sandboxds;
    int code;
    uint32_t call;
};

struct world {
    struct loop loop;
    struct br_daemon *daemon;
    struct cfg cfg;
    char dir[64];
    char endpoint[128];
    struct peer fe, wk, sb;
    bool is_stopped;
    bool is_timed_out;
    uv_timer_t patience;
};

static struct world w;

static void on_up(void *ctx, bool is_new, const struct msg_body_WELCOME *m)
{
    struct peer *p = ctx;

    (void)is_new;
    p->is_up = true;
    p->ups++;
    p->workers = m->workers;
    p->sandboxds = m->sandboxds;
}

static void on_down(void *ctx)
{
    ((struct peer *)ctx)->is_up = false;
}

static void decode_some(struct peer *p, const struct plane_in *in)
{
    struct msg_body_HEARTBEAT hb;
    struct msg_body_REFUSE refuse;
    struct msg_body_SBX_CALL call;
    struct msg_body_SBX_RESULT result;

    if (in->head.type == MSG_HEARTBEAT) {
        assert_int_equal(msg_decode_HEARTBEAT(&hb, in->fields), 0);
        p->workers = hb.workers;
        p->sandboxds = hb.sandboxds;
    } else if (in->head.type == MSG_REFUSE) {
        assert_int_equal(msg_decode_REFUSE(&refuse, in->fields), 0);
        p->code = refuse.code;
    } else if (in->head.type == MSG_SBX_CALL) {
        assert_int_equal(msg_decode_SBX_CALL(&call, in->fields), 0);
        p->call = call.call;
    } else if (in->head.type == MSG_SBX_RESULT) {
        assert_int_equal(msg_decode_SBX_RESULT(&result, in->fields), 0);
        p->call = result.call;
        p->code = result.code;
    }
}

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct peer *p = ctx;
    struct str_view payload = buf_view(in->payload);

    p->got[in->head.type]++;
    p->last[in->head.type] = in->head;
    (void)sv_copy(p->payload[in->head.type], sizeof(p->payload[0]), payload);
    decode_some(p, in);
}

static void on_patience(uv_timer_t *t)
{
    (void)t;
    w.is_timed_out = true;
}

/* Turns the loop until `cond` holds. */
#define WAIT(cond)                                                                                 \
    do {                                                                                           \
        w.is_timed_out = false;                                                                    \
        (void)uv_timer_start(&w.patience, on_patience, PATIENCE_MS, 0);                            \
        while (!(cond) && !w.is_timed_out) {                                                       \
            (void)uv_run(&w.loop.uv, UV_RUN_ONCE);                                                 \
        }                                                                                          \
        (void)uv_timer_stop(&w.patience);                                                          \
        assert_true(cond);                                                                         \
    } while (0)

static void peer_open(struct peer *p, enum msg_role role, const char *name, uint32_t capacity)
{
    struct link_opts o = {.endpoint = w.endpoint,
                          .role = role,
                          .name = name,
                          .own_endpoint = "ipc:///x",
                          .capacity = capacity};
    struct link_hooks h = {.on_up = on_up, .on_down = on_down, .on_msg = on_msg, .ctx = p};
    struct err e = {0};

    memset(p, 0, sizeof(*p));
    assert_int_equal(link_open(&p->link, &w.loop, &o, &h, &e), 0);
}

static void on_link_closed(void *ctx)
{
    ((struct peer *)ctx)->link = NULL;
}

static void peer_close(struct peer *p)
{
    if (p->link != NULL) {
        link_close(p->link, on_link_closed, p);
        WAIT(p->link == NULL);
    }
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    w.is_stopped = true;
    w.daemon = NULL;
}

static void broker_open(void)
{
    struct br_daemon_opts o = {.name = "broker-t", .cfg = &w.cfg, .on_stopped = on_stopped};
    struct err e = {0};

    w.is_stopped = false;
    /* libzmq lets go of an older broker's socket in its own time */
    WAIT(w.daemon != NULL || br_daemon_start(&w.daemon, &w.loop, &o, &e) == 0);
}

static int setup(void **state)
{
    static char empty[] = "";

    (void)state;
    memset(&w, 0, sizeof(w));
    (void)snprintf(w.dir, sizeof(w.dir), "/tmp/cfd-br-XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    (void)snprintf(w.endpoint, sizeof(w.endpoint), "ipc://%s/broker.sock", w.dir);
    w.cfg.run_dir = w.dir;
    w.cfg.broker_listen = empty;
    w.cfg.queue_jobs_max = 2;
    w.cfg.queue_per_key_max = 2;
    w.cfg.queue_wait_s = 60;
    assert_int_equal(loop_init(&w.loop, NULL, 60000), 0);
    assert_int_equal(uv_timer_init(&w.loop.uv, &w.patience), 0);
    broker_open();
    assert_non_null(w.daemon);
    return 0;
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    peer_close(&w.fe);
    peer_close(&w.wk);
    peer_close(&w.sb);
    if (w.daemon != NULL) {
        br_daemon_drain(w.daemon, 0);
        WAIT(w.is_stopped);
    }
    uv_close((uv_handle_t *)&w.patience, NULL);
    loop_stop(&w.loop);
    loop_run(&w.loop);
    loop_fini(&w.loop);
    (void)snprintf(path, sizeof(path), "%s/broker.sock", w.dir);
    (void)unlink(path);
    (void)rmdir(w.dir);
    return 0;
}

/* Sends and frees `out`. */
static void send_out(struct peer *p, struct bytes *out, const char *payload)
{
    struct buf *b = payload != NULL ? buf_copy(payload, strlen(payload)) : NULL;

    assert_int_equal(link_send(p->link, sv_from(out->p, out->n), b), 0);
    buf_unref(b);
    bytes_fini(out);
}

#define SEND(peer, NAME, head, body, payload)                                                      \
    do {                                                                                           \
        struct bytes out_ = {0};                                                                   \
        assert_int_equal(msg_encode_##NAME(&out_, (head), (body)), 0);                             \
        send_out((peer), &out_, (payload));                                                        \
    } while (0)

static void submit(uint8_t id, const char *body)
{
    struct msg_head h = {.type = MSG_SUBMIT, .attempt = 1, .deadline_ms = 30000, .rid = {{id}}};
    struct msg_body_SUBMIT m = {.kind = MSG_KIND_RESPONSES,
                                .method = MSG_METHOD_POST,
                                .window = 65536,
                                .endpoint = SV_LIT("ipc:///x"),
                                .path = SV_LIT("/v1/responses")};

    SEND(&w.fe, SUBMIT, &h, &m, body);
}

static void credit(uint16_t n)
{
    struct msg_head h = {.type = MSG_CREDIT};
    struct msg_body_CREDIT m = {.n = n};

    SEND(&w.wk, CREDIT, &h, &m, NULL);
}

static void done(uint8_t id, uint8_t attempt)
{
    struct msg_head h = {.type = MSG_DONE, .attempt = attempt, .rid = {{id}}};
    struct msg_body_DONE m = {.outcome = MSG_OUTCOME_OK, .credit = 1};

    SEND(&w.wk, DONE, &h, &m, NULL);
}

static void stats_get(uint8_t what)
{
    struct msg_head h = {.type = MSG_STATS_GET};
    struct msg_body_STATS_GET m = {.call = 7, .what = what};

    SEND(&w.fe, STATS_GET, &h, &m, NULL);
}

static void open_both(void)
{
    peer_open(&w.fe, MSG_ROLE_FRONTEND, "fe-0", 0);
    peer_open(&w.wk, MSG_ROLE_WORKER, "wk-0", 8);
    WAIT(w.fe.is_up && w.wk.is_up && w.fe.workers == 1);
}

static void test_request_goes_through(void **state)
{
    (void)state;
    open_both();
    submit(1, "the body");
    submit(2, "another"); /* waits: there is no credit yet */
    credit(1);
    WAIT(w.wk.got[MSG_DISPATCH] == 1);
    assert_string_equal(w.wk.payload[MSG_DISPATCH], "the body");
    assert_int_equal(w.wk.last[MSG_DISPATCH].rid.b[0], 1);
    assert_int_equal(w.wk.last[MSG_DISPATCH].attempt, 1);
    assert_in_range(w.wk.last[MSG_DISPATCH].deadline_ms, 20000, 30000);
    done(1, 1);
    WAIT(w.wk.got[MSG_DISPATCH] == 2);
    assert_string_equal(w.wk.payload[MSG_DISPATCH], "another");
    done(2, 1);
    stats_get(MSG_STATS_STATUS);
    WAIT(w.fe.got[MSG_STATS_REPLY] == 1);
    assert_non_null(strstr(w.fe.payload[MSG_STATS_REPLY], "\"name\":\"wk-0\",\"role\":\"worker\""));
    stats_get(MSG_STATS_METRICS);
    WAIT(w.fe.got[MSG_STATS_REPLY] == 2);
    assert_non_null(strstr(w.fe.payload[MSG_STATS_REPLY], "cofferdam_broker_jobs_total"));
}

static void test_full_queue_refuses(void **state)
{
    (void)state;
    open_both();
    submit(1, "a");
    submit(2, "b");
    submit(3, "c");
    WAIT(w.fe.got[MSG_REFUSE] == 1);
    assert_int_equal(w.fe.code, ERR_QUEUE_FULL);
    assert_int_equal(w.fe.last[MSG_REFUSE].rid.b[0], 3);
    w.cfg.queue_jobs_max = 3; /* a reload moves the limit */
    w.cfg.queue_per_key_max = 3;
    br_daemon_reload(w.daemon, &w.cfg);
    submit(4, "d");
    credit(8);
    WAIT(w.wk.got[MSG_DISPATCH] == 3);
}

static void test_worker_that_leaves_loses_its_job(void **state)
{
    (void)state;
    open_both();
    credit(8);
    submit(1, "a");
    WAIT(w.wk.got[MSG_DISPATCH] == 1);
    link_close(w.wk.link, on_link_closed,
               &w.wk); /* gone without a word: the next send or the silence tells */
    WAIT(w.fe.got[MSG_LOST] == 1);
    assert_int_equal(w.fe.last[MSG_LOST].rid.b[0], 1);
    WAIT(w.fe.workers == 0);
}

static void on_plane_msg(void *ctx, const struct plane_in *in)
{
    on_msg(ctx, in);
}

static void on_plane_up(void *ctx, bool is_up)
{
    ((struct peer *)ctx)->is_up = is_up;
}

static void on_plane_closed(void *ctx)
{
    *(bool *)ctx = true;
}

/* A process that dies is noticed by its pidfd, long before three heartbeats. Its HELLO is made by
 * hand here, and its connection outlives it, so that nothing else can tell. */
static void test_death_of_a_process_is_seen_at_once(void **state)
{
    struct plane_opts o = {.kind = PLANE_DEALER, .endpoint = w.endpoint, .routing_id = "wk-x"};
    struct plane_hooks hooks = {.on_msg = on_plane_msg, .on_link = on_plane_up, .ctx = &w.wk};
    struct msg_head h = {.type = MSG_HELLO};
    struct msg_body_HELLO m = {.role = MSG_ROLE_WORKER, .name = SV_LIT("wk-x"), .capacity = 4};
    struct bytes out = {0};
    struct plane *plane;
    struct stat st;
    bool is_closed = false;
    uint64_t since;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    assert_true(child > 0);
    peer_open(&w.fe, MSG_ROLE_FRONTEND, "fe-0", 0);
    assert_int_equal(plane_open(&plane, &w.loop, &o, &hooks, NULL), 0);
    WAIT(w.wk.is_up);
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    m.pid = (uint32_t)child;
    m.pid_ns = st.st_ino;
    assert_int_equal(msg_encode_HELLO(&out, &h, &m), 0);
    assert_int_equal(plane_send(plane, (struct str_view){NULL, 0}, sv_from(out.p, out.n), NULL), 0);
    bytes_fini(&out);
    WAIT(w.wk.got[MSG_WELCOME] == 1 && w.fe.is_up && w.fe.workers == 1);
    since = clock_ms();
    assert_int_equal(kill(child, SIGKILL), 0);
    WAIT(w.fe.workers == 0);
    assert_true(clock_ms() - since < 900);
    (void)waitpid(child, NULL, 0);
    plane_close(plane, on_plane_closed, &is_closed);
    WAIT(is_closed);
}

static void test_sandbox_call_and_back(void **state)
{
    struct msg_head h = {.type = MSG_SBX_CALL, .attempt = 1, .rid = {{1}}};
    struct msg_body_SBX_CALL call = {.call = 5, .op = MSG_SBX_RUN, .scope = MSG_SCOPE_REQUEST};
    struct msg_body_SBX_RESULT result = {.owner = SV_LIT("sb-0")};

    (void)state;
    open_both();
    peer_open(&w.sb, MSG_ROLE_SANDBOXD, "sb-0", 8);
    WAIT(w.sb.is_up && w.fe.sandboxds == 1);
    credit(8);
    submit(1, "a");
    WAIT(w.wk.got[MSG_DISPATCH] == 1);
    SEND(&w.wk, SBX_CALL, &h, &call, "print(1)");
    WAIT(w.sb.got[MSG_SBX_CALL] == 1);
    assert_string_equal(w.sb.payload[MSG_SBX_CALL], "print(1)");
    result.call = w.sb.call;
    h.type = MSG_SBX_RESULT;
    h.attempt = 0; /* sandboxds need not know of attempts */
    SEND(&w.sb, SBX_RESULT, &h, &result, "{}");
    WAIT(w.wk.got[MSG_SBX_RESULT] == 1);
    assert_int_equal(w.wk.call, 5);
    assert_int_equal(w.wk.last[MSG_SBX_RESULT].attempt, 1);
    done(1, 1); /* without a CLOSE: the broker sends it */
    WAIT(w.sb.got[MSG_SBX_CALL] == 2);
}

static void test_drain_waits_for_the_running_job(void **state)
{
    (void)state;
    open_both();
    credit(8);
    submit(1, "a");
    WAIT(w.wk.got[MSG_DISPATCH] == 1);
    br_daemon_drain(w.daemon, 10000);
    done(1, 1);
    WAIT(w.is_stopped);
    WAIT(w.fe.got[MSG_BYE] == 1 && w.wk.got[MSG_BYE] == 1);
    broker_open(); /* the next broker: both come back by themselves */
    WAIT(w.fe.ups == 2 && w.wk.ups == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_request_goes_through, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_queue_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_that_leaves_loses_its_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_death_of_a_process_is_seen_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sandbox_call_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain_waits_for_the_running_job, setup, teardown),
    };

    log_init("test");
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(id_init(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
