#include "../support/unit.h"

#include "wk_deploy.h"

static struct cfg_deployment deps[] = {
    {.model_name = (char *)(uintptr_t) "a",
     .provider = (char *)(uintptr_t) "openai",
     .model = (char *)(uintptr_t) "x",
     .weight = 3},
    {.model_name = (char *)(uintptr_t) "a",
     .provider = (char *)(uintptr_t) "groq",
     .model = (char *)(uintptr_t) "y",
     .weight = 1},
    {.model_name = (char *)(uintptr_t) "a",
     .provider = (char *)(uintptr_t) "openai",
     .model = (char *)(uintptr_t) "z",
     .weight = 1,
     .order = 1},
    {.model_name = (char *)(uintptr_t) "p/*",
     .provider = (char *)(uintptr_t) "openai",
     .model = (char *)(uintptr_t) "v-*-1",
     .weight = 1},
};
static struct cfg cfg = {.deployments = deps, .deployment_count = COUNT_OF(deps)};

static void test_order_and_weight(void **state)
{
    struct wk_dep health[COUNT_OF(deps)] = {{0}};
    unsigned count[COUNT_OF(deps)] = {0};

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        struct wk_pick p;
        assert_int_equal(wk_pick_init(&p, &cfg, health, SV_LIT("a"), NULL), 3);
        count[wk_pick_next(&p, 0) - deps]++;
    }
    assert_int_equal(count[0], 300);
    assert_int_equal(count[1], 100);
    assert_int_equal(count[2], 0); /* a later order is for failures only */
}

static void test_each_once_then_again(void **state)
{
    struct wk_dep health[COUNT_OF(deps)] = {{0}};
    struct wk_pick p;
    unsigned seen = 0;

    (void)state;
    (void)wk_pick_init(&p, &cfg, health, SV_LIT("a"), NULL);
    for (unsigned i = 0; i < 2; i++) {
        seen |= 1U << (wk_pick_next(&p, 0) - deps);
        assert_true(wk_pick_has_other(&p, 0));
    }
    assert_int_equal(seen, 3);
    assert_ptr_equal(wk_pick_next(&p, 0), &deps[2]);
    assert_false(wk_pick_has_other(&p, 0));
    assert_non_null(wk_pick_next(&p, 0));
}

static void test_rest(void **state)
{
    struct wk_dep health[COUNT_OF(deps)] = {{0}};
    struct wk_pick p;

    (void)state;
    (void)wk_pick_init(&p, &cfg, health, SV_LIT("a"), NULL);
    for (unsigned i = 0; i < WK_DEPLOY_FAILS_MAX; i++) {
        wk_pick_note(&p, &deps[0], false, 1000);
        wk_pick_note(&p, &deps[1], false, 1000);
    }
    assert_ptr_equal(wk_pick_next(&p, 1001), &deps[2]);
    assert_false(wk_pick_has_other(&p, 1001));
    assert_true(wk_pick_next(&p, 1001) != &deps[2]); /* resting is better than nothing */
    (void)wk_pick_init(&p, &cfg, health, SV_LIT("a"), NULL);
    assert_true(wk_pick_next(&p, 1000 + WK_DEPLOY_COOL_MS) != &deps[2]);
    wk_pick_note(&p, &deps[0], false, 7000);
    wk_pick_note(&p, &deps[0], true, 7000);
    wk_pick_note(&p, &deps[0], false, 7000);
    wk_pick_note(&p, &deps[0], false, 7000);
    assert_true(health[0].cool_until_ms <= 7000); /* not in a row */
}

static void test_choice(void **state)
{
    struct wk_pick p;
    struct bytes b = {0};

    (void)state;
    assert_int_equal(wk_pick_init(&p, &cfg, NULL, SV_LIT("a"), "groq"), 1);
    assert_ptr_equal(wk_pick_next(&p, 0), &deps[1]);
    assert_ptr_equal(wk_pick_next(&p, 0), &deps[1]);
    assert_int_equal(wk_pick_init(&p, &cfg, NULL, SV_LIT("none"), NULL), 0);
    wk_pick_init_one(&p, &cfg, NULL, &deps[2]);
    assert_ptr_equal(wk_pick_next(&p, 0), &deps[2]);
    assert_int_equal(wk_deploy_model(&deps[3], SV_LIT("p/gpt"), &b), 0);
    assert_sv_equal(sv_from(b.p, b.n), "v-gpt-1");
    bytes_reset(&b);
    assert_int_equal(wk_deploy_model(&deps[0], SV_LIT("a"), &b), 0);
    assert_sv_equal(sv_from(b.p, b.n), "x");
    bytes_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_weight),
        cmocka_unit_test(test_each_once_then_again),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
