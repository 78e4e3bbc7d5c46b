/* test_wk_run.c - the known stories of the loop, step by step. */
#include "unit.h"
#include "wk_run.h"

static const struct wk_run_limits wide = {10, UINT64_MAX, UINT64_MAX, 600000};

static struct wk_run_action step(struct wk_run *r, enum wk_run_event_type type)
{
    struct wk_run_event ev = {.type = type};

    return wk_run_step(r, 0, &ev);
}

static struct wk_run_action model(struct wk_run *r, unsigned ours, unsigned client, uint64_t tokens)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_MODEL,
                              .our_calls = ours,
                              .client_calls = client,
                              .output_tokens = tokens};

    return wk_run_step(r, 0, &ev);
}

static struct wk_run_action tool(struct wk_run *r, uint64_t code, uint64_t result, uint64_t now)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_TOOL, .code_hash = code, .result_hash = result};

    return wk_run_step(r, now, &ev);
}

static void answer_without_calls(void **state)
{
    struct wk_run r;

    (void)state;
    wk_run_init(&r, &wide, 0);
    struct wk_run_action a = step(&r, WK_RUN_EV_START);

    assert_int_equal(a.type, WK_RUN_DO_MODEL);
    assert_true(a.is_first);
    assert_false(a.is_closing);
    assert_int_equal(a.output_tokens_left, UINT64_MAX);
    assert_int_equal(model(&r, 0, 0, 5).type, WK_RUN_DO_ANSWER);
    assert_int_equal(r.state, WK_RUN_ENDED);
}

static void calls_run_in_order(void **state)
{
    struct wk_run r;

    (void)state;
    wk_run_init(&r, &wide, 0);
    (void)step(&r, WK_RUN_EV_START);
    struct wk_run_action a = model(&r, 3, 0, 0);

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(a.type, WK_RUN_DO_RUN);
        assert_int_equal(a.call, i);
        a = tool(&r, i + 1, 1, 0);
    }
    assert_int_equal(a.type, WK_RUN_DO_MODEL);
    assert_false(a.is_first);
    assert_false(a.is_closing);
}

static void mixed_ends_after_our_calls(void **state)
{
    struct wk_run r;

    (void)state;
    wk_run_init(&r, &wide, 0);
    (void)step(&r, WK_RUN_EV_START);
    assert_int_equal(model(&r, 1, 1, 0).type, WK_RUN_DO_RUN);
    assert_int_equal(tool(&r, 1, 1, 0).type, WK_RUN_DO_ANSWER);
}

static void rounds_end_in_a_closing_call(void **state)
{
    struct wk_run_limits l = wide;
    struct wk_run r;

    (void)state;
    l.rounds_max = 2;
    wk_run_init(&r, &l, 0);
    (void)step(&r, WK_RUN_EV_START);
    (void)model(&r, 1, 0, 0);
    assert_false(tool(&r, 1, 1, 0).is_closing);
    (void)model(&r, 1, 0, 0);
    struct wk_run_action a = tool(&r, 2, 1, 0);

    assert_true(a.is_closing);
    assert_int_equal(r.spent, WK_RUN_BUDGET_ROUNDS);
    assert_int_equal(model(&r, 1, 0, 0).type, WK_RUN_DO_ANSWER); /* its call is not run */
}

static void tool_call_cap(void **state)
{
    struct wk_run_limits l = wide;
    struct wk_run r;

    (void)state;
    l.tool_calls_max = 1;
    wk_run_init(&r, &l, 0);
    (void)step(&r, WK_RUN_EV_START);
    assert_true(wk_run_may_show(&r, 0));
    assert_false(wk_run_may_show(&r, 1));
    assert_int_equal(model(&r, 2, 0, 0).type, WK_RUN_DO_RUN);
    assert_int_equal(tool(&r, 1, 1, 0).type, WK_RUN_DO_REFUSE);
    assert_true(tool(&r, 0, 0, 0).is_closing);
    l.tool_calls_max = 0;
    wk_run_init(&r, &l, 0);
    assert_true(step(&r, WK_RUN_EV_START).is_closing);
}

