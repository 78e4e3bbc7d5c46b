/* zg_check.h - `cofferdam-zygote --check`: makes one sandbox, tries to get out of it, prints one
 * line per protection: NAME: yes DETAIL | NAME: no WHY Exit status 0 when everything required is
 * there. */
#ifndef CFD_SANDBOXD_ZG_CHECK_H
#define CFD_SANDBOXD_ZG_CHECK_H

#include "zg_spawn.h"

/* After zg_python_init. Returns the exit status. */
int zg_check_run(struct zg_zoo *z);

#endif
