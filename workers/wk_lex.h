/* wk_lex.h - the lexical half of wk_scan: a cursor over JSON bytes that checks what it steps over.
 * Values are skipped iteratively with a bit per level, so depth costs no stack. Pure; for
 * wk_scan.c and wk_sandbox_json.c. */
#ifndef CFD_WORKERS_WK_LEX_H
#define CFD_WORKERS_WK_LEX_H

#include <stdbool.h>

#include "base/err.h"
#include "wk_scan.h"

struct wk_lex {
    const char *p;
    size_t n;
    size_t i;    /* the cursor */
    bool is_bad; /* a syntax error was reported in *e */
    struct err *e;
};

/* Reports the first syntax error with its offset; returns ERR_INVALID_JSON. */
int wk_lex_bad(struct wk_lex *s, const char *why);
void wk_lex_space(struct wk_lex *s);
static inline bool wk_lex_is_at(const struct wk_lex *s, char c)
{
    return s->i < s->n && s->p[s->i] == c;
}
/* The cursor is at an opening quote; moves behind the closing one. */
int wk_lex_string(struct wk_lex *s, bool *ret_has_escape);
/* What kind of value starts here; ABSENT = none can. */
enum wk_json wk_lex_type(const struct wk_lex *s);
/* The cursor is at a value inside `depth` open levels; moves behind it. */
int wk_lex_value(struct wk_lex *s, unsigned depth);
/* One character of a checked string at *in; writes 1..4 bytes to dst, returns how many. */
unsigned wk_lex_char(const char **in, const char *end, char dst[4]);

#endif
