#include "config/cfg_yaml.h"

#include <stdio.h>
#include <yaml.h>

#include "base/mem.h"

struct anchor {
    struct anchor *next;
    char *name;
    const struct cfg_node *node; /* borrowed from the tree */
};

struct parse {
    yaml_parser_t parser;
    const char *file;
    struct err *e;
    struct anchor *anchors; /* newest first */
    unsigned nodes;
    size_t text;
};

static int fail(const struct parse *p, unsigned line, const char *problem)
{
    return err_set(p->e, ERR_CONFIG, "%s:%u: %s", p->file, line, problem);
}

static char *dup_bytes(const void *s, size_t n)
{
    return mem_strndup(s, n);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, CFG_YAML_DEPTH_MAX */
void cfg_node_free(struct cfg_node *n)
{
    while (n != NULL) {
        struct cfg_node *next = n->next;

        cfg_node_free(n->first);
        cfg_node_free(n->hidden);
        if (n->text != NULL) {
            mem_wipe(n->text, n->len);
        }
        mem_free(n->text);
        mem_free(n->key);
        mem_free(n);
        n = next;
    }
}

static void append(struct cfg_node *parent, struct cfg_node *child)
{
    child->parent = parent;
    child->index = parent->count++;
    if (parent->last != NULL) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
}

static int node_new(struct parse *p, struct cfg_node **ret, enum cfg_node_kind kind, unsigned line)
{
    struct cfg_node *n;

    if (++p->nodes > CFG_YAML_NODES_MAX) {
        return fail(
            p, line,
            "the file holds too much (more than 50000 values after aliases); make it smaller");
    }
    if ((n = mem_zalloc(sizeof(*n))) == NULL) {
        return err_set(p->e, ERR_NOMEM, NULL);
    }
    n->kind = kind;
    n->line = line;
    *ret = n;
    return 0;
}

static int node_text(struct parse *p, struct cfg_node *n, const void *s, size_t len)
{
    if (len > CFG_YAML_TEXT_MAX - p->text) {
        return fail(
            p, n->line,
            "the file holds too much text after aliases (more than 4 MiB); make it smaller");
    }
    if (memchr(s, 0, len) != NULL) {
        return fail(p, n->line, "a value holds a NUL byte; remove it");
    }
    p->text += len;
    if ((n->text = dup_bytes(s, len)) == NULL) {
        return err_set(p->e, ERR_NOMEM, NULL);
    }
    n->len = len;
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): CFG_YAML_DEPTH_MAX levels */
static int node_copy(struct parse *p, struct cfg_node **ret, const struct cfg_node *src,
                     unsigned line, unsigned depth)
{
    struct cfg_node *n = NULL;
    int rc = ERR_INTERNAL;

    if (depth > CFG_YAML_DEPTH_MAX) {
        return fail(p, line, "nested more than 32 deep; flatten it");
    }
    if ((rc = node_new(p, &n, src->kind, line)) != 0) {
        return rc;
    }
    n->is_plain = src->is_plain;
    if (src->text != NULL && (rc = node_text(p, n, src->text, src->len)) != 0) {
        goto out;
    }
    for (const struct cfg_node *c = src->first; c != NULL; c = c->next) {
        struct cfg_node *child = NULL;

        if ((rc = node_copy(p, &child, c, line, depth + 1)) != 0) {
            goto out;
        }
        append(n, child);
        if (c->key != NULL && (child->key = mem_strdup(c->key)) == NULL) {
            rc = err_set(p->e, ERR_NOMEM, NULL);
            goto out;
        }
    }
    *ret = n;
    n = NULL;
out:
    cfg_node_free(n);
    return rc;
}

static int next_event(struct parse *p, yaml_event_t *ev)
{
    if (yaml_parser_parse(&p->parser, ev) != 0) {
        return 0;
    }
    if (p->parser.error == YAML_MEMORY_ERROR) {
        return err_set(p->e, ERR_NOMEM, NULL);
    }
    size_t line = p->parser.problem_mark.line + 1;

    if (p->parser.error == YAML_READER_ERROR) {
        return err_set(p->e, ERR_CONFIG,
                       "%s: not readable as YAML: %s at byte %zu; save the file as UTF-8", p->file,
                       p->parser.problem != NULL ? p->parser.problem : "bad encoding",
                       p->parser.problem_offset);
    }
    return err_set(p->e, ERR_CONFIG,
                   "%s:%zu: not valid YAML: %s; check indentation and quotes near this line",
                   p->file, line, p->parser.problem != NULL ? p->parser.problem : "syntax error");
}

static unsigned event_line(const yaml_event_t *ev)
{
    return (unsigned)ev->start_mark.line + 1;
}

static int anchor_put(struct parse *p, const yaml_char_t *name, const struct cfg_node *n)
{
    struct anchor *a;

    if (name == NULL) {
        return 0;
    }
    if ((a = mem_zalloc(sizeof(*a))) == NULL ||
        (a->name = mem_strdup((const char *)name)) == NULL) {
        mem_free(a);
        return err_set(p->e, ERR_NOMEM, NULL);
    }
    a->node = n;
    a->next = p->anchors;
    p->anchors = a;
    return 0;
}

static void anchors_free(struct parse *p)
{
    while (p->anchors != NULL) {
        struct anchor *a = p->anchors;

        p->anchors = a->next;
        mem_free(a->name);
        mem_free(a);
    }
}

/* Only the core types have a meaning here; `!!str` makes a plain scalar a string. */
static int check_tag(const struct parse *p, const yaml_char_t *tag, unsigned line, bool *ret_is_str)
{
    static const char *const core[] = {"str",  "int", "float", "bool",
                                       "null", "map", "seq",   "timestamp"};
    struct str_view t = sv_of((const char *)tag);
    struct str_view prefix = SV_LIT("tag:yaml.org,2002:");

    *ret_is_str = false;
    if (t.n == 0) {
        return 0;
    }
    if (sv_eq(t, SV_LIT("!"))) {
        *ret_is_str = true;
        return 0;
    }
    if (sv_starts(t, prefix)) {
        struct str_view name = {t.p + prefix.n, t.n - prefix.n};

        for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++) {
            if (sv_eq(name, sv_of(core[i]))) {
                *ret_is_str = i == 0;
                return 0;
            }
        }
    }
    return fail(p, line, "unsupported YAML tag; remove it");
}

