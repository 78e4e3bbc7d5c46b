/* Output bytes become whole UTF-8 characters, however they are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sb_local_text.h"

/* Everything put in pieces of `step` bytes, joined. */
static void feed(const char *in, size_t n, size_t step, struct bytes *all)
{
    struct sb_local_text t = {{0}, 0};
    struct bytes scratch = {0};
    struct str_view piece;

    bytes_reset(all);
    for (size_t i = 0; i < n; i += step) {
        size_t m = n - i < step ? n - i : step;

        assert_int_equal(sb_local_text_put(&t, (struct str_view){in + i, m}, &scratch, &piece), 0);
        (void)bytes_put_sv(all, piece);
    }
    (void)bytes_put_sv(all, sb_local_text_end(&t));
    bytes_fini(&scratch);
}

static void check(const char *in, size_t n, const char *want)
{
    struct bytes all = {0};

    for (size_t step = 1; step <= n; step++) {
        feed(in, n, step, &all);
        assert_int_equal(all.n, strlen(want));
        assert_memory_equal(all.p, want, all.n);
    }
    bytes_fini(&all);
}

#define CHECK(in, want) check(in, sizeof(in) - 1, want)
#define BAD             "\xEF\xBF\xBD"

static void test_good(void **state)
{
    (void)state;
    CHECK("plain", "plain");
    CHECK("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\x89!", "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\x89!");
    CHECK("\xF4\x8F\xBF\xBF\xED\x9F\xBF", "\xF4\x8F\xBF\xBF\xED\x9F\xBF");
}

static void test_bad(void **state)
{
    (void)state;
    CHECK("a\xFFz", "a" BAD "z");
    CHECK("\x80", BAD);
    CHECK("\xC0\xAF", BAD BAD);         /* overlong */
    CHECK("\xED\xA0\x80", BAD BAD BAD); /* surrogate */
    CHECK("\xF4\x90\x80\x80", BAD BAD BAD BAD);
}

static void test_cut(void **state)
{
    struct sb_local_text t = {{0}, 0};
    struct bytes scratch = {0};
    struct str_view piece;

    (void)state;
    assert_int_equal(sb_local_text_put(&t, SV_LIT("ab\xE2\x82"), &scratch, &piece), 0);
    assert_int_equal(piece.n, 2); /* the started character waits */
    assert_int_equal(t.tail_len, 2);
    assert_int_equal(sb_local_text_put(&t, SV_LIT("\xAC"), &scratch, &piece), 0);
    assert_int_equal(piece.n, 3);
    assert_int_equal(sb_local_text_put(&t, SV_LIT("\xF0\x9F"), &scratch, &piece), 0);
    assert_int_equal(piece.n, 0);
    piece = sb_local_text_end(&t);
    assert_int_equal(piece.n, 3);
    assert_int_equal(sb_local_text_end(&t).n, 0);
    bytes_fini(&scratch);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
