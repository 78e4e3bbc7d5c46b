/* sb_zygote_proto.h - what sandboxd, the zygote and a sandbox child say to each other. Both sides
 * include it.
 *
 *   sandboxd --control (SOCK_SEQPACKET, one datagram = one message)--> zygote
 *       SPAWN                                      -> SPAWNED (+ child socket, pidfd) or
 * SPAWN_FAILED READY or FAILED once, NOTICE at any time, EXITED once per spawned child sandboxd
 * --box stream (SOCK_STREAM, frames)--> child RUN                                        -> STDOUT,
 * STDERR, DISPLAY, EXCEPTION, COUNT ..., END READY or FAILED once, before anything else
 *
 * Threads:  pure functions. Lifetime: decoded views borrow from the input.
 * Errors:   ZYP_MALFORMED for anything that is not exactly a message; the receiver then drops the
 * peer. Bounds:   control datagrams ZYP_CTL_MAX; a frame's payload has a maximum per type
 * (zyp_frame_limit). Trust:    sandboxd trusts neither peer; the child runs foreign code and may
 * write anything into its stream. */
#ifndef CFD_SANDBOXD_ZYGOTE_PROTO_H
#define CFD_SANDBOXD_ZYGOTE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZYP_VERSION     1
#define ZYP_CTL_FD      3 /* in the zygote: control; in a child: its stream */
#define ZYP_CTL_MAX     4096
#define ZYP_CTL_HEAD    12
#define ZYP_FRAME_HEAD  8
#define ZYP_TEXT_MAX    2048 /* READY, FAILED, NOTICE texts */
#define ZYP_CODE_MAX    (64U << 20)
#define ZYP_STREAM_MAX  (256U << 10) /* one STDOUT or STDERR frame */
#define ZYP_DISPLAY_MAX (64U << 20)
#define ZYP_RUN_HEAD    16 /* before the code in a RUN frame */
#define ZYP_FILE_HEAD   4  /* before path and data in a FILE frame */
#define ZYP_FILE_MAX    (32U << 20)
#define ZYP_PATH_MAX    1024U
#define ZYP_ENTRY_HEAD  19 /* before the name */
#define ZYP_ENTRIES_MAX 10000U
#define ZYP_LIST_MAX    (1U << 20) /* all entries of a listing or of a report of changes */

#define ZYP_MALFORMED (-1)
#define ZYP_SHORT     (-2) /* frame head not complete yet */

/* clang-format off */
/* X(NAME, id, from zygote, doc) */
#define ZYP_CTL_TABLE(X) \
    X(READY,        1, 1, "the zygote can spawn; num = ZYP_HAS_* bits; text = cgroup directories, one a line") \
    X(FAILED,       2, 1, "the zygote cannot work and ends; text = why") \
    X(NOTICE,       3, 1, "something people should know; text") \
    X(SPAWN,        4, 0, "make a child; seq names it from now on") \
    X(SPAWNED,      5, 1, "num = pid; carries two descriptors: stream socket, pidfd") \
    X(SPAWN_FAILED, 6, 1, "text = why") \
    X(EXITED,       7, 1, "child seq ended and nothing of it is left; num = wait status, flag ZYP_FLAG_OOM")

/* X(NAME, id, from child, payload max, doc) */
#define ZYP_FRAME_TABLE(X) \
    X(READY,     1, 1, 0,               "isolated and waiting") \
    X(FAILED,    2, 1, ZYP_TEXT_MAX,    "isolation failed; text = step and reason") \
    X(RUN,       3, 0, ZYP_CODE_MAX,    "u32 run (0 = only warm up), u32 cpu seconds, u64 output cap, the code") \
    X(STDOUT,    4, 1, ZYP_STREAM_MAX,  "bytes") \
    X(STDERR,    5, 1, ZYP_STREAM_MAX,  "bytes") \
    X(DISPLAY,   6, 1, ZYP_DISPLAY_MAX, "JSON object") \
    X(EXCEPTION, 7, 1, ZYP_DISPLAY_MAX, "JSON object") \
    X(COUNT,     8, 1, 8,               "u64 execution count") \
    X(END,       9, 1, 8,               "u32 run, u32 ZYP_END_* bits") \
    X(FILE,      10, 0, ZYP_FILE_HEAD + ZYP_PATH_MAX + ZYP_FILE_MAX, "u8 ZYP_FILE_* operation, u8 0, u16 path length, path, data of a PUT") \
    X(FILE_REPLY, 11, 1, 4 + ZYP_FILE_MAX, "u32 errno value, then the file or entries") \
    X(CHANGED,   12, 1, ZYP_LIST_MAX,   "entries: files that a run made or changed; before its END")
