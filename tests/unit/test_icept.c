/* test_icept.c - the acceptance behaviours of the intercepted loop, each on both surfaces, streamed
 * and not. */
#include "icept_scenario.h"

static void one_round(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("print(6*7)\n6*7"), "call_1");

        sc_begin(&s, NULL);
        s.f->runs[s.f->run_count++] = (struct fake_run){
            .out = "42\n", .display = "{\"text/plain\":\"42\",\"is_main_result\":true}"};
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(runs), 1);
        assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 0), "code")),
                            "print(6*7)\n6*7");
        assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 0), "status")),
                            "completed");
        assert_string_equal(sc_text(&s), "The answer is 42.");
        assert_string_equal(sc_shown(&s, 1, 0), "stdout:\n42\nresult:\n42");
        assert_int_equal(sc_usage(&s, true), 25);
        assert_int_equal(sc_usage(&s, false), 17);
        assert_string_equal(s.f->last_path, s.is_chat ? "/chat/completions?x=1" : "/responses");
        assert_int_equal(s.f->request_count, 2);
        assert_int_equal(s.f->close_count, 1);
        assert_int_equal(s.f->scope, MSG_SCOPE_REQUEST);
        assert_string_equal(sc_status(&s), s.is_chat ? "stop" : "completed");
        json_decref(runs);
        sc_end(&s);
    }
}

static void no_call_at_all(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        sc_begin(&s, NULL);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_string_equal(sc_text(&s), "The answer is 42.");
        assert_int_equal(s.f->open_count + s.f->code_count + s.f->close_count, 0);
        sc_end(&s);
    }
}

static void many_rounds(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        sc_begin(&s, NULL);
        for (unsigned i = 0; i < 4; i++) {
            char code[16];
            char id[16];

            snprintf(code, sizeof(code), "x=%u", i);
            snprintf(id, sizeof(id), "call_%u", i);
            struct fm_answer a = call_answer(code_args(code), id);

            a.items[2] = (struct fm_item){FM_TEXT, i == 0 ? "thinking" : "more", NULL, NULL};
            sc_answer(&s, &a);
        }
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(runs), 4);
        for (unsigned i = 0; i < 4; i++) {
            char code[16];

            snprintf(code, sizeof(code), "x=%u", i);
            assert_string_equal(json_string_value(json_object_get(json_array_get(runs, i), "code")),
                                code);
            assert_memory_not_equal(s.f->op_ids[i].b, s.f->op_ids[(i + 1) % 4].b, 16);
        }
        assert_string_equal(sc_text(&s), "thinking\n\nmore\n\nmore\n\nmore\n\nThe answer is 42.");
        assert_int_equal(sc_usage(&s, true), 85);
        json_decref(runs);
        sc_end(&s);
    }
}

static void two_calls_in_one_round(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("a"), "call_1");

        a.items[2] = (struct fm_item){FM_CALL, code_args("b"), TOOL, "call_2"};
        sc_begin(&s, NULL);
        s.f->runs[s.f->run_count++] = (struct fake_run){.out = "1"};
        s.f->runs[s.f->run_count++] = (struct fake_run){.out = "2"};
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_int_equal(s.f->code_count, 2);
        assert_string_equal(s.f->codes[0].p, "a");
        assert_string_equal(sc_shown(&s, 1, 0), "1");
        assert_string_equal(sc_shown(&s, 1, 1), "2");
        sc_end(&s);
    }
}

static void mixed_turn(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = {.items = {{FM_CALL, "{\"city\":\"Bern\"}", "weather", "call_w"},
                                        {FM_CALL, code_args("a"), TOOL, "call_1"},
                                        {FM_CALL, "{}", "weather", "call_v"}},
                              .in = 1,
                              .out = 1};

        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_finish(&s);
        json_t *calls = sc_client_calls(&s);
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(calls), 2);
        assert_int_equal(json_array_size(runs), 1);
        assert_int_equal(s.f->code_count, 1);
        assert_int_equal(s.f->request_count, 1);
        assert_string_equal(sc_status(&s), s.is_chat ? "tool_calls" : "completed");
        json_decref(calls);
        json_decref(runs);
        sc_end(&s);
    }
}

static void client_call_only(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = {.items = {{FM_CALL, "{\"city\":\"Bern\"}", "weather", "call_w"}}};

        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_finish(&s);
        json_t *calls = sc_client_calls(&s);

        assert_int_equal(json_array_size(calls), 1);
        assert_int_equal(s.f->code_count, 0);
        json_decref(calls);
        sc_end(&s);
    }
}

