/* sandboxd's core in virtual time with a provider whose every step the test takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fake_provider.h"
#include "sb_core.h"

#define ANSWERS_MAX 8192

struct answer {
    struct sb_origin to;
    int code;
    uint32_t notes;
    char id[40];
    char text[200];
    char payload[400];
    unsigned count; /* how often this origin was answered */
};

static struct answer answers[ANSWERS_MAX];
static unsigned answer_count;
static char events[4096];
static struct sb_core *core;
static struct cfg *cfg;
static uint64_t now;
static int link_a;
static int link_b;

static void on_reply(void *ctx, const struct sb_origin *to, const struct sb_reply *r)
{
    struct answer *a = &answers[answer_count++];

    (void)ctx;
    REQUIRE(answer_count < ANSWERS_MAX);
    *a = (struct answer){.to = *to, .code = r->code, .notes = r->notes};
    (void)sv_copy(a->id, sizeof(a->id), sv_of(r->sandbox_id));
    (void)sv_copy(a->text, sizeof(a->text), sv_of(r->text));
    (void)sv_copy(a->payload, sizeof(a->payload), buf_view(r->payload));
}

static void on_event(void *ctx, const struct sb_origin *to, enum msg_sbx_event kind,
                     struct str_view data)
{
    size_t n = strlen(events);

    (void)ctx;
    snprintf(events + n, sizeof(events) - n, "%u:%d:%.*s ", to->call, (int)kind, (int)data.n,
             data.p);
}

static void on_changed(void *ctx)
{
    (void)ctx;
}

static void tick(uint64_t ms)
{
    now += ms;
    clock_fake(now);
    sb_core_tick(core);
}

static int setup(void **state)
{
    static const struct sb_core_hooks hooks = {
        .reply = on_reply, .event = on_event, .changed = on_changed};
    const struct sb_core_provider p = {&fake_ops, NULL};
    char path[] = "/tmp/cfd-test-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "cofferdam: {sessions: {ttl_s: 100, per_key: 3}}\n";
    struct err e = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
    close(fd);
    assert_int_equal(id_init(), 0);
    log_set_level(LOG_LEVEL_ERROR);
    if (cfg_load(&cfg, path, CFG_FOR_SANDBOXD, NULL, NULL, &e) != 0) {
        fail_msg("%s", e.text);
    }
    unlink(path);
    fake_reset();
    answer_count = 0;
    events[0] = '\0';
    now = 1000000;
    clock_fake(now);
    assert_int_equal(sb_core_new(&core, cfg, "test", &p, 1, &hooks), 0);
    return 0;
}

static bool is_stopped;

static void on_stopped(void *ctx)
{
    (void)ctx;
    is_stopped = true;
}

static int teardown(void **state)
{
    (void)state;
    is_stopped = false;
    fake.is_manual_destroy = false;
    sb_core_stop(core, on_stopped, NULL);
    while (fake_created(0) != NULL) {
        /* creates that were under way end, then their boxes are deleted */
    }
    assert_true(is_stopped);
    assert_int_equal(fake.alive, 0);
    sb_core_free(core);
    cfg_unref(cfg);
    clock_real();
    return 0;
}

static struct tenant_id tenant(char c)
{
    struct tenant_id t = {{0}};

    t.b[0] = (uint8_t)c;
    return t;
}

static uint32_t next_call;

struct ask {
    char tenant;
    const char *session; /* NULL = request scope */
    const char *box;     /* sandbox scope when not NULL */
    char rid;
    enum msg_sbx_op op;
    const char *code;
    char op_id; /* 0 = none */
    void *link;
};

static uint32_t ask(const struct ask *a)
{
    struct sb_core_call c = {
        .origin = {.link = a->link != NULL ? a->link : (void *)&link_a, .call = ++next_call},
        .tenant = tenant(a->tenant),
        .op = a->op,
        .scope = a->box != NULL       ? MSG_SCOPE_SANDBOX
                 : a->session != NULL ? MSG_SCOPE_SESSION
                                      : MSG_SCOPE_REQUEST,
        .session = sv_of(a->box != NULL ? a->box : a->session),
        .payload = a->code != NULL ? buf_copy(a->code, strlen(a->code)) : NULL,
    };

    c.origin.rid.b[0] = (uint8_t)a->rid;
    c.op_id.b[0] = (uint8_t)a->op_id;
    sb_core_call(core, &c);
    buf_unref(c.payload);
    return c.origin.call;
}

