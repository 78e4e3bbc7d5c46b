/* Round trips and hostile bytes for every message. */
#include "msg_ops.h"

static void test_ids_are_unique_and_named(void **state)
{
    unsigned seen[UINT8_MAX + 1] = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        seen[all_ops[i].type]++;
        assert_string_equal(msg_name(all_ops[i].type), all_ops[i].name);
    }
    for (unsigned t = 0; t <= UINT8_MAX; t++) {
        assert_true(seen[t] <= 1);
        if (seen[t] == 0) {
            assert_string_equal(msg_name((uint8_t)t), "?");
        }
    }
    assert_int_equal(seen[0], 0); /* zeroed memory is no message */
}

static void round_trip(const struct msg_ops *ops, enum fill how)
{
    const struct msg_head h = ops_head(ops);
    struct msg_head got_head;
    union any_body m;
    union any_body got;
    struct bytes out = {0};
    struct bytes raw = {0};
    struct str_view in;

    ops->fill(&m, how);
    memset(&got, 0xA5, sizeof(got));
    assert_int_equal(bytes_put_str(&out, "before"), 0); /* encode appends */
    assert_int_equal(ops->encode(&out, &h, &m), 0);
    ops->put(&raw, &h, &m);
    assert_int_equal(out.n, raw.n + 6);
    assert_memory_equal(out.p + 6, raw.p, raw.n);
    assert_int_equal(out.p[out.n], '\0');
    in = sv_from(out.p + 6, out.n - 6);
    assert_int_equal(msg_head_decode(&got_head, &in), 0);
    assert_int_equal(got_head.type, ops->type);
    assert_int_equal(got_head.attempt, h.attempt);
    assert_int_equal(got_head.deadline_ms, h.deadline_ms);
    assert_int_equal(got_head.flags, h.flags);
    assert_memory_equal(got_head.rid.b, h.rid.b, sizeof(h.rid.b));
    assert_memory_equal(got_head.tenant.b, h.tenant.b, sizeof(h.tenant.b));
    assert_int_equal(ops->decode(&got, in), 0);
    ops->same(&m, &got);
    bytes_fini(&out);
    bytes_fini(&raw);
}

static void test_round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        for (int how = 0; how < FILL_COUNT; how++) {
            round_trip(&all_ops[i], (enum fill)how);
        }
    }
}

static unsigned probes;

static void refuse(const struct msg_ops *ops, const union any_body *m)
{
    const struct msg_head h = ops_head(ops);
    union any_body got;
    union any_body untouched;
    struct bytes out = {0};

    probes++;
    assert_int_equal(bytes_put_char(&out, 'x'), 0);
    assert_int_equal(ops->encode(&out, &h, m), ERR_INVALID);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.rc, 0);
    bytes_reset(&out);
    ops->put(&out, &h, m);
    memset(&got, 0xA5, sizeof(got));
    untouched = got;
    assert_int_equal(ops->decode(&got, sv_from(out.p + MSG_HEAD_BYTES, out.n - MSG_HEAD_BYTES)),
                     ERR_PEER_MALFORMED);
    assert_memory_equal(&got, &untouched, sizeof(got));
    bytes_fini(&out);
}

static void test_values_outside_the_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        all_ops[i].outside(&all_ops[i], refuse);
    }
    assert_true(probes > 60);
}

/* Decodes an exact-size copy, so that the address sanitizer sees one byte too far. An accepted
 * message must encode to the same bytes again: there is one encoding of everything. */
static bool is_accepted(const struct msg_ops *ops, const char *p, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);
    struct str_view in = {copy, n};
    struct msg_head h;
    union any_body got;
    union any_body untouched;
    struct bytes out = {0};
    bool ok = false;
    int rc;

    assert_non_null(copy);
    memcpy(copy, p, n);
    memset(&got, 0xA5, sizeof(got));
    untouched = got;
    rc = msg_head_decode(&h, &in);
    if (rc == 0 && h.type == ops->type) {
        rc = ops->decode(&got, in);
        ok = rc == 0;
    }
    if (ok) {
        assert_int_equal(ops->encode(&out, &h, &got), 0);
        assert_int_equal(out.n, n);
        assert_memory_equal(out.p, p, n);
    } else {
        assert_true(rc == 0 || rc == ERR_PEER_MALFORMED || rc == ERR_PEER_VERSION);
        assert_memory_equal(&got, &untouched, sizeof(got));
    }
    bytes_fini(&out);
    free(copy);
    return ok;
}

static void mangle(const struct msg_ops *ops, enum fill how)
{
    const struct msg_head h = ops_head(ops);
    union any_body m;
    struct bytes out = {0};

    ops->fill(&m, how);
    assert_int_equal(ops->encode(&out, &h, &m), 0);
    assert_true(is_accepted(ops, out.p, out.n));
    for (size_t n = 0; n < out.n; n++) {
        assert_false(is_accepted(ops, out.p, n)); /* every truncation */
    }
    for (size_t bit = 0; bit < 8 * out.n; bit++) {
        out.p[bit / 8] = (char)(out.p[bit / 8] ^ (1 << bit % 8));
        (void)is_accepted(ops, out.p, out.n); /* every bit flip: error or valid */
        out.p[bit / 8] = (char)(out.p[bit / 8] ^ (1 << bit % 8));
    }
    for (int extra = 0; extra <= UINT8_MAX; extra++) {
        assert_int_equal(bytes_put_char(&out, (char)extra), 0);
        assert_false(is_accepted(ops, out.p, out.n));
        out.n--;
    }
    bytes_fini(&out);
}

static void test_mangled_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        mangle(&all_ops[i], FILL_MIN);
        mangle(&all_ops[i], FILL_TYPICAL);
    }
}

static void test_length_fields_cannot_overflow(void **state)
{
    static const uint32_t lengths[] = {0x7fffffff, 0x80000000, 0xfffffffb, 0xfffffffc, 0xffffffff};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        char field[8] = {0};
        struct msg_body_LOST m;

        wire_store_u32(field, lengths[i]);
        assert_int_equal(msg_decode_LOST(&m, sv_from(field, sizeof(field))), ERR_PEER_MALFORMED);
    }
}

static void encode_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        const struct msg_head h = ops_head(&all_ops[i]);
        struct bytes out = {0};
        union any_body m;
        int rc;

        all_ops[i].fill(&m, FILL_TYPICAL);
        rc = all_ops[i].encode(&out, &h, &m);
        assert_true(rc == 0 || rc == ERR_NOMEM);
        assert_true(rc == 0 || out.n == 0);
        bytes_fini(&out);
    }
}

static void test_encode_allocates_once_and_may_fail(void **state)
{
    struct bytes out;
    struct msg_body_LOST m = {SV_INIT("w")};
    const struct msg_head h = {0};

    (void)state;
    assert_int_equal(unit_fail_each(encode_all, NULL), COUNT_OF(all_ops) + 1);
    bytes_init(&out, MSG_HEAD_BYTES + 4);
    assert_int_equal(msg_encode_LOST(&out, &h, &m), ERR_LIMIT);
    assert_int_equal(out.n, 0);
    bytes_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_unique_and_named),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_values_outside_the_bounds),
        cmocka_unit_test(test_mangled_bytes),
        cmocka_unit_test(test_length_fields_cannot_overflow),
        cmocka_unit_test(test_encode_allocates_once_and_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
