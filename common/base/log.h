/* log.h - one line per event on stderr:
 *   2026-01-31T12:00:00.123Z INFO frontend-0 REQUEST_DONE rid=req_... status=200 ms=12
 * Values are quoted and escaped when they hold anything but plain printable text, so a hostile
 * string cannot forge a line. Never log a secret, a body or a header value.
 *
 * Threads: any. Lines are written with one write(2). Rate limit: an event that exceeds 200 lines a
 * second is counted and summed up in one line when the second ends. */
#ifndef CFD_BASE_LOG_H
#define CFD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/log_table.h"
#include "base/str.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

enum log_event {
#define X(name, level, doc) LOG_EV_##name,
    LOG_TABLE(X)
#undef X
        LOG_EV_COUNT
};

enum log_kind { LOG_KIND_END, LOG_KIND_STR, LOG_KIND_INT, LOG_KIND_UINT, LOG_KIND_DOUBLE };

struct log_kv {
    const char *key;
    enum log_kind kind;
    union {
        struct str_view s;
        int64_t i;
        uint64_t u;
        double d;
    } v;
};

#define KV_S(k, str) ((struct log_kv){(k), LOG_KIND_STR, {.s = sv_of(str)}})
#define KV_SV(k, sv) ((struct log_kv){(k), LOG_KIND_STR, {.s = (sv)}})
#define KV_I(k, n)   ((struct log_kv){(k), LOG_KIND_INT, {.i = (int64_t)(n)}})
#define KV_U(k, n)   ((struct log_kv){(k), LOG_KIND_UINT, {.u = (uint64_t)(n)}})
#define KV_D(k, x)   ((struct log_kv){(k), LOG_KIND_DOUBLE, {.d = (x)}})
/* Two pairs: err=NAME detail="text". */
#define KV_ERR(e)    KV_S("err", err_name((e)->code)), KV_S("detail", (e)->text)

/* LOG(REQUEST_DONE, &rid, KV_U("status", 200)); `rid` (const struct request_id *) may be NULL. */
#define LOG(event, rid, ...)                                                                       \
    log_write(LOG_EV_##event, (rid),                                                               \
              (const struct log_kv[]){__VA_ARGS__, {NULL, LOG_KIND_END, {.u = 0}}})

void log_init(const char *process_name);                      /* copied, at most 31 bytes */
void log_set_level(enum log_level min);                       /* default INFO */
bool log_level_parse(struct str_view s, enum log_level *ret); /* debug info warn error */
void log_write(enum log_event ev, const struct request_id *rid, const struct log_kv *kv);
/* Writes the sums of suppressed lines whose second is over; every log_write does it too, so a loop
 * needs to call this about once a second only to be timely. log_flush writes all sums, e.g. before
 * exit. */
void log_tick(void);
void log_flush(void);

#endif
