#include "../support/unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"

static void test_codes_and_rows(void **state)
{
    (void)state;
    assert_int_equal(ERR_INTERNAL, -1);
    assert_int_equal(ERR_NOMEM, -2);
    assert_string_equal(err_name(0), "OK");
    assert_string_equal(err_name(ERR_EOF), "EOF");
    assert_string_equal(err_name(ERR_IO), "IO");
    for (int code = -1; code >= -(int)ERR_ORD_COUNT; code--) {
        const struct err_info *info = err_info(code);

        assert_non_null(info->name);
        assert_true(info->http >= 400 && info->http <= 599);
        assert_true(strlen(info->text) > 0 && strlen(info->type) > 0);
    }
    assert_int_equal(err_info(ERR_UNAUTHORIZED)->http, 401);
    assert_int_equal(err_info(ERR_UPSTREAM_CUT)->blame, ERR_BLAME_UPSTREAM);
    assert_true(err_info(ERR_QUEUE_FULL)->is_retryable);
    assert_false(err_info(ERR_INVALID)->is_retryable);
}

static void test_names_are_unique(void **state)
{
    (void)state;
    for (int a = 1; a <= (int)ERR_ORD_COUNT; a++) {
        for (int b = a + 1; b <= (int)ERR_ORD_COUNT; b++) {
            assert_string_not_equal(err_name(-a), err_name(-b));
        }
    }
}

static void test_unknown_codes_are_internal(void **state)
{
    const int codes[] = {1, 7, -(int)ERR_ORD_COUNT - 1, INT32_MIN, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_string_equal(err_info(codes[i])->name, "INTERNAL");
    }
}

static void test_set_overwrites_everything(void **state)
{
    struct err e;

    (void)state;
    memset(&e, 0xA5, sizeof(e));
    assert_int_equal(err_set(&e, ERR_INVALID, "bad %s at %d", "thing", 7), ERR_INVALID);
    assert_string_equal(e.text, "bad thing at 7");
    assert_string_equal(e.param, "");
    assert_int_equal(e.native, 0);
    assert_int_equal(e.retry_after_ms, 0);
    assert_int_equal(err_set_param(&e, ERR_ABOVE_MAX, "tools[0].x", "too large"), ERR_ABOVE_MAX);
    assert_string_equal(e.param, "tools[0].x");
    assert_int_equal(err_set(&e, ERR_NOMEM, NULL), ERR_NOMEM);
    assert_string_equal(e.text, "out of memory");
    assert_string_equal(e.param, "");
    assert_int_equal(err_set(NULL, ERR_NOMEM, "x"), ERR_NOMEM);
    assert_int_equal(err_set_param(NULL, ERR_NOMEM, "p", "x"), ERR_NOMEM);
}

static void test_long_texts_are_cut(void **state)
{
    struct err e;
    char big[2 * ERR_TEXT_MAX];

    (void)state;
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    err_set_param(&e, ERR_INVALID, big, "%s", big);
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
    assert_int_equal(strlen(e.param), ERR_PARAM_MAX - 1);
    assert_int_equal(err_wrap(&e, "%s", big), ERR_INVALID);
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
}

static void test_wrap(void **state)
{
    struct err e;

    (void)state;
    err_set(&e, ERR_CONFIG, "not a number");
    assert_int_equal(err_wrap(&e, "line %d", 4), ERR_CONFIG);
    assert_int_equal(err_wrap(&e, "file.yaml"), ERR_CONFIG);
    assert_string_equal(e.text, "file.yaml: line 4: not a number");
    err_set(&e, ERR_CONFIG, "inner");
    err_wrap(&e, "%s", e.text); /* the argument is the text itself */
    assert_non_null(strstr(e.text, ": inner"));
    assert_int_equal(err_wrap(NULL, "x"), ERR_INTERNAL);
}

static void test_errno(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(err_from_errno(ENOMEM), ERR_NOMEM);
    assert_int_equal(err_from_errno(ENOENT), ERR_NOT_FOUND);
    assert_int_equal(err_from_errno(EAGAIN), ERR_AGAIN);
    assert_int_equal(err_from_errno(EMFILE), ERR_LIMIT);
    assert_int_equal(err_from_errno(EADDRINUSE), ERR_CONFLICT);
    assert_int_equal(err_from_errno(EPIPE), ERR_IO);
    assert_int_equal(err_errno(&e, ENOENT, "open /x"), ERR_NOT_FOUND);
    assert_int_equal(e.native, ENOENT);
    assert_string_equal(e.text, "open /x: No such file or directory");
    assert_int_equal(err_errno(NULL, EPIPE, "x"), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_and_rows),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_unknown_codes_are_internal),
        cmocka_unit_test(test_set_overwrites_everything),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
