/* icept_scenario.h - one intercepted request from script to what the client got, the same for both
 * surfaces and for both ways of answering. */
#ifndef CFD_TESTS_ICEPT_SCENARIO_H
#define CFD_TESTS_ICEPT_SCENARIO_H

#include "fake_client.h"
#include "fake_job.h"
#include "fake_model.h"
#include "unit.h"

#define TOOL "litellm_code_execution"

struct scenario {
    bool is_chat;
    bool is_stream;
    struct fake_job *f;
    json_t *got;      /* final object */
    const char *type; /* terminal event of a Responses stream */
    unsigned events;
};

/* The four ways to ask for the same. */
#define FOR_EACH_WAY(s)                                                                            \
    for (unsigned way_ = 0;                                                                        \
         way_ < 4 && (memset(&(s), 0, sizeof(s)), (s).is_chat = (way_ & 1) != 0,                   \
                                                  (s).is_stream = (way_ & 2) != 0, true);          \
         way_++)

/* Request with the code interpreter; `more` = further members, ',"k":v'. May be NULL. */
void sc_begin(struct scenario *s, const char *more);
/* The next model answer. */
void sc_answer(struct scenario *s, const struct fm_answer *a);
/* Runs to the end; the answer must be 200 and good JSON. */
void sc_finish(struct scenario *s);
/* Runs to the end without looking at the answer. */
void sc_run(struct scenario *s);
void sc_end(struct scenario *s);

/* Of the final object: */
const char *sc_text(const struct scenario *s);     /* all text for the user */
json_t *sc_runs(const struct scenario *s);         /* code_interpreter_call items, new array */
json_t *sc_client_calls(const struct scenario *s); /* names of client function calls, new array */
const char *sc_status(const struct scenario *s);   /* completed, incomplete, mixed */
double sc_usage(const struct scenario *s, bool is_output); /* tokens */
/* Text of tool result `i` in the request `n` (0-based) sent upstream; NULL when there is none.
 * Valid until sc_end. */
const char *sc_shown(struct scenario *s, unsigned n, unsigned i);
json_t *sc_request(const struct scenario *s, unsigned n); /* new */
char *code_args(const char *code); /* {"code":...}; leaked into a small pool */

/* A plain answer, and one that reasons and calls our tool. */
extern const struct fm_answer hello;
struct fm_answer call_answer(const char *args, const char *call_id);

#endif
