#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES     4096 /* PIPE_BUF: a line in a pipe is never mixed with another process's */
#define VALUE_MAX_BYTES    1024
#define LINES_PER_SECOND   200
#define NAME_MAX_BYTES     31
#define STAMP_MAX_BYTES    32
#define SUPPRESSED_NOTHING UINT64_MAX

static const struct {
    const char *name;
    enum log_level level;
} events[] = {
#define DEBUG               LOG_LEVEL_DEBUG
#define INFO                LOG_LEVEL_INFO
#define WARN                LOG_LEVEL_WARN
#define ERROR               LOG_LEVEL_ERROR
#define X(name, level, doc) {#name, level},
    LOG_TABLE(X)
#undef X
#undef DEBUG
#undef INFO
#undef WARN
#undef ERROR
};

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

static char process_name[NAME_MAX_BYTES + 1] = "-"; /* written before threads start */
static atomic_int level_min = LOG_LEVEL_INFO;

/* Rate limit, one window of a second per event. */
static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t second;
    unsigned lines;
    uint64_t suppressed;
} rates[LOG_EV_COUNT];
static atomic_bool has_suppressed;

struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
};

void log_init(const char *name)
{
    snprintf(process_name, sizeof(process_name), "%s", name);
}

void log_set_level(enum log_level min)
{
    atomic_store(&level_min, (int)min);
}

bool log_level_parse(struct str_view s, enum log_level *ret)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (sv_eq_nocase(s, sv_of(level_names[i]))) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void add(struct line *l, const char *p, size_t n)
{
    size_t room = sizeof(l->text) - 1 - l->n; /* one byte stays for the newline */

    n = n < room ? n : room;
    memcpy(l->text + l->n, p, n);
    l->n += n;
}

static void add_str(struct line *l, const char *s)
{
    add(l, s, strlen(s));
}

static bool is_plain(unsigned char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
}

static void add_escaped(struct line *l, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char x[4] = {'\\', 'x', hex[c >> 4], hex[c & 15]};

    switch (c) {
    case '\n':
        add(l, "\\n", 2);
        break;
    case '\r':
        add(l, "\\r", 2);
        break;
    case '\t':
        add(l, "\\t", 2);
        break;
    case '"':
        add(l, "\\\"", 2);
        break;
    case '\\':
        add(l, "\\\\", 2);
        break;
    default:
        if (c >= ' ' && c < 0x7f) {
            add(l, (const char *)&c, 1);
        } else {
            add(l, x, sizeof(x));
        }
        break;
    }
}

static void add_value(struct line *l, struct str_view s)
{
    size_t plain = 0;
    bool is_cut = s.n > VALUE_MAX_BYTES;

    s.n = is_cut ? VALUE_MAX_BYTES : s.n;
    while (plain < s.n && is_plain((unsigned char)s.p[plain])) {
        plain++;
    }
    if (plain == s.n && s.n > 0) {
        add(l, s.p, s.n);
    } else {
        add(l, "\"", 1);
        for (size_t i = 0; i < s.n; i++) {
            add_escaped(l, (unsigned char)s.p[i]);
        }
        add(l, "\"", 1);
    }
    if (is_cut) {
        add_str(l, "...");
    }
}

static void add_kv(struct line *l, const struct log_kv *kv)
{
    char number[32];

    add(l, " ", 1);
    add_str(l, kv->key);
    add(l, "=", 1);
    switch (kv->kind) {
    case LOG_KIND_STR:
        add_value(l, kv->v.s);
        break;
    case LOG_KIND_INT:
        snprintf(number, sizeof(number), "%lld", (long long)kv->v.i);
        add_str(l, number);
        break;
    case LOG_KIND_UINT:
        snprintf(number, sizeof(number), "%llu", (unsigned long long)kv->v.u);
        add_str(l, number);
        break;
    case LOG_KIND_DOUBLE:
        snprintf(number, sizeof(number), "%.6g", kv->v.d);
        add_str(l, number);
        break;
    case LOG_KIND_END:
        break;
    }
}

