/* sb_local_text.h - output bytes of foreign code as UTF-8 pieces. Pure.
 *
 * A character cut by a frame's end waits in the tail for its rest; bytes that are not UTF-8 become
 * U+FFFD. */
#ifndef CFD_SANDBOXD_SB_LOCAL_TEXT_H
#define CFD_SANDBOXD_SB_LOCAL_TEXT_H

#include "base/str.h"

struct sb_local_text {
    unsigned char tail[4];
    unsigned tail_len;
};

/* Gives the whole characters of tail + in: borrowed from `in` when that needs no change, else from
 * `scratch`, whose former content is lost. Keeps an incomplete character at the end. 0 or
 * ERR_NOMEM/ERR_LIMIT. */
int sb_local_text_put(struct sb_local_text *t, struct str_view in, struct bytes *scratch,
                      struct str_view *ret);
/* What is left at the end of a run: empty, or U+FFFD for a character that never became whole. */
struct str_view sb_local_text_end(struct sb_local_text *t);

#endif
