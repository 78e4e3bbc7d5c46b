/* metric_render: snapshots of many processes become one exposition. Every line comes from a peer
 * and is parsed strictly; what does not fit its family is dropped, as is a series that appears
 * twice (scrapers refuse a whole page for it). */
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric_kind.h"

#define LINES_MAX      200000
#define LINE_BYTES_MAX 1024
#define NONE           UINT32_MAX

struct line {
    struct str_view text;
    uint32_t next; /* of the same family, NONE at the end */
};

struct render {
    struct map *families; /* name -> its element of `first` */
    struct map *seen;     /* series */
    struct line *lines;   /* owned */
    uint32_t count;
    uint32_t cap;
    uint32_t first[METRIC_COUNT];
    uint32_t last[METRIC_COUNT];
};

static bool take_char(struct str_view *s, char c)
{
    if (s->n == 0 || s->p[0] != c) {
        return false;
    }
    s->p++;
    s->n--;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
}

static struct str_view take_word(struct str_view *s)
{
    struct str_view w = {s->p, 0};

    while (w.n < s->n && is_word(s->p[w.n])) {
        w.n++;
    }
    s->p += w.n;
    s->n -= w.n;
    return w;
}

/* "...": printable ASCII with \\ and \" as the only escapes. */
static bool take_value(struct str_view *s, struct str_view *ret)
{
    size_t i = 0;

    if (!take_char(s, '"')) {
        return false;
    }
    for (; i < s->n && s->p[i] != '"'; i++) {
        if (s->p[i] == '\\' && ++i < s->n && s->p[i] != '"' && s->p[i] != '\\') {
            return false;
        }
        if (i >= s->n || s->p[i] < ' ' || s->p[i] > '~') {
            return false;
        }
    }
    if (i >= s->n) {
        return false;
    }
    *ret = (struct str_view){s->p, i};
    s->p += i + 1;
    s->n -= i + 1;
    return true;
}

static bool take_label(struct str_view *s, struct str_view name, struct str_view *ret_value)
{
    return sv_eq(take_word(s), name) && take_char(s, '=') && take_value(s, ret_value);
}

static size_t digits(struct str_view s, size_t i)
{
    size_t start = i;

    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9') {
        i++;
    }
    return i - start;
}

static bool is_number(struct str_view s)
{
    size_t i = s.n > 0 && s.p[0] == '-' ? 1 : 0;
    size_t n = digits(s, i);

    if (n == 0) {
        return sv_eq(s, SV_LIT("inf")) || sv_eq(s, SV_LIT("-inf")) || sv_eq(s, SV_LIT("nan")) ||
               sv_eq(s, SV_LIT("-nan"));
    }
    i += n;
    if (i < s.n && s.p[i] == '.') {
        n = digits(s, i + 1);
        i += n > 0 ? n + 1 : 0;
    }
    if (i < s.n && s.p[i] == 'e') {
        size_t sign = i + 1 < s.n && (s.p[i + 1] == '-' || s.p[i + 1] == '+') ? 1 : 0;

        n = digits(s, i + 1 + sign);
        i += n > 0 ? n + 1 + sign : 0;
    }
    return i == s.n && s.n <= 32;
}

static const struct metric_family *named_family(const struct render *r, struct str_view name)
{
    const uint32_t *first = map_get(r->families, name);

    return first != NULL ? &metric_families[first - r->first] : NULL;
}

static const struct metric_family *find_family(const struct render *r, struct str_view name,
                                               bool *ret_is_bucket)
{
    static const struct str_view suffixes[] = {{"_bucket", 7}, {"_sum", 4}, {"_count", 6}};
    const struct metric_family *f = named_family(r, name);

    *ret_is_bucket = false;
    if (f != NULL) {
        return f->kind != METRIC_KIND_HISTOGRAM ? f : NULL;
    }
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        struct str_view tail = suffixes[i];

        if (name.n > tail.n && memcmp(name.p + name.n - tail.n, tail.p, tail.n) == 0) {
            f = named_family(r, (struct str_view){name.p, name.n - tail.n});
            *ret_is_bucket = i == 0;
            return f != NULL && f->kind == METRIC_KIND_HISTOGRAM ? f : NULL;
        }
    }
    return NULL;
}

