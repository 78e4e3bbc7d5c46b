/* msg_table.h - THE message schema. Everything else about messages is expanded from it: enum,
 * names, structs, encode, decode with limits, permission check, fuzz dictionary and the field
 * tables of PROTOCOL.md.
 *
 * X(NAME, id, senders, states, "prose")
 *   id       on the wire; never reused, never renumbered within a protocol version
 *   senders  who may send it: FE frontend, BR broker, WK worker, SB sandboxd
 *   states   of the sending peer as the broker sees it: NEW (before WELCOME), READY (after).
 * Messages on the direct path between workers and frontends have no broker state and say DIRECT.
 * NAME##_FIELDS(F), one F per field in wire order:
 *   F(kind, name, lo, hi, "doc")
 *   kind     u8 u16 u32 u64 i32: little endian, lo..hi inclusive
 *            id: 16 bytes (lo, hi unused, 0)
 *            str: u32 length + bytes, lo..hi bytes; decoded views borrow from the message
 * Changing any row changes MSG_VERSION. */
#ifndef CFD_PROTO_MSG_TABLE_H
#define CFD_PROTO_MSG_TABLE_H

#define MSG_VERSION 1

#define MSG_NAME_MAX     64
#define MSG_ENDPOINT_MAX 256
#define MSG_PATH_MAX     8192
#define MSG_HEADERS_MAX  65536
#define MSG_TEXT_MAX     512
#define MSG_SESSION_MAX  320
#define MSG_PARAMS_MAX   65536
#define MSG_PAYLOAD_MAX  (512U * 1024U * 1024U)

/* clang-format off */
#define MSG_TABLE(X) \
    X(HELLO,         1,  FE|WK|SB,    NEW|READY, "First message of a peer on each new connection. The broker answers WELCOME, or BYE when the version or role does not fit. A worker's payload lists the jobs it still runs (JOB records): the broker adopts them. A second HELLO with the same instance is a reconnect, with another instance the old peer is dead.") \
    X(WELCOME,       2,  BR,          READY,     "The peer is accepted. A changed broker instance means the broker restarted: a frontend then submits its open requests again with the RESUBMIT flag, a sandboxd sends a full SBX_SESSIONS.") \
    X(HEARTBEAT,     3,  FE|WK|SB|BR, READY,     "Sent every heartbeat_ms by both sides, and by the broker to frontends at once when the counts change. A peer silent for liveness intervals is dead.") \
    X(BYE,           4,  FE|WK|SB|BR, NEW|READY, "The sender takes no more work and leaves when its last job ends. From the broker: leave and reconnect later; `code` says why.") \
    X(SUBMIT,        10, FE,          READY,     "One client request. The payload is the client's body, untouched. Queued per tenant; answered by HEAD on the direct path, or by REFUSE, or by LOST. Flags: RESUBMIT (the broker restarted; wait for a worker to claim it before dispatching), STARTED (with RESUBMIT: bytes reached the client, never dispatch again).") \
    X(REFUSE,        11, BR,          READY,     "The job did not and will not run: queue full, deadline passed, draining. Final.") \
    X(LOST,          12, BR,          READY,     "The worker of this job is gone. The frontend submits it again with the next attempt number if no byte reached its client and attempts remain, else it ends the answer with an error.") \
    X(DISPATCH,      13, BR,          READY,     "A SUBMIT handed to a worker: same fields, same payload, attempt and deadline updated. Uses up one credit.") \
    X(CREDIT,        14, WK,          READY,     "The worker can take `n` more jobs. credit + in flight never exceeds the capacity of its HELLO.") \
    X(DONE,          15, WK,          READY,     "The job ended at the worker, whatever the outcome. Gives back `credit` credits.") \
    X(CANCEL,        16, FE|BR,       READY,     "The client is gone or the deadline passed. From a frontend to the broker, from the broker to the worker, which stops the model call and the running code and still answers DONE.") \
    X(HEAD,          20, WK,          DIRECT,    "Status and headers of the answer; the payload is the first part of the body. Exactly one per attempt. Flag LAST: the answer is complete.") \
    X(CHUNK,         21, WK,          DIRECT,    "More body. For event streams it ends at an event boundary. Flag LAST: the answer is complete.") \
    X(END,           22, WK,          DIRECT,    "The answer ends without further body. `code` is 0, or the ERR code with which it was cut short after HEAD; before HEAD it is an error the frontend renders.") \
    X(WINDOW,        23, FE,          DIRECT,    "The client took `bytes` more; the worker may send that many more payload bytes.") \
    X(SBX_CALL,      30, WK|BR,       READY,     "A sandbox operation; worker to broker to sandboxd. Payload: the code of a RUN, the content of a file. Answered by SBX_EVENT* and one SBX_RESULT with the same request id and `call`. The broker itself sends op CLOSE for jobs that ended without one.") \
    X(SBX_EVENT,     31, SB|BR,       READY,     "Output of a running call, in order. Payload: text of a stream, or JSON of a rich result or error.") \
    X(SBX_RESULT,    32, SB|BR,       READY,     "Final answer of a call. Payload: JSON, by op.") \
    X(SBX_CANCEL,    33, WK|BR,       READY,     "Interrupt the call; it still answers SBX_RESULT.") \
    X(SBX_SESSIONS,  34, SB,          READY,     "Which tenants have sessions here (TENANT records in the payload): replaces what this sandboxd said before. Sent on WELCOME and on change.") \
    X(SBX_BOXES,     35, SB,          READY,     "The sandboxes of single requests that live here (msg_box_rec records in the payload), said a while after WELCOME and then now and again. The broker answers with SBX_CALL CLOSE for each whose request it does not know: a CLOSE can be lost while a sandboxd does not answer.") \
    X(STATS,         40, FE|WK|SB,    READY,     "Metrics snapshot of the sender (metric_snapshot text) in the payload, about once a second. The broker keeps the latest.") \
    X(STATS_GET,     41, FE,          READY,     "Asks for the metrics of all peers or for the status document.") \
    X(STATS_REPLY,   42, BR,          READY,     "Answer to STATS_GET, in the payload: concatenated snapshots, or status JSON.")

