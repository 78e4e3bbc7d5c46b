/* The framing between sandboxd, zygote and sandboxes: round trips, and that anything else is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sb_zygote_proto.h"

static void test_ctl_round_trip(void **state)
{
    char data[ZYP_CTL_MAX];
    struct zyp_ctl in = {ZYP_CTL_EXITED, ZYP_FLAG_OOM, 0xFEDCBA98U, -5, "why", 3};
    struct zyp_ctl out;
    size_t n = zyp_ctl_encode(data, &in);

    (void)state;
    assert_int_equal(n, ZYP_CTL_HEAD + 3);
    assert_int_equal(zyp_ctl_decode(&out, data, n, true), 0);
    assert_int_equal(out.type, in.type);
    assert_int_equal(out.flags, in.flags);
    assert_int_equal(out.seq, in.seq);
    assert_int_equal(out.num, in.num);
    assert_int_equal(out.text_len, 3);
    assert_memory_equal(out.text, "why", 3);
}

static void test_ctl_refused(void **state)
{
    char data[ZYP_CTL_MAX + 1] = {0};
    char text[ZYP_TEXT_MAX + 100];
    struct zyp_ctl out;
    struct zyp_ctl in = {.type = ZYP_CTL_NOTICE, .text = text, .text_len = sizeof(text)};

    (void)state;
    memset(text, 'x', sizeof(text));
    size_t n = zyp_ctl_encode(data, &in);

    assert_int_equal(n, ZYP_CTL_HEAD + ZYP_TEXT_MAX); /* cut, still whole */
    assert_int_equal(zyp_ctl_decode(&out, data, n, true), 0);
    assert_int_equal(zyp_ctl_decode(&out, data, n, false), ZYP_MALFORMED); /* wrong sender */
    assert_int_equal(zyp_ctl_decode(&out, data, n + 1, true), ZYP_MALFORMED);
    for (size_t cut = 0; cut < ZYP_CTL_HEAD; cut++) {
        assert_int_equal(zyp_ctl_decode(&out, data, cut, true), ZYP_MALFORMED);
    }
    data[1] = ZYP_VERSION + 1;
    assert_int_equal(zyp_ctl_decode(&out, data, n, true), ZYP_MALFORMED);
    data[1] = ZYP_VERSION;
    data[0] = 99;
    assert_int_equal(zyp_ctl_decode(&out, data, n, true), ZYP_MALFORMED);
}

static void test_frames(void **state)
{
    uint8_t head[ZYP_FRAME_HEAD];
    struct zyp_frame f;

    (void)state;
    zyp_frame_encode(head, ZYP_FRAME_STDOUT, ZYP_STREAM_MAX);
    assert_int_equal(zyp_frame_decode(&f, head, sizeof(head), true), 0);
    assert_int_equal(f.type, ZYP_FRAME_STDOUT);
    assert_int_equal(f.len, ZYP_STREAM_MAX);
    assert_int_equal(zyp_frame_decode(&f, head, sizeof(head) - 1, true), ZYP_SHORT);
    assert_int_equal(zyp_frame_decode(&f, head, sizeof(head), false), ZYP_MALFORMED);
    zyp_frame_encode(head, ZYP_FRAME_STDOUT, ZYP_STREAM_MAX + 1);
    assert_int_equal(zyp_frame_decode(&f, head, sizeof(head), true), ZYP_MALFORMED);
    zyp_frame_encode(head, ZYP_FRAME_READY, 1);
    assert_int_equal(zyp_frame_decode(&f, head, sizeof(head), true), ZYP_MALFORMED);
    for (unsigned type = 0; type < 256; type++) { /* only table rows of the right sender pass */
        head[0] = (uint8_t)type;
        memset(head + 4, 0, 4);
        bool is_ours = type == ZYP_FRAME_RUN || type == ZYP_FRAME_FILE; /* sandboxd's */
        int want = is_ours || type == 0 || type > ZYP_FRAME_CHANGED ? ZYP_MALFORMED : 0;

        assert_int_equal(zyp_frame_decode(&f, head, sizeof(head), true), want);
    }
}

static void test_payloads(void **state)
{
    uint8_t p[ZYP_RUN_HEAD];
    struct zyp_run run = {7, 120, 1ULL << 33};
    struct zyp_run run2;
    struct zyp_end end = {7, ZYP_END_TRUNCATED};
    struct zyp_end end2;
    uint64_t v = 0;

    (void)state;
    zyp_run_encode(p, &run);
    assert_int_equal(zyp_run_decode(&run2, p, sizeof(p)), 0);
    assert_true(run2.run == 7 && run2.cpu_s == 120 && run2.output_max == 1ULL << 33);
    assert_int_equal(zyp_run_decode(&run2, p, sizeof(p) - 1), ZYP_MALFORMED);
    zyp_end_encode(p, &end);
    assert_int_equal(zyp_end_decode(&end2, p, 8), 0);
    assert_true(end2.run == 7 && end2.flags == ZYP_END_TRUNCATED);
    assert_int_equal(zyp_end_decode(&end2, p, 7), ZYP_MALFORMED);
    zyp_u64_encode(p, UINT64_MAX - 1);
    assert_int_equal(zyp_u64_decode(&v, p, 8), 0);
    assert_true(v == UINT64_MAX - 1);
    assert_int_equal(zyp_u64_decode(&v, p, 9), ZYP_MALFORMED);
}

/* Every cut of a file request and of an entry is refused or another good one; nothing is read past
 * the end. */
static void test_files(void **state)
{
    uint8_t b[ZYP_ENTRY_HEAD + 16];
    struct zyp_file f;
    struct zyp_entry e = {'f', 7, 1234567, "a/b", 3};
    struct zyp_entry again;

    (void)state;
    zyp_file_head_encode(b, ZYP_FILE_PUT, 3);
    memcpy(b + ZYP_FILE_HEAD, "a/bxyz", 6);
    assert_int_equal(zyp_file_decode(&f, b, ZYP_FILE_HEAD + 6), 0);
    assert_true(f.op == ZYP_FILE_PUT && f.path_len == 3 && f.data_len == 3);
    assert_memory_equal(f.data, "xyz", 3);
    for (size_t n = 0; n < ZYP_FILE_HEAD + 3; n++) {
        assert_int_equal(zyp_file_decode(&f, b, n), ZYP_MALFORMED);
    }
    b[ZYP_FILE_HEAD + 1] = 0; /* a NUL in the path */
    assert_int_equal(zyp_file_decode(&f, b, ZYP_FILE_HEAD + 6), ZYP_MALFORMED);
    b[0] = ZYP_FILE_DELETE + 1;
    assert_int_equal(zyp_file_decode(&f, b, ZYP_FILE_HEAD + 6), ZYP_MALFORMED);

    size_t n = zyp_entry_encode(b, &e);

    assert_int_equal(zyp_entry_decode(&again, b, n), n);
    assert_true(again.kind == 'f' && again.size == 7 && again.mtime_ms == 1234567);
    assert_memory_equal(again.name, "a/b", 3);
    for (size_t cut = 0; cut < n; cut++) {
        assert_int_equal(zyp_entry_decode(&again, b, cut), ZYP_MALFORMED);
    }
    b[0] = 'x';
    assert_int_equal(zyp_entry_decode(&again, b, n), ZYP_MALFORMED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ctl_round_trip), cmocka_unit_test(test_ctl_refused),
        cmocka_unit_test(test_frames),         cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
