/* The scanner against jansson: both agree on what is valid JSON; what goes upstream is valid, holds
 * no reserved key where one is cut, and is the same in slices and rebuilt. */
#include <jansson.h>
#include <stdlib.h>

#include "wk_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int cond)
{
    if (!cond) {
        abort();
    }
}

/* jansson refuses a few things that are valid by the grammar: numbers it cannot hold, and lone
 * surrogates; and its depth limit is another. */
static int is_known_difference(const json_error_t *e)
{
    enum json_error_code code = json_error_code(e);

    return code == json_error_numeric_overflow || code == json_error_stack_overflow ||
           code == json_error_null_byte_in_key || strstr(e->text, "Unicode") != NULL;
}

static void check_metadata(const json_t *root)
{
    const json_t *meta = json_object_get(root, "metadata");
    const char *key;
    json_t *v;

    if (!json_is_object(meta)) {
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)meta, key, v)
    {
        expect(!wk_scan_is_reserved(sv_of(key)));
        expect(strcmp(key, "session_id") != 0);
    }
}

static void check_output(const struct bytes *out)
{
    json_error_t je;
    json_t *root = json_loadb(out->p, out->n, JSON_ALLOW_NUL, &je);
    const char *key;
    json_t *v;

    if (root == NULL) {
        expect(is_known_difference(&je));
        return;
    }
    json_object_foreach(root, key, v)
    {
        expect(!wk_scan_is_reserved(sv_of(key)));
        expect(strcmp(key, "litellm_metadata") != 0);
    }
    check_metadata(root);
    json_decref(root);
}

static void check_upstream(const struct wk_scan *s, struct str_view body)
{
    struct str_view slices[2 * WK_SCAN_CUTS_MAX + 2];
    struct bytes joined = {0};
    struct bytes rebuilt = {0};
    int after;
    long at;
    unsigned n = wk_scan_slices(s, body, slices, sizeof(slices) / sizeof(slices[0]), &after);

    expect(n <= sizeof(slices) / sizeof(slices[0]));
    expect(wk_scan_rebuild(s, body, &rebuilt, &at) == 0);
    expect((after >= 0) == (at >= 0));
    for (unsigned i = 0; i < n; i++) {
        (void)bytes_put_sv(&joined, slices[i]);
        if ((int)i == after) {
            expect((long)joined.n == at);
        }
    }
    expect(joined.n == rebuilt.n && (joined.n == 0 || memcmp(joined.p, rebuilt.p, joined.n) == 0));
    bytes_reset(&joined);
    for (unsigned i = 0; i < n; i++) {
        (void)bytes_put_sv(&joined, slices[i]);
        if ((int)i == after) {
            (void)bytes_put_str(&joined, "\"provider\"");
        }
    }
    check_output(&joined);
    bytes_fini(&joined);
    bytes_fini(&rebuilt);
}

static void check_strings(const struct wk_scan *s, struct str_view body)
{
    char dst[64];
    size_t n;

    for (unsigned i = 0; i < WK_KEY_COUNT; i++) {
        if (s->type[i] == WK_JSON_STRING &&
            wk_scan_string(sv_from(body.p + s->value[i].at, s->value[i].n), dst, sizeof(dst), &n) ==
                0) {
            expect(n <= sizeof(dst));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str_view body = sv_from(data, size);
    struct wk_scan s;
    struct err e = {0};
    json_error_t je;
    int rc = wk_scan_body(&s, body, &e);
    json_t *root = size > 0
                       ? json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je)
                       : NULL;

    if (size > 0 && memchr(data, 0, size) != NULL) {
        expect(rc != 0); /* a raw NUL is never valid; jansson overlooks one behind a number */
    } else if (rc == 0) {
        expect(root != NULL ? json_is_object(root) : is_known_difference(&je));
        check_upstream(&s, body);
        check_strings(&s, body);
    } else if (root != NULL) {
        /* valid, yet refused: not an object, a duplicate, too deep, or too many reserved fields */
        expect(rc == ERR_INVALID_TYPE
                   ? !json_is_object(root)
                   : rc == ERR_INVALID || strstr(e.text, "nested too deeply") != NULL);
    }
    json_decref(root);
    return 0;
}
