#include "icept_scenario.h"

static char pool[16][65536];
static unsigned pool_at;

char *code_args(const char *code)
{
    char *dst = pool[pool_at++ % COUNT_OF(pool)];
    struct bytes b = {0};

    bytes_put_str(&b, "{\"code\":");
    bytes_put_json_str(&b, sv_of(code));
    bytes_put_char(&b, '}');
    (void)sv_copy(dst, sizeof(pool[0]), sv_from(b.p, b.n));
    bytes_fini(&b);
    return dst;
}

void sc_begin(struct scenario *s, const char *more)
{
    struct bytes b = {0};

    bytes_printf(&b,
                 "{\"model\":\"m\",%s,\"tools\":[{\"type\":\"code_interpreter\",\"container\":{"
                 "\"type\":\"auto\"}},%s]%s%s%s}",
                 s->is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
                            : "\"input\":\"hi\"",
                 s->is_chat ? "{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}"
                            : "{\"type\":\"function\",\"name\":\"weather\"}",
                 s->is_stream ? ",\"stream\":true" : "",
                 s->is_stream && s->is_chat ? ",\"stream_options\":{\"include_usage\":true}" : "",
                 more != NULL ? more : "");
    s->f = fake_job_new(s->is_chat ? MSG_KIND_CHAT : MSG_KIND_RESPONSES, b.p);
    bytes_fini(&b);
}

void sc_answer(struct scenario *s, const struct fm_answer *a)
{
    fake_job_answer(s->f, 200, fm_write(s->is_chat, s->is_stream, s->f->answer_count + 1, a));
}

void sc_run(struct scenario *s)
{
    fake_job_start(s->f);
    fake_job_run(s->f);
    assert_true(s->f->is_done);
}

void sc_finish(struct scenario *s)
{
    struct str_view out;
    uint32_t last = 0;

    sc_run(s);
    if (s->f->error.code != 0) {
        fail_msg("error %s: %s", err_name(s->f->error.code), s->f->error.text);
    }
    assert_int_equal(s->f->status, 200);
    assert_true(s->f->is_finished);
    out = sv_from(s->f->out.p, s->f->out.n);
    if (!s->is_stream) {
        s->got = fc_object(out);
    } else if (s->is_chat) {
        s->got = fc_chat_stream(out);
    } else {
        s->got = fc_responses_stream(out, &s->type, &s->events, &last);
        assert_int_equal(s->f->last_sequence, last);
    }
    if (memmem(s->f->job.body->p, s->f->job.body->n, TOOL, sizeof(TOOL) - 1) ==
        NULL) { /* an internal call never reaches the client */
        assert_null(memmem(out.p, out.n, TOOL, sizeof(TOOL) - 1));
    }
    assert_int_equal(s->f->outcome, MSG_OUTCOME_OK);
}

void sc_end(struct scenario *s)
{
    json_decref(s->got);
    fake_job_free(s->f);
    memset(s, 0, sizeof(*s));
}

static json_t *message_of(const struct scenario *s)
{
    return json_object_get(json_array_get(json_object_get(s->got, "choices"), 0), "message");
}

const char *sc_text(const struct scenario *s)
{
    static char text[8192];
    size_t i;
    json_t *item;

    text[0] = '\0';
    if (s->is_chat) {
        const char *t = json_string_value(json_object_get(message_of(s), "content"));

        return t != NULL ? t : "";
    }
    json_array_foreach(json_object_get(s->got, "output"), i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));

        if (strcmp(type, "message") == 0) {
            json_t *part = json_array_get(json_object_get(item, "content"), 0);

            if (text[0] != '\0') {
                strcat(text, "\n\n");
            }
            strncat(text, json_string_value(json_object_get(part, "text")), 4000);
        }
    }
    return text;
}

json_t *sc_runs(const struct scenario *s)
{
    json_t *runs = json_array();
    size_t i;
    json_t *item;
    json_t *list = s->is_chat
                       ? json_object_get(json_object_get(message_of(s), "provider_specific_fields"),
                                         "code_interpreter_calls")
                       : json_object_get(s->got, "output");

    json_array_foreach(list, i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));

        if (strcmp(type, "code_interpreter_call") == 0) {
            assert_string_equal(json_string_value(json_object_get(item, "container_id")),
                                "cntr_sbx1");
            json_array_append(runs, item);
        }
    }
    return runs;
}

json_t *sc_client_calls(const struct scenario *s)
{
    json_t *calls = json_array();
    size_t i;
    json_t *item;
    json_t *list = s->is_chat ? json_object_get(message_of(s), "tool_calls")
                              : json_object_get(s->got, "output");

    json_array_foreach(list, i, item)
    {
        json_t *name =
            json_object_get(s->is_chat ? json_object_get(item, "function") : item, "name");

        if (name != NULL) {
            json_array_append(calls, name);
        }
    }
    return calls;
}

const char *sc_status(const struct scenario *s)
{
    return json_string_value(
        s->is_chat ? json_object_get(json_array_get(json_object_get(s->got, "choices"), 0),
                                     "finish_reason")
                   : json_object_get(s->got, "status"));
}

double sc_usage(const struct scenario *s, bool is_output)
{
    json_t *u = json_object_get(s->got, "usage");

    return json_number_value(
        json_object_get(u, s->is_chat  ? is_output ? "completion_tokens" : "prompt_tokens"
                           : is_output ? "output_tokens"
                                       : "input_tokens"));
}

json_t *sc_request(const struct scenario *s, unsigned n)
{
    assert_true(n < s->f->request_count);
    return fc_object(sv_from(s->f->requests[n].p, s->f->requests[n].n));
}

const char *sc_shown(struct scenario *s, unsigned n, unsigned i)
{
    static char text[200000];
    json_t *req = sc_request(s, n);
    json_t *list = json_object_get(req, s->is_chat ? "messages" : "input");
    const char *found = NULL;
    size_t k;
    json_t *item;

    json_array_foreach(list, k, item)
    {
        json_t *call_id = json_object_get(item, s->is_chat ? "tool_call_id" : "call_id");
        json_t *out = json_object_get(item, s->is_chat ? "content" : "output");

        if (call_id != NULL && out != NULL && i-- == 0) {
            (void)sv_copy(text, sizeof(text), sv_of(json_string_value(out)));
            found = text;
        }
    }
    json_decref(req);
    return found;
}

const struct fm_answer hello = {
    .items = {{FM_TEXT, "The answer is 42.", NULL, NULL}}, .in = 7, .out = 5};

struct fm_answer call_answer(const char *args, const char *call_id)
{
    return (struct fm_answer){
        .items = {{FM_REASONING, "enc", NULL, NULL}, {FM_CALL, args, TOOL, call_id}},
        .in = 10,
        .out = 20};
}
