#include "provider_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define WATCHDOG_MS 60000

/* ---- harness ------------------------------------------------------------------------------ */

static void on_watchdog(uv_timer_t *h)
{
    struct pc_world *w = h->data;

    (void)fprintf(stderr, "provider contract: waited %d s for: %s\n", WATCHDOG_MS / 1000,
                  w->waiting_for);
    abort();
}

int pc_setup(struct pc_world *w, const struct provider_contract *c)
{
    static const struct loop_hooks none;
    char path[] = "/tmp/cfd-contract-XXXXXX";
    int fd = mkstemp(path);
    struct err e;

    memset(w, 0, sizeof(*w));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, c->config, strlen(c->config)), (ssize_t)strlen(c->config));
    (void)close(fd);
    int rc = cfg_load(&w->cfg, path, CFG_FOR_SANDBOXD, NULL, NULL, &e);

    (void)unlink(path);
    if (rc != 0) {
        fail_msg("configuration: %s", e.text);
    }
    assert_int_equal(id_init(), 0);
    assert_int_equal(loop_init(&w->loop, &none, 1000), 0);
    assert_int_equal(uv_timer_init(&w->loop.uv, &w->watchdog), 0);
    w->watchdog.data = w;
    w->ops = c->ops;
    if ((rc = c->ops->start(&w->provider, &w->loop, w->cfg, &e)) != 0) {
        fail_msg("start: %s", e.text);
    }
    return 0;
}

