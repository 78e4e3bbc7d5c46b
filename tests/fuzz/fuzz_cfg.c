/* fuzz_cfg.c - the YAML reader and every section of the configuration, for each role. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "config/cfg_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_notice(void *ctx, unsigned line, const char *key, const char *why)
{
    unsigned *count = ctx;

    REQUIRE(line > 0 && key != NULL && why != NULL);
    (*count)++;
}

static void use(const struct cfg *c)
{
    unsigned at[8];
    struct tenant_id none = {{0}};
    char host[64];
    uint16_t port = 0;

    REQUIRE(cfg_find_tool(c, sv_of(NULL)) != NULL);
    REQUIRE(cfg_find_key(c, &none) == NULL);
    REQUIRE(cfg_split_listen(c->listen, host, sizeof(host), &port) == 0);
    REQUIRE(c->brokers[0] != NULL);
    for (char **m = c->model_names; *m != NULL; m++) {
        REQUIRE(cfg_find_deployments(c, sv_of(*m), at, 8) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_set;

    if (!is_set) {
        is_set = true;
        setenv("A", "sk-a", 1);
        setenv("E2B_API_KEY", "e2b", 1);
    }
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        struct err e = {0};
        struct cfg *c = NULL;
        unsigned notices = 0;
        int rc = cfg_load_text(&c, "f", sv_from(data, size), role, on_notice, &notices, &e);

        if (rc == 0) {
            use(c);
        } else {
            REQUIRE(rc == ERR_CONFIG && e.text[0] != '\0' && c == NULL);
        }
        cfg_unref(c);
    }
    return 0;
}
