/* The parts of the pure core one by one: tables of states, hash table, fairness, placement,
 * permission, folded numbers, numbers for the outside, and that its work per job does not grow with
 * the number of jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/log.h"
#include "base/metric.h"
#include "br_int.h"
#include "br_rig.h"
#include "br_stats.h"

#define FE MSG_ROLE_FRONTEND
#define WK MSG_ROLE_WORKER
#define SB MSG_ROLE_SANDBOXD

static struct rig rig;
static struct rig *const r = &rig;

static int setup(void **state)
{
    (void)state;
    rig_init(r);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_fini(r);
    return 0;
}

/* --- states
 * ------------------------------------------------------------------------------------------------------------
 */

static void check_edges(const struct sm_state *table, unsigned count, const char *const *edges)
{
    char edge[64];
    unsigned found = 0;
    unsigned wanted = 0;

    for (unsigned from = 0; from < count; from++) {
        for (unsigned to = 0; to < count; to++) {
            bool is_wanted = false;

            (void)snprintf(edge, sizeof(edge), "%s %s", table[from].name, table[to].name);
            for (const char *const *e = edges; *e != NULL; e++) {
                is_wanted = is_wanted || strcmp(*e, edge) == 0;
            }
            if (is_wanted != ((table[from].to & (1U << to)) != 0)) {
                fail_msg("edge %s is %s", edge, is_wanted ? "missing" : "not in the picture");
            }
            found += is_wanted ? 1U : 0U;
        }
    }
    for (const char *const *e = edges; *e != NULL; e++) {
        wanted++;
    }
    assert_int_equal(found, wanted);
}

/* The pictures of broker/README.md. */
static void test_states_are_those_of_the_picture(void **state)
{
    static const char *const peer[] = {"NEW READY",  "NEW GONE",      "READY DRAINING",
                                       "READY GONE", "DRAINING GONE", NULL};
    static const char *const job[] = {
        "NEW QUEUED",         "NEW GRACE",        "NEW CLAIMED",
        "NEW RUNNING",        "NEW ENDED",        "QUEUED RUNNING",
        "QUEUED ENDED",       "GRACE QUEUED",     "GRACE RUNNING",
        "GRACE LIMBO",        "GRACE ENDED",      "CLAIMED RUNNING",
        "CLAIMED CANCELLING", "CLAIMED QUEUED",   "CLAIMED GRACE",
        "CLAIMED LIMBO",      "CLAIMED ENDED",    "RUNNING CANCELLING",
        "RUNNING QUEUED",     "RUNNING GRACE",    "RUNNING LIMBO",
        "RUNNING ENDED",      "CANCELLING LIMBO", "CANCELLING ENDED",
        "LIMBO QUEUED",       "LIMBO ENDED",      NULL};

    (void)state;
    check_edges(br_peer_states, BR_PEER_STATE_COUNT, peer);
    check_edges(br_job_states, BR_JOB_STATE_COUNT, job);
}

/* --- hash table
 * ----------------------------------------------------------------------------------------------------------
 */

struct item {
    struct br_node node;
    uint8_t key[16];
};

static void test_table(void **state)
{
    static struct item items[1000];
    struct br_table t = {0};

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        id_random(items[i].key, sizeof(items[i].key));
        br_table_put(&t, &items[i].node, br_hash16(items[i].key, 7));
    }
    for (unsigned i = 0; i < 1000; i += 2) {
        br_table_remove(&t, &items[i].node);
        br_table_remove(&t, &items[i].node); /* twice is once */
    }
    assert_int_equal(t.count, 500);
    for (unsigned i = 0; i < 1000; i++) {
        struct br_node *n = br_table_first(&t, br_hash16(items[i].key, 7));
        unsigned length = 0;

        while (n != NULL && n != &items[i].node) {
            n = n->next;
            length++;
        }
        assert_true((n != NULL) == (i % 2 == 1));
        assert_true(length < 20);
    }
    br_table_fini(&t);
}

/* --- fairness
 * --------------------------------------------------------------------------------------------------------------
 */

/* As long as both wait, two tenants never differ by more than one dispatch, whatever one of them
 * has queued. */
