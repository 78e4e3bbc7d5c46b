#include "io/closer.h"

#include "io_test.h"

#define MANY 12

struct owner {
    struct closer closer;
    uv_timer_t timers[MANY];
    unsigned done;
};

static void on_done(void *ctx)
{
    struct owner *o = ctx;

    for (int i = 0; i < MANY; i++) { /* data stayed ours until the end */
        assert_ptr_equal(o->timers[i].data, o);
    }
    o->done++;
}

static void owner_open(struct owner *o, struct loop *l)
{
    memset(o, 0, sizeof(*o));
    closer_init(&o->closer, on_done, o);
    for (int i = 0; i < MANY; i++) {
        (void)uv_timer_init(&l->uv, &o->timers[i]);
        o->timers[i].data = o;
        closer_add(&o->closer);
    }
}

static void test_done_after_last(void **state)
{
    struct loop l;
    struct owner a;
    struct owner b;

    (void)state;
    io_loop_start(&l);
    owner_open(&a, &l);
    owner_open(&b, &l);
    /* more than the inline slots at one time, two owners interleaved, finish before and after the
     * closes */
    closer_finish(&a.closer);
    assert_true(closer_is_closing(&a.closer));
    for (int i = 0; i < MANY; i++) {
        closer_close_one(&a.closer, (uv_handle_t *)&a.timers[i]);
        closer_close_one(&b.closer, (uv_handle_t *)&b.timers[i]);
    }
    assert_int_equal(a.done, 0); /* never inside the call while something is open */
    IO_UNTIL(&l, a.done, 1);
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    assert_int_equal(b.done, 0); /* not declared finished yet */
    closer_finish(&b.closer);
    assert_int_equal(b.done, 1);
    io_loop_end(&l);
    assert_int_equal(a.done, 1);
}

static void test_reuse_of_one_handle(void **state)
{
    struct loop l;
    struct owner a;

    (void)state;
    io_loop_start(&l);
    owner_open(&a, &l);
    for (int round = 0; round < 20; round++) {
        closer_close_one(&a.closer, (uv_handle_t *)&a.timers[0]);
        (void)uv_run(&l.uv, UV_RUN_NOWAIT);
        (void)uv_timer_init(&l.uv, &a.timers[0]);
        a.timers[0].data = &a;
        closer_add(&a.closer);
    }
    for (int i = 0; i < MANY; i++) {
        closer_close_one(&a.closer, (uv_handle_t *)&a.timers[i]);
    }
    closer_finish(&a.closer);
    IO_UNTIL(&l, a.done, 1);
    io_loop_end(&l);
}

static void test_nothing_open(void **state)
{
    struct owner a;

    (void)state;
    memset(&a, 0, sizeof(a));
    closer_init(&a.closer, io_count, &a.done);
    closer_finish(&a.closer);
    assert_int_equal(a.done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_after_last),
        cmocka_unit_test(test_reuse_of_one_handle),
        cmocka_unit_test(test_nothing_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
