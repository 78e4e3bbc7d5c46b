/* test_icept_odd.c - providers that do things their own way, and what depends on ids and limits. */
#include "icept_scenario.h"

/* One round of `first`, then hello; returns what the model was shown. */
static const char *odd_stream(struct scenario *s, bool is_chat, const char *first)
{
    memset(s, 0, sizeof(*s));
    s->is_chat = is_chat;
    s->is_stream = true;
    sc_begin(s, NULL);
    fake_job_answer(s->f, 200, strdup(first));
    s->f->answers[0].headers = "content-type: text/event-stream\r\n";
    sc_answer(s, &hello);
    sc_finish(s);
    return sc_shown(s, 1, 0);
}

static void odd_responses_streams(void **state)
{
    static const char *const streams[] = {
        /* no item events at all: the terminal event is the only sign */
        "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":"
        "\"completed\",\"output\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"" TOOL
        "\",\"arguments\":\"{\\\"code\\\":\\\"x\\\"}\"}]}}\n\n",
        /* the name comes late, no created event, no deltas, CRLF, several data lines */
        ": hi\r\n\r\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\r\ndata: "
        "\"item\":{\"type\":\"function_call\"}}\r\n\r\ndata: {\"type\":"
        "\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\","
        "\"id\":\"fc\",\"name\":\"" TOOL
        "\",\"arguments\":\"{\\\"code\\\":\\\"x\\\"}\"}}\r\n\r\ndata: {\"type\":"
        "\"response.completed\",\"response\":{\"output\":[]}}\r\n\r\ndata: [DONE]\r\n\r\n",
        /* output_index missing, deltas that the final arguments do not confirm */
        "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\ndata: {\"type\":"
        "\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\","
        "\"name\":\"" TOOL
        "\"}}\n\ndata: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,"
        "\"delta\":\"{\\\"code\\\":\\\"\"}\n\ndata: {\"type\":"
        "\"response.function_call_arguments.done\",\"output_index\":0,\"arguments\":\"{\\\"code\\\""
        ":\\\"x\\\"}\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{"
        "\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"" TOOL
        "\",\"arguments\":\"{\\\"code\\\":\\\"x\\\"}\"}]}}\n\n",
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        assert_string_equal(odd_stream(&s, false, streams[i]), "ok\n");
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(runs), 1);
        assert_string_equal(s.f->codes[0].p, "x");
        json_decref(runs);
        sc_end(&s);
    }
}

static void odd_chat_streams(void **state)
{
#define CHUNK(delta, rest)                                                                         \
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":" delta rest "}]}\n\n"
    static const char *const streams[] = {
        /* everything in one chunk, role in each, arguments as an object, finish stop, no usage */
        CHUNK(
            "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"function\":{"
            "\"name\":\"" TOOL "\",\"arguments\":{\"code\":\"x\"}}}]}",
            ",\"finish_reason\":\"stop\"") "data: [DONE]\n\n",
        /* id, name and role repeated in each fragment; usage on each chunk; no finish_reason */
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
        "\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":"
        "\"" TOOL "\",\"arguments\":\"{\\\"co\"}}]}}],\"usage\":{\"prompt_tokens\":1}}\n\n"
        "data: {\"id\":\"d\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
        "\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"" TOOL
        "\",\"arguments\":\"de\\\":\\\"x\\\"}\"}}]}}],\"usage\":{\"prompt_tokens\":10}}\n\n"
        "data: [DONE]",
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        assert_string_equal(odd_stream(&s, true, streams[i]), "ok\n");
        assert_string_equal(s.f->codes[0].p, "x");
        assert_string_equal(sc_text(&s), "The answer is 42.");
        assert_int_equal(sc_usage(&s, false), i == 0 ? 7 : 17);
        sc_end(&s);
    }
}