void pc_wait(struct pc_world *w, const bool *flag, const char *what)
{
    w->waiting_for = what;
    (void)uv_timer_start(&w->watchdog, on_watchdog, WATCHDOG_MS, 0);
    while (!*flag) {
        (void)uv_run(&w->loop.uv, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&w->watchdog);
}

static void on_pass(uv_timer_t *h)
{
    *(bool *)h->data = true;
}

static void on_pass_closed(uv_handle_t *h)
{
    *(bool *)h->data = true;
}

void pc_pass(struct pc_world *w, unsigned ms)
{
    uv_timer_t t;
    bool is_done = false;
    bool is_closed = false;

    assert_int_equal(uv_timer_init(&w->loop.uv, &t), 0);
    t.data = &is_done;
    (void)uv_timer_start(&t, on_pass, ms, 0);
    pc_wait(w, &is_done, "time to pass");
    t.data = &is_closed;
    uv_close((uv_handle_t *)&t, on_pass_closed);
    pc_wait(w, &is_closed, "a timer to close");
}

static void on_stopped(void *ctx)
{
    *(bool *)ctx = true;
}

void pc_teardown(struct pc_world *w)
{
    bool is_stopped = false;

    w->ops->stop(w->provider, on_stopped, &is_stopped);
    pc_wait(w, &is_stopped, "the provider to stop");
    uv_close((uv_handle_t *)&w->watchdog, NULL);
    loop_stop(&w->loop);
    loop_run(&w->loop);
    loop_fini(&w->loop);
    cfg_unref(w->cfg);
}

struct created {
    bool is_done;
    int rc;
    struct sb_box *box;
    struct err e;
};

static void on_created(void *ctx, int rc, struct sb_box *box, const struct err *e)
{
    struct created *c = ctx;

    assert_false(c->is_done);
    c->is_done = true;
    c->rc = rc;
    c->box = box;
    c->e = *e;
}

static struct sb_create_opts create_opts(const struct pc_world *w)
{
    return (struct sb_create_opts){.cfg = w->cfg,
                                   .tool = cfg_find_tool(w->cfg, (struct str_view){NULL, 0}),
                                   .owner_tag = "contract"};
}

struct sb_box *pc_create(struct pc_world *w)
{
    struct created c = {0};
    struct sb_create_opts o = create_opts(w);

    w->ops->create(w->provider, &o, on_created, &c);
    assert_false(c.is_done); /* never from inside the call */
    pc_wait(w, &c.is_done, "a sandbox to be created");
    if (c.rc != 0) {
        fail_msg("create: %s", c.e.text);
    }
    assert_non_null(c.box);
    return c.box;
}

static void on_destroyed(void *ctx, int rc, const struct err *e)
{
    (void)e;
    assert_int_equal(rc, 0);
    *(bool *)ctx = true;
}

void pc_destroy(struct pc_world *w, struct sb_box *b)
{
    bool is_done = false;

    w->ops->destroy(b, on_destroyed, &is_done);
    assert_false(is_done);
    pc_wait(w, &is_done, "a sandbox to be destroyed");
}

static void on_event(void *ctx, enum sb_event_kind kind, struct str_view data)
{
    struct pc_run *r = ctx;
    static const char marks[] = "OEDXCF";

    assert_false(r->is_ended);
    (void)bytes_put_char(&r->log, marks[kind]);
    (void)bytes_put_char(&r->log, ':');
    (void)bytes_put_sv(&r->log, data);
    (void)bytes_put_char(&r->log, '|');
    if (kind == SB_EVENT_STDOUT) {
        (void)bytes_put_sv(&r->out, data);
    } else if (kind == SB_EVENT_STDERR) {
        (void)bytes_put_sv(&r->err, data);
    } else if (kind == SB_EVENT_DISPLAY) {
        bytes_reset(&r->display);
        (void)bytes_put_sv(&r->display, data);
        r->displays++;
    } else if (kind == SB_EVENT_EXCEPTION) {
        bytes_reset(&r->exception);
        (void)bytes_put_sv(&r->exception, data);
    }
    if (r->on_first != NULL) {
        void (*first)(struct pc_run *) = r->on_first;

        r->on_first = NULL;
        first(r);
    }
}

static void on_end(void *ctx, enum sb_end end, bool is_truncated, const struct err *e)
{
    struct pc_run *r = ctx;

    r->ends++;
    assert_int_equal(r->ends, 1);
    r->is_ended = true;
    r->is_truncated = is_truncated;
    r->end = end;
    r->e = *e;
}

void pc_run_start(struct pc_world *w, struct pc_run *r, struct sb_box *b, const char *code,
                  uint32_t timeout_ms)
{
    struct buf *text = buf_copy(code, strlen(code));
    struct sb_run_hooks hooks = {on_event, on_end, r};
    void (*first)(struct pc_run *) = r->on_first;

    memset(r, 0, sizeof(*r));
    r->w = w;
    r->box = b;
    r->on_first = first;
    bytes_init(&r->out, 1U << 28);
    bytes_init(&r->log, 1U << 28);
    assert_non_null(text);
    w->ops->run(b, text, timeout_ms, &hooks);
    buf_unref(text);
    assert_false(r->is_ended);
}

void pc_run_wait(struct pc_run *r)
{
    pc_wait(r->w, &r->is_ended, "a run to end");
}

void pc_run(struct pc_world *w, struct pc_run *r, struct sb_box *b, const char *code)
{
    r->on_first = NULL;
    pc_run_start(w, r, b, code, 30000);
    pc_run_wait(r);
}

void pc_run_fini(struct pc_run *r)
{
    bytes_fini(&r->out);
    bytes_fini(&r->err);
    bytes_fini(&r->log);
    bytes_fini(&r->display);
    bytes_fini(&r->exception);
}

static const char *text_of(const struct bytes *b)
{
    return b->n > 0 ? b->p : "";
}

/* ---- tests -------------------------------------------------------------------------------- */

static struct pc_world world; /* one provider for all tests of a program: starting one is slow */

static void expect(struct sb_box *b, const char *code, const char *out)
{
    struct pc_run r;

    pc_run(&world, &r, b, code);
    assert_int_equal(r.end, SB_END_OK);
    assert_string_equal(text_of(&r.out), out);
    pc_run_fini(&r);
}

static void test_lifecycle(void **state)
{
    struct sb_box *b = pc_create(&world);
    char id[SB_ID_MAX + 1];

    (void)state;
    assert_true(strlen(world.ops->id(b)) > 0 && strlen(world.ops->id(b)) <= SB_ID_MAX);
    (void)snprintf(id, sizeof(id), "%s", world.ops->id(b));
    assert_true(world.ops->is_alive(b));
    expect(b, "print(6*7)", "42\n");
    assert_string_equal(world.ops->id(b), id);
    pc_destroy(&world, b);
}

static void test_result_and_count(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b, "x = 20\nx + 1");
    assert_int_equal(r.end, SB_END_OK);
    assert_int_equal(r.out.n, 0);
    assert_non_null(strstr(text_of(&r.display), "\"text/plain\":\"21\""));
    assert_non_null(strstr(text_of(&r.display), "\"is_main_result\":true"));
    assert_non_null(strstr(text_of(&r.log), "C:1|"));
    pc_run_fini(&r);
    pc_run(&world, &r, b, "x + 2");
    assert_non_null(strstr(text_of(&r.display), "\"text/plain\":\"22\""));
    assert_non_null(strstr(text_of(&r.log), "C:2|"));
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_order(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b,
           "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')\n'four'");
    const char *one = strstr(text_of(&r.log), "O:one");
    const char *two = strstr(text_of(&r.log), "E:two");
    const char *three = strstr(text_of(&r.log), "three");
    const char *four = strstr(text_of(&r.log), "D:{");

    assert_true(one != NULL && two != NULL && three != NULL && four != NULL);
    assert_true(one < two && two < three && three < four);
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static uint64_t first_ms;

static void note_time(struct pc_run *r)
{
    (void)r;
    first_ms = clock_ms();
}

static void test_streaming(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    r.on_first = note_time;
    pc_run_start(&world, &r, b, "import time\nprint('early')\ntime.sleep(0.6)\nprint('late')",
                 30000);
    pc_run_wait(&r);
    assert_true(clock_ms() - first_ms >= 400); /* the first line did not wait for the end */
    assert_string_equal(text_of(&r.out), "early\nlate\n");
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_utf8(void **state)
{
    struct sb_box *b = pc_create(&world);

    (void)state;
    expect(b, "print('h\xC3\xA9llo \xF0\x9F\x8E\x89 \xE2\x82\xAC')",
           "h\xC3\xA9llo \xF0\x9F\x8E\x89 \xE2\x82\xAC\n");
    pc_destroy(&world, b);
}

static void test_exception(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b, "print('before')\nraise ValueError('no \"good\"')");
    assert_int_equal(r.end, SB_END_OK);
    assert_string_equal(text_of(&r.out), "before\n");
    assert_non_null(strstr(text_of(&r.exception), "\"name\":\"ValueError\""));
    assert_non_null(strstr(text_of(&r.exception), "no \\\"good\\\""));
    assert_non_null(strstr(text_of(&r.exception), "\"traceback\":\""));
    assert_null(strchr(text_of(&r.exception), '\x1b'));
    pc_run_fini(&r);
    pc_run(&world, &r, b, "def f(:\n  pass");
    assert_non_null(strstr(text_of(&r.exception), "\"name\":\"SyntaxError\""));
    pc_run_fini(&r);
    expect(b, "print('alive')", "alive\n");
    pc_destroy(&world, b);
}

static void test_timeout(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r = {.on_first = NULL};
    uint64_t before = clock_ms();

    (void)state;
    expect(b, "kept = 5", "");
    pc_run_start(&world, &r, b, "print('in')\nwhile True: pass", 700);
    pc_run_wait(&r);
    assert_int_equal(r.end, SB_END_TIMEOUT);
    assert_true(r.e.code == ERR_DEADLINE && r.e.text[0] != '\0');
    assert_string_equal(text_of(&r.out), "in\n");
    assert_true(clock_ms() - before < 10000);
    pc_run_fini(&r);
    expect(b, "print(kept)", "5\n");
    pc_destroy(&world, b);
}

static void test_timeout_kill(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r = {.on_first = NULL};

    (void)state;
    pc_run_start(&world, &r, b,
                 "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                 300);
    pc_run_wait(&r);
    assert_int_equal(r.end, SB_END_LOST);
    assert_non_null(strstr(r.e.text, "killed"));
    assert_false(world.ops->is_alive(b));
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void interrupt_it(struct pc_run *r)
{
    r->w->ops->interrupt(r->box);
}

static void test_interrupt(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r = {.on_first = interrupt_it};

    (void)state;
    world.ops->interrupt(b); /* without a run: nothing */
    pc_run_start(&world, &r, b, "import time\nprint('on')\ntime.sleep(60)", 30000);
    pc_run_wait(&r);
    assert_int_equal(r.end, SB_END_INTERRUPTED);
    assert_non_null(strstr(text_of(&r.exception), "KeyboardInterrupt"));
    pc_run_fini(&r);
    r.on_first = NULL;
    pc_run_start(&world, &r, b, "import time\ntime.sleep(60)", 30000);
    world.ops->interrupt(b); /* before the code can have begun */
    pc_run_wait(&r);
    assert_int_equal(r.end, SB_END_INTERRUPTED);
    pc_run_fini(&r);
    expect(b, "print('alive')", "alive\n");
    pc_destroy(&world, b);
}

static void test_output_cap(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;
    char code[160];
    size_t cap = (size_t)world.cfg->local_output_max_bytes;

    (void)state;
    (void)snprintf(code, sizeof(code), "for _ in range(%zu): print('x' * 99)\ndone = 1",
                   cap / 100 + 1000);
    pc_run(&world, &r, b, code);
    assert_int_equal(r.end, SB_END_OK);
    assert_true(r.is_truncated);
    assert_true(r.out.n <= cap && r.out.n > cap / 2);
    pc_run_fini(&r);
    expect(b, "print(done)", "1\n"); /* the run went on to its end */
    pc_destroy(&world, b);
}

static void test_two_at_once(void **state)
{
    struct sb_box *a = pc_create(&world);
    struct sb_box *b = pc_create(&world);
    struct pc_run ra = {.on_first = NULL};
    struct pc_run rb = {.on_first = NULL};
    uint64_t before = clock_ms();

    (void)state;
    assert_string_not_equal(world.ops->id(a), world.ops->id(b));
    expect(a, "who = 'a'", "");
    expect(b, "who = 'b'", "");
    pc_run_start(&world, &ra, a, "import time\ntime.sleep(0.7)\nprint(who)", 30000);
    pc_run_start(&world, &rb, b, "import time\ntime.sleep(0.7)\nprint(who)", 30000);
    pc_run_wait(&ra);
    pc_run_wait(&rb);
    assert_true(clock_ms() - before < 5000);
    assert_string_equal(text_of(&ra.out), "a\n");
    assert_string_equal(text_of(&rb.out), "b\n");
    pc_run_fini(&ra);
    pc_run_fini(&rb);
    pc_destroy(&world, a);
    pc_destroy(&world, b);
}

static void test_big_code(void **state)
{
    struct sb_box *b = pc_create(&world);
    size_t n = 3U << 20;
    char *code = malloc(n + 64);

    (void)state;
    assert_non_null(code);
    memset(code, '#', n);
    (void)strcpy(code + n, "\nprint('end')");
    expect(b, code, "end\n");
    free(code);
    pc_destroy(&world, b);
}

/* Destroy during a run: its only callback from then on is the final one. */
static void test_destroy_during_run(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r = {.on_first = NULL};
    bool is_done = false;

    (void)state;
    pc_run_start(&world, &r, b, "while True: print('x')", 30000);
    while (r.out.n == 0) {
        (void)uv_run(&world.loop.uv, UV_RUN_ONCE);
    }
    size_t before = r.out.n;

    world.ops->destroy(b, on_destroyed, &is_done);
    assert_false(r.is_ended);
    pc_wait(&world, &is_done, "destroy during a run");
    assert_true(r.is_ended);
    assert_int_equal(r.end, SB_END_LOST);
    assert_int_equal(r.out.n, before);
    pc_run_fini(&r);
}

static bool destroyed_inside;

static void destroy_it(struct pc_run *r)
{
    r->w->ops->destroy(r->box, on_destroyed, &destroyed_inside);
}

static void test_destroy_inside_event(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r = {.on_first = destroy_it};

    (void)state;
    destroyed_inside = false;
    pc_run_start(&world, &r, b, "print(1)\nimport time\ntime.sleep(30)", 30000);
    pc_wait(&world, &destroyed_inside, "destroy from inside an event");
    assert_true(r.is_ended);
    assert_int_equal(r.end, SB_END_LOST);
    pc_run_fini(&r);
}

static void test_destroy_at_once(void **state)
{
    struct pc_run r = {.on_first = NULL};
    bool is_done = false;
    struct sb_box *b = pc_create(&world);

    (void)state;
    pc_destroy(&world, b); /* never used */
    b = pc_create(&world);
    pc_run_start(&world, &r, b, "print(1)", 30000);
    world.ops->destroy(b, on_destroyed, &is_done); /* the code is not even there yet */
    pc_wait(&world, &is_done, "destroy right after run");
    assert_true(r.is_ended);
    pc_run_fini(&r);
}

int provider_contract_run(const struct provider_contract *c)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifecycle),
        cmocka_unit_test(test_result_and_count),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_exception),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_kill),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_output_cap),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_big_code),
        cmocka_unit_test(test_destroy_during_run),
        cmocka_unit_test(test_destroy_inside_event),
        cmocka_unit_test(test_destroy_at_once),
    };

    (void)pc_setup(&world, c);
    int failed = cmocka_run_group_tests_name("provider contract", tests, NULL, NULL);

    pc_teardown(&world);
    return failed;
}
