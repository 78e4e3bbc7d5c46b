/* fake_job.h - stands in for workers/wk_job.h's functions: scripted model answers and sandbox
 * results, a recorded answer. Nothing happens inside a call: fake_job_turn delivers one thing at a
 * time, as the loop would. */
#ifndef CFD_TESTS_FAKE_JOB_H
#define CFD_TESTS_FAKE_JOB_H

#include "wk_job.h"

#define FAKE_MAX 64

/* A model call's outcome. */
struct fake_answer {
    int status;          /* 0: no answer at all, rc says why */
    const char *headers; /* NULL = by body: event stream or JSON */
    char *body;          /* owned, freed by the fake */
    int rc;              /* of on_done */
    bool is_hanging;     /* the connection stays open after the body */
    size_t body_n;       /* 0 = up to the NUL */
};

/* A sandbox call's outcome. Events are sent in the order of this struct. */
struct fake_run {
    const char *out;
    const char *display; /* JSON */
    const char *err;
    const char *exception; /* JSON */
    const char *payload;   /* JSON, CodeExecutionResult */
    const char *text;
    int code;
    unsigned notes;
    unsigned retry_after_ms;
};

struct fake_job {
    struct wk_job job;
    struct cfg cfg;
    struct cfg_deployment deployment;

    struct fake_answer answers[FAKE_MAX];
    unsigned answer_count;
    unsigned answer_at;
    bool is_last_repeated;           /* the last answer serves all further calls */
    size_t piece;                    /* bytes per on_data; 0 = all at once */
    struct bytes requests[FAKE_MAX]; /* bodies with the model spliced in */
    unsigned request_count;
    char last_path[256];

    struct fake_run runs[FAKE_MAX];
    unsigned run_count;
    unsigned run_at;
    struct fake_run open; /* outcome of OPEN */
    struct bytes codes[FAKE_MAX];
    struct msg_id16 op_ids[FAKE_MAX];
    unsigned code_count;
    unsigned open_count;
    unsigned close_count;
    enum msg_sbx_scope scope;
    char session[400];
    char params[1024];
    uint32_t timeout_ms;

    /* the answer */
    int status;
    struct bytes headers;
    struct bytes out;
    bool is_head;
    bool is_finished;
    bool is_aborted;
    struct err error; /* of wk_out_error or wk_out_abort */
    bool is_done;
    enum msg_outcome outcome;
    uint32_t last_sequence;
    uint64_t window; /* bytes until wk_out_data says stop; UINT64_MAX = never */

    /* in flight */
    struct wk_up *up;
    struct wk_sbx_call *sbx;
    unsigned paused_turns;
    unsigned max_calls; /* largest number of model calls in flight at once */
};

/* `body` is copied. */
struct fake_job *fake_job_new(enum msg_kind kind, const char *body);
void fake_job_free(struct fake_job *f);
void fake_job_answer(struct fake_job *f, int status, char *body); /* body moved */
void fake_job_start(struct fake_job *f);
bool fake_job_turn(struct fake_job *f); /* false: nothing is in flight */
void fake_job_run(struct fake_job *f);  /* turns until nothing happens */
void fake_job_cancel(struct fake_job *f, int code);

#endif
