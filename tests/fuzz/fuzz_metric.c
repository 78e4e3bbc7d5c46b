/* fuzz_metric.c - snapshots come from peers. A rendered page must survive rendering unchanged: what
 * was accepted is well-formed, and nothing is in it twice. */
#include "base/check.h"
#include "base/metric.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes page = {0};
    struct bytes again = {0};

    REQUIRE(metric_render(&page, sv_from(data, size)) == 0);
    for (size_t i = 0; i < page.n; i++) {
        REQUIRE(page.p[i] == '\n' || (page.p[i] >= ' ' && page.p[i] <= '~'));
    }
    REQUIRE(metric_render(&again, sv_from(page.p, page.n)) == 0);
    REQUIRE(sv_eq(sv_from(page.p, page.n), sv_from(again.p, again.n)));
    bytes_fini(&page);
    bytes_fini(&again);
    return 0;
}
