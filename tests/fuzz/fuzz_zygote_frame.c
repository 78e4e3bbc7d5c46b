/* Bytes that a sandbox or a zygote may send: decoders, text cleaning and JSON checking together.
 * The first byte picks. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "sb_local_json.h"
#include "sb_local_text.h"
#include "sb_zygote_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void frames(const uint8_t *p, size_t n)
{
    struct zyp_frame f;
    struct zyp_end end;
    struct zyp_file file;
    struct zyp_entry entry;
    uint8_t again[ZYP_ENTRY_HEAD + ZYP_PATH_MAX];
    uint64_t v;

    while (zyp_frame_decode(&f, p, n, true) == 0) {
        REQUIRE(f.len <= zyp_frame_limit(f.type));
        if (n - ZYP_FRAME_HEAD < f.len) {
            return;
        }
        (void)zyp_end_decode(&end, p + ZYP_FRAME_HEAD, f.len);
        (void)zyp_u64_decode(&v, p + ZYP_FRAME_HEAD, f.len);
        (void)zyp_file_decode(&file, p + ZYP_FRAME_HEAD, f.len);
        int used = zyp_entry_decode(&entry, p + ZYP_FRAME_HEAD, f.len);

        REQUIRE(used < 0 ||
                ((uint32_t)used <= f.len && zyp_entry_encode(again, &entry) == (size_t)used &&
                 memcmp(again, p + ZYP_FRAME_HEAD, (size_t)used) == 0));
        p += ZYP_FRAME_HEAD + f.len;
        n -= ZYP_FRAME_HEAD + f.len;
    }
}

static void control(const uint8_t *p, size_t n)
{
    struct zyp_ctl m;
    char again[ZYP_CTL_MAX];

    for (int side = 0; side < 2; side++) {
        if (zyp_ctl_decode(&m, p, n, side == 1) == 0) {
            REQUIRE(zyp_ctl_encode(again, &m) == n && memcmp(again, p, n) == 0);
        }
    }
}

/* However the bytes are cut, the same text comes out. */
static void text(const uint8_t *p, size_t n)
{
    struct bytes joined[2] = {{0}, {0}};
    struct bytes scratch = {0};
    struct str_view piece;
    size_t steps[2] = {n > 0 ? n : 1, n > 0 ? 1U + p[0] % 7U : 1U};

    for (unsigned k = 0; k < 2; k++) {
        struct sb_local_text t = {{0}, 0};

        for (size_t i = 0; i < n; i += steps[k]) {
            size_t m = n - i < steps[k] ? n - i : steps[k];

            REQUIRE(sb_local_text_put(&t, sv_from(p + i, m), &scratch, &piece) == 0);
            (void)bytes_put_sv(&joined[k], piece);
        }
        (void)bytes_put_sv(&joined[k], sb_local_text_end(&t));
    }
    REQUIRE(sv_eq((struct str_view){joined[0].p, joined[0].n},
                  (struct str_view){joined[1].p, joined[1].n}));
    bytes_fini(&joined[0]);
    bytes_fini(&joined[1]);
    bytes_fini(&scratch);
}

static void json(const uint8_t *p, size_t n)
{
    struct bytes out = {0};
    struct bytes twice = {0};

    if (sb_local_json_display(sv_from(p, n), &out) == 0) {
        REQUIRE(sb_local_json_display((struct str_view){out.p, out.n}, &twice) == 0);
        REQUIRE(out.n == twice.n);
    }
    (void)sb_local_json_exception(sv_from(p, n), &out);
    bytes_fini(&out);
    bytes_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parts[])(const uint8_t *, size_t) = {frames, control, text, json};

    if (size > 0) {
        parts[data[0] % 4U](data + 1, size - 1);
    }
    return 0;
}
