/* test_wk_redact.c - keys of ours in texts of others. */
#include "wk_redact.h"

#include "base/secret.h"
#include "unit.h"

static struct cfg_deployment deployments[4];
static struct cfg cfg = {.deployments = deployments, .deployment_count = 4};

static const char *clean(const char *text)
{
    static char got[256];
    struct bytes out = {0};

    assert_int_equal(wk_redact(&cfg, sv_of(text), &out), 0);
    (void)sv_copy(got, sizeof(got), sv_from(out.p, out.n));
    assert_int_equal(wk_redact_is_needed(&cfg, sv_of(text)), strcmp(got, text) != 0);
    bytes_fini(&out);
    return got;
}

static void keys_are_replaced(void **state)
{
    (void)state;
    assert_string_equal(clean(""), "");
    assert_string_equal(clean("no key"), "no key");
    assert_string_equal(clean("sk-first-key"), "[redacted]");
    assert_string_equal(clean("a sk-first-key, sk-first-keysk-first-key."),
                        "a [redacted], [redacted][redacted].");
    assert_string_equal(clean("sk-first-key-and-more!"), "[redacted]!"); /* the longer one first */
    assert_string_equal(clean("sk-first-ke none"), "sk-first-ke none");
}

/* The mark itself may be somebody's key. */
static void it_ends(void **state)
{
    struct secret *old = deployments[2].api_key;

    (void)state;
    deployments[2].api_key = secret_new(SV_LIT("redacted"));
    assert_null(strstr(clean("sk-first-key"), "sk-first"));
    secret_free(deployments[2].api_key);
    deployments[2].api_key = old;
}

static void memory_runs_out(void **state)
{
    (void)state;
    for (long n = 0; n < 4; n++) {
        struct bytes out = {0};

        (void)mem_fail_nth(n);
        int rc = wk_redact(&cfg, SV_LIT("x sk-first-key"), &out);

        if (mem_fail_nth(-1) != 0) {
            assert_int_equal(rc, ERR_NOMEM);
            assert_int_equal(out.n, 0);
        }
        bytes_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_replaced),
        cmocka_unit_test(it_ends),
        cmocka_unit_test(memory_runs_out),
    };
    int rc;

    deployments[0].api_key = secret_new(SV_LIT("sk-first-key"));
    deployments[1].api_key = secret_new(SV_LIT("sk-first-key-and-more"));
    deployments[2].api_key = secret_new(SV_LIT("none")); /* no secret */
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        secret_free(deployments[i].api_key);
    }
    return rc;
}