static void code_that_raises(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("1/0"), "call_1");

        sc_begin(&s, ",\"include\":[\"code_interpreter_call.outputs\"]");
        s.f->runs[s.f->run_count++] = (struct fake_run){
            .out = "before\n",
            .exception = "{\"name\":\"ZeroDivisionError\",\"value\":\"division by zero\","
                         "\"traceback\":\"\\u001b[31mTraceback\\u001b[0m\\nZeroDivisionError: "
                         "division by zero\"}"};
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_string_equal(sc_shown(&s, 1, 0),
                            "[execution error] stdout:\nbefore\ntraceback:\nTraceback\n"
                            "ZeroDivisionError: division by zero");
        json_t *runs = sc_runs(&s);
        json_t *outs = json_object_get(json_array_get(runs, 0), "outputs");

        assert_int_equal(json_array_size(outs), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(outs, 1), "logs")),
                            "Traceback\nZeroDivisionError: division by zero");
        assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 0), "status")),
                            "completed");
        json_decref(runs);
        sc_end(&s);
    }
}

static void bad_arguments(void **state)
{
    static const char *const bad[] = {
        "not json", "[]", "\"x\"", "{\"code\":null}", "{}", "{\"code\":7}", "{\"code\":\"x\"", ""};
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(bad[i], "call_1");

            sc_begin(&s, ",\"include\":[\"code_interpreter_call.outputs\"]");
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            sc_finish(&s);
            assert_string_equal(sc_shown(&s, 1, 0),
                                "[invalid tool arguments: could not parse code]");
            assert_int_equal(s.f->code_count, 0);
            json_t *runs = sc_runs(&s);

            assert_int_equal(json_array_size(runs), 1);
            json_decref(runs);
            sc_end(&s);
        }
    }
}

static const char *choice_text(struct scenario *s, unsigned n)
{
    static char text[256];
    json_t *req = sc_request(s, n);
    char *dump = json_dumps(json_object_get(req, "tool_choice"), JSON_ENCODE_ANY | JSON_COMPACT);

    (void)sv_copy(text, sizeof(text), sv_of(dump));
    free(dump);
    json_decref(req);
    return text;
}

static void forced_choice(void **state)
{
    static const char *const forms[] = {
        ",\"tool_choice\":{\"type\":\"code_interpreter\"}",
        ",\"tool_choice\":{\"type\":\"function\",\"name\":\"code_interpreter\"}",
        ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"code_interpreter\"}}",
        ",\"tool_choice\":{\"type\":\"function\",\"name\":\"" TOOL "\"}",
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");

            sc_begin(&s, forms[i]);
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            sc_finish(&s);
            assert_string_equal(choice_text(&s, 0),
                                s.is_chat ? "{\"type\":\"function\",\"function\":{\"name\":\"" TOOL
                                            "\"}}"
                                          : "{\"type\":\"function\",\"name\":\"" TOOL "\"}");
            assert_string_equal(choice_text(&s, 1), "\"auto\"");
            sc_end(&s);
        }
    }
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(&s, ",\"tool_choice\":\"required\"");
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_string_equal(choice_text(&s, 0), "\"required\"");
        assert_string_equal(choice_text(&s, 1), "\"auto\"");
        if (!s.is_chat) {
            assert_string_equal(json_string_value(json_object_get(s.got, "tool_choice")),
                                "required");
        }
        sc_end(&s);
    }
}

static void never_ending_model(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        sc_begin(&s, NULL);
        s.f->cfg.ci_rounds_max = 3;
        for (unsigned i = 0; i < 4; i++) {
            char code[16];
            char id[16];

            snprintf(code, sizeof(code), "x=%u", i);
            snprintf(id, sizeof(id), "call_%u", i);
            struct fm_answer a = call_answer(code_args(code), id);

            sc_answer(&s,
                      &a); /* the fourth is the closing call, which it answers with a call again */
        }
        sc_finish(&s);
        assert_int_equal(s.f->request_count, 4);
        assert_int_equal(s.f->code_count, 3);
        json_t *req = sc_request(&s, 3);

        assert_int_equal(json_array_size(json_object_get(req, "tools")), 1); /* weather is left */
        assert_non_null(strstr(sc_shown(&s, 3, 2), "answer now"));
        assert_non_null(strstr(sc_text(&s), "limit"));
        assert_string_equal(sc_status(&s), s.is_chat ? "stop" : "completed");
        json_decref(req);
        sc_end(&s);
    }
}

