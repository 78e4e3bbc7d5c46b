/* fuzz_io - what common/io decodes by itself: the frames of a message, and header lines of an HTTP
 * answer. The first byte chooses. Checks that views stay inside the input and that what was
 * accepted holds what it promises. */
#include <stdint.h>
#include <stdlib.h>

#include "io/plane_priv.h"
#include "io/uvcurl_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_true)
{
    if (!is_true) {
        abort();
    }
}

static bool view_is_inside(struct str_view v, struct str_view whole)
{
    return v.n == 0 || (v.p >= whole.p && v.p + v.n <= whole.p + whole.n);
}

/* Parts are separated by the byte 0xFE. */
static void frames(struct str_view in)
{
    struct str_view parts[4];
    struct str_view rest = in;
    struct str_view payload;
    struct plane_in got = {0};
    struct err e = {0};
    size_t count = 0;

    while (count < 4) {
        size_t n = sv_find(rest, (char)0xFE);

        parts[count++] = (struct str_view){rest.p, n};
        if (n == rest.n) {
            break;
        }
        rest = (struct str_view){rest.p + n + 1, rest.n - n - 1};
    }
    if (plane_frame_decode(&got, &payload, parts, count, &e) != 0) {
        require(e.code != 0 && e.text[0] != '\0');
        return;
    }
    require(count <= 2 && got.frame0.n >= MSG_HEAD_BYTES);
    require(got.fields.n == got.frame0.n - MSG_HEAD_BYTES);
    require(view_is_inside(got.fields, in) && view_is_inside(payload, in));
}

static void headers(struct str_view in)
{
    struct str_view rest = in;
    struct str_view v;
    struct bytes head;

    bytes_init(&head, 4096);
    while (rest.n > 0) {
        size_t n = sv_find(rest, '\n');
        struct str_view line = {rest.p, n < rest.n ? n + 1 : n};
        int status = uvcurl_status_line(line);

        require(status >= 0 && status <= 999);
        if (uvcurl_head_put(&head, line) != 0) {
            break;
        }
        require(head.n == 0 || (head.p[head.n - 1] == '\n' && head.p[head.n - 2] == '\r'));
        if (uvcurl_line_is_valid(line)) {
            require(sv_find(line, '\n') == line.n);
        }
        (void)uvcurl_line_is_ours(line);
        rest = (struct str_view){rest.p + line.n, rest.n - line.n};
    }
    if (uvcurl_header((struct str_view){head.p, head.n}, "retry-after", &v)) {
        require(view_is_inside(v, (struct str_view){head.p, head.n}));
    }
    if (uvcurl_header(in, "a", &v)) {
        require(view_is_inside(v, in));
    }
    bytes_fini(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        frames(sv_from(data + 1, size - 1));
    } else {
        headers(sv_from(data + 1, size - 1));
    }
    return 0;
}
