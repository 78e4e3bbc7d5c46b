#include "fe_http.h"

#include <llhttp.h>

#include "base/mem.h"
#include "fe_chunk.h"

enum phase { PHASE_HEAD, PHASE_LENGTH, PHASE_CHUNKED, PHASE_END, PHASE_ERROR };

struct field_at {
    uint32_t name;
    uint32_t name_n;
    uint32_t value;
    uint32_t value_n;
};

struct fe_http {
    llhttp_t parser;
    enum phase phase;
    struct bytes raw;  /* the head as received */
    size_t line_start; /* offset of the line under way */
    bool has_cr;       /* the last byte was CR */
    bool has_line;     /* the request line is complete */
    bool has_blank;    /* the one empty line before it was skipped */
    uint32_t target_at;
    uint32_t target_n;
    uint64_t body_left; /* PHASE_LENGTH */
    uint64_t body_seen;
    uint64_t body_max;
    struct fe_chunk chunk;
    /* what llhttp said about the bytes fed to it */
    unsigned ll_fields;
    size_t ll_target_n;
    size_t ll_body_n;
    bool has_ll_head;
    bool has_ll_end;
    struct field_at at[FE_HTTP_FIELDS_MAX];
    struct fe_http_head head;
    struct err e;
};

/* --- llhttp
 * ---------------------------------------------------------------------------------------------------
 */

static int on_ll_url(llhttp_t *p, const char *at, size_t n)
{
    struct fe_http *h = p->data;

    (void)at;
    h->ll_target_n += n;
    return 0;
}

static int on_ll_value_complete(llhttp_t *p)
{
    struct fe_http *h = p->data;

    h->ll_fields++;
    return 0;
}

static int on_ll_head(llhttp_t *p)
{
    struct fe_http *h = p->data;

    h->has_ll_head = true;
    p->upgrade = 0; /* Upgrade is ignored: the connection stays HTTP/1.1 */
    return 0;
}

static int on_ll_body(llhttp_t *p, const char *at, size_t n)
{
    struct fe_http *h = p->data;

    (void)at;
    h->ll_body_n += n;
    return 0;
}

static int on_ll_end(llhttp_t *p)
{
    struct fe_http *h = p->data;

    h->has_ll_end = true;
    return 0;
}

static const llhttp_settings_t ll_settings = {
    .on_url = on_ll_url,
    .on_header_value_complete = on_ll_value_complete,
    .on_headers_complete = on_ll_head,
    .on_body = on_ll_body,
    .on_message_complete = on_ll_end,
};

static void request_reset(struct fe_http *h)
{
    llhttp_init(&h->parser, HTTP_REQUEST, &ll_settings);
    h->parser.data = h;
    h->phase = PHASE_HEAD;
    if (h->raw.cap > FE_HTTP_LINE_MAX) {
        bytes_fini(&h->raw);
        bytes_init(&h->raw, FE_HTTP_HEAD_MAX + 2);
    } else {
        bytes_reset(&h->raw);
    }
    h->line_start = 0;
    h->has_cr = h->has_line = h->has_blank = false;
    h->body_left = h->body_seen = 0;
    h->body_max = UINT64_MAX;
    h->ll_fields = 0;
    h->ll_target_n = h->ll_body_n = 0;
    h->has_ll_head = h->has_ll_end = false;
    h->head.field_count = 0;
    h->head.content_length = 0;
    h->head.is_chunked = h->head.has_expect = false;
}

static enum fe_http_event fail(struct fe_http *h, int code, const char *why)
{
    err_set(&h->e, code, "%s", why);
    h->phase = PHASE_ERROR;
    return FE_HTTP_ERROR;
}

/* Feeds bytes that passed our own scan; a refusal is a disagreement, which is an error of the
 * request. */
static bool ll_feed(struct fe_http *h, struct str_view s)
{
    return s.n == 0 || llhttp_execute(&h->parser, s.p, s.n) == HPE_OK;
}

/* --- head
 * -----------------------------------------------------------------------------------------------------
 */

