/* secret.h - a string that must not leave by accident: no printf path, wiped on free, kept out of
 * core files (MADV_DONTDUMP) and locked when the limit allows. Ownership: struct owned by its
 * holder. */
#ifndef CFD_BASE_SECRET_H
#define CFD_BASE_SECRET_H

#include "base/str.h"

struct secret; /* opaque */

struct secret *secret_new(struct str_view value);    /* copies; NULL on out of memory */
void secret_free(struct secret *s);                  /* wipes; accepts NULL */
struct str_view secret_view(const struct secret *s); /* borrowed; handle with care */

#endif
