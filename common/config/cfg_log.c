#include "config/cfg_log.h"

#include <stdlib.h>

#include "base/log.h"

void cfg_log_notice(void *ctx, unsigned line, const char *key, const char *why)
{
    (void)ctx;
    if (getenv(CFG_ENV_SUPERVISED) == NULL) {
        LOG(CONFIG_NOTICE, NULL, KV_U("line", line), KV_S("key", key), KV_S("why", why));
    }
}

void cfg_taken(struct cfg *c)
{
    static uint64_t generation;

    c->generation = ++generation;
    LOG(CONFIG_LOADED, NULL, KV_S("file", c->file), KV_U("generation", c->generation));
}
