/* clock.h - the only place that asks the time. Tests replace it. */
#ifndef CFD_BASE_CLOCK_H
#define CFD_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ms(void);      /* monotonic */
uint64_t clock_us(void);      /* monotonic */
uint64_t clock_unix_ms(void); /* wall clock */
void clock_fake(uint64_t ms); /* from now on both clocks stand at `ms`, until clock_real() */
void clock_real(void);

#endif
