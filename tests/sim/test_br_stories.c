/* The known stories of the broker as exact transcripts: what is said to it, and every word it says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/log.h"
#include "br_rig.h"

#define FE MSG_ROLE_FRONTEND
#define WK MSG_ROLE_WORKER
#define SB MSG_ROLE_SANDBOXD

static struct rig rig;
static struct rig *const r = &rig;

static int setup(void **state)
{
    (void)state;
    rig_init(r);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_fini(r);
    return 0;
}

/* One frontend, one worker with room for two. */
static void begin(void)
{
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 2);
    rig_credit(r, "wk0", 2);
    rig_expect(r, "");
}

/* --- the normal course
 * ------------------------------------------------------------------------------------------------
 */

static void test_normal(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 2/1 \"b2\"\n");
    rig_submit(r, "fe0", 3, 1, 1, 0, 0);
    rig_expect(r, ""); /* no credit left */
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "wk0 DISPATCH 3/1 \"b3\"\n");
    rig_done(r, "wk0", 2, 1);
    rig_done(r, "wk0", 3, 1);
    rig_expect(r, "");
}

static void test_frontends_hear_of_changes_at_once(void **state)
{
    (void)state;
    r->shows_beats = true;
    rig_hello(r, "fe0", FE, 0);
    rig_expect(r, "fe0 WELCOME w=0 s=0\n");
    rig_hello(r, "wk0", WK, 2);
    rig_expect(r, "wk0 WELCOME w=1 s=0\nfe0 HEARTBEAT w=1 s=0\n");
    rig_hello(r, "sb0", SB, 2);
    rig_expect(r, "sb0 WELCOME w=1 s=1\nfe0 HEARTBEAT w=1 s=1\n");
    rig_bye(r, "wk0");
    rig_expect(r, "fe0 HEARTBEAT w=0 s=1\n");
}

static void test_the_worker_with_most_room_is_next(void **state)
{
    (void)state;
    begin();
    rig_hello(r, "wk1", WK, 8);
    rig_credit(r, "wk1", 3);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_submit(r, "fe0", 3, 1, 1, 0, 0);
    rig_expect(r, "wk1 DISPATCH 1/1 \"b1\"\nwk0 DISPATCH 2/1 \"b2\"\nwk1 DISPATCH 3/1 \"b3\"\n");
}

static void test_tenants_take_turns(void **state)
{
    (void)state;
    rig_hello(r, "fe0", FE, 0);
    for (uint32_t i = 0; i < 4; i++) {
        rig_submit(r, "fe0", 10 + i, 1, 1, 0, 0);
    }
    rig_submit(r, "fe0", 20, 1, 2, 0, 0);
    rig_submit(r, "fe0", 21, 1, 2, 0, 0);
    rig_hello(r, "wk0", WK, 8);
    rig_credit(r, "wk0", 5);
    rig_expect(r,
               "wk0 DISPATCH 10/1 \"b10\"\nwk0 DISPATCH 20/1 \"b20\"\nwk0 DISPATCH 11/1 \"b11\"\n"
               "wk0 DISPATCH 21/1 \"b21\"\nwk0 DISPATCH 12/1 \"b12\"\n");
}

/* By jobs in flight: the tenant that has none goes before the one that has many, whoever waited
 * longer. */
static void test_the_tenant_with_least_in_flight_is_next(void **state)
{
    (void)state;
    r->setup.limits.fair = BR_FAIR_IN_FLIGHT;
    rig_restart(r);
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 8);
    rig_credit(r, "wk0", 3);
    for (uint32_t i = 0; i < 5; i++) {
        rig_submit(r, "fe0", 10 + i, 1, 1, 0, 0);
    }
    rig_expect(r,
               "wk0 DISPATCH 10/1 \"b10\"\nwk0 DISPATCH 11/1 \"b11\"\nwk0 DISPATCH 12/1 \"b12\"\n");
    for (uint32_t i = 0; i < 3; i++) {
        rig_submit(r, "fe0", 20 + i, 1, 2, 0, 0);
    }
    rig_credit(r, "wk0", 4);
    rig_expect(r,
               "wk0 DISPATCH 20/1 \"b20\"\nwk0 DISPATCH 21/1 \"b21\"\nwk0 DISPATCH 22/1 \"b22\"\n"
               "wk0 DISPATCH 13/1 \"b13\"\n");
}

/* --- limits
 * ---------------------------------------------------------------------------------------------------------------
 */

