#include "../support/unit.h"

#include "wk_headers.h"
#include "wk_retry.h"

#define NOW 1785750000000ULL /* Mon, 03 Aug 2026 09:40:00 GMT */

struct row {
    int rc;
    int status;
    const char *headers;
    unsigned tries;
    bool is_repeatable;
    bool has_other;
    uint32_t left_ms;
    bool want;
    uint32_t lo, hi;
};

static void test_table(void **state)
{
    static const struct row rows[] = {
        /* statuses */
        {0, 200, "", 1, true, false, 60000, false, 0, 0},
        {0, 400, "", 1, true, false, 60000, false, 0, 0},
        {0, 401, "", 1, true, false, 60000, false, 0, 0},
        {0, 404, "", 1, true, false, 60000, false, 0, 0},
        {0, 408, "", 1, true, false, 60000, true, 375, 500},
        {0, 409, "", 1, true, false, 60000, true, 375, 500},
        {0, 413, "", 1, true, false, 60000, false, 0, 0},
        {0, 429, "", 1, true, false, 60000, true, 375, 500},
        {0, 500, "", 2, true, false, 60000, true, 750, 1000},
        {0, 503, "", 1, true, false, 60000, true, 375, 500},
        {0, 529, "", 1, true, false, 60000, true, 375, 500},
        /* tries are over, time is over */
        {0, 500, "", 3, true, false, 60000, false, 0, 0},
        {0, 500, "", 1, true, false, 100, false, 0, 0},
        /* the provider says when */
        {0, 429, "Retry-After: 2\r\n", 1, true, false, 60000, true, 2000, 2000},
        {0, 429, "retry-after: 0.5\r\n", 1, true, false, 60000, true, 500, 500},
        {0, 429, "retry-after: 0\r\n", 1, true, false, 60000, true, 0, 0},
        {0, 429, "retry-after: 7\r\nretry-after-ms: 30\r\n", 1, true, false, 60000, true, 30, 30},
        {0, 429, "retry-after: 61\r\n", 1, true, false, UINT32_MAX, false, 0, 0},
        {0, 429, "retry-after: 99999999999999999999\r\n", 1, true, false, 60000, true, 375, 500},
        {0, 429, "retry-after: 5\r\n", 1, true, false, 4000, false, 0, 0},
        {0, 429, "retry-after: nonsense\r\n", 1, true, false, 60000, true, 375, 500},
        {0, 503, "retry-after: Mon, 03 Aug 2026 09:40:03 GMT\r\n", 1, true, false, 60000, true,
         3000, 3000},
        {0, 503, "retry-after: Mon, 03 Aug 2025 09:40:03 GMT\r\n", 1, true, false, 60000, true, 0,
         0},
        {0, 503, "retry-after: Mon, 03 Xyz 2026 09:40:03 GMT\r\n", 1, true, false, 60000, true, 375,
         500},
        /* another deployment needs no wait */
        {0, 429, "retry-after: 61\r\n", 1, true, true, 60000, true, 0, 0},
        {ERR_UPSTREAM_CONNECT, 0, "", 1, true, true, 60000, true, 0, 0},
        /* its own word wins */
        {0, 500, "x-should-retry: false\r\n", 1, true, false, 60000, false, 0, 0},
        {0, 400, "X-Should-Retry: true\r\n", 1, true, false, 60000, true, 375, 500},
        {0, 200, "x-should-retry: true\r\n", 1, true, false, 60000, false, 0, 0},
        /* transport */
        {ERR_UPSTREAM_CONNECT, 0, "", 1, true, false, 60000, true, 375, 500},
        {ERR_UPSTREAM_CUT, 0, "", 1, true, false, 60000, true, 375, 500},
        {ERR_UPSTREAM_TIMEOUT, 0, "", 1, true, false, 60000, true, 375, 500},
        {ERR_UPSTREAM_BAD, 0, "", 1, true, false, 60000, false, 0, 0},
        /* calls with effects */
        {ERR_UPSTREAM_CONNECT, 0, "", 1, false, false, 60000, true, 375, 500},
        {ERR_UPSTREAM_CUT, 0, "", 1, false, false, 60000, false, 0, 0},
        {ERR_UPSTREAM_TIMEOUT, 0, "", 1, false, false, 60000, false, 0, 0},
        {0, 500, "", 1, false, false, 60000, false, 0, 0},
        {0, 429, "", 1, false, false, 60000, true, 375, 500},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        for (uint32_t random = 0; random < 300; random += 37) {
            struct wk_retry_in in = {.rc = r->rc,
                                     .status = r->status,
                                     .headers = sv_of(r->headers),
                                     .tries = r->tries,
                                     .tries_max = 3,
                                     .left_ms = r->left_ms,
                                     .is_repeatable = r->is_repeatable,
                                     .has_other = r->has_other,
                                     .random = random,
                                     .now_unix_ms = NOW};
            uint32_t delay = 0;
            bool have = wk_retry_decide(&in, &delay);
            if (have != r->want || (have && (delay < r->lo || delay > r->hi))) {
                fail_msg("row %zu: %d, delay %u", i, have, delay);
            }
        }
    }
}

