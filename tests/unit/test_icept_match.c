/* test_icept_match.c - one call of the model is one run, however a provider numbers and names what
 * it sends. */
#include <stdlib.h>

#include "icept_scenario.h"

#define EVENTS_MAX 12

/* Scripts are written with ' for " and joined to an event stream. */
static char *sse(const char *const *events)
{
    struct bytes b = {0};
    char *text;

    for (unsigned i = 0; i < EVENTS_MAX && events[i] != NULL; i++) {
        bytes_put_str(&b, "data: ");
        bytes_put_str(&b, events[i]);
        bytes_put_str(&b, "\n\n");
    }
    assert_int_equal(b.rc, 0);
    text = strdup(b.p);
    bytes_fini(&b);
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    return text;
}

static void run_stream(struct scenario *s, bool is_chat, const char *const *events)
{
    memset(s, 0, sizeof(*s));
    s->is_chat = is_chat;
    s->is_stream = true;
    sc_begin(s, NULL);
    fake_job_answer(s->f, 200, sse(events));
    sc_answer(s, &hello);
    sc_finish(s);
}

static unsigned count(struct str_view in, const char *what)
{
    unsigned n = 0;

    for (const char *p = in.p;
         (p = memmem(p, in.n - (size_t)(p - in.p), what, strlen(what))) != NULL; p++) {
        n++;
    }
    return n;
}

/* The input items of the second model call as "type:call_id" words. */
static const char *replayed(const struct scenario *s)
{
    static char words[1024];
    json_t *req = sc_request(s, 1);
    size_t i;
    json_t *item;

    words[0] = '\0';
    json_array_foreach(json_object_get(req, "input"), i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));
        const char *id = json_string_value(json_object_get(item, "call_id"));

        if (type != NULL && strcmp(type, "message") != 0) {
            strcat(strcat(strcat(words, words[0] != '\0' ? " " : ""), type), ":");
            strcat(words, id != NULL ? id : "");
        }
    }
    json_decref(req);
    return words;
}

/* --- Responses --- */

#define FC(args)                                                                                   \
    "{'type':'function_call','id':'fc_1','call_id':'call_1','name':'" TOOL "','arguments':'" args  \
    "'}"
#define NAMED(n, args)                                                                             \
    "{'type':'function_call','id':'fc_" n "','call_id':'call_" n "','name':'" TOOL                 \
    "','arguments':'" args "'}"
#define ARGS               "{\\'code\\':\\'x\\'}"
#define ADDED(index, item) "{'type':'response.output_item.added'," index "'item':" item "}"
#define DONE(index, item)  "{'type':'response.output_item.done'," index "'item':" item "}"
#define DELTA(index, text)                                                                         \
    "{'type':'response.function_call_arguments.delta'," index "'item_id':'fc_1','delta':'" text "'}"
#define ARGS_DONE(index, text)                                                                     \
    "{'type':'response.function_call_arguments.done'," index "'item_id':'fc_1','arguments':'" text \
    "'}"
#define CREATED "{'type':'response.created','response':{'id':'resp_1'}}"
#define COMPLETED(output)                                                                          \
    "{'type':'response.completed','response':{'id':'resp_1','status':'completed','output':"        \
    "[" output "]}}"
#define REASONING "{'type':'reasoning','id':'rs_1','summary':[],'encrypted_content':'e'}"
#define AT(n)     "'output_index':" #n ","
#define ONE_CALL(index, final)                                                                     \
    {                                                                                              \
        CREATED, ADDED(index, FC("")), DELTA(index, "{\\'code\\'"), DELTA(index, ":\\'x\\'}"),     \
            ARGS_DONE(index, ARGS), DONE(index, FC(ARGS)), COMPLETED(final)                        \
    }