static void same_code_three_times(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(&s, NULL);
        for (unsigned i = 0; i < 3; i++) {
            sc_answer(&s, &a);
        }
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_int_equal(s.f->code_count, 3);
        assert_string_equal(sc_text(&s), "The answer is 42.");
        sc_end(&s);
    }
}

static void max_tool_calls(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("a"), "call_1");

        a.items[2] = (struct fm_item){FM_CALL, code_args("b"), TOOL, "call_2"};
        sc_begin(&s, ",\"max_tool_calls\":1");
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(runs), 1);
        assert_int_equal(s.f->code_count, 1);
        assert_non_null(strstr(sc_shown(&s, 1, 1), "not run"));
        assert_string_equal(sc_text(&s), "The answer is 42.");
        json_decref(runs);
        sc_end(&s);
    }
    FOR_EACH_WAY(s)
    {
        sc_begin(&s, ",\"max_tool_calls\":0");
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_null(strstr(s.f->requests[0].p, TOOL));
        sc_end(&s);
    }
}

static void token_budget(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        const char *name = s.is_chat ? "max_completion_tokens" : "max_output_tokens";
        struct fm_answer a = call_answer(code_args("a"), "call_1");

        sc_begin(&s, s.is_chat ? ",\"max_completion_tokens\":50" : ",\"max_output_tokens\":50");
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *r0 = sc_request(&s, 0);
        json_t *r1 = sc_request(&s, 1);

        assert_int_equal(json_number_value(json_object_get(r0, name)), 50);
        assert_int_equal(json_number_value(json_object_get(r1, name)), 30);
        if (!s.is_chat) {
            assert_int_equal(json_number_value(json_object_get(s.got, name)), 50);
        }
        json_decref(r0);
        json_decref(r1);
        sc_end(&s);
    }
    FOR_EACH_WAY(s)
    { /* nothing left for another call: what there is, marked as cut */
        struct fm_answer a = call_answer(code_args("a"), "call_1");

        sc_begin(&s, s.is_chat ? ",\"max_tokens\":30" : ",\"max_output_tokens\":30");
        sc_answer(&s, &a);
        sc_finish(&s);
        assert_string_equal(sc_status(&s), s.is_chat ? "length" : "incomplete");
        sc_end(&s);
    }
}

static void cut_answer_runs_nothing(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer("{\"code\":\"pri", "call_1");

        a.finish = "length";
        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_finish(&s);
        assert_int_equal(s.f->code_count, 0);
        assert_string_equal(sc_status(&s), s.is_chat ? "length" : "incomplete");
        sc_end(&s);
    }
}

static void images(void **state)
{
    struct scenario s;

    (void)state;
    for (unsigned with = 0; with < 2; with++) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("plot"), "call_1");

            sc_begin(&s, with ? ",\"include\":[\"code_interpreter_call.outputs\",\"reasoning."
                                "encrypted_content\"]"
                              : ",\"include\":[]");
            s.f->runs[s.f->run_count++] = (struct fake_run){
                .err = "warn",
                .display = "{\"image/png\":\"iVBO\\nRw0K\\n\",\"text/plain\":\"<Figure>\"}"};
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            sc_finish(&s);
            json_t *runs = sc_runs(&s);
            json_t *outs = json_object_get(json_array_get(runs, 0), "outputs");

            if (with) {
                assert_int_equal(json_array_size(outs), 2);
                assert_string_equal(
                    json_string_value(json_object_get(json_array_get(outs, 0), "url")),
                    "data:image/png;base64,iVBORw0K");
            } else {
                assert_true(json_is_null(outs));
            }
            assert_null(strstr(s.f->requests[0].p, "code_interpreter_call.outputs"));
            assert_int_equal(strstr(s.f->requests[0].p, "\"include\"") != NULL, with);
            assert_string_equal(sc_shown(&s, 1, 0), "result:\n<Figure>\nstderr:\nwarn");
            json_decref(runs);
            sc_end(&s);
        }
    }
}

static void split_anywhere(void **state)
{
    struct scenario s;

    (void)state;
    for (size_t piece = 1; piece < 40; piece += 6) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a =
                call_answer(code_args("s = \"\xC3\xA9\xF0\x9F\x98\x80\\n\"\nprint(s)"), "call_1");

            sc_begin(&s, NULL);
            s.f->piece = piece;
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            sc_finish(&s);
            assert_string_equal(s.f->codes[0].p, "s = \"\xC3\xA9\xF0\x9F\x98\x80\\n\"\nprint(s)");
            assert_string_equal(sc_text(&s), "The answer is 42.");
            sc_end(&s);
        }
    }
}

