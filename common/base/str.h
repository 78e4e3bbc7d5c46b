/* str.h - borrowed views of bytes, and a growable owned byte string. Any thread; not shared. */
#ifndef CFD_BASE_STR_H
#define CFD_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes, not NUL-terminated. {NULL, 0} is the empty view. */
struct str_view {
    const char *p;
    size_t n;
};

#define SV_LIT(s) ((struct str_view){"" s, sizeof(s) - 1})

/* The same as an initializer of static data. */
#define SV_INIT(s)                                                                                 \
    {                                                                                              \
        "" s, sizeof(s) - 1                                                                        \
    }

static inline struct str_view sv_of(const char *s)
{
    return (struct str_view){s, s != NULL ? strlen(s) : 0};
}

static inline struct str_view sv_from(const void *p, size_t n)
{
    return (struct str_view){(const char *)p, n};
}

bool sv_eq(struct str_view a, struct str_view b);
bool sv_eq_nocase(struct str_view a, struct str_view b); /* ASCII */
bool sv_starts(struct str_view s, struct str_view prefix);
struct str_view sv_trim(struct str_view s); /* SP and HTAB */
/* Unsigned decimal, digits only, at least one; false when not a number or above `max`. */
bool sv_to_u64(struct str_view s, uint64_t max, uint64_t *ret);
/* First occurrence of `c`, or s.n. */
size_t sv_find(struct str_view s, char c);
/* Copies with a NUL into dst[cap], cutting what does not fit; returns false when it was cut. */
bool sv_copy(char *dst, size_t cap, struct str_view s);

/* Growable bytes with a hard cap. Zeroed is a legal empty object (cap_max 0 = 64 MiB default).
 * Always NUL-terminated once non-empty. The first failure sticks in `rc` and later appends are
 * no-ops, so a builder checks once at the end. Ownership: `p` is owned; bytes_fini frees it. */
struct bytes {
    char *p;
    size_t n;
    size_t cap;
    size_t cap_max;
    int rc; /* 0, ERR_NOMEM or ERR_LIMIT */
};

void bytes_init(struct bytes *b, size_t cap_max);
void bytes_fini(struct bytes *b);  /* accepts zeroed */
void bytes_reset(struct bytes *b); /* keeps the storage */
int bytes_reserve(struct bytes *b, size_t extra);
int bytes_put(struct bytes *b, const void *p, size_t n);
int bytes_put_sv(struct bytes *b, struct str_view s);
int bytes_put_str(struct bytes *b, const char *s);
int bytes_put_char(struct bytes *b, char c);
int bytes_put_u64(struct bytes *b, uint64_t v);
int bytes_printf(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes `n` bytes from the front. */
void bytes_drop(struct bytes *b, size_t n);
/* `s` as a JSON string with quotes; invalid UTF-8 becomes U+FFFD; U+2028/2029/0085 are escaped. */
int bytes_put_json_str(struct bytes *b, struct str_view s);
/* Lower-case hex. */
int bytes_put_hex(struct bytes *b, const void *p, size_t n);

/* Writes 2n+1 chars of lower-case hex with NUL. */
void hex_encode(char *dst, const void *src, size_t n);
/* Exactly 2n hex digits (either case); false otherwise. */
bool hex_decode(void *dst, size_t n, struct str_view s);

#endif
