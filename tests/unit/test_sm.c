#include "../support/unit.h"

#include "../support/capture.h"
#include "base/log.h"
#include "base/sm.h"

enum { OFF, ON, GONE };

static const struct sm_state table[] = {
    {"OFF", 1U << ON | 1U << GONE},
    {"ON", 1U << OFF},
    {"GONE", 0},
};

struct edge {
    unsigned from;
    unsigned to;
};

static void move(void *arg)
{
    const struct edge *e = arg;

    (void)sm_move(table, "lamp", 9, e->from, e->to, "test");
}

static void test_every_edge_and_every_non_edge(void **state)
{
    char *text;

    (void)state;
    for (unsigned from = OFF; from <= GONE; from++) {
        for (unsigned to = OFF; to <= GONE; to++) {
            struct edge e = {from, to};
            bool is_edge = (table[from].to & 1U << to) != 0;

            if (is_edge) {
                assert_int_equal(sm_move(table, "lamp", 9, from, to, "test"), to);
                continue;
            }
            assert_true(capture_abort(move, &e, &text));
            assert_non_null(strstr(text, "lamp 9 ")); /* the refused move is in the dump */
            free(text);
        }
    }
}

static void test_move_is_logged_at_debug(void **state)
{
    struct capture c;
    char *text;

    (void)state;
    log_set_level(LOG_LEVEL_DEBUG);
    capture_start(&c);
    (void)sm_move(table, "lamp", 9, OFF, ON, "switch");
    text = capture_end(&c);
    log_set_level(LOG_LEVEL_INFO);
    assert_non_null(strstr(text, "DEBUG - STATE object=lamp id=9 from=OFF to=ON why=switch\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_edge_and_every_non_edge),
        cmocka_unit_test(test_move_is_logged_at_debug),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
