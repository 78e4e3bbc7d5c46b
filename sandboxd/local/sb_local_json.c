#include "sb_local_json.h"

#include <jansson.h>

#include "base/err.h"

#define MIME_KEYS_MAX 64
#define NAME_MAX_     256

static int on_piece(const char *p, size_t n, void *ctx)
{
    return bytes_put(ctx, p, n) == 0 ? 0 : -1;
}

static int rewrite(const json_t *v, struct bytes *out)
{
    bytes_reset(out);
    return json_dump_callback(v, on_piece, out, JSON_COMPACT) == 0 ? 0 : ERR_NOMEM;
}

static json_t *object_load(struct str_view in)
{
    json_t *v = json_loadb(in.p, in.n, JSON_ALLOW_NUL, NULL);

    if (v != NULL && !json_is_object(v)) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static bool display_is_good(json_t *v)
{
    const char *key;
    json_t *value;

    if (json_object_size(v) > MIME_KEYS_MAX) {
        return false;
    }
    json_object_foreach(v, key, value)
    {
        if (strlen(key) > NAME_MAX_ ||
            (strcmp(key, "is_main_result") == 0 && !json_is_boolean(value))) {
            return false;
        }
    }
    return true;
}

int sb_local_json_display(struct str_view in, struct bytes *out)
{
    json_t *v = object_load(in);
    int rc = v != NULL && display_is_good(v) ? rewrite(v, out) : ERR_INVALID_JSON;

    json_decref(v);
    return rc;
}

int sb_local_json_exception(struct str_view in, struct bytes *out)
{
    static const char *const keys[] = {"name", "value", "traceback"};
    json_t *v = object_load(in);
    bool is_good = v != NULL && json_object_size(v) == 3;

    for (unsigned i = 0; is_good && i < 3; i++) {
        is_good = json_is_string(json_object_get(v, keys[i]));
    }
    int rc = is_good ? rewrite(v, out) : ERR_INVALID_JSON;

    json_decref(v);
    return rc;
}
