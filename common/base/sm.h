/* sm.h - a table-driven state machine: one array of {name, allowed next states}, one move function.
 * The owner keeps `unsigned state`; sm_move is its only writer. */
#ifndef CFD_BASE_SM_H
#define CFD_BASE_SM_H

#include <stdint.h>

struct sm_state {
    const char *name;
    uint32_t to; /* bit mask of states that may follow */
};

/* REQUIREs that the edge exists; logs STATE at debug level, notes it in the flight recorder;
 * returns `next`. */
unsigned sm_move(const struct sm_state *table, const char *what, uint64_t id, unsigned from,
                 unsigned next, const char *why);

#endif
