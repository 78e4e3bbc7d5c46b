/* wk_scan.c - see wk_scan.h. Values are skipped iteratively with a bit per level, so depth costs no
 * stack. */
#include "wk_scan.h"

#define DEPTH_WORDS (WK_SCAN_DEPTH_MAX / 32)

struct scanner {
    const char *p;
    size_t n;
    size_t i;
    struct wk_scan *out;
    const char *why; /* set with the first syntax error, else NULL */
    struct err *e;
};

/* A decoded key: at most WK_SCAN_KEY_MAX bytes are kept. */
struct key {
    size_t at; /* of its opening quote */
    bool is_whole;
    struct str_view text;
    char store[WK_SCAN_KEY_MAX];
};

/* How one kind of object is walked. */
struct walk {
    bool (*is_cut)(struct scanner *s, const struct key *k); /* NULL = nothing is */
    int (*take)(struct scanner *s, const struct key *k, unsigned depth, bool is_cut);
};

static const char *const key_names[WK_KEY_COUNT] = {
#define X(name, text) text,
    WK_SCAN_KEYS(X)
#undef X
};

static int syntax(struct scanner *s, const char *why)
{
    if (s->why == NULL) {
        s->why = why;
        (void)err_set(s->e, ERR_INVALID_JSON,
                      "We could not parse the JSON body of your request: %s at byte %zu.", why,
                      s->i);
    }
    return ERR_INVALID_JSON;
}

static void skip_space(struct scanner *s)
{
    while (s->i < s->n &&
           (s->p[s->i] == ' ' || s->p[s->i] == '\n' || s->p[s->i] == '\r' || s->p[s->i] == '\t')) {
        s->i++;
    }
}

static bool is_at(const struct scanner *s, char c)
{
    return s->i < s->n && s->p[s->i] == c;
}

/* --- strings --- */

#define ONES  0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* Some byte of `v` is a quote, a backslash, a control character or not ASCII (may also say so
 * wrongly of a byte after such a one, which does no harm: the bytes are then looked at one by one).
 * */
static bool has_special(uint64_t v)
{
    uint64_t quote = v ^ (ONES * '"');
    uint64_t slash = v ^ (ONES * '\\');

    return ((v | ((v - ONES * 0x20) & ~v) | ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash)) &
            HIGHS) != 0;
}