static int parse_value(struct parse *p, const yaml_event_t *ev, struct cfg_node **ret,
                       unsigned depth);

static int parse_scalar(struct parse *p, const yaml_event_t *ev, struct cfg_node **ret)
{
    struct cfg_node *n = NULL;
    bool is_str = false;
    int rc = ERR_INTERNAL;

    if ((rc = check_tag(p, ev->data.scalar.tag, event_line(ev), &is_str)) != 0 ||
        (rc = node_new(p, &n, CFG_NODE_SCALAR, event_line(ev))) != 0) {
        return rc;
    }
    n->is_plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !is_str;
    if ((rc = node_text(p, n, ev->data.scalar.value, ev->data.scalar.length)) != 0) {
        cfg_node_free(n);
        return rc;
    }
    *ret = n;
    return 0;
}

static int parse_alias(struct parse *p, const yaml_event_t *ev, struct cfg_node **ret,
                       unsigned depth)
{
    for (const struct anchor *a = p->anchors; a != NULL; a = a->next) {
        if (strcmp(a->name, (const char *)ev->data.alias.anchor) == 0) {
            return node_copy(p, ret, a->node, event_line(ev), depth);
        }
    }
    return err_set(
        p->e, ERR_CONFIG,
        "%s:%u: *%.64s names no anchor that is complete at this point; define &%.64s above",
        p->file, event_line(ev), (const char *)ev->data.alias.anchor,
        (const char *)ev->data.alias.anchor);
}

/* NOLINTNEXTLINE(misc-no-recursion): CFG_YAML_DEPTH_MAX levels */
static int parse_seq(struct parse *p, struct cfg_node *seq, unsigned depth)
{
    for (;;) {
        yaml_event_t ev;
        struct cfg_node *child = NULL;
        int rc = next_event(p, &ev);

        if (rc != 0) {
            return rc;
        }
        if (ev.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&ev);
            return 0;
        }
        rc = parse_value(p, &ev, &child, depth + 1);
        yaml_event_delete(&ev);
        if (rc != 0) {
            return rc;
        }
        append(seq, child);
    }
}

static const struct cfg_node *find(const struct cfg_node *map, const char *key)
{
    for (const struct cfg_node *c = map->first; c != NULL; c = c->next) {
        if (strcmp(c->key, key) == 0) {
            return c;
        }
    }
    return NULL;
}

