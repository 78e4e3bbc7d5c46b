#include "fe_chunk.h"

#include "fe_check.h"

enum chunk_state { SIZE, EXT, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, END };

void fe_chunk_init(struct fe_chunk *c)
{
    c->state = SIZE;
    c->digits = 0;
    c->left = 0;
    c->ext_bytes = 0;
    c->trailer_bytes = 0;
    c->trailers = 0;
    c->line_n = 0;
    c->is_last = false;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes n bytes off the front. */
static struct str_view take(struct str_view *in, size_t n)
{
    struct str_view ret = sv_from(in->p, n);

    in->p += n;
    in->n -= n;
    return ret;
}

static enum fe_chunk_piece bad(const char **ret_why, const char *why)
{
    *ret_why = why;
    return FE_CHUNK_BAD;
}

static enum fe_chunk_piece on_size(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                   const char **ret_why)
{
    size_t n = 0;

    for (; n < in->n && hex_value(in->p[n]) >= 0; n++) {
        if (++c->digits > 16 || (c->left >> 59) != 0) {
            return bad(ret_why, "chunk size too large");
        }
        c->left = (c->left << 4) | (uint64_t)hex_value(in->p[n]);
    }
    if (n < in->n) {
        if (c->digits == 0) {
            return bad(ret_why, "chunk size is not a hexadecimal number");
        }
        if (in->p[n] == '\r') {
            n++;
            c->state = SIZE_LF;
        } else if (in->p[n] == ';') {
            c->state = EXT;
        } else {
            return bad(ret_why, "unexpected byte after a chunk size");
        }
    }
    *ret = take(in, n);
    return FE_CHUNK_FRAMING;
}

static enum fe_chunk_piece on_ext(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                  const char **ret_why)
{
    size_t n = 0;

    while (n < in->n && in->p[n] != '\r') {
        n++;
    }
    if (!fe_check_value(sv_from(in->p, n))) {
        return bad(ret_why, "control byte in a chunk extension");
    }
    c->ext_bytes += n;
    if (c->ext_bytes > FE_CHUNK_EXT_MAX) {
        *ret_why = "chunk extensions too long";
        return FE_CHUNK_BIG;
    }
    if (n == 0) { /* at the CR, which belongs to the framing */
        c->state = SIZE_LF;
        *ret = take(in, 1);
        return FE_CHUNK_FRAMING;
    }
    *ret = take(in, n);
    return FE_CHUNK_SKIPPED;
}

static enum fe_chunk_piece on_data(struct fe_chunk *c, struct str_view *in, struct str_view *ret)
{
    size_t n = c->left < in->n ? (size_t)c->left : in->n;

    c->left -= n;
    if (c->left == 0) {
        c->state = DATA_CR;
    }
    *ret = take(in, n);
    return FE_CHUNK_DATA;
}

/* A complete trailer line, without its CR. */
static enum fe_chunk_piece trailer_line(struct fe_chunk *c, const char **ret_why)
{
    struct str_view line = sv_from(c->line, c->line_n);
    size_t colon = sv_find(line, ':');

    if (line.n == 0) {
        c->state = END;
        return FE_CHUNK_END;
    }
    if (colon == line.n || !fe_check_token(sv_from(line.p, colon)) ||
        !fe_check_value(sv_from(line.p + colon, line.n - colon))) {
        return bad(ret_why, "malformed trailer field");
    }
    if (++c->trailers > FE_CHUNK_TRAILERS) {
        *ret_why = "too many trailer fields";
        return FE_CHUNK_BIG;
    }
    c->line_n = 0;
    c->state = TRAILER;
    return FE_CHUNK_SKIPPED;
}

static enum fe_chunk_piece on_trailer(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                      const char **ret_why)
{
    size_t n = 0;

    for (; n < in->n; n++) {
        char ch = in->p[n];

        if (++c->trailer_bytes > FE_CHUNK_TRAILER_MAX || c->line_n >= sizeof(c->line)) {
            *ret_why = "trailer fields too long";
            return FE_CHUNK_BIG;
        }
        if (ch == '\r') {
            c->state = TRAILER_LF;
            n++;
            break;
        }
        if (ch == '\n') {
            return bad(ret_why, "bare LF in a trailer");
        }
        c->line[c->line_n++] = ch;
    }
    *ret = take(in, n);
    return FE_CHUNK_SKIPPED;
}

/* States that wait for one exact byte. */
static enum fe_chunk_piece on_byte(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                   const char **ret_why)
{
    char want = c->state == DATA_CR ? '\r' : '\n';

    if (in->p[0] != want) {
        return bad(ret_why, c->state == DATA_CR ? "chunk data not followed by CRLF"
                                                : "bare CR in chunked framing");
    }
    *ret = take(in, 1);
    if (c->state == SIZE_LF) {
        c->is_last = c->left == 0;
        c->digits = 0;
        c->state = c->is_last ? TRAILER : DATA;
    } else if (c->state == DATA_CR) {
        c->state = DATA_LF;
    } else if (c->state == DATA_LF) {
        c->state = SIZE;
    } else { /* TRAILER_LF */
        return trailer_line(c, ret_why);
    }
    return FE_CHUNK_FRAMING;
}

enum fe_chunk_piece fe_chunk_next(struct fe_chunk *c, struct str_view *in, struct str_view *ret,
                                  const char **ret_why)
{
    if (c->state == END) {
        return FE_CHUNK_END;
    }
    if (in->n == 0) {
        return FE_CHUNK_MORE;
    }
    switch ((enum chunk_state)c->state) {
    case SIZE:
        return on_size(c, in, ret, ret_why);
    case EXT:
        return on_ext(c, in, ret, ret_why);
    case DATA:
        return on_data(c, in, ret);
    case TRAILER:
        return on_trailer(c, in, ret, ret_why);
    case SIZE_LF:
    case DATA_CR:
    case DATA_LF:
    case TRAILER_LF:
        return on_byte(c, in, ret, ret_why);
    case END:
        break;
    }
    return FE_CHUNK_END;
}