static void test_full_queues_refuse(void **state)
{
    (void)state;
    r->setup.limits.queue_max = 3;
    r->setup.limits.per_key_max = 2;
    rig_restart(r);
    rig_hello(r, "fe0", FE, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_submit(r, "fe0", 3, 1, 1, 0, 0);
    rig_expect(r, "fe0 REFUSE 3/1 RATE_LIMIT\n");
    rig_submit(r, "fe0", 4, 1, 2, 0, 0);
    rig_expect(r, "");
    rig_submit(r, "fe0", 5, 1, 3, 0, 0);
    rig_expect(r, "fe0 REFUSE 5/1 QUEUE_FULL\n");
    rig_submit(r, "fe0", 6, 2, 1, 0,
               0); /* a second attempt was admitted once: no cap, and it goes first */
    rig_hello(r, "wk0", WK, 1);
    rig_credit(r, "wk0", 1);
    rig_expect(r, "wk0 DISPATCH 6/2 \"b6\"\n");
}

static void test_waiting_ends(void **state)
{
    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 5000);
    for (int i = 0; i < 70; i++) {
        rig_beat(r, "fe0");
        rig_wait(r, 1000);
        if (i == 5) {
            rig_expect(r, "fe0 REFUSE 2/1 DEADLINE\n");
        }
    }
    rig_expect(r, "fe0 REFUSE 1/1 UNAVAILABLE\n");
}

static void test_limits_change_while_running(void **state)
{
    struct br_limits limits = r->setup.limits;
    struct br_event ev = {.kind = BR_EV_LIMITS, .limits = &limits};

    (void)state;
    limits.per_key_max = 1;
    rig_hello(r, "fe0", FE, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_step(r, &ev);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "fe0 REFUSE 2/1 RATE_LIMIT\n");
}

static void test_more_credit_than_capacity_is_not_believed(void **state)
{
    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_hello(r, "wk0", WK, 1);
    rig_credit(r, "wk0", 5);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_done(r, "wk0", 99, 1); /* of no job: its credit counts only up to the capacity */
    rig_expect(r, "");
}

/* --- cancelling
 * -----------------------------------------------------------------------------------------------------------
 */

static void test_cancel_while_queued(void **state)
{
    (void)state;
    rig_hello(r, "fe0", FE, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_cancel(r, "fe0", 1);
    rig_hello(r, "wk0", WK, 1);
    rig_credit(r, "wk0", 1);
    rig_expect(r, "");
}

static void test_cancel_while_running(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_cancel(r, "fe0", 1);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n");
    rig_cancel(r, "fe0", 1);
    rig_expect(r, "");
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "");
}

static void test_a_cancelled_job_does_not_wait_for_done_for_ever(void **state)
{
    struct br_counts n;

    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_cancel(r, "fe0", 1);
    for (int i = 0; i < 31; i++) {
        rig_beat(r, "fe0");
        rig_beat(r, "wk0");
        rig_wait(r, 1000);
    }
    br_core_counts(r->core, r->now_ms, &n);
    assert_int_equal(n.running, 0);
    assert_int_equal(n.jobs_cancelled, 1);
}

static void test_a_job_past_its_deadline_is_cancelled(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 1000);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    for (int i = 0; i < 8; i++) {
        rig_beat(r, "fe0");
        rig_beat(r, "wk0");
        rig_wait(r, 1000);
    }
    rig_expect(r, "wk0 CANCEL 1/1 DEADLINE\n");
}

static void test_frontend_dies(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 1; i <= 3; i++) {
        rig_submit(r, "fe0", i, 1, 1, 0, 0);
    }
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 DISPATCH 2/1 \"b2\"\n");
    rig_exited(r, "fe0", BR_EV_EXITED);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\nwk0 CANCEL 2/1 CANCELLED\n");
    rig_done(r, "wk0", 1, 1);
    rig_done(r, "wk0", 2, 1);
    rig_expect(r, "");
}

/* --- a worker dies
 * ---------------------------------------------------------------------------------------------------------
 */

static void test_worker_dies(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_exited(r, "wk0", BR_EV_UNREACHABLE);
    rig_expect(r, "fe0 LOST 1/1\n");
    rig_submit(r, "fe0", 1, 2, 1, 0, 0);
    r->instance++;
    rig_hello(r, "wk1", WK, 2);
    rig_credit(r, "wk1", 2);
    rig_expect(r, "wk1 DISPATCH 1/2 \"b1\"\n");
    rig_exited(r, "wk1", BR_EV_EXITED);
    rig_expect(r, "fe0 LOST 1/2\n");
    rig_submit(r, "fe0", 1, 3, 1, 0, 0);
    rig_expect(r, "fe0 REFUSE 1/3 WORKER_LOST\n");
}

