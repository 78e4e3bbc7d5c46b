/* fe_sse.h - what must be known about an event stream to end it properly when its worker dies.
 * Pure, but for the failure text of a Responses stream, which fe_sse_json.c builds.
 *
 * Lifetime: embedded in its request; fini accepts zeroed.
 * Bounds:   FE_SSE_FIRST_MAX bytes of the first event are copied; the last chunk is kept by
 * reference. */
#ifndef CFD_FRONTEND_FE_SSE_H
#define CFD_FRONTEND_FE_SSE_H

#include "base/buf.h"
#include "base/err.h"
#include "proto/msg.h"

#define FE_SSE_FIRST_MAX 65536U

struct fe_sse {
    enum msg_stream kind;
    bool has_bytes;
    bool has_first; /* the first event is complete in `first`, or too large to keep */
    bool is_at_boundary;
    char tail[4]; /* last bytes sent */
    unsigned tail_n;
    uint32_t sequence; /* next sequence number; 0 = look into `last` */
    struct bytes first;
    struct buf *last; /* owned reference */
};

void fe_sse_init(struct fe_sse *s, enum msg_stream kind);
void fe_sse_fini(struct fe_sse *s);
/* Takes note of bytes that go to the client. `sequence` as in CHUNK. */
void fe_sse_pass(struct fe_sse *s, struct buf *data, uint32_t sequence);
/* May a comment be written now? */
bool fe_sse_is_at_boundary(const struct fe_sse *s);
/* Appends the events that end this stream with *e. ERR_INVALID for a NONE stream: cut the
 * connection. */
int fe_sse_failure(struct fe_sse *s, const struct err *e, struct bytes *out);

/* The number after the last "sequence_number": plus 1; 0 when there is none. */
uint32_t fe_sse_next_sequence(struct str_view chunk);

/* fe_sse_json.c: appends the JSON of `response` out of the first event with status failed and this
 * error; a minimal response object when `first_event` cannot be used. */
int fe_sse_failed_response(struct bytes *out, struct str_view first_event, const struct err *e);

#endif
