/* wk_scan.h - validates a JSON body and finds what routing needs, without building a tree. Pure;
 * fuzzed.
 *
 * One pass over the bytes: strict RFC 8259 syntax and UTF-8 (no BOM), nesting at most
 * WK_SCAN_DEPTH_MAX. Keys are compared after their escapes are undone, so "\u006dodel" is "model".
 * What is found are spans (offsets) into the body; the body that goes upstream is the client's
 * bytes without the cut spans and with the model's span replaced.
 *
 * Cut are: reserved keys (wk_scan_is_reserved) at the top level and inside `metadata`; `session_id`
 * inside `metadata`; `litellm_metadata` as a whole (it is addressed to a gateway, never to a
 * provider).
 *
 * Errors: ERR_INVALID_JSON with reason and offset, ERR_INVALID_TYPE (not an object), ERR_INVALID
 *         (a key that matters is there twice: `param`; too many reserved keys).
 * Bounds: WK_SCAN_CUTS_MAX cut spans. */
#ifndef CFD_WORKERS_WK_SCAN_H
#define CFD_WORKERS_WK_SCAN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define WK_SCAN_DEPTH_MAX 256
#define WK_SCAN_CUTS_MAX  128
#define WK_SCAN_KEY_MAX   64 /* decoded bytes of a key that are looked at */

/* clang-format off */
#define WK_SCAN_KEYS(X) \
    X(MODEL,            "model") \
    X(STREAM,           "stream") \
    X(TOOLS,            "tools") \
    X(TOOL_CHOICE,      "tool_choice") \
    X(INPUT,            "input") \
    X(MESSAGES,         "messages") \
    X(INCLUDE,          "include") \
    X(METADATA,         "metadata") \
    X(LITELLM_METADATA, "litellm_metadata")
/* clang-format on */

enum wk_key {
#define X(name, text) WK_KEY_##name,
    WK_SCAN_KEYS(X)
#undef X
        WK_KEY_COUNT
};

enum wk_json {
    WK_JSON_ABSENT,
    WK_JSON_NULL,
    WK_JSON_FALSE,
    WK_JSON_TRUE,
    WK_JSON_NUMBER,
    WK_JSON_STRING,
    WK_JSON_OBJECT,
    WK_JSON_ARRAY
};

struct wk_span {
    size_t at;
    size_t n;
};

struct wk_scan {
    struct wk_span value[WK_KEY_COUNT]; /* top-level values */
    enum wk_json type[WK_KEY_COUNT];
    bool has_code_interpreter; /* `tools` is an array with an entry whose type is "code_interpreter"
                                */
    unsigned cut_count;
    struct wk_span cuts[WK_SCAN_CUTS_MAX]; /* ascending, disjoint, commas included */
};

int wk_scan_body(struct wk_scan *ret, struct str_view body, struct err *e);

/* Is it a control field that only a gateway may set? `key` decoded. */
bool wk_scan_is_reserved(struct str_view key);

/* Undoes the escapes of a validated JSON string (with its quotes) into dst. ERR_LIMIT when it does
 * not fit in `cap`; *ret_n is the decoded length. A lone surrogate becomes U+FFFD. */
int wk_scan_string(struct str_view quoted, char *dst, size_t cap, size_t *ret_n);

/* The body without the cut spans, as slices that borrow from `body`. When the model is a top-level
 * string its value is left out and *ret_model_after tells after which slice the provider's name
 * goes (-1 = no such key). Empty slices appear only where the model needs one before it. Returns
 * the number of slices needed; when above `max` nothing is usable and the caller builds the bytes
 * with wk_scan_rebuild. */
unsigned wk_scan_slices(const struct wk_scan *s, struct str_view body, struct str_view *ret,
                        unsigned max, int *ret_model_after);

/* As above in one buffer: *ret_model_at is the offset at which the model goes (-1 = nowhere). */
int wk_scan_rebuild(const struct wk_scan *s, struct str_view body, struct bytes *out,
                    long *ret_model_at);

#endif
