/* The last word of an event stream, however it is cut. */
#include "../support/unit.h"

#include "wk_ending.h"

/* Index of the byte with which the stream is complete, fed one byte at a time; -1 = never. Fed in
 * pieces of any other size it must come to the same. */
static long end_of(enum msg_stream stream, const char *text)
{
    size_t n = strlen(text);
    long at = -1;

    for (size_t step = 1; step <= n; step++) {
        struct wk_ending e = {0};
        bool is_complete = false;

        for (size_t i = 0; i < n; i += step) {
            bool was = is_complete;

            is_complete =
                wk_ending_feed(&e, stream, sv_from(text + i, step < n - i ? step : n - i));
            assert_true(is_complete || !was);
            if (step == 1 && is_complete && !was) {
                at = (long)i;
            }
        }
        assert_int_equal(is_complete, at >= 0);
    }
    return at;
}

static void test_chat(void **state)
{
    (void)state;
    assert_int_equal(end_of(MSG_STREAM_CHAT, "data: 1\n\ndata: [DONE]\n\n"), 22);
    assert_int_equal(end_of(MSG_STREAM_CHAT, "data:[DONE]\r\n\r\nmore"), 14);
    assert_int_equal(end_of(MSG_STREAM_CHAT, "data: [DONE]\n"), -1); /* half an event */
    assert_int_equal(end_of(MSG_STREAM_CHAT, "data: \"data: [DONE]\"\n\n"), -1);
    assert_int_equal(end_of(MSG_STREAM_CHAT, ": data: [DONE]\n\n"), -1);
    assert_int_equal(end_of(MSG_STREAM_CHAT, "event: response.completed\ndata: {}\n\n"), -1);
    assert_int_equal(end_of(MSG_STREAM_CHAT, "data: 1\n\n\n\n"), -1);
    assert_int_equal(end_of(MSG_STREAM_CHAT, ""), -1);
}

static void test_responses(void **state)
{
    static const char *const last[] = {
        "event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n",
        "event:response.failed\ndata: {}\n\n",
        "event: response.incomplete\r\ndata: {}\r\n\r\n",
        "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
        "event: error\ndata: {}\n\n",
        "data: [DONE]\n\n",
    };
    static const char *const other[] = {
        "event: response.created\ndata: {\"type\":\"response.created\"}\n\n",
        "event: response.output_text.delta\ndata: {\"delta\":\"event: response.completed\"}\n\n",
        "data: {\"a\":\"response.completed\"}\n\n",
        "event: errors\ndata: {}\n\n",
        "event: response.completed\ndata: {\"half",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
        assert_int_equal(end_of(MSG_STREAM_RESPONSES, last[i]), (long)strlen(last[i]) - 1);
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        assert_int_equal(end_of(MSG_STREAM_RESPONSES, other[i]), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_responses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
