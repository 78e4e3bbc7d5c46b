/* sb_run.h - one run of code: who waits for it and what it printed so far. Pure.
 *
 * Threads: loop thread. Lifetime: owned by the session's queue, then by the session while it runs.
 * Bounds: SB_WAITERS_MAX waiters; output at most `output_max` bytes in all (the provider cuts
 * first, this is the second line), then is_truncated. */
#ifndef CFD_SANDBOXD_SB_RUN_H
#define CFD_SANDBOXD_SB_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/list.h"
#include "proto/msg.h"
#include "sb_provider.h"

#define SB_WAITERS_MAX 4

/* Where an answer goes: the link it came by and the two numbers the asker chose. */
struct sb_origin {
    void *link; /* borrowed; compared, never followed */
    struct request_id rid;
    uint32_t call;
};

struct sb_run {
    struct list_link link; /* in the session's queue */
    struct sb_origin waiters[SB_WAITERS_MAX];
    unsigned waiter_count;
    enum msg_sbx_op op; /* OPEN or RUN */
    struct tenant_id tenant;
    struct msg_id16 op_id; /* all zero = none */
    struct buf *code;      /* owned reference */
    uint32_t timeout_ms;
    uint32_t notes; /* enum msg_sbx_note */
    bool was_replaced;
    bool is_cancelled;
    uint64_t started_us;

    struct bytes out, err, results; /* results: JSON objects separated by commas */
    struct bytes exception;         /* JSON object or empty */
    uint64_t count;
    bool has_count;
    bool is_truncated;
    size_t output_max;
};

struct sb_run *sb_run_new(const struct sb_origin *origin, enum msg_sbx_op op,
                          size_t output_max); /* NULL = no memory */
void sb_run_free(struct sb_run *r);           /* accepts NULL */
bool sb_run_has_op_id(const struct sb_run *r);
/* ERR_LIMIT when there are too many. */
int sb_run_add_waiter(struct sb_run *r, const struct sb_origin *origin);
/* Returns whether `origin` was waiting; it no longer is. */
bool sb_run_drop_waiter(struct sb_run *r, const struct sb_origin *origin);
bool sb_origin_eq(const struct sb_origin *a, const struct sb_origin *b);

/* Notes one event of the provider. Returns the message kind to pass on, 0 = nothing. */
enum msg_sbx_event sb_run_event(struct sb_run *r, enum sb_event_kind kind, struct str_view data);
/* The CodeExecutionResult object. `lost`: text put into `error` when the code itself raised
 * nothing; may be NULL. */
struct buf *sb_run_result(struct sb_run *r, const char *error_name, const char *error_text,
                          const char *sandbox_id);

#endif
