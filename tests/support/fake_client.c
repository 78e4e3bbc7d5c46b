#include "fake_client.h"

#include "unit.h"

bool fc_is_code_replaced;

#define ITEMS_MAX 64

struct item {
    char id[96];
    char type[40];
    bool is_done;
    struct bytes deltas; /* text, arguments or code */
    bool has_part;
    unsigned
        steps; /* code_interpreter_call: 1 in_progress 2 code.done 3 interpreting 4 completed */
};

struct reader {
    struct item items[ITEMS_MAX];
    unsigned count;
    char response_id[96];
    const char *terminal;
    json_t *response;
    bool has_error;
};

json_t *fc_object(struct str_view text)
{
    json_error_t e;
    json_t *v = json_loadb(text.p, text.n, JSON_DECODE_INT_AS_REAL, &e);

    if (v == NULL) {
        fail_msg("not JSON: %s: %.*s", e.text, (int)text.n, text.p);
    }
    return v;
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    if (s == NULL) {
        fail_msg("no string %s in %s", key, json_dumps(o, 0));
    }
    return s;
}

static void check_response(struct reader *r, const json_t *resp)
{
    static const char *const keys[] = {"id",
                                       "object",
                                       "created_at",
                                       "model",
                                       "output",
                                       "tools",
                                       "tool_choice",
                                       "error",
                                       "usage",
                                       "metadata",
                                       "status",
                                       "parallel_tool_calls",
                                       "incomplete_details"};

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        if (json_object_get(resp, keys[i]) == NULL) {
            fail_msg("response without %s", keys[i]);
        }
    }
    if (r->response_id[0] == '\0') {
        (void)sv_copy(r->response_id, sizeof(r->response_id), sv_of(str(resp, "id")));
    }
    assert_string_equal(r->response_id, str(resp, "id"));
}

static struct item *target(struct reader *r, const json_t *ev)
{
    double index = json_number_value(json_object_get(ev, "output_index"));

    assert_true(json_is_number(json_object_get(ev, "output_index")));
    assert_true(index >= 0 && index < r->count);
    struct item *it = &r->items[(unsigned)index];

    assert_string_equal(str(ev, "item_id"), it->id);
    assert_false(it->is_done);
    return it;
}

static void on_added(struct reader *r, const json_t *ev)
{
    const json_t *item = json_object_get(ev, "item");
    struct item *it = &r->items[r->count];

    assert_true(r->count < ITEMS_MAX);
    assert_int_equal(json_number_value(json_object_get(ev, "output_index")), r->count);
    for (unsigned i = 0; i < r->count; i++) {
        assert_string_not_equal(r->items[i].id, str(item, "id"));
    }
    (void)sv_copy(it->id, sizeof(it->id), sv_of(str(item, "id")));
    (void)sv_copy(it->type, sizeof(it->type), sv_of(str(item, "type")));
    if (strcmp(it->type, "code_interpreter_call") == 0) {
        assert_string_equal(str(item, "code"), "");
        assert_string_equal(str(item, "status"), "in_progress");
        assert_true(strncmp(str(item, "container_id"), "cntr_", 5) == 0);
        assert_non_null(json_object_get(item, "outputs"));
    }
    r->count++;
}

static void on_item_done(struct reader *r, const json_t *ev)
{
    const json_t *item = json_object_get(ev, "item");
    double index = json_number_value(json_object_get(ev, "output_index"));

    assert_true(index >= 0 && index < r->count);
    struct item *it = &r->items[(unsigned)index];

    assert_false(it->is_done);
    assert_string_equal(it->id, str(item, "id"));
    assert_string_equal(it->type, str(item, "type"));
    if (strcmp(it->type, "code_interpreter_call") == 0) {
        assert_true(it->steps == 4 || strcmp(str(item, "status"), "incomplete") == 0);
        assert_non_null(json_object_get(item, "outputs"));
        if (it->steps == 4) {
            assert_sv_equal(sv_from(it->deltas.p, it->deltas.n), str(item, "code"));
        }
    } else if (strcmp(it->type, "function_call") == 0) {
        assert_sv_equal(sv_from(it->deltas.p, it->deltas.n), str(item, "arguments"));
    }
    it->is_done = true;
}

