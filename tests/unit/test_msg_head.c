#include "../support/unit.h"

#include "base/err.h"
#include "proto/msg.h"

static struct bytes encoded(void)
{
    struct bytes out = {0};
    struct msg_head h = {MSG_DISPATCH, 1, 30000, MSG_FLAG_RESUBMIT, {{1, 2}}, {{3, 4}}};
    struct msg_body_SUBMIT m = {.kind = MSG_KIND_CHAT,
                                .method = MSG_METHOD_POST,
                                .window = 65536,
                                .endpoint = SV_INIT("ipc://x"),
                                .path = SV_INIT("/v1/chat/completions"),
                                .headers = SV_INIT("")};

    assert_int_equal(msg_encode_SUBMIT(&out, &h, &m), 0);
    return out;
}

static int decode(struct msg_head *h, const struct bytes *b)
{
    struct str_view in = {b->p, b->n};
    int rc = msg_head_decode(h, &in);

    assert_int_equal(in.n, rc == 0 ? b->n - MSG_HEAD_BYTES : b->n);
    return rc;
}

static void test_type_is_that_of_the_encoder(void **state)
{
    struct bytes b = encoded();
    struct msg_head h;

    (void)state;
    assert_int_equal(decode(&h, &b), 0);
    assert_int_equal(h.type, MSG_SUBMIT); /* whatever the caller's head said */
    assert_int_equal(h.flags, MSG_FLAG_RESUBMIT);
    bytes_fini(&b);
}

static void test_patch_submit_to_dispatch(void **state)
{
    struct bytes b = encoded();
    struct bytes before = {0};
    struct msg_body_DISPATCH m;
    struct msg_head h;

    (void)state;
    bytes_put(&before, b.p, b.n);
    msg_head_patch(b.p, MSG_DISPATCH, 2, 1234, MSG_FLAG_STARTED);
    assert_int_equal(decode(&h, &b), 0);
    assert_int_equal(h.type, MSG_DISPATCH);
    assert_int_equal(h.attempt, 2);
    assert_int_equal(h.deadline_ms, 1234);
    assert_int_equal(h.flags, MSG_FLAG_STARTED);
    assert_int_equal(h.rid.b[1], 2);
    assert_int_equal(h.tenant.b[1], 4);
    assert_memory_equal(b.p + MSG_HEAD_BYTES, before.p + MSG_HEAD_BYTES, b.n - MSG_HEAD_BYTES);
    assert_int_equal(msg_decode_DISPATCH(&m, sv_from(b.p + MSG_HEAD_BYTES, b.n - MSG_HEAD_BYTES)),
                     0);
    assert_sv_equal(m.path, "/v1/chat/completions");
    bytes_fini(&b);
    bytes_fini(&before);
}

static void test_refused_heads(void **state)
{
    static const struct {
        size_t at;
        unsigned char value;
        int rc;
    } cases[] = {
        {0, 0xCE, ERR_PEER_MALFORMED},          /* magic */
        {1, MSG_VERSION + 1, ERR_PEER_VERSION}, /* version */
        {1, 0, ERR_PEER_VERSION},               /* version */
        {2, 0, ERR_PEER_MALFORMED},             /* unknown types */
        {2, 255, ERR_PEER_MALFORMED},           /* */
        {56, 0x10, ERR_PEER_MALFORMED},         /* unknown flag */
        {59, 0x80, ERR_PEER_MALFORMED},         /* unknown flag */
        {60, 1, ERR_PEER_MALFORMED},            /* reserved bytes */
        {63, 1, ERR_PEER_MALFORMED},            /* reserved bytes */
    };
    struct msg_head h;
    struct bytes b;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        b = encoded();
        b.p[cases[i].at] = (char)cases[i].value;
        assert_int_equal(decode(&h, &b), cases[i].rc);
        bytes_fini(&b);
    }
    b = encoded();
    b.n = 2; /* a later version may have another header: say so, even when it is short */
    b.p[1] = MSG_VERSION + 1;
    assert_int_equal(decode(&h, &b), ERR_PEER_VERSION);
    b.n = 1;
    assert_int_equal(decode(&h, &b), ERR_PEER_MALFORMED);
    b.n = 0;
    assert_int_equal(decode(&h, &b), ERR_PEER_MALFORMED);
    bytes_fini(&b);
}

static void test_unknown_flags_are_not_encoded(void **state)
{
    struct bytes out = {0};
    const struct msg_head h = {.flags = 1U << 31};
    const struct msg_body_WINDOW m = {1};

    (void)state;
    assert_int_equal(msg_encode_WINDOW(&out, &h, &m), ERR_INVALID);
    assert_int_equal(out.n, 0);
    bytes_fini(&out);
}

static void test_permissions(void **state)
{
    (void)state;
    /* type, role, is_ready, is_direct */
    assert_true(msg_is_permitted(MSG_HELLO, MSG_ROLE_WORKER, false, false));
    assert_true(msg_is_permitted(MSG_HELLO, MSG_ROLE_WORKER, true, false)); /* a reconnect */
    assert_false(msg_is_permitted(MSG_HELLO, MSG_ROLE_BROKER, true, false));
    assert_false(msg_is_permitted(MSG_SUBMIT, MSG_ROLE_FRONTEND, false, false));
    assert_true(msg_is_permitted(MSG_SUBMIT, MSG_ROLE_FRONTEND, true, false));
    assert_false(msg_is_permitted(MSG_SUBMIT, MSG_ROLE_WORKER, true, false));
    assert_false(msg_is_permitted(MSG_SUBMIT, MSG_ROLE_FRONTEND, true, true));
    assert_true(msg_is_permitted(MSG_CANCEL, MSG_ROLE_BROKER, true, false));
    assert_false(msg_is_permitted(MSG_CANCEL, MSG_ROLE_SANDBOXD, true, false));
    assert_true(msg_is_permitted(MSG_HEAD, MSG_ROLE_WORKER, false, true));
    assert_false(msg_is_permitted(MSG_HEAD, MSG_ROLE_WORKER, true, false));
    assert_false(msg_is_permitted(MSG_HEAD, MSG_ROLE_FRONTEND, true, true));
    assert_true(msg_is_permitted(MSG_WINDOW, MSG_ROLE_FRONTEND, true, true));
    assert_true(msg_is_permitted(MSG_SBX_RESULT, MSG_ROLE_SANDBOXD, true, false));
    assert_false(msg_is_permitted(MSG_SBX_RESULT, MSG_ROLE_WORKER, true, false));
    for (unsigned type = 0; type <= UINT8_MAX; type++) {
        unsigned n = 0;

        for (unsigned i = 0; i < 4 * 4; i++) {
            n += msg_is_permitted((uint8_t)type, (enum msg_role)(1 + i / 4), i & 1, i & 2) ? 1 : 0;
        }
        assert_int_equal(n > 0, strcmp(msg_name((uint8_t)type), "?") != 0);
        assert_false(msg_is_permitted((uint8_t)type, (enum msg_role)0, true, false));
        assert_false(msg_is_permitted((uint8_t)type, (enum msg_role)5, true, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type_is_that_of_the_encoder),
        cmocka_unit_test(test_patch_submit_to_dispatch),
        cmocka_unit_test(test_refused_heads),
        cmocka_unit_test(test_unknown_flags_are_not_encoded),
        cmocka_unit_test(test_permissions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
