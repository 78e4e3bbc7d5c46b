#include "wk_sse.h"

#include "base/err.h"

void wk_sse_init(struct wk_sse *s, size_t max)
{
    memset(s, 0, sizeof(*s));
    bytes_init(&s->in, max);
    bytes_init(&s->data, max);
    bytes_init(&s->name, 256);
}

void wk_sse_fini(struct wk_sse *s)
{
    bytes_fini(&s->in);
    bytes_fini(&s->data);
    bytes_fini(&s->name);
}

void wk_sse_reset(struct wk_sse *s)
{
    bytes_reset(&s->in);
    bytes_reset(&s->data);
    bytes_reset(&s->name);
    s->at = 0;
    s->seen = 0;
    s->is_lf_skipped = false;
    s->is_begun = false;
    s->has_data = false;
    s->is_ended = false;
}

int wk_sse_push(struct wk_sse *s, struct str_view bytes)
{
    if (s->at > 0) {
        bytes_drop(&s->in, s->at);
        s->seen -= s->at;
        s->at = 0;
    }
    return bytes_put_sv(&s->in, bytes);
}

int wk_sse_end(struct wk_sse *s)
{
    int rc = wk_sse_push(s, (struct str_view){NULL, 0}); /* drops what was taken: `in` is final */

    s->is_ended = true;
    s->own_end = s->in.n;
    return rc != 0 ? rc : wk_sse_push(s, SV_LIT("\n\n"));
}

/* The next complete line without its end; false when there is none yet. */
static bool take_line(struct wk_sse *s, struct str_view *ret)
{
    if (s->is_lf_skipped && s->at < s->in.n) {
        s->is_lf_skipped = false;
        if (s->in.p[s->at] == '\n') {
            s->at++;
            s->seen = s->seen > s->at ? s->seen : s->at;
        }
    }
    while (s->seen < s->in.n && s->in.p[s->seen] != '\n' && s->in.p[s->seen] != '\r') {
        s->seen++;
    }
    if (s->seen == s->in.n) {
        return false;
    }
    *ret = sv_from(s->in.p + s->at, s->seen - s->at);
    s->is_lf_skipped = s->in.p[s->seen] == '\r';
    s->seen++;
    s->at = s->seen;
    if (!s->is_begun) {
        s->is_begun = true;
        if (sv_starts(*ret, SV_LIT("\xEF\xBB\xBF"))) {
            ret->p += 3;
            ret->n -= 3;
        }
    }
    return true;
}

static void take_field(struct wk_sse *s, struct str_view line)
{
    size_t colon = sv_find(line, ':');
    struct str_view field = {line.p, colon};
    struct str_view value = {NULL, 0};

    if (colon < line.n) {
        value = sv_from(line.p + colon + 1, line.n - colon - 1);
        if (value.n > 0 && value.p[0] == ' ') {
            value.p++;
            value.n--;
        }
    }
    if (sv_eq(field, SV_LIT("data"))) {
        if (s->has_data) {
            bytes_put_char(&s->data, '\n');
        }
        s->has_data = true;
        bytes_put_sv(&s->data, value);
    } else if (sv_eq(field, SV_LIT("event"))) {
        bytes_reset(&s->name);
        if (value.n < 256) {
            bytes_put_sv(&s->name, value);
        }
    }
}

int wk_sse_take(struct wk_sse *s, struct wk_sse_event *ret)
{
    struct str_view line;

    if (s->in.rc != 0) {
        return s->in.rc;
    }
    while (take_line(s, &line)) {
        if (line.n > 0) {
            take_field(s, line);
            continue;
        }
        if (s->data.rc != 0 || s->name.rc != 0) {
            return s->data.rc != 0 ? s->data.rc : s->name.rc;
        }
        if (s->has_data) {
            ret->name = sv_from(s->name.p, s->name.n);
            ret->data = sv_from(s->data.p, s->data.n);
            ret->is_unfinished = s->is_ended && s->at > s->own_end;
            /* the storage stays as it is until the next put */
            s->has_data = false;
            s->name.n = 0;
            s->data.n = 0;
            return 1;
        }
        s->name.n = 0;
    }
    return 0;
}
