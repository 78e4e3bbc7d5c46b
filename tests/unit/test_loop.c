#include "io/loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/metric.h"
#include "base/str.h"
#include "io_test.h"

struct seen {
    struct loop loop;
    unsigned drains, reloads, ticks;
    bool does_stop_on_drain;
    bool does_block;
};

static void on_drain(void *ctx)
{
    struct seen *s = ctx;

    s->drains++;
    if (s->does_stop_on_drain) {
        loop_stop(&s->loop);
    }
}

static void on_reload(void *ctx)
{
    ((struct seen *)ctx)->reloads++;
}

static void on_tick(void *ctx)
{
    ((struct seen *)ctx)->ticks++;
}

static void seen_start(struct seen *s, unsigned drain_ms)
{
    struct loop_hooks h = {on_drain, on_reload, on_tick, s};

    memset(s, 0, sizeof(*s));
    assert_int_equal(loop_init(&s->loop, &h, drain_ms), 0);
}

static void test_signals(void **state)
{
    struct seen s;

    (void)state;
    seen_start(&s, 1000);
    s.does_stop_on_drain = true;
    (void)raise(SIGPIPE);
    (void)raise(SIGHUP);
    IO_UNTIL(&s.loop, s.reloads, 1);
    (void)raise(SIGTERM);
    loop_run(&s.loop); /* ends by itself */
    assert_int_equal(s.drains, 1);
    assert_false(s.loop.is_forced);
    loop_stop(&s.loop); /* again is harmless */
    loop_fini(&s.loop);
}

static void test_drain_limit(void **state)
{
    struct seen s;

    (void)state;
    seen_start(&s, 30);
    loop_drain(&s.loop);
    loop_drain(&s.loop);
    loop_run(&s.loop);
    assert_int_equal(s.drains, 1);
    assert_true(s.loop.is_forced);
    s.loop.is_forced = false; /* tidy up, for the leak check */
    io_loop_end(&s.loop);
}

static void test_second_signal(void **state)
{
    struct seen s;

    (void)state;
    seen_start(&s, 60000);
    (void)raise(SIGINT);
    IO_UNTIL(&s.loop, s.drains, 1);
    (void)raise(SIGINT);
    loop_run(&s.loop);
    assert_true(s.loop.is_forced);
    s.loop.is_forced = false;
    io_loop_end(&s.loop);
}

/* The limit also watches over an owner who stopped the loop and never closes its handles. */
static void test_limit_after_stop(void **state)
{
    struct seen s;
    uv_timer_t mine;

    (void)state;
    seen_start(&s, 30);
    (void)uv_timer_init(&s.loop.uv, &mine);
    (void)uv_timer_start(&mine, NULL, 0, 0); /* refused: no callback */
    (void)uv_timer_start(&mine, (uv_timer_cb)(void (*)(void))abort, 60000, 0);
    loop_drain(&s.loop);
    loop_stop(&s.loop);
    loop_run(&s.loop);
    assert_true(s.loop.is_forced);
    uv_close((uv_handle_t *)&mine, NULL);
    s.loop.is_forced = false;
    loop_run(&s.loop);
    loop_fini(&s.loop);
}

static void on_block(uv_timer_t *t)
{
    uint64_t until = uv_hrtime() + 60U * 1000000U;

    (void)t;
    while (uv_hrtime() < until) {
    }
}

static void on_block_async(uv_async_t *a)
{
    on_block((uv_timer_t *)a);
}

static void test_tick_and_lag(void **state)
{
    struct seen s;
    struct bytes text = {0};
    uv_async_t slow;

    (void)state;
    seen_start(&s, 1000);
    IO_UNTIL(&s.loop, s.ticks, 1);
    assert_true(s.loop.lag_us < 30000);
    (void)uv_async_init(&s.loop.uv, &slow, on_block_async);
    (void)uv_async_send(&slow);
    IO_UNTIL(&s.loop, s.ticks, 2);
    assert_in_range(s.loop.lag_us, 55000, 500000);
    assert_int_equal(metric_snapshot(&text, "test"), 0);
    assert_non_null(strstr(text.p, "cofferdam_process_resident_bytes"));
    assert_non_null(strstr(text.p, "cofferdam_process_loop_lag_seconds"));
    bytes_fini(&text);
    uv_close((uv_handle_t *)&slow, NULL);
    io_loop_end(&s.loop);
    metric_reset();
}

static void test_errors(void **state)
{
    (void)state;
    assert_int_equal(loop_err(0), 0);
    assert_int_equal(loop_err(UV_EOF), ERR_EOF);
    assert_int_equal(loop_err(UV_ENOMEM), ERR_NOMEM);
    assert_int_equal(loop_err(UV_EAGAIN), ERR_AGAIN);
    assert_int_equal(loop_err(UV_ECANCELED), ERR_CANCELLED);
    assert_int_equal(loop_err(UV_ECONNREFUSED), ERR_IO);
    assert_int_equal(loop_err(1), ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),       cmocka_unit_test(test_drain_limit),
        cmocka_unit_test(test_second_signal), cmocka_unit_test(test_limit_after_stop),
        cmocka_unit_test(test_tick_and_lag),  cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
