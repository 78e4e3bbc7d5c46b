/* io_test.h - shared by the tests of common/io: turn a loop until something observable happened. */
#ifndef CFD_TEST_IO_TEST_H
#define CFD_TEST_IO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "io/loop.h"

#define IO_TEST_LIMIT_MS 5000U

static inline void io_on_limit(uv_timer_t *t)
{
    *(bool *)t->data = true;
}

static inline void io_on_limit_closed(uv_handle_t *h)
{
    *(bool *)h->data = true;
}

/* Turns the loop until *flag is at least `want`, or fails the test. The timer only makes the loop
 * look at the flag again: what a callback set before the loop went to sleep must not wait for the
 * next event. */
static inline void io_until_at_least(struct loop *l, const unsigned *flag, unsigned want,
                                     const char *what)
{
    uint64_t until = uv_hrtime() + IO_TEST_LIMIT_MS * 1000000ULL;
    bool is_woken = false;
    bool is_closed = false;
    uv_timer_t t;

    (void)uv_timer_init(&l->uv, &t);
    t.data = &is_woken;
    (void)uv_timer_start(&t, io_on_limit, 1, 1);
    while (*flag < want && uv_hrtime() < until) {
        (void)uv_run(&l->uv, UV_RUN_ONCE);
    }
    t.data = &is_closed;
    uv_close((uv_handle_t *)&t, io_on_limit_closed);
    while (!is_closed) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
    if (*flag < want) {
        fail_msg("waited in vain for %s: %u of %u", what, *flag, want);
    }
}

#define IO_UNTIL(loop, counter, want) io_until_at_least((loop), &(counter), (want), #counter)

/* Lets the loop turn for a while in which something must NOT happen. */
static inline void io_turn_for(struct loop *l, unsigned ms)
{
    bool is_over = false;
    bool is_closed = false;
    uv_timer_t t;

    (void)uv_timer_init(&l->uv, &t);
    t.data = &is_over;
    (void)uv_timer_start(&t, io_on_limit, ms, 0);
    while (!is_over) {
        (void)uv_run(&l->uv, UV_RUN_ONCE);
    }
    t.data = &is_closed;
    uv_close((uv_handle_t *)&t, io_on_limit_closed);
    while (!is_closed) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
}

static inline void io_loop_start(struct loop *l)
{
    assert_int_equal(loop_init(l, NULL, 1000), 0);
}

/* Every handle of the test must be closing by now: fini checks. */
static inline void io_loop_end(struct loop *l)
{
    loop_stop(l);
    loop_run(l);
    assert_false(l->is_forced);
    loop_fini(l);
}

static inline void io_count(void *ctx)
{
    (*(unsigned *)ctx)++;
}

/* A fresh directory under /tmp; io_dir_remove deletes it with its (plain) contents. */
static inline void io_dir_make(char dir[64])
{
    (void)snprintf(dir, 64, "/tmp/cfd-io-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static inline void io_dir_remove(const char *dir)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

#endif
