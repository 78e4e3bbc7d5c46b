/* Who is calling, and how much they may do. */
#include "../support/unit.h"

#include <stdio.h>

#include "fe_auth.h"
#include "fe_quota.h"

#define KEY "sk-one"

static struct cfg_api_key keys[2];
static struct cfg cfg;

static int setup(void **state)
{
    static char one[] = "one";
    static char two[] = "two";

    (void)state;
    if (id_init() != 0) {
        return -1;
    }
    keys[0] = (struct cfg_api_key){.name = one};
    keys[1] = (struct cfg_api_key){.name = two};
    id_sha256(keys[0].tenant.b, KEY, sizeof(KEY) - 1);
    id_sha256(keys[1].tenant.b, "sk-two", 6);
    cfg.api_keys = keys;
    cfg.api_key_count = 2;
    return 0;
}

/* Asks for the caller of a request with these header lines. */
static int who(struct fe_caller *ret, const char *lines, size_t n, struct err *e)
{
    struct bytes text = {0};
    struct fe_http *h = fe_http_new();
    struct str_view body;
    struct str_view in;
    int rc = 0;

    bytes_put_str(&text, "GET / HTTP/1.1\r\nHost: x\r\n");
    bytes_put(&text, lines, n);
    bytes_put_str(&text, "\r\n");
    in = sv_from(text.p, text.n);
    assert_int_equal(fe_http_next(h, &in, &body), FE_HTTP_HEAD);
    rc = fe_auth_check(ret, &cfg, fe_http_head(h), e);
    fe_http_free(h);
    bytes_fini(&text);
    return rc;
}

