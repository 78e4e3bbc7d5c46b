/* ctl_listen.h - the listening sockets that frontends share. The supervisor holds them, so that
 * connections wait while a frontend restarts instead of being refused. */
#ifndef CFD_CTL_LISTEN_H
#define CFD_CTL_LISTEN_H

#include <stddef.h>

#include "base/err.h"

/* Binds and listens; *ret is close-on-exec; `ret_addr` gets HOST:PORT as bound (port 0 resolved).
 */
int ctl_listen(int *ret, char *ret_addr, size_t cap, const char *listen_addr, const char *key,
               struct err *e);

#endif
