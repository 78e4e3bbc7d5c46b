/* test_ic_args.c - code inside JSON arguments, decoded piece by piece. */
#include "ic_args.h"
#include "unit.h"

static const struct {
    const char *in;
    const char *code;
    bool is_valid;
} rows[] = {
    {"{\"code\":\"print(1)\"}", "print(1)", true},
    {" { \"code\" : \"a\\nb\" } ", "a\nb", true},
    {"{\"code\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t", true},
    {"{\"code\":\"\\u00e9\\ud83d\\ude00\"}", "\xC3\xA9\xF0\x9F\x98\x80", true},
    {"{\"code\":\"\\ud83dx\"}", "\xEF\xBF\xBDx", true},
    {"{\"code\":\"\\ude00\"}", "\xEF\xBF\xBD", true},
    {"{\"code\":\"\\ud83d\\ud83d\\ude00\"}", "\xEF\xBF\xBD\xF0\x9F\x98\x80", true},
    {"{\"code\":\"\\ud83d\\n\"}", "\xEF\xBF\xBD\n", true},
    {"{\"code\":\"\\ud83d\"}", "\xEF\xBF\xBD", true},
    {"{\"lang\":\"py\",\"code\":\"x\"}", "x", true},
    {"{\"o\":{\"code\":\"no\",\"a\":[\"}\"]},\"n\":-1.5e3,\"code\":\"x\",\"z\":null}", "x", true},
    {"{\"s\":\"\\\"code\\\":\\\"no\\\"\",\"code\":\"x\"}", "x", true},
    {"{\"code\":\"first\",\"code\":\"second\"}", "first", true},
    {"{\"code\":\"\"}", "", true},
    {"{\"code\":\"x\"", "x", false},
    {"{\"code\":\"x", "x", false},
    {"{\"code\":\"x\"} trailing", "x", false},
    {"{\"code\":7}", "", false},
    {"{\"code\":null}", "", false},
    {"{\"code\":[\"x\"]}", "", false},
    {"{\"codes\":\"x\"}", "", false},
    {"{}", "", false},
    {"[]", "", false},
    {"\"x\"", "", false},
    {"", "", false},
    {"print(1)", "", false},
    {"{\"code\":\"\\x\"}", "", false},
    {"{\"code\":\"\\u12g4\"}", "", false},
    {"{\"code\":\"a\nb\"}", "a", false},
    {"{,\"code\":\"x\"}", "", false},
};

static void every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = strlen(rows[i].in);

        for (size_t cut = 0; cut <= n; cut++) {
            struct ic_args a;
            struct bytes code = {0};

            ic_args_init(&a);
            ic_args_feed(&a, sv_from(rows[i].in, cut), &code);
            size_t early = code.n;

            ic_args_feed(&a, sv_from(rows[i].in + cut, n - cut), &code);
            assert_true(early <= code.n);
            if (ic_args_end(&a, sv_from(rows[i].in, n)) != rows[i].is_valid) {
                fail_msg("row %zu %s", i, rows[i].in);
            }
            assert_sv_equal(sv_from(code.p, code.n), rows[i].code);
            bytes_fini(&code);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_split)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