static const struct method_row {
    const char *name;
    enum msg_method method;
} method_rows[] = {
    {"GET", MSG_METHOD_GET},         {"POST", MSG_METHOD_POST},       {"HEAD", MSG_METHOD_HEAD},
    {"DELETE", MSG_METHOD_DELETE},   {"PUT", MSG_METHOD_PUT},         {"PATCH", MSG_METHOD_PATCH},
    {"OPTIONS", MSG_METHOD_OPTIONS}, {"TRACE", MSG_METHOD_OTHER},     {"COPY", MSG_METHOD_OTHER},
    {"LOCK", MSG_METHOD_OTHER},      {"MKCOL", MSG_METHOD_OTHER},     {"MOVE", MSG_METHOD_OTHER},
    {"PROPFIND", MSG_METHOD_OTHER},  {"PROPPATCH", MSG_METHOD_OTHER}, {"SEARCH", MSG_METHOD_OTHER},
    {"UNLOCK", MSG_METHOD_OTHER},    {"LINK", MSG_METHOD_OTHER},      {"UNLINK", MSG_METHOD_OTHER},
    {"REPORT", MSG_METHOD_OTHER},    {"ACL", MSG_METHOD_OTHER},
};

static bool find_method(struct str_view s, enum msg_method *ret)
{
    for (size_t i = 0; i < sizeof(method_rows) / sizeof(method_rows[0]); i++) {
        if (sv_eq(s, sv_of(method_rows[i].name))) {
            *ret = method_rows[i].method;
            return true;
        }
    }
    return false;
}

/* 0 or the error of a version that is not HTTP/1.0 or HTTP/1.1. */
static int check_version(struct fe_http *h, struct str_view s)
{
    if (s.p == NULL || s.n != 8 || !sv_starts(s, SV_LIT("HTTP/")) || s.p[5] < '0' || s.p[5] > '9' ||
        s.p[6] != '.' || s.p[7] < '0' || s.p[7] > '9') {
        return ERR_BAD_REQUEST;
    }
    if (s.p[5] != '1' || s.p[7] > '1') {
        return ERR_HTTP_VERSION;
    }
    h->head.minor = (unsigned)(s.p[7] - '0');
    return 0;
}

static int on_request_line(struct fe_http *h, struct str_view line)
{
    size_t sp = sv_find(line, ' ');
    struct str_view method = sv_from(line.p, sp);
    struct str_view rest =
        sp < line.n ? sv_from(line.p + sp + 1, line.n - sp - 1) : (struct str_view){NULL, 0};
    size_t sp2 = sv_find(rest, ' ');
    int rc = 0;

    if (sp == line.n || sp2 == rest.n || sp2 == 0 || !fe_check_token(method)) {
        fail(h, ERR_BAD_REQUEST, "the request line is not 'METHOD target HTTP/1.1'");
        return ERR_BAD_REQUEST;
    }
    rc = check_version(h, sv_from(rest.p + sp2 + 1, rest.n - sp2 - 1));
    if (rc != 0) {
        fail(h, rc,
             rc == ERR_HTTP_VERSION ? "only HTTP/1.0 and HTTP/1.1 are served"
                                    : "malformed HTTP version");
        return rc;
    }
    if (!find_method(method, &h->head.method)) {
        fail(h, ERR_NOT_IMPLEMENTED, "unknown request method");
        return ERR_NOT_IMPLEMENTED;
    }
    h->target_at = (uint32_t)(rest.p - h->raw.p);
    h->target_n = (uint32_t)sp2;
    if (!fe_check_target(sv_from(rest.p, sp2), h->head.method == MSG_METHOD_OPTIONS,
                         &h->head.target)) {
        fail(h, ERR_BAD_REQUEST, "malformed request target");
        return ERR_BAD_REQUEST;
    }
    h->has_line = true;
    return 0;
}

static int on_field_line(struct fe_http *h, struct str_view line)
{
    size_t colon = sv_find(line, ':');
    struct str_view value;
    struct field_at *at = NULL;

    if (colon == line.n || !fe_check_token(sv_from(line.p, colon))) {
        fail(h, ERR_BAD_REQUEST, "malformed header field name, or a folded header line");
        return ERR_BAD_REQUEST;
    }
    if (h->head.field_count == FE_HTTP_FIELDS_MAX) {
        fail(h, ERR_HEAD_TOO_LARGE, "more than 100 header fields");
        return ERR_HEAD_TOO_LARGE;
    }
    value = sv_trim(sv_from(line.p + colon + 1, line.n - colon - 1));
    at = &h->at[h->head.field_count++];
    at->name = (uint32_t)(line.p - h->raw.p);
    at->name_n = (uint32_t)colon;
    at->value = value.n > 0 ? (uint32_t)(value.p - h->raw.p) : at->name + at->name_n + 1;
    at->value_n = (uint32_t)value.n;
    /* llhttp takes only spaces after a number; blanks of either kind mean the same */
    for (size_t i = (size_t)at->value + at->value_n; i < h->raw.n - 2; i++) {
        if (h->raw.p[i] == '\t') {
            h->raw.p[i] = ' ';
        }
    }
    return 0;
}

