#include "../support/unit.h"

#include <stdio.h>

#include "wk_scan.h"

static int scan(struct wk_scan *s, const char *text, struct err *e)
{
    return wk_scan_body(s, sv_of(text), e);
}

/* What goes upstream for `text`, with the model replaced by "M". */
static void upstream(char *dst, size_t cap, const char *text)
{
    struct wk_scan s;
    struct err e = {0};
    struct str_view slices[256];
    int model_after;
    size_t n = 0;

    assert_int_equal(scan(&s, text, &e), 0);
    unsigned count = wk_scan_slices(&s, sv_of(text), slices, COUNT_OF(slices), &model_after);
    assert_true(count <= COUNT_OF(slices));
    for (unsigned i = 0; i < count; i++) {
        n += (size_t)snprintf(dst + n, cap - n, "%.*s%s", (int)slices[i].n, slices[i].p,
                              (int)i == model_after ? "\"M\"" : "");
    }
    dst[n] = '\0';

    struct bytes b = {0};
    long at;
    assert_int_equal(wk_scan_rebuild(&s, sv_of(text), &b, &at), 0);
    char whole[8192];
    size_t split = at < 0 ? b.n : (size_t)at;
    (void)snprintf(whole, sizeof(whole), "%.*s%s%.*s", (int)split, b.p, at < 0 ? "" : "\"M\"",
                   (int)(b.n - split), b.p + split);
    assert_string_equal(whole, dst);
    bytes_fini(&b);
}

static void expect_upstream(const char *text, const char *want)
{
    char have[8192];

    upstream(have, sizeof(have), text);
    assert_string_equal(have, want);
    /* what goes out is valid, and nothing more is found in it */
    struct wk_scan s;
    struct err e = {0};
    assert_int_equal(scan(&s, have, &e), 0);
    assert_int_equal(s.cut_count, 0);
}

static void test_finds_spans(void **state)
{
    static const char text[] =
        " {\"model\" : \"gpt\" ,\"stream\":true,\"tools\":[1],\"input\":{\"a\":[]},"
        "\"metadata\":{\"k\":1},\"n\":-1.5e+3,\"x\":null}\n";
    struct wk_scan s;
    struct err e = {0};

    (void)state;
    assert_int_equal(scan(&s, text, &e), 0);
    assert_sv_equal(sv_from(text + s.value[WK_KEY_MODEL].at, s.value[WK_KEY_MODEL].n), "\"gpt\"");
    assert_int_equal(s.type[WK_KEY_STREAM], WK_JSON_TRUE);
    assert_int_equal(s.type[WK_KEY_TOOLS], WK_JSON_ARRAY);
    assert_sv_equal(sv_from(text + s.value[WK_KEY_INPUT].at, s.value[WK_KEY_INPUT].n),
                    "{\"a\":[]}");
    assert_int_equal(s.type[WK_KEY_MESSAGES], WK_JSON_ABSENT);
    assert_int_equal(s.cut_count, 0);
    assert_false(s.has_code_interpreter);
}

static void test_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":tru}",
        "{\"a\":nul}",
        "{\"a\":True}",
        "{\"a\":NaN}",
        "{\"a\":[1,]}",
        "{\"a\":[}",
        "{\"a\":[1}",
        "{\"a\":{]}",
        "{\"a\":\"}",
        "{\"a\":\"\\\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\x01\"}",
        "{\"a\":1}x",
        "{\"a\":1}{}",
        "\xEF\xBB\xBF{}",
        "{\"a\":\"\xC0\x80\"}",
        "{\"a\":\"\xED\xA0\x80\"}",
        "{\"a\":\"\xF4\x90\x80\x80\"}",
        "{\"a\":\"\xE2\x82\"}",
        "{\"a\":\"\x80\"}",
        "{\"a\":\"\xF8\x88\x80\x80\x80\"}",
        "{\"a\":\"\xE0\x80\xAF\"}",
        "{\"a\xFF\":1}",
        "{\"tools\":[{\"type\" 1}]}",
        "{\"tools\":[{]}]}",
        "{\"tools\":[1 2]}",
        "{\"metadata\":{\"a\":1,}}",
        "{\"metadata\":{1:2}}",
        "[1,2",
        "nul",
        "{\"a\":/**/1}",
        "{\"a\":1}\f",
        "\f{}",
        "{\"a\"\v:1}",
    };
    struct wk_scan s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        if (scan(&s, bad[i], &e) != ERR_INVALID_JSON) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_non_null(strstr(e.text, "could not parse"));
    }
}

static void test_wants_an_object(void **state)
{
    static const char *const others[] = {"[]", "1", "\"a\"", "null", " [1, {}] ", "true"};
    struct wk_scan s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct err e = {0};
        assert_int_equal(scan(&s, others[i], &e), ERR_INVALID_TYPE);
    }
}