/* clang-format on */

enum zyp_ctl_type {
#define X(name, id, from, doc) ZYP_CTL_##name = (id),
    ZYP_CTL_TABLE(X)
#undef X
};

enum zyp_frame_type {
#define X(name, id, from, max, doc) ZYP_FRAME_##name = (id),
    ZYP_FRAME_TABLE(X)
#undef X
};

#define ZYP_FLAG_OOM 1U /* EXITED: the kernel killed for memory */

/* READY bits: what the host offers beyond the required protections. */
#define ZYP_HAS_CGROUP_MEMORY 1U
#define ZYP_HAS_CGROUP_PIDS   2U
#define ZYP_HAS_DISTINCT_UIDS 4U
#define ZYP_HAS_LANDLOCK      8U

#define ZYP_END_TRUNCATED 1U /* the child dropped output past its cap */

/* One control message. */
struct zyp_ctl {
    enum zyp_ctl_type type;
    uint32_t flags;
    uint32_t seq;
    int32_t num;
    const char *text; /* borrowed; not NUL-terminated; at most ZYP_TEXT_MAX bytes are sent */
    size_t text_len;
};

/* Bytes written to `dst`, which must hold ZYP_CTL_MAX; the text is cut when too long. */
size_t zyp_ctl_encode(void *dst, const struct zyp_ctl *m);
/* `from_zygote`: which side is allowed to have sent it. 0 or ZYP_MALFORMED. */
int zyp_ctl_decode(struct zyp_ctl *ret, const void *p, size_t n, bool from_zygote);

struct zyp_frame {
    enum zyp_frame_type type;
    uint32_t len; /* of the payload that follows */
};

/* Largest payload of a type; 0 for unknown types too. */
uint32_t zyp_frame_limit(unsigned type);
void zyp_frame_encode(uint8_t dst[ZYP_FRAME_HEAD], enum zyp_frame_type type, uint32_t len);
/* 0, ZYP_SHORT (fewer than ZYP_FRAME_HEAD bytes) or ZYP_MALFORMED. */
int zyp_frame_decode(struct zyp_frame *ret, const void *p, size_t n, bool from_child);

struct zyp_run {
    uint32_t run;
    uint32_t cpu_s;
    uint64_t output_max;
};

void zyp_run_encode(uint8_t dst[ZYP_RUN_HEAD], const struct zyp_run *r);
int zyp_run_decode(struct zyp_run *ret, const void *p,
                   size_t n); /* n >= ZYP_RUN_HEAD; the code follows */

struct zyp_end {
    uint32_t run;
    uint32_t flags;
};

enum zyp_file_op {
    ZYP_FILE_PUT = 1,
    ZYP_FILE_GET,
    ZYP_FILE_LIST,
    ZYP_FILE_STAT,
    ZYP_FILE_DELETE,
};

/* A FILE frame's payload; path is relative to /mnt/data, without NUL, empty for the top. */
struct zyp_file {
    enum zyp_file_op op;
    const char *path; /* borrowed */
    size_t path_len;
    const void *data; /* borrowed */
    size_t data_len;
};

void zyp_file_head_encode(uint8_t dst[ZYP_FILE_HEAD], enum zyp_file_op op, size_t path_len);
int zyp_file_decode(struct zyp_file *ret, const void *p, size_t n);

/* One entry of a listing: u8 kind, u64 size, u64 mtime, u16 name length, name. */
struct zyp_entry {
    char kind; /* f d l o: file, directory, link, other */
    uint64_t size;
    uint64_t mtime_ms;
    const char *name; /* borrowed; no NUL */
    size_t name_len;
};

/* Bytes written: ZYP_ENTRY_HEAD + name_len, which must be at most ZYP_PATH_MAX. */
size_t zyp_entry_encode(void *dst, const struct zyp_entry *e);
/* Bytes used, or ZYP_MALFORMED. */
int zyp_entry_decode(struct zyp_entry *ret, const void *p, size_t n);

void zyp_end_encode(uint8_t dst[8], const struct zyp_end *e);
int zyp_end_decode(struct zyp_end *ret, const void *p, size_t n); /* n == 8 */
void zyp_u64_encode(uint8_t dst[8], uint64_t v);
int zyp_u64_decode(uint64_t *ret, const void *p, size_t n); /* n == 8 */

#endif
