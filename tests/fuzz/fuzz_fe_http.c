/* The HTTP parser over hostile bytes, cut into pieces of hostile sizes: never a crash, never a body
 * that differs from what one whole feed gives. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fe_headers.h"
#include "fe_http.h"
#include "fe_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_head(const struct fe_http_head *head, struct bytes *log)
{
    struct fe_route r;
    char text[512];

    fe_route_find(&r, false, head->method, head->target.path);
    fe_route_allow(text, sizeof(text), &r);
    if (r.what == FE_DO_MODEL) {
        (void)fe_route_model_id(head->target.path, text, sizeof(text));
    }
    (void)fe_headers_to_worker(log, head, SV_LIT("x-session"));
    REQUIRE(memchr(head->target.path.p, '\n', head->target.path.n) == NULL);
    REQUIRE(!head->is_chunked || head->content_length == 0);
    bytes_put_sv(log, head->method_text);
    bytes_put_sv(log, head->target.path);
    bytes_printf(log, "?%.*s %u %u %u %u %llu\n", (int)head->target.query.n,
                 head->target.query.n > 0 ? head->target.query.p : "", (unsigned)r.what,
                 (unsigned)head->is_keep_alive, head->field_count, (unsigned)head->is_chunked,
                 (unsigned long long)head->content_length);
}

/* Feeds all of `in` in steps from `steps` (cyclic; 0 = all at once) and writes what came out. */
static void run(struct bytes *log, struct str_view in, struct str_view steps)
{
    struct fe_http *h = fe_http_new();
    size_t k = 0;
    enum fe_http_event ev = FE_HTTP_MORE;

    while (in.n > 0 && ev != FE_HTTP_ERROR) {
        size_t n = steps.n > 0 ? (size_t)(uint8_t)steps.p[k++ % steps.n] + 1 : in.n;

        n = n > in.n ? in.n : n;
        char *copy = malloc(n);

        REQUIRE(copy != NULL);
        memcpy(copy, in.p, n);
        struct str_view part = sv_from(copy, n);
        struct str_view body = {NULL, 0};

        in = sv_from(in.p + n, in.n - n);
        do {
            ev = fe_http_next(h, &part, &body);
            if (ev == FE_HTTP_HEAD) {
                use_head(fe_http_head(h), log);
                fe_http_limit_body(h, 4096);
            } else if (ev == FE_HTTP_BODY) {
                bytes_put_sv(log, body);
            } else if (ev == FE_HTTP_END) {
                bytes_put_str(log, "<end>");
            } else if (ev == FE_HTTP_ERROR) {
                bytes_printf(log, "<%d>", fe_http_error(h)->code);
            }
        } while (ev != FE_HTTP_MORE && ev != FE_HTTP_ERROR);
        free(copy);
    }
    fe_http_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes whole = {0};
    struct bytes parts = {0};
    size_t steps = size > 0 ? data[0] % 8U : 0;

    if (size < 1 + steps) {
        return 0;
    }
    struct str_view in = sv_from(data + 1 + steps, size - 1 - steps);

    run(&whole, in, (struct str_view){NULL, 0});
    run(&parts, in, sv_from(data + 1, steps));
    REQUIRE(whole.n == parts.n && (whole.n == 0 || memcmp(whole.p, parts.p, whole.n) == 0));
    bytes_fini(&whole);
    bytes_fini(&parts);
    return 0;
}
