#include "../support/unit.h"

#include "base/list.h"

struct item {
    int n;
    struct list_link link;
};

static int number_of(struct list_link *k)
{
    return k != NULL ? CONTAINER_OF(k, struct item, link)->n : -1;
}

static void test_list(void **state)
{
    struct list l;
    struct item items[4] = {{0, {0}}, {1, {0}}, {2, {0}}, {3, {0}}};
    int expected = 1;

    (void)state;
    list_init(&l);
    assert_true(list_is_empty(&l));
    assert_null(list_first(&l));
    assert_null(list_last(&l));
    assert_false(list_link_is_in(&items[0].link));
    list_push_back(&l, &items[2].link);
    list_push_back(&l, &items[3].link);
    list_push_front(&l, &items[0].link);
    list_insert_before(&l, &items[2].link, &items[1].link);
    assert_int_equal(l.count, 4);
    assert_int_equal(number_of(list_first(&l)), 0);
    assert_int_equal(number_of(list_last(&l)), 3);
    list_remove(&l, &items[0].link);
    assert_false(list_link_is_in(&items[0].link));
    LIST_FOREACH_SAFE (k, tmp, &l) {
        assert_int_equal(number_of(k), expected++);
        list_remove(&l, k);
    }
    assert_int_equal(expected, 4);
    assert_true(list_is_empty(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
