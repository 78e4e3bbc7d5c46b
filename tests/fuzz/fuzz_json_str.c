/* fuzz_json_str.c - any bytes become a JSON string that holds no raw control character and that
 * reads back: escaping what was unescaped changes nothing any more. */
#include "base/check.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int hex_value(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The escapes that bytes_put_json_str writes, and no others. */
static void unescape(struct bytes *out, struct str_view s)
{
    static const char names[] = "\"\\nrtbf";
    static const char chars[] = "\"\\\n\r\t\b\f";

    for (size_t i = 0; i < s.n; i++) {
        const char *at;
        unsigned c = 0;

        REQUIRE((unsigned char)s.p[i] >= ' ' && s.p[i] != '"');
        if (s.p[i] != '\\') {
            (void)bytes_put_char(out, s.p[i]);
            continue;
        }
        REQUIRE(++i < s.n);
        if (s.p[i] != 'u') {
            REQUIRE((at = memchr(names, s.p[i], sizeof(names) - 1)) != NULL);
            (void)bytes_put_char(out, chars[at - names]);
            continue;
        }
        for (int k = 0; k < 4; k++) {
            REQUIRE(++i < s.n);
            c = c * 16 + (unsigned)hex_value(s.p[i]);
        }
        if (c < 0x20) {
            (void)bytes_put_char(out, (char)c);
        } else {
            REQUIRE(c == 0x85 || c == 0x2028 || c == 0x2029);
            (void)bytes_put_str(out, c == 0x85     ? "\xC2\x85"
                                     : c == 0x2028 ? "\xE2\x80\xA8"
                                                   : "\xE2\x80\xA9");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes json = {0};
    struct bytes plain = {0};
    struct bytes again = {0};

    REQUIRE(bytes_put_json_str(&json, sv_from(data, size)) == 0);
    REQUIRE(json.n >= size + 2 && json.p[0] == '"' && json.p[json.n - 1] == '"');
    unescape(&plain, sv_from(json.p + 1, json.n - 2));
    REQUIRE(bytes_put_json_str(&again, sv_from(plain.p, plain.n)) == 0);
    REQUIRE(sv_eq(sv_from(json.p, json.n), sv_from(again.p, again.n)));
    bytes_fini(&json);
    bytes_fini(&plain);
    bytes_fini(&again);
    return 0;
}
