#include "../support/unit.h"

#include <stdio.h>

#include "base/secret.h"

static void test_secret(void **state)
{
    char key[] = "sk-very-secret";
    struct secret *s = secret_new(sv_of(key));
    struct secret *none = secret_new((struct str_view){NULL, 0});

    (void)state;
    memset(key, 'x', sizeof(key) - 1); /* it is a copy */
    assert_sv_equal(secret_view(s), "sk-very-secret");
    assert_string_equal(secret_view(s).p, "sk-very-secret"); /* usable as a C string */
    assert_int_equal(secret_view(none).n, 0);
    secret_free(s);
    secret_free(none);
    secret_free(NULL);
}

#define MARKER "cofferdam-marker-0123456789"

/* The pages of a secret carry the flag that keeps them out of core files. */
static void test_not_dumped(void **state)
{
    struct secret *s = secret_new(SV_LIT(MARKER));
    uintptr_t at = (uintptr_t)secret_view(s).p;
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_inside = false;
    bool has_flag = false;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        unsigned long from;
        unsigned long to;

        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            is_inside = at >= from && at < to;
        } else if (is_inside && strncmp(line, "VmFlags:", 8) == 0) {
            has_flag = strstr(line, " dd") != NULL;
        }
    }
    fclose(f);
    assert_true(has_flag);
    secret_free(s);
}

static void make(void *arg)
{
    (void)arg;
    secret_free(secret_new(SV_LIT("x")));
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_int_equal(unit_fail_each(make, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_not_dumped),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
