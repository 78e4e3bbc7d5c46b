#include "fe_sse.h"

#include "http1_write.h"

void fe_sse_init(struct fe_sse *s, enum msg_stream kind)
{
    memset(s, 0, sizeof(*s));
    s->kind = kind;
    s->is_at_boundary = true;
    bytes_init(&s->first, FE_SSE_FIRST_MAX);
}

void fe_sse_fini(struct fe_sse *s)
{
    bytes_fini(&s->first);
    buf_unref(s->last);
    s->last = NULL;
}

/* Offset behind the first blank line, or 0. `s` starts at a line start. */
static size_t first_event_end(struct str_view s)
{
    size_t line = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\n') {
            continue;
        }
        size_t n = i - line;

        if (n == 0 || (n == 1 && s.p[line] == '\r')) {
            return i + 1;
        }
        line = i + 1;
    }
    return 0;
}

static void keep_first(struct fe_sse *s, struct str_view data)
{
    size_t end = 0;
    size_t room = 0;

    if (s->has_first || s->kind != MSG_STREAM_RESPONSES) {
        return;
    }
    room = FE_SSE_FIRST_MAX - s->first.n;
    if (bytes_put_sv(&s->first, data.n > room ? sv_from(data.p, room) : data) != 0) {
        s->has_first = true; /* out of memory: a failure then uses a minimal response object */
        bytes_fini(&s->first);
        return;
    }
    end = first_event_end(sv_from(s->first.p, s->first.n));
    if (end > 0) {
        s->first.n = end;
        s->has_first = true;
    } else if (s->first.n == FE_SSE_FIRST_MAX) { /* too large to keep */
        s->has_first = true;
        bytes_fini(&s->first);
    }
}

static void keep_tail(struct fe_sse *s, struct str_view data)
{
    char both[8];
    unsigned n = 0;

    if (data.n >= sizeof(s->tail)) {
        memcpy(s->tail, data.p + data.n - sizeof(s->tail), sizeof(s->tail));
        s->tail_n = sizeof(s->tail);
    } else {
        memcpy(both, s->tail, s->tail_n);
        memcpy(both + s->tail_n, data.p, data.n);
        n = s->tail_n + (unsigned)data.n;
        s->tail_n = n > sizeof(s->tail) ? sizeof(s->tail) : n;
        memcpy(s->tail, both + n - s->tail_n, s->tail_n);
    }
    n = s->tail_n;
    s->is_at_boundary = (n >= 2 && memcmp(s->tail + n - 2, "\n\n", 2) == 0) ||
                        (n >= 4 && memcmp(s->tail, "\r\n\r\n", 4) == 0);
}

void fe_sse_pass(struct fe_sse *s, struct buf *data, uint32_t sequence)
{
    struct str_view v = buf_view(data);

    if (s->kind == MSG_STREAM_NONE || v.n == 0) {
        return;
    }
    s->has_bytes = true;
    keep_first(s, v);
    keep_tail(s, v);
    if (s->kind != MSG_STREAM_RESPONSES) {
        return;
    }
    s->sequence = sequence;
    if (sequence != 0 || memmem(v.p, v.n, "sequence_number", 15) != NULL) {
        struct buf *old = s->last;

        s->last = sequence != 0 ? NULL : buf_ref(data);
        buf_unref(old);
    }
}

bool fe_sse_is_at_boundary(const struct fe_sse *s)
{
    return s->kind != MSG_STREAM_NONE && s->is_at_boundary;
}

uint32_t fe_sse_next_sequence(struct str_view chunk)
{
    static const char key[] = "\"sequence_number\":";
    const size_t key_n = sizeof(key) - 1;

    for (size_t at = chunk.n; at >= key_n; at--) {
        const char *p = chunk.p + at - key_n;
        uint64_t n = 0;
        size_t digits = 0;
        size_t i = at;

        if (*p != '"' || memcmp(p, key, key_n) != 0) {
            continue;
        }
        while (i < chunk.n && chunk.p[i] == ' ') {
            i++;
        }
        for (; i < chunk.n && chunk.p[i] >= '0' && chunk.p[i] <= '9' && digits < 10;
             i++, digits++) {
            n = n * 10 + (uint64_t)(chunk.p[i] - '0');
        }
        if (digits > 0 && n < UINT32_MAX) {
            return (uint32_t)n + 1;
        }
    }
    return 0;
}

static void put_error_fields(struct bytes *out, const struct err *e)
{
    const struct err_info *info = err_info(e->code);

    bytes_put_str(out, "\"code\":");
    bytes_put_json_str(out, sv_of(info->code != NULL ? info->code : info->type));
    bytes_put_str(out, ",\"message\":");
    bytes_put_json_str(out, sv_of(e->text[0] != '\0' ? e->text : info->text));
    bytes_put_str(out, ",\"param\":");
    if (e->param[0] != '\0') {
        bytes_put_json_str(out, sv_of(e->param));
    } else {
        bytes_put_str(out, "null");
    }
}

static int responses_failure(struct fe_sse *s, const struct err *e, struct bytes *out)
{
    uint32_t seq = s->sequence != 0 ? s->sequence : fe_sse_next_sequence(buf_view(s->last));
    int rc = 0;

    bytes_printf(
        out,
        "event: error\ndata: {\"type\":\"error\",\"sequence_number\":%u,\"error\":{\"type\":", seq);
    bytes_put_json_str(out, sv_of(err_info(e->code)->type));
    bytes_put_char(out, ',');
    put_error_fields(out, e);
    bytes_put_str(out, "},");
    put_error_fields(out, e);
    bytes_printf(out,
                 "}\n\nevent: response.failed\ndata: "
                 "{\"type\":\"response.failed\",\"sequence_number\":%u,\"response\":",
                 seq + 1U);
    rc = fe_sse_failed_response(out, sv_from(s->first.p, s->first.n), e);
    bytes_put_str(out, "}\n\n");
    return rc != 0 ? rc : out->rc;
}

int fe_sse_failure(struct fe_sse *s, const struct err *e, struct bytes *out)
{
    if (s->kind == MSG_STREAM_NONE) {
        return ERR_INVALID;
    }
    if (!s->is_at_boundary) { /* end the event that was cut, visibly */
        bytes_put_str(out, "\n\n");
    }
    if (s->kind == MSG_STREAM_RESPONSES) {
        return responses_failure(s, e, out);
    }
    bytes_put_str(out, "data: ");
    http1_error_body(out, e);
    return bytes_put_str(out, "\n\n");
}
