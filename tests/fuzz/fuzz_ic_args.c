/* Tool arguments: whatever the split, the decoded code is the same; for a valid object it is the
 * text of its `code`. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "ic_args.h"
#include "ic_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool decode(struct str_view text, size_t piece, struct bytes *code)
{
    struct ic_args a;

    ic_args_init(&a);
    for (size_t at = 0; at < text.n; at += piece) {
        ic_args_feed(&a, sv_from(text.p + at, text.n - at < piece ? text.n - at : piece), code);
    }
    return ic_args_end(&a, text);
}

/* The first member called `code`, as the decoder sees it: by its raw name. */
static struct icj first_code(struct icj object)
{
    struct icj_iter it = icj_iter(object);
    struct icj key;
    struct icj v;

    while (icj_next_member(&it, &key, &v)) {
        if (sv_eq(key.raw, SV_LIT("\"code\""))) {
            return v;
        }
    }
    return (struct icj){ICJ_ABSENT, {NULL, 0}};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes whole = {0};
    struct bytes split = {0};
    struct bytes want = {0};
    struct icj v;

    if (size < 1) {
        return 0;
    }
    struct str_view text = sv_from(data + 1, size - 1);
    bool is_valid = decode(text, size, &whole);

    REQUIRE(decode(text, 1 + data[0] % 8, &split) == is_valid);
    REQUIRE(sv_eq(sv_from(whole.p, whole.n), sv_from(split.p, split.n)));
    if (icj_parse(&v, text, NULL) == 0 && v.type == ICJ_OBJECT) {
        struct icj code = first_code(v);

        REQUIRE(is_valid == (code.type == ICJ_STRING));
        icj_text(code, &want);
        REQUIRE(!is_valid || sv_eq(sv_from(whole.p, whole.n), sv_from(want.p, want.n)));
    } else {
        REQUIRE(!is_valid);
    }
    bytes_fini(&whole);
    bytes_fini(&split);
    bytes_fini(&want);
    return 0;
}