/* Length of the valid UTF-8 sequence at p[0..n), 0 when invalid. p[0] is not ASCII. */
static unsigned utf8_length(const unsigned char *p, size_t n)
{
    unsigned char a = p[0];

    if (a >= 0xC2 && a <= 0xDF) {
        return n >= 2 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
    }
    if (a >= 0xE0 && a <= 0xEF) {
        if (n < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) {
            return 0;
        }
        return (a == 0xE0 && p[1] < 0xA0) || (a == 0xED && p[1] > 0x9F) ? 0 : 3;
    }
    if (a >= 0xF0 && a <= 0xF4) {
        if (n < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) {
            return 0;
        }
        return (a == 0xF0 && p[1] < 0x90) || (a == 0xF4 && p[1] > 0x8F) ? 0 : 4;
    }
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* s->i is at a backslash; moves behind the escape. */
static int skip_escape(struct scanner *s)
{
    s->i++;
    if (s->i >= s->n) {
        return syntax(s, "unterminated string");
    }
    switch (s->p[s->i]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->i++;
        return 0;
    case 'u':
        for (unsigned k = 1; k <= 4; k++) {
            if (s->i + k >= s->n || hex_value(s->p[s->i + k]) < 0) {
                return syntax(s, "invalid \\u escape");
            }
        }
        s->i += 5;
        return 0;
    default:
        return syntax(s, "invalid escape in a string");
    }
}

/* s->i is at the opening quote; moves behind the closing one. */
static int skip_string(struct scanner *s, bool *ret_has_escape)
{
    bool has_escape = false;
    int rc;

    s->i++;
    for (;;) {
        uint64_t v;

        while (s->n - s->i >= sizeof(v)) {
            memcpy(&v, s->p + s->i, sizeof(v));
            if (has_special(v)) {
                break;
            }
            s->i += sizeof(v);
        }
        if (s->i >= s->n) {
            return syntax(s, "unterminated string");
        }
        unsigned char c = (unsigned char)s->p[s->i];
        if (c == '"') {
            s->i++;
            *ret_has_escape = has_escape;
            return 0;
        }
        if (c == '\\') {
            has_escape = true;
            if ((rc = skip_escape(s)) != 0) {
                return rc;
            }
        } else if (c < 0x20) {
            return syntax(s, "control character in a string");
        } else if (c < 0x80) {
            s->i++;
        } else {
            unsigned k = utf8_length((const unsigned char *)s->p + s->i, s->n - s->i);
            if (k == 0) {
                return syntax(s, "invalid UTF-8");
            }
            s->i += k;
        }
    }
}

static unsigned hex4(const char *p)
{
    unsigned v = 0;

    for (unsigned k = 0; k < 4; k++) {
        v = v * 16 + (unsigned)hex_value(p[k]);
    }
    return v;
}

static unsigned put_utf8(char *dst, unsigned c)
{
    if (c < 0x80) {
        dst[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        dst[0] = (char)(0xC0 | (c >> 6));
        dst[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        dst[0] = (char)(0xE0 | (c >> 12));
        dst[1] = (char)(0x80 | ((c >> 6) & 0x3F));
        dst[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    dst[0] = (char)(0xF0 | (c >> 18));
    dst[1] = (char)(0x80 | ((c >> 12) & 0x3F));
    dst[2] = (char)(0x80 | ((c >> 6) & 0x3F));
    dst[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* One character of a validated string at *in; writes 1..4 bytes to dst. */
static unsigned take_char(const char **in, const char *end, char dst[4])
{
    static const char from[] = "bfnrt\"\\/";
    static const char to[] = "\b\f\n\r\t\"\\/";
    const char *p = *in;
    unsigned c;

    if (*p != '\\') {
        dst[0] = *p;
        *in = p + 1;
        return 1;
    }
    if (p[1] != 'u') {
        const char *at = strchr(from, p[1]);
        dst[0] = at != NULL ? to[at - from] : p[1];
        *in = p + 2;
        return 1;
    }
    c = hex4(p + 2);
    p += 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        if (c <= 0xDBFF && end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2) >= 0xDC00 &&
            hex4(p + 2) <= 0xDFFF) {
            c = 0x10000 + ((c - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
            p += 6;
        } else {
            c = 0xFFFD;
        }
    }
    *in = p;
    return put_utf8(dst, c);
}

int wk_scan_string(struct str_view quoted, char *dst, size_t cap, size_t *ret_n)
{
    const char *p = quoted.p + 1;
    const char *end = quoted.p + quoted.n - 1;
    size_t n = 0;

    while (p < end) {
        char c[4];
        unsigned k = take_char(&p, end, c);
        if (k > cap - n) {
            return ERR_LIMIT;
        }
        memcpy(dst + n, c, k);
        n += k;
    }
    *ret_n = n;
    return 0;
}

static int take_key(struct scanner *s, struct key *k)
{
    bool has_escape = false;
    int rc;

    k->at = s->i;
    if ((rc = skip_string(s, &has_escape)) != 0) {
        return rc;
    }
    const char *p = s->p + k->at + 1;
    const char *end = s->p + s->i - 1;
    k->is_whole = true;
    if (!has_escape) {
        k->text = sv_from(p, (size_t)(end - p));
        return 0;
    }
    size_t n = 0;
    while (p < end) {
        char c[4];
        unsigned m = take_char(&p, end, c);
        if (m > sizeof(k->store) - n) {
            k->is_whole = false;
            break;
        }
        memcpy(k->store + n, c, m);
        n += m;
    }
    k->text = sv_from(k->store, n);
    return 0;
}

/* --- scalars and skipped values --- */

static bool is_digit(const struct scanner *s)
{
    return s->i < s->n && s->p[s->i] >= '0' && s->p[s->i] <= '9';
}

static int skip_digits(struct scanner *s)
{
    if (!is_digit(s)) {
        return syntax(s, "invalid number");
    }
    while (is_digit(s)) {
        s->i++;
    }
    return 0;
}

static int skip_number(struct scanner *s)
{
    int rc;

    if (is_at(s, '-')) {
        s->i++;
    }
    if (is_at(s, '0')) {
        s->i++;
    } else if ((rc = skip_digits(s)) != 0) {
        return rc;
    }
    if (is_at(s, '.')) {
        s->i++;
        if ((rc = skip_digits(s)) != 0) {
            return rc;
        }
    }
    if (is_at(s, 'e') || is_at(s, 'E')) {
        s->i++;
        if (is_at(s, '+') || is_at(s, '-')) {
            s->i++;
        }
        if ((rc = skip_digits(s)) != 0) {
            return rc;
        }
    }
    return 0;
}

static int skip_word(struct scanner *s, const char *word, size_t n)
{
    if (s->n - s->i < n || memcmp(s->p + s->i, word, n) != 0) {
        return syntax(s, "unexpected character");
    }
    s->i += n;
    return 0;
}

/* What kind of value starts here; ABSENT = none can. */
static enum wk_json value_type(const struct scanner *s)
{
    switch (s->i < s->n ? s->p[s->i] : '\0') {
    case '"':
        return WK_JSON_STRING;
    case '{':
        return WK_JSON_OBJECT;
    case '[':
        return WK_JSON_ARRAY;
    case 't':
        return WK_JSON_TRUE;
    case 'f':
        return WK_JSON_FALSE;
    case 'n':
        return WK_JSON_NULL;
    case '-':
        return WK_JSON_NUMBER;
    default:
        return is_digit(s) ? WK_JSON_NUMBER : WK_JSON_ABSENT;
    }
}

static int skip_scalar(struct scanner *s, enum wk_json type)
{
    bool has_escape;

    switch (type) {
    case WK_JSON_STRING:
        return skip_string(s, &has_escape);
    case WK_JSON_NUMBER:
        return skip_number(s);
    case WK_JSON_TRUE:
        return skip_word(s, "true", 4);
    case WK_JSON_FALSE:
        return skip_word(s, "false", 5);
    case WK_JSON_NULL:
        return skip_word(s, "null", 4);
    case WK_JSON_ABSENT:
    case WK_JSON_OBJECT:
    case WK_JSON_ARRAY:
        break;
    }
    return syntax(s, s->i < s->n ? "unexpected character" : "unexpected end");
}

/* Key and colon of an object member. */
static int skip_key(struct scanner *s)
{
    bool has_escape;
    int rc;

    if (!is_at(s, '"')) {
        return syntax(s, "expected a string key");
    }
    if ((rc = skip_string(s, &has_escape)) != 0) {
        return rc;
    }
    skip_space(s);
    if (!is_at(s, ':')) {
        return syntax(s, "expected ':'");
    }
    s->i++;
    skip_space(s);
    return 0;
}

/* One bit per open level: 1 = object. */
struct levels {
    uint32_t bits[DEPTH_WORDS];
    unsigned n;
};

static int level_open(struct scanner *s, struct levels *l, unsigned depth, bool is_object)
{
    if (depth + l->n >= WK_SCAN_DEPTH_MAX) {
        return syntax(s, "nested too deeply (at most 256 levels)");
    }
    uint32_t bit = 1U << (l->n % 32);
    if (is_object) {
        l->bits[l->n / 32] |= bit;
    } else {
        l->bits[l->n / 32] &= ~bit;
    }
    l->n++;
    s->i++;
    skip_space(s);
    return 0;
}

static bool level_is_object(const struct levels *l)
{
    return (l->bits[(l->n - 1) / 32] & (1U << ((l->n - 1) % 32))) != 0;
}

/* After a value inside a container: closes levels and steps over the comma; *ret_more = another
 * value comes. */
static int after_value(struct scanner *s, struct levels *l, bool *ret_more)
{
    *ret_more = false;
    while (l->n > 0) {
        bool is_object = level_is_object(l);
        skip_space(s);
        if (is_at(s, ',')) {
            s->i++;
            skip_space(s);
            *ret_more = true;
            return is_object ? skip_key(s) : 0;
        }
        if (!is_at(s, is_object ? '}' : ']')) {
            return syntax(s, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        s->i++;
        l->n--;
    }
    return 0;
}

/* s->i is at a value inside `depth` open levels; moves behind it. */
static int skip_value(struct scanner *s, unsigned depth)
{
    struct levels l = {.n = 0};
    bool has_more = true;
    int rc;

    while (has_more) {
        enum wk_json type = value_type(s);
        if (type == WK_JSON_OBJECT || type == WK_JSON_ARRAY) {
            bool is_object = type == WK_JSON_OBJECT;
            if ((rc = level_open(s, &l, depth, is_object)) != 0) {
                return rc;
            }
            if (!is_at(s, is_object ? '}' : ']')) {
                if (is_object && (rc = skip_key(s)) != 0) {
                    return rc;
                }
                continue;
            }
            s->i++;
            l.n--;
        } else if ((rc = skip_scalar(s, type)) != 0) {
            return rc;
        }
        if ((rc = after_value(s, &l, &has_more)) != 0) {
            return rc;
        }
    }
    return 0;
}

/* --- objects that are looked into --- */

static int add_cut(struct scanner *s, size_t from, size_t to)
{
    if (s->out->cut_count >= WK_SCAN_CUTS_MAX) {
        return err_set(s->e, ERR_INVALID,
                       "The request has too many reserved fields; send the documented fields of "
                       "the API only.");
    }
    s->out->cuts[s->out->cut_count++] = (struct wk_span){from, to - from};
    return 0;
}

/* State of the current object: which run of members is being cut. */
struct run {
    size_t kept_end; /* behind the last kept value, or behind the '{' */
    size_t cut_at;
    bool is_open;
};

static int walk_member(struct scanner *s, const struct walk *w, unsigned depth, struct run *r)
{
    struct key k;
    int rc;

    if (!is_at(s, '"')) {
        return syntax(s, "expected a string key");
    }
    if ((rc = take_key(s, &k)) != 0) {
        return rc;
    }
    skip_space(s);
    if (!is_at(s, ':')) {
        return syntax(s, "expected ':'");
    }
    s->i++;
    skip_space(s);
    bool is_cut = w->is_cut != NULL && w->is_cut(s, &k);
    if (is_cut && !r->is_open) {
        r->is_open = true;
        r->cut_at = k.at;
    } else if (!is_cut && r->is_open) {
        r->is_open = false;
        if ((rc = add_cut(s, r->cut_at, k.at)) != 0) {
            return rc;
        }
    }
    if ((rc = w->take(s, &k, depth, is_cut)) != 0) {
        return rc;
    }
    if (!is_cut) {
        r->kept_end = s->i;
    }
    return 0;
}

/* s->i is at '{' of an object that will be level `depth` + 1. */
static int walk_object(struct scanner *s, const struct walk *w, unsigned depth)
{
    struct run r = {.kept_end = s->i + 1};
    int rc;

    s->i++;
    skip_space(s);
    if (is_at(s, '}')) {
        s->i++;
        return 0;
    }
    for (;;) {
        if ((rc = walk_member(s, w, depth + 1, &r)) != 0) {
            return rc;
        }
        skip_space(s);
        if (is_at(s, '}')) {
            break;
        }
        if (!is_at(s, ',')) {
            return syntax(s, "expected ',' or '}'");
        }
        s->i++;
        skip_space(s);
    }
    if (r.is_open && (rc = add_cut(s, r.kept_end, s->i)) != 0) {
        return rc;
    }
    s->i++;
    return 0;
}

/* --- reserved keys --- */

bool wk_scan_is_reserved(struct str_view key)
{
    static const char *const prefixes[] = {
        "_agentic_loop",           "_code_interpreter_interception",
        "_websearch_interception", "_compression_interception",
        "user_api_key_",
    };
    static const char *const names[] = {
        "max_agentic_loops",
        "proxy_server_request",
        "secret_fields",
        "standard_logging_object",
        "mock_response",
        "mock_tool_calls",
        "callbacks",
        "service_callback",
        "logger_fn",
        "litellm_disabled_callbacks",
        "disable_global_guardrails",
    };

    if (key.n == 0 || strchr("_umpscld", key.p[0]) == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (sv_starts(key, sv_of(prefixes[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (sv_eq(key, sv_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static int take_skip(struct scanner *s, const struct key *k, unsigned depth, bool is_cut)
{
    (void)k;
    (void)is_cut;
    return skip_value(s, depth);
}

static bool metadata_is_cut(struct scanner *s, const struct key *k)
{
    (void)s;
    return wk_scan_is_reserved(k->text) || (k->is_whole && sv_eq(k->text, SV_LIT("session_id")));
}

static int take_tool_member(struct scanner *s, const struct key *k, unsigned depth, bool is_cut)
{
    char type[32];
    size_t n;
    size_t at = s->i;
    bool is_type = k->is_whole && sv_eq(k->text, SV_LIT("type")) && is_at(s, '"');
    int rc;

    (void)is_cut;
    if ((rc = skip_value(s, depth)) != 0) {
        return rc;
    }
    if (is_type && wk_scan_string(sv_from(s->p + at, s->i - at), type, sizeof(type), &n) == 0 &&
        sv_eq(sv_from(type, n), SV_LIT("code_interpreter"))) {
        s->out->has_code_interpreter = true;
    }
    return 0;
}

static const struct walk metadata_walk = {metadata_is_cut, take_skip};
static const struct walk tool_walk = {NULL, take_tool_member};

/* s->i is at '[' of the tools. */
static int take_tools(struct scanner *s, unsigned depth)
{
    int rc;

    s->i++;
    skip_space(s);
    if (is_at(s, ']')) {
        s->i++;
        return 0;
    }
    for (;;) {
        rc = is_at(s, '{') ? walk_object(s, &tool_walk, depth + 1) : skip_value(s, depth + 1);
        if (rc != 0) {
            return rc;
        }
        skip_space(s);
        if (is_at(s, ']')) {
            s->i++;
            return 0;
        }
        if (!is_at(s, ',')) {
            return syntax(s, "expected ',' or ']'");
        }
        s->i++;
        skip_space(s);
    }
}

static enum wk_key find_key(const struct key *k)
{
    if (!k->is_whole) {
        return WK_KEY_COUNT;
    }
    for (unsigned i = 0; i < WK_KEY_COUNT; i++) {
        if (sv_eq(k->text, sv_of(key_names[i]))) {
            return (enum wk_key)i;
        }
    }
    return WK_KEY_COUNT;
}

static bool top_is_cut(struct scanner *s, const struct key *k)
{
    (void)s;
    return wk_scan_is_reserved(k->text) ||
           (k->is_whole && sv_eq(k->text, SV_LIT("litellm_metadata")));
}

static int take_top(struct scanner *s, const struct key *k, unsigned depth, bool is_cut)
{
    enum wk_key key = find_key(k);
    enum wk_json type = value_type(s);
    size_t at = s->i;
    int rc;

    if (key != WK_KEY_COUNT && s->out->type[key] != WK_JSON_ABSENT) {
        return err_set_param(s->e, ERR_INVALID, key_names[key],
                             "Duplicate field: '%s' appears more than once; send it once.",
                             key_names[key]);
    }
    if (key == WK_KEY_TOOLS && type == WK_JSON_ARRAY) {
        rc = take_tools(s, depth);
    } else if (key == WK_KEY_METADATA && type == WK_JSON_OBJECT && !is_cut) {
        rc = walk_object(s, &metadata_walk, depth);
    } else {
        rc = skip_value(s, depth);
    }
    if (rc == 0 && key != WK_KEY_COUNT) {
        s->out->type[key] = type;
        s->out->value[key] = (struct wk_span){at, s->i - at};
    }
    return rc;
}

int wk_scan_body(struct wk_scan *ret, struct str_view body, struct err *e)
{
    static const struct walk top_walk = {top_is_cut, take_top};
    struct scanner s = {.p = body.p, .n = body.n, .out = ret, .e = e};
    int rc;

    memset(ret->value, 0, sizeof(ret->value));
    memset(ret->type, 0, sizeof(ret->type));
    ret->has_code_interpreter = false;
    ret->cut_count = 0;
    skip_space(&s);
    if (s.i == s.n) {
        return syntax(&s, "the body is empty");
    }
    if (!is_at(&s, '{')) {
        if ((rc = skip_value(&s, 0)) != 0) {
            return rc;
        }
        return err_set(e, ERR_INVALID_TYPE, "The body of your request must be a JSON object.");
    }
    if ((rc = walk_object(&s, &top_walk, 0)) != 0) {
        return rc;
    }
    skip_space(&s);
    return s.i == s.n ? 0 : syntax(&s, "unexpected data after the object");
}

/* --- what goes upstream --- */

/* Next kept piece at or after *at; false at the end. *ret_is_model: it ends where the model goes.
 * */
struct pieces {
    const struct wk_scan *scan;
    size_t body_n;
    size_t at;
    unsigned cut;
    bool is_model_done;
    bool is_over;
};

static bool next_piece(struct pieces *it, struct wk_span *ret, bool *ret_is_model)
{
    const struct wk_span *model = &it->scan->value[WK_KEY_MODEL];
    size_t from = it->at;
    size_t cut_at = it->cut < it->scan->cut_count ? it->scan->cuts[it->cut].at : it->body_n;

    if (it->is_over) {
        return false;
    }
    if (!it->is_model_done && model->at < cut_at) {
        it->is_model_done = true;
        it->at = model->at + model->n;
        *ret = (struct wk_span){from, model->at - from};
        *ret_is_model = true;
        return true;
    }
    *ret = (struct wk_span){from, cut_at - from};
    *ret_is_model = false;
    if (it->cut < it->scan->cut_count) {
        it->at = cut_at + it->scan->cuts[it->cut].n;
        it->cut++;
    } else {
        it->is_over = true;
    }
    return true;
}

static struct pieces pieces_of(const struct wk_scan *s, struct str_view body)
{
    return (struct pieces){
        .scan = s, .body_n = body.n, .is_model_done = s->type[WK_KEY_MODEL] != WK_JSON_STRING};
}

unsigned wk_scan_slices(const struct wk_scan *s, struct str_view body, struct str_view *ret,
                        unsigned max, int *ret_model_after)
{
    struct pieces it = pieces_of(s, body);
    struct wk_span piece;
    bool is_model;
    unsigned n = 0;

    *ret_model_after = -1;
    while (next_piece(&it, &piece, &is_model)) {
        if (piece.n == 0 && !is_model) {
            continue;
        }
        if (n < max) {
            ret[n] = sv_from(body.p + piece.at, piece.n);
        }
        if (is_model) {
            *ret_model_after = (int)n;
        }
        n++;
    }
    return n;
}

int wk_scan_rebuild(const struct wk_scan *s, struct str_view body, struct bytes *out,
                    long *ret_model_at)
{
    struct pieces it = pieces_of(s, body);
    struct wk_span piece;
    bool is_model;

    *ret_model_at = -1;
    while (next_piece(&it, &piece, &is_model)) {
        (void)bytes_put(out, body.p + piece.at, piece.n);
        if (is_model) {
            *ret_model_at = (long)out->n;
        }
    }
    return out->rc;
}
