/* zg_child.h - the life of a sandbox's first process:
 *   cloned --isolate--> READY (parked: nothing of the interpreter touched) --RUN--> running <-->
 * idle --owner gone--> exit */
#ifndef CFD_SANDBOXD_ZG_CHILD_H
#define CFD_SANDBOXD_ZG_CHILD_H

#include "zg_jail.h"

_Noreturn void zg_child_main(const struct zg_jail *j, unsigned host_id, int stream);

#endif
