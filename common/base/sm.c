#include "base/sm.h"

#include "base/check.h"
#include "base/log.h"
#include "base/ring.h"

unsigned sm_move(const struct sm_state *table, const char *what, uint64_t id, unsigned from,
                 unsigned next, const char *why)
{
    REQUIRE(next < 32);
    if ((table[from].to & (1U << next)) == 0) {
        ring_note(what, id, table[from].name, table[next].name,
                  why); /* so that the dump names the culprit */
    }
    REQUIRE((table[from].to & (1U << next)) != 0);
    ring_note(what, id, table[from].name, table[next].name, why);
    LOG(STATE, NULL, KV_S("object", what), KV_U("id", id), KV_S("from", table[from].name),
        KV_S("to", table[next].name), KV_S("why", why));
    return next;
}