static void one_call_runs_once(void **state)
{
    static const struct {
        const char *events[EVENTS_MAX];
        const char *replayed;
    } rows[] = {
        {ONE_CALL(AT(0), FC(ARGS)), "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL(AT(1), FC(ARGS)), "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL(AT(0), REASONING "," FC(ARGS)),
         "reasoning: function_call:call_1 function_call_output:call_1"},
        {ONE_CALL("", FC(ARGS)), "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL(AT(-1), FC(ARGS)), "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL(AT(9223372036854775808), FC(ARGS)),
         "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL("'output_index':'0',", FC(ARGS)),
         "function_call:call_1 function_call_output:call_1"},
        {ONE_CALL(AT(0), ""), "function_call:call_1 function_call_output:call_1"},
        /* the final output names the items anew: position and order are all that is left */
        {{CREATED, ADDED(AT(0), REASONING), DONE(AT(0), REASONING), ADDED(AT(1), FC("")),
          DONE(AT(1), FC(ARGS)),
          COMPLETED("{'type':'function_call','id':'fc_9','name':'" TOOL "','arguments':'" ARGS
                    "'}")},
         "reasoning: function_call:call_1 function_call_output:call_1"},
        /* ids made anew for every event */
        {{CREATED, ADDED(AT(0), FC("")), DELTA(AT(0), ARGS), DONE(AT(0), NAMED("7", ARGS)),
          COMPLETED(NAMED("8", ARGS))},
         "function_call:call_1 function_call_output:call_1"},
        {{CREATED, ADDED("", FC("")), DONE("", NAMED("7", ARGS)),
          COMPLETED(REASONING "," NAMED("8", ARGS))},
         "reasoning: function_call:call_1 function_call_output:call_1"},
        {{CREATED, ADDED(AT(0), FC("")), DONE(AT(0), FC(ARGS)),
          COMPLETED("{'type':'function_call','id':'fc_1','call_id':'call_9','name':'" TOOL
                    "','arguments':'{ \\'code\\':\\'x\\'}'}")},
         "function_call:call_1 function_call_output:call_1"},
        /* the same event twice, and added after done */
        {{CREATED, DONE(AT(0), FC(ARGS)), ADDED(AT(0), FC("")), ADDED(AT(3), FC("")),
          DELTA(AT(0), "zzz"), DONE(AT(2), FC(ARGS)), COMPLETED(FC(ARGS))},
         "function_call:call_1 function_call_output:call_1"},
        /* every item has the index 0 */
        {{CREATED, ADDED(AT(0), REASONING), DONE(AT(0), REASONING), ADDED(AT(0), FC("")),
          DELTA(AT(0), ARGS), DONE(AT(0), FC(ARGS)), COMPLETED(REASONING "," FC(ARGS))},
         "reasoning: function_call:call_1 function_call_output:call_1"},
        /* the stream shows a reasoning item that the final output leaves out */
        {{CREATED, ADDED(AT(0), REASONING), DONE(AT(0), REASONING), ADDED(AT(1), FC("")),
          DONE(AT(1), FC(ARGS)), COMPLETED(FC(ARGS))},
         "reasoning: function_call:call_1 function_call_output:call_1"},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run_stream(&s, false, rows[i].events);
        assert_int_equal(s.f->code_count, 1);
        assert_string_equal(s.f->codes[0].p, "x");
        assert_string_equal(replayed(&s), rows[i].replayed);
        assert_int_equal(count(sv_from(s.f->out.p, s.f->out.n), "function_call_arguments"), 0);
        json_t *runs = sc_runs(&s);

        assert_int_equal(json_array_size(runs), 1);
        json_decref(runs);
        sc_end(&s);
    }
}

