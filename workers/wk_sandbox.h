/* wk_sandbox.h - what wk_sandbox.c and wk_sandbox_json.c share: the body of a /v1/sandboxes request
 * and its answers. */
#ifndef CFD_WORKERS_WK_SANDBOX_H
#define CFD_WORKERS_WK_SANDBOX_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "wk_job.h"

/* A request body, checked. Zeroed is an empty one. */
struct wk_sandbox_req {
    char *tool;          /* owned; NULL = the default one */
    char *session_id;    /* owned; NULL = none */
    struct buf *code;    /* owned; NULL = none */
    uint32_t timeout_ms; /* of the run; 0 = default */
    bool is_stream;
};

void wk_sandbox_req_fini(struct wk_sandbox_req *r);
/* An empty body is an empty object. Errors name the field. `with_code`: a run, else a create. */
int wk_sandbox_req_parse(struct wk_sandbox_req *ret, struct str_view body, bool with_code,
                         struct err *e);

/* The answer of a run: sandboxd's CodeExecutionResult with `sandbox_id` and `notes` added when
 * missing. `type` not NULL puts "type" in front (for the `done` event). NULL on out of memory or
 * when the payload is no JSON object. */
struct buf *wk_sandbox_run_result(const struct wk_sbx_result *r, const char *type);
/* {"object":"list","data":[...],...} from sandboxd's {"data":[...]}; NULL as above. */
struct buf *wk_sandbox_list(struct str_view payload);
/* {"id","object":"sandbox.deleted","deleted":true} */
struct buf *wk_sandbox_deleted(struct str_view id);
/* One event of a streamed run, with its blank line; NULL = nothing to tell. */
struct buf *wk_sandbox_event(enum msg_sbx_event kind, struct str_view payload);
/* The `error` event of a run that failed after it began to stream. */
struct buf *wk_sandbox_failure(const struct err *e);

#endif
