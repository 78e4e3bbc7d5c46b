/* unit.h - cmocka with the headers it needs, and the loop for exhaustive allocation failure. */
#ifndef CFD_TESTS_SUPPORT_UNIT_H
#define CFD_TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

#define assert_sv_equal(sv, text)                                                                  \
    do {                                                                                           \
        struct str_view have_ = (sv);                                                              \
        struct str_view want_ = sv_of(text);                                                       \
        assert_int_equal(have_.n, want_.n);                                                        \
        if (want_.n > 0) {                                                                         \
            assert_memory_equal(have_.p, want_.p, want_.n);                                        \
        }                                                                                          \
    } while (0)

/* Calls run(arg) with the first, second, ... allocation failing until a run meets no failure, and
 * expects that nothing stays allocated. Returns the number of runs. */
static inline unsigned unit_fail_each(void (*run)(void *arg), void *arg)
{
    unsigned long before = mem_live();
    bool has_fired = true;
    unsigned n = 0;

    for (; has_fired; n++) {
        (void)mem_fail_nth((long)n);
        run(arg);
        has_fired = mem_fail_nth(-1) != 0;
        assert_int_equal(mem_live(), before);
    }
    return n;
}

#endif
