/* ic_output.h - what one run of code printed, showed and raised; as text for the model and as
 * outputs for the client.
 *
 * Pieces keep the order in which the kernel sent them. Text of one stream that arrives in a row is
 * one piece.
 *
 * Threads: one owner. Lifetime: ic_output_reset between runs. Bounds: IC_OUTPUT_MAX bytes; more is
 * dropped and marked. */
#ifndef CFD_ICEPT_IC_OUTPUT_H
#define CFD_ICEPT_IC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define IC_OUTPUT_MAX ((size_t)24 << 20)

enum ic_piece_kind {
    IC_PIECE_STDOUT,
    IC_PIECE_STDERR,
    IC_PIECE_RESULT,  /* text of the last expression */
    IC_PIECE_DISPLAY, /* text of something displayed */
    IC_PIECE_IMAGE,   /* a data: URL */
    IC_PIECE_TRACEBACK,
    IC_PIECE_SILENT /* text only the model is shown: of a displayed image */
};

struct ic_piece {
    enum ic_piece_kind kind;
    size_t at; /* in ic_output.text */
    size_t n;
};

struct ic_output {
    struct bytes text;
    struct ic_piece *pieces; /* owned */
    unsigned count;
    unsigned cap;
    bool is_cut;    /* at our cap or at the sandbox's */
    bool is_raised; /* the code raised */
    bool is_restarted;
    bool is_lost;
    unsigned timeout_s; /* stopped at this limit; 0 = not */
    struct bytes lost_why;
    int rc; /* 0 or ERR_NOMEM: nothing after it was kept */
};

void ic_output_fini(struct ic_output *o); /* accepts zeroed */
void ic_output_reset(struct ic_output *o);

/* Events of a run in order. Payloads are a sandbox's: anything malformed is taken as text or
 * dropped. */
void ic_output_stream(struct ic_output *o, bool is_stderr, struct str_view text);
void ic_output_display(struct ic_output *o, struct str_view json);   /* MIME -> value */
void ic_output_exception(struct ic_output *o, struct str_view json); /* {name, value, traceback} */
/* A whole CodeExecutionResult instead of events. */
void ic_output_result(struct ic_output *o, struct str_view json);

/* Text for the model, at most about `max` bytes. */
void ic_output_model_text(const struct ic_output *o, size_t max, struct bytes *ret);
/* JSON array of {"type":"logs"} and {"type":"image"} for the client. */
void ic_output_client_json(const struct ic_output *o, struct bytes *ret);

/* Appends `text` without terminal escape sequences. */
void ic_output_plain(struct bytes *ret, struct str_view text);

#endif
