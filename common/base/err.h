/* err.h - error codes and the detail that travels with them.
 *
 * A fallible function returns int: 0, or a negative ERR_* code, and starts from ERR_INTERNAL.
 * `struct err *` parameters may be NULL. A function logs an error or returns it, never both. */
#ifndef CFD_BASE_ERR_H
#define CFD_BASE_ERR_H

#include <stdbool.h>

#include "base/err_table.h"

enum err_ordinal {
#define X(name, ...) ERR_ORD_##name,
    ERR_TABLE(X)
#undef X
        ERR_ORD_COUNT
};

enum err_code {
    ERR_OK = 0,
#define X(name, ...) ERR_##name = -1 - (int)ERR_ORD_##name,
    ERR_TABLE(X)
#undef X
};

enum err_blame { ERR_BLAME_CLIENT, ERR_BLAME_UPSTREAM, ERR_BLAME_PEER, ERR_BLAME_SELF };

/* One row of the table. Strings are static; `code` may be NULL. */
struct err_info {
    const char *name;
    enum err_blame blame;
    bool is_retryable;
    int http;
    const char *type;
    const char *code;
    const char *text;
};

#define ERR_TEXT_MAX  512
#define ERR_PARAM_MAX 96

/* Detail of one error; a value type, copied freely, no pointers to free. */
struct err {
    int code;                  /* ERR_*, 0 = none */
    int native;                /* errno, uv, zmq or curl code; 0 = none */
    unsigned retry_after_ms;   /* 0 = unknown */
    char param[ERR_PARAM_MAX]; /* request or config field at fault, "" = none */
    char text[ERR_TEXT_MAX];   /* for people; never holds a secret */
};

/* Row of `code`; unknown codes give the row of ERR_INTERNAL. Never NULL. */
const struct err_info *err_info(int code);

/* Name of the code without prefix, e.g. "NOMEM". */
const char *err_name(int code);

/* Fills *e (may be NULL) and returns `code`. A NULL fmt uses the table's text. Cut at ERR_TEXT_MAX.
 */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set, with the field at fault. */
int err_set_param(struct err *e, int code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "prefix: " before the text already in *e; returns e->code (or ERR_INTERNAL if e is NULL). */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ENOMEM, ENOENT, ... to ERR_NOMEM, ERR_NOT_FOUND, ...; everything else ERR_IO. */
int err_from_errno(int native);

/* Sets *e from `native` with "what: strerror". Returns the code. */
int err_errno(struct err *e, int native, const char *what);

#endif
