#include "../support/unit.h"

#include "../support/capture.h"
#include "base/check.h"
#include "base/ring.h"

static void break_require(void *arg)
{
    REQUIRE(arg == NULL);
}

static void break_invariant(void *arg)
{
    ring_note("thing", 42, "OLD", "NEW", "because");
    INVARIANT(arg == NULL);
}

static void test_require_aborts_and_names_the_place(void **state)
{
    char *text;

    (void)state;
    assert_true(capture_abort(break_require, &text, &text));
    assert_non_null(strstr(text, "REQUIRE failed: arg == NULL at "));
    assert_non_null(strstr(text, "test_check.c:"));
    free(text);
    assert_false(capture_abort(break_require, NULL, &text));
    assert_string_equal(text, "");
    free(text);
}

static void test_invariant_dumps_the_ring(void **state)
{
    char *text;

    (void)state;
    assert_true(capture_abort(break_invariant, &text, &text));
    assert_non_null(strstr(text, "INVARIANT failed: "));
    assert_non_null(strstr(text, "thing 42 OLD -> NEW : because\n"));
    free(text);
}

static void test_soft_check_counts_and_logs(void **state)
{
    struct capture c;
    unsigned long before = check_soft_count();
    bool failed;
    bool passed;
    char *text;

    (void)state;
    capture_start(&c);
    failed = SOFT_CHECK(before == before + 1);
    passed = SOFT_CHECK(before < before + 1);
    text = capture_end(&c);
    assert_false(failed);
    assert_true(passed);
    assert_int_equal(check_soft_count(), before + 1);
    assert_non_null(strstr(text, "ERROR - CHECK_FAILED condition=\"before == before + 1\""));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_require_aborts_and_names_the_place),
        cmocka_unit_test(test_invariant_dumps_the_ring),
        cmocka_unit_test(test_soft_check_counts_and_logs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
