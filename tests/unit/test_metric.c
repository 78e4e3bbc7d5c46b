#include "../support/unit.h"

#include <stdio.h>

#include "../support/capture.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/metric.h"

static int setup(void **state)
{
    (void)state;
    metric_reset();
    clock_fake(1000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    metric_reset();
    clock_real();
    return 0;
}

static void render(struct bytes *out, const char *snapshots)
{
    bytes_reset(out);
    assert_int_equal(metric_render(out, sv_of(snapshots)), 0);
    assert_int_equal(bytes_put(out, "", 1), 0); /* so that p is never NULL */
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text++) {
        n++;
    }
    return n;
}

static void test_snapshot(void **state)
{
    struct bytes b = {0};

    (void)state;
    metric_add(METRIC_FE_REQUESTS, "/v1/responses", "200", 2);
    metric_add(METRIC_FE_REQUESTS, "/v1/responses", "500", 1);
    metric_add(METRIC_FE_REQUESTS, "/v1/responses", "200", 3);
    metric_set(METRIC_FE_CONNECTIONS, NULL, NULL, 7.5);
    metric_set(METRIC_FE_CONNECTIONS, "ignored", "ignored", 8);
    assert_int_equal(metric_snapshot(&b, "fe\"0\n"), 0);
    assert_non_null(
        strstr(b.p, "cofferdam_frontend_requests_total{route=\"/v1/responses\",status=\"200\","
                    "process=\"fe\\\"0_\"} 5\n"));
    assert_non_null(strstr(b.p, "status=\"500\",process=\"fe\\\"0_\"} 1\n"));
    assert_non_null(strstr(b.p, "cofferdam_frontend_connections{process=\"fe\\\"0_\"} 8\n"));
    assert_int_equal(count(b.p, "cofferdam_frontend_connections"), 1);
    assert_non_null(strstr(b.p, "cofferdam_process_uptime_seconds{process=\"fe\\\"0_\"} 0\n"));
    assert_non_null(strstr(b.p, "cofferdam_process_soft_check_failures_total{"));
    clock_fake(3500);
    bytes_reset(&b);
    assert_int_equal(metric_snapshot(&b, "x"), 0);
    assert_non_null(strstr(b.p, "cofferdam_process_uptime_seconds{process=\"x\"} 2.5\n"));
    bytes_fini(&b);
}

static void test_histogram(void **state)
{
    struct bytes b = {0};

    (void)state;
    metric_observe_us(METRIC_FE_REQUEST_SECONDS, "r", NULL, 100);       /* on the bound of 0.0001 */
    metric_observe_us(METRIC_FE_REQUEST_SECONDS, "r", NULL, 101);       /* just above */
    metric_observe_us(METRIC_FE_REQUEST_SECONDS, "r", NULL, 400000000); /* beyond all */
    assert_int_equal(metric_snapshot(&b, "p"), 0);
    assert_non_null(strstr(b.p, "_bucket{route=\"r\",le=\"0.0001\",process=\"p\"} 1\n"));
    assert_non_null(strstr(b.p, "_bucket{route=\"r\",le=\"0.00025\",process=\"p\"} 2\n"));
    assert_non_null(strstr(b.p, "_bucket{route=\"r\",le=\"300\",process=\"p\"} 2\n"));
    assert_non_null(strstr(b.p, "_bucket{route=\"r\",le=\"+Inf\",process=\"p\"} 3\n"));
    assert_non_null(strstr(b.p, "_sum{route=\"r\",process=\"p\"} 400.000201\n"));
    assert_non_null(strstr(b.p, "_count{route=\"r\",process=\"p\"} 3\n"));
    bytes_fini(&b);
}

static void test_series_are_bounded(void **state)
{
    struct bytes b = {0};
    char label[200];

    (void)state;
    memset(label, 'l', sizeof(label));
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(label, sizeof(label), "route-%u", i);
        metric_add(METRIC_FE_REQUESTS, label, "200", 1);
    }
    metric_add(METRIC_FE_REQUESTS, "route-0", "200", 1); /* the early ones go on */
    assert_int_equal(metric_snapshot(&b, "p"), 0);
    assert_int_equal(count(b.p, "cofferdam_frontend_requests_total{"), METRIC_SERIES_MAX);
    assert_non_null(strstr(b.p, "{route=\"other\",status=\"other\",process=\"p\"} 937\n"));
    assert_non_null(strstr(b.p, "{route=\"route-0\",status=\"200\",process=\"p\"} 2\n"));
    bytes_fini(&b);
}