/* The family of a well-formed line, or NULL; *ret_series = the part before the value. */
static const struct metric_family *parse_line(const struct render *r, struct str_view line,
                                              struct str_view *ret_series)
{
    struct str_view s = line;
    struct str_view value;
    bool is_bucket;
    const struct metric_family *f = find_family(r, take_word(&s), &is_bucket);

    if (f == NULL || line.n > LINE_BYTES_MAX || !take_char(&s, '{')) {
        return NULL;
    }
    for (unsigned i = 0; i < METRIC_LABELS_MAX; i++) {
        struct str_view label = metric_label(f, i);

        if (label.n > 0 && (!take_label(&s, label, &value) || !take_char(&s, ','))) {
            return NULL;
        }
    }
    if (is_bucket && (!take_label(&s, SV_LIT("le"), &value) ||
                      !(is_number(value) || sv_eq(value, SV_LIT("+Inf"))) || !take_char(&s, ','))) {
        return NULL;
    }
    if (!take_label(&s, SV_LIT("process"), &value) || value.n == 0 || !take_char(&s, '}')) {
        return NULL;
    }
    *ret_series = (struct str_view){line.p, (size_t)(s.p - line.p)};
    return take_char(&s, ' ') && is_number(s) ? f : NULL;
}

static int add_line(struct render *r, struct str_view text)
{
    struct str_view series;
    const struct metric_family *f = parse_line(r, text, &series);
    size_t id;
    int rc;

    if (f == NULL || r->count == LINES_MAX || map_get(r->seen, series) != NULL) {
        return 0;
    }
    if (r->count == r->cap) {
        uint32_t cap = r->cap > 0 ? 2 * r->cap : 256;
        struct line *lines = mem_realloc(r->lines, cap * sizeof(*lines));

        if (lines == NULL) {
            return ERR_NOMEM;
        }
        r->lines = lines;
        r->cap = cap;
    }
    if ((rc = map_put(r->seen, series, r)) != 0) {
        return rc;
    }
    id = (size_t)(f - metric_families);
    r->lines[r->count] = (struct line){text, NONE};
    if (r->first[id] == NONE) {
        r->first[id] = r->count;
    } else {
        r->lines[r->last[id]].next = r->count;
    }
    r->last[id] = r->count++;
    return 0;
}

static int render_init(struct render *r)
{
    int rc = 0;

    memset(r, 0, sizeof(*r));
    r->families = map_new(METRIC_COUNT);
    r->seen = map_new(LINES_MAX);
    if (r->families == NULL || r->seen == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < METRIC_COUNT && rc == 0; i++) {
        r->first[i] = NONE;
        rc = map_put(r->families, metric_families[i].name, &r->first[i]);
    }
    return rc;
}

static void render_fini(struct render *r)
{
    map_free(r->families);
    map_free(r->seen);
    mem_free(r->lines);
}

static void put_family(struct bytes *out, const struct render *r, size_t id)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    const struct metric_family *f = &metric_families[id];
    const char *name = f->name.p;

    (void)bytes_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, f->help, name, types[f->kind]);
    for (uint32_t i = r->first[id]; i != NONE; i = r->lines[i].next) {
        (void)bytes_put_sv(out, r->lines[i].text);
        (void)bytes_put_char(out, '\n');
    }
}

int metric_render(struct bytes *out, struct str_view snapshots)
{
    struct render r;
    int rc = render_init(&r);

    while (rc == 0 && snapshots.n > 0) {
        struct str_view text = {snapshots.p, sv_find(snapshots, '\n')};
        size_t step = text.n < snapshots.n ? text.n + 1 : text.n;

        rc = add_line(&r, text);
        snapshots.p += step;
        snapshots.n -= step;
    }
    for (size_t id = 0; id < METRIC_COUNT && rc == 0; id++) {
        if (r.first[id] != NONE) {
            put_family(out, &r, id);
        }
    }
    render_fini(&r);
    return rc != 0 ? rc : out->rc;
}
