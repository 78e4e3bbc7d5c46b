/* msg.h - messages between the processes: structs, encode, decode, names, permissions.
 *
 * On the wire (ZeroMQ frames): frame 0 = header (MSG_HEAD_BYTES) followed by the typed fields;
 * frame 1 = opaque payload, absent when empty. Routing identities are the transport's business.
 *
 * Decoded structs borrow from the input. Errors: ERR_PEER_VERSION, ERR_PEER_MALFORMED (truncated,
 * out of bounds, trailing bytes), ERR_LIMIT/ERR_NOMEM from the output buffer. */
#ifndef CFD_PROTO_MSG_H
#define CFD_PROTO_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "proto/msg_table.h"

#define MSG_MAGIC          0xCF
#define MSG_HEAD_BYTES     64
#define MSG_LENGTH_UNKNOWN UINT64_MAX

enum msg_type {
#define X(name, id, senders, states, prose) MSG_##name = (id),
    MSG_TABLE(X)
#undef X
};

enum msg_role {
    MSG_ROLE_FRONTEND = 1,
    MSG_ROLE_WORKER = 2,
    MSG_ROLE_SANDBOXD = 3,
    MSG_ROLE_BROKER = 4
};

/* What a request is; decides how the worker treats it. */
enum msg_kind {
    MSG_KIND_RESPONSES = 1, /* POST /v1/responses */
    MSG_KIND_CHAT = 2,      /* POST /v1/chat/completions */
    MSG_KIND_MODEL =
        3, /* any other call whose JSON body names a configured model, e.g. /v1/embeddings */
    MSG_KIND_OBJECT = 4, /* provider objects by id: /v1/responses/{id}..., /v1/files... */
    MSG_KIND_SANDBOX = 5 /* /v1/sandboxes... */
};

enum msg_method {
    MSG_METHOD_GET = 1,
    MSG_METHOD_HEAD,
    MSG_METHOD_POST,
    MSG_METHOD_PUT,
    MSG_METHOD_PATCH,
    MSG_METHOD_DELETE,
    MSG_METHOD_OPTIONS,
    MSG_METHOD_OTHER
};

enum msg_outcome {
    MSG_OUTCOME_OK = 1,
    MSG_OUTCOME_ERROR = 2,
    MSG_OUTCOME_CANCELLED = 3,
    MSG_OUTCOME_REFUSED = 4
};

enum msg_stream {
    MSG_STREAM_NONE = 1,      /* not an event stream: cut the connection */
    MSG_STREAM_RESPONSES = 2, /* error event + response.failed */
    MSG_STREAM_CHAT = 3       /* data: {"error":...} */
};

enum msg_sbx_op {
    MSG_SBX_OPEN = 1, /* get or create the sandbox of the scope; result has its id */
    MSG_SBX_RUN = 2,  /* run the payload as Python; opens first when needed */
    MSG_SBX_CLOSE =
        3, /* REQUEST scope: delete its sandbox; SESSION scope: nothing (it stays cached) */
    MSG_SBX_DELETE = 4, /* delete the sandbox of a SESSION or SANDBOX scope */
    MSG_SBX_LIST = 5,   /* the tenant's sandboxes */
    MSG_SBX_GET = 6,    /* describe one */
    MSG_SBX_PUT_FILE = 7,
    MSG_SBX_GET_FILE = 8,
    MSG_SBX_LIST_FILES = 9
};

enum msg_sbx_scope { MSG_SCOPE_REQUEST = 1, MSG_SCOPE_SESSION = 2, MSG_SCOPE_SANDBOX = 3 };

enum msg_sbx_event {
    MSG_SBX_STARTED = 1, /* the run began; payload: sandbox id */
    MSG_SBX_STDOUT = 2,
    MSG_SBX_STDERR = 3,
    MSG_SBX_DISPLAY =
        4, /* JSON object MIME -> value; "is_main_result": true for the last expression's value */
    MSG_SBX_EXCEPTION = 5 /* JSON {name, value, traceback} */
};

