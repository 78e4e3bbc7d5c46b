/* test_ic_utf8.c - every way to be ill-formed, at every place of a word. */
#include "ic_utf8.h"

#include "unit.h"

#define FFFD "\xEF\xBF\xBD"

static void parts_are_replaced(void **state)
{
    static const struct {
        const char *text;
        const char *clean; /* NULL = the same */
    } rows[] = {
        {"", NULL},
        {"plain ASCII, longer than a word", NULL},
        {"\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEF\xBF\xBF \xF0\x90\x80\x80 "
         "\xF4\x8F\xBF\xBF",
         NULL},
        {"\x80", FFFD},
        {"\xFF\xFE", FFFD FFFD},
        {"\xC0\xAF", FFFD FFFD},          /* overlong */
        {"\xE0\x80\x80", FFFD FFFD FFFD}, /* overlong */
        {"\xED\xA0\x80", FFFD FFFD FFFD}, /* surrogate */
        {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD},
        {"\xE2\x82", FFFD}, /* cut */
        {"\xF0\x9F\x98x", FFFD "x"},
        {"a\xC3\"b", "a" FFFD "\"b"}, /* the quote is not eaten */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t pad = 0; pad < 10; pad++) {
            struct bytes text = {0};
            struct bytes want = {0};
            struct bytes got = {0};

            for (size_t k = 0; k < pad; k++) {
                bytes_put_char(&text, '.');
                bytes_put_char(&want, '.');
            }
            bytes_put_str(&text, rows[i].text);
            bytes_put_str(&want, rows[i].clean != NULL ? rows[i].clean : rows[i].text);
            ic_utf8_put(&got, sv_from(text.p, text.n));
            assert_true(sv_eq(sv_from(got.p, got.n), sv_from(want.p, want.n)));
            assert_int_equal(ic_utf8_is_good(sv_from(text.p, text.n)), rows[i].clean == NULL);
            assert_true(ic_utf8_is_good(sv_from(got.p, got.n)));
            bytes_fini(&text);
            bytes_fini(&want);
            bytes_fini(&got);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_replaced)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
