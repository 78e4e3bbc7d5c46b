/* deploy/config.example.yaml shows every key with its real default. Runs in the source directory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/cfg_text.h"
#include "config/cfg_yaml.h"

#define EXAMPLE "deploy/config.example.yaml"

static char text[64 * 1024];
static size_t text_len;

static int setup(void **state)
{
    FILE *f = fopen(EXAMPLE, "r");

    (void)state;
    if (f == NULL) {
        perror(EXAMPLE);
        return -1;
    }
    text_len = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    setenv("OPENAI_API_KEY", "sk-x", 1);
    unsetenv("OPENAI_BASE_URL");
    return text_len > 0 ? 0 : -1;
}

static const struct cfg_node *at(const struct cfg_node *own, const char *path)
{
    char head[64];
    const char *dot = strchr(path, '.');

    if (dot != NULL) {
        snprintf(head, sizeof(head), "%.*s", (int)(dot - path), path);
        own = cfg_node_get(own, head);
        path = dot + 1;
    }
    return cfg_node_get(own, path);
}

static void test_every_key_is_there(void **state)
{
    static const char *const paths[] = {
#define X(path, type, member, def, lo, hi, doc) path,
        CFG_TABLE(X)
#undef X
    };
    static const char *const others[] = {"brokers:",    "api_keys:",   "curve:",   "public_key:",
                                         "secret_key:", "broker_key:", "allowed:", "binds:"};
    struct cfg_node *root = NULL;
    struct err e = {0};

    (void)state;
    assert_int_equal(cfg_yaml_parse(&root, EXAMPLE, sv_from(text, text_len), &e), 0);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (at(cfg_node_get(root, "cofferdam"), paths[i]) == NULL) {
            fail_msg("%s lacks cofferdam.%s", EXAMPLE, paths[i]);
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_non_null(strstr(text, others[i]));
    }
    cfg_node_free(root);
}

static bool same_str(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void test_values_are_the_defaults(void **state)
{
    struct cfg *example = NULL;
    struct cfg *empty = NULL;
    struct err e = {0};

    (void)state;
    if (cfg_load(&example, EXAMPLE, CFG_FOR_WORKER, NULL, NULL, &e) != 0) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(cfg_load_text(&empty, "empty", sv_of(""), CFG_FOR_WORKER, NULL, NULL, &e), 0);
#define SAME_str(a, b)  same_str(a, b)
#define SAME_num(a, b)  ((a) == (b))
#define SAME_bool(a, b) ((a) == (b))
#define X(path, type, member, def, lo, hi, doc)                                                    \
    if (!SAME_##type(example->member, empty->member)) {                                            \
        fail_msg("%s: cofferdam.%s is not the default", EXAMPLE, path);                            \
    }
    CFG_TABLE(X)
#undef X
    assert_int_equal(example->num_retries, empty->num_retries);
    assert_int_equal(example->request_timeout_ms, empty->request_timeout_ms);
    cfg_unref(example);
    cfg_unref(empty);
}

static void test_loads_for_every_role(void **state)
{
    (void)state;
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        struct cfg *c = NULL;
        struct err e = {0};

        assert_int_equal(cfg_load(&c, EXAMPLE, role, NULL, NULL, &e), 0);
        cfg_unref(c);
    }
}

/* The parts that are commented out are right as well. */
static void test_commented_parts_load(void **state)
{
    static char all[sizeof(text)];
    static const char z85[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
    size_t n = 0;
    struct cfg *c = NULL;
    struct err e = {0};

    (void)state;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        int indent = (int)strspn(line, " ");
        int len = (int)strcspn(line, "\n");
        int skip = strncmp(line + indent, "# ", 2) == 0 ? 2 : 0; /* ## is prose */

        n += (size_t)snprintf(all + n, sizeof(all) - n, "%.*s%.*s\n", indent, line,
                              len - indent - skip, line + indent + skip);
    }
    for (char *q = strstr(all, "\"...\""); q != NULL; q = strstr(all, "\"...\"")) {
        static char copy[sizeof(all)];

        snprintf(copy, sizeof(copy), "%.*s\"%s\"%s", (int)(q - all), all, z85, q + 5);
        memcpy(all, copy, sizeof(all));
    }
    setenv("E2B_API_KEY", "e", 1);
    setenv("LITELLM_MASTER_KEY", "sk-m", 1);
    setenv("TEAM_A_KEY", "sk-a", 1);
    setenv("COFFERDAM_CURVE_SECRET", z85, 1);
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        if (cfg_load_text(&c, "uncommented", sv_of(all), role, NULL, NULL, &e) != 0) {
            fail_msg("%s\n%s", e.text, all);
        }
        assert_int_equal(c->api_key_count, 2);
        assert_int_equal(c->sandbox_tool_count, 3);
        cfg_unref(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key_is_there),
        cmocka_unit_test(test_values_are_the_defaults),
        cmocka_unit_test(test_loads_for_every_role),
        cmocka_unit_test(test_commented_parts_load),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
