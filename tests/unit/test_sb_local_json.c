/* JSON from foreign code is checked and written anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "sb_local_json.h"

static struct bytes out;

static void accept_display(const char *in, const char *want)
{
    assert_int_equal(sb_local_json_display(sv_of(in), &out), 0);
    assert_string_equal(out.p, want);
}

static void refuse(int (*f)(struct str_view, struct bytes *), const char *in)
{
    assert_int_equal(f(sv_of(in), &out), ERR_INVALID_JSON);
}

static void test_display(void **state)
{
    (void)state;
    accept_display("{ \"text/plain\" : \"a\\u00e9\" , \"is_main_result\":true }",
                   "{\"text/plain\":\"a\xC3\xA9\",\"is_main_result\":true}");
    accept_display("{\"application/json\":{\"a\":[1,2.5,null]}}",
                   "{\"application/json\":{\"a\":[1,2.5,null]}}");
    refuse(sb_local_json_display, "");
    refuse(sb_local_json_display, "[]");
    refuse(sb_local_json_display, "{\"a\":1} x");
    refuse(sb_local_json_display, "{\"a\":NaN}");
    refuse(sb_local_json_display, "{\"is_main_result\":\"yes\"}");
    refuse(sb_local_json_display, "{\"text/plain\":\"\\ud800\"}");
}

static void test_deep(void **state)
{
    enum { DEPTH = 100000 };
    char *deep = malloc(2 * DEPTH + 16);

    (void)state;
    assert_non_null(deep);
    memset(deep, '[', DEPTH);
    deep[DEPTH] = '\0';
    refuse(sb_local_json_display, deep);
    memcpy(deep, "{\"a\":", 5);
    refuse(sb_local_json_display, deep);
    free(deep);
}

static void test_exception(void **state)
{
    (void)state;
    assert_int_equal(sb_local_json_exception(
                         SV_LIT("{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}"), &out),
                     0);
    assert_string_equal(out.p, "{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    refuse(sb_local_json_exception, "{\"name\":\"E\",\"value\":\"v\"}");
    refuse(sb_local_json_exception, "{\"name\":\"E\",\"value\":1,\"traceback\":\"t\"}");
    refuse(sb_local_json_exception, "{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\",\"x\":1}");
}

static int teardown(void **state)
{
    (void)state;
    bytes_fini(&out);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_display),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_exception),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
