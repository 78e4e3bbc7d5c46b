/* os_fds.h - descriptors that a process hands on or must not hand on.
 * Threads: any. Errors: ERR_* with detail in *e. */
#ifndef CFD_OS_FDS_H
#define CFD_OS_FDS_H

#include <stdbool.h>

#include "base/err.h"

int os_fd_cloexec(int fd, bool on, struct err *e);
/* Closes every descriptor from `first` up. Async-signal-safe. */
void os_fds_close_from(int first);
/* Raises the soft limit of open files to the hard one. Returns the limit now in force. */
unsigned long os_fds_raise_limit(void);

#endif