static void test_accepts(void **state)
{
    static const char *const good[] = {
        "{}",
        " { } ",
        "{\"a\":0}",
        "{\"a\":-0}",
        "{\"a\":1E-9}",
        "{\"a\":1e999}",
        "{\"\":[[],{},\"\"]}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\xF0\x9F\x98\x80\xC3\xA9\xE2\x82\xAC\x7F\"}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"}",
        "{\"tools\":null}",
        "{\"tools\":{}}",
        "{\"tools\":[]}",
        "{\"tools\":[{},[],1]}",
        "{\"metadata\":[]}",
        "{\"metadata\":{}}",
        "\r\n\t {\"a\" : [ 1 , 2 ] }\r\n",
    };
    struct wk_scan s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct err e = {0};
        if (scan(&s, good[i], &e) != 0) {
            fail_msg("refused: %s: %s", good[i], e.text);
        }
    }
}

static void test_depth(void **state)
{
    char text[2048];
    struct wk_scan s;

    (void)state;
    for (unsigned depth = 250; depth < 260; depth++) {
        struct err e = {0};
        size_t n = 0;
        memcpy(text, "{\"a\":", 5);
        n = 5;
        memset(text + n, '[', depth - 1);
        n += depth - 1;
        memset(text + n, ']', depth - 1);
        n += depth - 1;
        text[n++] = '}';
        int rc = wk_scan_body(&s, sv_from(text, n), &e);
        assert_int_equal(rc, depth <= WK_SCAN_DEPTH_MAX ? 0 : ERR_INVALID_JSON);
    }
}

static void test_code_interpreter(void **state)
{
    static const struct {
        const char *text;
        bool want;
    } rows[] = {
        {"{\"tools\":[{\"type\":\"code_interpreter\"}]}", true},
        {"{\"tools\":[{\"type\":\"function\"},{\"container\":{\"type\":\"auto\"},\"type\":\"code_"
         "interpreter\"}]}",
         true},
        {"{\"tools\":[{\"t\\u0079pe\":\"code\\u005finterpreter\"}]}", true},
        {"{\"\\u0074ools\":[{\"type\":\"code_interpreter\"}]}", true},
        {"{\"tools\":[{\"type\":\"function\",\"x\":{\"type\":\"code_interpreter\"}}]}", false},
        {"{\"tools\":[[{\"type\":\"code_interpreter\"}]]}", false},
        {"{\"tools\":[\"code_interpreter\"]}", false},
        {"{\"tools\":{\"type\":\"code_interpreter\"}}", false},
        {"{\"input\":[{\"type\":\"code_interpreter\"}]}", false},
        {"{\"x\":{\"tools\":[{\"type\":\"code_interpreter\"}]}}", false},
        {"{\"tools\":[{\"type\":\"code_interpreter_\"}]}", false},
        {"{\"tools\":[{\"type\":\"function\",\"type\":\"code_interpreter\"}]}", true},
    };
    struct wk_scan s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        assert_int_equal(scan(&s, rows[i].text, &e), 0);
        if (s.has_code_interpreter != rows[i].want) {
            fail_msg("%s", rows[i].text);
        }
    }
}

static void test_duplicates(void **state)
{
    static const char *const rows[][2] = {
        {"{\"model\":\"a\",\"model\":\"b\"}", "model"},
        {"{\"model\":\"a\",\"\\u006dodel\":\"b\"}", "model"},
        {"{\"tools\":[],\"x\":1,\"tools\":[]}", "tools"},
        {"{\"stream\":true,\"stream\":false}", "stream"},
        {"{\"metadata\":{},\"metadata\":{}}", "metadata"},
    };
    struct wk_scan s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        assert_int_equal(scan(&s, rows[i][0], &e), ERR_INVALID);
        assert_string_equal(e.param, rows[i][1]);
    }
}

static void test_untouched(void **state)
{
    (void)state;
    expect_upstream("{\"input\":\"model\",\"x\":{\"model\":\"deep\",\"callbacks\":1}}",
                    "{\"input\":\"model\",\"x\":{\"model\":\"deep\",\"callbacks\":1}}");
    expect_upstream(" { \"model\" : \"a\\u0062\" , \"n\":1 } ",
                    " { \"model\" : \"M\" , \"n\":1 } ");
    expect_upstream("{\"model\":5}", "{\"model\":5}");
    expect_upstream("{}", "{}");
    expect_upstream("{\"metadata\":{\"user\":\"x\"}}", "{\"metadata\":{\"user\":\"x\"}}");
}

