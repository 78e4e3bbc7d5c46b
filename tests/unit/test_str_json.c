#include "../support/unit.h"

#include <jansson.h>

#include "base/err.h"

struct sample {
    struct str_view in;
    const char *out;
};

#define BAD "\xEF\xBF\xBD"

static const struct sample samples[] = {
    {{NULL, 0}, "\"\""},
    {SV_INIT("plain"), "\"plain\""},
    {SV_INIT("q\"b\\s/"), "\"q\\\"b\\\\s/\""},
    {SV_INIT("\n\r\t\b\f\x01\x1f\x7f"), "\"\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\""},
    {SV_INIT("a\0b"), "\"a\\u0000b\""},
    {SV_INIT("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\""},
    {SV_INIT("\xE2\x80\xA8\xE2\x80\xA9\xC2\x85\xE2\x80\xA7"),
     "\"\\u2028\\u2029\\u0085\xE2\x80\xA7\""},
    {SV_INIT("\x80\xFF\xC0\xAF"), "\"" BAD BAD BAD BAD "\""}, /* stray, never legal, overlong */
    {SV_INIT("\xED\xA0\x80"), "\"" BAD BAD BAD "\""},         /* a surrogate */
    {SV_INIT("\xF4\x90\x80\x80"), "\"" BAD BAD BAD BAD "\""}, /* above U+10FFFF */
    {SV_INIT("\xF0\x9F\x98x"), "\"" BAD "x\""},               /* cut short: one replacement */
    {SV_INIT("a\xE2\x82"), "\"a" BAD "\""},
    {SV_INIT("\xC3"), "\"" BAD "\""},
    {SV_INIT("\xE0\x9F\xBF"), "\"" BAD BAD BAD "\""}, /* overlong three */
};

static void test_samples(void **state)
{
    struct bytes b = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        bytes_reset(&b);
        assert_int_equal(bytes_put_json_str(&b, samples[i].in), 0);
        assert_string_equal(b.p, samples[i].out);
    }
    bytes_fini(&b);
}

static size_t to_utf8(char dst[4], uint32_t c)
{
    if (c < 0x80) {
        dst[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        dst[0] = (char)(0xC0 | c >> 6);
        dst[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        dst[0] = (char)(0xE0 | c >> 12);
        dst[1] = (char)(0x80 | (c >> 6 & 63));
        dst[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    dst[0] = (char)(0xF0 | c >> 18);
    dst[1] = (char)(0x80 | (c >> 12 & 63));
    dst[2] = (char)(0x80 | (c >> 6 & 63));
    dst[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* An independent parser reads back what went in: all of the low characters, then a sample. */
static void test_characters_round_trip(void **state)
{
    struct bytes b = {0};

    (void)state;
    for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 251) {
        char utf8[4];
        size_t n = to_utf8(utf8, c);
        json_t *out;

        if (c >= 0xD800 && c < 0xE000) {
            continue;
        }
        bytes_reset(&b);
        assert_int_equal(bytes_put_json_str(&b, sv_from(utf8, n)), 0);
        out = json_loadb(b.p, b.n, JSON_DECODE_ANY, NULL);
        assert_non_null(out);
        assert_int_equal(json_string_length(out), n);
        assert_memory_equal(json_string_value(out), utf8, n);
        json_decref(out);
    }
    bytes_fini(&b);
}

static void test_limit_sticks(void **state)
{
    struct bytes b;

    (void)state;
    bytes_init(&b, 6);
    assert_int_equal(bytes_put_json_str(&b, SV_LIT("four")), 0);
    bytes_reset(&b);
    assert_int_equal(bytes_put_json_str(&b, SV_LIT("five5")), ERR_LIMIT);
    bytes_reset(&b);
    assert_int_equal(bytes_put_json_str(&b, SV_LIT("\n\n\n")), ERR_LIMIT);
    assert_int_equal(b.rc, ERR_LIMIT);
    bytes_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_characters_round_trip),
        cmocka_unit_test(test_limit_sticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