static void test_fairness_bound(void **state)
{
    static const enum br_fair fairs[] = {BR_FAIR_ROUND_ROBIN, BR_FAIR_IN_FLIGHT};

    (void)state;
    for (unsigned f = 0; f < 2; f++) {
        int ahead = 0;

        rig_fini(r);
        rig_init(r);
        r->setup.limits.fair = fairs[f];
        rig_restart(r);
        rig_hello(r, "fe0", FE, 0);
        rig_hello(r, "wk0", WK, 100);
        for (uint32_t i = 0; i < 100; i++) {
            rig_submit(r, "fe0", 1000 + i, 1, 1, 0, 0);
        }
        for (uint32_t i = 0; i < 30; i++) {
            rig_submit(r, "fe0", 2000 + i, 1, 2, 0, 0);
        }
        rig_expect(r, "");
        for (unsigned i = 0; i < 60; i++) {
            unsigned request = 0;

            rig_credit(r, "wk0", 1);
            assert_int_equal(sscanf(r->text.p, "wk0 DISPATCH %u/", &request), 1);
            bytes_reset(&r->text);
            ahead += request < 2000 ? 1 : -1;
            assert_in_range(ahead + 1, 0, 2);
        }
    }
}

/* --- placement
 * -----------------------------------------------------------------------------------------------------------------
 */

static unsigned place_of(uint32_t request, uint32_t tenant)
{
    unsigned sb = 0;

    rig_submit(r, "fe0", request, 1, tenant, 0, 0);
    bytes_reset(&r->text);
    rig_call(r, "wk0", request, 1, tenant, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    assert_int_equal(sscanf(r->text.p, "sb%u SBX_CALL", &sb), 1);
    bytes_reset(&r->text);
    rig_result(r, sb == 0 ? "sb0" : sb == 1 ? "sb1" : "sb2", request, 1);
    rig_done(r, "wk0", request, 1);
    bytes_reset(&r->text);
    return sb;
}

static void test_rendezvous(void **state)
{
    unsigned first[60];
    unsigned count[3] = {0, 0, 0};

    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 100);
    rig_credit(r, "wk0", 100);
    rig_hello(r, "sb0", SB, 10);
    rig_hello(r, "sb1", SB, 10);
    rig_hello(r, "sb2", SB, 10);
    for (uint32_t t = 0; t < 60; t++) {
        first[t] = place_of(100 + t, t);
        count[first[t]]++;
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_in_range(count[i], 8, 35); /* spread */
    }
    rig_exited(r, "sb2", BR_EV_EXITED);
    for (uint32_t t = 0; t < 60; t++) {
        unsigned now = place_of(200 + t, t);

        assert_true(first[t] == 2 || now == first[t]); /* only the tenants of the dead one move */
    }
}

/* A tenant with sessions stays, even where the hash would send it elsewhere, until they are gone.
 */
static void test_sessions_hold_their_tenant(void **state)
{
    unsigned hashed;
    const char *other;

    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 100);
    rig_credit(r, "wk0", 100);
    rig_hello(r, "sb0", SB, 10);
    rig_hello(r, "sb1", SB, 10);
    hashed = place_of(1, 1);
    other = hashed == 0 ? "sb1" : "sb0";
    rig_sessions(r, other, (const uint32_t[][2]){{1, 1}}, 1);
    assert_int_equal(place_of(2, 1), 1 - hashed);
    assert_int_equal(place_of(3, 1), 1 - hashed);
    rig_sessions(r, other, NULL, 0);
    assert_int_equal(place_of(4, 1), hashed);
}

static void test_own_sandboxes_go_to_the_least_loaded(void **state)
{
    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 100);
    rig_credit(r, "wk0", 100);
    rig_hello(r, "sb0", SB, 10);
    rig_hello(r, "sb1", SB, 20);
    for (uint32_t i = 1; i <= 3; i++) {
        rig_submit(r, "fe0", i, 1, 1, 0, 0);
    }
    bytes_reset(&r->text);
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 2, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 3, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 1, 1, 1, 1, MSG_SBX_RUN, MSG_SCOPE_REQUEST); /* where it has its sandbox */
    rig_expect(
        r, "sb0 SBX_CALL 1/1 #0.1 op=2\nsb1 SBX_CALL 2/1 #0.1 op=2\nsb1 SBX_CALL 3/1 #0.1 op=2\n"
           "sb0 SBX_CALL 1/1 #1.1 op=2\n");
}

/* --- permission, wire
 * ------------------------------------------------------------------------------------------------------------
 */

