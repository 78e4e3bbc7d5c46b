#include "../support/unit.h"

#include "base/clock.h"

static void test_real_and_fake(void **state)
{
    uint64_t a = clock_us();
    uint64_t b = clock_us();

    (void)state;
    assert_true(b >= a);
    assert_true(clock_ms() >= a / 1000);
    assert_true(clock_unix_ms() > 1700000000000ULL);
    clock_fake(123456);
    assert_int_equal(clock_ms(), 123456);
    assert_int_equal(clock_us(), 123456000);
    assert_int_equal(clock_unix_ms(), 123456);
    clock_fake(123457);
    assert_int_equal(clock_ms(), 123457);
    clock_real();
    assert_true(clock_us() >= b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_and_fake)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