static uint32_t run(char t, const char *session, const char *code)
{
    return ask(&(struct ask){
        .tenant = t, .session = session, .rid = 'r', .op = MSG_SBX_RUN, .code = code});
}

static const struct answer *answer(uint32_t call)
{
    const struct answer *found = NULL;

    for (unsigned i = 0; i < answer_count; i++) {
        if (answers[i].to.call == call) {
            assert_null(found); /* exactly one answer each */
            found = &answers[i];
        }
    }
    return found;
}

static void event(struct sb_box *b, enum sb_event_kind kind, const char *data)
{
    b->run.on_event(b->run.ctx, kind, sv_of(data));
}

static void test_run_and_result(void **state)
{
    uint32_t c = run('a', "s", "print(1)");
    struct sb_box *b = fake_created(0);

    (void)state;
    assert_string_equal(b->code, "print(1)");
    event(b, SB_EVENT_STDOUT, "1\n");
    event(b, SB_EVENT_DISPLAY, "{\"text/plain\":\"2\",\"is_main_result\":true}");
    event(b, SB_EVENT_DISPLAY, "{\"text/plain\":\"3\"}");
    event(b, SB_EVENT_STDERR, "w");
    event(b, SB_EVENT_COUNT, "7");
    assert_null(answer(c));
    fake_end(b, SB_END_OK, 0, NULL);
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(answer(c)->notes, MSG_SBX_NOTE_CREATED);
    assert_string_equal(
        answer(c)->payload,
        "{\"object\":\"code_execution\",\"stdout\":\"1\\n\",\"stderr\":\"w\",\"results\":[{\"text/"
        "plain\":\"2\",\"is_main_result\":true},{\"text/plain\":\"3\"}],\"error\":null,\"execution_"
        "count\":7,\"truncated\":false,\"sandbox_id\":\"box-1\"}");
    char want[64];

    snprintf(want, sizeof(want), "%u:%d:box-1 %u:%d:1\n", c, MSG_SBX_STARTED, c, MSG_SBX_STDOUT);
    assert_memory_equal(events, want, strlen(want));
}

static void test_one_create_under_concurrency_and_fifo(void **state)
{
    uint32_t c1 = run('a', "s", "1");
    uint32_t c2 = run('a', "s", "2");
    uint32_t c3 = ask(&(struct ask){.tenant = 'a', .session = "s", .op = MSG_SBX_OPEN});

    (void)state;
    assert_int_equal(fake_creates_pending(), 1);
    struct sb_box *b = fake_created(0);

    assert_string_equal(b->code, "1");
    fake_end(b, SB_END_OK, 0, NULL);
    assert_string_equal(b->code, "2");
    assert_non_null(answer(c1));
    assert_null(answer(c2));
    /* its sandbox is known while it runs */
    uint32_t c4 = ask(&(struct ask){.tenant = 'a', .session = "s", .op = MSG_SBX_OPEN});

    assert_int_equal(answer(c4)->code, 0);
    fake_end(b, SB_END_OK, 0, NULL);
    assert_non_null(answer(c2));
    assert_string_equal(answer(c3)->id, "box-1");
    assert_int_equal(fake.create_count, 1);
}