/* It drained: DONE was on its way when its process ended. */
static void test_last_words_are_heard(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 DISPATCH 2/1 \"b2\"\n");
    r->hears_last_words = true;
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_submit(r, "fe0", 3, 1, 1, 0, 0);
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "");
    rig_wait(r, 20);
    rig_expect(r, "fe0 LOST 2/1\n");
}

static void test_silence_is_death(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    for (int i = 0; i < 3; i++) {
        rig_beat(r, "fe0");
        rig_wait(r, 1000);
    }
    rig_expect(r, "");
    rig_beat(r, "fe0");
    rig_wait(r, 1000);
    rig_expect(r, "fe0 LOST 1/1\n");
    rig_beat(r, "wk0"); /* it lived after all: it must greet again */
    rig_expect(r, "wk0 BYE PEER_FORBIDDEN\n");
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{1, 1}}, 1);
    rig_submit(r, "fe0", 1, 2, 1, 0, 0);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n"); /* the old attempt gives way */
    rig_credit(r, "wk0", 1);
    rig_expect(r, "wk0 DISPATCH 1/2 \"b1\"\n");
}

static void test_our_own_sleep_is_not_their_death(void **state)
{
    struct br_event tick = {.kind = BR_EV_TICK};

    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    r->now_ms += 60000;
    rig_step(r, &tick);
    rig_expect(r, "");
    rig_wait(r, 5000);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n"); /* now they are silent: the frontend went first,
                                                    then the worker */
}

static void test_worker_leaves_in_order(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_bye(r, "wk0");
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "");
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_expect(r, "");
}

static void test_who_said_bye_leaves(void **state)
{
    (void)state;
    begin();
    rig_hello(r, "wk1", WK, 2);
    rig_hello(r, "wk2", WK, 2);
    rig_hello(r, "sb0", SB, 2);
    r->shows_ends = true;
    bytes_reset(&r->text);
    rig_bye(r, "wk1");
    rig_exited(r, "wk1", BR_EV_EXITED);
    rig_exited(r, "wk2", BR_EV_EXITED); /* without a word */
    rig_bye(r, "sb0");
    rig_exited(r, "sb0", BR_EV_UNREACHABLE);
    rig_expect(r, "wk1 left n=0\nwk2 gone n=0\nsb0 left n=0\n");
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_bye(r, "wk0");
    rig_exited(r, "wk0", BR_EV_EXITED); /* with work in its hands */
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 gone n=1\nfe0 LOST 1/1\n");
}

static void test_worker_restarts_under_its_name(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    r->instance++;
    rig_hello(r, "wk0", WK, 2);
    rig_expect(r, "fe0 LOST 1/1\n");
}

/* The same process greets again: a job it does not list never reached it. */
static void test_worker_reconnects(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 DISPATCH 2/1 \"b2\"\n");
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{2, 1}}, 1);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\nfe0 LOST 1/1\n");
    rig_credit(r, "wk0", 1);
    rig_done(r, "wk0", 2, 1);
    rig_expect(r, "");
}

/* --- the broker dies
 * ---------------------------------------------------------------------------------------------------------
 */

static void restart_all_but_workers(void)
{
    rig_restart(r);
    rig_expect(r, "");
    rig_hello(r, "fe0", FE, 0);
}

static void test_broker_restart_worker_first(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    restart_all_but_workers();
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{1, 1}}, 1);
    rig_credit(r, "wk0", 1);
    rig_submit(r, "fe0", 1, 1, 1, MSG_FLAG_RESUBMIT | MSG_FLAG_STARTED, 0);
    rig_expect(r, ""); /* both agree */
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "");
}

static void test_broker_restart_frontend_first(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    restart_all_but_workers();
    rig_submit(r, "fe0", 1, 1, 1, MSG_FLAG_RESUBMIT, 0);
    rig_wait(r, 1500);
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{1, 1}}, 1);
    rig_credit(r, "wk0", 1);
    rig_wait(r, 1000);
    rig_expect(r, "");
    rig_cancel(r, "fe0", 1);
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n");
}

