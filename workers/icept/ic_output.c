#include "ic_output.h"

#include "base/err.h"
#include "base/mem.h"
#include "ic_json.h"

void ic_output_fini(struct ic_output *o)
{
    bytes_fini(&o->text);
    bytes_fini(&o->lost_why);
    mem_free(o->pieces);
    memset(o, 0, sizeof(*o));
}

void ic_output_reset(struct ic_output *o)
{
    ic_output_fini(o);
    bytes_init(&o->text, IC_OUTPUT_MAX + 4096);
}

/* Makes room for a piece and returns it, or NULL. */
static struct ic_piece *piece_new(struct ic_output *o, enum ic_piece_kind kind)
{
    if (o->count == o->cap) {
        unsigned cap = o->cap == 0 ? 16 : o->cap * 2;
        struct ic_piece *p = mem_realloc(o->pieces, cap * sizeof(*p));

        if (p == NULL) {
            o->rc = ERR_NOMEM;
            return NULL;
        }
        o->pieces = p;
        o->cap = cap;
    }
    o->pieces[o->count] = (struct ic_piece){kind, o->text.n, 0};
    return &o->pieces[o->count++];
}

/* Cuts `n` down so that no UTF-8 character is split. */
static size_t whole_chars(const char *p, size_t n, size_t all)
{
    while (n > 0 && n < all && ((unsigned char)p[n] & 0xC0) == 0x80) {
        n--;
    }
    return n;
}

static void put(struct ic_output *o, enum ic_piece_kind kind, struct str_view text)
{
    bool is_joined = o->count > 0 && o->pieces[o->count - 1].kind == kind &&
                     (kind == IC_PIECE_STDOUT || kind == IC_PIECE_STDERR);
    struct ic_piece *p;
    size_t room = o->text.n < IC_OUTPUT_MAX ? IC_OUTPUT_MAX - o->text.n : 0;

    /* many tiny pieces must not cost more than their text */
    if (text.n > room || (!is_joined && o->count >= 10000)) {
        o->is_cut = true;
        if (kind == IC_PIECE_IMAGE || room == 0 || o->count >= 10000) {
            return;
        }
        text.n = whole_chars(text.p, room, text.n);
    }
    if (o->rc != 0 || (p = is_joined ? &o->pieces[o->count - 1] : piece_new(o, kind)) == NULL) {
        return;
    }
    bytes_put_sv(&o->text, text);
    p->n += text.n;
    if (o->text.rc != 0) {
        o->rc = o->text.rc;
        p->n = o->text.n - p->at;
    }
}

void ic_output_stream(struct ic_output *o, bool is_stderr, struct str_view text)
{
    if (text.n > 0) {
        put(o, is_stderr ? IC_PIECE_STDERR : IC_PIECE_STDOUT, text);
    }
}

/* data:<mime>;base64,<value without the line breaks kernels put in> */
static void put_image(struct ic_output *o, const char *mime, struct icj value)
{
    struct bytes tmp = {0};
    struct bytes url = {0};
    struct str_view v = icj_view(value, &tmp);

    bytes_printf(&url, "data:%s;base64,", mime);
    for (size_t i = 0; i < v.n;) {
        size_t run = 0;

        while (i + run < v.n && v.p[i + run] != '\n' && v.p[i + run] != '\r') {
            run++;
        }
        bytes_put(&url, v.p + i, run);
        i += run + 1;
    }
    if (url.rc == 0 && tmp.rc == 0) {
        put(o, IC_PIECE_IMAGE, sv_from(url.p, url.n));
    }
    bytes_fini(&tmp);
    bytes_fini(&url);
}

static void put_value(struct ic_output *o, enum ic_piece_kind kind, struct icj value)
{
    struct bytes tmp = {0};
    struct str_view text = value.type == ICJ_STRING ? icj_view(value, &tmp) : value.raw;

    if (tmp.rc == 0 && text.n > 0) {
        put(o, kind, text);
    }
    bytes_fini(&tmp);
}

static void display_object(struct ic_output *o, struct icj v)
{
    static const char *const images[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    static const char *const texts[] = {"text/plain", "text/markdown", "text/latex",
                                        "application/json", "text/html"};
    bool is_main = icj_get(v, "is_main_result").type == ICJ_TRUE;
    bool has_image = false;

    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        struct icj image = icj_get(v, images[i]);

        if (image.type == ICJ_STRING) {
            put_image(o, images[i], image);
            has_image = true;
            break;
        }
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct icj text = icj_get(v, texts[i]);

        if (icj_is_set(text)) {
            put_value(o,
                      is_main     ? IC_PIECE_RESULT
                      : has_image ? IC_PIECE_SILENT
                                  : IC_PIECE_DISPLAY,
                      text);
            break;
        }
    }
}

void ic_output_display(struct ic_output *o, struct str_view json)
{
    struct icj v;

    if (icj_parse(&v, json, NULL) == 0) {
        display_object(o, v);
    }
}