static void test_long_labels_are_cut_and_found_again(void **state)
{
    struct bytes b = {0};
    char label[200];

    (void)state;
    memset(label, 'l', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    metric_add(METRIC_FE_REJECTS, label, NULL, 1);
    metric_add(METRIC_FE_REJECTS, label, NULL, 1);
    assert_int_equal(metric_snapshot(&b, "p"), 0);
    assert_int_equal(count(b.p, "cofferdam_frontend_rejected_total"), 1);
    assert_non_null(strstr(b.p, "l\",process=\"p\"} 2\n"));
    bytes_fini(&b);
}

static void wrong_kind(void *arg)
{
    (void)arg;
    metric_add(METRIC_FE_CONNECTIONS, NULL, NULL, 1); /* a gauge */
}

static void test_wrong_kind_aborts(void **state)
{
    char *text;

    (void)state;
    assert_true(capture_abort(wrong_kind, NULL, &text));
    free(text);
}

static void test_render_merges(void **state)
{
    struct bytes all = {0};
    struct bytes out = {0};
    struct bytes again = {0};

    (void)state;
    metric_add(METRIC_FE_REQUESTS, "r", "200", 5);
    metric_observe_us(METRIC_FE_REQUEST_SECONDS, "r", NULL, 100);
    metric_set(METRIC_FE_CONNECTIONS, NULL, NULL, 1);
    metric_set(METRIC_PROC_LOOP_LAG, NULL, NULL, 0.000001234);
    assert_int_equal(metric_snapshot(&all, "a"), 0);
    assert_int_equal(metric_snapshot(&all, "b"), 0);
    assert_int_equal(metric_render(&out, sv_from(all.p, all.n)), 0);
    assert_int_equal(count(out.p, "# TYPE cofferdam_frontend_requests_total counter\n"), 1);
    assert_int_equal(count(out.p, "# HELP cofferdam_frontend_requests_total requests answered\n"),
                     1);
    assert_int_equal(count(out.p, "# TYPE cofferdam_frontend_request_seconds histogram\n"), 1);
    assert_non_null(strstr(out.p, "# TYPE cofferdam_frontend_connections gauge\n"
                                  "cofferdam_frontend_connections{process=\"a\"} 1\n"
                                  "cofferdam_frontend_connections{process=\"b\"} 1\n"));
    assert_true(strstr(out.p, "# TYPE cofferdam_frontend_connections") <
                strstr(out.p, "# TYPE cofferdam_frontend_requests_total")); /* table order */
    assert_int_equal(count(out.p, "cofferdam_frontend_request_seconds_bucket"), 2 * 21);
    /* nothing of ours is dropped, and rendering a rendered page changes nothing */
    assert_int_equal(count(out.p, "process="), count(all.p, "process="));
    assert_int_equal(metric_render(&again, sv_from(out.p, out.n)), 0);
    assert_string_equal(again.p, out.p);
    bytes_fini(&all);
    bytes_fini(&out);
    bytes_fini(&again);
}

#define CONN "cofferdam_frontend_connections"

static void test_render_drops_hostile_lines(void **state)
{
    static const char *const bad[] = {
        "unknown_metric{process=\"p\"} 1",
        CONN " 1",
        CONN "{} 1",
        CONN "{process=\"p\"}",
        CONN "{process=\"p\"} ",
        CONN "{process=\"p\"} x",
        CONN "{process=\"p\"} 1 2",
        CONN "{process=\"p\"} 1\r",
        CONN "{process=\"p\"}  1",
        CONN "{process=\"p\"}1",
        CONN "{process=\"p\"} 1e",
        CONN "{process=\"p\"} 1.",
        CONN "{process=\"p\"} .5",
        CONN "{process=\"p\"} 0x10",
        CONN "{process=\"p\"} 111111111111111111111111111111111111111111",
        CONN "{process=\"\"} 1",
        CONN "{process=\"p} 1",
        CONN "{process=\"p\\\"} 1",
        CONN "{process=\"p\\n\"} 1",
        CONN "{process=\"p\x01\"} 1",
        CONN "{process=\"p\xff\"} 1",
        CONN "{process=\"p\",x=\"y\"} 1",
        CONN "{x=\"y\",process=\"p\"} 1",
        CONN "{process =\"p\"} 1",
        CONN "_bucket{process=\"p\"} 1",
        " " CONN "{process=\"p\"} 1",
        "# TYPE " CONN " counter",
        "cofferdam_frontend_requests_total{route=\"r\",process=\"p\"} 1",
        "cofferdam_frontend_requests_total{status=\"1\",route=\"r\",process=\"p\"} 1",
        "cofferdam_frontend_request_seconds{route=\"r\",process=\"p\"} 1",
        "cofferdam_frontend_request_seconds_bucket{route=\"r\",process=\"p\"} 1",
        "cofferdam_frontend_request_seconds_bucket{route=\"r\",le=\"x\",process=\"p\"} 1",
        "cofferdam_frontend_request_seconds_sum{route=\"r\",le=\"1\",process=\"p\"} 1",
        "",
        "{",
        "_sum{",
    };
    struct bytes out = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        render(&out, bad[i]);
        assert_string_equal(out.p, "");
    }
    render(&out, "");
    assert_string_equal(out.p, "");
    bytes_fini(&out);
}

