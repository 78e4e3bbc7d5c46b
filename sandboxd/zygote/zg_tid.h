/* zg_tid.h - keeps libc's cached thread id right across a raw clone.
 *
 * Children are made by clone3 with namespace flags, which libc's fork() cannot pass. libc caches
 * the thread id in its thread descriptor and compares it in recursive locks; inside the new pid
 * namespace a later thread could be given the stale number. zg_tid_find locates the field by what
 * it must contain in two different threads. */
#ifndef CFD_SANDBOXD_ZG_TID_H
#define CFD_SANDBOXD_ZG_TID_H

#include "zg_util.h"

int zg_tid_find(struct zg_err *e); /* starts and joins a thread; before anything else does */
void zg_tid_fix(void);             /* in the child, first thing */

#endif