static void test_tenants_and_keys_never_mix(void **state)
{
    (void)state;
    (void)run('a', "s", "1");
    (void)run('b', "s", "1");
    (void)run('a', "t", "1");
    assert_int_equal(fake_creates_pending(), 3);
    struct sb_box *b = fake_created(0);
    uint32_t other =
        ask(&(struct ask){.tenant = 'b', .box = b->id, .op = MSG_SBX_RUN, .code = "x"});
    uint32_t del = ask(&(struct ask){.tenant = 'b', .box = b->id, .op = MSG_SBX_DELETE});
    uint32_t own = ask(&(struct ask){.tenant = 'a', .box = b->id, .op = MSG_SBX_GET});

    assert_int_equal(answer(other)->code, ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(answer(del)->code, ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(answer(own)->code, 0);
    fake_end(b, SB_END_OK, 0, NULL);
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
}

static void make_idle(char t, const char *session)
{
    (void)run(t, session, "x");
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    tick(10);
}

static void test_cap_evicts_lru_idle_and_waits(void **state)
{
    (void)state;
    make_idle('a', "1");
    make_idle('a', "2");
    make_idle('a', "3");
    (void)run('a', "1", "touch");
    fake_end(&fake.boxes[0], SB_END_OK, 0, NULL);
    fake.is_manual_destroy = true;
    uint32_t c = run('a', "4", "new");

    assert_true(fake.boxes[1].is_destroying); /* session 2 */
    assert_int_equal(fake_creates_pending(), 0);
    fake_destroyed(&fake.boxes[1]);
    assert_int_equal(fake_creates_pending(), 1);
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(fake.alive_max, 3); /* never four alive */
    assert_int_equal(sb_core_sessions(core), 3);
}

static void test_cap_delete_not_confirmed_in_time(void **state)
{
    (void)state;
    make_idle('a', "1");
    make_idle('a', "2");
    make_idle('a', "3");
    fake.is_manual_destroy = true;
    (void)run('a', "4", "new");
    tick(SB_EVICT_WAIT_MS - 1);
    assert_int_equal(fake_creates_pending(), 0);
    tick(1);
    assert_int_equal(fake_creates_pending(), 1);
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    fake_destroyed(&fake.boxes[0]); /* late */
    assert_int_equal(fake.alive, 3);
}

static void test_cap_all_busy_is_refused(void **state)
{
    uint32_t c;

    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('1' + i), '\0'};

        (void)run('a', name, "x");
        (void)fake_created(0);
    }
    c = run('a', "4", "x");
    assert_int_equal(answer(c)->code, ERR_SANDBOX_CAPACITY);
    assert_non_null(strstr(answer(c)->text, "all 3 sandbox sessions"));
    c = run('b', "4", "x"); /* another tenant is not concerned, nor is a single request */
    assert_null(answer(c));
    c = run('a', NULL, "x");
    assert_null(answer(c));
    while (fake_created(0) != NULL) {
    }
    for (unsigned i = 0; i < fake.box_count; i++) {
        fake_end(&fake.boxes[i], SB_END_OK, 0, NULL);
    }
}

static void test_ttl_from_last_access_never_under_a_run(void **state)
{
    (void)state;
    make_idle('a', "1");
    tick(60000);
    (void)run('a', "1", "x");
    tick(60000);
    assert_int_equal(fake.alive, 1);
    tick(600000); /* a long run */
    assert_int_equal(fake.alive, 1);
    fake_end(&fake.boxes[0], SB_END_OK, 0, NULL);
    tick(99000);
    assert_int_equal(fake.alive, 1);
    tick(2000);
    assert_int_equal(fake.alive, 0);
    assert_int_equal(sb_core_sessions(core), 0);
}

static void test_request_scope_ends_with_close(void **state)
{
    uint32_t c;

    (void)state;
    (void)ask(&(struct ask){.tenant = 'a', .rid = '1', .op = MSG_SBX_RUN, .code = "x"});
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    c = ask(&(struct ask){.tenant = 'a', .rid = '1', .op = MSG_SBX_CLOSE});
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(fake.alive, 0);
    c = ask(&(struct ask){.tenant = 'a', .rid = '1', .op = MSG_SBX_CLOSE}); /* twice does no harm */
    assert_int_equal(answer(c)->code, 0);
    make_idle('a', "s"); /* a session's sandbox stays */
    c = ask(&(struct ask){.tenant = 'a', .session = "s", .op = MSG_SBX_CLOSE});
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(fake.alive, 1);
}

static void test_close_while_creating_and_while_running(void **state)
{
    uint32_t r1;
    uint32_t c;

    (void)state;
    r1 = ask(&(struct ask){.tenant = 'a', .rid = '1', .op = MSG_SBX_RUN, .code = "x"});
    c = ask(&(struct ask){.tenant = 'a', .rid = '1', .op = MSG_SBX_CLOSE});
    assert_int_equal(answer(r1)->code, ERR_CANCELLED);
    assert_null(answer(c));
    (void)fake_created(0); /* late: deleted at once */
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(fake.alive, 0);

    r1 = ask(&(struct ask){.tenant = 'a', .rid = '2', .op = MSG_SBX_RUN, .code = "x"});
    (void)fake_created(0);
    c = ask(&(struct ask){.tenant = 'a', .rid = '2', .op = MSG_SBX_CLOSE});
    assert_int_equal(answer(r1)->code, ERR_CANCELLED);
    assert_int_equal(answer(c)->code, 0);
    assert_int_equal(fake.alive, 0);
}