static void test_render_accepts_and_dedups(void **state)
{
    static const char *const good[] = {"1", "-1.5", "1e+09", "1.25e-7", "0", "nan", "inf", "-inf"};
    struct bytes out = {0};
    char line[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        snprintf(line, sizeof(line), CONN "{process=\"p\\\\\\\"\"} %s", good[i]);
        render(&out, line);
        assert_int_equal(count(out.p, "\n" CONN "{"), 1);
    }
    render(&out, CONN "{process=\"p\"} 1\n" CONN "{process=\"p\"} 2\n\n" CONN "{process=\"q\"} 3");
    assert_non_null(strstr(out.p, "\n" CONN "{process=\"p\"} 1\n" CONN "{process=\"q\"} 3\n"));
    assert_int_equal(count(out.p, "} 2"), 0);
    bytes_fini(&out);
}

static void test_render_long_line(void **state)
{
    struct bytes in = {0};
    struct bytes out = {0};

    (void)state;
    bytes_put_str(&in, CONN "{process=\"");
    for (int i = 0; i < 2000; i++) {
        bytes_put_char(&in, 'p');
    }
    bytes_put_str(&in, "\"} 1\n");
    assert_int_equal(metric_render(&out, sv_from(in.p, in.n)), 0);
    assert_int_equal(out.n, 0);
    bytes_fini(&in);
    bytes_fini(&out);
}

static void use(void *arg)
{
    struct bytes snap = {0};
    struct bytes out = {0};
    int rc;

    (void)arg;
    metric_add(METRIC_FE_REQUESTS, "r", "200", 5);
    metric_observe_us(METRIC_FE_REQUEST_SECONDS, "r", NULL, 100);
    metric_set(METRIC_FE_CONNECTIONS, NULL, NULL, 1);
    rc = metric_snapshot(&snap, "a");
    assert_true(rc == 0 || rc == ERR_NOMEM);
    if (rc == 0) {
        rc = metric_render(&out, sv_from(snap.p, snap.n));
        assert_true(rc == 0 || rc == ERR_NOMEM);
    }
    bytes_fini(&snap);
    bytes_fini(&out);
    metric_reset();
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(unit_fail_each(use, NULL) > 50);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_snapshot),
        T(test_histogram),
        T(test_series_are_bounded),
        T(test_long_labels_are_cut_and_found_again),
        T(test_wrong_kind_aborts),
        T(test_render_merges),
        T(test_render_drops_hostile_lines),
        T(test_render_accepts_and_dedups),
        T(test_render_long_line),
        T(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