static void test_broker_restart_nobody_claims(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 DISPATCH 2/1 \"b2\"\n");
    restart_all_but_workers();
    rig_submit(r, "fe0", 1, 1, 1, MSG_FLAG_RESUBMIT, 0);
    rig_submit(r, "fe0", 2, 1, 1, MSG_FLAG_RESUBMIT | MSG_FLAG_STARTED, 0);
    rig_hello(r, "wk1", WK, 2);
    rig_credit(r, "wk1", 2);
    rig_wait(r, 1999);
    rig_expect(r, "");
    rig_wait(r, 1);
    rig_expect(r, "fe0 LOST 2/1\nwk1 DISPATCH 1/2 \"b1\"\n");
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{1, 1}}, 1); /* too late */
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n");
}

static void test_a_claim_without_frontend_is_cancelled(void **state)
{
    (void)state;
    rig_hello_claims(r, "wk0", 2, (const uint32_t[][2]){{1, 1}}, 1);
    for (int i = 0; i < 30; i++) {
        rig_beat(r, "wk0");
        rig_wait(r, 1000);
    }
    rig_expect(r, "wk0 CANCEL 1/1 CANCELLED\n");
}

/* --- sandbox calls
 * ----------------------------------------------------------------------------------------------------------------
 */

static void begin_with_sandboxd(void)
{
    begin();
    rig_hello(r, "sb0", SB, 4);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
}

static void test_call_and_answers(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 5, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_expect(r, "sb0 SBX_CALL 1/1 #5.1 op=2\n");
    rig_output(r, "sb0", 1, 5 << 8 | 1, "hi");
    rig_result(r, "sb0", 1, 5 << 8 | 1);
    rig_expect(r, "wk0 SBX_EVENT 1/1 #5 \"hi\"\nwk0 SBX_RESULT 1/1 #5 OK\n");
    rig_result(r, "sb0", 1, 5 << 8 | 1); /* nobody waits for it any more */
    rig_expect(r, "");
    rig_call(r, "wk0", 1, 1, 1, 6, MSG_SBX_CLOSE, MSG_SCOPE_REQUEST);
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "sb0 SBX_CALL 1/1 #6.1 op=3\n"); /* closed by the worker: not again */
}

static void test_job_that_ends_without_close(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\n");
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "sb0 SBX_CANCEL 1/1 #0.1\nsb0 SBX_CALL 1/1 #own op=3\n");
    rig_result(r, "sb0", 1, UINT32_MAX);
    rig_result(r, "sb0", 1, 1);
    rig_expect(r, "wk0 SBX_RESULT 1/1 #0 OK\n"); /* its worker lives: it hears of the call */
}

static void test_interrupt(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_sbx_cancel(r, "wk0", 1, 1, 0);
    rig_sbx_cancel(r, "wk0", 1, 1, 0);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\nsb0 SBX_CANCEL 1/1 #0.1\n");
}

static void test_close_after_loss(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_expect(
        r,
        "sb0 SBX_CALL 1/1 #0.1 op=2\nfe0 LOST 1/1\n"); /* attempt 2 may come: nothing is closed */
    for (int i = 0; i < 31; i++) {
        rig_beat(r, "fe0");
        rig_beat(r, "sb0");
        rig_wait(r, 1000);
    }
    rig_expect(r, "sb0 SBX_CANCEL 1/1 #0.1\nsb0 SBX_CALL 1/1 #own op=3\n");
}

static void test_second_attempt_finds_its_sandbox(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_hello(r, "sb1", SB, 4);
    rig_hello(r, "wk1", WK, 2);
    rig_credit(r, "wk1", 2);
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_submit(r, "fe0", 1, 2, 1, 0, 0);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\nfe0 LOST 1/1\nwk1 DISPATCH 1/2 \"b1\"\n");
    rig_call(r, "wk1", 1, 2, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_expect(r, "sb0 SBX_CALL 1/2 #0.2 op=2\n");
    rig_result(r, "sb0", 1, 1); /* of the first attempt: for nobody */
    rig_expect(r, "");
    rig_result(r, "sb0", 1, 2);
    rig_expect(r, "wk1 SBX_RESULT 1/2 #0 OK\n");
    rig_cancel(r, "fe0", 1);
    rig_done(r, "wk1", 1, 2);
    rig_expect(r, "wk1 CANCEL 1/2 CANCELLED\nsb0 SBX_CALL 1/2 #own op=3\n");
}

static void test_frontend_gives_up_after_loss(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_cancel(r, "fe0", 1);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\nfe0 LOST 1/1\nsb0 SBX_CANCEL 1/1 #0.1\nsb0 SBX_CALL "
                  "1/1 #own op=3\n");
}

