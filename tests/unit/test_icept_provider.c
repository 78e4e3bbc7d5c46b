/* test_icept_provider.c - how a provider ends an answer, refuses in its own way, and what of it a
 * client may see. */
#include <stdlib.h>

#include "base/secret.h"
#include "icept_scenario.h"

#define SECRET "sk-upstream-0123456789"

static void own_key(struct scenario *s)
{
    s->f->deployment.api_key = secret_new(SV_LIT(SECRET));
    s->f->cfg.deployments = &s->f->deployment;
    s->f->cfg.deployment_count = 1;
}

static void end_with_key(struct scenario *s)
{
    secret_free(s->f->deployment.api_key);
    sc_end(s);
}

/* Everything the client got of an error, wherever it is. */
static const char *told(const struct scenario *s)
{
    return s->f->error.code != 0 ? s->f->error.text : s->f->out.p;
}

static void connection_stays_open(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = call_answer(code_args("x"), "call_1");

        if (!s.is_stream) {
            continue;
        }
        sc_begin(&s, NULL);
        sc_answer(&s, &a);
        sc_answer(&s, &hello);
        s.f->answers[0].is_hanging = s.f->answers[1].is_hanging = true;
        sc_finish(&s);
        assert_int_equal(s.f->code_count, 1);
        assert_string_equal(sc_text(&s), "The answer is 42.");
        sc_end(&s);
    }
}

static void nothing_counts_after_the_end(void **state)
{
    static const char *const late[] = {
        "data: {oops\n\n",
        "data: {\"error\":{\"message\":\"late\"}}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"late\"}}]}\n\n",
        "data: {\"type\":\"error\",\"message\":\"late\"}\n\n",
        "data: [DONE]\n\n",
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        for (size_t piece = 0; piece < 60; piece += 40) {
            FOR_EACH_WAY(s)
            {
                struct bytes text = {0};
                char *first;

                if (!s.is_stream) {
                    continue;
                }
                sc_begin(&s, NULL);
                s.f->piece = piece;
                first = fm_write(s.is_chat, true, 1, &hello);
                bytes_put_str(&text, first);
                bytes_put_str(&text, late[i]);
                fake_job_answer(s.f, 200, strdup(text.p));
                sc_finish(&s);
                assert_string_equal(sc_text(&s), "The answer is 42.");
                free(first);
                bytes_fini(&text);
                sc_end(&s);
            }
        }
    }
}

static void good_status_with_an_error(void **state)
{
    static const struct {
        const char *body;
        const char *message;
        int status;
    } rows[] = {
        {"{\"error\":{\"message\":\"quota exceeded\",\"type\":\"q\",\"code\":\"c\"}}",
         "quota exceeded", 502},
        {"{\"error\":{\"message\":\"quota exceeded\"},\"output\":null,\"choices\":null}",
         "quota exceeded", 502},
        {"{\"error\":{\"message\":\"slow down\",\"code\":429}}", "slow down", 429},
        {"{\"error\":{\"message\":\"odd\",\"code\":200}}", "odd", 502},
        {"{\"error\":\"only text\"}", "only text", 502},
        {"{\"error\":{}}", "the model provider reported an error", 502},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned is_second = 0; is_second < 2; is_second++) {
            FOR_EACH_WAY(s)
            {
                struct fm_answer a = call_answer(code_args("x"), "call_1");

                sc_begin(&s, NULL);
                if (is_second) {
                    sc_answer(&s, &a);
                }
                fake_job_answer(s.f, 200, strdup(rows[i].body));
                sc_run(&s);
                assert_non_null(strstr(told(&s), rows[i].message));
                if (!is_second || !s.is_stream) {
                    assert_int_equal(s.f->status, rows[i].status);
                }
                assert_int_equal(s.f->outcome, MSG_OUTCOME_ERROR);
                sc_end(&s);
            }
        }
    }
}

static void half_an_event_is_a_cut(void **state)
{
    static const char *const tails[] = {"data: {\"ty", "data: {\"ty\n", "event: x\ndata: {\n",
                                        "data: [DO", "data:"};
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tails); i++) {
        FOR_EACH_WAY(s)
        {
            struct bytes text = {0};

            if (!s.is_stream) {
                continue;
            }
            sc_begin(&s, NULL);
            bytes_put_str(&text, s.is_chat
                                     ? "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{"
                                       "\"content\":\"a\"}}]}\n\n"
                                     : "data: {\"type\":\"response.created\",\"response\":{\"id\":"
                                       "\"resp_1\"}}\n\n");
            bytes_put_str(&text, tails[i]);
            fake_job_answer(s.f, 200, strdup(text.p));
            sc_run(&s);
            assert_non_null(strstr(s.f->out.p, "upstream_disconnected"));
            bytes_fini(&text);
            sc_end(&s);
        }
    }
}

