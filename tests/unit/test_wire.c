#include "../support/unit.h"

#include "base/err.h"
#include "proto/wire.h"

static void test_layout_is_little_endian(void **state)
{
    struct bytes b = {0};

    (void)state;
    assert_int_equal(wire_put_u8(&b, 0xfe), 0);
    assert_int_equal(wire_put_u16(&b, 0x0102), 0);
    assert_int_equal(wire_put_u32(&b, 0x01020304), 0);
    assert_int_equal(wire_put_u64(&b, 0x0102030405060708ULL), 0);
    assert_int_equal(wire_put_i32(&b, -2), 0);
    assert_int_equal(wire_put_str(&b, SV_LIT("hi")), 0);
    assert_int_equal(wire_put_raw(&b, "raw", 3), 0);
    assert_int_equal(b.n, 1 + 2 + 4 + 8 + 4 + 6 + 3);
    assert_memory_equal(b.p,
                        "\xfe\x02\x01\x04\x03\x02\x01\x08\x07\x06\x05\x04\x03\x02\x01"
                        "\xfe\xff\xff\xff\x02\0\0\0hiraw",
                        b.n);
    bytes_fini(&b);
}

static void test_get_back(void **state)
{
    static const char data[] = "\xfe\x02\x01\x04\x03\x02\xf1\x08\x07\x06\x05\x04\x03\x02\xf1"
                               "\xfe\xff\xff\xff\x02\0\0\0hiraw";
    struct str_view in = {data, sizeof(data) - 1};
    struct str_view s;
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    int32_t e;
    char raw[3];

    (void)state;
    assert_int_equal(wire_get_u8(&in, &a), 0);
    assert_int_equal(a, 0xfe);
    assert_int_equal(wire_get_u16(&in, &b), 0);
    assert_int_equal(b, 0x0102);
    assert_int_equal(wire_get_u32(&in, &c), 0);
    assert_int_equal(c, 0xf1020304);
    assert_int_equal(wire_get_u64(&in, &d), 0);
    assert_true(d == 0xf102030405060708ULL);
    assert_int_equal(wire_get_i32(&in, &e), 0);
    assert_int_equal(e, -2);
    assert_int_equal(wire_get_end(&in), ERR_PEER_MALFORMED);
    assert_int_equal(wire_get_str(&in, 2, &s), 0);
    assert_sv_equal(s, "hi");
    assert_true(s.p > data && s.p < data + sizeof(data)); /* it borrows */
    assert_int_equal(wire_get_raw(&in, raw, 3), 0);
    assert_memory_equal(raw, "raw", 3);
    assert_int_equal(wire_get_end(&in), 0);
}

static void test_short_input_changes_nothing(void **state)
{
    static const char data[] = "\x05\0\0\0abc";
    uint16_t b = 7;
    uint32_t c = 7;
    uint64_t d = 7;
    int32_t e = 7;
    char raw[8] = {7};
    struct str_view s = {"old", 3};

    (void)state;
    for (size_t n = 0; n < 8; n++) {
        struct str_view in = {data, n};

        assert_int_equal(wire_get_u64(&in, &d), n < 8 ? ERR_PEER_MALFORMED : 0);
        assert_int_equal(wire_get_raw(&in, raw, 8), ERR_PEER_MALFORMED);
        assert_int_equal(wire_get_str(&in, 100, &s), ERR_PEER_MALFORMED);
        if (n < 4) {
            assert_int_equal(wire_get_u32(&in, &c), ERR_PEER_MALFORMED);
            assert_int_equal(wire_get_i32(&in, &e), ERR_PEER_MALFORMED);
        }
        if (n < 2) {
            assert_int_equal(wire_get_u16(&in, &b), ERR_PEER_MALFORMED);
        }
        assert_ptr_equal(in.p, data);
        assert_int_equal(in.n, n);
    }
    assert_true(b == 7 && c == 7 && d == 7 && e == 7 && raw[0] == 7);
    assert_sv_equal(s, "old");
}

static void test_str_limits(void **state)
{
    static const char data[] = "\x03\0\0\0abc";
    struct str_view in = {data, 7};
    struct str_view s;
    struct bytes b;

    (void)state;
    assert_int_equal(wire_get_str(&in, 2, &s), ERR_PEER_MALFORMED);
    assert_int_equal(in.n, 7);
    assert_int_equal(wire_get_str(&in, 3, &s), 0);
    in = (struct str_view)SV_INIT("\xff\xff\xff\xff"
                                  "abc"); /* the length plus its own four bytes wraps around */
    assert_int_equal(wire_get_str(&in, UINT32_MAX, &s), ERR_PEER_MALFORMED);
    bytes_init(&b, 6);
    assert_int_equal(wire_put_str(&b, SV_LIT("abc")), ERR_LIMIT);
    assert_int_equal(b.n, 0); /* no length without its bytes */
    bytes_reset(&b);
    assert_int_equal(wire_put_str(&b, (struct str_view){"x", (size_t)UINT32_MAX + 1}), ERR_LIMIT);
    bytes_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_is_little_endian),
        cmocka_unit_test(test_get_back),
        cmocka_unit_test(test_short_input_changes_nothing),
        cmocka_unit_test(test_str_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
