/* zg_out.h - output of a sandbox, in order, as frames on one stream.
 *
 *   Python's sys.stdout/sys.stderr --zg_out_write--------------------------+
 *   display(), exceptions, count    --zg_out_emit--------------------------+--> ZG_FD_STREAM
 *   descriptors 1, 2 (C code, os.write, subprocesses) --pipes--> drained --+
 *
 * Order: every write and emit first drains the pipes, so bytes that reached a pipe earlier go out
 * earlier. A thread drains them too while the interpreter is blocked, and sends small writes that
 * were held back (at most HOLD_MS).
 *
 * Threads:  write and emit from any thread; one mutex. The thread blocks all signals and knows
 * nothing of Python. Lifetime: init once in the child after isolation; start with the first run;
 * run_begin/run_end around each run. Between runs pipes are left alone and writes are held back up
 * to the buffer's size: they belong to the next run. Bounds:   the run's cap; past it output is
 * dropped and END says so. In the zygote itself everything is a no-op. Forks:    zg_out_forked in a
 * forked process of user code: from then on writes go to descriptors 1 and 2. */
#ifndef CFD_SANDBOXD_ZG_OUT_H
#define CFD_SANDBOXD_ZG_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sb_zygote_proto.h"

void zg_out_init(void);
bool zg_out_is_off(void); /* true in the zygote */
int zg_out_start(void);   /* starts the thread; 0 or -1 with errno */
void zg_out_run_begin(uint32_t run, uint64_t cap);
void zg_out_run_end(void); /* drains and sends END */
/* `type` is ZYP_FRAME_STDOUT or ZYP_FRAME_STDERR. */
void zg_out_write(enum zyp_frame_type type, const void *p, size_t n);
/* One whole frame. False when it did not fit any more and was dropped. */
bool zg_out_emit(enum zyp_frame_type type, const void *p, size_t n);
void zg_out_forked(void);
/* Sends a frame without any of the above; for READY and FAILED. Ends the process when the owner is
 * gone. */
void zg_out_send(enum zyp_frame_type type, const void *p, size_t n);

#endif