static void add_stamp(struct line *l)
{
    uint64_t ms = clock_unix_ms();
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char stamp[STAMP_MAX_BYTES];
    char millis[8];

    if (gmtime_r(&s, &tm) == NULL ||
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
        stamp[0] = '\0';
    }
    add_str(l, stamp);
    snprintf(millis, sizeof(millis), ".%03uZ", (unsigned)(ms % 1000));
    add_str(l, millis);
}

static void write_line(enum log_event ev, const struct request_id *rid, const struct log_kv *kv)
{
    struct line l;
    char id[2 * REQUEST_ID_BYTES + 1];
    ssize_t n;

    l.n = 0;
    add_stamp(&l);
    add(&l, " ", 1);
    add_str(&l, level_names[events[ev].level]);
    add(&l, " ", 1);
    add_str(&l, process_name);
    add(&l, " ", 1);
    add_str(&l, events[ev].name);
    if (rid != NULL) {
        hex_encode(id, rid->b, sizeof(rid->b));
        add_str(&l, " rid=req_");
        add_str(&l, id);
    }
    for (; kv->kind != LOG_KIND_END; kv++) {
        add_kv(&l, kv);
    }
    l.text[l.n++] = '\n';
    n = write(STDERR_FILENO, l.text, l.n);
    (void)n; /* a log that cannot be written is lost, never an error of the work */
}

/* Counts this line; false = over the limit. */
static bool rate_admit(enum log_event ev, uint64_t second)
{
    bool ok;

    (void)pthread_mutex_lock(&rate_lock);
    if (rates[ev].second != second && rates[ev].suppressed == 0) {
        rates[ev].second = second;
        rates[ev].lines = 0;
    }
    ok = rates[ev].second == second && rates[ev].lines < LINES_PER_SECOND;
    if (ok) {
        rates[ev].lines++;
    } else {
        rates[ev].suppressed++;
        atomic_store_explicit(&has_suppressed, true, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&rate_lock);
    return ok;
}

/* Takes the count of an event whose second is over; 0 = nothing to say. */
static uint64_t rate_take(enum log_event ev, uint64_t second, bool *ret_left)
{
    uint64_t n = 0;

    (void)pthread_mutex_lock(&rate_lock);
    if (rates[ev].suppressed > 0 && rates[ev].second != second) {
        n = rates[ev].suppressed;
        rates[ev].suppressed = 0;
        rates[ev].lines = 0;
        rates[ev].second = second;
    } else if (rates[ev].suppressed > 0) {
        *ret_left = true;
    }
    (void)pthread_mutex_unlock(&rate_lock);
    return n;
}

static void sum_up(uint64_t second)
{
    bool is_left = false;

    if (!atomic_exchange_explicit(&has_suppressed, false, memory_order_relaxed)) {
        return;
    }
    for (int ev = 0; ev < LOG_EV_COUNT; ev++) {
        uint64_t n = rate_take((enum log_event)ev, second, &is_left);

        if (n > 0) {
            const struct log_kv kv[] = {
                KV_S("event", events[ev].name), KV_U("lines", n), {NULL, LOG_KIND_END, {.u = 0}}};

            write_line(LOG_EV_LOG_SUPPRESSED, NULL, kv);
        }
    }
    if (is_left) {
        atomic_store_explicit(&has_suppressed, true, memory_order_relaxed);
    }
}

void log_flush(void)
{
    sum_up(SUPPRESSED_NOTHING);
}

void log_tick(void)
{
    sum_up(clock_ms() / 1000);
}

void log_write(enum log_event ev, const struct request_id *rid, const struct log_kv *kv)
{
    uint64_t second;

    if ((int)events[ev].level < atomic_load_explicit(&level_min, memory_order_relaxed)) {
        return;
    }
    second = clock_ms() / 1000;
    sum_up(second);
    if (rate_admit(ev, second)) {
        write_line(ev, rid, kv);
    }
}
