/* wk_ending.h - has an event stream said its last word? Pure.
 *
 * Some providers keep the connection open after the terminal event: `data: [DONE]` of a chat
 * stream; response.completed, .failed or .incomplete, or `error`, of a Responses stream. It counts
 * once its event is complete. A JSON text has no raw line break, so no payload can look like one of
 * these lines. */
#ifndef CFD_WORKERS_WK_ENDING_H
#define CFD_WORKERS_WK_ENDING_H

#include "base/str.h"
#include "proto/msg.h"

#define WK_ENDING_LINE_MAX 40 /* the front of a line, which is all that is looked at */

/* Zeroed at birth. */
struct wk_ending {
    char line[WK_ENDING_LINE_MAX];
    size_t line_n;    /* of the line being read, at most WK_ENDING_LINE_MAX are kept */
    bool is_last;     /* the event being read is a terminal one */
    bool is_complete; /* it was read to its end */
};

/* Takes in more of the stream; true once the terminal event is complete. */
bool wk_ending_feed(struct wk_ending *e, enum msg_stream stream, struct str_view data);

#endif