static void redirects_end_here(void **state)
{
    static const int statuses[] = {301, 302, 304, 307, 600, 999};
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        FOR_EACH_WAY(s)
        {
            sc_begin(&s, NULL);
            fake_job_answer(s.f, statuses[i], strdup(""));
            s.f->answers[0].headers = "location: http://elsewhere/\r\n";
            sc_run(&s);
            assert_int_equal(s.f->error.code, ERR_UPSTREAM_BAD);
            assert_int_equal(s.f->status, 502);
            assert_false(s.f->is_head);
            sc_end(&s);
        }
    }
}

/* The readers refuse ill-formed UTF-8. */
static void ill_formed_text(void **state)
{
    struct scenario s;

    (void)state;
    FOR_EACH_WAY(s)
    {
        struct fm_answer a = {.items = {{FM_TEXT, "good @@ text", NULL, NULL}}};
        char *text;

        sc_begin(&s, NULL);
        text = fm_write(s.is_chat, s.is_stream, 1, &a);
        for (char *p = text; (p = strchr(p, '@')) != NULL;) {
            *p = '\xFF';
        }
        fake_job_answer(s.f, 200, text);
        sc_finish(&s);
        assert_string_equal(sc_text(&s), "good \xEF\xBF\xBD\xEF\xBF\xBD text");
        sc_end(&s);
    }
}

static void our_key_stays_here(void **state)
{
    static const char refusal[] = "{\"error\":{\"message\":\"bad key " SECRET
                                  "\",\"type\":\"auth\",\"code\":\"" SECRET "\"}}";
    struct scenario s;

    (void)state;
    for (unsigned i = 0; i < 4; i++) { /* status, in a first or a later round */
        FOR_EACH_WAY(s)
        {
            struct fm_answer a = call_answer(code_args("x"), "call_1");

            sc_begin(&s, NULL);
            own_key(&s);
            if (i % 2 == 1) {
                sc_answer(&s, &a);
            }
            fake_job_answer(s.f, i < 2 ? 401 : 200, strdup(refusal));
            s.f->answers[i % 2].headers =
                "content-type: application/json\r\nx-said: Bearer " SECRET "\r\n";
            sc_run(&s);
            assert_null(strstr(told(&s), SECRET));
            assert_non_null(strstr(told(&s), "bad key [redacted]"));
            if (s.f->headers.n > 0) {
                assert_null(strstr(s.f->headers.p, SECRET));
            }
            end_with_key(&s);
        }
    }
}

/* Also in an error event, and where the text is cut. */
static void our_key_in_a_stream(void **state)
{
    struct scenario s;

    (void)state;
    for (size_t before = 0; before < 420; before += 3) {
        FOR_EACH_WAY(s)
        {
            struct bytes text = {0};

            if (!s.is_stream) {
                continue;
            }
            sc_begin(&s, NULL);
            own_key(&s);
            bytes_put_str(&text, "data: {\"error\":{\"message\":\"");
            for (size_t i = 0; i < before; i++) {
                bytes_put_char(&text, '.');
            }
            bytes_put_str(&text, SECRET "\"}}\n\n");
            fake_job_answer(s.f, 200, strdup(text.p));
            sc_run(&s);
            assert_null(strstr(told(&s), "sk-up"));
            bytes_fini(&text);
            end_with_key(&s);
        }
    }
}

static void container_with_a_nul(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"input\":\"hi\",\"tools\":[{\"type\":"
                               "\"code_interpreter\",\"container\":\"cntr_a\\u0000b\"}]}";
    struct fake_job *f = fake_job_new(MSG_KIND_RESPONSES, body);

    (void)state;
    fake_job_start(f);
    assert_int_equal(f->error.code, ERR_INVALID);
    assert_string_equal(f->error.param, "tools[0].container");
    assert_non_null(strstr(f->error.text, "without NUL"));
    fake_job_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_stays_open),     cmocka_unit_test(nothing_counts_after_the_end),
        cmocka_unit_test(good_status_with_an_error), cmocka_unit_test(half_an_event_is_a_cut),
        cmocka_unit_test(redirects_end_here),        cmocka_unit_test(ill_formed_text),
        cmocka_unit_test(our_key_stays_here),        cmocka_unit_test(our_key_in_a_stream),
        cmocka_unit_test(container_with_a_nul),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