/* Two calls are two runs, also when they share what should be theirs alone. */
static void two_calls_run_twice(void **state)
{
    const char *const rows[][EVENTS_MAX] = {
        {CREATED, DONE(AT(0), FC(ARGS)),
         "{'type':'response.output_item.done','output_index':1,'item':{'type':'function_call','id':"
         "'fc_2','call_id':'call_2','name':'" TOOL "','arguments':'{\\'code\\':\\'y\\'}'}}",
         COMPLETED("")},
        /* both at once and at the same index */
        {CREATED, ADDED(AT(0), FC("")),
         "{'type':'response.output_item.added','output_index':0,'item':{'type':'function_call',"
         "'id':'fc_2','call_id':'call_2','name':'" TOOL "','arguments':''}}",
         DELTA(AT(0), ARGS),
         "{'type':'response.function_call_arguments.delta','output_index':0,'item_id':'fc_2',"
         "'delta':'{\\'code\\':\\'y\\'}'}",
         COMPLETED("")},
        /* the second is only in the final output, without a call_id of the first */
        {CREATED, DONE(AT(0), FC(ARGS)),
         "{'type':'response.completed','response':{'status':'completed','output':[" FC(
             ARGS) ",{'type':'function_call','id':'fc_2','call_id':'call_2','name':'" TOOL
                   "','arguments':'{\\'code\\':\\'y\\'}'}]}}"},
        /* one item id for two calls */
        {CREATED, DONE(AT(0), FC(ARGS)),
         "{'type':'response.output_item.done','output_index':1,'item':{'type':'function_call','id':"
         "'fc_1','call_id':'call_2','name':'" TOOL "','arguments':'{\\'code\\':\\'y\\'}'}}",
         COMPLETED("")},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run_stream(&s, false, rows[i]);
        assert_int_equal(s.f->code_count, 2);
        assert_string_equal(s.f->codes[0].p, "x");
        assert_string_equal(s.f->codes[1].p, "y");
        sc_end(&s);
    }
}

/* What the item says is what runs; the client's code.done says so, too. */
static void the_item_wins(void **state)
{
    static const char *const rows[][EVENTS_MAX] = {
        /* twice something else, once nothing at all */
        {CREATED, ADDED(AT(0), FC("")), DELTA(AT(0), "{\\'code\\':\\'long one\\'}"),
         ARGS_DONE(AT(0), "null"), ARGS_DONE(AT(0), "7"), DONE(AT(0), FC(ARGS)), COMPLETED("")},
        {CREATED, ADDED(AT(0), FC("")), DELTA(AT(0), "{\\'code\\':\\'long one\\'}"),
         ARGS_DONE(AT(0), "{\\'code\\':\\'other\\'}"), DONE(AT(0), FC(ARGS)), COMPLETED("")},
        {CREATED, ADDED(AT(0), FC("")), DELTA(AT(0), "{\\'code\\':\\'a"), DONE(AT(0), FC(ARGS)),
         COMPLETED(FC("{\\'code\\':\\'late\\'}"))},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fc_is_code_replaced = true; /* the reader compares code.done with the item */
        run_stream(&s, false, rows[i]);
        fc_is_code_replaced = false;
        assert_int_equal(s.f->code_count, 1);
        assert_string_equal(s.f->codes[0].p, "x");
        assert_int_equal(count(sv_from(s.f->out.p, s.f->out.n), "\"code\":\"x\""), 3);
        sc_end(&s);
    }
}

/* Neither arguments.done nor output_item.done: the call is complete when the answer is. */
static void call_without_an_end(void **state)
{
    static const char *const events[EVENTS_MAX] = {CREATED, ADDED(AT(0), FC("")),
                                                   DELTA(AT(0), ARGS), COMPLETED("")};
    struct scenario s;
    const char *done;

    (void)state;
    run_stream(&s, false, events);
    assert_int_equal(s.f->code_count, 1);
    assert_string_equal(s.f->codes[0].p, "x");
    done = strstr(s.f->out.p, "event: response.code_interpreter_call_code.done");
    assert_non_null(done);
    assert_true(done < strstr(s.f->out.p, "call.interpreting"));
    assert_string_equal(replayed(&s), "function_call:call_1 function_call_output:call_1");
    sc_end(&s);
}