#define HELLO_FIELDS(F) \
    F(u8,  role,        1, 4,                "enum msg_role") \
    F(str, name,        1, MSG_NAME_MAX,     "process name, for people, e.g. worker-0") \
    F(id,  instance,    0, 0,                "random, new at each start of the process") \
    F(u32, pid,         0, UINT32_MAX,       "process id, 0 = unknown") \
    F(u64, pid_ns,      0, UINT64_MAX,       "inode of its pid namespace; equal to the broker's = pid can be watched") \
    F(str, endpoint,    0, MSG_ENDPOINT_MAX, "frontend: where workers return answers") \
    F(u32, capacity,    0, 65535,            "worker: jobs at once; sandboxd: sandboxes at once")
#define WELCOME_FIELDS(F) \
    F(id,  instance,     0, 0,      "of the broker") \
    F(u32, heartbeat_ms, 10, 60000, "interval") \
    F(u32, liveness,     1, 100,    "missed intervals that mean death") \
    F(u32, workers,      0, 65535,  "ready workers") \
    F(u32, sandboxds,    0, 65535,  "ready sandboxds")
#define HEARTBEAT_FIELDS(F) \
    F(u32, load,      0, UINT32_MAX, "peer: jobs, requests or sandboxes now; broker: 0") \
    F(u32, workers,   0, 65535,      "broker: ready workers") \
    F(u32, sandboxds, 0, 65535,      "broker: ready sandboxds")
#define BYE_FIELDS(F) \
    F(i32, code, INT32_MIN, 0,       "0 or an ERR code") \
    F(str, text, 0, MSG_TEXT_MAX,    "why, for the log")
#define SUBMIT_FIELDS(F) \
    F(u8,  kind,         1, 5,                "enum msg_kind") \
    F(u8,  method,       1, 8,                "enum msg_method") \
    F(u16, sessions_max, 0, 65535,            "the key's cap of sandbox sessions, 0 = the configured default") \
    F(u32, window,       1024, 1U << 30,      "payload bytes the worker may send before the first WINDOW") \
    F(str, endpoint,     1, MSG_ENDPOINT_MAX, "where the worker returns the answer") \
    F(str, path,         1, MSG_PATH_MAX,     "request target in origin form, with query") \
    F(str, headers,      0, MSG_HEADERS_MAX,  "client headers that may matter later: 'name: value' CRLF each, lower-case names; never credentials")
#define DISPATCH_FIELDS SUBMIT_FIELDS
#define REFUSE_FIELDS(F) \
    F(i32, code,           INT32_MIN, -1,      "ERR code") \
    F(u32, retry_after_ms, 0, UINT32_MAX,      "0 = unknown") \
    F(str, text,           0, MSG_TEXT_MAX,    "message for the client")
#define LOST_FIELDS(F) \
    F(str, worker, 0, MSG_NAME_MAX, "name of the worker, for the log")
#define CREDIT_FIELDS(F) \
    F(u16, n, 1, 65535, "jobs")
#define DONE_FIELDS(F) \
    F(u8,  outcome, 1, 4,           "enum msg_outcome") \
    F(u16, credit,  0, 1,           "credits given back") \
    F(u32, busy_us, 0, UINT32_MAX,  "time at the worker")