static void test_sandboxd_dies(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 1, 1, 1, 1, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\nsb0 SBX_CALL 1/1 #1.1 op=2\n");
    rig_exited(r, "sb0", BR_EV_EXITED);
    rig_expect(r, "wk0 SBX_RESULT 1/1 #0 SANDBOX_LOST\nwk0 SBX_RESULT 1/1 #1 SANDBOX_LOST\n");
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "");
}

static void test_no_sandboxd(void **state)
{
    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 1, 1, 1, 1, MSG_SBX_RUN, MSG_SCOPE_REQUEST);
    rig_sbx_cancel(r, "wk0", 1, 1, 1);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nwk0 SBX_RESULT 1/1 #1 CANCELLED\n");
    rig_wait(r, 1999);
    rig_expect(r, "");
    rig_wait(r, 1);
    rig_expect(r, "wk0 SBX_RESULT 1/1 #0 SANDBOX_UNAVAILABLE\n");
    rig_call(r, "wk0", 1, 1, 1, 2, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_wait(r, 500);
    rig_hello(r, "sb0", SB, 2); /* it came back in time */
    rig_expect(r, "sb0 SBX_CALL 1/1 #2.1 op=2\n");
}

static void test_calls_are_bounded_and_checked(void **state)
{
    (void)state;
    begin_with_sandboxd();
    rig_call(r, "wk0", 1, 1, 2, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION); /* another tenant's */
    rig_call(r, "wk0", 7, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION); /* no such job */
    rig_call(r, "wk0", 7, 1, 1, 1, MSG_SBX_CLOSE, MSG_SCOPE_REQUEST);
    rig_call(r, "wk0", 1, 1, 1, 2, MSG_SBX_CLOSE, MSG_SCOPE_REQUEST); /* there is none */
    rig_expect(r, "wk0 SBX_RESULT 1/1 #0 FORBIDDEN\nwk0 SBX_RESULT 7/1 #0 CANCELLED\nwk0 "
                  "SBX_RESULT 7/1 #1 OK\n"
                  "wk0 SBX_RESULT 1/1 #2 OK\n");
    for (uint32_t i = 10; i < 18; i++) {
        rig_call(r, "wk0", 1, 1, 1, i, MSG_SBX_GET, MSG_SCOPE_SANDBOX);
    }
    bytes_reset(&r->text);
    rig_call(r, "wk0", 1, 1, 1, 18, MSG_SBX_GET, MSG_SCOPE_SANDBOX);
    rig_expect(r, "wk0 SBX_RESULT 1/1 #18 LIMIT\n");
}