static void arguments_as_an_object(void **state)
{
    static const char *const events[EVENTS_MAX] = {
        CREATED,
        "{'type':'response.output_item.done','output_index':0,'item':{'type':'function_call',"
        "'call_id':'call_1','name':'" TOOL "','arguments':{'code':'x'}}}",
        COMPLETED("")};
    struct scenario s;

    (void)state;
    run_stream(&s, false, events);
    assert_string_equal(s.f->codes[0].p, "x");
    assert_non_null(strstr(s.f->requests[1].p, "\"arguments\":\"{\\\"code\\\":\\\"x\\\"}\""));
    sc_end(&s);
}

/* --- chat --- */

#define CHUNK(delta)   "{'id':'c','choices':[{'index':0,'delta':" delta "}]}"
#define CALLS(list)    CHUNK("{'tool_calls':[" list "]}")
#define FINISH         "{'id':'c','choices':[{'index':0,'delta':{},'finish_reason':'tool_calls'}]}"
#define FN(name, args) "'function':{'name':'" name "','arguments':'" args "'}"
#define X              "{\\'code\\':\\'x\\'}"
#define Y              "{\\'code\\':\\'y\\'}"

static void chat_calls_told_apart(void **state)
{
    static const char *const rows[][EVENTS_MAX] = {
        {CALLS("{'index':0,'id':'a'," FN(TOOL, X) "}"),
         CALLS("{'index':0,'id':'b'," FN(TOOL, Y) "}"), FINISH, "[DONE]"},
        {CALLS("{'id':'a'," FN(TOOL, X) "}"), CALLS("{'id':'b'," FN(TOOL, Y) "}"), FINISH,
         "[DONE]"},
        {CALLS("{'id':'a'," FN(TOOL, X) "},{'id':'b'," FN(TOOL, Y) "}"), FINISH, "[DONE]"},
        {CALLS("{" FN(TOOL, X) "}"), CALLS("{" FN(TOOL, Y) "}"), FINISH, "[DONE]"},
        {CALLS("{'index':0,'id':'a'," FN(TOOL, X) "}"),
         CALLS("{'index':1,'id':'a'," FN(TOOL, Y) "}"), FINISH, "[DONE]"},
        /* in pieces, without an index */
        {CALLS("{'id':'a'," FN(TOOL, "") "}"), CALLS("{'function':{'arguments':'{\\'code\\':'}}"),
         CALLS("{'function':{'arguments':'\\'x\\'}'}}"), CALLS("{'id':'b'," FN(TOOL, "{") "}"),
         CALLS("{'id':'b','function':{'arguments':'\\'code\\':\\'y\\'}'}}"), FINISH, "[DONE]"},
        /* the name after the arguments, in pieces, and said again */
        {CALLS("{'index':0,'id':'a','function':{'arguments':'{\\'code\\''}}"),
         CALLS("{'index':0," FN(TOOL, ":\\'x\\'}") "}"),
         CALLS("{'index':1,'id':'b'," FN("litellm_", "") "}"),
         CALLS("{'index':1," FN("code_execution", "") "}"), CALLS("{'index':1," FN(TOOL, Y) "}"),
         FINISH, "[DONE]"},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run_stream(&s, true, rows[i]);
        assert_int_equal(s.f->code_count, 2);
        assert_string_equal(s.f->codes[0].p, "x");
        assert_string_equal(s.f->codes[1].p, "y");
        json_t *calls = sc_client_calls(&s);

        assert_int_equal(json_array_size(calls), 0);
        json_decref(calls);
        sc_end(&s);
    }
}

