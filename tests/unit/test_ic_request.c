/* test_ic_request.c - what is refused (tests/integration/bad_bodies.json), and what is made of what
 * is not. */
#include <jansson.h>

#include "fake_job.h"
#include "ic_request.h"
#include "unit.h"
#include "wk_scan.h"

static struct cfg cfg;

static void set_cfg(void)
{
    static char name[] = "litellm_code_execution";

    cfg.ci_tool_name = name;
}

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void check_error(const json_t *row, int status, const struct err *e)
{
    const struct err_info *info = err_info(e->code);
    const char *code = str(row, "code");
    const char *param = str(row, "param");

    if (status != json_integer_value(json_object_get(row, "status")) ||
        strcmp(info->type, str(row, "type")) != 0 ||
        strcmp(info->code != NULL ? info->code : "", code != NULL ? code : "") != 0 ||
        strcmp(e->param, param != NULL ? param : "") != 0 ||
        strstr(e->text, str(row, "message_contains")) == NULL) {
        fail_msg("%s: %d %s %s: %s", str(row, "name"), status, err_name(e->code), e->param,
                 e->text);
    }
}

/* Every row that this part of the gateway answers; the others are wk_route's, which the integration
 * test covers. */
static void bad_bodies(void **state)
{
    json_error_t je;
    json_t *rows = json_load_file("tests/integration/bad_bodies.json", 0, &je);
    size_t i;
    size_t checked = 0;
    json_t *row;

    (void)state;
    assert_non_null(rows);
    json_array_foreach(rows, i, row)
    {
        static struct wk_scan scan;
        const char *body = str(row, "body");
        bool is_chat = strcmp(str(row, "path"), "/v1/chat/completions") == 0;
        struct err e = {0};

        if (wk_scan_body(&scan, sv_of(body), &e) != 0) {
            check_error(row, err_info(e.code)->http, &e);
            checked++;
            continue;
        }
        if (!scan.has_code_interpreter ||
            strcmp(str(row, "message_contains"), "no-such-model") == 0) {
            continue;
        }
        struct fake_job *f = fake_job_new(is_chat ? MSG_KIND_CHAT : MSG_KIND_RESPONSES, body);

        f->open.code = ERR_SANDBOX_NOT_FOUND;
        fake_job_start(f);
        fake_job_run(f);
        check_error(row, f->status, &f->error);
        assert_int_equal(f->request_count, 0);
        fake_job_free(f);
        checked++;
    }
    assert_true(checked >= 60);
    json_decref(rows);
}

static struct ic_request parsed(enum ic_surface surface, const char *body)
{
    struct ic_request r;
    struct err e = {0};

    if (ic_request_parse(&r, surface, sv_of(body), (struct str_view){NULL, 0}, &cfg, &e) != 0) {
        fail_msg("%s: %s", body, e.text);
    }
    return r;
}

#define CI "{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\"}}"

/* The items of a Responses input array after the rewrite. */
static void check_items(const char *in, const char *out)
{
    struct bytes body = {0};
    struct ic_request r;

    bytes_printf(&body, "{\"model\":\"m\",\"tools\":[" CI "],\"input\":%s}", in);
    r = parsed(IC_RESPONSES, body.p);
    assert_sv_equal(sv_from(r.items.p, r.items.n), out);
    ic_request_fini(&r);
    bytes_fini(&body);
}

