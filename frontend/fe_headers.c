#include "fe_headers.h"

#include "fe_check.h"

static void put_lower(struct bytes *out, struct str_view s)
{
    static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char small[] = "abcdefghijklmnopqrstuvwxyz";

    for (size_t i = 0; i < s.n; i++) {
        size_t at = sv_find(sv_from(upper, sizeof(upper) - 1), s.p[i]);
        char c = s.p[i];

        if (at < sizeof(upper) - 1) {
            c = small[at];
        }
        bytes_put_char(out, c);
    }
}

static bool starts_nocase(struct str_view s, struct str_view stem)
{
    return s.n >= stem.n && sv_eq_nocase(sv_from(s.p, stem.n), stem);
}

static bool is_one_of(struct str_view name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (sv_eq_nocase(name, sv_of(*names))) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(struct str_view name, struct str_view session_header)
{
    static const char *const exact[] = {
        "accept",      "content-type", "user-agent",        "idempotency-key",
        "traceparent", "tracestate",   "anthropic-version", "anthropic-beta",
        NULL};
    static const char *const stems[] = {"openai-", "x-stainless-", NULL};
    static const char *const never[] = {"authorization",
                                        "x-api-key",
                                        "x-litellm-api-key",
                                        "cookie",
                                        "api-key",
                                        "proxy-authorization",
                                        "host",
                                        "connection",
                                        "te",
                                        "upgrade",
                                        "transfer-encoding",
                                        "content-length",
                                        "keep-alive",
                                        "expect",
                                        "trailer",
                                        NULL};

    for (size_t i = 0; stems[i] != NULL; i++) {
        if (starts_nocase(name, sv_of(stems[i]))) {
            return true;
        }
    }
    if (session_header.n > 0 && sv_eq_nocase(name, session_header)) {
        return !is_one_of(name, never);
    }
    return is_one_of(name, exact);
}

int fe_headers_to_worker(struct bytes *out, const struct fe_http_head *head,
                         struct str_view session_header)
{
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct fe_http_field *f = &head->fields[i];

        if (!is_wanted(f->name, session_header)) {
            continue;
        }
        put_lower(out, f->name);
        bytes_put(out, ": ", 2);
        bytes_put_sv(out, f->value);
        bytes_put(out, "\r\n", 2);
    }
    return out->rc;
}

static bool is_ours(struct str_view name)
{
    static const char *const names[] = {"connection",
                                        "content-length",
                                        "transfer-encoding",
                                        "keep-alive",
                                        "proxy-connection",
                                        "te",
                                        "trailer",
                                        "upgrade",
                                        "date",
                                        "x-request-id",
                                        "proxy-authenticate",
                                        "server",
                                        "set-cookie",
                                        "www-authenticate",
                                        "openai-processing-ms",
                                        "x-cofferdam-overhead-ms",
                                        "alt-svc",
                                        "strict-transport-security",
                                        NULL};

    return is_one_of(name, names);
}

unsigned fe_headers_from_worker(struct bytes *out, struct str_view lines)
{
    unsigned bad = 0;

    while (lines.n > 0) {
        size_t end = sv_find(lines, '\n');
        struct str_view line = sv_from(lines.p, end);
        size_t colon = 0;
        size_t used = end < lines.n ? end + 1 : end;

        lines = sv_from(lines.p + used, lines.n - used);
        if (line.n > 0 && line.p[line.n - 1] == '\r') {
            line.n--;
        }
        colon = sv_find(line, ':');
        if (colon == line.n || !fe_check_token(sv_from(line.p, colon)) || !fe_check_value(line)) {
            bad++;
        } else if (!is_ours(sv_from(line.p, colon))) {
            bytes_put_sv(out, line);
            bytes_put(out, "\r\n", 2);
        }
    }
    return bad;
}