static void test_every_reserved_key(void **state)
{
    static const char *const keys[] = {
        "_agentic_loop",
        "_agentic_loop_x",
        "_code_interpreter_interception",
        "_code_interpreter_interception_state",
        "_websearch_interception_y",
        "_compression_interception",
        "user_api_key_hash",
        "user_api_key_",
        "max_agentic_loops",
        "proxy_server_request",
        "secret_fields",
        "standard_logging_object",
        "mock_response",
        "mock_tool_calls",
        "callbacks",
        "service_callback",
        "logger_fn",
        "litellm_disabled_callbacks",
        "disable_global_guardrails",
        "\\u005fagentic_loop",
        "mock\\u005fresponse",
        "\\u0063allbacks",
        "litellm_metadata",
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        (void)snprintf(text, sizeof(text), "{\"model\":\"a\",\"%s\":{\"model\":[\"}\"]},\"n\":1}",
                       keys[i]);
        expect_upstream(text, "{\"model\":\"M\",\"n\":1}");
        if (strcmp(keys[i], "litellm_metadata") != 0) {
            (void)snprintf(text, sizeof(text), "{\"metadata\":{\"%s\":1,\"k\":2},\"model\":\"a\"}",
                           keys[i]);
            expect_upstream(text, "{\"metadata\":{\"k\":2},\"model\":\"M\"}");
        }
    }
    assert_false(wk_scan_is_reserved(SV_LIT("user_api_key")));
    assert_false(wk_scan_is_reserved(SV_LIT("callback")));
    assert_false(wk_scan_is_reserved(SV_LIT("callbacksx")));
    assert_false(wk_scan_is_reserved(SV_LIT("model")));
    assert_false(wk_scan_is_reserved(SV_LIT("")));
    assert_false(wk_scan_is_reserved(sv_from("\0x", 2)));
}

static void test_cuts(void **state)
{
    (void)state;
    expect_upstream("{\"callbacks\":1}", "{}");
    expect_upstream("{ \"callbacks\":1 }", "{}");
    expect_upstream("{\"callbacks\":1,\"logger_fn\":2}", "{}");
    expect_upstream("{\"a\":1,\"callbacks\":1}", "{\"a\":1}");
    expect_upstream("{\"a\":1 , \"callbacks\":1 , \"logger_fn\":2 }", "{\"a\":1}");
    expect_upstream("{\"callbacks\":1,\"a\":1,\"logger_fn\":2,\"b\":2,\"callbacks\":3}",
                    "{\"a\":1,\"b\":2}");
    expect_upstream("{\"metadata\":{\"session_id\":\"s\"},\"model\":\"a\"}",
                    "{\"metadata\":{},\"model\":\"M\"}");
    expect_upstream("{\"metadata\":{\"a\":\"b\",\"session\\u005fid\":\"s\"}}",
                    "{\"metadata\":{\"a\":\"b\"}}");
    expect_upstream(
        "{\"callbacks\":1,\"metadata\":{\"logger_fn\":1,\"a\":1,\"session_id\":2},\"logger_fn\":3}",
        "{\"metadata\":{\"a\":1}}");
    expect_upstream("{\"session_id\":\"top\"}", "{\"session_id\":\"top\"}");
    expect_upstream("{\"litellm_metadata\":{\"session_id\":\"s\"},\"model\":\"a\"}",
                    "{\"model\":\"M\"}");
}

static void test_too_many_cuts(void **state)
{
    struct bytes b = {0};
    struct wk_scan s;
    struct err e = {0};

    (void)state;
    (void)bytes_put_str(&b, "{\"model\":\"m\"");
    for (unsigned i = 0; i < WK_SCAN_CUTS_MAX; i++) {
        (void)bytes_printf(&b, ",\"callbacks\":1,\"k%u\":1", i);
    }
    size_t n = b.n;
    (void)bytes_put_str(&b, "}");
    assert_int_equal(wk_scan_body(&s, sv_from(b.p, b.n), &e), 0);
    assert_int_equal(s.cut_count, WK_SCAN_CUTS_MAX);
    struct str_view slices[4];
    int after;
    assert_true(wk_scan_slices(&s, sv_from(b.p, b.n), slices, COUNT_OF(slices), &after) >
                COUNT_OF(slices));
    struct bytes whole = {0};
    long at;
    assert_int_equal(wk_scan_rebuild(&s, sv_from(b.p, b.n), &whole, &at), 0);
    assert_int_equal(at, 9);
    assert_null(strstr(whole.p, "callbacks"));
    bytes_fini(&whole);
    b.n = n;
    (void)bytes_put_str(&b, ",\"callbacks\":1}");
    assert_int_equal(wk_scan_body(&s, sv_from(b.p, b.n), &e), ERR_INVALID);
    bytes_fini(&b);
}

static void test_strings(void **state)
{
    static const char *const rows[][2] = {
        {"\"\"", ""},
        {"\"abc\"", "abc"},
        {"\"\\u0041\\n\\\"\\/\\\\\"", "A\n\"/\\"},
        {"\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\"\\ud83dx\\ude00\"", "\xEF\xBF\xBDx\xEF\xBF\xBD"},
        {"\"\\b\\f\\r\\t\"", "\b\f\r\t"},
    };
    char dst[32];
    size_t n;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(wk_scan_string(sv_of(rows[i][0]), dst, sizeof(dst), &n), 0);
        assert_int_equal(n, strlen(rows[i][1]));
        assert_memory_equal(dst, rows[i][1], n);
    }
    assert_int_equal(wk_scan_string(SV_LIT("\"abcd\""), dst, 3, &n), ERR_LIMIT);
    assert_int_equal(wk_scan_string(SV_LIT("\"ab\\u20ac\""), dst, 4, &n), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_spans),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_wants_an_object),
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_code_interpreter),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_every_reserved_key),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_too_many_cuts),
        cmocka_unit_test(test_strings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
