/* wk_retry.c - see wk_retry.h. */
#include "wk_retry.h"

#include <time.h>

#include "wk_headers.h"

static bool two_digits(const char *p, int *ret)
{
    if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9') {
        return false;
    }
    *ret = (p[0] - '0') * 10 + (p[1] - '0');
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form that is sent today. */
static bool parse_date(struct str_view s, uint64_t *ret_unix_ms)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    int century;
    int year;

    if (s.n != 29 || s.p[3] != ',' || !sv_eq(sv_from(s.p + 25, 4), SV_LIT(" GMT"))) {
        return false;
    }
    for (tm.tm_mon = 0; tm.tm_mon < 12; tm.tm_mon++) {
        if (memcmp(months + (size_t)tm.tm_mon * 3, s.p + 8, 3) == 0) {
            break;
        }
    }
    if (tm.tm_mon == 12 || !two_digits(s.p + 5, &tm.tm_mday) || !two_digits(s.p + 12, &century) ||
        !two_digits(s.p + 14, &year) || !two_digits(s.p + 17, &tm.tm_hour) ||
        !two_digits(s.p + 20, &tm.tm_min) || !two_digits(s.p + 23, &tm.tm_sec)) {
        return false;
    }
    tm.tm_year = century * 100 + year - 1900;
    time_t t = timegm(&tm);
    if (t < 0) {
        return false;
    }
    *ret_unix_ms = (uint64_t)t * 1000;
    return true;
}

/* Digits with an optional fraction, in units of `unit` ms; caps instead of overflowing. */
static bool parse_number(struct str_view s, uint64_t unit, uint64_t *ret_ms)
{
    size_t dot = sv_find(s, '.');
    uint64_t whole;
    uint64_t tenth = 0;

    if (!sv_to_u64(sv_from(s.p, dot), UINT32_MAX, &whole)) {
        return false;
    }
    if (dot + 1 < s.n && !sv_to_u64(sv_from(s.p + dot + 1, 1), 9, &tenth)) {
        return false;
    }
    *ret_ms = whole * unit + tenth * unit / 10;
    return true;
}

bool wk_retry_after(struct str_view headers, uint64_t now_unix_ms, uint64_t *ret_ms)
{
    struct str_view v;
    uint64_t at;

    if (wk_headers_find(headers, "retry-after-ms", &v) && parse_number(v, 1, ret_ms)) {
        return true;
    }
    if (!wk_headers_find(headers, "retry-after", &v)) {
        return false;
    }
    if (parse_number(v, 1000, ret_ms)) {
        return true;
    }
    if (!parse_date(v, &at)) {
        return false;
    }
    *ret_ms = at > now_unix_ms ? at - now_unix_ms : 0;
    return true;
}

static bool is_retryable(const struct wk_retry_in *in)
{
    struct str_view v;

    if (in->rc != 0) {
        if (in->rc == ERR_UPSTREAM_CONNECT) {
            return true;
        }
        return in->is_repeatable && (in->rc == ERR_UPSTREAM_CUT || in->rc == ERR_UPSTREAM_TIMEOUT);
    }
    if (!in->is_repeatable && in->status != 429 && in->status != 503) {
        return false;
    }
    if (wk_headers_find(in->headers, "x-should-retry", &v)) {
        if (sv_eq_nocase(v, SV_LIT("true"))) {
            return in->status >= 400;
        }
        if (sv_eq_nocase(v, SV_LIT("false"))) {
            return false;
        }
    }
    return in->status == 408 || in->status == 409 || in->status == 429 || in->status >= 500;
}

/* 0.5 s, 1 s, 2 s, ... at most 8 s, less up to a quarter. */
static uint32_t back_off(unsigned tries, uint32_t random)
{
    unsigned shift = tries - 1 < 5 ? tries - 1 : 5;
    uint32_t ms = WK_RETRY_BASE_MS << shift;

    if (ms > WK_RETRY_CAP_MS) {
        ms = WK_RETRY_CAP_MS;
    }
    return ms - random % (ms / 4 + 1);
}

bool wk_retry_decide(const struct wk_retry_in *in, uint32_t *ret_delay_ms)
{
    uint64_t delay = 0;

    if (in->tries >= in->tries_max || !is_retryable(in)) {
        return false;
    }
    if (!in->has_other) {
        uint64_t asked = 0;
        delay = back_off(in->tries, in->random);
        if (in->rc == 0 && wk_retry_after(in->headers, in->now_unix_ms, &asked)) {
            if (asked > WK_RETRY_AFTER_MAX_MS) {
                return false;
            }
            delay = asked;
        }
    }
    if (delay >= in->left_ms) {
        return false;
    }
    *ret_delay_ms = (uint32_t)delay;
    return true;
}
