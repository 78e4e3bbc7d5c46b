/* sb_local_int.h - inside the local provider: its parts and who may call whom.
 *
 *   sb_local.c         operations of sb_provider.h, pools, waiting creates
 *   sb_local_zygote.c  the zygote process: start, control messages, death, restart
 *   sb_local_box.c     one sandbox: states, death, destroy
 *   sb_local_run.c     one run: frames in, code out, time limits
 *   sb_local_file.c    one file operation
 *
 * Threads:  loop thread. Lifetime: as the states say; storage goes from the last close callback of
 * an object's handles.
 *
 * A box:
 *   SPAWNING --SPAWNED--> STARTING --READY--> PARKED --taken--> IDLE --run--> BUSY --END--> IDLE
 *                            |                  | (warm pool) WARMING --END--> PARKED
 *                            +------------------+--death--> DEAD (core told, waits for destroy)
 *   any --destroy or retired--> DYING --exit confirmed--> GONE (handles closing) --> freed */
#ifndef CFD_SANDBOXD_SB_LOCAL_INT_H
#define CFD_SANDBOXD_SB_LOCAL_INT_H

#include <sys/types.h>

#include "base/list.h"
#include "base/sm.h"
#include "base/str.h"
#include "io/closer.h"
#include "io/loop.h"
#include "sb_local_text.h"
#include "sb_provider.h"
#include "sb_zygote_proto.h"

#define SB_LOCAL_WAITERS_MAX    4096
#define SB_LOCAL_SPAWNS_MAX     16U   /* SPAWN messages not yet answered with READY */
#define SB_LOCAL_WAIT_MS        15000 /* longest wait of a create */
#define SB_LOCAL_GRACE_MS       2000  /* between interrupt and kill */
#define SB_LOCAL_NUDGE_MS       500   /* an interrupt is repeated this often meanwhile */
#define SB_LOCAL_READY_MS       60000 /* zygote start: imports on a loaded machine */
#define SB_LOCAL_KILL_MS        10000 /* longest wait for a killed sandbox to be gone */
#define SB_LOCAL_REFILL_MS      5     /* pools are refilled this long after a take */
#define SB_LOCAL_FILE_MS        20000 /* longest file operation */
#define SB_LOCAL_BACKOFF_MAX_MS 5000
#define SB_LOCAL_READ_BYTES     262144U
#define SB_LOCAL_READ_TURNS     8 /* reads of one box per loop turn */

/* clang-format off */
/* X(NAME, states that may follow) */
#define SB_LOCAL_STATES(X) \
    X(SPAWNING, TO(STARTING) | TO(DYING) | TO(GONE)) \
    X(STARTING, TO(PARKED) | TO(WARMING) | TO(DYING) | TO(GONE)) \
    X(WARMING,  TO(PARKED) | TO(DYING) | TO(GONE)) \
    X(PARKED,   TO(IDLE) | TO(DYING) | TO(GONE)) \
    X(IDLE,     TO(BUSY) | TO(DYING) | TO(DEAD)) \
    X(BUSY,     TO(IDLE) | TO(DYING) | TO(DEAD)) \
    X(DEAD,     TO(GONE)) \
    X(DYING,    TO(GONE)) \
    X(GONE,     0U)
/* clang-format on */

enum sb_local_state {
#define X(name, to) SB_LOCAL_##name,
    SB_LOCAL_STATES(X)
#undef X
};

enum sb_local_stop { SB_LOCAL_STOP_NONE, SB_LOCAL_STOP_TIME, SB_LOCAL_STOP_INTERRUPT };

/* One zygote process. Boxes keep it alive; it goes when it is retired or dead and the last of them
 * has gone. */
struct sb_local_zygote {
    struct list_link link; /* provider.zygotes */
    struct sb_provider *p; /* borrowed */
    pid_t pid;             /* reaped by us; 0 = not running */
    int pidfd;
    int ctl;
    uv_poll_t ctl_poll;
    uv_poll_t pid_poll;
    uv_timer_t limit; /* READY, later the exit */
    struct closer closer;
    bool is_ready;
    bool is_retired; /* makes no more boxes */
    bool is_dead;
    bool is_closing;
    unsigned box_count;
    unsigned spawning; /* boxes before READY */
    uint32_t has;      /* ZYP_HAS_* */
    uint64_t started_ms;
    char groups[ZYP_TEXT_MAX + 1]; /* control group directories, one a line */
    char failure[ZYP_TEXT_MAX + 1];
};

struct sb_local_waiter {
    struct list_link link; /* provider.waiters */
    sb_created_cb cb;
    void *ctx;
    uint64_t since_ms;
};

struct sb_provider {
    struct loop *loop;
    struct cfg *cfg; /* owned reference */
    char program[4096];
    struct list zygotes;
    struct sb_local_zygote *cur; /* newest, not retired; NULL while none runs */
    struct list boxes;           /* all */
    struct list parked;          /* ready, never used */
    struct list warm;            /* ready, caches filled */
    struct list waiters;
    uv_timer_t serve; /* hands boxes to waiters and refills, never from inside a caller's call */
    uv_timer_t sweep; /* fails creates that waited too long */
    uv_timer_t restart;
    struct closer closer;
    uint32_t next_seq;
    unsigned backoff_ms;
    unsigned spawn_failures; /* in a row */
    uint64_t spawn_not_before_ms;
    bool is_stopping;
    void (*on_stopped)(void *ctx);
    void *stopped_ctx;
    struct bytes scratch; /* cleaned text and JSON of the event being delivered */
    char *read_buf;       /* SB_LOCAL_READ_BYTES, shared by all boxes */
};