static int check_transfer(struct fe_http *h, struct str_view value)
{
    if (h->head.minor == 0) {
        fail(h, ERR_BAD_REQUEST, "Transfer-Encoding in an HTTP/1.0 request");
        return ERR_BAD_REQUEST;
    }
    if (!sv_eq_nocase(value, SV_LIT("chunked"))) {
        bool is_other_coding = fe_check_token(value);
        int code = is_other_coding ? ERR_NOT_IMPLEMENTED : ERR_BAD_REQUEST;

        fail(h, code, "the only transfer coding taken is 'chunked', once");
        return code;
    }
    h->head.is_chunked = true;
    return 0;
}

/* What the message's end depends on. */
static int check_framing(struct fe_http *h)
{
    struct str_view value;
    unsigned lengths = fe_http_find(&h->head, "content-length", &value);
    uint64_t n = 0;

    if (lengths > 1 || (lengths == 1 && (value.n > 19 || !sv_to_u64(value, INT64_MAX, &n)))) {
        fail(h, ERR_BAD_REQUEST, "Content-Length is not one decimal number");
        return ERR_BAD_REQUEST;
    }
    h->head.content_length = n;
    switch (fe_http_find(&h->head, "transfer-encoding", &value)) {
    case 0:
        return 0;
    case 1:
        break;
    default:
        fail(h, ERR_BAD_REQUEST, "more than one Transfer-Encoding");
        return ERR_BAD_REQUEST;
    }
    if (lengths != 0) {
        fail(h, ERR_BAD_REQUEST, "both Content-Length and Transfer-Encoding");
        return ERR_BAD_REQUEST;
    }
    return check_transfer(h, value);
}

static int check_host(struct fe_http *h)
{
    struct str_view value = {NULL, 0};
    unsigned count = fe_http_find(&h->head, "host", &value);

    if (count > 1 || (count == 0 && h->head.minor != 0)) {
        fail(h, ERR_BAD_REQUEST, "exactly one Host header is required");
        return ERR_BAD_REQUEST;
    }
    if (count == 1 && !fe_check_host(value)) {
        fail(h, ERR_BAD_REQUEST, "malformed Host header");
        return ERR_BAD_REQUEST;
    }
    h->head.host = h->head.target.is_absolute ? h->head.target.host : value;
    return 0;
}

/* Looks for a member of a comma list, without regard to case. */
static bool list_has(struct str_view list, struct str_view member)
{
    while (list.n > 0) {
        size_t n = sv_find(list, ',');

        if (sv_eq_nocase(sv_trim(sv_from(list.p, n)), member)) {
            return true;
        }
        n = n < list.n ? n + 1 : n;
        list = sv_from(list.p + n, list.n - n);
    }
    return false;
}

static int check_connection(struct fe_http *h)
{
    bool is_close = false;
    bool is_keep = false;
    struct str_view value;

    for (unsigned i = 0; i < h->head.field_count; i++) {
        if (sv_eq_nocase(h->head.fields[i].name, SV_LIT("connection"))) {
            is_close |= list_has(h->head.fields[i].value, SV_LIT("close"));
            is_keep |= list_has(h->head.fields[i].value, SV_LIT("keep-alive"));
        }
    }
    h->head.is_keep_alive = !is_close && (h->head.minor >= 1 || is_keep);
    switch (fe_http_find(&h->head, "expect", &value)) {
    case 0:
        return 0;
    case 1:
        if (sv_eq_nocase(value, SV_LIT("100-continue"))) {
            h->head.has_expect = h->head.minor >= 1;
            return 0;
        }
        break;
    default:
        break;
    }
    fail(h, ERR_EXPECTATION, "the only expectation met is 100-continue");
    return ERR_EXPECTATION;
}

/* Offsets become views once the buffer no longer moves. */
static void set_views(struct fe_http *h)
{
    const char *p = h->raw.p;

    h->head.method_text = sv_from(p, h->target_at - 1);
    for (unsigned i = 0; i < h->head.field_count; i++) {
        h->head.fields[i].name = sv_from(p + h->at[i].name, h->at[i].name_n);
        h->head.fields[i].value = sv_from(p + h->at[i].value, h->at[i].value_n);
    }
}

