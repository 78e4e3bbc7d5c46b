/* ring.h - flight recorder: the last RING_SLOTS notes of this process, dumped to stderr on abort.
 * Thread-safe (a slot is claimed atomically). Notes never hold secrets or client data. */
#ifndef CFD_BASE_RING_H
#define CFD_BASE_RING_H

#include <stdint.h>

#define RING_SLOTS 256

void ring_note(const char *what, uint64_t id, const char *from, const char *to,
               const char *why); /* static strings */
void ring_dump(int fd);          /* async-signal-safe */

#endif
