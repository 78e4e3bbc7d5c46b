/* test_ic_output.c - what model and client are shown of a run. */
#include "ic_output.h"
#include "unit.h"

static const char *shown(const struct ic_output *o, size_t max)
{
    static char text[4096];
    struct bytes b = {0};

    ic_output_model_text(o, max, &b);
    (void)sv_copy(text, sizeof(text), sv_from(b.p, b.n));
    bytes_fini(&b);
    return text;
}

static const char *outputs(const struct ic_output *o)
{
    static char text[4096];
    struct bytes b = {0};

    ic_output_client_json(o, &b);
    (void)sv_copy(text, sizeof(text), sv_from(b.p, b.n));
    bytes_fini(&b);
    return text;
}

static void order_and_labels(void **state)
{
    struct ic_output o = {0};

    (void)state;
    ic_output_reset(&o);
    assert_string_equal(shown(&o, 100), "");
    assert_string_equal(outputs(&o), "[]");
    ic_output_stream(&o, true, SV_LIT("w1\n"));
    ic_output_stream(&o, false, SV_LIT("a"));
    ic_output_stream(&o, false, SV_LIT("b\n"));
    ic_output_display(&o, SV_LIT("{\"text/html\":\"<b>\"}"));
    ic_output_stream(&o, true, SV_LIT("w2\n"));
    ic_output_display(&o, SV_LIT("{\"text/plain\":\"42\",\"is_main_result\":true}"));
    assert_string_equal(shown(&o, 100), "stdout:\nab\nresult:\n<b>\n42\nstderr:\nw1\nw2\n");
    assert_string_equal(outputs(&o), "[{\"type\":\"logs\",\"logs\":\"w1\\n\"},"
                                     "{\"type\":\"logs\",\"logs\":\"ab\\n\"},"
                                     "{\"type\":\"logs\",\"logs\":\"<b>\"},"
                                     "{\"type\":\"logs\",\"logs\":\"w2\\n\"},"
                                     "{\"type\":\"logs\",\"logs\":\"42\"}]");
    ic_output_fini(&o);
}

static void alone_is_not_labelled(void **state)
{
    struct ic_output o = {0};

    (void)state;
    ic_output_reset(&o);
    ic_output_stream(&o, false, SV_LIT("42\n"));
    assert_string_equal(shown(&o, 100), "42\n");
    ic_output_reset(&o);
    ic_output_exception(&o, SV_LIT("{\"name\":\"E\",\"value\":\"v\",\"traceback\":[\"a\",\"b\"]}"));
    assert_string_equal(shown(&o, 100), "[execution error] a\nb");
    ic_output_reset(&o);
    ic_output_exception(&o, SV_LIT("broken"));
    assert_string_equal(shown(&o, 100), "[execution error] ");
    ic_output_fini(&o);
}

static void head_and_tail(void **state)
{
    struct ic_output o = {0};

    (void)state;
    ic_output_reset(&o);
    for (unsigned i = 0; i < 100; i++) {
        ic_output_stream(&o, false, SV_LIT("\xC3\xA9\xC3\xA9"));
    }
    assert_string_equal(shown(&o, 10),
                        "\xC3\xA9\xC3\xA9\n[... 392 bytes cut ...]\n\xC3\xA9\xC3\xA9");
    assert_int_equal(strlen(shown(&o, 400)), 400);
    ic_output_fini(&o);
}

static void escapes(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {{"\x1b[31mred\x1b[0m", "red"},
                {"\x1b]0;title\a-", "-"},
                {"\x1b]8;;u\x1b\\link", "link"},
                {"\x1b[", ""},
                {"\x1b", ""},
                {"a\x1b(Bb", "aBb"},
                {"\x1b]open\nnext", "\nnext"},
                {"plain", "plain"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bytes b = {0};

        ic_output_plain(&b, sv_of(rows[i].in));
        assert_sv_equal(sv_from(b.p, b.n), rows[i].out);
        bytes_fini(&b);
    }
}

static void caps(void **state)
{
    struct ic_output o = {0};
    char *big = calloc(1, 1 << 20);

    (void)state;
    assert_non_null(big);
    memset(big, 'x', 1 << 20);
    ic_output_reset(&o);
    for (unsigned i = 0; i < 30; i++) {
        ic_output_stream(&o, false, sv_from(big, 1 << 20));
    }
    assert_int_equal(o.text.n, IC_OUTPUT_MAX);
    assert_true(o.is_cut);
    assert_int_equal(o.rc, 0);
    ic_output_reset(&o);
    for (unsigned i = 0; i < 30000; i++) { /* many tiny pieces */
        ic_output_stream(&o, i % 2 == 0, SV_LIT("x"));
    }
    assert_int_equal(o.count, 10000);
    assert_true(o.is_cut);
    ic_output_fini(&o);
    free(big);
}

static void results(void **state)
{
    static const char *const odd[] = {"", "[]", "{}", "{\"results\":[1,{},{\"image/png\":5}]}",
                                      "{\"stdout\":7,\"error\":\"x\"}"};
    struct ic_output o = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        ic_output_reset(&o);
        ic_output_result(&o, sv_of(odd[i]));
        ic_output_display(&o, sv_of(odd[i]));
        (void)shown(&o, 100);
        (void)outputs(&o);
    }
    ic_output_reset(&o);
    ic_output_result(
        &o, SV_LIT("{\"stdout\":\"o\",\"results\":[{\"image/jpeg\":\"QUJD\"},{\"application/"
                   "json\":{\"a\":1}}]}"));
    assert_string_equal(
        outputs(&o), "[{\"type\":\"logs\",\"logs\":\"o\"},{\"type\":\"image\",\"url\":\"data:image/"
                     "jpeg;base64,QUJD\"},{\"type\":\"logs\",\"logs\":\"{\\\"a\\\":1}\"}]");
    ic_output_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_labels),
        cmocka_unit_test(alone_is_not_labelled),
        cmocka_unit_test(head_and_tail),
        cmocka_unit_test(escapes),
        cmocka_unit_test(caps),
        cmocka_unit_test(results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