static void test_back_off_is_bounded(void **state)
{
    (void)state;
    for (unsigned tries = 1; tries < 50; tries++) {
        struct wk_retry_in in = {.status = 500,
                                 .tries = tries,
                                 .tries_max = 100,
                                 .left_ms = UINT32_MAX,
                                 .is_repeatable = true};
        uint32_t delay = 0;
        assert_true(wk_retry_decide(&in, &delay));
        assert_true(delay <= WK_RETRY_CAP_MS);
        assert_true(delay >= (tries < 5 ? WK_RETRY_BASE_MS << (tries - 1) : WK_RETRY_CAP_MS));
    }
}

static void test_filter(void **state)
{
    static const char in[] =
        "Content-Type: application/json\r\n"
        "Content-Length: 12\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, X-Hop\r\n"
        "X-Hop: 1\r\nX-Request-Id: req_9\r\nSet-Cookie: a=b\r\nCF-Ray: 1\r\n"
        "OpenAI-Organization: org\r\nx-ratelimit-remaining-tokens:  5 \r\nalt-svc: h3\r\n"
        "bad name: x\r\nnocolon\r\nx-evil: a\x01"
        "b\r\nX-Provider-Request-Id: forged\r\n"
        "Retry-After: 3";
    struct bytes b = {0};
    uint64_t n;

    (void)state;
    assert_int_equal(wk_headers_filter(sv_of(in), &b), 0);
    assert_sv_equal(sv_from(b.p, b.n),
                    "content-type: application/json\r\nx-provider-request-id: req_9\r\n"
                    "x-ratelimit-remaining-tokens: 5\r\nretry-after: 3\r\n");
    bytes_fini(&b);
    assert_true(wk_headers_length(sv_of(in), &n));
    assert_int_equal(n, 12);
    assert_false(wk_headers_length(SV_LIT("content-length: 1x\r\n"), &n));
    assert_false(wk_headers_length(SV_LIT("content-type: a\r\n"), &n));
    assert_true(
        wk_headers_is_event_stream(SV_LIT("Content-Type: Text/Event-Stream; charset=utf-8\r\n")));
    assert_false(wk_headers_is_event_stream(SV_LIT("Content-Type: application/json\r\n")));
}

static void test_forwarded(void **state)
{
    (void)state;
    assert_true(wk_headers_is_forwarded(SV_LIT("OpenAI-Beta")));
    assert_true(wk_headers_is_forwarded(SV_LIT("traceparent")));
    assert_false(wk_headers_is_forwarded(SV_LIT("authorization")));
    assert_false(wk_headers_is_forwarded(SV_LIT("openai-organization")));
    assert_false(wk_headers_is_forwarded(SV_LIT("x-stainless-lang")));
    assert_false(wk_headers_is_forwarded(SV_LIT("cookie")));
    assert_false(wk_headers_is_forwarded(SV_LIT("host")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_back_off_is_bounded),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_forwarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