static void replayed_runs(void **state)
{
#define CALL(n, args)                                                                              \
    "{\"type\":\"function_call\",\"call_id\":\"call_ci_" n                                         \
    "\",\"name\":\"litellm_code_execution\",\"arguments\":" args "},"                              \
    "{\"type\":\"function_call_output\",\"call_id\":\"call_ci_" n "\",\"output\":"
    (void)state;
    check_items("\"hi\"", "{\"role\":\"user\",\"content\":\"hi\"}");
    check_items(
        "[{\"id\":\"ci_1\",\"type\":\"code_interpreter_call\",\"status\":\"completed\","
        "\"container_id\":\"cntr_x\",\"code\":\"a\\n\\\"b\\\"\",\"outputs\":[{\"type\":\"logs\","
        "\"logs\":\"1\\n\"},{\"type\":\"logs\",\"logs\":\"2\"},{\"type\":\"image\",\"url\":\"u\"}]}"
        "]",
        CALL("0", "\"{\\\"code\\\":\\\"a\\\\n\\\\\\\"b\\\\\\\"\\\"}\"") "\"1\\n2\\n[image shown to "
                                                                        "the user]\"}");
    check_items("[{\"type\":\"code_interpreter_call\"}]",
                CALL("0", "\"{\\\"code\\\":\\\"\\\"}\"") "\"[output not recorded]\"}");
    check_items("[{\"type\":\"code_interpreter_call\",\"code\":null,\"outputs\":[]}]",
                CALL("0", "\"{\\\"code\\\":\\\"\\\"}\"") "\"\"}");
    check_items("[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"status\":\"completed\"},"
                "{\"type\":\"unknown\",\"n\":1e999}]",
                "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]},{\"type\":\"unknown\","
                "\"n\":1e999}");
    /* references to our own items cannot be resolved; nor the reasoning that belongs to them */
    check_items("[{\"type\":\"item_reference\",\"id\":\"rs_1\"},{\"id\":\"ci_1\"},"
                "{\"type\":\"item_reference\",\"id\":\"rs_2\"},{\"type\":\"item_reference\",\"id\":"
                "\"msg_1\"}]",
                "{\"type\":\"item_reference\",\"id\":\"rs_2\"},{\"type\":\"item_reference\",\"id\":"
                "\"msg_1\"}");
    check_items("[]", "");
}

static void check_choice(const char *choice, const char *first, const char *later,
                         const char *closing)
{
    struct bytes body = {0};
    struct ic_request r;

    bytes_printf(&body,
                 "{\"model\":\"m\",\"input\":\"x\",\"tools\":[" CI
                 ",{\"type\":\"function\",\"name\":"
                 "\"f\"}],\"tool_choice\":%s}",
                 choice);
    r = parsed(IC_RESPONSES, body.p);
    assert_sv_equal(sv_from(r.choice_first.p, r.choice_first.n), first);
    assert_sv_equal(sv_from(r.choice_later.p, r.choice_later.n), later);
    assert_sv_equal(sv_from(r.choice_closing.p, r.choice_closing.n), closing);
    ic_request_fini(&r);
    bytes_fini(&body);
}

static void tool_choices(void **state)
{
#define OURS "{\"type\":\"function\",\"name\":\"litellm_code_execution\"}"
#define F    "{\"type\":\"function\",\"name\":\"f\"}"
    (void)state;
    check_choice("null", "", "", "");
    check_choice("\"auto\"", "\"auto\"", "\"auto\"", "\"auto\"");
    check_choice("\"none\"", "\"none\"", "\"none\"", "\"none\"");
    check_choice("\"required\"", "\"required\"", "\"auto\"", "\"auto\"");
    check_choice("{\"type\":\"code_interpreter\"}", OURS, "\"auto\"", "\"auto\"");
    check_choice(F, F, "\"auto\"", "\"auto\"");
    check_choice("{\"type\":\"web_search\"}", "{\"type\":\"web_search\"}", "\"auto\"", "\"auto\"");
    check_choice("{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
                 "\"code_interpreter\"}," F "]}",
                 "{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[" OURS "," F "]}",
                 "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[" OURS "," F "]}",
                 "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[" F "]}");
    check_choice("{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":"
                 "\"code_interpreter\"}]}",
                 "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[" OURS "]}",
                 "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[" OURS "]}", "\"none\"");
}

