/* wk_out.h - the answer of one job on its way to the frontend. The public part is in wk_job.h.
 *
 *   IDLE --wk_out_head--> HELD --flush--> SENT --finish, abort; all sent--> CLOSED
 *   IDLE --wk_out_error--> CLOSED        HELD --finish; flush--> CLOSED (one message)
 *
 * HEAD waits for the first data or the end of the loop turn, so that a small complete answer is one
 * message. What is written during a turn leaves as one message at its end, earlier when
 * WK_OUT_FLUSH_BYTES are there. Event streams are cut at event boundaries; a partial event is held
 * up to WK_OUT_PARTIAL_MAX, then passed on.
 *
 * Bounds: nothing is sent while the window is used up or the connection blocks; the producer learns
 *         of it and stops, so that what waits here is what it had in its hands. */
#ifndef CFD_WORKERS_WK_OUT_H
#define CFD_WORKERS_WK_OUT_H

#include "base/list.h"
#include "base/str.h"
#include "wk_job.h"
#include "wk_return.h"

#define WK_OUT_FLUSH_BYTES  65536U
#define WK_OUT_PARTIAL_MAX  65536U
#define WK_OUT_PIECE_MAX    262144U
#define WK_OUT_PENDING_HIGH 262144U

enum wk_out_state { WK_OUT_IDLE, WK_OUT_HELD, WK_OUT_SENT, WK_OUT_CLOSED };

struct wk_out {
    struct wk_job *job;   /* borrowed: its owner */
    struct wk_conn *conn; /* a reference; NULL once dropped */
    enum wk_out_state state;
    enum msg_stream stream;
    uint16_t status;
    uint32_t processing_ms;
    uint64_t length;
    struct bytes headers; /* until HEAD is sent */
    struct buf *one;      /* data written as a buffer, `one_at` bytes of it already sent */
    size_t one_at;
    struct bytes acc;         /* data after it */
    uint32_t sequence;        /* of the data last written; 0 = not known */
    int64_t window;           /* payload bytes that may still be sent */
    struct bytes stuck_frame; /* a message the connection did not take */
    struct buf *stuck_payload;
    struct wk_waiter waiter;
    struct list_link dirty; /* in the pool's list: flush at the end of the turn */
    bool is_ending;         /* finish or abort was called */
    bool is_partial_sent;   /* the last message ended inside an event */
    bool is_starved;        /* the producer was told to stop */
    struct err end;         /* code 0 = ends well */
};

void wk_out_init(struct wk_out *o, struct wk_job *job, struct wk_conn *conn, uint32_t window);
void wk_out_fini(struct wk_out *o); /* accepts zeroed; silently drops what waits */
/* At the end of the loop turn. */
void wk_out_flush_turn(struct wk_out *o);
/* WINDOW came. */
void wk_out_add_window(struct wk_out *o, uint32_t bytes);
/* Ends the answer as *e says, whatever was started; no-op when it has ended. */
void wk_out_fail(struct wk_out *o, const struct err *e);
/* Forgets everything: the client is gone. */
void wk_out_drop(struct wk_out *o);
bool wk_out_is_drained(const struct wk_out *o); /* everything was handed to the connection */

/* How much of s[0..n) may leave of an event stream: up to the last event boundary (0 when there is
 * none). */
size_t wk_out_event_cut(const char *s, size_t n);
/* sequence_number of the last event in s, plus 1; 0 when not found. */
uint32_t wk_out_sequence(struct str_view s);

#endif
