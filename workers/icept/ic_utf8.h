/* ic_utf8.h - well-formed UTF-8, which JSON must be. Pure. */
#ifndef CFD_ICEPT_IC_UTF8_H
#define CFD_ICEPT_IC_UTF8_H

#include <stdbool.h>

#include "base/str.h"

bool ic_utf8_is_good(struct str_view text);
/* Appends the text with each ill-formed part as U+FFFD. */
void ic_utf8_put(struct bytes *out, struct str_view text);

#endif
