/* check.h - the three grades of assertion.
 *
 * REQUIRE     a precondition of the caller; always on; aborts with the flight recorder dumped
 * INVARIANT   our own structure is broken; always on; aborts likewise
 * SOFT_CHECK  evaluates to the condition; a false one is logged and counted, and the caller must
 *             handle it: `if (!SOFT_CHECK(x)) { fail this job; }`
 * Never use any of them on input from a peer. */
#ifndef CFD_BASE_CHECK_H
#define CFD_BASE_CHECK_H

#include <stdbool.h>

#define REQUIRE(cond)    ((cond) ? (void)0 : check_failed("REQUIRE", #cond, __FILE__, __LINE__))
#define INVARIANT(cond)  ((cond) ? (void)0 : check_failed("INVARIANT", #cond, __FILE__, __LINE__))
#define SOFT_CHECK(cond) ((cond) ? true : check_soft_failed(#cond, __FILE__, __LINE__))

_Noreturn void check_failed(const char *grade, const char *cond, const char *file, int line);
bool check_soft_failed(const char *cond, const char *file, int line); /* always false */
unsigned long check_soft_count(void);

#endif