static void slow_client(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("print(1)"), "call_1");

        if (!s.is_stream) {
            continue;
        }
        sc_begin(&s, NULL);
        s.f->piece = 50;
        s.f->window = 300;
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_true(s.f->paused_turns > 2);
        sc_end(&s);
    }
}

static void reasoning_is_replayed(void **state)
{
    struct scenario s = {0};
    struct fm_answer a = call_answer(code_args("x"), "call_1");

    (void)state;
    for (unsigned stream = 0; stream < 2; stream++) {
        memset(&s, 0, sizeof(s));
        s.is_stream = stream != 0;
        sc_begin(&s, ",\"store\":false");
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *req = sc_request(&s, 1);
        json_t *in = json_object_get(req, "input");

        assert_int_equal(json_array_size(in), 4);
        assert_string_equal(json_string_value(json_object_get(json_array_get(in, 1), "type")),
                            "reasoning");
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(in, 1), "encrypted_content")), "enc");
        assert_null(json_object_get(json_array_get(in, 1), "status"));
        assert_string_equal(json_string_value(json_object_get(json_array_get(in, 2), "type")),
                            "function_call");
        json_decref(req);
        sc_end(&s);

        /* not stored and not encrypted: a reference to it would be refused */
        memset(&s, 0, sizeof(s));
        s.is_stream = stream != 0;
        struct fm_answer b = a;

        b.items[0].text = NULL;
        sc_begin(&s, ",\"store\":false");
        sc_answer(&s, &b);
        sc_answer(&s, &hello);
        sc_finish(&s);
        req = sc_request(&s, 1);
        in = json_object_get(req, "input");
        assert_int_equal(json_array_size(in), 3);
        assert_null(json_object_get(json_array_get(in, 1), "id"));
        json_decref(req);
        sc_end(&s);
    }
}

static void chat_replays_reasoning(void **state)
{
    struct scenario s = {.is_chat = true};
    struct fm_answer a = call_answer(code_args("x"), "call_1");

    (void)state;
    for (unsigned stream = 0; stream < 2; stream++) {
        memset(&s, 0, sizeof(s));
        s.is_chat = true;
        s.is_stream = stream != 0;
        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *req = sc_request(&s, 1);
        json_t *m = json_array_get(json_object_get(req, "messages"), 1);

        assert_string_equal(json_string_value(json_object_get(m, "reasoning_content")), "enc");
        assert_true(json_is_null(json_object_get(m, "content")));
        assert_null(json_object_get(m, "annotations"));
        assert_int_equal(json_array_size(json_object_get(m, "tool_calls")), 1);
        json_decref(req);
        sc_end(&s);
    }
}

static void echo_of_originals(void **state)
{
    struct scenario s;

    (void)state;
    for (unsigned stream = 0; stream < 2; stream++) {
        memset(&s, 0, sizeof(s));
        s.is_stream = stream != 0;
        sc_begin(&s, ",\"metadata\":{\"session_id\":\"abc\",\"k\":\"v\"},\"temperature\":0."
                     "1234567890123456789,"
                     "\"seed\":123456789012345678901234567890");
        sc_answer(&s, &hello);
        sc_finish(&s);
        json_t *tool = json_array_get(json_object_get(s.got, "tools"), 0);

        assert_string_equal(json_string_value(json_object_get(tool, "type")), "code_interpreter");
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(s.got, "metadata"), "session_id")),
            "abc");
        /* numbers keep their digits on both ways; session_id is ours */
        assert_non_null(strstr(s.f->requests[0].p, "0.1234567890123456789"));
        assert_non_null(strstr(s.f->requests[0].p, "123456789012345678901234567890"));
        assert_non_null(strstr(s.f->requests[0].p, "\"metadata\":{\"k\":\"v\"}"));
        assert_non_null(strstr(s.f->out.p, "123456789012345678901234567890"));
        assert_non_null(strstr(s.f->out.p, "0.30000000000000004"));
        assert_string_equal(json_string_value(json_object_get(s.got, "tool_choice")), "auto");
        sc_end(&s);
    }
}

