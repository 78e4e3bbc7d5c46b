/* os_priv.h - giving up what a process does not need. Irreversible. */
#ifndef CFD_OS_PRIV_H
#define CFD_OS_PRIV_H

#include "base/err.h"

/* No new privileges by exec, no capabilities (bounding, ambient, inheritable, permitted,
 * effective). A process that keeps user id 0 then owns its files and nothing more.
 * Async-signal-safe when e is NULL. 0, or ERR_HOST when the kernel refused. */
int os_priv_drop_caps(struct err *e);
/* Memory does not go into core files and other processes of the same user cannot read it. */
int os_priv_no_dump(struct err *e);

#endif
