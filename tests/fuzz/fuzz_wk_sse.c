/* Event streams: the first byte says how the rest is split. Split or whole, the events are the
 * same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "wk_sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_all(struct wk_sse *s, struct bytes *out)
{
    struct wk_sse_event ev;

    while (wk_sse_take(s, &ev) == 1) {
        bytes_put_sv(out, ev.name);
        bytes_put_char(out, '\n');
        bytes_put_sv(out, ev.data);
        bytes_put_char(out, '\0');
    }
}

static void parse(const uint8_t *data, size_t size, size_t piece, struct bytes *out)
{
    struct wk_sse s;

    wk_sse_init(&s, 1 << 16);
    for (size_t at = 0; at < size; at += piece) {
        if (wk_sse_push(&s, sv_from(data + at, size - at < piece ? size - at : piece)) != 0) {
            break;
        }
        take_all(&s, out);
    }
    (void)wk_sse_end(&s);
    take_all(&s, out);
    wk_sse_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes whole = {0};
    struct bytes split = {0};

    if (size < 1 || size > 1 << 15) {
        return 0;
    }
    parse(data + 1, size - 1, size, &whole);
    parse(data + 1, size - 1, 1 + data[0] % 16, &split);
    REQUIRE(sv_eq(sv_from(whole.p, whole.n), sv_from(split.p, split.n)));
    bytes_fini(&whole);
    bytes_fini(&split);
    return 0;
}
