#include "../support/unit.h"

static void test_live_counts(void **state)
{
    unsigned long before = mem_live();
    void *a = mem_alloc(0);
    void *b = mem_zalloc(0);
    char *c = mem_strdup("abc");
    char *d = mem_strndup("abcdef", 2);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_string_equal(c, "abc");
    assert_string_equal(d, "ab");
    assert_int_equal(mem_live(), before + 4);
    a = mem_realloc(a, 100);
    assert_int_equal(mem_live(), before + 4);
    mem_free(mem_realloc(NULL, 10));
    mem_free(NULL);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    assert_int_equal(mem_live(), before);
}

static void test_zeroed_and_checked_product(void **state)
{
    unsigned char *p = mem_calloc(10, 10);
    unsigned long before = mem_live();

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p[i], 0);
    }
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_strndup("x", SIZE_MAX));
    assert_int_equal(mem_live(), before);
    mem_free(p);
}

static void test_fail_nth(void **state)
{
    void *a;
    void *b;

    (void)state;
    assert_int_equal(mem_fail_nth(1), 0);
    a = mem_alloc(1);
    b = mem_alloc(1);
    assert_non_null(a);
    assert_null(b);
    b = mem_alloc(1); /* once only */
    assert_non_null(b);
    assert_int_equal(mem_fail_nth(0), 1);
    assert_null(mem_realloc(a, 2)); /* `a` is still ours */
    assert_int_equal(mem_fail_nth(0), 1);
    assert_null(mem_calloc(1, 1));
    assert_int_equal(mem_fail_nth(5), 1);
    assert_int_equal(mem_fail_nth(-1), 0);
    mem_free(a);
    mem_free(b);
}

static void test_wipe(void **state)
{
    char text[] = "secret";

    (void)state;
    mem_wipe(text, 3);
    assert_memory_equal(text, "\0\0\0ret", 6);
    mem_wipe(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_counts),
        cmocka_unit_test(test_zeroed_and_checked_product),
        cmocka_unit_test(test_fail_nth),
        cmocka_unit_test(test_wipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
