/* wk_run.h - the agentic loop as decisions only: MODEL -> TOOLS -> MODEL -> ... -> an end. Pure: no
 * I/O, no clock, no JSON.
 *
 *   NEW --start--> MODEL (or CLOSING when no tool call is allowed at all)
 *   MODEL --answered without our calls--> ENDED: answer
 *   MODEL --our calls--> TOOLS --run/refuse each, in order--> MODEL, or CLOSING when a budget is
 * spent, or ENDED when the client's functions were called too CLOSING (the tool is not offered any
 * more) --answered--> ENDED: answer any --failed--> ENDED: fail     any --cancelled--> ENDED:
 * nothing more is asked
 *
 * Budgets: model calls that may run code, tool calls, output tokens over all rounds, wall time, and
 * the same code giving the same result three times in a row. A spent budget never loses what was
 * run: the model gets one closing call. Exception: without output tokens left nothing could be
 * said, so the answer is then incomplete.
 *
 * Threads: one owner. Errors: an event that does not fit the state is a bug of the shell (REQUIRE).
 */
#ifndef CFD_ICEPT_WK_RUN_H
#define CFD_ICEPT_WK_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define WK_RUN_TOKENS_MIN 16 /* less cannot be asked of a model */
#define WK_RUN_REPEATS    3

/* clang-format off */
#define WK_RUN_STATES(X) X(NEW) X(MODEL) X(TOOLS) X(CLOSING) X(ENDED)
/* Why no further code runs. */
#define WK_RUN_BUDGETS(X) X(NONE) X(ROUNDS) X(TOOL_CALLS) X(TOKENS) X(WALL) X(REPEAT)
/* clang-format on */

enum wk_run_state {
#define X(name) WK_RUN_##name,
    WK_RUN_STATES(X)
#undef X
};

enum wk_run_budget {
#define X(name) WK_RUN_BUDGET_##name,
    WK_RUN_BUDGETS(X)
#undef X
};

struct wk_run_limits {
    unsigned rounds_max;        /* >= 1 */
    uint64_t tool_calls_max;    /* UINT64_MAX = none */
    uint64_t output_tokens_max; /* UINT64_MAX = none */
    uint64_t wall_ms;
};

enum wk_run_event_type {
    WK_RUN_EV_START,
    WK_RUN_EV_MODEL,  /* the model answered */
    WK_RUN_EV_TOOL,   /* the call that RUN or REFUSE named is done */
    WK_RUN_EV_FAILED, /* model or sandbox provider: the request cannot go on */
    WK_RUN_EV_CANCELLED
};

struct wk_run_event {
    enum wk_run_event_type type;
    /* MODEL */
    unsigned our_calls;
    unsigned client_calls;
    bool is_cut; /* the model stopped early (token cap, content filter): nothing of it is run */
    uint64_t output_tokens;
    /* TOOL: 0 = did not run */
    uint64_t code_hash;
    uint64_t result_hash;
};

enum wk_run_action_type {
    WK_RUN_DO_MODEL,  /* call the model */
    WK_RUN_DO_RUN,    /* run our call `call` of the round */
    WK_RUN_DO_REFUSE, /* tell the model that call `call` is not run; answer with a TOOL event */
    WK_RUN_DO_ANSWER, /* end well; is_cut: incomplete */
    WK_RUN_DO_FAIL,   /* end with the error the shell knows */
    WK_RUN_DO_STOP    /* clean up, answer nothing */
};

struct wk_run_action {
    enum wk_run_action_type type;
    unsigned call;
    bool is_first;               /* MODEL: nothing was run yet, a forced tool choice applies */
    bool is_closing;             /* MODEL: without our tool */
    bool is_cut;                 /* ANSWER */
    bool is_token_cut;           /* ANSWER: cut by our own output token budget */
    uint64_t output_tokens_left; /* MODEL: UINT64_MAX = no limit */
};

struct wk_run {
    struct wk_run_limits limits;
    enum wk_run_state state;
    enum wk_run_budget spent;
    uint64_t started_ms;
    unsigned rounds;     /* model calls asked for, closing one included */
    uint64_t tool_calls; /* run */
    uint64_t output_tokens;
    unsigned calls; /* ours, of this round */
    unsigned call;  /* being worked on */
    bool is_mixed;  /* this round also called the client's functions */
    bool has_run;
    uint64_t last_code;
    uint64_t last_result;
    unsigned repeats;
};

void wk_run_init(struct wk_run *r, const struct wk_run_limits *limits, uint64_t now_ms);
struct wk_run_action wk_run_step(struct wk_run *r, uint64_t now_ms, const struct wk_run_event *ev);
/* Would one more call of this round be run? (`pending` calls of it are already seen.) For showing
 * calls as they appear. */
bool wk_run_may_show(const struct wk_run *r, unsigned pending);
uint64_t wk_run_wall_left(const struct wk_run *r, uint64_t now_ms);
const char *wk_run_state_name(enum wk_run_state s);
const char *wk_run_budget_name(enum wk_run_budget b);

#endif