static void client_calls_are_numbered_anew(void **state)
{
    struct scenario s;
    static const char first[] =
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
        "\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":"
        "\"" TOOL "\",\"arguments\":\"{\\\"code\\\":\\\"x\\\"}\"}},{\"index\":1,\"id\":\"b\","
        "\"function\":{\"name\":\"weather\",\"arguments\":\"{\"}}]}}]}\n\n"
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,"
        "\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"}\"}"
        "}"
        "]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";

    (void)state;
    memset(&s, 0, sizeof(s));
    s.is_chat = s.is_stream = true;
    sc_begin(&s, NULL);
    fake_job_answer(s.f, 200, strdup(first));
    sc_finish(&s); /* the reader checks index, id, type and name */
    json_t *calls = sc_client_calls(&s);

    assert_int_equal(json_array_size(calls), 1);
    assert_int_equal(s.f->code_count, 1);
    assert_string_equal(sc_status(&s), "tool_calls");
    json_decref(calls);
    sc_end(&s);
}

static void ids_repeated_by_a_provider(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = {.items = {{FM_TEXT, "first", NULL, "msg_same"},
                                        {FM_CALL, code_args("x"), TOOL, "call_same"}}};
        struct fm_answer b = {.items = {{FM_TEXT, "last", NULL, "msg_same"}}};

        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_answer(&s, &b);
        sc_finish(&s); /* the reader refuses an id used twice */
        assert_string_equal(sc_text(&s), "first\n\nlast");
        sc_end(&s);
    }
}

/* A second attempt of a request asks for the same runs under the same names; other requests do not.
 */
static void operation_ids(void **state)
{
    uint8_t seen[3][16];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct scenario s = {0};
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(&s, NULL);
        s.f->job.attempt = (uint8_t)(i == 0 ? 1 : 2);
        s.f->job.rid.b[0] = (uint8_t)(i == 2 ? 99 : 1);
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        memcpy(seen[i], s.f->op_ids[0].b, 16);
        sc_end(&s);
    }
    assert_memory_equal(seen[0], seen[1], 16);
    assert_memory_not_equal(seen[0], seen[2], 16);
}

static void conversations_get_the_outputs_only(void **state)
{
    struct scenario s = {0};
    struct fm_answer a = call_answer(code_args("x"), "call_1");

    (void)state;
    sc_begin(&s, ",\"conversation\":\"conv_1\"");
    sc_answer(&s, &a);
    sc_answer(&s, &a);
    sc_answer(&s, &hello);
    sc_finish(&s);
    for (unsigned n = 1; n < 3; n++) {
        json_t *req = sc_request(&s, n);
        json_t *in = json_object_get(req, "input");

        assert_int_equal(json_array_size(in), 1);
        assert_string_equal(json_string_value(json_object_get(json_array_get(in, 0), "type")),
                            "function_call_output");
        json_decref(req);
    }
    sc_end(&s);
}

static void wall_time_limits_the_run(void **state)
{
    struct scenario s = {0};
    struct fm_answer a = call_answer(code_args("x"), "call_1");

    (void)state;
    sc_begin(&s, NULL);
    s.f->cfg.ci_wall_s = 5;
    sc_answer(&s, &a);
    sc_answer(&s, &hello);
    sc_finish(&s);
    assert_in_range(s.f->timeout_ms, 1, 5000);
    sc_end(&s);
}

static void deployment_sets_the_rounds(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(&s, NULL);
        s.f->deployment.rounds_max = 1;
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_null(strstr(s.f->requests[1].p, "Python code to run")); /* not offered again */
        sc_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_responses_streams),
        cmocka_unit_test(odd_chat_streams),
        cmocka_unit_test(client_calls_are_numbered_anew),
        cmocka_unit_test(ids_repeated_by_a_provider),
        cmocka_unit_test(operation_ids),
        cmocka_unit_test(conversations_get_the_outputs_only),
        cmocka_unit_test(wall_time_limits_the_run),
        cmocka_unit_test(deployment_sets_the_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
