/* fe_chunk.h - the chunked transfer coding, byte by byte and without leniency. Pure, any thread.
 *
 *   SIZE --';'--> EXT --CR--> SIZE_LF          (extensions are skipped, bounded)
 *   SIZE --CR--> SIZE_LF --LF--> DATA --size bytes--> DATA_CR --> DATA_LF --> SIZE
 *   SIZE_LF of a zero chunk --> TRAILER lines (checked, bounded, skipped) --empty line--> END
 *
 * Bounds: FE_CHUNK_EXT_MAX bytes of extensions per message, FE_CHUNK_TRAILER_MAX bytes and
 * FE_CHUNK_TRAILERS fields. */
#ifndef CFD_FRONTEND_FE_CHUNK_H
#define CFD_FRONTEND_FE_CHUNK_H

#include "base/str.h"

#define FE_CHUNK_EXT_MAX     4096
#define FE_CHUNK_TRAILER_MAX 8192
#define FE_CHUNK_TRAILERS    100

struct fe_chunk {
    unsigned state;
    unsigned digits;
    uint64_t left; /* of the current chunk; announced but not yet seen */
    size_t ext_bytes;
    size_t trailer_bytes;
    unsigned trailers;
    size_t line_n; /* bytes in line[] */
    bool is_last;
    char line[1024]; /* the trailer line under way */
};

enum fe_chunk_piece {
    FE_CHUNK_MORE,    /* the input is used up */
    FE_CHUNK_FRAMING, /* chunk size digits and line ends */
    FE_CHUNK_SKIPPED, /* extension or trailer bytes: of no effect */
    FE_CHUNK_DATA,
    FE_CHUNK_END, /* the last line end: the body is complete */
    FE_CHUNK_BAD, /* malformed; *ret_why says how */
    FE_CHUNK_BIG  /* extensions or trailers over their bounds */
};

void fe_chunk_init(struct fe_chunk *c);
/* Takes one piece off the front of *in. For MORE nothing is left of *in; for END, BAD and BIG *ret
 * is not set. A size is known (c->left) once the first DATA piece comes, or earlier: c->left grows
 * while digits arrive. */
enum fe_chunk_piece fe_chunk_next(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                  const char **ret_why);

#endif
