/* Every allocation of a long scenario fails once: the core stays sound, and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "br_rig.h"

#define FE      MSG_ROLE_FRONTEND
#define WK      MSG_ROLE_WORKER
#define SB      MSG_ROLE_SANDBOXD
#define NTH_MAX 200

static struct rig rig;
static struct rig *const r = &rig;

static void ignore_out(void *ctx, const struct rig_out *o)
{
    (void)ctx;
    (void)o;
}

/* A bit of everything; a step that names a peer must not need it to exist, as the fault may have
 * cost it. */
static void scenario(void)
{
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 4);
    rig_hello(r, "sb0", SB, 4);
    rig_credit(r, "wk0", 2);
    for (uint32_t i = 1; i <= 4; i++) {
        rig_submit(r, "fe0", i, 1, i % 2, 0, 5000);
    }
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 1, 1, 1, 1, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_sessions(r, "sb0", (const uint32_t[][2]){{1, 1}, {2, 2}}, 2);
    rig_result(r, "sb0", 1, 1);
    rig_cancel(r, "fe0", 2);
    rig_done(r, "wk0", 2, 1);
    rig_hello_claims(r, "wk0", 4, (const uint32_t[][2]){{1, 1}, {9, 1}}, 2);
    rig_submit(r, "fe0", 9, 1, 1, MSG_FLAG_RESUBMIT, 0);
    rig_submit(r, "fe0", 10, 1, 1, MSG_FLAG_RESUBMIT, 0);
    rig_credit(r, "wk0", 2);
    rig_beat(r, "fe0");
    rig_wait(r, 2500);
    r->instance++;
    rig_hello(r, "wk0", WK, 4);
    rig_submit(r, "fe0", 1, 2, 1, 0, 0);
    rig_credit(r, "wk0", 4);
    rig_call(r, "wk0", 1, 2, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    r->instance++;
    rig_hello(r, "sb0", SB, 4);
    rig_call(r, "wk0", 1, 2, 1, 1, MSG_SBX_CLOSE, MSG_SCOPE_REQUEST);
    rig_done(r, "wk0", 1, 2);
    rig_wait(r, 40000);
}

static unsigned scenario_with_fault(unsigned step, long nth, bool *ret_fired)
{
    unsigned steps;

    rig_init(r);
    r->on_out = ignore_out;
    r->fail_step = step;
    r->fail_nth = nth;
    scenario();
    *ret_fired = r->has_fired;
    steps = r->steps;
    rig_fini(r);
    return steps;
}

static void test_every_allocation_fails_once(void **state)
{
    unsigned long live;
    unsigned steps;
    unsigned fired = 0;
    bool has_fired = false;

    (void)state;
    steps = scenario_with_fault(0, 0, &has_fired); /* step 0 does not exist: no fault */
    live = mem_live();
    for (unsigned step = 1; step <= steps + 20; step++) {
        for (long nth = 0; nth < NTH_MAX; nth++) {
            (void)scenario_with_fault(step, nth, &has_fired);
            assert_int_equal(mem_live(), live);
            if (!has_fired) {
                break;
            }
            fired++;
        }
    }
    printf("%u allocations failed\n", fired);
    assert_true(fired > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_fails_once)};

    log_init("test");
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(id_init(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
