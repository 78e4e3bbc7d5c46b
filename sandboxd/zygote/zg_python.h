/* zg_python.h - the embedded interpreter.
 *
 *   zygote: zg_python_init, then clones
 *   child:  zg_python_child_start once, before the first zg_python_run
 *
 * The interpreter is not told of the fork (PyOS_AfterFork_Child): it has one thread, which holds
 * all its locks before and after, so there is nothing to repair, and telling it costs a millisecond
 * of copied pages. What fork handlers of modules would do is done in fork_before (new seeds) or not
 * needed (locks of threads that do not exist).
 *
 * Threads:  the main thread, which holds the interpreter's lock but for the idle times. */
#ifndef CFD_SANDBOXD_ZG_PYTHON_H
#define CFD_SANDBOXD_ZG_PYTHON_H

#include <stddef.h>
#include <stdint.h>

#include "zg_util.h"

/* Isolated interpreter, imports, warm-up, frozen heap. `notice` gets one line per thing that is
 * missing. */
int zg_python_init(void (*notice)(const char *text), struct zg_err *e);
int zg_python_child_start(void); /* own random numbers; 0 or -1 */
/* Around waiting for the next run: threads of user code go on meanwhile. */
void zg_python_idle_begin(void);
void zg_python_idle_end(void);
/* Runs a first cell for its side effect on memory, and forgets it. */
void zg_python_warm(void);
/* Runs one cell; all its output has been given to zg_out when it returns. */
void zg_python_run(const char *code, size_t n, uint32_t cpu_s);

#endif
