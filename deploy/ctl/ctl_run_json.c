/* cofferdam run: code in, its output out. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ctl.h"
#include "ctl_http.h"

static int read_code(struct bytes *out, const char *arg, struct err *e)
{
    char buf[16384];
    size_t n;

    if (strcmp(arg, "-") != 0) {
        return ctl_read_file(out, arg, e);
    }
    while ((n = fread(buf, 1, sizeof(buf), stdin)) > 0) {
        (void)bytes_put(out, buf, n);
    }
    if (ferror(stdin) != 0) {
        return err_set(e, ERR_IO, "standard input: cannot read");
    }
    return out->rc != 0 ? err_set(e, out->rc, "standard input: too large") : 0;
}

static void put_text(FILE *to, const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;

    if (n > 0) {
        (void)fwrite(text, 1, n, to);
        if (text[n - 1] != '\n') {
            (void)fputc('\n', to);
        }
    }
}

static void put_result(json_t *result)
{
    const char *mime;
    json_t *value;
    const char *text = json_string_value(json_object_get(result, "text/plain"));

    if (text == NULL) {
        text = json_string_value(json_object_get(result, "text"));
    }
    put_text(stdout, text);
    json_object_foreach(result, mime, value)
    {
        if (json_is_string(value) && strcmp(mime, "text/plain") != 0 && strcmp(mime, "text") != 0) {
            (void)fprintf(stderr, "[%s, %zu bytes of text]\n", mime, json_string_length(value));
        }
    }
}

static void put_error(json_t *error)
{
    json_t *traceback = json_object_get(error, "traceback");
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));
    size_t i;
    json_t *line;

    if (json_is_string(traceback) && json_string_length(traceback) > 0) {
        put_text(stderr, json_string_value(traceback));
        return;
    }
    json_array_foreach(traceback, i, line)
    {
        put_text(stderr, json_string_value(line));
    }
    if (json_array_size(traceback) == 0) {
        (void)fprintf(stderr, "%s: %s\n", name != NULL ? name : "Error",
                      value != NULL ? value : "");
    }
}

/* The answer of the gateway: 0, or 1 when the code raised or the request failed. */
static int show(int status, const struct bytes *answer, bool has_key)
{
    json_error_t je;
    json_t *doc = json_loadb(answer->p != NULL ? answer->p : "", answer->n, 0, &je);
    json_t *error = json_object_get(doc, "error");
    size_t i;
    json_t *result;
    int rc = 0;

    if (status < 200 || status > 299 || !json_is_object(doc)) {
        const char *text = json_string_value(json_object_get(error, "message"));

        (void)fprintf(stderr, "cofferdam: the gateway answered %d: %s%s\n", status,
                      text != NULL ? text
                                   : "not a JSON object; is this address a cofferdam gateway?",
                      status == 401 && !has_key
                          ? " `cofferdam run` sends the key in COFFERDAM_API_KEY; set it."
                          : "");
        json_decref(doc);
        return 1;
    }
    (void)fputs(json_string_value(json_object_get(doc, "stdout")) != NULL
                    ? json_string_value(json_object_get(doc, "stdout"))
                    : "",
                stdout);
    json_array_foreach(json_object_get(doc, "results"), i, result)
    {
        put_result(result);
    }
    (void)fflush(stdout);
    put_text(stderr, json_string_value(json_object_get(doc, "stderr")));
    if (json_is_object(error)) {
        put_error(error);
        rc = 1;
    }
    json_decref(doc);
    return rc;
}

static int base_url(char *dst, size_t cap, const struct ctl_opts *o, struct err *e)
{
    struct cfg *c = NULL;
    int rc;

    if (!o->has_config && access(o->config, R_OK) != 0) {
        (void)snprintf(dst, cap, "http://127.0.0.1:4000"); /* the default address of a gateway */
        return 0;
    }
    if ((rc = cfg_load(&c, o->config, CFG_FOR_CTL, NULL, NULL, e)) != 0) {
        return rc;
    }
    rc = ctl_url(dst, cap, c, CTL_HTTP_ADDR, c->listen, e);
    cfg_unref(c);
    return rc;
}

int ctl_cmd_run(const struct ctl_opts *o)
{
    struct bytes code = {0};
    struct bytes body = {0};
    struct bytes answer = {0};
    struct err e = {0};
    char url[512];
    const char *key = getenv("COFFERDAM_API_KEY");
    int status = 0;
    int rc = 1;

    bytes_init(&code, 0);
    bytes_init(&body, 0);
    bytes_init(&answer, 0);
    if (base_url(url, sizeof(url) - 32, o, &e) != 0 || read_code(&code, o->arg, &e) != 0) {
        (void)ctl_complain(&e);
        goto out;
    }
    (void)snprintf(url + strlen(url), 32, "/v1/sandboxes/run");
    bytes_put_str(&body, "{\"code\":");
    bytes_put_json_str(&body, sv_from(code.p, code.n));
    if (o->sandbox != NULL) {
        bytes_put_str(&body, ",\"sandbox_tool\":");
        bytes_put_json_str(&body, sv_of(o->sandbox));
    }
    bytes_put_char(&body, '}');
    if (body.rc != 0) {
        (void)err_set(&e, body.rc, "the code is too large");
        (void)ctl_complain(&e);
        goto out;
    }
    struct ctl_http_req req = {.method = "POST",
                               .url = url,
                               .body = sv_from(body.p, body.n),
                               .key = key != NULL && key[0] != '\0' ? key : NULL};

    if (ctl_http(&req, &status, &answer, &e) != 0) {
        (void)fprintf(stderr, "cofferdam: %s: %s; is the gateway running?\n", url, e.text);
        goto out;
    }
    rc = show(status, &answer, req.key != NULL);
out:
    bytes_fini(&code);
    bytes_fini(&body);
    bytes_fini(&answer);
    return rc;
}