static void test_admit(void **state)
{
    static struct br_peer p;
    const char *text = NULL;

    (void)state;
    assert_int_equal(br_admit(NULL, &(struct msg_head){.type = MSG_HELLO}, &text), 0);
    assert_int_equal(br_admit(NULL, &(struct msg_head){.type = MSG_SUBMIT}, &text),
                     ERR_PEER_FORBIDDEN);
    assert_string_equal(text, "say HELLO first");
    for (enum msg_role role = FE; role <= SB; role++) {
        p.role = role;
        p.state = BR_PEER_READY;
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = MSG_SUBMIT}, &text) == 0,
                         role == FE);
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = MSG_DONE}, &text) == 0,
                         role == WK);
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = MSG_SBX_RESULT}, &text) == 0,
                         role == SB);
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = MSG_WELCOME}, &text),
                         ERR_PEER_FORBIDDEN);
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = MSG_HEAD}, &text),
                         ERR_PEER_FORBIDDEN);
        assert_int_equal(br_admit(&p, &(struct msg_head){.type = 255}, &text), ERR_PEER_FORBIDDEN);
    }
}

/* br_act_patched_call writes over the first field: it must be `call` in all four. */
static void test_call_number_comes_first(void **state)
{
    const char want[4] = {0x44, 0x33, 0x22, 0x11};
    struct msg_head h = {.type = MSG_SBX_CALL};
    struct bytes out = {0};

    (void)state;
#define FIRST(NAME, ...)                                                                           \
    h.type = MSG_##NAME;                                                                           \
    bytes_reset(&out);                                                                             \
    assert_int_equal(                                                                              \
        msg_encode_##NAME(&out, &h, &(struct msg_body_##NAME){.call = 0x11223344, __VA_ARGS__}),   \
        0);                                                                                        \
    assert_memory_equal(out.p + MSG_HEAD_BYTES, want, 4)
    FIRST(SBX_CALL, .op = 1, .scope = 1);
    FIRST(SBX_EVENT, .kind = 1);
    FIRST(SBX_RESULT, .code = 0);
    FIRST(SBX_CANCEL, .owner = SV_LIT(""));
    bytes_fini(&out);
}

/* --- numbers
 * -----------------------------------------------------------------------------------------------------------------------
 */

static void test_status_and_metrics(void **state)
{
    struct br_stats stats = {.name = "br\"0", .pid = 5, .started_ms = 500};
    struct bytes out = {0};
    struct msg_head h = {.type = MSG_STATS};
    struct msg_body_STATS m = {.lag_us = 12};
    struct buf *text = buf_copy("cofferdam_worker_x 1", 20);

    (void)state;
    metric_reset();
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 4);
    rig_credit(r, "wk0", 1);
    rig_hello(r, "sb0", SB, 4);
    rig_sessions(r, "sb0", (const uint32_t[][2]){{1, 3}}, 1);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 2, 0, 0);
    RIG_SEND(r, "wk0", STATS, &h, &m, text);
    buf_unref(text);
    rig_wait(r, 500);
    assert_int_equal(br_stats_status(&stats, r->core, r->now_ms, &out), 0);
    assert_string_equal(
        out.p,
        "{\"broker\":{\"name\":\"br\\\"0\",\"pid\":5,\"uptime_ms\":1000,\"version\":\"" CFD_VERSION
        "\",\"config_generation\":0},\"processes\":["
        "{\"name\":\"fe0\",\"role\":\"frontend\",\"pid\":0,\"state\":\"READY\",\"in_flight\":2,"
        "\"credit\":0,\"capacity\":0,"
        "\"last_seen_ms\":500,\"load\":0,\"lag_us\":0},"
        "{\"name\":\"wk0\",\"role\":\"worker\",\"pid\":0,\"state\":\"READY\",\"in_flight\":1,"
        "\"credit\":0,\"capacity\":4,"
        "\"last_seen_ms\":500,\"load\":0,\"lag_us\":12},"
        "{\"name\":\"sb0\",\"role\":\"sandboxd\",\"pid\":0,\"state\":\"READY\",\"in_flight\":0,"
        "\"credit\":0,\"capacity\":4,"
        "\"last_seen_ms\":500,\"load\":0,\"lag_us\":0}],"
        "\"sandboxds\":[{\"name\":\"sb0\",\"sessions\":1,\"sandboxes\":1}],"
        "\"queues\":[{\"tenant\":\"02000000ee00\",\"depth\":1,\"in_flight\":0,\"oldest_wait_ms\":"
        "500}],"
        "\"jobs\":{\"queued\":1,\"in_flight\":1,\"recovering\":0,\"credit\":0,\"oldest_wait_ms\":"
        "500,\"ok\":0,\"error\":0,"
        "\"cancelled\":0,\"refused\":0,\"lost\":0},\"sandbox_calls\":0,\"sessions\":3,\"bad_"
        "messages\":0,"
        "\"unknown_messages\":0}");
    bytes_reset(&out);
    rig_done(r, "wk0", 1, 1);
    assert_int_equal(br_stats_metrics(&stats, r->core, r->now_ms, &out), 0);
    assert_int_equal(br_stats_metrics(&stats, r->core, r->now_ms, &out),
                     0); /* counters do not count twice */
    assert_non_null(strstr(out.p, "cofferdam_worker_x 1\n"));
    assert_non_null(strstr(out.p, "cofferdam_broker_peers"));
    assert_null(strstr(out.p, "outcome=\"ok\"} 2"));
    bytes_fini(&out);
    metric_reset();
}

