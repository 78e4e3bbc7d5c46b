#include "wk_run.h"

#include <string.h>

#include "base/check.h"

const char *wk_run_state_name(enum wk_run_state s)
{
    static const char *const names[] = {
#define X(name) #name,
        WK_RUN_STATES(X)
#undef X
    };

    return names[s];
}

const char *wk_run_budget_name(enum wk_run_budget b)
{
    static const char *const names[] = {
#define X(name) #name,
        WK_RUN_BUDGETS(X)
#undef X
    };

    return names[b];
}

void wk_run_init(struct wk_run *r, const struct wk_run_limits *limits, uint64_t now_ms)
{
    REQUIRE(limits->rounds_max >= 1);
    memset(r, 0, sizeof(*r));
    r->limits = *limits;
    r->state = WK_RUN_NEW;
    r->started_ms = now_ms;
}

/* The only writer of r->state. */
static void move(struct wk_run *r, enum wk_run_state next)
{
    static const uint8_t to[] = {
        [WK_RUN_NEW] = 1U << WK_RUN_MODEL | 1U << WK_RUN_CLOSING | 1U << WK_RUN_ENDED,
        [WK_RUN_MODEL] = 1U << WK_RUN_TOOLS | 1U << WK_RUN_ENDED,
        [WK_RUN_TOOLS] = 1U << WK_RUN_MODEL | 1U << WK_RUN_CLOSING | 1U << WK_RUN_ENDED,
        [WK_RUN_CLOSING] = 1U << WK_RUN_ENDED,
        [WK_RUN_ENDED] = 0,
    };

    REQUIRE((to[r->state] & 1U << next) != 0);
    r->state = next;
    INVARIANT(r->tool_calls <= r->limits.tool_calls_max && r->rounds <= r->limits.rounds_max + 1);
}

uint64_t wk_run_wall_left(const struct wk_run *r, uint64_t now_ms)
{
    uint64_t used = now_ms > r->started_ms ? now_ms - r->started_ms : 0;

    return used < r->limits.wall_ms ? r->limits.wall_ms - used : 0;
}

bool wk_run_may_show(const struct wk_run *r, unsigned pending)
{
    return r->state == WK_RUN_MODEL && pending < r->limits.tool_calls_max - r->tool_calls;
}

static struct wk_run_action end(struct wk_run *r, enum wk_run_action_type type, bool is_cut)
{
    struct wk_run_action a = {.type = type, .is_cut = is_cut};

    move(r, WK_RUN_ENDED);
    return a;
}

static uint64_t tokens_left(const struct wk_run *r)
{
    if (r->limits.output_tokens_max == UINT64_MAX) {
        return UINT64_MAX;
    }
    return r->output_tokens < r->limits.output_tokens_max
               ? r->limits.output_tokens_max - r->output_tokens
               : 0;
}

static enum wk_run_budget find_spent(const struct wk_run *r, uint64_t now_ms)
{
    if (r->spent != WK_RUN_BUDGET_NONE) {
        return r->spent;
    }
    if (r->rounds >= r->limits.rounds_max) {
        return WK_RUN_BUDGET_ROUNDS;
    }
    if (r->tool_calls >= r->limits.tool_calls_max) {
        return WK_RUN_BUDGET_TOOL_CALLS;
    }
    if (wk_run_wall_left(r, now_ms) == 0) {
        return WK_RUN_BUDGET_WALL;
    }
    return r->repeats >= WK_RUN_REPEATS ? WK_RUN_BUDGET_REPEAT : WK_RUN_BUDGET_NONE;
}

static struct wk_run_action call_model(struct wk_run *r, uint64_t now_ms)
{
    struct wk_run_action a = {.type = WK_RUN_DO_MODEL};

    a.output_tokens_left = tokens_left(r);
    if (r->rounds > 0 && a.output_tokens_left < WK_RUN_TOKENS_MIN) {
        r->spent = WK_RUN_BUDGET_TOKENS;
        a = end(r, WK_RUN_DO_ANSWER, true);
        a.is_token_cut = true;
        return a;
    }
    r->spent = find_spent(r, now_ms);
    a.is_first = r->rounds == 0;
    a.is_closing = r->spent != WK_RUN_BUDGET_NONE;
    r->rounds++;
    move(r, a.is_closing ? WK_RUN_CLOSING : WK_RUN_MODEL);
    return a;
}

static struct wk_run_action next_call(struct wk_run *r, uint64_t now_ms)
{
    struct wk_run_action a = {.type = WK_RUN_DO_RUN, .call = r->call};

    if (r->call == r->calls) {
        return r->is_mixed ? end(r, WK_RUN_DO_ANSWER, false) : call_model(r, now_ms);
    }
    if (r->tool_calls >= r->limits.tool_calls_max) {
        r->spent = WK_RUN_BUDGET_TOOL_CALLS;
        a.type = WK_RUN_DO_REFUSE;
    } else if (wk_run_wall_left(r, now_ms) == 0) {
        r->spent = WK_RUN_BUDGET_WALL;
        a.type = WK_RUN_DO_REFUSE;
    } else {
        r->tool_calls++;
        r->has_run = true;
    }
    return a;
}

static struct wk_run_action on_model(struct wk_run *r, uint64_t now_ms,
                                     const struct wk_run_event *ev)
{
    REQUIRE(r->state == WK_RUN_MODEL || r->state == WK_RUN_CLOSING);
    r->output_tokens += ev->output_tokens;
    if (ev->is_cut) {
        return end(r, WK_RUN_DO_ANSWER, true);
    }
    if (r->state == WK_RUN_CLOSING || ev->our_calls == 0) {
        return end(r, WK_RUN_DO_ANSWER, false);
    }
    r->calls = ev->our_calls;
    r->call = 0;
    r->is_mixed = ev->client_calls > 0;
    move(r, WK_RUN_TOOLS);
    return next_call(r, now_ms);
}

static struct wk_run_action on_tool(struct wk_run *r, uint64_t now_ms,
                                    const struct wk_run_event *ev)
{
    REQUIRE(r->state == WK_RUN_TOOLS && r->call < r->calls);
    if (ev->code_hash != 0) {
        bool is_same =
            r->repeats > 0 && r->last_code == ev->code_hash && r->last_result == ev->result_hash;

        r->repeats = is_same ? r->repeats + 1 : 1;
        r->last_code = ev->code_hash;
        r->last_result = ev->result_hash;
    }
    r->call++;
    return next_call(r, now_ms);
}

struct wk_run_action wk_run_step(struct wk_run *r, uint64_t now_ms, const struct wk_run_event *ev)
{
    REQUIRE(r->state != WK_RUN_ENDED);
    switch (ev->type) {
    case WK_RUN_EV_START:
        REQUIRE(r->state == WK_RUN_NEW);
        return call_model(r, now_ms);
    case WK_RUN_EV_MODEL:
        return on_model(r, now_ms, ev);
    case WK_RUN_EV_TOOL:
        return on_tool(r, now_ms, ev);
    case WK_RUN_EV_FAILED:
        return end(r, WK_RUN_DO_FAIL, false);
    case WK_RUN_EV_CANCELLED:
        break;
    }
    return end(r, WK_RUN_DO_STOP, false);
}