static void on_code(struct reader *r, const json_t *ev, const char *type)
{
    static const char *const steps[] = {
        "response.code_interpreter_call.in_progress", "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting", "response.code_interpreter_call.completed"};
    struct item *it = target(r, ev);

    assert_string_equal(it->type, "code_interpreter_call");
    if (strcmp(type, "response.code_interpreter_call_code.delta") == 0) {
        assert_int_equal(it->steps, 1);
        bytes_put_str(&it->deltas, str(ev, "delta"));
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(type, steps[i]) == 0) {
            assert_int_equal(it->steps, i);
            it->steps++;
            if (i == 1) {
                if (!fc_is_code_replaced) {
                    assert_sv_equal(sv_from(it->deltas.p, it->deltas.n), str(ev, "code"));
                }
                bytes_reset(&it->deltas);
                bytes_put_str(&it->deltas, str(ev, "code"));
            }
            return;
        }
    }
    fail_msg("unknown event %s", type);
}

static void on_text(struct reader *r, const json_t *ev, const char *type)
{
    struct item *it = target(r, ev);

    if (strcmp(type, "response.content_part.added") == 0) {
        it->has_part = true;
    } else if (strcmp(type, "response.output_text.delta") == 0) {
        assert_true(it->has_part);
        bytes_put_str(&it->deltas, str(ev, "delta"));
    } else if (strcmp(type, "response.output_text.done") == 0) {
        assert_sv_equal(sv_from(it->deltas.p, it->deltas.n), str(ev, "text"));
    } else if (strcmp(type, "response.function_call_arguments.delta") == 0) {
        bytes_put_str(&it->deltas, str(ev, "delta"));
    } else if (strcmp(type, "response.content_part.done") != 0 &&
               strcmp(type, "response.function_call_arguments.done") != 0) {
        fail_msg("unknown event %s", type);
    }
}

static void on_terminal(struct reader *r, json_t *resp, const char *type)
{
    static const char *const types[] = {"response.completed", "response.incomplete",
                                        "response.failed"};

    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(type, types[i]) == 0) {
            r->terminal = types[i];
        }
    }
    assert_string_equal(r->terminal + sizeof("response.") - 1, str(resp, "status"));
    r->response = json_incref(resp);
    if (strcmp(r->terminal, "response.failed") == 0) {
        assert_true(r->has_error);
        return;
    }
    json_t *output = json_object_get(resp, "output");

    assert_int_equal(json_array_size(output), r->count);
    for (unsigned i = 0; i < r->count; i++) {
        assert_true(r->items[i].is_done);
        assert_string_equal(str(json_array_get(output, i), "id"), r->items[i].id);
    }
}

static void on_event(struct reader *r, json_t *ev, unsigned n)
{
    const char *type = str(ev, "type");
    json_t *resp = json_object_get(ev, "response");

    assert_null(r->terminal);
    assert_int_equal(json_number_value(json_object_get(ev, "sequence_number")), n);
    if (json_is_object(resp)) {
        check_response(r, resp);
    }
    if (strcmp(type, "error") == 0) {
        assert_true(json_is_object(json_object_get(ev, "error")));
        assert_string_equal(str(ev, "message"), str(json_object_get(ev, "error"), "message"));
        (void)str(ev, "code");
        r->has_error = true;
        return;
    }
    assert_false(json_is_true(json_object_get(ev, "error")));
    if (n < 2) {
        assert_string_equal(type, n == 0 ? "response.created" : "response.in_progress");
        assert_int_equal(json_array_size(json_object_get(resp, "output")), 0);
        assert_true(json_is_null(json_object_get(resp, "usage")));
    } else if (strcmp(type, "response.output_item.added") == 0) {
        on_added(r, ev);
    } else if (strcmp(type, "response.output_item.done") == 0) {
        on_item_done(r, ev);
    } else if (strncmp(type, "response.code_interpreter_call", 30) == 0) {
        on_code(r, ev, type);
    } else if (json_is_object(resp)) {
        on_terminal(r, resp, type);
    } else {
        on_text(r, ev, type);
    }
}

/* Takes the next event off *text; false at the end. */
static bool next(struct str_view *text, struct str_view *name, struct str_view *data)
{
    const char *end;

    if (text->n == 0) {
        return false;
    }
    end = memmem(text->p, text->n, "\n\n", 2);
    assert_non_null(end); /* each event is whole */
    *name = (struct str_view){NULL, 0};
    struct str_view frame = sv_from(text->p, (size_t)(end - text->p));

    if (sv_starts(frame, SV_LIT("event: "))) {
        size_t n = sv_find(frame, '\n');

        *name = sv_from(frame.p + 7, n - 7);
        frame = sv_from(frame.p + n + 1, frame.n - n - 1);
    }
    assert_true(sv_starts(frame, SV_LIT("data: ")));
    *data = sv_from(frame.p + 6, frame.n - 6);
    assert_int_equal(sv_find(*data, '\n'), data->n);
    text->n -= (size_t)(end + 2 - text->p);
    text->p = end + 2;
    return true;
}

