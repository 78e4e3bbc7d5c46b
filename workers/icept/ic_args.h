/* ic_args.h - decodes {"code": "..."} while it arrives. Pure; fuzzed.
 *
 * Tool arguments are JSON text that a model writes piece by piece. The decoder gives out the text
 * of the top-level member `code` as soon as its characters are complete, whatever other members
 * stand around it. It does not judge the rest of the syntax: that is icj_parse's part once the
 * arguments are complete (ic_args_end does both).
 *
 * Threads:  one owner. Bounds: nothing is kept but the decoded text, whose cap is the caller's. */
#ifndef CFD_ICEPT_IC_ARGS_H
#define CFD_ICEPT_IC_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum ic_args_state {
    IC_ARGS_START,  /* before { */
    IC_ARGS_MEMBER, /* before a name */
    IC_ARGS_NAME,   /* inside a name */
    IC_ARGS_COLON,  /* after a name */
    IC_ARGS_VALUE,  /* after the colon */
    IC_ARGS_CODE,   /* inside the text of `code` */
    IC_ARGS_OTHER,  /* inside another value */
    IC_ARGS_DONE    /* after `code`, or not an object: the rest does not matter */
};

struct ic_args {
    enum ic_args_state state;
    char name[8]; /* raw start of the current name */
    unsigned name_n;
    unsigned depth;    /* of OTHER */
    bool is_in_string; /* of OTHER */
    bool is_escaped;   /* after a backslash */
    unsigned hex_left; /* digits of \uXXXX still to come */
    unsigned unit;     /* being read */
    unsigned high;     /* first half of a surrogate pair, 0 = none */
    bool has_code;     /* `code` was found and was closed */
};

void ic_args_init(struct ic_args *a);
/* Appends what became complete to `code`. */
void ic_args_feed(struct ic_args *a, struct str_view piece, struct bytes *code);
/* `whole` = all pieces. True when it is a JSON object whose first `code` is a string: then `code`
 * holds it. */
bool ic_args_end(struct ic_args *a, struct str_view whole);

#endif