enum msg_sbx_note {
    MSG_SBX_NOTE_RESTARTED = 1,   /* the sandbox had to be replaced; earlier state is gone */
    MSG_SBX_NOTE_INTERRUPTED = 2, /* the sandbox was lost during the run; effects unknown */
    MSG_SBX_NOTE_TRUNCATED = 4,   /* output was cut at the cap */
    MSG_SBX_NOTE_REPEATED = 8,    /* answered from the record of this operation id */
    MSG_SBX_NOTE_CREATED = 16,    /* a sandbox was created by this call */
    MSG_SBX_NOTE_TIMEOUT = 32     /* the run was stopped at its time limit */
};

enum msg_stats { MSG_STATS_METRICS = 1, MSG_STATS_STATUS = 2 };

enum msg_flag {
    MSG_FLAG_LAST = 1,
    MSG_FLAG_RESUBMIT = 2,
    MSG_FLAG_STARTED = 4,
    MSG_FLAG_STREAM = 8 /* unused by the broker; reserved for peers */
};

/* Wire layout (little endian): u8 magic, u8 version, u8 type, u8 attempt, u32 deadline_ms, u8
 * rid[16], u8 tenant[32], u32 flags, u32 zero. */
struct msg_head {
    uint8_t type;         /* enum msg_type */
    uint8_t attempt;      /* 1, 2; 0 where it has no meaning */
    uint32_t deadline_ms; /* left at the moment of sending; 0 = none */
    uint32_t flags;       /* enum msg_flag */
    struct request_id rid;
    struct tenant_id tenant;
};

/* struct msg_hello, struct msg_submit, ...: one member per field; id = struct request_id-like 16
 * bytes. */
struct msg_id16 {
    uint8_t b[16];
};
#define MSG_CTYPE_u8                        uint8_t
#define MSG_CTYPE_u16                       uint16_t
#define MSG_CTYPE_u32                       uint32_t
#define MSG_CTYPE_u64                       uint64_t
#define MSG_CTYPE_i32                       int32_t
#define MSG_CTYPE_id                        struct msg_id16
#define MSG_CTYPE_str                       struct str_view
#define MSG_MEMBER(kind, name, lo, hi, doc) MSG_CTYPE_##kind name;
#define X(NAME, id, senders, states, prose)                                                        \
    struct msg_body_##NAME {                                                                       \
        NAME##_FIELDS(MSG_MEMBER)                                                                  \
    };
MSG_TABLE(X)
#undef X

/* Appends header + fields to `out` (not reset first); the type is that of the function, whatever
 * h->type says. A field out of its bounds or an unknown flag: ERR_INVALID; on any error `out` holds
 * what it held before. */
#define X(NAME, id, senders, states, prose)                                                        \
    int msg_encode_##NAME(struct bytes *out, const struct msg_head *h,                             \
                          const struct msg_body_##NAME *m);
MSG_TABLE(X)
#undef X

/* Decodes the fields after the header; trailing bytes are an error. */
#define X(NAME, id, senders, states, prose)                                                        \
    int msg_decode_##NAME(struct msg_body_##NAME *ret, struct str_view fields);
MSG_TABLE(X)
#undef X

/* Advances *frame0 past the header. Unknown types and flags are malformed. */
int msg_head_decode(struct msg_head *ret, struct str_view *frame0);
/* Rewrites type, attempt, deadline and flags in an encoded frame 0 in place (SUBMIT -> DISPATCH
 * without re-encoding). */
void msg_head_patch(char *frame0, uint8_t type, uint8_t attempt, uint32_t deadline_ms,
                    uint32_t flags);

const char *msg_name(uint8_t type); /* "?" for unknown */

/* May `role` send `type` now? `is_ready`: it was welcomed; direct: the message came on the direct
 * path. */
bool msg_is_permitted(uint8_t type, enum msg_role role, bool is_ready, bool is_direct);

/* Records inside payloads, fixed size, no padding. */
#define MSG_JOB_REC_BYTES    17 /* JOB record: rid[16], attempt u8 */
#define MSG_TENANT_REC_BYTES 36 /* TENANT record: tenant[32], sessions u32 le */
#define MSG_BOX_REC_BYTES    48 /* rid[16], tenant[32] */

#endif