json_t *fc_responses_stream(struct str_view text, const char **ret_type, unsigned *ret_events,
                            uint32_t *ret_last)
{
    struct reader *r = calloc(1, sizeof(*r));
    struct str_view name;
    struct str_view data;
    unsigned n = 0;
    json_t *response;

    assert_non_null(r);
    while (next(&text, &name, &data)) {
        json_t *ev = fc_object(data);

        assert_sv_equal(name, str(ev, "type"));
        on_event(r, ev, n++);
        json_decref(ev);
    }
    if (r->terminal == NULL) {
        fail_msg("no terminal event after %u", n);
    }
    *ret_type = r->terminal;
    *ret_events = n;
    *ret_last = n;
    response = r->response;
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        bytes_fini(&r->items[i].deltas);
    }
    free(r);
    return response;
}

/* --- chat --- */

static void merge_calls(json_t *message, const json_t *deltas)
{
    size_t i;
    json_t *d;
    json_t *calls = json_object_get(message, "tool_calls");

    if (calls == NULL) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    json_array_foreach(deltas, i, d)
    {
        size_t at = (size_t)json_number_value(json_object_get(d, "index"));
        json_t *f = json_object_get(d, "function");
        char joined[4096];

        assert_true(json_is_number(json_object_get(d, "index")));
        if (at == json_array_size(calls)) { /* first fragment: names itself */
            (void)str(d, "id");
            assert_string_equal(str(d, "type"), "function");
            (void)str(f, "name");
            json_array_append_new(calls, json_deep_copy(d));
            continue;
        }
        assert_true(at < json_array_size(calls));
        assert_null(json_object_get(d, "id"));
        assert_null(json_object_get(f, "name"));
        json_t *have = json_object_get(json_array_get(calls, at), "function");

        snprintf(joined, sizeof(joined), "%s%s", str(have, "arguments"), str(f, "arguments"));
        json_object_set_new(have, "arguments", json_string(joined));
    }
}

static void merge_delta(json_t *message, const json_t *delta, unsigned *roles)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)delta, key, v)
    {
        const char *old = json_string_value(json_object_get(message, key));

        if (strcmp(key, "tool_calls") == 0) {
            merge_calls(message, v);
        } else if (strcmp(key, "role") == 0) {
            (*roles)++;
            json_object_set(message, key, v);
        } else if (json_is_string(v)) {
            struct bytes b = {0};

            bytes_put_str(&b, old != NULL ? old : "");
            bytes_put_str(&b, json_string_value(v));
            json_object_set_new(message, key, json_string(b.p != NULL ? b.p : ""));
            bytes_fini(&b);
        } else {
            json_object_set(message, key, v);
        }
    }
}

json_t *fc_chat_stream(struct str_view text)
{
    struct str_view name;
    struct str_view data;
    json_t *out = json_object();
    json_t *message = json_object();
    json_t *choice = json_object();
    unsigned roles = 0;
    bool is_over = false;
    bool is_finished = false;
    char id[96] = "";

    while (next(&text, &name, &data)) {
        assert_false(is_over);
        if (sv_eq(data, SV_LIT("[DONE]"))) {
            is_over = true;
            continue;
        }
        json_t *c = fc_object(data);

        if (json_object_get(c, "error") != NULL) {
            json_object_set(out, "error", json_object_get(c, "error"));
            json_decref(c);
            is_over = true;
            continue;
        }
        if (id[0] == '\0') {
            (void)sv_copy(id, sizeof(id), sv_of(str(c, "id")));
        }
        assert_string_equal(id, str(c, "id"));
        assert_string_equal(str(c, "object"), "chat.completion.chunk");
        json_t *choices = json_object_get(c, "choices");

        assert_true(json_is_array(choices));
        if (json_array_size(choices) == 0) {
            assert_true(is_finished);
            assert_null(json_object_get(out, "usage"));
            json_object_set(out, "usage", json_object_get(c, "usage"));
        } else {
            json_t *ch = json_array_get(choices, 0);
            json_t *finish = json_object_get(ch, "finish_reason");

            assert_false(is_finished);
            merge_delta(message, json_object_get(ch, "delta"), &roles);
            if (!json_is_null(finish)) {
                is_finished = true;
                json_object_set(choice, "finish_reason", finish);
            }
        }
        json_decref(c);
    }
    assert_true(is_over);
    json_object_set_new(choice, "message", message);
    json_object_set_new(out, "choices", json_pack("[o]", choice));
    if (json_object_get(out, "error") == NULL) {
        assert_int_equal(roles, 1);
        assert_true(is_finished);
    }
    return out;
}