struct sb_box {
    struct list_link all_link;
    struct list_link pool_link;
    struct sb_provider *p;          /* borrowed */
    struct sb_local_zygote *zygote; /* borrowed; counted in box_count */
    enum sb_local_state state;
    uint32_t seq;
    char id[33];
    pid_t pid;
    int pidfd;  /* -1 before SPAWNED */
    int stream; /* -1 before SPAWNED and after the end */
    uv_poll_t stream_poll;
    uv_poll_t pid_poll; /* only once the zygote is dead */
    uv_timer_t timer;
    struct closer closer;
    bool has_polls;
    bool has_pid_poll;
    int poll_events;
    struct bytes in; /* an incomplete frame; no storage while none */

    /* the run in flight */
    bool has_run;
    bool is_warm;
    bool is_truncated;
    struct sb_run_hooks hooks;
    uint32_t run;
    uint64_t output_left;
    uint32_t timeout_ms;
    enum sb_local_stop stop;
    uint64_t kill_at_ms;
    struct buf *code; /* owned reference while being written */
    size_t code_sent; /* of head + code */
    size_t head_len;  /* frame head, for a run with its own */
    unsigned char head[ZYP_FRAME_HEAD + ZYP_RUN_HEAD];
    struct sb_local_text text[2]; /* stdout, stderr */

    /* the file operation in flight; the box is BUSY then too */
    bool has_file;
    enum sb_file_op file_op;
    sb_data_cb file_cb;
    void *file_ctx;
    struct err file_err; /* refused without asking the sandbox */

    /* the end */
    bool is_killed_for_time;
    bool is_broken; /* it broke the framing and was killed for it */
    bool is_exit_known;
    bool is_destroyed; /* the core forgot it */
    char why[256];
    void (*on_dead)(void *ctx, const char *why);
    void *dead_ctx;
    sb_destroyed_cb destroyed;
    void *destroyed_ctx;
};

/* sb_local.c */
void sb_local_serve_soon(struct sb_provider *p, unsigned delay_ms);
void sb_local_on_ready(struct sb_box *b); /* READY, or its warm-up ended */
void sb_local_spawn_failed(struct sb_provider *p, const char *why);
void sb_local_maybe_stopped(struct sb_provider *p);

/* sb_local_zygote.c */
int sb_local_zygote_start(struct sb_provider *p,
                          struct err *e); /* sets p->cur; READY comes later */
int sb_local_zygote_wait(struct sb_local_zygote *z,
                         struct err *e); /* blocks until READY; only at start */
int sb_local_zygote_spawn(struct sb_local_zygote *z, uint32_t seq);
void sb_local_zygote_retire(struct sb_local_zygote *z);
void sb_local_zygote_box_gone(struct sb_local_zygote *z);

/* sb_local_box.c */
struct sb_box *sb_local_box_new(struct sb_provider *p, struct sb_local_zygote *z);
void sb_local_box_move(struct sb_box *b, enum sb_local_state next, const char *why);
int sb_local_box_attach(struct sb_box *b, pid_t pid, int stream,
                        int pidfd); /* fds moved in any case */
void sb_local_box_kill(struct sb_box *b);
void sb_local_box_retire(struct sb_box *b); /* of a box the core does not know */
void sb_local_box_destroy(struct sb_box *b, sb_destroyed_cb cb, void *ctx);
void sb_local_box_exited(struct sb_box *b, int status, bool is_oom); /* nothing of it is left */
void sb_local_box_unwatched(
    struct sb_box *b); /* its zygote died: its own pidfd tells the end from now on */
void sb_local_box_end(struct sb_box *b); /* DEAD, destroyed, nothing left to report */
struct sb_box *sb_local_box_find(struct sb_provider *p, uint32_t seq);

/* sb_local_run.c */
void sb_local_run_start(struct sb_box *b, struct buf *code, uint32_t run, uint32_t timeout_ms);
void sb_local_run_interrupt(struct sb_box *b, enum sb_local_stop why);
void sb_local_run_finish(struct sb_box *b, enum sb_end end, const struct err *e);
void sb_local_run_on_timer(struct sb_box *b);
void sb_local_run_on_stream(struct sb_box *b, int events); /* readable, writable */
void sb_local_run_drain(struct sb_box *b); /* what is left in the socket of a dead child */
void sb_local_file_send(struct sb_box *b, struct buf *body); /* one FILE frame */

/* sb_local_file.c */
void sb_local_file_start(struct sb_box *b, enum sb_file_op op, struct str_view path,
                         struct str_view data, sb_data_cb cb, void *ctx);
void sb_local_file_on_timer(struct sb_box *b);
bool sb_local_file_on_reply(struct sb_box *b, struct str_view in); /* false = nonsense */
void sb_local_file_finish(struct sb_box *b, int rc, struct buf *data, const struct err *e);
int sb_local_file_entries(struct str_view in, struct bytes *out);

#endif