static void test_repeated_operation_is_not_run_again(void **state)
{
    struct ask a = {.tenant = 'a',
                    .session = "s",
                    .rid = '1',
                    .op = MSG_SBX_RUN,
                    .code = "n += 1",
                    .op_id = 'o'};
    uint32_t c1 = ask(&a);
    struct sb_box *b = fake_created(0);
    uint32_t c2;
    uint32_t c3;

    (void)state;
    a.link = &link_b;
    c2 = ask(&a); /* joins the run under way */
    event(b, SB_EVENT_STDOUT, "done");
    fake_end(b, SB_END_OK, 0, NULL);
    assert_non_null(strstr(answer(c1)->payload, "done"));
    assert_non_null(strstr(answer(c2)->payload, "done"));
    c3 = ask(&a); /* from the record */
    assert_true((answer(c3)->notes & MSG_SBX_NOTE_REPEATED) != 0);
    assert_non_null(strstr(answer(c3)->payload, "done"));
    assert_int_equal(b->runs, 1);
    a.tenant = 'b'; /* the record is the tenant's own */
    (void)ask(&a);
    fake_end(fake_created(0), SB_END_OK, 0, NULL);
    assert_int_equal(fake.boxes[1].runs, 1);
}

static void test_dead_before_a_run_is_replaced_and_told(void **state)
{
    uint32_t c;
    struct sb_box *b;

    (void)state;
    make_idle('a', "s");
    fake_die(&fake.boxes[0]);
    assert_int_equal(fake.alive, 0);
    c = run('a', "s", "x");
    b = fake_created(0);
    fake_end(b, SB_END_OK, 0, NULL);
    assert_true((answer(c)->notes & MSG_SBX_NOTE_RESTARTED) != 0);
    assert_string_equal(answer(c)->id, "box-2");
    c = run('a', "s", "y"); /* told once */
    fake_end(b, SB_END_OK, 0, NULL);
    assert_int_equal(answer(c)->notes, 0);
    /* the provider says so only when asked to run: nothing ran, so the new one gets the code */
    c = run('a', "s", "z");
    fake_end(b, SB_END_LOST, ERR_SANDBOX_NOT_FOUND, "no such sandbox");
    b = fake_created(0);
    assert_string_equal(b->code, "z");
    fake_end(b, SB_END_OK, 0, NULL);
    assert_int_equal(answer(c)->notes, MSG_SBX_NOTE_RESTARTED);
}

static void test_lost_during_a_run_is_never_run_again(void **state)
{
    uint32_t c1 = run('a', "s", "x");
    uint32_t c2 = run('a', "s", "y");
    struct sb_box *b = fake_created(0);

    (void)state;
    event(b, SB_EVENT_STDOUT, "half");
    fake_die(b);
    assert_int_equal(answer(c1)->code, 0);
    assert_int_equal(answer(c1)->notes, MSG_SBX_NOTE_CREATED | MSG_SBX_NOTE_INTERRUPTED);
    assert_non_null(strstr(answer(c1)->payload, "half"));
    assert_non_null(strstr(answer(c1)->payload, "SandboxLost"));
    b = fake_created(0);
    assert_string_equal(b->code, "y");
    fake_end(b, SB_END_OK, 0, NULL);
    assert_int_equal(answer(c2)->notes, MSG_SBX_NOTE_RESTARTED);
}

static void test_create_failure_answers_everybody(void **state)
{
    uint32_t c1 = run('a', "s", "x");
    uint32_t c2 = run('a', "s", "y");

    (void)state;
    (void)fake_created(ERR_SANDBOX_UNAVAILABLE);
    assert_int_equal(answer(c1)->code, ERR_SANDBOX_UNAVAILABLE);
    assert_int_equal(answer(c2)->code, ERR_SANDBOX_UNAVAILABLE);
    assert_int_equal(sb_core_sandboxes(core), 0);
    make_idle('a', "s"); /* and the next one tries again */
}

static void test_cancel(void **state)
{
    uint32_t c1 = run('a', "s", "x");
    uint32_t c2 = run('a', "s", "y");
    struct sb_origin o = {.link = &link_a, .call = c2};
    struct sb_box *b = fake_created(0);

    (void)state;
    o.rid.b[0] = 'r';
    sb_core_cancel(core, &o); /* waiting: dropped */
    assert_int_equal(answer(c2)->code, ERR_CANCELLED);
    o.call = c1;
    sb_core_cancel(core, &o); /* running: interrupted, answered when it ended */
    assert_true(b->is_interrupted);
    assert_null(answer(c1));
    fake_end(b, SB_END_INTERRUPTED, ERR_CANCELLED, "interrupted");
    assert_int_equal(answer(c1)->code, ERR_CANCELLED);
    sb_core_cancel(core, &o); /* late: nothing */
    assert_int_equal(b->runs, 1);
}