static void token_cap(void **state)
{
    struct wk_run_limits l = wide;
    struct wk_run r;

    (void)state;
    l.output_tokens_max = 100;
    wk_run_init(&r, &l, 0);
    assert_int_equal(step(&r, WK_RUN_EV_START).output_tokens_left, 100);
    (void)model(&r, 1, 0, 40);
    assert_int_equal(tool(&r, 1, 1, 0).output_tokens_left, 60);
    (void)model(&r, 1, 0, 50);
    struct wk_run_action a = tool(&r, 2, 1, 0);

    assert_int_equal(a.type, WK_RUN_DO_ANSWER);
    assert_true(a.is_cut && a.is_token_cut);
    l.output_tokens_max = 5; /* the client's own small cap is the provider's to judge */
    wk_run_init(&r, &l, 0);
    assert_int_equal(step(&r, WK_RUN_EV_START).output_tokens_left, 5);
}

static void wall_time(void **state)
{
    struct wk_run_limits l = wide;
    struct wk_run r;

    (void)state;
    l.wall_ms = 100;
    wk_run_init(&r, &l, 0);
    (void)step(&r, WK_RUN_EV_START);
    assert_int_equal(model(&r, 2, 0, 0).type, WK_RUN_DO_RUN);
    assert_int_equal(tool(&r, 1, 1, 100).type, WK_RUN_DO_REFUSE);
    assert_true(tool(&r, 0, 0, 100).is_closing);
    assert_int_equal(r.spent, WK_RUN_BUDGET_WALL);
    assert_int_equal(wk_run_wall_left(&r, 99), 1);
    assert_int_equal(wk_run_wall_left(&r, 101), 0);
}

static void repeats(void **state)
{
    struct wk_run r;

    (void)state;
    wk_run_init(&r, &wide, 0);
    (void)step(&r, WK_RUN_EV_START);
    for (unsigned i = 0; i < 3; i++) {
        (void)model(&r, 1, 0, 0);
        assert_int_equal(tool(&r, 7, 8, 0).is_closing, i == 2);
    }
    assert_int_equal(r.spent, WK_RUN_BUDGET_REPEAT);
    wk_run_init(&r, &wide, 0);
    (void)step(&r, WK_RUN_EV_START);
    for (unsigned i = 0; i < 6; i++) { /* other results: polling is fine */
        (void)model(&r, 1, 0, 0);
        assert_false(tool(&r, 7, i + 1, 0).is_closing);
    }
}

static void cut_fail_cancel(void **state)
{
    struct wk_run r;
    struct wk_run_event cut = {.type = WK_RUN_EV_MODEL, .our_calls = 1, .is_cut = true};

    (void)state;
    wk_run_init(&r, &wide, 0);
    (void)step(&r, WK_RUN_EV_START);
    struct wk_run_action a = wk_run_step(&r, 0, &cut);

    assert_int_equal(a.type, WK_RUN_DO_ANSWER);
    assert_true(a.is_cut);
    assert_false(a.is_token_cut);
    for (unsigned after = 0; after < 3; after++) { /* from each state that can wait */
        for (unsigned kind = 0; kind < 2; kind++) {
            wk_run_init(&r, &wide, 0);
            if (after > 0) {
                (void)step(&r, WK_RUN_EV_START);
            }
            if (after > 1) {
                (void)model(&r, 1, 0, 0);
            }
            assert_int_equal(step(&r, kind == 0 ? WK_RUN_EV_FAILED : WK_RUN_EV_CANCELLED).type,
                             kind == 0 ? WK_RUN_DO_FAIL : WK_RUN_DO_STOP);
            assert_string_equal(wk_run_state_name(r.state), "ENDED");
            assert_string_equal(wk_run_budget_name(r.spent), "NONE");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_without_calls),
        cmocka_unit_test(calls_run_in_order),
        cmocka_unit_test(mixed_ends_after_our_calls),
        cmocka_unit_test(rounds_end_in_a_closing_call),
        cmocka_unit_test(tool_call_cap),
        cmocka_unit_test(token_cap),
        cmocka_unit_test(wall_time),
        cmocka_unit_test(repeats),
        cmocka_unit_test(cut_fail_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
