#include "../support/unit.h"

#include <stdio.h>

#include "base/err.h"

static void test_views(void **state)
{
    char dst[4];
    const struct str_view none = {NULL, 0};

    (void)state;
    assert_true(sv_eq(SV_LIT("ab"), sv_of("ab")));
    assert_false(sv_eq(SV_LIT("ab"), SV_LIT("aB")));
    assert_false(sv_eq(SV_LIT("ab"), SV_LIT("abc")));
    assert_true(sv_eq(none, SV_LIT("")));
    assert_true(sv_eq_nocase(SV_LIT("Content-Type"), SV_LIT("cONTENT-tYPE")));
    assert_false(sv_eq_nocase(SV_LIT("["), SV_LIT("{"))); /* 0x20 apart but no letters */
    assert_false(sv_eq_nocase(SV_LIT("\xC4"), SV_LIT("\xE4")));
    assert_true(sv_starts(SV_LIT("/v1/x"), SV_LIT("/v1")));
    assert_true(sv_starts(none, none));
    assert_false(sv_starts(SV_LIT("/v"), SV_LIT("/v1")));
    assert_sv_equal(sv_trim(SV_LIT(" \t a b\t ")), "a b");
    assert_sv_equal(sv_trim(SV_LIT(" \t ")), "");
    assert_sv_equal(sv_trim(SV_LIT("\na")), "\na"); /* only blanks go */
    assert_int_equal(sv_find(SV_LIT("a:b:c"), ':'), 1);
    assert_int_equal(sv_find(SV_LIT("abc"), ':'), 3);
    assert_int_equal(sv_find(none, ':'), 0);
    assert_true(sv_copy(dst, sizeof(dst), SV_LIT("abc")));
    assert_string_equal(dst, "abc");
    assert_false(sv_copy(dst, sizeof(dst), SV_LIT("abcd")));
    assert_string_equal(dst, "abc");
    assert_true(sv_copy(dst, 1, none));
    assert_false(sv_copy(dst, 0, none));
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "1a", "18446744073709551616", "99999999999999999999999"};
    uint64_t v = 7;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(sv_to_u64(sv_of(bad[i]), UINT64_MAX, &v));
        assert_int_equal(v, 7);
    }
    assert_true(sv_to_u64(SV_LIT("18446744073709551615"), UINT64_MAX, &v));
    assert_true(v == UINT64_MAX);
    assert_true(sv_to_u64(SV_LIT("007"), 7, &v));
    assert_int_equal(v, 7);
    assert_false(sv_to_u64(SV_LIT("8"), 7, &v));
}

static void test_hex(void **state)
{
    char text[9];
    unsigned char raw[4] = {0x00, 0x9f, 0xA0, 0xff};
    unsigned char back[4] = {1, 2, 3, 4};

    (void)state;
    hex_encode(text, raw, 4);
    assert_string_equal(text, "009fa0ff");
    assert_false(hex_decode(back, 4, SV_LIT("009fa0f")));
    assert_false(hex_decode(back, 4, SV_LIT("009fa0fff")));
    assert_false(hex_decode(back, 4, SV_LIT("009fa0fg")));
    assert_memory_equal(back, "\1\2\3\4", 4); /* untouched by failures */
    assert_true(hex_decode(back, 4, SV_LIT("009FA0fF")));
    assert_memory_equal(back, raw, 4);
    assert_true(hex_decode(back, 0, SV_LIT("")));
}

static void test_bytes_building(void **state)
{
    struct bytes b = {0};

    (void)state;
    assert_int_equal(bytes_put(&b, NULL, 0), 0);
    bytes_put_str(&b, "a=");
    bytes_put_u64(&b, 0);
    bytes_put_char(&b, ' ');
    bytes_put_u64(&b, UINT64_MAX);
    bytes_put_sv(&b, SV_LIT(" x "));
    bytes_put_hex(&b, "\x01\xab", 2);
    assert_int_equal(bytes_printf(&b, " %d-%s", -5, "end"), 0);
    assert_string_equal(b.p, "a=0 18446744073709551615 x 01ab -5-end");
    assert_int_equal(b.n, strlen(b.p));
    bytes_drop(&b, 2);
    assert_string_equal(b.p, "0 18446744073709551615 x 01ab -5-end");
    bytes_drop(&b, 1000);
    assert_int_equal(b.n, 0);
    assert_string_equal(b.p, "");
    bytes_put_str(&b, "kept storage");
    bytes_reset(&b);
    assert_string_equal(b.p, "");
    bytes_fini(&b);
    bytes_fini(&b); /* twice is legal */
    bytes_drop(&b, 5);
}

static void test_bytes_growth(void **state)
{
    struct bytes b;

    (void)state;
    bytes_init(&b, 100000);
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(bytes_printf(&b, "%u,", i % 10), 0);
    }
    assert_int_equal(b.n, 20000);
    assert_int_equal(b.p[b.n], '\0');
    assert_memory_equal(b.p + 10, "5,6,", 4);
    assert_int_equal(bytes_reserve(&b, 5000), 0);
    assert_true(b.cap > b.n + 5000);
    bytes_fini(&b);
}

static void test_bytes_cap(void **state)
{
    struct bytes b;

    (void)state;
    bytes_init(&b, 10);
    assert_int_equal(bytes_put_str(&b, "0123456789"), 0); /* exactly the cap */
    assert_int_equal(bytes_put_char(&b, 'x'), ERR_LIMIT);
    assert_int_equal(bytes_put(&b, NULL, 0), ERR_LIMIT); /* it sticks */
    assert_int_equal(b.rc, ERR_LIMIT);
    assert_string_equal(b.p, "0123456789");
    bytes_reset(&b);
    assert_int_equal(bytes_printf(&b, "%s", "01234567890"), ERR_LIMIT);
    assert_int_equal(b.n, 0);
    assert_string_equal(b.p, "");
    bytes_reset(&b);
    assert_int_equal(bytes_put_hex(&b, "123456", 6), ERR_LIMIT);
    bytes_reset(&b);
    assert_int_equal(bytes_reserve(&b, SIZE_MAX), ERR_LIMIT);
    bytes_fini(&b);
    assert_int_equal(b.cap_max, 10);
    assert_int_equal(bytes_put_hex(&b, "", SIZE_MAX), ERR_LIMIT);
}

static void build(void *arg)
{
    struct bytes b = {0};
    int rc;

    (void)arg;
    bytes_put_str(&b, "abc");
    for (int i = 0; i < 100; i++) {
        bytes_printf(&b, "%d ", i);
    }
    rc = bytes_put_char(&b, 'x');
    assert_true(rc == 0 || rc == ERR_NOMEM);
    assert_int_equal(b.rc, rc);
    assert_true(b.p == NULL || strlen(b.p) == b.n);
    bytes_fini(&b);
}

static void test_bytes_out_of_memory(void **state)
{
    (void)state;
    assert_true(unit_fail_each(build, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_bytes_building),
        cmocka_unit_test(test_bytes_growth),
        cmocka_unit_test(test_bytes_cap),
        cmocka_unit_test(test_bytes_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
