#include "../support/unit.h"

#include "../support/capture.h"
#include "base/id.h"

static void test_random_and_text(void **state)
{
    uint8_t a[16] = {0};
    uint8_t b[16] = {0};
    char text[4 + 64 + 1];
    uint8_t raw[32];

    (void)state;
    assert_int_equal(id_init(), 0);
    assert_int_equal(id_init(), 0); /* again is harmless */
    id_random(a, sizeof(a));
    id_random(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    id_text(text, sizeof(text), "sbx_", 32);
    assert_memory_equal(text, "sbx_", 4);
    assert_int_equal(strlen(text), 4 + 64);
    assert_true(hex_decode(raw, sizeof(raw), sv_of(text + 4)));
    id_text(text, 4 + 2 + 1, "abcd", 1); /* exactly fits */
    assert_int_equal(strlen(text), 6);
}

static void too_small(void *arg)
{
    char text[6];

    (void)arg;
    id_text(text, sizeof(text), "abcd", 1);
}

static void too_many_bytes(void *arg)
{
    char text[200];

    (void)arg;
    id_text(text, sizeof(text), "", 33);
}

static void test_text_must_fit(void **state)
{
    char *text;

    (void)state;
    assert_true(capture_abort(too_small, NULL, &text));
    free(text);
    assert_true(capture_abort(too_many_bytes, NULL, &text));
    free(text);
}

static void test_sha256_and_equal(void **state)
{
    uint8_t digest[32];
    char hex[65];

    (void)state;
    id_sha256(digest, "abc", 3); /* FIPS 180-2 example */
    hex_encode(hex, digest, sizeof(digest));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    id_sha256(digest, "", 0);
    hex_encode(hex, digest, sizeof(digest));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_true(id_equal("same", "same", 4));
    assert_false(id_equal("same", "samE", 4));
    assert_true(id_equal("a", "b", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_and_text),
        cmocka_unit_test(test_text_must_fit),
        cmocka_unit_test(test_sha256_and_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