static int check_key(struct parse *p, const struct cfg_node *map, const yaml_event_t *ev)
{
    const char *key = (const char *)ev->data.scalar.value;
    const struct cfg_node *old;

    if (ev->type != YAML_SCALAR_EVENT) {
        return fail(p, event_line(ev), "a key is not a plain word; write KEY: VALUE");
    }
    if (ev->data.scalar.length == 0 || ev->data.scalar.length > CFG_YAML_KEY_MAX ||
        memchr(key, 0, ev->data.scalar.length) != NULL) {
        return fail(p, event_line(ev),
                    "a key is empty, longer than 256 bytes or holds a NUL byte; shorten it");
    }
    if (map->count >= CFG_YAML_KEYS_MAX) {
        return fail(p, event_line(ev), "more than 2000 keys in one map; make it smaller");
    }
    if ((old = find(map, key)) != NULL) {
        return err_set(p->e, ERR_CONFIG, "%s:%u: %.100s: given twice, first on line %u; keep one",
                       p->file, event_line(ev), key, old->line);
    }
    return 0;
}

static int merge_one(struct parse *p, struct cfg_node *map, const struct cfg_node *src,
                     unsigned depth)
{
    if (src->kind != CFG_NODE_MAP) {
        return fail(p, src->line, "<< needs a map or a list of maps; merge a map");
    }
    for (const struct cfg_node *c = src->first; c != NULL; c = c->next) {
        struct cfg_node *copy = NULL;
        int rc;

        if (find(map, c->key) != NULL) {
            continue; /* the map's own keys, and earlier merges, win */
        }
        if (map->count >= CFG_YAML_KEYS_MAX) {
            return fail(p, src->line, "more than 2000 keys in one map; make it smaller");
        }
        if ((rc = node_copy(p, &copy, c, c->line, depth + 1)) != 0) {
            return rc;
        }
        append(map, copy);
        if ((copy->key = mem_strdup(c->key)) == NULL) {
            return err_set(p->e, ERR_NOMEM, NULL);
        }
    }
    return 0;
}

/* Takes the `<<` entry out of the list and adds what it names. */
static int merge(struct parse *p, struct cfg_node *map, unsigned depth)
{
    struct cfg_node **link = &map->first;
    struct cfg_node *prev = NULL;

    while (*link != NULL && strcmp((*link)->key, "<<") != 0) {
        prev = *link;
        link = &prev->next;
    }
    if (*link == NULL) {
        return 0;
    }
    struct cfg_node *src = *link;
    int rc = 0;

    *link = src->next;
    if (map->last == src) {
        map->last = prev;
    }
    src->next = NULL;
    map->hidden = src; /* anchors may point into it */
    map->count--;
    if (src->kind == CFG_NODE_SEQ) {
        for (const struct cfg_node *c = src->first; c != NULL && rc == 0; c = c->next) {
            rc = merge_one(p, map, c, depth);
        }
        return rc;
    }
    return merge_one(p, map, src, depth);
}

/* NOLINTNEXTLINE(misc-no-recursion): CFG_YAML_DEPTH_MAX levels */
static int parse_map(struct parse *p, struct cfg_node *map, unsigned depth)
{
    for (;;) {
        yaml_event_t ev;
        yaml_event_t val;
        struct cfg_node *child = NULL;
        char *key = NULL;
        int rc = next_event(p, &ev);

        if (rc != 0) {
            return rc;
        }
        if (ev.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&ev);
            return merge(p, map, depth);
        }
        if ((rc = check_key(p, map, &ev)) == 0 &&
            (key = dup_bytes(ev.data.scalar.value, ev.data.scalar.length)) == NULL) {
            rc = err_set(p->e, ERR_NOMEM, NULL);
        }
        unsigned key_line = event_line(&ev);

        yaml_event_delete(&ev);
        if (rc != 0) {
            return rc;
        }
        if ((rc = next_event(p, &val)) != 0) {
            mem_free(key);
            return rc;
        }
        rc = parse_value(p, &val, &child, depth + 1);
        yaml_event_delete(&val);
        if (rc != 0) {
            mem_free(key);
            return rc;
        }
        child->key = key;
        child->line = key_line;
        append(map, child);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): CFG_YAML_DEPTH_MAX levels */
static int parse_value(struct parse *p, const yaml_event_t *ev, struct cfg_node **ret,
                       unsigned depth)
{
    bool is_map = ev->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *anchor = NULL;
    struct cfg_node *n = NULL;
    bool is_str = false;
    int rc = ERR_INTERNAL;

    if (depth > CFG_YAML_DEPTH_MAX) {
        return fail(p, event_line(ev), "nested more than 32 deep; flatten it");
    }
    if (ev->type == YAML_ALIAS_EVENT) {
        return parse_alias(p, ev, ret, depth);
    }
    if (ev->type == YAML_SCALAR_EVENT) {
        anchor = ev->data.scalar.anchor;
        rc = parse_scalar(p, ev, &n);
    } else if (is_map || ev->type == YAML_SEQUENCE_START_EVENT) {
        anchor = is_map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor;
        rc = check_tag(p, is_map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag,
                       event_line(ev), &is_str);
        if (rc == 0) {
            rc = node_new(p, &n, is_map ? CFG_NODE_MAP : CFG_NODE_SEQ, event_line(ev));
        }
        if (rc == 0) {
            rc = is_map ? parse_map(p, n, depth) : parse_seq(p, n, depth);
        }
    } else {
        rc = fail(p, event_line(ev), "unexpected end of the document; finish the value");
    }
    if (rc == 0) {
        rc = anchor_put(p, anchor, n);
    }
    if (rc != 0) {
        cfg_node_free(n);
        return rc;
    }
    *ret = n;
    return 0;
}