static void heads_and_tails(void **state)
{
    struct ic_request r = parsed(
        IC_RESPONSES,
        "{\"model\":\"m\",\"temperature\":1e-400,\"_agentic_loop_depth\":1,\"user_api_key_hash\":"
        "\"x\","
        "\"max_agentic_loops\":5,\"x\":{\"model\":\"y\"},\"store\":true,\"input\":\"q\",\"tools\":"
        "[" CI "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"include\":[\"a\","
        "\"code_interpreter_call.outputs\"],\"stream\":true,\"stream_options\":{\"include_"
        "obfuscation\":"
        "false},\"metadata\":{\"session_id\":\"s\",\"_agentic_loop_x\":\"1\"},\"max_output_"
        "tokens\":100}");
    struct bytes tail = {0};

    (void)state;
    assert_sv_equal(
        sv_from(r.head.p, r.head.n),
        ",\"temperature\":1e-400,\"x\":{\"model\":\"y\"},\"store\":true,\"stream_options\":{"
        "\"include_obfuscation\":false}");
    bytes_put_str(&tail, "]");
    ic_request_tail(&r, true, false, 100, &tail);
    assert_non_null(
        strstr(tail.p, "\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"include\":["
                       "\"a\"],\"max_output_tokens\":100,\"stream\":true}"));
    bytes_reset(&tail);
    bytes_put_str(&tail, "]");
    ic_request_tail(&r, false, true, 40, &tail); /* no tool is left: no choice, no parallel calls */
    assert_sv_equal(sv_from(tail.p, tail.n),
                    "],\"include\":[\"a\"],\"max_output_tokens\":40,\"stream\":true}");
    assert_string_equal(r.session, "s");
    bytes_fini(&tail);
    ic_request_fini(&r);
}

static void chat_details(void **state)
{
    struct ic_request r = parsed(
        IC_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
        "\"assistant\",\"content\":\"a\",\"provider_specific_fields\":{\"x\":1}}],\"tools\":["
        "{\"type\":\"code_interpreter\"}],\"max_tool_calls\":3,\"stream\":true,\"tool_choice\":{"
        "\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{"
        "\"type\":\"code_interpreter\"}]}}}");

    (void)state;
    assert_sv_equal(
        sv_from(r.items.p, r.items.n),
        "{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}");
    assert_sv_equal(sv_from(r.head.p, r.head.n), ",\"stream_options\":{\"include_usage\":true}");
    assert_false(r.is_usage_included);
    assert_true(r.is_outputs_included);
    assert_sv_equal(
        sv_from(r.choice_later.p, r.choice_later.n),
        "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"litellm_code_execution\"}}]}}");
    assert_sv_equal(sv_from(r.choice_closing.p, r.choice_closing.n), "\"none\"");
    ic_request_fini(&r);
}

static void container_settings(void **state)
{
    struct ic_request r = parsed(
        IC_RESPONSES,
        "{\"model\":\"m\",\"input\":\"q\",\"tools\":[{\"type\":\"code_interpreter\","
        "\"container\":{\"type\":\"auto\",\"memory_limit\":\"4g\",\"network_policy\":{\"type\":"
        "\"disabled\"}}}]}");

    (void)state;
    assert_sv_equal(sv_from(r.sbx_params.p, r.sbx_params.n),
                    "{\"memory_limit\":\"4g\",\"network_policy\":{\"type\":\"disabled\"}}");
    ic_request_fini(&r);
}

static void session_header(void **state)
{
    static char name[] = "X-Session";
    struct ic_request r;
    struct err e = {0};
    struct str_view body = SV_LIT("{\"model\":\"m\",\"input\":\"q\",\"tools\":[" CI "]}");

    (void)state;
    assert_int_equal(
        ic_request_parse(&r, IC_RESPONSES, body, SV_LIT("x-session: a b \r\n"), &cfg, &e), 0);
    assert_int_equal(r.session_n, 0); /* not configured: headers make no session */
    ic_request_fini(&r);
    cfg.session_header = name;
    assert_int_equal(ic_request_parse(&r, IC_RESPONSES, body,
                                      SV_LIT("host: h\r\nx-session: a b \r\n"), &cfg, &e),
                     0);
    assert_string_equal(r.session, "a b");
    ic_request_fini(&r);
    cfg.session_header = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_bodies),     cmocka_unit_test(replayed_runs),
        cmocka_unit_test(tool_choices),   cmocka_unit_test(heads_and_tails),
        cmocka_unit_test(chat_details),   cmocka_unit_test(container_settings),
        cmocka_unit_test(session_header),
    };

    set_cfg();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
