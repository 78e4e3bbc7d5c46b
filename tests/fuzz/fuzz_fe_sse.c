/* Ends a stream of hostile chunks and parses what is sent; also the header filter for workers. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fe_headers.h"
#include "fe_sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every data line of ours is JSON on one line. */
static void check_events(const char *p)
{
    while ((p = strstr(p, "data: ")) != NULL) {
        const char *end = strchr(p, '\n');

        REQUIRE(end != NULL && end[1] == '\n');
        json_t *j = json_loadb(p + 6, (size_t)(end - p - 6), 0, NULL);

        REQUIRE(j != NULL);
        json_decref(j);
        p = end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fe_sse s;
    struct err e = {0};
    struct bytes out = {0};
    struct bytes headers = {0};
    size_t step = 0;

    if (size < 3) {
        return 0;
    }
    fe_sse_init(&s, (enum msg_stream)(1 + data[0] % 3U));
    step = (size_t)data[1] + 1;
    err_set(&e, -1 - (int)(data[2] % (unsigned)ERR_ORD_COUNT), "%.*s", (int)(size > 60 ? 60 : size),
            (const char *)data);
    (void)fe_headers_from_worker(&headers, sv_from(data + 3, size - 3));
    for (size_t i = 3; i < size; i += step) {
        struct buf *b = buf_copy(data + i, size - i < step ? size - i : step);

        REQUIRE(b != NULL);
        fe_sse_pass(&s, b, (uint32_t)(data[i] == '7'));
        buf_unref(b);
    }
    if (fe_sse_failure(&s, &e, &out) == 0) {
        REQUIRE(out.n > 2 && out.p[out.n - 1] == '\n' && out.p[out.n - 2] == '\n');
        check_events(out.p);
    }
    bytes_fini(&headers);
    bytes_fini(&out);
    fe_sse_fini(&s);
    return 0;
}
