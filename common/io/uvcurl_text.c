#include "base/err.h"
#include "io/uvcurl_priv.h"

int uvcurl_status_line(struct str_view line)
{
    int status = 0;
    size_t at = sv_find(line, ' ');

    if (!sv_starts(line, SV_LIT("HTTP/")) || line.n - at < 4) {
        return 0;
    }
    for (size_t i = at + 1; i < at + 4; i++) {
        if (line.p[i] < '0' || line.p[i] > '9') {
            return 0;
        }
        status = status * 10 + (line.p[i] - '0');
    }
    return status;
}

static struct str_view line_chomp(struct str_view line)
{
    while (line.n > 0 && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r')) {
        line.n--;
    }
    return line;
}

static bool char_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

int uvcurl_head_put(struct bytes *head, struct str_view line)
{
    line = line_chomp(line);
    if (line.n == 0) {
        return head->rc;
    }
    if (char_is_blank(line.p[0])) {
        if (head->n < 2) {
            return head->rc; /* continues nothing */
        }
        head->n -= 2; /* the CRLF of the line before */
        (void)bytes_put_char(head, ' ');
        line = sv_trim(line);
    } else if (sv_find(line, ':') == line.n || line.p[0] == ':') {
        return head->rc;
    }
    (void)bytes_put_sv(head, line);
    (void)bytes_put(head, "\r\n", 2);
    return head->rc;
}

bool uvcurl_line_is_valid(struct str_view line)
{
    size_t colon = sv_find(line, ':');

    if (colon == 0 || colon == line.n) {
        return false;
    }
    for (size_t i = 0; i < line.n; i++) {
        unsigned char c = (unsigned char)line.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f || (i < colon && c <= ' ')) {
            return false;
        }
    }
    return true;
}

bool uvcurl_line_is_ours(struct str_view line)
{
    static const char *const ours[] = {"content-length", "transfer-encoding", "connection",
                                       "expect"};
    struct str_view name = {line.p, sv_find(line, ':')};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (sv_eq_nocase(name, sv_of(ours[i]))) {
            return true;
        }
    }
    return false;
}

bool uvcurl_header(struct str_view headers, const char *name, struct str_view *ret)
{
    struct str_view want = sv_of(name);

    while (headers.n > 0) {
        struct str_view line = {headers.p, sv_find(headers, '\n')};
        size_t step = line.n < headers.n ? line.n + 1 : line.n;
        size_t colon = sv_find(line, ':');

        if (colon < line.n && sv_eq_nocase((struct str_view){line.p, colon}, want)) {
            *ret = sv_trim(line_chomp((struct str_view){line.p + colon + 1, line.n - colon - 1}));
            return true;
        }
        headers.p += step;
        headers.n -= step;
    }
    return false;
}
