/* wk_scan.c - see wk_scan.h. */
#include "wk_scan.h"

#include "wk_lex.h"

struct scanner {
    struct wk_lex lex;
    struct wk_scan *out;
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

static int take_key(struct scanner *s, struct key *k)
{
    bool has_escape = false;
    int rc;

    k->at = s->lex.i;
    if ((rc = wk_lex_string(&s->lex, &has_escape)) != 0) {
        return rc;
    }
    const char *p = s->lex.p + k->at + 1;
    const char *end = s->lex.p + s->lex.i - 1;
    k->is_whole = true;
    if (!has_escape) {
        k->text = sv_from(p, (size_t)(end - p));
        return 0;
    }
    size_t n = 0;
    while (p < end) {
        char c[4];
        unsigned m = wk_lex_char(&p, end, c);
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

/* --- objects that are looked into --- */

static int add_cut(struct scanner *s, size_t from, size_t to)
{
    if (s->out->cut_count >= WK_SCAN_CUTS_MAX) {
        return err_set(s->lex.e, ERR_INVALID,
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

    if (!wk_lex_is_at(&s->lex, '"')) {
        return wk_lex_bad(&s->lex, "expected a string key");
    }
    if ((rc = take_key(s, &k)) != 0) {
        return rc;
    }
    wk_lex_space(&s->lex);
    if (!wk_lex_is_at(&s->lex, ':')) {
        return wk_lex_bad(&s->lex, "expected ':'");
    }
    s->lex.i++;
    wk_lex_space(&s->lex);
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
        r->kept_end = s->lex.i;
    }
    return 0;
}

/* s->lex.i is at '{' of an object that will be level `depth` + 1. */
static int walk_object(struct scanner *s, const struct walk *w, unsigned depth)
{
    struct run r = {.kept_end = s->lex.i + 1};
    int rc;

    s->lex.i++;
    wk_lex_space(&s->lex);
    if (wk_lex_is_at(&s->lex, '}')) {
        s->lex.i++;
        return 0;
    }
    for (;;) {
        if ((rc = walk_member(s, w, depth + 1, &r)) != 0) {
            return rc;
        }
        wk_lex_space(&s->lex);
        if (wk_lex_is_at(&s->lex, '}')) {
            break;
        }
        if (!wk_lex_is_at(&s->lex, ',')) {
            return wk_lex_bad(&s->lex, "expected ',' or '}'");
        }
        s->lex.i++;
        wk_lex_space(&s->lex);
    }
    if (r.is_open && (rc = add_cut(s, r.kept_end, s->lex.i)) != 0) {
        return rc;
    }
    s->lex.i++;
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
    return wk_lex_value(&s->lex, depth);
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
    size_t at = s->lex.i;
    bool is_type = k->is_whole && sv_eq(k->text, SV_LIT("type")) && wk_lex_is_at(&s->lex, '"');
    int rc;

    (void)is_cut;
    if ((rc = wk_lex_value(&s->lex, depth)) != 0) {
        return rc;
    }
    if (is_type &&
        wk_scan_string(sv_from(s->lex.p + at, s->lex.i - at), type, sizeof(type), &n) == 0 &&
        sv_eq(sv_from(type, n), SV_LIT("code_interpreter"))) {
        s->out->has_code_interpreter = true;
    }
    return 0;
}

static const struct walk metadata_walk = {metadata_is_cut, take_skip};
static const struct walk tool_walk = {NULL, take_tool_member};

/* s->lex.i is at '[' of the tools. */
static int take_tools(struct scanner *s, unsigned depth)
{
    int rc;

    s->lex.i++;
    wk_lex_space(&s->lex);
    if (wk_lex_is_at(&s->lex, ']')) {
        s->lex.i++;
        return 0;
    }
    for (;;) {
        rc = wk_lex_is_at(&s->lex, '{') ? walk_object(s, &tool_walk, depth + 1)
                                        : wk_lex_value(&s->lex, depth + 1);
        if (rc != 0) {
            return rc;
        }
        wk_lex_space(&s->lex);
        if (wk_lex_is_at(&s->lex, ']')) {
            s->lex.i++;
            return 0;
        }
        if (!wk_lex_is_at(&s->lex, ',')) {
            return wk_lex_bad(&s->lex, "expected ',' or ']'");
        }
        s->lex.i++;
        wk_lex_space(&s->lex);
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
    enum wk_json type = wk_lex_type(&s->lex);
    size_t at = s->lex.i;
    int rc;

    if (key != WK_KEY_COUNT && s->out->type[key] != WK_JSON_ABSENT) {
        return err_set_param(s->lex.e, ERR_INVALID, key_names[key],
                             "Duplicate field: '%s' appears more than once; send it once.",
                             key_names[key]);
    }
    if (key == WK_KEY_TOOLS && type == WK_JSON_ARRAY) {
        rc = take_tools(s, depth);
    } else if (key == WK_KEY_METADATA && type == WK_JSON_OBJECT && !is_cut) {
        rc = walk_object(s, &metadata_walk, depth);
    } else {
        rc = wk_lex_value(&s->lex, depth);
    }
    if (rc == 0 && key != WK_KEY_COUNT) {
        s->out->type[key] = type;
        s->out->value[key] = (struct wk_span){at, s->lex.i - at};
    }
    return rc;
}

int wk_scan_body(struct wk_scan *ret, struct str_view body, struct err *e)
{
    static const struct walk top_walk = {top_is_cut, take_top};
    struct scanner s = {.lex = {.p = body.p, .n = body.n, .e = e}, .out = ret};
    int rc;

    memset(ret->value, 0, sizeof(ret->value));
    memset(ret->type, 0, sizeof(ret->type));
    ret->has_code_interpreter = false;
    ret->cut_count = 0;
    wk_lex_space(&s.lex);
    if (s.lex.i == s.lex.n) {
        return wk_lex_bad(&s.lex, "the body is empty");
    }
    if (!wk_lex_is_at(&s.lex, '{')) {
        if ((rc = wk_lex_value(&s.lex, 0)) != 0) {
            return rc;
        }
        return err_set(e, ERR_INVALID_TYPE, "The body of your request must be a JSON object.");
    }
    if ((rc = walk_object(&s, &top_walk, 0)) != 0) {
        return rc;
    }
    wk_lex_space(&s.lex);
    return s.lex.i == s.lex.n ? 0 : wk_lex_bad(&s.lex, "unexpected data after the object");
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
