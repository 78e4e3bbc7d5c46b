/* log_table.h - every event that may be logged. X(NAME, level, "doc"). Add a row, then use
 * LOG(NAME, ...). */
#ifndef CFD_BASE_LOG_TABLE_H
#define CFD_BASE_LOG_TABLE_H

/* clang-format off */
#define LOG_TABLE(X) \
    X(START,            INFO,  "a process is ready; name, pid, version, protections in force") \
    X(STOP,             INFO,  "a process ends; reason") \
    X(DRAIN,            INFO,  "a process stopped taking work and finishes what it has") \
    X(FATAL,            ERROR, "a process cannot go on; error") \
    X(CONFIG_LOADED,    INFO,  "a configuration took effect; file, generation") \
    X(CONFIG_REJECTED,  ERROR, "a configuration was refused and changed nothing; error") \
    X(CONFIG_NOTICE,    WARN,  "something in the configuration is ignored or skipped; line, key, why") \
    X(LINK_UP,          INFO,  "connected to a broker") \
    X(LINK_DOWN,        WARN,  "connection to a broker lost") \
    X(PEER_JOIN,        INFO,  "a peer said HELLO to the broker; name, role") \
    X(PEER_LEFT,        INFO,  "a peer that had said BYE is gone, nothing was in flight; why") \
    X(PEER_GONE,        WARN,  "a peer is gone or was declared dead; why, in_flight") \
    X(PEER_BAD,         WARN,  "a peer broke the protocol and was dropped; error") \
    X(STATE,            DEBUG, "a state machine moved; object, from, to, why") \
    X(REQUEST_DONE,     INFO,  "a client request ended; method, route, status, bytes, us, key, client_id") \
    X(PROBE_DONE,       DEBUG, "a health route was asked; method, status, us") \
    X(REQUEST_ERROR,    WARN,  "a client request failed; error") \
    X(JOB_RETRY,        WARN,  "a job is tried again; why, attempt") \
    X(JOB_LOST,         WARN,  "the worker of a job was lost; what happens next") \
    X(UPSTREAM_RETRY,   WARN,  "a model call is tried again; status or error, delay") \
    X(UPSTREAM_ERROR,   WARN,  "a model call failed for good") \
    X(SANDBOX_CREATE,   INFO,  "a sandbox was created; id, provider, us") \
    X(SANDBOX_GONE,     INFO,  "a sandbox ended; provider, id, why") \
    X(SANDBOX_LOST,     WARN,  "a sandbox was found dead; id, why") \
    X(SANDBOX_NOTICE,   WARN,  "something optional is missing in sandboxes of this host; what") \
    X(RUN_DONE,         INFO,  "code ran in a sandbox; id, end, us, out_bytes") \
    X(CHILD_START,      INFO,  "the supervisor started a child; name, pid") \
    X(CHILD_EXIT,       WARN,  "a child ended; name, pid, status, what happens next") \
    X(CHECK_FAILED,     ERROR, "a soft check failed; condition, place") \
    X(LOG_SUPPRESSED,   WARN,  "lines of one event were dropped by the rate limit; event, lines") \
    X(OVERLOAD,         WARN,  "a limit was reached; which, value") \
    X(HTTP_REJECT,      DEBUG, "a connection was refused or its request malformed; error")
/* clang-format on */

#endif
