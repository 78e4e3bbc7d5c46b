/* test_icept_errors.c - what goes wrong, at each point: refusals, cuts, sandboxes, cancel, memory.
 */
#include "icept_scenario.h"

static void first_call_refused(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        sc_begin(&s, NULL);
        fake_job_answer(s.f, 429, strdup("{\"error\":{\"message\":\"slow down\"}}"));
        s.f->answers[0].headers =
            "content-type: application/json\r\nretry-after: 7\r\nset-cookie: a=b\r\n";
        sc_run(&s);
        assert_int_equal(s.f->status, 429);
        assert_string_equal(s.f->out.p, "{\"error\":{\"message\":\"slow down\"}}");
        assert_non_null(strstr(s.f->headers.p, "retry-after: 7"));
        assert_null(strstr(s.f->headers.p, "cookie"));
        assert_null(strstr(s.f->headers.p, "x-should-retry"));
        assert_int_equal(s.f->outcome, MSG_OUTCOME_ERROR);
        sc_end(&s);
    }
}

/* What a streaming client of each surface gets after an error in the middle. */
static void check_stream_error(struct scenario *s, const char *message)
{
    struct str_view out = sv_from(s->f->out.p, s->f->out.n);
    uint32_t last;

    assert_true(s->f->is_finished);
    assert_int_equal(s->f->status, 200);
    if (s->is_chat) {
        s->got = fc_chat_stream(out);
        assert_non_null(
            strstr(json_string_value(json_object_get(json_object_get(s->got, "error"), "message")),
                   message));
    } else {
        s->got = fc_responses_stream(out, &s->type, &s->events, &last);
        assert_string_equal(s->type, "response.failed");
        assert_non_null(
            strstr(json_string_value(json_object_get(json_object_get(s->got, "error"), "message")),
                   message));
    }
    assert_null(memmem(out.p, out.n, "\"name\":\"" TOOL, 8 + sizeof(TOOL) - 1));
}

static void second_call_refused(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        fake_job_answer(s.f, 500,
                        strdup("{\"error\":{\"message\":\"boom\",\"type\":\"t\",\"code\":\"c\"}}"));
        sc_run(&s);
        if (s.is_stream) {
            check_stream_error(&s, "boom");
        } else {
            assert_int_equal(s.f->status, 500);
            assert_non_null(strstr(s.f->out.p, "boom"));
            assert_non_null(strstr(s.f->headers.p, "x-should-retry: false"));
        }
        assert_int_equal(s.f->close_count, 1);
        assert_int_equal(s.f->outcome, MSG_OUTCOME_ERROR);
        sc_end(&s);
    }
}

static void connection_lost(void **state)
{
    struct scenario s;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");

            sc_begin(&s, NULL);
            if (round == 1) {
                sc_answer(&s, &a);
            }
            fake_job_answer(s.f, 0, NULL);
            s.f->answers[round].rc = ERR_UPSTREAM_CONNECT;
            sc_run(&s);
            if (s.is_stream && round == 1) {
                check_stream_error(&s, "cannot reach");
            } else {
                assert_int_equal(s.f->error.code, ERR_UPSTREAM_CONNECT);
                assert_int_equal(s.f->status, 502);
            }
            sc_end(&s);
        }
    }
}

static void cut_and_broken_answers(void **state)
{
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "{}",
                                         "data: {\"x\":\n\n",
                                         "data: 7\n\n",
                                         "data: {\"choices\":[]}\n\n",
                                         "event: x\ndata: {}\n\n"};
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        FOR_EACH_WAY(s)
        {
            sc_begin(&s, NULL);
            fake_job_answer(s.f, 200, strdup(bodies[i]));
            sc_run(&s);
            if (!s.f->is_head) {
                assert_true(s.f->status >= 500);
            } else {
                check_stream_error(&s, "");
            }
            sc_end(&s);
        }
    }
    for (size_t cut = 10; cut < 3000; cut += 97) { /* a stream that stops anywhere */
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");
            char *text;

            if (!s.is_stream) {
                continue;
            }
            sc_begin(&s, NULL);
            text = fm_write(s.is_chat, true, 1, &a);
            if (cut < strlen(text)) {
                text[cut] = '\0';
            }
            fake_job_answer(s.f, 200, text);
            s.f->answers[0].rc = cut % 2 == 0 ? ERR_UPSTREAM_CUT : 0;
            s.f->answers[0].headers = "content-type: text/event-stream\r\n";
            sc_answer(&s, &hello);
            sc_run(&s);
            assert_true(s.f->is_finished || s.f->error.code != 0);
            sc_end(&s);
        }
    }
}

static void upstream_error_event(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        if (!s.is_stream) {
            continue;
        }
        sc_begin(&s, NULL);
        fake_job_answer(
            s.f, 200,
            strdup(
                s.is_chat
                    ? "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
                      "\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"quota\",\"code\":\"q\"}}\n\n"
                    : "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n"
                      "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"quota\","
                      "\"code\":\"q\"}}\n\n"));
        sc_run(&s);
        check_stream_error(&s, "quota");
        sc_end(&s);
    }
}

