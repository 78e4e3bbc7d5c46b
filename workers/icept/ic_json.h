/* ic_json.h - JSON as spans of the original text. Pure.
 *
 * The loop takes requests and answers apart, changes a few members and sends the rest on. Values
 * that are not changed travel as the bytes they came as: a number keeps all its digits, a string
 * its escapes, an unknown member its shape. A tree that is printed again cannot promise that
 * (integers over 64 bits, floats, lone surrogates).
 *
 * Threads:  any. Lifetime: spans borrow from the text they were parsed from.
 * Errors:   ERR_INVALID_JSON with the offset from icj_parse; everything else works on a validated
 * span only. Bounds:   nesting ICJ_DEPTH_MAX. */
#ifndef CFD_ICEPT_IC_JSON_H
#define CFD_ICEPT_IC_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define ICJ_DEPTH_MAX 256

enum icj_type {
    ICJ_ABSENT, /* a zeroed icj is "no value" */
    ICJ_NULL,
    ICJ_FALSE,
    ICJ_TRUE,
    ICJ_NUMBER,
    ICJ_STRING,
    ICJ_ARRAY,
    ICJ_OBJECT
};

struct icj {
    enum icj_type type;
    struct str_view raw; /* without surrounding space */
};

/* Iterates elements or members; zero-initialise through icj_iter. */
struct icj_iter {
    const char *p;
    const char *end;
};

/* Strict RFC 8259: exactly one value. */
int icj_parse(struct icj *ret, struct str_view text, struct err *e);

struct icj_iter icj_iter(struct icj container);      /* of anything else: an empty iteration */
bool icj_next(struct icj_iter *it, struct icj *ret); /* array */
bool icj_next_member(struct icj_iter *it, struct icj *ret_key, struct icj *ret); /* object */

/* Member by (decoded) name; the last one of equal names, ICJ_ABSENT when there is none or `object`
 * is not one. */
struct icj icj_get(struct icj object, const char *name);
/* Member of a member. */
struct icj icj_get2(struct icj object, const char *name, const char *inner);
bool icj_is(struct icj v, const char *text); /* a string with exactly this decoded text */
bool icj_is_set(struct icj v);               /* present and not null */
/* Appends the decoded text of a string as UTF-8; lone surrogates become U+FFFD. */
void icj_text(struct icj string, struct bytes *out);
/* Decoded text without a copy when it has no escapes, else through `tmp`. Not a string: the empty
 * view. */
struct str_view icj_view(struct icj string, struct bytes *tmp);
/* A number that is a whole one and fits: 12, 12.0, 1e3. */
bool icj_int(struct icj v, int64_t *ret);
uint64_t icj_uint_or(struct icj v, uint64_t fallback); /* of a non-negative whole number */
/* "a string", "an object", ... for messages. */
const char *icj_type_text(enum icj_type type);

/* One change made by icj_copy. `raw` NULL: the member is left out. */
struct icj_edit {
    const char *name;
    struct str_view raw;
    bool is_added; /* added at the end when the object has no such member */
};

/* Appends `object` with the edits made (an edited name appears once; other members are copied as
 * they are). */
void icj_copy(struct bytes *out, struct icj object, const struct icj_edit *edits, unsigned count);

/* {"..":.., writers: `,` is put before unless the text ends with { or [ or is empty. */
void icj_put_key(struct bytes *out, const char *name);
void icj_put_str(struct bytes *out, const char *name,
                 struct str_view text); /* member with a string */
void icj_put_raw(struct bytes *out, const char *name, struct str_view raw); /* member with JSON */
void icj_put_u64(struct bytes *out, const char *name, uint64_t v);
void icj_put_comma(struct bytes *out);

#endif
