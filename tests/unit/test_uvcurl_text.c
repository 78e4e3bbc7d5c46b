#include "io/uvcurl.h"

#include "io/uvcurl_priv.h"
#include "io_test.h"

static void test_header(void **state)
{
    struct str_view head =
        SV_LIT("Content-Type: text/plain \r\nX-Empty:\r\nretry-after:5\r\nnocolon\r\nLast: v");
    struct str_view v;

    (void)state;
    assert_true(uvcurl_header(head, "content-type", &v));
    assert_true(sv_eq(v, SV_LIT("text/plain")));
    assert_true(uvcurl_header(head, "X-EMPTY", &v));
    assert_int_equal(v.n, 0);
    assert_true(uvcurl_header(head, "Retry-After", &v));
    assert_true(sv_eq(v, SV_LIT("5")));
    assert_true(uvcurl_header(head, "last", &v));
    assert_true(sv_eq(v, SV_LIT("v")));
    assert_false(uvcurl_header(head, "nocolon", &v));
    assert_false(uvcurl_header(head, "content", &v));
    assert_false(uvcurl_header((struct str_view){NULL, 0}, "a", &v));
    assert_false(uvcurl_header(SV_LIT("\n\n\n"), "", &v));
}

static void test_status_line(void **state)
{
    (void)state;
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/1.1 200 OK\r\n")), 200);
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/2 404\r\n")), 404);
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/1.1 204")), 204);
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/1.1 20")), 0);
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/1.1 2x0 ")), 0);
    assert_int_equal(uvcurl_status_line(SV_LIT("HTTP/1.1")), 0);
    assert_int_equal(uvcurl_status_line(SV_LIT("Http-Thing: 200 ")), 0);
    assert_int_equal(uvcurl_status_line((struct str_view){NULL, 0}), 0);
}

static void test_head_put(void **state)
{
    struct bytes b;

    (void)state;
    bytes_init(&b, 100);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT(" folded over nothing\r\n")), 0);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT("A: 1\r\n")), 0);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT("\t 2\n")), 0);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT("nothing\r\n")), 0);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT(": no name\r\n")), 0);
    assert_int_equal(uvcurl_head_put(&b, SV_LIT("B:3\n")), 0);
    assert_string_equal(b.p, "A: 1 2\r\nB:3\r\n");
    for (int i = 0; i < 20; i++) {
        (void)uvcurl_head_put(&b, SV_LIT("Long: 0123456789\r\n"));
    }
    assert_int_equal(b.rc, ERR_LIMIT);
    bytes_fini(&b);
}

static void test_lines(void **state)
{
    (void)state;
    assert_true(uvcurl_line_is_valid(SV_LIT("A: b\tc")));
    assert_true(uvcurl_line_is_valid(SV_LIT("A:")));
    assert_true(uvcurl_line_is_valid(SV_LIT("A: \xc3\xa4")));
    assert_false(uvcurl_line_is_valid(SV_LIT("")));
    assert_false(uvcurl_line_is_valid(SV_LIT("A")));
    assert_false(uvcurl_line_is_valid(SV_LIT(": b")));
    assert_false(uvcurl_line_is_valid(SV_LIT("A : b")));
    assert_false(uvcurl_line_is_valid(SV_LIT("A: b\r\nC: d")));
    assert_false(uvcurl_line_is_valid(SV_LIT("A: b\0")));
    assert_true(uvcurl_line_is_ours(SV_LIT("content-LENGTH: 5")));
    assert_true(uvcurl_line_is_ours(SV_LIT("Transfer-Encoding:chunked")));
    assert_false(uvcurl_line_is_ours(SV_LIT("Content-Length2: 5")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_status_line),
        cmocka_unit_test(test_head_put),
        cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