static bool ll_agrees(const struct fe_http *h)
{
    bool is_ll_chunked = (h->parser.flags & F_CHUNKED) != 0;

    if (!h->has_ll_head || h->ll_fields != h->head.field_count || h->ll_target_n != h->target_n) {
        return false;
    }
    if (h->head.is_chunked) {
        return is_ll_chunked && !h->has_ll_end;
    }
    return h->has_ll_end == (h->head.content_length == 0);
}

static enum fe_http_event on_head_complete(struct fe_http *h)
{
    (void)fe_check_target(sv_from(h->raw.p + h->target_at, h->target_n),
                          h->head.method == MSG_METHOD_OPTIONS, &h->head.target);
    set_views(h);
    if (check_framing(h) != 0 || check_host(h) != 0 || check_connection(h) != 0) {
        return FE_HTTP_ERROR;
    }
    if (!ll_feed(h, sv_from(h->raw.p, h->raw.n)) || !ll_agrees(h)) {
        return fail(h, ERR_BAD_REQUEST, "malformed HTTP request");
    }
    if (h->head.is_chunked) {
        fe_chunk_init(&h->chunk);
        h->phase = PHASE_CHUNKED;
    } else {
        h->body_left = h->head.content_length;
        h->phase = h->body_left > 0 ? PHASE_LENGTH : PHASE_END;
    }
    return FE_HTTP_HEAD;
}

/* A complete line is in raw, its CRLF included. Returns MORE to go on. */
static enum fe_http_event on_line(struct fe_http *h)
{
    struct str_view line = sv_from(h->raw.p + h->line_start, h->raw.n - 2 - h->line_start);

    if (!h->has_line) {
        if (line.n == 0 && !h->has_blank) {
            h->has_blank = true;
            bytes_reset(&h->raw);
            return FE_HTTP_MORE;
        }
        if (on_request_line(h, line) != 0) {
            return FE_HTTP_ERROR;
        }
    } else if (line.n == 0) {
        return on_head_complete(h);
    } else if (on_field_line(h, line) != 0) {
        return FE_HTTP_ERROR;
    }
    h->line_start = h->raw.n;
    return FE_HTTP_MORE;
}

/* Finds the end of a line in s: bytes up to and with LF, or all of s. false: a byte that may not be
 * in a head. */
static bool scan_line(struct fe_http *h, struct str_view s, size_t *ret_n, bool *ret_is_line)
{
    *ret_is_line = false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (h->has_cr) {
            h->has_cr = false;
            if (c != '\n') {
                return false;
            }
            *ret_n = i + 1;
            *ret_is_line = true;
            return true;
        }
        if (c == '\r') {
            h->has_cr = true;
        } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    *ret_n = s.n;
    return true;
}

static enum fe_http_event next_head(struct fe_http *h, struct str_view *in)
{
    if (h->has_ll_end && in->n > 0) { /* of the request before */
        request_reset(h);
    }
    while (in->n > 0) {
        size_t n = 0;
        bool is_line = false;
        enum fe_http_event ev = FE_HTTP_MORE;

        if (!scan_line(h, *in, &n, &is_line)) {
            return fail(h, ERR_BAD_REQUEST,
                        "a control byte, bare CR or bare LF in the request head");
        }
        if (!h->has_line && h->raw.n + n > FE_HTTP_LINE_MAX) {
            return fail(h, ERR_URI_TOO_LONG, "the request line is longer than 8 KiB");
        }
        if (h->raw.n + n > FE_HTTP_HEAD_MAX) {
            return fail(h, ERR_HEAD_TOO_LARGE, "the request head is larger than 64 KiB");
        }
        if (bytes_put(&h->raw, in->p, n) != 0) {
            return fail(h, ERR_NOMEM, "out of memory");
        }
        in->p += n;
        in->n -= n;
        if (is_line && (ev = on_line(h)) != FE_HTTP_MORE) {
            return ev;
        }
    }
    return FE_HTTP_MORE;
}

/* --- body
 * -----------------------------------------------------------------------------------------------------
 */

static enum fe_http_event body_bytes(struct fe_http *h, struct str_view piece,
                                     struct str_view *ret_body)
{
    h->body_seen += piece.n;
    if (!ll_feed(h, piece) || h->ll_body_n != h->body_seen) {
        return fail(h, ERR_BAD_REQUEST, "malformed request body framing");
    }
    *ret_body = piece;
    return FE_HTTP_BODY;
}

static enum fe_http_event next_length(struct fe_http *h, struct str_view *in,
                                      struct str_view *ret_body)
{
    size_t n = h->body_left < in->n ? (size_t)h->body_left : in->n;
    struct str_view piece = sv_from(in->p, n);

