/* cofferdam status: the status document as tables. The document says itself what there is to show:
 * scalars become lines, lists of objects become tables with one column per field. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ctl.h"
#include "ctl_http.h"

#define COLUMNS_MAX 24U
#define CELL_MAX    128U
#define DEPTH_MAX   6

static void cell_text(char *dst, size_t cap, const char *s)
{
    size_t n = 0;

    for (; s[n] != '\0' && n + 1 < cap; n++) {
        bool is_control = (unsigned char)s[n] < ' ' || s[n] == 0x7f;

        dst[n] = s[n];
        if (is_control) { /* none of them to the terminal */
            dst[n] = '?';
        }
    }
    dst[n] = '\0';
}

static void cell(char *dst, size_t cap, const json_t *v)
{
    if (json_is_string(v)) {
        cell_text(dst, cap, json_string_value(v));
    } else if (json_is_integer(v)) {
        (void)snprintf(dst, cap, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_real(v)) {
        (void)snprintf(dst, cap, "%.3f", json_real_value(v));
    } else if (json_is_boolean(v)) {
        (void)snprintf(dst, cap, "%s", json_is_true(v) ? "yes" : "no");
    } else if (json_is_null(v) || v == NULL) {
        (void)snprintf(dst, cap, "-");
    } else {
        (void)snprintf(dst, cap, "(%zu)",
                       json_is_array(v) ? json_array_size(v) : json_object_size(v));
    }
}

struct table {
    const char *names[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX];
    size_t count;
};

static void column_add(struct table *t, const char *name, const json_t *v)
{
    char text[CELL_MAX];
    size_t i = 0;

    while (i < t->count && strcmp(t->names[i], name) != 0) {
        i++;
    }
    if (i == t->count) {
        if (t->count == COLUMNS_MAX) {
            return;
        }
        t->names[t->count] = name;
        t->widths[t->count++] = strlen(name);
    }
    cell(text, sizeof(text), v);
    if (strlen(text) > t->widths[i]) {
        t->widths[i] = strlen(text);
    }
}

static void put_table(FILE *to, json_t *rows)
{
    struct table t = {.count = 0};
    char text[CELL_MAX];
    size_t i;
    json_t *row;
    const char *key;
    json_t *v;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, v)
        {
            column_add(&t, key, v);
        }
    }
    for (size_t c = 0; c < t.count; c++) {
        (void)fprintf(to, "  %-*s", (int)t.widths[c], t.names[c]);
    }
    (void)fputc('\n', to);
    json_array_foreach(rows, i, row)
    {
        for (size_t c = 0; c < t.count; c++) {
            v = json_object_get(row, t.names[c]);
            cell(text, sizeof(text), v);
            (void)fprintf(to, json_is_number(v) ? "  %*s" : "  %-*s", (int)t.widths[c],
                          v != NULL ? text : "");
        }
        (void)fputc('\n', to);
    }
}

static bool is_table(const json_t *v)
{
    return json_is_array(v) && json_array_size(v) > 0 && json_is_object(json_array_get(v, 0));
}

/* NOLINTNEXTLINE(misc-no-recursion): at most DEPTH_MAX levels */
static void put_object(FILE *to, json_t *doc, const char *prefix, int depth)
{
    char text[CELL_MAX];
    char path[256];
    const char *key;
    json_t *v;

    json_object_foreach(doc, key, v)
    {
        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (is_table(v)) {
            (void)fprintf(to, "\n%s\n", path);
            put_table(to, v);
        } else if (json_is_object(v) && depth < DEPTH_MAX) {
            put_object(to, v, path, depth + 1);
        } else if (json_is_array(v) && json_array_size(v) == 0) {
            (void)fprintf(to, "%s: none\n", path);
        } else {
            cell(text, sizeof(text), v);
            (void)fprintf(to, "%s: %s\n", path, text);
        }
    }
}

static int show(const struct ctl_opts *o, const struct bytes *answer)
{
    json_error_t je;
    json_t *doc = json_loadb(answer->p != NULL ? answer->p : "", answer->n, 0, &je);

    if (!json_is_object(doc)) {
        json_decref(doc);
        (void)fprintf(
            stderr,
            "cofferdam: the gateway's status is not a JSON object; are the versions the same?\n");
        return 1;
    }
    if (o->is_json) {
        (void)json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        (void)fputc('\n', stdout);
    } else {
        put_object(stdout, doc, "", 0);
    }
    json_decref(doc);
    return fflush(stdout) == 0 ? 0 : 1;
}

int ctl_cmd_status(const struct ctl_opts *o)
{
    struct bytes answer = {0};
    struct cfg *c = NULL;
    struct err e = {0};
    char url[512];
    int status = 0;
    int rc = 1;

    if (ctl_config(&c, o) != 0) {
        return 1;
    }
    bytes_init(&answer, 0);
    if (ctl_url(url, sizeof(url) - 16, c, CTL_ADMIN_ADDR, c->admin_listen, &e) != 0) {
        (void)ctl_complain(&e);
        goto out;
    }
    (void)snprintf(url + strlen(url), 16, "/status");
    struct ctl_http_req req = {.method = "GET", .url = url, .total_ms = 10000};

    if (ctl_http(&req, &status, &answer, &e) != 0) {
        (void)fprintf(stderr, "cofferdam: %s: %s; is the gateway running?\n", url, e.text);
    } else if (status != 200) {
        (void)fprintf(stderr, "cofferdam: %s: answered %d\n", url, status);
    } else {
        rc = show(o, &answer);
    }
out:
    bytes_fini(&answer);
    cfg_unref(c);
    return rc;
}
