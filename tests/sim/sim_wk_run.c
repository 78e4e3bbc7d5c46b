/* sim_wk_run.c - the loop's decisions under random models, sandboxes and clocks: every run ends
 * exactly once, budgets hold after every step, and a spent budget leads to one closing call. A
 * failing seed is printed; SIM_SEED replays it. */
#include <stdio.h>

#include "unit.h"
#include "wk_run.h"

struct sim {
    uint64_t rnd;
    struct wk_run run;
    uint64_t now;
    uint64_t models;
    uint64_t closing;
    uint64_t runs;
    uint64_t refused;
    bool is_ended;
};

static uint64_t draw(struct sim *s, uint64_t below)
{
    s->rnd ^= s->rnd << 13;
    s->rnd ^= s->rnd >> 7;
    s->rnd ^= s->rnd << 17;
    return s->rnd % below;
}

static struct wk_run_limits limits(struct sim *s)
{
    return (struct wk_run_limits){
        .rounds_max = (unsigned)(1 + draw(s, 8)),
        .tool_calls_max = draw(s, 2) == 0 ? UINT64_MAX : draw(s, 10),
        .output_tokens_max = draw(s, 2) == 0 ? UINT64_MAX : draw(s, 2000),
        .wall_ms = draw(s, 2) == 0 ? 1000000 : draw(s, 500),
    };
}

static void check(const struct sim *s)
{
    const struct wk_run_limits *l = &s->run.limits;

    assert_true(s->runs <= l->tool_calls_max);
    assert_true(s->models - s->closing <= l->rounds_max);
    assert_true(s->closing <= 1);
    assert_int_equal(s->is_ended, s->run.state == WK_RUN_ENDED);
    assert_int_equal(s->run.rounds, s->models);
    assert_int_equal(s->run.tool_calls, s->runs);
}

/* Carries out the action; returns the event that follows. */
static struct wk_run_event carry_out(struct sim *s, const struct wk_run_action *a)
{
    struct wk_run_event ev = {.type = WK_RUN_EV_MODEL};

    switch (a->type) {
    case WK_RUN_DO_MODEL:
        s->models++;
        s->closing += a->is_closing ? 1 : 0;
        assert_int_equal(a->is_first, s->models == 1);
        if (!a->is_first) {
            assert_true(a->output_tokens_left >= WK_RUN_TOKENS_MIN);
        }
        ev.our_calls = draw(s, 3) == 0 ? 0 : (unsigned)draw(s, 4);
        ev.client_calls = draw(s, 8) == 0 ? 1 : 0;
        ev.is_cut = draw(s, 20) == 0;
        ev.output_tokens = draw(s, 300);
        s->now += draw(s, 50);
        break;
    case WK_RUN_DO_RUN:
    case WK_RUN_DO_REFUSE:
        assert_true(a->call < s->run.calls);
        ev.type = WK_RUN_EV_TOOL;
        if (a->type == WK_RUN_DO_RUN) {
            s->runs++;
            ev.code_hash = 1 + draw(s, 2);
            ev.result_hash = 1 + draw(s, 2);
        } else {
            s->refused++;
        }
        s->now += draw(s, 100);
        break;
    case WK_RUN_DO_ANSWER:
    case WK_RUN_DO_FAIL:
    case WK_RUN_DO_STOP:
        assert_false(s->is_ended);
        s->is_ended = true;
        break;
    }
    if (!s->is_ended && draw(s, 40) == 0) {
        ev.type = draw(s, 2) == 0 ? WK_RUN_EV_FAILED : WK_RUN_EV_CANCELLED;
    }
    return ev;
}

static void one(uint64_t seed)
{
    struct sim s = {.rnd = seed * 0x9E3779B97F4A7C15ULL + 1};
    struct wk_run_limits l = limits(&s);
    struct wk_run_event ev = {.type = WK_RUN_EV_START};
    unsigned steps = 0;

    wk_run_init(&s.run, &l, s.now);
    while (!s.is_ended) {
        enum wk_run_event_type sent = ev.type;
        struct wk_run_action a = wk_run_step(&s.run, s.now, &ev);

        assert_true(++steps < 1000);
        assert_int_equal(a.type == WK_RUN_DO_FAIL, sent == WK_RUN_EV_FAILED);
        assert_int_equal(a.type == WK_RUN_DO_STOP, sent == WK_RUN_EV_CANCELLED);
        ev = carry_out(&s, &a);
        check(&s);
    }
}

static void random_runs(void **state)
{
    const char *fixed = getenv("SIM_SEED");

    (void)state;
    if (fixed != NULL) {
        one(strtoull(fixed, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        if (seed % 5000 == 0) {
            print_message("seeds up to %llu\n", (unsigned long long)seed);
        }
        one(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_runs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
