#include "../support/unit.h"

#include <pthread.h>
#include <stdio.h>

#include "../support/capture.h"
#include "base/ring.h"

static char *dump(void)
{
    struct capture c;

    capture_start(&c);
    ring_dump(STDERR_FILENO);
    return capture_end(&c);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

static void test_empty_then_wraps(void **state)
{
    char *text = dump();

    (void)state;
    assert_string_equal(text, "");
    free(text);
    for (uint64_t i = 0; i < RING_SLOTS + 10; i++) {
        ring_note("step", i, "A", NULL, "why");
    }
    text = dump();
    assert_int_equal(count_lines(text), RING_SLOTS);
    assert_null(strstr(text, "step 9 A"));
    assert_non_null(
        strstr(text, "step 10 A -> - : why\n")); /* the oldest one left; NULL is a dash */
    assert_non_null(strstr(text, "step 265 A"));
    free(text);
}

static void test_long_strings_are_cut(void **state)
{
    static char big[2000];
    char *text;

    (void)state;
    memset(big, 'b', sizeof(big) - 1);
    ring_note(big, UINT64_MAX, big, big, big);
    text = dump();
    assert_int_equal(count_lines(text), RING_SLOTS);
    free(text);
}

static void *note(void *arg)
{
    for (uint64_t i = 0; i < 5000; i++) {
        ring_note("thread", i, arg, arg, arg);
    }
    return NULL;
}

static void test_threads(void **state)
{
    static char name[] = "t";
    pthread_t threads[2];
    char *text;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, note, name), 0);
    }
    text = dump(); /* while they write */
    free(text);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    text = dump();
    assert_int_equal(count_lines(text), RING_SLOTS);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_then_wraps),
        cmocka_unit_test(test_long_strings_are_cut),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