    if (h->head.content_length > h->body_max) {
        return fail(h, ERR_BODY_TOO_LARGE, "the request body is too large");
    }
    if (n == 0) {
        return FE_HTTP_MORE;
    }
    in->p += n;
    in->n -= n;
    h->body_left -= n;
    if (h->body_left == 0) {
        h->phase = PHASE_END;
    }
    return body_bytes(h, piece, ret_body);
}

static enum fe_http_event next_chunked(struct fe_http *h, struct str_view *in,
                                       struct str_view *ret_body)
{
    const char *why = NULL;
    struct str_view piece = {NULL, 0};

    for (;;) {
        enum fe_chunk_piece kind = fe_chunk_next(&h->chunk, in, &piece, &why);

        if (h->body_seen > h->body_max || h->chunk.left > h->body_max - h->body_seen) {
            return fail(h, ERR_BODY_TOO_LARGE, "the request body is too large");
        }
        switch (kind) {
        case FE_CHUNK_MORE:
            return FE_HTTP_MORE;
        case FE_CHUNK_FRAMING:
            if (!ll_feed(h, piece)) {
                return fail(h, ERR_BAD_REQUEST, "malformed chunked framing");
            }
            break;
        case FE_CHUNK_SKIPPED:
            break;
        case FE_CHUNK_DATA:
            if (piece.n > h->body_max - h->body_seen) {
                return fail(h, ERR_BODY_TOO_LARGE, "the request body is too large");
            }
            return body_bytes(h, piece, ret_body);
        case FE_CHUNK_END:
            if (!ll_feed(h, SV_LIT("\r\n")) || !h->has_ll_end) {
                return fail(h, ERR_BAD_REQUEST, "malformed chunked framing");
            }
            h->phase = PHASE_END;
            return FE_HTTP_MORE;
        case FE_CHUNK_BAD:
            return fail(h, ERR_BAD_REQUEST, why);
        case FE_CHUNK_BIG:
            return fail(h, ERR_HEAD_TOO_LARGE, why);
        }
    }
}

enum fe_http_event fe_http_next(struct fe_http *h, struct str_view *in, struct str_view *ret_body)
{
    enum fe_http_event ev = FE_HTTP_MORE;

    switch (h->phase) {
    case PHASE_HEAD:
        return next_head(h, in);
    case PHASE_LENGTH:
        return next_length(h, in, ret_body);
    case PHASE_CHUNKED:
        ev = next_chunked(h, in, ret_body);
        if (ev != FE_HTTP_MORE || h->phase != PHASE_END) {
            return ev;
        }
        break;
    case PHASE_END:
        break;
    case PHASE_ERROR:
        return FE_HTTP_ERROR;
    }
    if (!h->has_ll_end) {
        return fail(h, ERR_BAD_REQUEST, "malformed request body framing");
    }
    h->phase = PHASE_HEAD; /* the rest of the reset waits for the next byte: the views of this head
                              live on */
    return FE_HTTP_END;
}

/* --- access
 * ---------------------------------------------------------------------------------------------------
 */

struct fe_http *fe_http_new(void)
{
    struct fe_http *h = mem_zalloc(sizeof(*h));

    if (h != NULL) {
        bytes_init(&h->raw, FE_HTTP_HEAD_MAX + 2);
        request_reset(h);
    }
    return h;
}

void fe_http_free(struct fe_http *h)
{
    if (h != NULL) {
        bytes_fini(&h->raw);
        mem_free(h);
    }
}

const struct fe_http_head *fe_http_head(const struct fe_http *h)
{
    return &h->head;
}

void fe_http_limit_body(struct fe_http *h, uint64_t max)
{
    h->body_max = max;
}

const struct err *fe_http_error(const struct fe_http *h)
{
    return &h->e;
}

bool fe_http_is_idle(const struct fe_http *h)
{
    return h->phase == PHASE_HEAD && (h->raw.n == 0 || h->has_ll_end);
}

unsigned fe_http_find(const struct fe_http_head *head, const char *name, struct str_view *ret)
{
    struct str_view want = sv_of(name);
    unsigned count = 0;

    for (unsigned i = 0; i < head->field_count; i++) {
        if (head->fields[i].name.n == want.n && sv_eq_nocase(head->fields[i].name, want)) {
            if (count++ == 0) {
                *ret = head->fields[i].value;
            }
        }
    }
    return count;
}