static void exception_object(struct ic_output *o, struct icj v)
{
    struct icj tb = icj_get(v, "traceback");
    struct bytes text = {0};
    struct bytes tmp = {0};

    o->is_raised = true;
    if (tb.type == ICJ_ARRAY) {
        struct icj_iter it = icj_iter(tb);
        struct icj line;

        while (icj_next(&it, &line)) {
            if (text.n > 0) {
                bytes_put_char(&text, '\n');
            }
            icj_text(line, &text);
        }
    } else {
        icj_text(tb, &text);
    }
    if (text.n == 0) {
        bytes_put_sv(&text, icj_view(icj_get(v, "name"), &tmp));
        if (text.n > 0) {
            bytes_put_str(&text, ": ");
        }
        icj_text(icj_get(v, "value"), &text);
    }
    if (text.n > 0 && text.rc == 0) {
        put(o, IC_PIECE_TRACEBACK, sv_from(text.p, text.n));
    }
    bytes_fini(&text);
    bytes_fini(&tmp);
}

void ic_output_exception(struct ic_output *o, struct str_view json)
{
    struct icj v = {ICJ_ABSENT, {NULL, 0}};

    o->is_raised = true;
    if (icj_parse(&v, json, NULL) == 0) {
        exception_object(o, v);
    }
}

void ic_output_result(struct ic_output *o, struct str_view json)
{
    struct icj v;
    struct icj item;
    struct icj_iter it;

    if (icj_parse(&v, json, NULL) != 0) {
        return;
    }
    put_value(o, IC_PIECE_STDOUT, icj_get(v, "stdout"));
    it = icj_iter(icj_get(v, "results"));
    while (icj_next(&it, &item)) {
        display_object(o, item);
    }
    put_value(o, IC_PIECE_STDERR, icj_get(v, "stderr"));
    if (icj_get(v, "error").type == ICJ_OBJECT) {
        exception_object(o, icj_get(v, "error"));
    }
}

/* --- for the model --- */

static bool is_between(struct str_view s, size_t i, unsigned char lo, unsigned char hi)
{
    return i < s.n && (unsigned char)s.p[i] >= lo && (unsigned char)s.p[i] <= hi;
}

/* Where the escape sequence ends whose first character after ESC is at i. */
static size_t after_escape(struct str_view s, size_t i)
{
    if (i < s.n && s.p[i] == '[') { /* CSI: parameters, then a final byte */
        i++;
        while (is_between(s, i, 0x20, 0x3F)) {
            i++;
        }
        return i + (is_between(s, i, 0x40, 0x7E) ? 1 : 0);
    }
    if (i >= s.n || s.p[i] != ']') { /* ESC and one character */
        return i + (is_between(s, i, 0x20, 0x7E) ? 1 : 0);
    }
    while (i < s.n && s.p[i] != '\a' && s.p[i] != 0x1B && s.p[i] != '\n') { /* OSC: to BEL or ST */
        i++;
    }
    if (i < s.n && s.p[i] == '\a') {
        return i + 1;
    }
    return i + 1 < s.n && s.p[i] == 0x1B && s.p[i + 1] == '\\' ? i + 2 : i;
}

void ic_output_plain(struct bytes *ret, struct str_view text)
{
    size_t i = 0;

    while (i < text.n) {
        struct str_view rest = sv_from(text.p + i, text.n - i);
        size_t plain = sv_find(rest, 0x1B);

        bytes_put(ret, rest.p, plain);
        i += plain;
        if (i < text.n) {
            i = after_escape(text, i + 1);
        }
    }
}

/* Pieces of these kinds, one after the other. */
static void gather(const struct ic_output *o, unsigned kinds, struct bytes *ret)
{
    for (unsigned i = 0; i < o->count; i++) {
        const struct ic_piece *p = &o->pieces[i];

        if ((kinds & 1U << p->kind) == 0) {
            continue;
        }
        if (ret->n > 0 && ret->p[ret->n - 1] != '\n' && p->kind != IC_PIECE_STDOUT &&
            p->kind != IC_PIECE_STDERR) {
            bytes_put_char(ret, '\n');
        }
        ic_output_plain(ret, sv_from(o->text.p + p->at, p->n));
    }
}

/* Keeps head and tail of body when it is over max. */
static void put_bounded(struct bytes *ret, struct str_view body, size_t max)
{
    size_t head;
    size_t tail;

    if (body.n <= max) {
        bytes_put_sv(ret, body);
        return;
    }
    head = whole_chars(body.p, max / 2, body.n);
    tail = body.n - max / 2;
    while (tail < body.n && ((unsigned char)body.p[tail] & 0xC0) == 0x80) {
        tail++;
    }
    bytes_put(ret, body.p, head);
    bytes_printf(ret, "\n[... %zu bytes cut ...]\n", tail - head);
    bytes_put(ret, body.p + tail, body.n - tail);
}

