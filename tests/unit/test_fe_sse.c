#include "../support/unit.h"

#include <jansson.h>

#include "base/id.h"
#include "fe_sse.h"

#define CREATED                                                                                    \
    "event: response.created\ndata: "                                                              \
    "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":"                   \
    "\"resp_a\",\"object\":\"response\",\"status\":\"in_progress\",\"error\":null,\"output\":[],"  \
    "\"model\":\"m\"}}\n\n"
#define DELTA                                                                                      \
    "event: response.output_text.delta\ndata: "                                                    \
    "{\"type\":\"response.output_text.delta\",\"sequence_number\":41,"                             \
    "\"delta\":\"x\"}\n\n"

static void pass(struct fe_sse *s, const char *p, size_t n, uint32_t sequence)
{
    struct buf *b = buf_copy(p, n);

    fe_sse_pass(s, b, sequence);
    buf_unref(b);
}

#define PASS(s, text, sequence) pass((s), (text), strlen(text), (sequence))

static struct err lost(void)
{
    struct err e = {0};

    err_set(&e, ERR_WORKER_LOST, "lost \"it\"");
    return e;
}

/* The data of the n-th event of `text`, parsed; checks the framing on the way. */
static json_t *event(const struct bytes *text, unsigned n, const char *want_name)
{
    const char *p = text->p;
    const char *data = NULL;

    for (unsigned i = 0; i < n; i++) {
        p = strstr(p, "\n\n");
        assert_non_null(p);
        p += 2;
    }
    if (want_name != NULL) {
        assert_memory_equal(p, "event: ", 7);
        assert_memory_equal(p + 7, want_name, strlen(want_name));
    }
    data = strstr(p, "data: ");
    assert_non_null(data);
    data += 6;
    const char *end = strstr(data, "\n\n");

    assert_non_null(end);
    json_t *j = json_loadb(data, (size_t)(end - data), 0, NULL);

    assert_non_null(j);
    return j;
}

