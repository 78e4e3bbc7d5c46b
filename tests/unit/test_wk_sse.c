/* test_wk_sse.c - event streams, whole and split at every byte. */
#include "base/err.h"
#include "unit.h"
#include "wk_sse.h"

static const struct {
    const char *in;
    const char *out; /* name|data; for each event, ! before one that is unfinished */
} rows[] = {
    {"data: a\n\n", "|a;"},
    {"event: x\ndata: a\n\n", "x|a;"},
    {"event: x\r\ndata: a\r\n\r\n", "x|a;"},
    {"event: x\rdata: a\r\r", "x|a;"},
    {"data: a\ndata: b\n\n", "|a\nb;"},
    {"data:a\n\ndata:  b\n\n", "|a;| b;"},
    {"data\n\n", "|;"},
    {": comment\n\n: other\ndata: a\n\n", "|a;"},
    {"id: 1\nretry: 5\ndata: a\n\n", "|a;"},
    {"event: x\n\ndata: a\n\n", "|a;"}, /* no data: no event, and the name is gone */
    {"\n\n\n", ""},
    {"\xEF\xBB\xBF"
     "data: a\n\n",
     "|a;"},
    {"data: a", "!|a;"}, /* a stream that ends without the blank line */
    {"data: a\n", "!|a;"},
    {"data: a\r", "!|a;"},
    {"data: a\n\ndata: b\ndata: c", "|a;!|b\nc;"},
    {"event: x", ""},
    {"unknown: a\n\n", ""},
    {"data: {\"a\":1}\n\ndata: [DONE]\n\n", "|{\"a\":1};|[DONE];"},
    {"Data: a\n\n", ""},
};

static void take_all(struct wk_sse *s, struct bytes *out)
{
    struct wk_sse_event ev;

    while (wk_sse_take(s, &ev) == 1) {
        bytes_put_str(out, ev.is_unfinished ? "!" : "");
        bytes_put_sv(out, ev.name);
        bytes_put_char(out, '|');
        bytes_put_sv(out, ev.data);
        bytes_put_char(out, ';');
    }
}

static void every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = strlen(rows[i].in);

        for (size_t cut = 0; cut <= n; cut++) {
            struct wk_sse s;
            struct bytes out = {0};

            wk_sse_init(&s, 1000);
            assert_int_equal(wk_sse_push(&s, sv_from(rows[i].in, cut)), 0);
            take_all(&s, &out);
            assert_int_equal(wk_sse_push(&s, sv_from(rows[i].in + cut, n - cut)), 0);
            take_all(&s, &out);
            assert_int_equal(wk_sse_end(&s), 0);
            take_all(&s, &out);
            assert_sv_equal(sv_from(out.p, out.n), rows[i].out);
            bytes_fini(&out);
            wk_sse_fini(&s);
        }
    }
}

static void taking_may_pause(void **state)
{
    struct wk_sse s;
    struct wk_sse_event ev;
    struct bytes out = {0};

    (void)state;
    wk_sse_init(&s, 1000);
    assert_int_equal(wk_sse_push(&s, SV_LIT("data: a\n\ndata: b\n\nda")), 0);
    assert_int_equal(wk_sse_take(&s, &ev), 1);
    assert_sv_equal(ev.data, "a");
    assert_int_equal(wk_sse_push(&s, SV_LIT("ta: c\n\n")), 0);
    assert_sv_equal(ev.data, "a"); /* the event is still good: nothing was taken since */
    take_all(&s, &out);
    assert_sv_equal(sv_from(out.p, out.n), "|b;|c;");
    wk_sse_reset(&s);
    assert_int_equal(wk_sse_take(&s, &ev), 0);
    bytes_fini(&out);
    wk_sse_fini(&s);
}

static void bounds(void **state)
{
    struct wk_sse s;
    struct wk_sse_event ev;

    (void)state;
    wk_sse_init(&s, 64);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(wk_sse_push(&s, SV_LIT("data: aaa\n")), 0);
    }
    assert_int_equal(wk_sse_push(&s, SV_LIT("data: aaa\n")), ERR_LIMIT);
    assert_int_equal(wk_sse_take(&s, &ev), ERR_LIMIT);
    wk_sse_reset(&s);
    for (unsigned i = 0; i < 100; i++) { /* taken lines make room, their data counts */
        (void)wk_sse_push(&s, SV_LIT("data: aaa\n"));
        if (wk_sse_take(&s, &ev) < 0) {
            break;
        }
    }
    assert_int_equal(wk_sse_push(&s, SV_LIT("\n")), 0);
    assert_int_equal(wk_sse_take(&s, &ev), ERR_LIMIT);
    wk_sse_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split),
        cmocka_unit_test(taking_may_pause),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