static void sandbox_trouble(void **state)
{
    static const struct {
        int code;
        int http;
    } rows[] = {
        {ERR_SANDBOX_CAPACITY, 429}, {ERR_SANDBOX_UNAVAILABLE, 503}, {ERR_SANDBOX_AUTH, 502}};
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned at_open = 0; at_open < 2; at_open++) {
            FOR_EACH_WAY(s)
            {
                struct fm_answer a = call_answer(code_args("x"), "call_1");

                sc_begin(&s, NULL);
                if (at_open) {
                    s.f->open.code = rows[i].code;
                }
                s.f->runs[s.f->run_count++] = (struct fake_run){
                    .code = rows[i].code, .text = "why it is so", .retry_after_ms = 3000};
                sc_answer(&s, &a);
                sc_answer(&s, &hello);
                sc_run(&s);
                if (s.is_stream) {
                    check_stream_error(&s, at_open && !s.is_chat ? "" : "why it is so");
                } else {
                    assert_int_equal(s.f->status, rows[i].http);
                    assert_int_equal(s.f->error.code, rows[i].code);
                }
                sc_end(&s);
            }
        }
    }
}

static void lost_restarted_and_late(void **state)
{
    static const struct {
        struct fake_run run;
        const char *shown;
    } rows[] = {
        {{.out = "a\n", .code = ERR_SANDBOX_LOST, .text = "out of memory"},
         "a\n[execution interrupted: the sandbox was lost, effects unknown]\nreason: out of "
         "memory"},
        {{.notes = MSG_SBX_NOTE_INTERRUPTED},
         "[execution interrupted: the sandbox was lost, effects unknown]"},
        {{.out = "a\n", .notes = MSG_SBX_NOTE_RESTARTED},
         "[sandbox restarted: earlier state is gone]\na\n"},
        {{.out = "a\n", .notes = MSG_SBX_NOTE_TIMEOUT},
         "[execution error] a\n[stopped: the code ran longer than 60 s]"},
        {{.out = "a\n", .notes = MSG_SBX_NOTE_TRUNCATED},
         "a\n[output cut: it was over the limit of the sandbox]"},
        {{.notes = MSG_SBX_NOTE_REPEATED,
          .payload = "{\"stdout\":\"s\",\"stderr\":\"e\",\"results\":[{\"text/plain\":\"r\","
                     "\"is_main_result\":true}],\"error\":null}"},
         "stdout:\ns\nresult:\nr\nstderr:\ne"},
        {{.payload = "{\"stdout\":\"\",\"stderr\":\"\",\"results\":[],\"error\":{\"name\":\"E\","
                     "\"value\":\"v\",\"traceback\":\"\"}}"},
         "[execution error] E: v"},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");

            sc_begin(&s, NULL);
            s.f->runs[s.f->run_count++] = rows[i].run;
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            sc_finish(&s);
            assert_string_equal(sc_shown(&s, 1, 0), rows[i].shown);
            sc_end(&s);
        }
    }
}

static void cancel_anywhere(void **state)
{
    struct scenario s;

    (void)state;
    for (unsigned turns = 0; turns < 400; turns += 3) {
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");
            bool is_over = false;

            sc_begin(&s, NULL);
            s.f->piece = 200;
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            fake_job_start(s.f);
            for (unsigned i = 0; i < turns && !is_over; i++) {
                is_over = !fake_job_turn(s.f);
            }
            if (!s.f->is_done) {
                int code = turns % 2 == 0 ? ERR_CANCELLED : ERR_DEADLINE;

                fake_job_cancel(s.f, code);
                assert_true(s.f->is_done);
                assert_null(s.f->up);
                assert_null(s.f->sbx);
                assert_int_equal(s.f->close_count, s.f->open_count + s.f->code_count > 0 ? 1 : 0);
                if (code == ERR_DEADLINE && s.f->is_head) {
                    check_stream_error(&s, "time");
                } else if (code == ERR_DEADLINE) {
                    assert_int_equal(s.f->error.code, ERR_DEADLINE);
                }
            }
            sc_end(&s);
        }
    }
}

/* Each allocation fails once: the job still ends, exactly once, and nothing is left. */
static void out_of_memory(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        bool has_fired = true;
        unsigned long before = mem_live();

        for (long n = 0; has_fired; n++) {
            struct fm_answer a = call_answer(code_args("x"), "call_1");

            sc_begin(&s, NULL);
            sc_answer(&s, &a);
            sc_answer(&s, &hello);
            (void)mem_fail_nth(n);
            fake_job_start(s.f);
            fake_job_run(s.f);
            has_fired = mem_fail_nth(-1) != 0;
            assert_true(s.f->is_done);
            fake_job_free(s.f);
            assert_int_equal(mem_live(), before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_call_refused),      cmocka_unit_test(second_call_refused),
        cmocka_unit_test(connection_lost),         cmocka_unit_test(cut_and_broken_answers),
        cmocka_unit_test(upstream_error_event),    cmocka_unit_test(sandbox_trouble),
        cmocka_unit_test(lost_restarted_and_late), cmocka_unit_test(cancel_anywhere),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