static const char *str_at(json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

static void responses_failure(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();

    (void)state;
    fe_sse_init(&s, MSG_STREAM_RESPONSES);
    for (size_t i = 0; i < sizeof(CREATED) - 1; i += 7) { /* cut anywhere */
        pass(&s, &CREATED[i], sizeof(CREATED) - 1 - i < 7 ? sizeof(CREATED) - 1 - i : 7, 0);
    }
    assert_true(fe_sse_is_at_boundary(&s));
    PASS(&s, DELTA, 0);
    assert_int_equal(fe_sse_failure(&s, &e, &out), 0);
    json_t *error = event(&out, 0, "error\n");
    json_t *failed = event(&out, 1, "response.failed\n");
    json_t *response = json_object_get(failed, "response");

    assert_string_equal(str_at(error, "type"), "error");
    assert_int_equal(json_integer_value(json_object_get(error, "sequence_number")), 42);
    assert_string_equal(str_at(error, "message"), "lost \"it\"");
    assert_string_equal(str_at(error, "code"), "worker_lost");
    assert_true(json_is_null(json_object_get(error, "param")));
    assert_string_equal(str_at(json_object_get(error, "error"), "message"), "lost \"it\"");
    assert_string_equal(str_at(json_object_get(error, "error"), "type"), "server_error");
    assert_int_equal(json_integer_value(json_object_get(failed, "sequence_number")), 43);
    assert_string_equal(str_at(response, "id"), "resp_a");
    assert_string_equal(str_at(response, "status"), "failed");
    assert_string_equal(str_at(response, "model"), "m");
    assert_string_equal(str_at(json_object_get(response, "error"), "code"), "worker_lost");
    json_decref(error);
    json_decref(failed);
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void sequence_given_by_the_worker_wins(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();

    (void)state;
    fe_sse_init(&s, MSG_STREAM_RESPONSES);
    PASS(&s, CREATED, 0);
    PASS(&s, DELTA, 7);
    fe_sse_failure(&s, &e, &out);
    json_t *error = event(&out, 0, "error\n");

    assert_int_equal(json_integer_value(json_object_get(error, "sequence_number")), 7);
    json_decref(error);
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void comments_do_not_hide_the_sequence(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();

    (void)state;
    fe_sse_init(&s, MSG_STREAM_RESPONSES);
    PASS(&s, CREATED, 0);
    PASS(&s, DELTA, 0);
    PASS(&s, ": keep-alive\n\n", 0);
    fe_sse_failure(&s, &e, &out);
    json_t *error = event(&out, 0, "error\n");

    assert_int_equal(json_integer_value(json_object_get(error, "sequence_number")), 42);
    json_decref(error);
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void nothing_usable_gives_a_minimal_response(void **state)
{
    static const char *const firsts[] = {"", "data: not json\n\n", "data: {\"response\":[]}\n\n",
                                         "data: {\"response\":{\"id\":7}}\n\n",
                                         "event: x\ndata: {}\n\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        struct bytes out = {0};
        struct err e = lost();

        assert_int_equal(fe_sse_failed_response(&out, sv_of(firsts[i]), &e), 0);
        json_t *j = json_loadb(out.p, out.n, 0, NULL);

        assert_memory_equal(str_at(j, "id"), "resp_", 5);
        assert_string_equal(str_at(j, "status"), "failed");
        assert_true(json_is_array(json_object_get(j, "output")));
        json_decref(j);
        bytes_fini(&out);
    }
}

static void huge_first_event_is_not_kept(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();
    static char big[200000];

    (void)state;
    memset(big, 'x', sizeof(big));
    fe_sse_init(&s, MSG_STREAM_RESPONSES);
    PASS(&s, "data: {\"response\":{\"id\":\"", 0);
    pass(&s, big, sizeof(big), 0);
    assert_int_equal(s.first.n, 0);
    assert_false(fe_sse_is_at_boundary(&s));
    assert_int_equal(fe_sse_failure(&s, &e, &out), 0);
    assert_memory_equal(out.p, "\n\nevent: error\n", 15); /* the cut event is ended first */
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void small_first_event_in_a_large_chunk_is_kept(void **state)
{
    struct fe_sse s;
    struct bytes chunk = {0};

    (void)state;
    bytes_put_str(&chunk, CREATED);
    for (int i = 0; i < 200000; i++) {
        bytes_put_char(&chunk, 'x');
    }
    fe_sse_init(&s, MSG_STREAM_RESPONSES);
    pass(&s, chunk.p, chunk.n, 0);
    assert_int_equal(s.first.n, sizeof(CREATED) - 1);
    bytes_fini(&chunk);
    fe_sse_fini(&s);
}

static void chat_failure(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();

    (void)state;
    fe_sse_init(&s, MSG_STREAM_CHAT);
    PASS(&s, "data: {}\r\n\r\n", 0);
    assert_true(fe_sse_is_at_boundary(&s));
    assert_int_equal(fe_sse_failure(&s, &e, &out), 0);
    assert_sv_equal(sv_from(out.p, out.n), "data: {\"error\":{\"message\":\"lost "
                                           "\\\"it\\\"\",\"type\":\"server_error\",\"param\":null,"
                                           "\"code\":\"worker_lost\"}}\n\n");
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void none_is_cut(void **state)
{
    struct fe_sse s;
    struct bytes out = {0};
    struct err e = lost();

    (void)state;
    fe_sse_init(&s, MSG_STREAM_NONE);
    PASS(&s, "abc\n\n", 0);
    assert_false(fe_sse_is_at_boundary(&s));
    assert_int_not_equal(fe_sse_failure(&s, &e, &out), 0);
    assert_int_equal(out.n, 0);
    bytes_fini(&out);
    fe_sse_fini(&s);
}

static void boundaries(void **state)
{
    static const struct {
        const char *parts[4];
        bool at;
    } rows[] = {
        {{""}, true},
        {{"a"}, false},
        {{"a\n"}, false},
        {{"a\n", "\n"}, true},
        {{"a\n\n", "b"}, false},
        {{"a\r\n\r\n"}, true},
        {{"a\r", "\n\r", "\n"}, true},
        {{"\n", "\n"}, true},
        {{"a\n\r\n"}, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fe_sse s;

        fe_sse_init(&s, MSG_STREAM_CHAT);
        for (size_t k = 0; k < 4 && rows[i].parts[k] != NULL; k++) {
            PASS(&s, rows[i].parts[k], 0);
        }
        assert_int_equal(fe_sse_is_at_boundary(&s), rows[i].at);
        fe_sse_fini(&s);
    }
}

static void sequences(void **state)
{
    (void)state;
    assert_int_equal(fe_sse_next_sequence(SV_LIT("")), 0);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\":")), 0);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\":5")), 6);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\": 5,")), 6);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\":5 \"sequence_number\":8,")),
                     9);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\":5 \"sequence_number\":x")),
                     6);
    assert_int_equal(fe_sse_next_sequence(SV_LIT("\"sequence_number\":99999999999")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responses_failure),
        cmocka_unit_test(sequence_given_by_the_worker_wins),
        cmocka_unit_test(comments_do_not_hide_the_sequence),
        cmocka_unit_test(nothing_usable_gives_a_minimal_response),
        cmocka_unit_test(huge_first_event_is_not_kept),
        cmocka_unit_test(small_first_event_in_a_large_chunk_is_kept),
        cmocka_unit_test(chat_failure),
        cmocka_unit_test(none_is_cut),
        cmocka_unit_test(boundaries),
        cmocka_unit_test(sequences),
    };

    return id_init() != 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