#define CANCEL_FIELDS(F) \
    F(i32, code, INT32_MIN, -1, "ERR_CANCELLED, ERR_DEADLINE, ...")
#define HEAD_FIELDS(F) \
    F(u16, status,  100, 599,            "HTTP status") \
    F(u8,  stream,  1, 3,                "enum msg_stream: how to end the answer when its worker dies") \
    F(u64, length,  0, UINT64_MAX,       "body length, MSG_LENGTH_UNKNOWN = not known, send chunked") \
    F(u32, overhead_us, 0, UINT32_MAX,   "time so far at the worker not spent waiting for others") \
    F(u32, processing_ms, 0, UINT32_MAX, "time so far waiting for the model; UINT32_MAX = no model was called") \
    F(str, headers, 0, MSG_HEADERS_MAX,  "'name: value' CRLF each, checked by the sender; no framing headers")
#define CHUNK_FIELDS(F) \
    F(u32, sequence, 0, UINT32_MAX, "of a Responses event stream made here: sequence_number of the last event in the payload plus 1; 0 = not known")
#define END_FIELDS(F) \
    F(i32, code,           INT32_MIN, 0,       "0 or an ERR code") \
    F(u32, retry_after_ms, 0, UINT32_MAX,      "0 = unknown") \
    F(str, param,          0, 96,              "field at fault") \
    F(str, text,           0, MSG_TEXT_MAX,    "message for the client")
#define WINDOW_FIELDS(F) \
    F(u32, bytes, 1, UINT32_MAX, "payload bytes")
#define SBX_CALL_FIELDS(F) \
    F(u32, call,         0, UINT32_MAX,          "number of the call within its request") \
    F(u8,  op,           1, 9,                   "enum msg_sbx_op") \
    F(u8,  scope,        1, 3,                   "enum msg_sbx_scope: what `session` names") \
    F(str, session,      0, MSG_SESSION_MAX,     "SESSION: the client's session id; REQUEST: empty (the request id is the key); SANDBOX: a sandbox id") \
    F(id,  op_id,        0, 0,                   "operation id of a RUN: a repeated id is answered from the record, never run again") \
    F(u16, sessions_max, 0, 65535,               "cap of the tenant, 0 = default") \
    F(u32, timeout_ms,   0, UINT32_MAX,          "of the run, 0 = default") \
    F(str, owner,        0, MSG_NAME_MAX,        "sandboxd that answered an earlier call of this request; empty = let the broker place it") \
    F(str, tool,         0, MSG_NAME_MAX,        "sandbox_tool_name, empty = the default one") \
    F(str, params,       0, MSG_PARAMS_MAX,      "JSON object with op-specific parameters, or empty")
#define SBX_EVENT_FIELDS(F) \
    F(u32, call, 0, UINT32_MAX, "as in SBX_CALL") \
    F(u8,  kind, 1, 5,          "enum msg_sbx_event")
#define SBX_RESULT_FIELDS(F) \
    F(u32, call,           0, UINT32_MAX,     "as in SBX_CALL") \
    F(i32, code,           INT32_MIN, 0,      "0 or an ERR code; an exception in user code is 0") \
    F(u32, retry_after_ms, 0, UINT32_MAX,     "0 = unknown") \
    F(u32, notes,          0, 255,            "bits of enum msg_sbx_note") \
    F(str, owner,          0, MSG_NAME_MAX,   "name of the sandboxd") \
    F(str, sandbox_id,     0, 128,            "id of the sandbox, empty = none") \
    F(str, text,           0, MSG_TEXT_MAX,   "message when code is not 0")
#define SBX_CANCEL_FIELDS(F) \
    F(u32, call, 0, UINT32_MAX, "as in SBX_CALL") \
    F(str, owner, 0, MSG_NAME_MAX, "as in SBX_CALL; the broker fills it")
#define SBX_SESSIONS_FIELDS(F) \
    F(u32, sessions,  0, UINT32_MAX, "sessions alive") \
    F(u32, sandboxes, 0, UINT32_MAX, "sandboxes alive, sessionless ones included")
#define SBX_BOXES_FIELDS(F) \
    F(u32, boxes, 0, UINT32_MAX, "records in the payload")
#define STATS_FIELDS(F) \
    F(u32, lag_us, 0, UINT32_MAX, "largest loop lag of the last second")
#define STATS_GET_FIELDS(F) \
    F(u32, call, 0, UINT32_MAX, "chosen by the asker") \
    F(u8,  what, 1, 2,          "enum msg_stats: 1 metrics, 2 status")
#define STATS_REPLY_FIELDS(F) \
    F(u32, call, 0, UINT32_MAX, "as in STATS_GET")
/* clang-format on */

#endif
