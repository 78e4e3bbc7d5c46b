/* sb_local.h - the local provider: sandboxes forked from a zygote on this host. Use it through
 * sb_local_ops of sb_provider.h; here is only where its program is looked for.
 *
 * COFFERDAM_ZYGOTE in the environment, else cofferdam-zygote beside the running program, in ../bin
 * or in ../libexec. */
#ifndef CFD_SANDBOXD_SB_LOCAL_H
#define CFD_SANDBOXD_SB_LOCAL_H

#include <stddef.h>

#include "base/err.h"

int sb_local_find_program(char *dst, size_t cap, struct err *e);

#endif