static void test_unknown_tool_and_empty_session(void **state)
{
    struct sb_core_call c = {.origin = {.link = &link_a, .call = ++next_call},
                             .tenant = tenant('a'),
                             .op = MSG_SBX_RUN,
                             .scope = MSG_SCOPE_SESSION,
                             .session = SV_LIT("s"),
                             .tool = SV_LIT("nope")};

    (void)state;
    sb_core_call(core, &c);
    assert_int_equal(answer(next_call)->code, ERR_INVALID);
    c.origin.call = ++next_call;
    c.tool = SV_LIT("");
    c.session = SV_LIT("");
    sb_core_call(core, &c);
    assert_int_equal(answer(next_call)->code, ERR_MISSING_PARAM);
    assert_int_equal(sb_core_sandboxes(core), 0);
}

/* Random calls, ends, deaths and cancels; every call is answered exactly once and nothing is left.
 */
static void test_random_stories(void **state)
{
    unsigned seed = 1;
    const char *env = getenv("SEED");
    uint32_t first = next_call + 1;

    (void)state;
    seed = env != NULL ? (unsigned)strtoul(env, NULL, 10) : (unsigned)getpid();
    print_message("seed %u\n", seed);
    srandom(seed);
    for (int step = 0;
         step < 3000 && fake.box_count + 8 < FAKE_BOXES_MAX && answer_count + 64 < ANSWERS_MAX;
         step++) {
        static const char *const names[] = {"1", "2", "3", "4", "5", NULL};
        static const enum msg_sbx_op ops[] = {MSG_SBX_RUN,  MSG_SBX_RUN,   MSG_SBX_RUN,
                                              MSG_SBX_OPEN, MSG_SBX_CLOSE, MSG_SBX_DELETE,
                                              MSG_SBX_LIST};
        struct sb_box *b =
            fake.box_count > 0 ? &fake.boxes[(unsigned)random() % fake.box_count] : NULL;

        switch (random() % 8) {
        case 0:
        case 1:
        case 2:
            (void)ask(&(struct ask){.tenant = (char)('a' + random() % 2),
                                    .session = names[random() % 6],
                                    .rid = (char)(random() % 20),
                                    .op = ops[random() % 7],
                                    .code = "x",
                                    .op_id = (char)(random() % 4 == 0 ? 1 + random() % 100 : 0)});
            break;
        case 3:
            (void)fake_created(random() % 5 == 0 ? ERR_SANDBOX_UNAVAILABLE : 0);
            break;
        case 4:
        case 5:
            if (b != NULL && b->is_running) {
                fake_end(b, (enum sb_end)(random() % 3), 0, NULL);
            }
            break;
        case 6:
            if (b != NULL && b->is_used && b->is_alive && !b->is_destroying && random() % 4 == 0) {
                fake_die(b);
            }
            break;
        default: {
            struct sb_origin o = {.link = &link_a, .call = next_call - (uint32_t)(random() % 10)};

            o.rid.b[0] = (uint8_t)(random() % 20);
            sb_core_cancel(core, &o);
            tick((uint64_t)(random() % 3000));
            break;
        }
        }
    }
    for (bool is_more = true; is_more;) {
        is_more = fake_created(0) != NULL;
        for (unsigned i = 0; i < fake.box_count; i++) {
            if (fake.boxes[i].is_running) {
                fake_end(&fake.boxes[i], SB_END_OK, 0, NULL);
                is_more = true;
            }
        }
    }
    for (uint32_t c = first; c <= next_call; c++) {
        if (answer(c) == NULL) {
            fail_msg("call %u was never answered (seed %u)", c, seed);
        }
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_run_and_result),
        T(test_one_create_under_concurrency_and_fifo),
        T(test_tenants_and_keys_never_mix),
        T(test_cap_evicts_lru_idle_and_waits),
        T(test_cap_delete_not_confirmed_in_time),
        T(test_cap_all_busy_is_refused),
        T(test_ttl_from_last_access_never_under_a_run),
        T(test_request_scope_ends_with_close),
        T(test_close_while_creating_and_while_running),
        T(test_repeated_operation_is_not_run_again),
        T(test_dead_before_a_run_is_replaced_and_told),
        T(test_lost_during_a_run_is_never_run_again),
        T(test_create_failure_answers_everybody),
        T(test_cancel),
        T(test_unknown_tool_and_empty_session),
        T(test_random_stories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
