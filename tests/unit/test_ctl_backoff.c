#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ctl_backoff.h"

static void test_steps(void **state)
{
    static const unsigned want[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct ctl_backoff b = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(ctl_backoff_step(&b, 5), want[i]);
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(ctl_backoff_step(&b, CTL_BACKOFF_RESET_MS - 1), CTL_BACKOFF_MAX_MS);
    }
}

static void test_reset_after_a_good_life(void **state)
{
    struct ctl_backoff b = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)ctl_backoff_step(&b, 0);
    }
    assert_int_equal(ctl_backoff_step(&b, CTL_BACKOFF_RESET_MS), 0);
    assert_int_equal(b.failures, 1);
    assert_int_equal(ctl_backoff_step(&b, 0), CTL_BACKOFF_FIRST_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_reset_after_a_good_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
