/* wk_headers.c - see wk_headers.h. */
#include "wk_headers.h"

/* RFC 9110, 5.6.2: what a field name is made of; the usual ones first. */
static bool is_token_char(unsigned char c)
{
    return (unsigned)(c | 0x20) - 'a' < 26 || c == '-' || (unsigned)c - '0' < 10 ||
           (c != '\0' && strchr("!#$%&'*+.^_`|~", c) != NULL);
}

static bool is_token(struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_token_char((unsigned char)s.p[i])) {
            return false;
        }
    }
    return s.n > 0;
}

static bool is_clean(struct str_view s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return false;
        }
    }
    return true;
}

/* The next line that has a colon, unchecked. */
static bool next_line(struct str_view block, size_t *at, struct str_view *ret_name,
                      struct str_view *ret_value)
{
    while (*at < block.n) {
        struct str_view rest = sv_from(block.p + *at, block.n - *at);
        struct str_view line = sv_from(rest.p, sv_find(rest, '\n'));
        size_t colon;

        *at += line.n < rest.n ? line.n + 1 : line.n;
        if (line.n > 0 && line.p[line.n - 1] == '\r') {
            line.n--;
        }
        colon = sv_find(line, ':');
        if (colon < line.n) {
            *ret_name = sv_from(line.p, colon);
            *ret_value = sv_trim(sv_from(line.p + colon + 1, line.n - colon - 1));
            return true;
        }
    }
    return false;
}

bool wk_headers_next(struct str_view block, size_t *at, struct str_view *ret_name,
                     struct str_view *ret_value)
{
    struct str_view k;
    struct str_view v;

    while (next_line(block, at, &k, &v)) {
        if (is_token(k) && is_clean(v)) {
            *ret_name = k;
            *ret_value = v;
            return true;
        }
    }
    return false;
}

bool wk_headers_find(struct str_view block, const char *name, struct str_view *ret)
{
    struct str_view wanted = sv_of(name);
    struct str_view k;
    struct str_view v;
    size_t at = 0;

    while (next_line(block, &at, &k, &v)) {
        if (k.n == wanted.n && sv_eq_nocase(k, wanted) && is_clean(v)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* `name` is not empty. */
static bool is_in(struct str_view name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (((name.p[0] ^ **list) & 0x5F) == 0 && sv_eq_nocase(name, sv_of(*list))) {
            return true;
        }
    }
    return false;
}

static bool has_prefix(struct str_view name, struct str_view prefix)
{
    return name.n >= prefix.n && sv_eq_nocase(sv_from(name.p, prefix.n), prefix);
}

bool wk_headers_is_forwarded(struct str_view name)
{
    static const char *const list[] = {
        "openai-beta", "idempotency-key",     "traceparent",   "tracestate",
        "range",       "x-client-request-id", "if-none-match", NULL};

    return is_in(name, list);
}

/* Is `name` one of the options of a Connection header in the block? */
static bool is_connection_option(struct str_view connection, struct str_view name)
{
    while (connection.n > 0) {
        size_t comma = sv_find(connection, ',');
        if (sv_eq_nocase(sv_trim(sv_from(connection.p, comma)), name)) {
            return true;
        }
        if (comma == connection.n) {
            return false;
        }
        connection = sv_from(connection.p + comma + 1, connection.n - comma - 1);
    }
    return false;
}

static bool is_hidden(struct str_view name)
{
    static const char *const list[] = {"connection",
                                       "keep-alive",
                                       "proxy-connection",
                                       "proxy-authenticate",
                                       "proxy-authorization",
                                       "te",
                                       "trailer",
                                       "transfer-encoding",
                                       "upgrade",
                                       "content-length",
                                       "date",
                                       "server",
                                       "via",
                                       "alt-svc",
                                       "set-cookie",
                                       "set-cookie2",
                                       "strict-transport-security",
                                       "report-to",
                                       "reporting-endpoints",
                                       "nel",
                                       "vary",
                                       "openai-organization",
                                       "openai-project",
                                       "openai-processing-ms",
                                       "x-provider-request-id",
                                       NULL};

    return is_in(name, list) || has_prefix(name, SV_LIT("cf-")) ||
           has_prefix(name, SV_LIT("x-cofferdam-")) || has_prefix(name, SV_LIT("access-control-"));
}

static void put_lower(struct bytes *out, struct str_view s)
{
    size_t at = out->n;

    if (bytes_put_sv(out, s) != 0) {
        return;
    }
    for (size_t i = at; i < out->n; i++) {
        if (out->p[i] >= 'A' && out->p[i] <= 'Z') {
            out->p[i] |= 0x20;
        }
    }
}

int wk_headers_filter(struct str_view block, struct bytes *out)
{
    struct str_view connection = {NULL, 0};
    struct str_view k;
    struct str_view v;
    size_t at = 0;

    (void)wk_headers_find(block, "connection", &connection);
    while (wk_headers_next(block, &at, &k, &v)) {
        if (is_hidden(k) || is_connection_option(connection, k)) {
            continue;
        }
        if (sv_eq_nocase(k, SV_LIT("x-request-id"))) {
            (void)bytes_put_str(out, "x-provider-request-id");
        } else {
            put_lower(out, k);
        }
        (void)bytes_put(out, ": ", 2);
        (void)bytes_put_sv(out, v);
        (void)bytes_put(out, "\r\n", 2);
    }
    return out->rc;
}

bool wk_headers_length(struct str_view block, uint64_t *ret)
{
    struct str_view v;

    return wk_headers_find(block, "content-length", &v) && sv_to_u64(v, UINT64_MAX - 1, ret);
}

bool wk_headers_is_event_stream(struct str_view block)
{
    struct str_view v;

    return wk_headers_find(block, "content-type", &v) && has_prefix(v, SV_LIT("text/event-stream"));
}
