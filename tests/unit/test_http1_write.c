#include "../support/unit.h"

#include "http1_write.h"

static struct bytes out;

static const char *text(void)
{
    return out.p != NULL ? out.p : "";
}

static int reset(void **state)
{
    (void)state;
    bytes_fini(&out);
    return 0;
}

static void head_with_length(void **state)
{
    struct http1_head h = {.status = 200,
                           .minor = 1,
                           .date = "D",
                           .request_id = "req_1",
                           .content_type = "application/json",
                           .headers = SV_LIT("x-a: b\r\n"),
                           .framing = HTTP1_LENGTH,
                           .length = 12};

    (void)state;
    assert_int_equal(http1_write_head(&out, &h), 0);
    assert_string_equal(text(), "HTTP/1.1 200 OK\r\ndate: D\r\ncontent-type: application/json\r\n"
                                "content-length: 12\r\nx-request-id: req_1\r\nx-a: b\r\n\r\n");
}

static void head_says_how_it_ends(void **state)
{
    struct http1_head h = {.status = 200, .minor = 1, .date = "D", .framing = HTTP1_CHUNKED};

    (void)state;
    http1_write_head(&out, &h);
    assert_string_equal(text(), "HTTP/1.1 200 OK\r\ndate: D\r\ntransfer-encoding: chunked\r\n\r\n");
    bytes_reset(&out);
    h.is_close = true;
    h.framing = HTTP1_NO_BODY;
    h.status = 204;
    http1_write_head(&out, &h);
    assert_string_equal(text(), "HTTP/1.1 204 No Content\r\ndate: D\r\nconnection: close\r\n\r\n");
    bytes_reset(&out);
    h.is_close = false;
    h.framing = HTTP1_UNTIL_CLOSE;
    h.status = 200;
    h.minor = 0;
    http1_write_head(&out, &h);
    assert_string_equal(text(), "HTTP/1.1 200 OK\r\ndate: D\r\nconnection: close\r\n\r\n");
    bytes_reset(&out);
    h.framing = HTTP1_LENGTH;
    http1_write_head(&out, &h);
    assert_string_equal(
        text(),
        "HTTP/1.1 200 OK\r\ndate: D\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n");
}

static void date(void **state)
{
    char d[HTTP1_DATE_CAP];

    (void)state;
    http1_date(d, 784111777000U);
    assert_string_equal(d, "Sun, 06 Nov 1994 08:49:37 GMT");
    http1_date(d, UINT64_MAX); /* no such year; it must still fit */
    assert_true(strlen(d) < sizeof(d));
}

static void chunk_heads(void **state)
{
    char d[HTTP1_CHUNK_HEAD_MAX];

    (void)state;
    assert_int_equal(http1_chunk_head(d, 0), 3);
    assert_memory_equal(d, "0\r\n", 3);
    assert_int_equal(http1_chunk_head(d, 0x1a3f), 6);
    assert_memory_equal(d, "1a3f\r\n", 6);
    assert_int_equal(http1_chunk_head(d, UINT64_MAX), 18);
    assert_memory_equal(d, "ffffffffffffffff\r\n", 18);
}

static void error_bodies_have_all_keys(void **state)
{
    struct err e = {0};

    (void)state;
    err_set_param(&e, ERR_MODEL_NOT_FOUND, "model", "no \"x\"");
    http1_error_body(&out, &e);
    assert_string_equal(
        text(), "{\"error\":{\"message\":\"no \\\"x\\\"\",\"type\":\"invalid_request_error\","
                "\"param\":\"model\",\"code\":\"model_not_found\"}}");
    bytes_reset(&out);
    e = (struct err){.code = ERR_INTERNAL};
    http1_error_body(&out, &e);
    assert_string_equal(text(),
                        "{\"error\":{\"message\":\"internal error\",\"type\":\"server_error\","
                        "\"param\":null,\"code\":null}}");
}

static void retry_after_is_whole_and_short(void **state)
{
    (void)state;
    assert_int_equal(http1_retry_after_s(0), 1);
    assert_int_equal(http1_retry_after_s(1), 1);
    assert_int_equal(http1_retry_after_s(1001), 2);
    assert_int_equal(http1_retry_after_s(59000), 59);
    assert_int_equal(http1_retry_after_s(59001), 59);
    assert_int_equal(http1_retry_after_s(UINT32_MAX), 59);
}

static void error_headers(void **state)
{
    static const struct {
        int code;
        unsigned retry_ms;
        const char *want;
    } rows[] = {
        {ERR_RATE_LIMIT, 2500, "retry-after: 3\r\n"},
        {ERR_QUEUE_FULL, 0, "retry-after: 1\r\n"},
        {ERR_INVALID, 0, ""},
        {ERR_UNAUTHORIZED, 0, "www-authenticate: Bearer\r\n"},
        {ERR_INTERNAL, 0, "x-should-retry: false\r\n"}, /* a 500 that would only fail again */
        {ERR_UPSTREAM_BAD, 0, "x-should-retry: false\r\n"},
        {ERR_UPSTREAM_CONNECT, 0, ""},
        {ERR_HTTP_VERSION, 0, "x-should-retry: false\r\n"},
        {ERR_WORKER_LOST, 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {.code = rows[i].code, .retry_after_ms = rows[i].retry_ms};

        bytes_reset(&out);
        http1_error_headers(&out, &e);
        assert_sv_equal(sv_from(out.p, out.n), rows[i].want);
    }
}

static void every_status_of_the_table_has_a_reason(void **state)
{
    (void)state;
    for (int i = 1; i <= ERR_ORD_COUNT; i++) {
        int http = err_info(-i)->http;

        assert_true(http == 499 || http1_reason(http)[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(head_with_length, reset),
        cmocka_unit_test_teardown(head_says_how_it_ends, reset),
        cmocka_unit_test(date),
        cmocka_unit_test(chunk_heads),
        cmocka_unit_test_teardown(error_bodies_have_all_keys, reset),
        cmocka_unit_test(retry_after_is_whole_and_short),
        cmocka_unit_test_teardown(error_headers, reset),
        cmocka_unit_test(every_status_of_the_table_has_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