static void put_sections(const struct ic_output *o, struct bytes *ret)
{
    static const struct {
        const char *label;
        unsigned kinds;
    } sections[] = {
        {"stdout", 1U << IC_PIECE_STDOUT},
        {"result", 1U << IC_PIECE_RESULT | 1U << IC_PIECE_DISPLAY | 1U << IC_PIECE_SILENT},
        {"stderr", 1U << IC_PIECE_STDERR},
        {"traceback", 1U << IC_PIECE_TRACEBACK},
    };
    unsigned used = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = 0; k < o->count; k++) {
            if ((sections[i].kinds & 1U << o->pieces[k].kind) != 0) {
                used |= 1U << i;
            }
        }
        count += used >> i & 1U;
    }
    for (unsigned i = 0; i < 4; i++) {
        struct bytes part = {.cap_max = IC_OUTPUT_MAX + 4096};

        if ((used & 1U << i) == 0) {
            continue;
        }
        gather(o, sections[i].kinds, &part);
        if (count > 1) {
            if (ret->n > 0 && ret->p[ret->n - 1] != '\n') {
                bytes_put_char(ret, '\n');
            }
            bytes_printf(ret, "%s:\n", sections[i].label);
        }
        bytes_put(ret, part.p, part.n);
        bytes_fini(&part);
    }
}

/* A remark on a line of its own. */
static void put_note(struct bytes *ret, const char *note)
{
    if (ret->n > 0 && ret->p[ret->n - 1] != '\n') {
        bytes_put_char(ret, '\n');
    }
    bytes_put_str(ret, note);
}

void ic_output_model_text(const struct ic_output *o, size_t max, struct bytes *ret)
{
    struct bytes body = {.cap_max = IC_OUTPUT_MAX + 65536};

    if (o->is_restarted) {
        bytes_put_str(ret, "[sandbox restarted: earlier state is gone]\n");
    }
    if (o->is_raised || o->timeout_s > 0) {
        bytes_put_str(ret, "[execution error] ");
    }
    put_sections(o, &body);
    put_bounded(ret, sv_from(body.p, body.n), max);
    bytes_fini(&body);
    if (o->is_cut) {
        put_note(ret, "[output cut: it was over the limit of the sandbox]");
    }
    if (o->timeout_s > 0) {
        char note[80];
        struct bytes text = {0};

        bytes_printf(&text, "[stopped: the code ran longer than %u s]", o->timeout_s);
        sv_copy(note, sizeof(note), sv_from(text.p, text.n));
        bytes_fini(&text);
        put_note(ret, note);
    }
    if (o->is_lost) {
        put_note(ret, "[execution interrupted: the sandbox was lost, effects unknown]");
        if (o->lost_why.n > 0) {
            bytes_put_str(ret, "\nreason: ");
            bytes_put(ret, o->lost_why.p, o->lost_why.n);
        }
    }
}

/* --- for the client --- */

static void put_log(struct bytes *ret, struct str_view text)
{
    icj_put_comma(ret);
    bytes_put_str(ret, "{\"type\":\"logs\",\"logs\":");
    bytes_put_json_str(ret, text);
    bytes_put_char(ret, '}');
}

void ic_output_client_json(const struct ic_output *o, struct bytes *ret)
{
    struct bytes tail = {0};

    bytes_put_char(ret, '[');
    for (unsigned i = 0; i < o->count; i++) {
        const struct ic_piece *p = &o->pieces[i];
        struct str_view text = sv_from(o->text.p + p->at, p->n);
        struct bytes plain = {.cap_max = IC_OUTPUT_MAX + 4096};

        switch (p->kind) {
        case IC_PIECE_STDOUT:
        case IC_PIECE_STDERR:
        case IC_PIECE_RESULT:
        case IC_PIECE_DISPLAY:
            put_log(ret, text);
            break;
        case IC_PIECE_TRACEBACK:
            ic_output_plain(&plain, text);
            put_log(ret, sv_from(plain.p, plain.n));
            break;
        case IC_PIECE_IMAGE:
            icj_put_comma(ret);
            bytes_put_str(ret, "{\"type\":\"image\",\"url\":");
            bytes_put_json_str(ret, text);
            bytes_put_char(ret, '}');
            break;
        case IC_PIECE_SILENT:
            break;
        }
        bytes_fini(&plain);
    }
    if (o->is_cut) {
        put_note(&tail, "[output cut: it was over the limit of the sandbox]");
    }
    if (o->timeout_s > 0) {
        put_note(&tail, "");
        bytes_printf(&tail, "[stopped: the code ran longer than %u s]", o->timeout_s);
    }
    if (o->is_lost) {
        put_note(&tail, "[execution interrupted: the sandbox was lost, effects unknown]");
    }
    if (tail.n > 0) {
        put_log(ret, sv_from(tail.p, tail.n));
    }
    bytes_fini(&tail);
    bytes_put_char(ret, ']');
}
