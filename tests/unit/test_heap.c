#include "../support/unit.h"

#include "../support/capture.h"
#include "base/err.h"
#include "base/heap.h"

#define NODES 2000

static uint32_t seed = 12345;

static uint32_t next_random(void)
{
    seed = seed * 1664525U + 1013904223U;
    return seed >> 8;
}

static void test_order_and_ties(void **state)
{
    struct heap h = {0};
    struct heap_node n[5] = {{0}};
    const uint64_t keys[5] = {30, 10, 20, 10, 10};
    const int order[5] = {1, 3, 4, 2, 0};

    (void)state;
    assert_null(heap_min(&h));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(heap_put(&h, &n[i], keys[i]), 0);
    }
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(heap_min(&h), &n[order[i]]);
        heap_remove(&h, &n[order[i]]);
        heap_remove(&h, &n[order[i]]); /* not in any more: nothing happens */
    }
    assert_null(heap_min(&h));
    heap_fini(&h);
}

static void test_put_again_moves(void **state)
{
    struct heap h = {0};
    struct heap_node a = {0};
    struct heap_node b = {0};

    (void)state;
    heap_put(&h, &a, 5);
    heap_put(&h, &b, 6);
    heap_put(&h, &a, 7);
    assert_int_equal(h.count, 2);
    assert_ptr_equal(heap_min(&h), &b);
    heap_put(&h, &a, 1);
    assert_ptr_equal(heap_min(&h), &a);
    heap_put(&h, &b, 1); /* a tie goes to the older entry */
    assert_ptr_equal(heap_min(&h), &a);
    heap_put(&h, &a, 1); /* which is younger after it was put again */
    assert_ptr_equal(heap_min(&h), &b);
    heap_fini(&h);
    assert_int_equal(a.index1, 0); /* fini leaves no node that believes to be in */
    assert_int_equal(b.index1, 0);
}

static void test_random_operations(void **state)
{
    static struct heap_node nodes[NODES];
    struct heap h = {0};
    size_t in = 0;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        struct heap_node *n = &nodes[next_random() % NODES];

        if (next_random() % 3 == 0) {
            in -= n->index1 != 0 ? 1 : 0;
            heap_remove(&h, n);
        } else {
            in += n->index1 == 0 ? 1 : 0;
            assert_int_equal(heap_put(&h, n, next_random() % 100), 0);
        }
        assert_int_equal(h.count, in);
    }
    for (uint64_t last_key = 0, last_seq = 0; heap_min(&h) != NULL;) {
        struct heap_node *n = heap_min(&h);

        assert_true(n->key > last_key || (n->key == last_key && n->seq >= last_seq));
        last_key = n->key;
        last_seq = n->seq;
        heap_remove(&h, n);
        in--;
    }
    assert_int_equal(in, 0);
    heap_fini(&h);
}

static void grow(void *arg)
{
    struct heap h = {0};
    struct heap_node n[40] = {{0}};
    size_t in = 0;

    (void)arg;
    for (size_t i = 0; i < COUNT_OF(n); i++) {
        int rc = heap_put(&h, &n[i], 100 - i);

        assert_true(rc == 0 || rc == ERR_NOMEM);
        assert_int_equal(n[i].index1 != 0, rc == 0);
        in += rc == 0 ? 1 : 0;
    }
    assert_int_equal(h.count, in);
    heap_fini(&h);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_int_equal(unit_fail_each(grow, NULL), 4); /* 16, 32, 64 slots and the clean run */
}

static void use_foreign_node(void *arg)
{
    struct heap a = {0};
    struct heap b = {0};
    struct heap_node n = {0};

    (void)arg;
    (void)heap_put(&a, &n, 1);
    heap_remove(&b, &n);
}

static void test_foreign_node_aborts(void **state)
{
    char *text;

    (void)state;
    assert_true(capture_abort(use_foreign_node, NULL, &text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_ties),      cmocka_unit_test(test_put_again_moves),
        cmocka_unit_test(test_random_operations),   cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_foreign_node_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
