/* wk_pass.h - passes a provider's answer through: status and headers kept, body byte for byte,
 * pausing the provider when the client is slow. Shared by the fast path and provider objects.
 *
 * An event stream is over WK_PASS_LINGER_MS after its terminal event, also when the provider keeps
 * the connection open. In answers that are no 2xx the operator's keys are replaced by [redacted]:
 * up to the length of the longest key is held back until more comes or the answer ends.
 *
 * Lifetime: freed with the job's end, which wk_pass brings about itself. */
#ifndef CFD_WORKERS_WK_PASS_H
#define CFD_WORKERS_WK_PASS_H

#include "wk_ending.h"
#include "wk_job.h"
#include "wk_timer.h"

#define WK_PASS_SLICES    6
#define WK_PASS_LINGER_MS 1000

struct wk_pass {
    struct wk_job *job;
    struct wk_up *up;
    enum msg_stream stream; /* if the answer is an event stream */
    bool is_stream;         /* it is one, of a kind whose end is known */
    struct wk_ending ending;
    struct wk_timer linger; /* the terminal event is there, the end of the transfer is not */
    size_t key_max;         /* no 2xx: length of the longest key that must not be told; else 0 */
    struct bytes held;      /* of such an answer: its last bytes, which may be the front of a key */
    struct str_view slices[WK_PASS_SLICES];
    struct bytes rebuilt; /* the body, when it needed more slices */
};

/* NULL on out of memory. Set slices, then wk_pass_start (which frees it on failure and ends the
 * job). */
struct wk_pass *wk_pass_new(struct wk_job *job, const struct wk_handler_ops *ops);
void wk_pass_start(struct wk_pass *p, const struct wk_up_req *req);
/* Instead of wk_pass_start: ends the job with an error answer. */
void wk_pass_refuse(struct wk_pass *p, const struct err *e);
void wk_pass_on_cancel(struct wk_job *job, int code);
void wk_pass_on_writable(struct wk_job *job);

/* Ends a job that could not even start: error answer, DONE. */
void wk_job_refuse(struct wk_job *job, const struct err *e);
/* The request target below /v1 (or the whole one), checked: plain visible ASCII, no dot segments.
 * */
int wk_job_target(const struct wk_job *job, const char **ret, struct err *e);

#endif
