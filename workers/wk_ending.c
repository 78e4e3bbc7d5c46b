#include "wk_ending.h"

/* The value of a field of an event; false when the line is another one. */
static bool field(struct str_view line, struct str_view name, struct str_view *ret)
{
    if (!sv_starts(line, name)) {
        return false;
    }
    *ret = sv_from(line.p + name.n, line.n - name.n);
    if (ret->n > 0 && ret->p[0] == ' ') {
        ret->p++;
        ret->n--;
    }
    return true;
}

static bool is_last_of_responses(struct str_view type)
{
    return sv_starts(type, SV_LIT("response.completed")) ||
           sv_starts(type, SV_LIT("response.failed")) ||
           sv_starts(type, SV_LIT("response.incomplete"));
}

static bool line_is_last(struct str_view line, enum msg_stream stream)
{
    struct str_view v;

    if (field(line, SV_LIT("data:"), &v)) {
        if (sv_starts(v, SV_LIT("[DONE]"))) {
            return true;
        }
        return stream == MSG_STREAM_RESPONSES && sv_starts(v, SV_LIT("{\"type\":\"")) &&
               is_last_of_responses(sv_from(v.p + 9, v.n - 9));
    }
    return stream == MSG_STREAM_RESPONSES && field(line, SV_LIT("event:"), &v) &&
           (is_last_of_responses(v) || sv_eq(v, SV_LIT("error")));
}

static void line_end(struct wk_ending *e, enum msg_stream stream)
{
    struct str_view line = {e->line, e->line_n};

    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    if (line.n == 0) {
        e->is_complete |= e->is_last;
    } else if (line_is_last(line, stream)) {
        e->is_last = true;
    }
    e->line_n = 0;
}

bool wk_ending_feed(struct wk_ending *e, enum msg_stream stream, struct str_view data)
{
    while (data.n > 0 && !e->is_complete) {
        size_t n = sv_find(data, '\n');
        size_t room = sizeof(e->line) - e->line_n;

        if (room > 0) {
            memcpy(e->line + e->line_n, data.p, n < room ? n : room);
            e->line_n += n < room ? n : room;
        }
        if (n == data.n) {
            break;
        }
        line_end(e, stream);
        data.p += n + 1;
        data.n -= n + 1;
    }
    return e->is_complete;
}
