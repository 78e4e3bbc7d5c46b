/* test_ic_json.c - spans: strict syntax, exact bytes, edits. */
#include "ic_json.h"
#include "ic_usage.h"
#include "unit.h"

static void syntax(void **state)
{
    static const char *const good[] = {"1",
                                       "-0.5e+3",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       " [1 , 2] ",
                                       "null",
                                       "true",
                                       "false",
                                       "[[]]",
                                       "{\"a\":{}}",
                                       "\"\\u00e9\\ud800\"",
                                       "{\"a\":1,\"a\":2}"};
    static const char *const bad[] = {
        "",     " ",       "01",    "1.",         "-",   "+1",     "1e",      "[",
        "[1,]", "{\"a\"}", "{a:1}", "{\"a\":1,}", "nul", "\"\n\"", "\"\\x\"", "\"\\u12\"",
        "\"",   "1 2",     "]",     "{\"a\":1]",  "[1}", "tru",    "'a'",     "\"\\"};
    struct icj v;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (icj_parse(&v, sv_of(good[i]), NULL) != 0) {
            fail_msg("refused %s", good[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (icj_parse(&v, sv_of(bad[i]), NULL) == 0) {
            fail_msg("accepted %s", bad[i]);
        }
    }
}

static void depth(void **state)
{
    char text[ICJ_DEPTH_MAX * 2 + 3];
    struct icj v;
    struct err e = {0};

    (void)state;
    for (size_t n = ICJ_DEPTH_MAX; n <= ICJ_DEPTH_MAX + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_int_equal(icj_parse(&v, sv_from(text, n * 2), &e) == 0, n == ICJ_DEPTH_MAX);
    }
    assert_int_equal(e.code, ERR_INVALID_JSON);
    assert_non_null(strstr(e.text, "deep"));
}

static struct icj parsed(const char *text)
{
    struct icj v = {ICJ_ABSENT, {NULL, 0}};

    assert_int_equal(icj_parse(&v, sv_of(text), NULL), 0);
    return v;
}

static void members(void **state)
{
    struct icj v = parsed("{ \"a\" : 1 , \"\\u0062\" : [ \"x\", {\"y\":\"}\"} ] ,\"a\":\"2\"}");
    struct icj_iter it = icj_iter(icj_get(v, "b"));
    struct icj item;

    (void)state;
    assert_sv_equal(icj_get(v, "a").raw, "\"2\""); /* the last one */
    assert_true(icj_next(&it, &item));
    assert_true(icj_is(item, "x"));
    assert_true(icj_next(&it, &item));
    assert_sv_equal(icj_get(item, "y").raw, "\"}\"");
    assert_false(icj_next(&it, &item));
    assert_int_equal(icj_get(v, "c").type, ICJ_ABSENT);
    assert_int_equal(icj_get2(v, "a", "z").type, ICJ_ABSENT);
    assert_false(icj_is_set(parsed("null")));
}

static void text(void **state)
{
    struct bytes b = {0};

    (void)state;
    icj_text(parsed("\"a\\n\\u00e9\\ud83d\\ude00\\ud83d\\u0000\""), &b);
    assert_int_equal(b.n, 12);
    assert_memory_equal(b.p, "a\n\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD\0", 12);
    assert_true(icj_is(parsed("\"\\u0063ode\""), "code"));
    assert_false(icj_is(parsed("\"cod\""), "code"));
    assert_false(icj_is(parsed("\"codes\""), "code"));
    assert_false(icj_is(parsed("\"code\\u0000\""), "code"));
    bytes_fini(&b);
}

static void numbers(void **state)
{
    static const struct {
        const char *in;
        bool is_int;
        int64_t n;
    } rows[] = {{"12", true, 12},    {"-3", true, -3},   {"12.0", true, 12},
                {"1e3", true, 1000}, {"1.5", false, 0},  {"\"1\"", false, 0},
                {"1e400", false, 0}, {"true", false, 0}, {"99999999999999999999", false, 0}};
    int64_t n;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(icj_int(parsed(rows[i].in), &n), rows[i].is_int);
        if (rows[i].is_int) {
            assert_int_equal(n, rows[i].n);
        }
    }
    assert_int_equal(icj_uint_or(parsed("-1"), 9), 9);
}

static void edits(void **state)
{
    const struct icj_edit e[] = {{"a", SV_LIT("7"), true},
                                 {"b", {NULL, 0}, false},
                                 {"new", SV_LIT("[]"), true},
                                 {"absent", SV_LIT("1"), false}};
    struct bytes b = {0};

    (void)state;
    icj_copy(&b, parsed("{\"x\" : 1e400, \"a\":1,\"b\":2,\"\\u0061\":3,\"b\":4}"), e, 4);
    assert_sv_equal(sv_from(b.p, b.n), "{\"x\":1e400,\"a\":7,\"new\":[]}");
    bytes_reset(&b);
    icj_copy(&b, (struct icj){ICJ_ABSENT, {NULL, 0}}, e, 1);
    assert_sv_equal(sv_from(b.p, b.n), "{\"a\":7}");
    bytes_fini(&b);
}

static void usage(void **state)
{
    struct bytes sum = {0};

    (void)state;
    ic_usage_add(&sum, parsed("null"));
    assert_int_equal(sum.n, 0);
    ic_usage_add(&sum, parsed("{\"a\":1,\"d\":{\"x\":2},\"s\":\"old\",\"cost\":0.25}"));
    ic_usage_add(
        &sum, parsed("{\"a\":10,\"d\":{\"x\":3,\"y\":null},\"s\":\"new\",\"cost\":0.5,\"n\":4}"));
    assert_sv_equal(sv_from(sum.p, sum.n),
                    "{\"a\":11,\"d\":{\"x\":5,\"y\":null},\"s\":\"new\",\"cost\":0.75,\"n\":4}");
    bytes_fini(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax), cmocka_unit_test(depth),   cmocka_unit_test(members),
        cmocka_unit_test(text),   cmocka_unit_test(numbers), cmocka_unit_test(edits),
        cmocka_unit_test(usage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