static void each_form(void **state)
{
    static const struct {
        const char *lines;
        const char *want; /* name of the key; "" = refused */
    } rows[] = {
        {"Authorization: Bearer " KEY "\r\n", "one"},
        {"authorization: bearer  sk-two \r\n", "two"},
        {"x-api-key: " KEY "\r\n", "one"},
        {"X-LiteLLM-API-Key: " KEY "\r\n", "one"},
        {"x-litellm-api-key: Bearer " KEY "\r\n", "one"},
        {"x-litellm-api-key: sk-two\r\nAuthorization: Bearer " KEY "\r\n", "two"},
        {"Authorization: Bearer sk-two\r\nx-api-key: " KEY "\r\n", "two"},
        {"", ""},
        {"Authorization: Basic " KEY "\r\n", ""},
        {"Authorization: " KEY "\r\n", ""},
        {"Authorization: Bearer\r\n", ""},
        {"Authorization: Bearer \r\n", ""},
        {"Authorization:\r\n", ""},
        {"Authorization: Bearer " KEY "\r\nAuthorization: Bearer " KEY "\r\n", ""},
        {"x-api-key: " KEY "\r\nx-api-key: " KEY "\r\n", ""},
        {"x-api-key:\r\n", ""},
        {"Authorization: Bearer " KEY "x\r\n", ""},
        {"Authorization: Basic x\r\nx-api-key: " KEY "\r\n", ""},
        {"x-litellm-api-key: wrong\r\nAuthorization: Bearer " KEY "\r\n", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fe_caller c = {0};
        struct err e = {0};
        int rc = who(&c, rows[i].lines, strlen(rows[i].lines), &e);

        if (rows[i].want[0] == '\0') {
            assert_int_equal(rc, ERR_UNAUTHORIZED);
            assert_int_not_equal(e.text[0], '\0');
            assert_null(strstr(e.text, "sk-"));
        } else {
            assert_int_equal(rc, 0);
            assert_string_equal(c.key->name, rows[i].want);
            assert_memory_equal(c.tenant.b, c.key->tenant.b, sizeof(c.tenant.b));
        }
    }
}

static void no_keys_means_anonymous(void **state)
{
    static const struct tenant_id nobody;
    struct fe_caller c = {.key = keys};
    struct err e = {0};

    (void)state;
    cfg.api_key_count = 0;
    assert_int_equal(who(&c, "Authorization: Bearer any\r\n", 27, &e), 0);
    assert_null(c.key);
    assert_memory_equal(c.tenant.b, nobody.b, sizeof(nobody.b));
    cfg.api_key_count = 2;
}

static void long_tokens_are_refused(void **state)
{
    struct bytes line = {0};
    struct fe_caller c = {0};
    struct err e = {0};

    (void)state;
    bytes_put_str(&line, "Authorization: Bearer ");
    for (int i = 0; i < 10240; i++) {
        bytes_put_char(&line, 'k');
    }
    bytes_put_str(&line, "\r\n");
    assert_int_equal(who(&c, line.p, line.n, &e), ERR_UNAUTHORIZED);
    bytes_fini(&line);
}

static void parallel_limit(void **state)
{
    struct fe_quota *q = fe_quota_new();
    struct cfg_api_key key = keys[0];
    struct fe_quota_entry *a = NULL;
    struct fe_quota_entry *b = NULL;
    struct fe_quota_entry *c = NULL;
    struct err e = {0};

    (void)state;
    key.max_parallel = 2;
    assert_int_equal(fe_quota_take(q, &key, 1, &a, &e), 0);
    assert_int_equal(fe_quota_take(q, &key, 1, &b, &e), 0);
    assert_int_equal(fe_quota_take(q, &key, 1, &c, &e), ERR_RATE_LIMIT);
    assert_null(c);
    assert_int_equal(e.retry_after_ms, 1000);
    fe_quota_done(a);
    assert_int_equal(fe_quota_take(q, &key, 1, &c, &e), 0);
    fe_quota_done(b);
    fe_quota_done(c);
    fe_quota_done(NULL);
    fe_quota_free(q);
}

static void rate_limit(void **state)
{
    struct fe_quota *q = fe_quota_new();
    struct cfg_api_key key = keys[0];
    struct cfg_api_key other = keys[1];
    struct fe_quota_entry *entry = NULL;
    struct err e = {0};
    unsigned taken = 0;

    (void)state;
    key.rpm = other.rpm = 6;
    for (; fe_quota_take(q, &key, 1000, &entry, &e) == 0; taken++) {
        fe_quota_done(entry);
    }
    assert_int_equal(taken, 6);
    assert_in_range(e.retry_after_ms, 9999, 10002);
    assert_int_equal(fe_quota_take(q, &other, 1000, &entry, &e), 0); /* keys do not share */
    fe_quota_done(entry);
    assert_int_equal(fe_quota_take(q, &key, 1000 + 9000, &entry, &e), ERR_RATE_LIMIT);
    assert_int_equal(fe_quota_take(q, &key, 1000 + 10002, &entry, &e), 0);
    fe_quota_done(entry);
    assert_int_equal(fe_quota_take(q, &key, 1000 + 10003, &entry, &e), ERR_RATE_LIMIT);
    for (taken = 0; fe_quota_take(q, &key, 10000000, &entry, &e) == 0; taken++) {
        fe_quota_done(entry);
    }
    assert_int_equal(taken, 6); /* a long rest fills one bucket, not more */
    fe_quota_free(q);
}

static void no_limits_no_entries(void **state)
{
    struct fe_quota *q = fe_quota_new();
    struct fe_quota_entry *entry = NULL;
    struct err e = {0};

    (void)state;
    assert_int_equal(fe_quota_take(q, NULL, 1, &entry, &e), 0);
    assert_null(entry);
    assert_int_equal(fe_quota_take(q, &keys[0], 1, &entry, &e), 0);
    assert_null(entry);
    fe_quota_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form),
        cmocka_unit_test(no_keys_means_anonymous),
        cmocka_unit_test(long_tokens_are_refused),
        cmocka_unit_test(parallel_limit),
        cmocka_unit_test(rate_limit),
        cmocka_unit_test(no_limits_no_entries),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