/* STREAM-START, DOCUMENT-START, value, DOCUMENT-END, STREAM-END. */
static int parse_stream(struct parse *p, struct cfg_node **ret)
{
    static const char *const extra = "more than one YAML document in the file; keep one";
    struct cfg_node *root = NULL;
    yaml_event_t ev;
    int rc = ERR_INTERNAL;

    for (;;) {
        if ((rc = next_event(p, &ev)) != 0) {
            break;
        }
        yaml_event_type_t type = ev.type;

        if (type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&ev);
            break;
        }
        if (type == YAML_DOCUMENT_START_EVENT && root != NULL) {
            rc = fail(p, event_line(&ev), extra);
        } else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
                   type != YAML_DOCUMENT_END_EVENT) {
            rc = parse_value(p, &ev, &root, 0);
        }
        yaml_event_delete(&ev);
        if (rc != 0) {
            break;
        }
    }
    if (rc == 0 && (root == NULL || cfg_node_is_null(root))) {
        cfg_node_free(root);
        root = NULL;
        rc = node_new(p, &root, CFG_NODE_MAP, 1);
    }
    if (rc == 0 && root->kind != CFG_NODE_MAP) {
        rc = fail(p, root->line,
                  "the file is not a map of keys; start with model_list: or cofferdam:");
    }
    if (rc != 0) {
        cfg_node_free(root);
        return rc;
    }
    *ret = root;
    return 0;
}

int cfg_yaml_parse(struct cfg_node **ret, const char *file, struct str_view text, struct err *e)
{
    struct parse p = {.file = file, .e = e};
    int rc = ERR_INTERNAL;

    if (text.n > CFG_YAML_FILE_MAX) {
        return err_set(e, ERR_CONFIG, "%s: larger than 1 MiB; split off what is not configuration",
                       file);
    }
    if (yaml_parser_initialize(&p.parser) == 0) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    yaml_parser_set_input_string(&p.parser, (const unsigned char *)(text.n > 0 ? text.p : ""),
                                 text.n);
    rc = parse_stream(&p, ret);
    anchors_free(&p);
    yaml_parser_delete(&p.parser);
    return rc;
}

const struct cfg_node *cfg_node_get(const struct cfg_node *map, const char *key)
{
    const struct cfg_node *n;

    if (map == NULL || map->kind != CFG_NODE_MAP || (n = find(map, key)) == NULL ||
        cfg_node_is_null(n)) {
        return NULL;
    }
    return n;
}

static bool text_is_any(const struct cfg_node *n, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(n->text, *words) == 0) {
            return true;
        }
    }
    return false;
}

bool cfg_node_is_null(const struct cfg_node *n)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};

    return n == NULL || (n->kind == CFG_NODE_SCALAR && n->is_plain && text_is_any(n, words));
}

int cfg_node_bool(const struct cfg_node *n)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};

    if (n == NULL || n->kind != CFG_NODE_SCALAR) {
        return -1;
    }
    if (n->is_plain ? text_is_any(n, yes) : strcmp(n->text, "true") == 0) {
        return 1;
    }
    if (n->is_plain ? text_is_any(n, no) : strcmp(n->text, "false") == 0) {
        return 0;
    }
    return -1;
}

void cfg_node_path(const struct cfg_node *n, char *dst, size_t cap)
{
    const struct cfg_node *chain[CFG_YAML_DEPTH_MAX + 2];
    size_t depth = 0;
    size_t at = 0;

    dst[0] = '\0';
    for (; n != NULL && n->parent != NULL && depth < sizeof(chain) / sizeof(chain[0]);
         n = n->parent) {
        chain[depth++] = n;
    }
    while (depth > 0 && at < cap) {
        const struct cfg_node *c = chain[--depth];
        int w = c->key != NULL ? snprintf(dst + at, cap - at, "%s%.64s", at > 0 ? "." : "", c->key)
                               : snprintf(dst + at, cap - at, "[%u]", c->index);

        at += w > 0 ? (size_t)w : 0;
    }
}