static void test_sessions_stay_where_they_are(void **state)
{
    (void)state;
    begin();
    rig_hello(r, "sb0", SB, 4);
    rig_hello(r, "sb1", SB, 4);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 2, 1, 2, 0, 0);
    bytes_reset(&r->text);
    rig_sessions(r, "sb0", (const uint32_t[][2]){{1, 2}}, 1);
    rig_sessions(r, "sb1", (const uint32_t[][2]){{2, 1}, {1, 1}}, 2); /* sb0 said it first */
    rig_call(r, "wk0", 1, 1, 1, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_call(r, "wk0", 2, 1, 2, 0, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_expect(r, "sb0 SBX_CALL 1/1 #0.1 op=2\nsb1 SBX_CALL 2/1 #0.1 op=2\n");
    rig_bye(r, "sb0"); /* leaving: new calls go to the other */
    rig_call(r, "wk0", 1, 1, 1, 1, MSG_SBX_RUN, MSG_SCOPE_SESSION);
    rig_expect(r, "sb1 SBX_CALL 1/1 #1.1 op=2\n");
}

/* --- the rest
 * ------------------------------------------------------------------------------------------------------------------
 */

static void test_drain(void **state)
{
    struct br_event ev = {.kind = BR_EV_DRAIN, .drain_ms = 30000};

    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_step(r, &ev);
    rig_submit(r, "fe0", 2, 1, 1, 0, 0); /* left to the next broker */
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_done(r, "wk0", 1, 1);
    rig_expect(r, "fe0 BYE DRAINING\nwk0 BYE DRAINING\n");
    rig_hello(r, "wk0", WK, 2);
    rig_expect(r, "wk0 BYE DRAINING\n");
    rig_wait(r, 100);
    rig_expect(r, "stop\n");
}

static void test_drain_has_a_limit(void **state)
{
    struct br_event ev = {.kind = BR_EV_DRAIN, .drain_ms = 1500};

    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_step(r, &ev);
    rig_wait(r, 1600);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nfe0 BYE DRAINING\nwk0 BYE DRAINING\nstop\n");
}

static void test_bad_peers_are_dropped(void **state)
{
    struct br_event bad = {
        .kind = BR_EV_BAD, .from = {0, SV_LIT("wk0")}, .code = ERR_PEER_MALFORMED};
    struct msg_head h = {.type = MSG_SBX_SESSIONS};
    struct msg_body_SBX_SESSIONS m = {.sessions = 1};

    (void)state;
    begin();
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\n");
    rig_step(r, &bad);
    rig_expect(r, "wk0 BYE PEER_MALFORMED\nfe0 LOST 1/1\n");
    RIG_SEND(r, "fe0", SBX_SESSIONS, &h, &m, NULL); /* not a frontend's word */
    rig_expect(r, "fe0 BYE PEER_FORBIDDEN\n");
    rig_credit(r, "stranger", 1);
    rig_expect(r, "");
    rig_beat(r, "stranger");
    rig_expect(r, "stranger BYE PEER_FORBIDDEN\n");
}

static void test_an_id_belongs_to_one_frontend(void **state)
{
    (void)state;
    begin();
    rig_hello(r, "fe1", FE, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 1, 1, 1, 0, 0); /* a duplicate is nothing */
    rig_submit(r, "fe1", 1, 1, 1, 0, 0);
    rig_submit(r, "fe0", 1, 1, 2, MSG_FLAG_RESUBMIT, 0); /* of another tenant */
    rig_cancel(r, "fe1", 1);
    rig_expect(r, "wk0 DISPATCH 1/1 \"b1\"\nfe1 REFUSE 1/1 CONFLICT\nfe0 REFUSE 1/1 CONFLICT\n");
}

static void test_local_processes_are_watched(void **state)
{
    struct msg_head h = {.type = MSG_HELLO};
    struct msg_body_HELLO m = {
        .role = WK, .name = SV_LIT("wk0"), .capacity = 1, .pid = 42, .pid_ns = 77};

    (void)state;
    RIG_SEND(r, "wk0", HELLO, &h, &m, NULL);
    rig_expect(r, "watch 42\n");
    rig_exited(r, "wk0", BR_EV_EXITED);
    rig_expect(r, "unwatch\n");
    m.pid_ns = 78; /* somewhere else */
    RIG_SEND(r, "wk0", HELLO, &h, &m, NULL);
    rig_expect(r, "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_normal),
        T(test_frontends_hear_of_changes_at_once),
        T(test_the_worker_with_most_room_is_next),
        T(test_tenants_take_turns),
        T(test_the_tenant_with_least_in_flight_is_next),
        T(test_full_queues_refuse),
        T(test_waiting_ends),
        T(test_limits_change_while_running),
        T(test_more_credit_than_capacity_is_not_believed),
        T(test_cancel_while_queued),
        T(test_cancel_while_running),
        T(test_a_cancelled_job_does_not_wait_for_done_for_ever),
        T(test_a_job_past_its_deadline_is_cancelled),
        T(test_frontend_dies),
        T(test_worker_dies),
        T(test_last_words_are_heard),
        T(test_silence_is_death),
        T(test_our_own_sleep_is_not_their_death),
        T(test_worker_leaves_in_order),
        T(test_who_said_bye_leaves),
        T(test_worker_restarts_under_its_name),
        T(test_worker_reconnects),
        T(test_broker_restart_worker_first),
        T(test_broker_restart_frontend_first),
        T(test_broker_restart_nobody_claims),
        T(test_a_claim_without_frontend_is_cancelled),
        T(test_call_and_answers),
        T(test_job_that_ends_without_close),
        T(test_interrupt),
        T(test_close_after_loss),
        T(test_second_attempt_finds_its_sandbox),
        T(test_frontend_gives_up_after_loss),
        T(test_sandboxd_dies),
        T(test_no_sandboxd),
        T(test_calls_are_bounded_and_checked),
        T(test_sessions_stay_where_they_are),
        T(test_drain),
        T(test_drain_has_a_limit),
        T(test_bad_peers_are_dropped),
        T(test_an_id_belongs_to_one_frontend),
        T(test_local_processes_are_watched),
    };

    log_init("test");
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(id_init(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
