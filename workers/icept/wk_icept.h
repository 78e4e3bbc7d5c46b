/* wk_icept.h - the shell of the agentic loop: carries out what wk_run decides. Internal to
 * workers/icept.
 *
 *   start --> [open an explicit container] --> drive(START)
 *   drive:  MODEL   wk_icept_model.c   upstream bytes -> surface -> drive(MODEL)
 *           RUN     wk_icept_tool.c    sandbox events -> ic_output -> drive(TOOL)
 *           ANSWER, FAIL               wk_icept.c: the answer ends, the job is done
 *
 * Threads:  loop thread. Lifetime: from wk_icept_start to icept_end, which frees it and calls
 * wk_job_done. At most one model call and one sandbox call are in flight; both can be (a sandbox is
 * opened while the model still streams). Errors:   icept_fail is the one way out for all of them.
 */
#ifndef CFD_ICEPT_WK_ICEPT_H
#define CFD_ICEPT_WK_ICEPT_H

#include "ic_loop.h"
#include "wk_job.h"

#define ICEPT_UP_BODY_MAX ((size_t)128 << 20)

struct icept {
    struct wk_job *job; /* borrowed */
    struct ic_request req;
    struct ic_loop *loop; /* owned; NULL until the request is known to be good */

    /* model */
    struct wk_up *up;
    struct wk_sse sse;
    struct wk_sse_event ev;  /* being delivered, while has_event */
    struct bytes clean;      /* its data, when that was not good UTF-8 */
    struct bytes up_headers; /* what a client may see of them */
    struct bytes up_body;
    struct bytes path;
    struct bytes tail;
    struct str_view slices[5];
    uint64_t model_us; /* waited for models so far */
    uint64_t model_from_us;
    int up_status;     /* 0 = no head yet */
    bool is_up_stream; /* the head announced an event stream */
    bool is_up_done;   /* the call ended well; its bytes may still wait in sse or body */
    bool has_event;
    bool is_output_full;

    /* sandbox */
    bool is_opening;
    bool is_sandbox_used;
    bool is_restarted; /* told by an open: the next run's text says so */
    bool has_events;   /* the run sent events */
    enum msg_sbx_scope scope;
    unsigned call;    /* being run */
    unsigned ordinal; /* runs of this request so far */
    uint32_t run_limit_ms;
    uint64_t run_from_us;
    struct wk_sbx_call *sbx;
    void (*after_open)(struct icept *x); /* what waits for it */
    struct ic_output output;
};

/* wk_icept.c */
void icept_drive(struct icept *x, struct wk_run_event ev);
void icept_fail(struct icept *x, const struct err *e);
/* Frees everything and ends the job; nothing of x may be used afterwards. */
void icept_end(struct icept *x, enum msg_outcome outcome);
/* Sends what the surface wrote. */
void icept_flush(struct icept *x);

/* wk_icept_model.c */
int icept_model_start(struct icept *x, const struct wk_run_action *a, struct err *e);
/* Goes on with upstream bytes after the sandbox is open or the client took some. */
void icept_model_resume(struct icept *x);

/* wk_icept_tool.c */
int icept_tool_open(struct icept *x, void (*after)(struct icept *x), struct err *e);
/* 0: started, a TOOL event follows; 1: *ret_ev is it already; negative: error. */
int icept_tool_run(struct icept *x, unsigned call, struct wk_run_event *ret_ev, struct err *e);
struct wk_run_event icept_tool_refuse(struct icept *x, unsigned call);

#endif
