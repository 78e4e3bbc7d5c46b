#include "../support/unit.h"

#include <stdio.h>

#include "base/err.h"
#include "base/map.h"

#define MANY 20000

static int values[MANY];

static struct str_view key_of(char *text, size_t cap, unsigned i)
{
    snprintf(text, cap, "key-%u", i);
    return sv_of(text);
}

static void test_basics(void **state)
{
    struct map *m = map_new(2);
    int a;
    int b;

    (void)state;
    assert_null(map_get(m, SV_LIT("x")));
    assert_null(map_take(m, SV_LIT("x")));
    assert_int_equal(map_put(m, SV_LIT("x"), &a), 0);
    assert_int_equal(map_put(m, SV_LIT(""), &b), 0); /* the empty key is a key */
    assert_int_equal(map_put(m, SV_LIT("z"), &a), ERR_LIMIT);
    assert_int_equal(map_put(m, SV_LIT("x"), &b), 0); /* replacing needs no room */
    assert_ptr_equal(map_get(m, SV_LIT("x")), &b);
    assert_ptr_equal(map_get(m, (struct str_view){NULL, 0}), &b);
    assert_int_equal(map_count(m), 2);
    assert_ptr_equal(map_take(m, SV_LIT("x")), &b);
    assert_null(map_get(m, SV_LIT("x")));
    assert_int_equal(map_count(m), 1);
    map_free(m);
    map_free(NULL);
}

static void test_keys_are_bytes_and_copied(void **state)
{
    struct map *m = map_new(10);
    char key[3] = {'a', '\0', 'b'};
    int a;

    (void)state;
    assert_int_equal(map_put(m, sv_from(key, 3), &a), 0);
    key[0] = 'x';
    assert_null(map_get(m, sv_from(key, 3)));
    key[0] = 'a';
    assert_ptr_equal(map_get(m, sv_from(key, 3)), &a);
    assert_null(map_get(m, sv_from(key, 1)));
    map_free(m);
}

static void test_many_keys(void **state)
{
    struct map *m = map_new(MANY);
    char text[32];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(map_put(m, key_of(text, sizeof(text), i), &values[i]), 0);
    }
    assert_int_equal(map_put(m, SV_LIT("one more"), &values[0]), ERR_LIMIT);
    for (unsigned i = 0; i < MANY; i += 2) {
        assert_ptr_equal(map_take(m, key_of(text, sizeof(text), i)), &values[i]);
    }
    assert_int_equal(map_count(m), MANY / 2);
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(map_get(m, key_of(text, sizeof(text), i)), i % 2 == 0 ? NULL : &values[i]);
    }
    for (unsigned i = 0; i < MANY; i += 2) {
        assert_int_equal(map_put(m, key_of(text, sizeof(text), i), &values[i]), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(map_get(m, key_of(text, sizeof(text), i)), &values[i]);
    }
    map_free(m);
}

static void test_iteration_with_removal(void **state)
{
    struct map *m = map_new(1000);
    char text[32];
    bool seen[1000] = {false};
    struct str_view key;
    void *value;
    size_t it = 0;
    unsigned n = 0;

    (void)state;
    assert_false(map_next(m, &it, &key, &value)); /* empty */
    it = 0;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(map_put(m, key_of(text, sizeof(text), i), &values[i]), 0);
    }
    while (map_next(m, &it, &key, &value)) {
        size_t i = (size_t)((int *)value - values);

        assert_false(seen[i]);
        seen[i] = true;
        assert_true(sv_eq(key, key_of(text, sizeof(text), (unsigned)i)));
        n++;
        if (i % 3 != 0) {
            assert_ptr_equal(map_take(m, key_of(text, sizeof(text), (unsigned)i)), value);
        }
    }
    assert_int_equal(n, 1000);
    assert_false(map_next(m, &it, &key, &value)); /* still at the end */
    assert_int_equal(map_count(m), 334);
    for (it = 0; map_next(m, &it, NULL, &value);) {
        assert_int_equal(((int *)value - values) % 3, 0);
        n--;
    }
    assert_int_equal(n, 1000 - 334);
    map_free(m);
}

static void fill(void *arg)
{
    struct map *m = map_new(100);
    char text[32];
    unsigned n = 0;

    (void)arg;
    if (m == NULL) {
        return;
    }
    for (unsigned i = 0; i < 40; i++) {
        int rc = map_put(m, key_of(text, sizeof(text), i), &values[i]);

        assert_true(rc == 0 || rc == ERR_NOMEM);
        assert_ptr_equal(map_get(m, sv_of(text)), rc == 0 ? &values[i] : NULL);
        n += rc == 0 ? 1 : 0;
    }
    assert_int_equal(map_count(m), n);
    map_free(m);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(unit_fail_each(fill, NULL) > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),        cmocka_unit_test(test_keys_are_bytes_and_copied),
        cmocka_unit_test(test_many_keys),     cmocka_unit_test(test_iteration_with_removal),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
