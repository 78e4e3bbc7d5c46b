#include "ic_args.h"

#include "ic_json.h"

void ic_args_init(struct ic_args *a)
{
    memset(a, 0, sizeof(*a));
}

static void put_code_point(struct bytes *code, unsigned cp)
{
    char s[4];

    if (cp < 0x80) {
        bytes_put_char(code, (char)cp);
    } else if (cp < 0x800) {
        s[0] = (char)(0xC0 | cp >> 6);
        s[1] = (char)(0x80 | (cp & 0x3F));
        bytes_put(code, s, 2);
    } else if (cp < 0x10000) {
        s[0] = (char)(0xE0 | cp >> 12);
        s[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        s[2] = (char)(0x80 | (cp & 0x3F));
        bytes_put(code, s, 3);
    } else {
        s[0] = (char)(0xF0 | cp >> 18);
        s[1] = (char)(0x80 | (cp >> 12 & 0x3F));
        s[2] = (char)(0x80 | (cp >> 6 & 0x3F));
        s[3] = (char)(0x80 | (cp & 0x3F));
        bytes_put(code, s, 4);
    }
}

/* A pending first half that nothing completed. */
static void flush_high(struct ic_args *a, struct bytes *code)
{
    if (a->high != 0) {
        a->high = 0;
        put_code_point(code, 0xFFFD);
    }
}

static void code_unit(struct ic_args *a, unsigned unit, struct bytes *code)
{
    if (unit >= 0xDC00 && unit < 0xE000 && a->high != 0) {
        put_code_point(code, 0x10000 + ((a->high - 0xD800) << 10) + (unit - 0xDC00));
        a->high = 0;
        return;
    }
    flush_high(a, code);
    if (unit >= 0xD800 && unit < 0xDC00) {
        a->high = unit;
    } else {
        put_code_point(code, unit >= 0xDC00 && unit < 0xE000 ? 0xFFFD : unit);
    }
}

static unsigned hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

static void feed_escaped(struct ic_args *a, char c, struct bytes *code)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *at;

    a->is_escaped = false;
    if (c == 'u') {
        a->hex_left = 4;
        a->unit = 0;
        return;
    }
    at = c != '\0' ? strchr(from, c) : NULL;
    if (at == NULL) {
        a->state = IC_ARGS_DONE; /* not JSON */
        return;
    }
    flush_high(a, code);
    bytes_put_char(code, to[at - from]);
}

static void feed_code(struct ic_args *a, char c, struct bytes *code)
{
    if (a->hex_left > 0) {
        unsigned v = hex_value(c);

        if (v > 15) {
            a->state = IC_ARGS_DONE;
            return;
        }
        a->unit = a->unit << 4 | v;
        if (--a->hex_left == 0) {
            code_unit(a, a->unit, code);
        }
    } else if (a->is_escaped) {
        feed_escaped(a, c, code);
    } else if (c == '\\') {
        a->is_escaped = true;
    } else {
        flush_high(a, code);
        if (c == '"') {
            a->has_code = true;
            a->state = IC_ARGS_DONE;
        } else if ((unsigned char)c < 0x20) {
            a->state = IC_ARGS_DONE;
        } else {
            bytes_put_char(code, c);
        }
    }
}

static void feed_name(struct ic_args *a, char c)
{
    if (a->is_escaped) {
        a->is_escaped = false;
    } else if (c == '\\') {
        a->is_escaped = true;
    } else if (c == '"') {
        a->state = IC_ARGS_COLON;
        return;
    }
    if (a->name_n < sizeof(a->name)) {
        a->name[a->name_n++] = c;
    }
}

static void begin_value(struct ic_args *a, char c)
{
    if (a->name_n == 4 && memcmp(a->name, "code", 4) == 0) {
        a->state = c == '"' ? IC_ARGS_CODE : IC_ARGS_DONE;
        return;
    }
    a->state = IC_ARGS_OTHER;
    a->depth = c == '{' || c == '[' ? 1 : 0;
    a->is_in_string = c == '"';
    a->is_escaped = false;
}

static void feed_other(struct ic_args *a, char c)
{
    if (a->is_in_string) {
        if (a->is_escaped) {
            a->is_escaped = false;
        } else if (c == '\\') {
            a->is_escaped = true;
        } else if (c == '"') {
            a->is_in_string = false;
        }
    } else if (c == '"') {
        a->is_in_string = true;
    } else if (c == '{' || c == '[') {
        a->depth++;
    } else if (c == '}' || c == ']') {
        if (a->depth == 0) {
            a->state = IC_ARGS_DONE; /* the end of the object */
        } else {
            a->depth--;
        }
    } else if (c == ',' && a->depth == 0) {
        a->state = IC_ARGS_MEMBER;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void feed_char(struct ic_args *a, char c, struct bytes *code)
{
    switch (a->state) {
    case IC_ARGS_START:
        if (!is_space(c)) {
            a->state = c == '{' ? IC_ARGS_MEMBER : IC_ARGS_DONE;
        }
        break;
    case IC_ARGS_MEMBER:
        if (!is_space(c)) {
            a->state = c == '"' ? IC_ARGS_NAME : IC_ARGS_DONE;
            a->name_n = 0;
            a->is_escaped = false;
        }
        break;
    case IC_ARGS_NAME:
        feed_name(a, c);
        break;
    case IC_ARGS_COLON:
        if (!is_space(c)) {
            a->state = c == ':' ? IC_ARGS_VALUE : IC_ARGS_DONE;
        }
        break;
    case IC_ARGS_VALUE:
        if (!is_space(c)) {
            begin_value(a, c);
        }
        break;
    case IC_ARGS_CODE:
        feed_code(a, c, code);
        break;
    case IC_ARGS_OTHER:
        feed_other(a, c);
        break;
    case IC_ARGS_DONE:
        break;
    }
}

void ic_args_feed(struct ic_args *a, struct str_view piece, struct bytes *code)
{
    for (size_t i = 0; i < piece.n && a->state != IC_ARGS_DONE; i++) {
        feed_char(a, piece.p[i], code);
    }
}

bool ic_args_end(struct ic_args *a, struct str_view whole)
{
    struct icj v;

    return a->has_code && icj_parse(&v, whole, NULL) == 0 && v.type == ICJ_OBJECT;
}
