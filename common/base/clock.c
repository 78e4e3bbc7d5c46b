#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_bool is_fake;
static _Atomic uint64_t fake_ms;

static uint64_t now_us(clockid_t id)
{
    struct timespec ts;

    if (atomic_load_explicit(&is_fake, memory_order_relaxed)) {
        return atomic_load_explicit(&fake_ms, memory_order_relaxed) * 1000;
    }
    (void)clock_gettime(id, &ts); /* cannot fail for these clocks */
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_us(void)
{
    return now_us(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void)
{
    return now_us(CLOCK_MONOTONIC) / 1000;
}

uint64_t clock_unix_ms(void)
{
    return now_us(CLOCK_REALTIME) / 1000;
}

void clock_fake(uint64_t ms)
{
    atomic_store(&fake_ms, ms);
    atomic_store(&is_fake, true);
}

void clock_real(void)
{
    atomic_store(&is_fake, false);
}
