/* wk_sse.h - parser of an upstream event stream. Pure; fuzzed.
 *
 * Push bytes as they arrive, then take events until there are none; taking may stop in the middle
 * (while a sandbox is opened) and go on later. LF, CRLF and CR end lines; comments, `id:` and
 * `retry:` are skipped; several `data:` lines are joined by LF; events without data are not
 * reported.
 *
 * Threads:  one owner. Lifetime: an event borrows from the parser until the next call.
 * Errors:   wk_sse_push: ERR_LIMIT when more than `max` bytes wait to be taken, ERR_NOMEM. They are
 * final. Bounds:   `max` bytes buffered, and as many for an event of several data lines. */
#ifndef CFD_ICEPT_WK_SSE_H
#define CFD_ICEPT_WK_SSE_H

#include <stdbool.h>

#include "base/str.h"

struct wk_sse {
    struct bytes in;    /* not yet taken; the first `at` bytes are */
    size_t at;          /* start of the current line */
    size_t seen;        /* searched for a line end up to here */
    bool is_lf_skipped; /* the last line ended with CR: a LF right after it belongs to it */
    bool is_begun;      /* a byte order mark is only skipped at the start */
    struct bytes data;  /* joined data of the current event */
    bool has_data;
    bool is_ended;     /* by wk_sse_end */
    size_t own_end;    /* then: where the stream's own bytes end in `in` */
    struct bytes name; /* of the current event */
};

struct wk_sse_event {
    struct str_view name; /* of the `event:` line, empty without one */
    struct str_view data;
    bool is_unfinished; /* the stream ended before the blank line that ends an event */
};

void wk_sse_init(struct wk_sse *s, size_t max);
void wk_sse_fini(struct wk_sse *s);  /* accepts zeroed */
void wk_sse_reset(struct wk_sse *s); /* for a new stream */
int wk_sse_push(struct wk_sse *s, struct str_view bytes);
/* 1 with *ret, 0 when more bytes are needed, or a negative code. */
int wk_sse_take(struct wk_sse *s, struct wk_sse_event *ret);
/* The stream ended: what is left counts as complete lines and as an event that is marked
 * unfinished: a server that omits the last blank line, or an event that was cut. Take until 0
 * afterwards. */
int wk_sse_end(struct wk_sse *s);

#endif
