#include "../support/unit.h"

#include <pthread.h>

#include "base/buf.h"
#include "base/err.h"

static void test_copy_and_views(void **state)
{
    struct buf *b = buf_copy("hello", 5);
    struct buf *empty = buf_copy(NULL, 0);

    (void)state;
    assert_sv_equal(buf_view(b), "hello");
    assert_int_equal(buf_view(empty).n, 0);
    assert_int_equal(buf_view(NULL).n, 0);
    assert_null(buf_view(NULL).p);
    assert_ptr_equal(buf_ref(b), b);
    buf_unref(b);
    assert_sv_equal(buf_view(b), "hello");
    buf_unref(b);
    buf_unref(empty);
    buf_unref(NULL);
}

static void test_new_is_filled_by_the_caller(void **state)
{
    char *p = NULL;
    struct buf *b = buf_new(3, &p);
    char *none;

    (void)state;
    memcpy(p, "xyz", 3);
    assert_sv_equal(buf_view(b), "xyz");
    buf_unref(b);
    assert_null(buf_new(SIZE_MAX, &none));
}

static void test_from_bytes_moves(void **state)
{
    struct bytes x = {0};
    struct bytes none = {0};
    struct buf *b;
    const char *p;

    (void)state;
    bytes_put_str(&x, "moved");
    p = x.p;
    b = buf_from_bytes(&x);
    assert_ptr_equal(b->p, p);
    assert_null(x.p);
    assert_int_equal(x.n + x.cap, 0);
    bytes_put_str(&x, "usable again");
    bytes_fini(&x);
    buf_unref(b);
    b = buf_from_bytes(&none);
    assert_int_equal(buf_view(b).n, 0);
    buf_unref(b);
}

static int freed;

static void on_free(struct buf *b)
{
    assert_string_equal(b->foreign, "ctx");
    freed++;
}

static void test_wrap_frees_once(void **state)
{
    static char ctx[] = "ctx";
    struct buf *b = buf_wrap("data", 4, on_free, ctx);

    (void)state;
    freed = 0;
    buf_ref(b);
    buf_unref(b);
    assert_int_equal(freed, 0);
    buf_unref(b);
    assert_int_equal(freed, 1);
}

static void allocate(void *arg)
{
    struct bytes x = {0};
    struct buf *b;

    (void)arg;
    buf_unref(buf_copy("abc", 3));
    if (bytes_put_str(&x, "y") == 0 && (b = buf_from_bytes(&x)) != NULL) {
        buf_unref(b);
    }
    bytes_fini(&x); /* a failed move leaves the bytes with us */
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(unit_fail_each(allocate, NULL) == 4);
}

#define ROUNDS 20000

static void *share(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        buf_unref(buf_ref(arg));
    }
    buf_unref(arg);
    return NULL;
}

static void test_threads_share(void **state)
{
    unsigned long before = mem_live();
    struct buf *b = buf_copy("shared", 6);
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, share, buf_ref(b)), 0);
    }
    buf_unref(b);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_and_views),   cmocka_unit_test(test_new_is_filled_by_the_caller),
        cmocka_unit_test(test_from_bytes_moves), cmocka_unit_test(test_wrap_frees_once),
        cmocka_unit_test(test_out_of_memory),    cmocka_unit_test(test_threads_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