/* --- speed
 * -------------------------------------------------------------------------------------------------------------------------
 */

static void ignore(size_t n)
{
    (void)n;
}

static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void one_job(struct br_event *submit, struct br_event *done, uint32_t n, bool has_end)
{
    size_t acts;

    submit->head.rid = rig_rid(n);
    submit->head.attempt = 1;
    submit->head.tenant = rig_tenant(n % 100);
    (void)br_core_step(r->core, r->now_ms, submit, &acts);
    ignore(acts);
    if (has_end) {
        done->head.rid = rig_rid(n);
        (void)br_core_step(r->core, r->now_ms, done, &acts);
    }
}

/* 100,000 jobs with many others in flight take about as long, each, as with none. */
static void test_work_per_job_is_constant(void **state)
{
    enum { JOBS = 100000, OTHERS = 50000 };
    struct msg_head h = {.type = MSG_SUBMIT, .attempt = 1};
    struct msg_body_SUBMIT m = {.kind = 1,
                                .method = 3,
                                .window = 65536,
                                .endpoint = SV_LIT("ipc:///r"),
                                .path = SV_LIT("/v1/responses")};
    struct msg_head dh = {.type = MSG_DONE};
    struct msg_body_DONE dm = {.outcome = 1, .credit = 1};
    struct bytes frame = {0};
    struct bytes done_frame = {0};
    struct br_event submit = {.kind = BR_EV_MSG, .from = {0, SV_LIT("fe0")}, .head = h};
    struct br_event done = {.kind = BR_EV_MSG, .from = {0, SV_LIT("wk0")}, .head = dh};
    double empty;
    double full;

    (void)state;
    assert_int_equal(msg_encode_SUBMIT(&frame, &h, &m), 0);
    assert_int_equal(msg_encode_DONE(&done_frame, &dh, &dm), 0);
    submit.frame0 = sv_from(frame.p, frame.n);
    submit.fields = sv_from(frame.p + MSG_HEAD_BYTES, frame.n - MSG_HEAD_BYTES);
    done.frame0 = sv_from(done_frame.p, done_frame.n);
    done.fields = sv_from(done_frame.p + MSG_HEAD_BYTES, done_frame.n - MSG_HEAD_BYTES);
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 65535);
    rig_credit(r, "wk0", 65535);
    for (uint32_t i = 0; i < 10000; i++) { /* warm up */
        one_job(&submit, &done, i, true);
    }
    empty = seconds();
    for (uint32_t i = 0; i < JOBS; i++) {
        one_job(&submit, &done, i, true);
    }
    empty = seconds() - empty;
    for (uint32_t i = 0; i < OTHERS; i++) {
        one_job(&submit, &done, 1000000 + i, false);
    }
    full = seconds();
    for (uint32_t i = 0; i < JOBS; i++) {
        one_job(&submit, &done, i, true);
    }
    full = seconds() - full;
    printf("%.2f us per job, with %d in flight %.2f us\n", empty * 1e6 / JOBS, OTHERS,
           full * 1e6 / JOBS);
    assert_null(br_core_check(r->core));
    assert_true(full <
                empty * 8 + 0.5); /* cache misses may cost, a scan would cost a thousand times */
    bytes_fini(&frame);
    bytes_fini(&done_frame);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_states_are_those_of_the_picture),
        T(test_table),
        T(test_fairness_bound),
        T(test_rendezvous),
        T(test_sessions_hold_their_tenant),
        T(test_own_sandboxes_go_to_the_least_loaded),
        T(test_admit),
        T(test_call_number_comes_first),
        T(test_status_and_metrics),
        T(test_work_per_job_is_constant),
    };

    log_init("test");
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(id_init(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
