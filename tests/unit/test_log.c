#include "../support/unit.h"

#include <math.h>
#include <stdio.h>

#include "../support/capture.h"
#include "base/clock.h"
#include "base/log.h"

/* 2026-01-31T12:00:00.123Z */
#define WHEN 1769860800123ULL

static int setup(void **state)
{
    (void)state;
    clock_fake(WHEN);
    log_init("frontend-0");
    log_set_level(LOG_LEVEL_INFO);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_real();
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

static void test_line_format(void **state)
{
    const struct request_id rid = {{0xab, 1}};
    struct err e;
    struct capture c;
    char *text;

    (void)state;
    err_set(&e, ERR_NOMEM, NULL);
    capture_start(&c);
    LOG(REQUEST_DONE, &rid, KV_U("status", 200), KV_I("n", -3), KV_D("s", 0.25),
        KV_S("path", "/v1/x"));
    LOG(FATAL, NULL, KV_ERR(&e));
    text = capture_end(&c);
    assert_string_equal(
        text, "2026-01-31T12:00:00.123Z INFO frontend-0 REQUEST_DONE "
              "rid=req_ab010000000000000000000000000000 status=200 n=-3 s=0.25 path=/v1/x\n"
              "2026-01-31T12:00:00.123Z ERROR frontend-0 FATAL err=NOMEM "
              "detail=\"out of memory\"\n");
    free(text);
}

static void test_hostile_values_cannot_forge(void **state)
{
    struct capture c;
    char *text;

    (void)state;
    capture_start(&c);
    LOG(REQUEST_DONE, NULL, KV_S("a", "x\n2026-01-31T12:00:00.123Z ERROR frontend-0 FATAL"),
        KV_SV("b", SV_LIT("nul\0cr\r\t\"q\" \\ \x1b[31m \xE2\x80\xAE \x7f")), KV_S("c", "k=v"),
        KV_S("d", ""), KV_S("e", NULL), KV_D("f", NAN));
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "a=\"x\\n2026-01-31T12"));
    assert_non_null(
        strstr(text, "b=\"nul\\x00cr\\r\\t\\\"q\\\" \\\\ \\x1b[31m \\xe2\\x80\\xae \\x7f\""));
    assert_non_null(strstr(text, "c=\"k=v\" d=\"\" e=\"\" f="));
    for (const char *p = text; p[1] != '\0'; p++) {
        assert_true(*p >= ' ' && *p < 0x7f);
    }
    free(text);
}

static void test_long_values_and_lines_are_cut(void **state)
{
    static char big[20000];
    struct capture c;
    char *text;

    (void)state;
    memset(big, '\n', sizeof(big) - 1);
    capture_start(&c);
    LOG(REQUEST_DONE, NULL, KV_S("a", big), KV_U("after", 1));
    LOG(REQUEST_DONE, NULL, KV_S("a", big), KV_S("b", big), KV_S("c", big), KV_S("d", big));
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 2);
    assert_non_null(strstr(text, "\\n\"... after=1\n"));
    assert_int_equal(strlen(strchr(text, '\n') + 1), 4096);
    free(text);
}

static void test_levels(void **state)
{
    enum log_level level = LOG_LEVEL_INFO;
    struct capture c;
    char *text;

    (void)state;
    assert_true(log_level_parse(SV_LIT("debug"), &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_true(log_level_parse(SV_LIT("ERROR"), &level));
    assert_int_equal(level, LOG_LEVEL_ERROR);
    assert_false(log_level_parse(SV_LIT("warning"), &level));
    assert_false(log_level_parse(SV_LIT(""), &level));
    assert_int_equal(level, LOG_LEVEL_ERROR);
    capture_start(&c);
    LOG(STATE, NULL, KV_U("x", 1)); /* DEBUG, below the default */
    log_set_level(LOG_LEVEL_ERROR);
    LOG(LINK_DOWN, NULL, KV_U("x", 2));
    LOG(FATAL, NULL, KV_U("x", 3));
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "FATAL x=3"));
    free(text);
}

static void test_rate_limit(void **state)
{
    struct capture c;
    char *text;

    (void)state;
    clock_fake(WHEN + 10000);
    capture_start(&c);
    for (int i = 0; i < 1000; i++) {
        LOG(REQUEST_DONE, NULL, KV_I("i", i));
    }
    LOG(LINK_UP, NULL, KV_U("x", 1)); /* another event is not held back */
    log_tick();                       /* the second is not over: nothing */
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 201);
    assert_null(strstr(text, "LOG_SUPPRESSED"));
    free(text);
    clock_fake(WHEN + 11000);
    capture_start(&c);
    log_tick();
    log_tick();
    LOG(REQUEST_DONE, NULL, KV_U("x", 1));
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 2);
    assert_non_null(strstr(text, "WARN frontend-0 LOG_SUPPRESSED event=REQUEST_DONE lines=800\n"));
    free(text);
}

static void test_sum_comes_before_the_next_line_and_at_exit(void **state)
{
    struct capture c;
    char *text;

    (void)state;
    clock_fake(WHEN + 20000);
    capture_start(&c);
    for (int i = 0; i < 300; i++) {
        LOG(LINK_UP, NULL, KV_I("i", i));
        LOG(LINK_DOWN, NULL, KV_I("i", i));
    }
    clock_fake(WHEN + 21000);
    LOG(REQUEST_DONE, NULL, KV_U("x", 1));
    for (int i = 0; i < 201; i++) {
        LOG(LINK_UP, NULL, KV_I("i", i));
    }
    log_flush();
    text = capture_end(&c);
    assert_int_equal(count_lines(text), 400 + 2 + 1 + 200 + 1);
    assert_non_null(strstr(text, "LOG_SUPPRESSED event=LINK_DOWN lines=100\n"));
    assert_non_null(strstr(text, "LOG_SUPPRESSED event=LINK_UP lines=1\n"));
    free(text);
}

static void test_long_process_name(void **state)
{
    struct capture c;
    char *text;

    (void)state;
    clock_fake(WHEN + 30000);
    log_init("0123456789012345678901234567890123456789");
    capture_start(&c);
    LOG(START, NULL, KV_U("pid", 1));
    text = capture_end(&c);
    assert_non_null(strstr(text, " INFO 0123456789012345678901234567890 START pid=1\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_line_format, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_values_cannot_forge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_values_and_lines_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rate_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sum_comes_before_the_next_line_and_at_exit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_long_process_name, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
