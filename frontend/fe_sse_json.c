/* The one place of the frontend that parses JSON, and only when a stream has failed. */
#include <jansson.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "fe_sse.h"

/* Joins the data lines of one event. */
static int event_data(struct bytes *out, struct str_view event)
{
    while (event.n > 0) {
        size_t n = sv_find(event, '\n');
        struct str_view line = sv_from(event.p, n);
        size_t used = n < event.n ? n + 1 : n;

        event = sv_from(event.p + used, event.n - used);
        if (line.n > 0 && line.p[line.n - 1] == '\r') {
            line.n--;
        }
        if (!sv_starts(line, SV_LIT("data:"))) {
            continue;
        }
        line = sv_from(line.p + 5, line.n - 5);
        if (line.n > 0 && line.p[0] == ' ') {
            line = sv_from(line.p + 1, line.n - 1);
        }
        if (out->n > 0) {
            bytes_put_char(out, '\n');
        }
        bytes_put_sv(out, line);
    }
    return out->rc;
}

/* The response object of a response.created event, or NULL. Owned by the caller. */
static json_t *created_response(struct str_view event)
{
    struct bytes data = {0};
    json_t *root = NULL;
    json_t *ret = NULL;

    if (event_data(&data, event) == 0 && data.n > 0) {
        root = json_loadb(data.p, data.n, JSON_REJECT_DUPLICATES, NULL);
    }
    bytes_fini(&data);
    ret = json_object_get(root, "response");
    ret =
        json_is_object(ret) && json_is_string(json_object_get(ret, "id")) ? json_incref(ret) : NULL;
    json_decref(root);
    return ret;
}

static json_t *minimal_response(void)
{
    char id[64];

    id_text(id, sizeof(id), "resp_", 24);
    return json_pack("{s:s, s:s, s:I, s:s, s:[], s:n, s:n, s:s}", "id", id, "object", "response",
                     "created_at", (json_int_t)(clock_unix_ms() / 1000U), "status", "failed",
                     "output", "usage", "incomplete_details", "model", "unknown");
}

int fe_sse_failed_response(struct bytes *out, struct str_view first_event, const struct err *e)
{
    const struct err_info *info = err_info(e->code);
    const char *code = info->code != NULL ? info->code : info->type;
    json_t *response = created_response(first_event);
    json_t *error = json_object();
    char *text = NULL;
    int rc = ERR_NOMEM;

    if (response == NULL) {
        response = minimal_response();
    }
    if (response == NULL || error == NULL) {
        goto out;
    }
    /* a text cut inside a character is not UTF-8; it is then replaced by the table's */
    if (json_object_set_new(error, "code", json_string(code)) != 0 ||
        (json_object_set_new(error, "message",
                             json_string(e->text[0] != '\0' ? e->text : info->text)) != 0 &&
         json_object_set_new(error, "message", json_string(info->text)) != 0) ||
        json_object_set_new(response, "status", json_string("failed")) != 0 ||
        json_object_set(response, "error", error) != 0) {
        goto out;
    }
    text = json_dumps(response, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text == NULL) {
        goto out;
    }
    rc = bytes_put_str(out, text);
    free(text);
out:
    json_decref(error);
    json_decref(response);
    return rc;
}
