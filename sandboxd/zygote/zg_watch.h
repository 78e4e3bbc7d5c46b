/* zg_watch.h - how much memory a sandbox holds, for hosts where no control group limits it. Read
 * from outside (/proc of the host), because a sandbox would lie. What limits say per process is
 * summed here over all its processes, shared memory included; the zygote's own pages, which a fork
 * starts with, are not counted. A burst between two looks is not prevented.
 *
 * Threads: the zygote's only one. Bounds: ZG_WATCH_PROCESSES processes per sandbox are counted. */
#ifndef CFD_SANDBOXD_ZG_WATCH_H
#define CFD_SANDBOXD_ZG_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#define ZG_WATCH_PROCESSES 4096U
#define ZG_WATCH_MS        100

/* Notes what the zygote itself holds. */
void zg_watch_init(void);
/* Bytes held by process `pid` and all its descendants; 0 when it is gone. */
uint64_t zg_watch_bytes(pid_t pid);

#endif
