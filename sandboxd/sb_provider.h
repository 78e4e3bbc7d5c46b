/* sb_provider.h - what a sandbox provider implements: local now, e2b and OpenSandbox beside it.
 *
 * Threads:  loop thread.
 * Lifetime: a sandbox handle lives from a successful on_created until sb_provider.destroy's
 * on_destroyed. The core never starts a run while another one of the same sandbox is in flight, and
 * never destroys during a run without interrupting first - but a provider must survive destroy at
 * any moment (the run then ends with SANDBOX_LOST). Callbacks: never from inside the call that
 * asked; exactly one final callback per operation. After `destroy` was called no run callback comes
 * except the final on_end of a run in flight, before on_destroyed. Errors: ERR_SANDBOX_UNAVAILABLE,
 * ERR_SANDBOX_CAPACITY, ERR_SANDBOX_AUTH, ERR_SANDBOX_LOST, ERR_DEADLINE, ... An exception in user
 * code is not an error. */
#ifndef CFD_SANDBOXD_SB_PROVIDER_H
#define CFD_SANDBOXD_SB_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/cfg.h"
#include "io/loop.h"

#define SB_ID_MAX 128

struct sb_provider; /* one per provider kind and process */
struct sb_box;      /* one sandbox; the provider's own, opaque to the core */

enum sb_event_kind {
    SB_EVENT_STDOUT,
    SB_EVENT_STDERR,
    SB_EVENT_DISPLAY,   /* JSON object: MIME -> value, plus "is_main_result" true for the last
                           expression */
    SB_EVENT_EXCEPTION, /* JSON {name, value, traceback} */
    SB_EVENT_COUNT,     /* decimal execution count */
    SB_EVENT_FILES /* JSON array of {name, type, size, mtime_ms}: files below /mnt/data that the
                      run made or changed; before the end, only when there are any */
};

enum sb_end {
    SB_END_OK,          /* the cell ended, with or without an exception */
    SB_END_TIMEOUT,     /* stopped at its time limit; the interpreter survived */
    SB_END_INTERRUPTED, /* stopped by interrupt; the interpreter survived */
    SB_END_LOST /* the sandbox is gone (killed, out of memory, connection cut); effects unknown */
};

struct sb_run_hooks {
    void (*on_event)(void *ctx, enum sb_event_kind kind, struct str_view data); /* borrowed */
    /* `e` has a text for people when end is not OK ("out of memory", "killed after 60 s", ...).
     * is_truncated: output was cut at the cap. */
    void (*on_end)(void *ctx, enum sb_end end, bool is_truncated, const struct err *e);
    void *ctx;
};

struct sb_create_opts {
    const struct cfg *cfg;               /* borrowed during the call */
    const struct cfg_sandbox_tool *tool; /* borrowed during the call; copy what is needed later */
    struct tenant_id tenant;
    const char *owner_tag; /* names this sandboxd towards remote providers */
};

typedef void (*sb_created_cb)(void *ctx, int rc, struct sb_box *box, const struct err *e);
typedef void (*sb_destroyed_cb)(void *ctx, int rc,
                                const struct err *e); /* the box is freed before the call */
typedef void (*sb_data_cb)(void *ctx, int rc, struct buf *data,
                           const struct err *e); /* data borrowed */

enum sb_file_op {
    SB_FILE_PUT,    /* whole content; makes missing directories, replaces what has the name */
    SB_FILE_GET,    /* the content */
    SB_FILE_LIST,   /* JSON array of {name, type, size, mtime_ms}, one directory */
    SB_FILE_STAT,   /* the same with one entry */
    SB_FILE_DELETE, /* a file, a link or an empty directory */
};

struct sb_provider_ops {
    const char *name; /* "local" */
    bool is_remote;
    int (*start)(struct sb_provider **ret, struct loop *loop, struct cfg *cfg, struct err *e);
    void (*reload)(struct sb_provider *p, struct cfg *cfg);
    void (*stop)(struct sb_provider *p, void (*on_stopped)(void *ctx),
                 void *ctx); /* destroys what is left */
    void (*create)(struct sb_provider *p, const struct sb_create_opts *o, sb_created_cb cb,
                   void *ctx);
    const char *(*id)(const struct sb_box *box); /* at most SB_ID_MAX bytes, unique, stable */
    bool (*is_alive)(const struct sb_box *box);  /* known dead = false; may be optimistic */
    /* The provider tells at once when a box dies between runs. */
    void (*set_on_dead)(struct sb_box *box, void (*on_dead)(void *ctx, const char *why), void *ctx);
    void (*run)(struct sb_box *box, struct buf *code, uint32_t timeout_ms,
                const struct sb_run_hooks *hooks);
    void (*interrupt)(struct sb_box *box); /* of the run in flight; no-op without one */
    void (*destroy)(struct sb_box *box, sb_destroyed_cb cb,
                    void *ctx); /* moved: the core forgets the box */
    /* One file operation below /mnt/data; `path` as the client wrote it, relative or below
     * /mnt/data, any bytes; `data` for PUT; both borrowed during the call. Counts as a run: never
     * beside one. ERR_INVALID (path), ERR_NOT_FOUND, ERR_BODY_TOO_LARGE, ERR_SANDBOX_LOST. NULL =
     * the provider has no files. */
    void (*file)(struct sb_box *box, enum sb_file_op op, struct str_view path, struct str_view data,
                 sb_data_cb cb, void *ctx);
    /* Pool sizes and the like, into metrics; may be NULL. */
    void (*stats)(struct sb_provider *p);
};

extern const struct sb_provider_ops sb_local_ops; /* sb_local.c */

#endif