static void sessions(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(
            &s,
            ",\"metadata\":{\"session_id\":\"s-1\"},\"litellm_metadata\":{\"session_id\":\"s-2\"}");
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        sc_finish(&s);
        assert_int_equal(s.f->scope, MSG_SCOPE_SESSION);
        assert_string_equal(s.f->session, "s-1");
        assert_int_equal(s.f->close_count, 0);
        assert_null(strstr(s.f->requests[0].p, "session_id"));
        assert_null(strstr(s.f->requests[0].p, "metadata"));
        sc_end(&s);
    }
}

static void explicit_container(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"input\":\"x\",\"tools\":[{\"type\":"
                               "\"code_interpreter\",\"container\":\"%s\"}]}";
    char text[256];

    (void)state;
    snprintf(text, sizeof(text), body, "cntr_sbx9");
    struct fake_job *f = fake_job_new(MSG_KIND_RESPONSES, text);

    fake_job_answer(f, 200, fm_write(false, false, 1, &hello));
    fake_job_start(f);
    fake_job_run(f);
    assert_int_equal(f->status, 200);
    assert_int_equal(f->scope, MSG_SCOPE_SANDBOX);
    assert_string_equal(f->session, "sbx9");
    assert_int_equal(f->close_count, 0);
    fake_job_free(f);

    f = fake_job_new(MSG_KIND_RESPONSES, text);
    f->open.code = ERR_SANDBOX_NOT_FOUND;
    fake_job_start(f);
    fake_job_run(f);
    assert_int_equal(f->status, 404);
    assert_string_equal(f->error.text, "Container with id 'cntr_sbx9' not found.");
    assert_int_equal(f->request_count, 0);
    fake_job_free(f);

    snprintf(text, sizeof(text), body, "other_1");
    f = fake_job_new(MSG_KIND_RESPONSES, text);
    fake_job_start(f);
    fake_job_run(f);
    assert_int_equal(f->status, 404);
    assert_int_equal(f->open_count, 0);
    fake_job_free(f);
}

static void name_clash(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = {.items = {{FM_CALL, code_args("x"), TOOL "_2", "call_1"}}};
        struct fm_answer b = {.items = {{FM_CALL, "{}", TOOL, "call_2"}}};
        char *body = NULL;

        sc_begin(&s, NULL);
        buf_unref(s.f->job.body);
        body =
            s.is_chat
                ? strdup("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" TOOL
                         "\"}},{\"type\":\"code_interpreter\"},{\"type\":\"code_interpreter\"}] ")
                : strdup("{\"model\":\"m\",\"input\":\"x\",\"tools\":[{\"type\":\"function\","
                         "\"name\":\"" TOOL "\"},{\"type\":\"code_interpreter\",\"container\":{"
                         "\"type\":\"auto\"}},{\"type\":\"code_interpreter\",\"container\":{"
                         "\"type\":\"auto\"}}] ");
        struct bytes full = {0};

        bytes_printf(&full, "%s%s}", body, s.is_stream ? ",\"stream\":true" : "");
        s.f->job.body = buf_copy(full.p, full.n);
        bytes_fini(&full);
        free(body);
        sc_answer(&s, &a);
        sc_answer(&s, &b);
        sc_run(&s); /* the client's own function has the default name here: no leak check */
        assert_int_equal(s.f->status, 200);
        assert_int_equal(s.f->code_count, 1);
        assert_null(strstr(s.f->out.p, TOOL "_2"));
        assert_non_null(strstr(s.f->out.p, "\"name\":\"" TOOL "\""));
        json_t *req = sc_request(&s, 0);

        assert_int_equal(json_array_size(json_object_get(req, "tools")), 2);
        json_decref(req);
        sc_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_round),
        cmocka_unit_test(no_call_at_all),
        cmocka_unit_test(many_rounds),
        cmocka_unit_test(two_calls_in_one_round),
        cmocka_unit_test(mixed_turn),
        cmocka_unit_test(client_call_only),
        cmocka_unit_test(code_that_raises),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(forced_choice),
        cmocka_unit_test(never_ending_model),
        cmocka_unit_test(same_code_three_times),
        cmocka_unit_test(max_tool_calls),
        cmocka_unit_test(token_budget),
        cmocka_unit_test(cut_answer_runs_nothing),
        cmocka_unit_test(images),
        cmocka_unit_test(split_anywhere),
        cmocka_unit_test(slow_client),
        cmocka_unit_test(reasoning_is_replayed),
        cmocka_unit_test(chat_replays_reasoning),
        cmocka_unit_test(echo_of_originals),
        cmocka_unit_test(sessions),
        cmocka_unit_test(explicit_container),
        cmocka_unit_test(name_clash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