static void chat_one_call_in_pieces(void **state)
{
    static const char *const rows[][EVENTS_MAX] = {
        /* id, name and an empty text again in each piece */
        {CALLS("{'index':0,'id':'a'," FN(TOOL, "") "}"),
         CALLS("{'index':0,'id':'a'," FN(TOOL, "{\\'co") "}"),
         CALLS("{'index':0,'id':'a'," FN(TOOL, "de\\':\\'x\\'}") "}"),
         CALLS("{'index':0,'id':'a'," FN(TOOL, "") "}"), FINISH, "[DONE]"},
        /* the name again, no id at all */
        {CALLS("{'index':0," FN(TOOL, "{\\'co") "}"), CALLS("{'index':0," FN(TOOL, "de\\':") "}"),
         CALLS("{'index':0," FN(TOOL, "\\'x\\'}") "}"), FINISH, "[DONE]"},
        /* another id in each piece, the name only in the first */
        {CALLS("{'index':0,'id':'a'," FN(TOOL, "{\\'co") "}"),
         CALLS("{'index':0,'id':'b','function':{'arguments':'de\\':\\'x\\'}'}}"), FINISH, "[DONE]"},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run_stream(&s, true, rows[i]);
        assert_int_equal(s.f->code_count, 1);
        assert_string_equal(s.f->codes[0].p, "x");
        sc_end(&s);
    }
}

/* A client's call arrives whole, with its name said once. */
static void chat_client_call_in_pieces(void **state)
{
    static const char *const rows[][EVENTS_MAX] = {
        {CALLS("{'index':0,'id':'a'," FN("wea", "") "}"), CALLS("{'index':0," FN("ther", "") "}"),
         CALLS("{'index':0,'function':{'arguments':'{}'}}"), FINISH, "[DONE]"},
        {CALLS("{'index':4,'id':'a','function':{'arguments':'{'}}"),
         CALLS("{'index':4," FN("weather", "}") "}"), FINISH, "[DONE]"},
        {CALLS("{'index':0,'id':'a'," FN("weather", "") "}"), CHUNK("{'content':'t'}"),
         CALLS("{'index':0,'function':{'arguments':'{}'}}"), FINISH},
        {CALLS("{'index':0,'id':'a','function':{'name':'weather','arguments':{}}}"), FINISH,
         "[DONE]"},
        /* no arguments ever: it is told at the end */
        {CALLS("{'index':0,'id':'a','function':{'name':'weather'}}"), FINISH, "[DONE]"},
    };
    struct scenario s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run_stream(&s, true, rows[i]);
        assert_int_equal(s.f->code_count, 0);
        json_t *calls = sc_client_calls(&s);

        assert_int_equal(json_array_size(calls), 1);
        assert_string_equal(json_string_value(json_array_get(calls, 0)), "weather");
        assert_int_equal(count(sv_from(s.f->out.p, s.f->out.n), "\"id\":\"a\""), 1);
        assert_string_equal(sc_status(&s), "tool_calls");
        json_decref(calls);
        sc_end(&s);
    }
}

static void chat_whole_calls_by_position(void **state)
{
    static const char body[] =
        "{'id':'c','choices':[{'index':0,'message':{'role':'assistant','content':null,'tool_calls':"
        "[{'index':0,'id':'a'," FN(TOOL, X) "},{'index':0,'id':'a'," FN(
            TOOL, Y) "}]},'finish_reason':'tool_calls'}]}";
    struct scenario s = {.is_chat = true};
    char *text = strdup(body);

    (void)state;
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    sc_begin(&s, NULL);
    fake_job_answer(s.f, 200, text);
    sc_answer(&s, &hello);
    sc_finish(&s);
    assert_int_equal(s.f->code_count, 2);
    assert_string_equal(s.f->codes[1].p, "y");
    assert_int_equal(count(sv_of(s.f->requests[1].p), "\"tool_call_id\":\"a\""), 1); /* one each */
    sc_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_runs_once),
        cmocka_unit_test(two_calls_run_twice),
        cmocka_unit_test(the_item_wins),
        cmocka_unit_test(call_without_an_end),
        cmocka_unit_test(arguments_as_an_object),
        cmocka_unit_test(chat_calls_told_apart),
        cmocka_unit_test(chat_one_call_in_pieces),
        cmocka_unit_test(chat_client_call_in_pieces),
        cmocka_unit_test(chat_whole_calls_by_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
