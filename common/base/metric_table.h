/* metric_table.h - every metric any process exports. X(ID, KIND, "name", "labels", "help").
 * KIND: COUNTER, GAUGE or HISTOGRAM (seconds; fixed buckets in metric.c). `labels` is a comma list
 * of label names, at most 2, with bounded values; every process adds process="name" when it is
 * rendered. */
#ifndef CFD_BASE_METRIC_TABLE_H
#define CFD_BASE_METRIC_TABLE_H

/* clang-format off */
#define METRIC_TABLE(X) \
    X(FE_CONNECTIONS,        GAUGE,     "cofferdam_frontend_connections",            "",              "open client connections") \
    X(FE_IN_FLIGHT,          GAUGE,     "cofferdam_frontend_in_flight_requests",     "",              "requests accepted and not yet answered") \
    X(FE_REQUESTS,           COUNTER,   "cofferdam_frontend_requests_total",         "route,status",  "requests answered") \
    X(FE_REJECTS,            COUNTER,   "cofferdam_frontend_rejected_total",         "reason",        "connections and requests refused before they became work") \
    X(FE_REQUEST_SECONDS,    HISTOGRAM, "cofferdam_frontend_request_seconds",        "route",         "time from the last byte of a request to the last byte of its answer") \
    X(FE_FIRST_BYTE_SECONDS, HISTOGRAM, "cofferdam_frontend_first_byte_seconds",     "route",         "time from the last byte of a request to the first byte of its answer") \
    X(BR_QUEUE_DEPTH,        GAUGE,     "cofferdam_broker_queue_depth_jobs",         "",              "jobs waiting for a worker") \
    X(BR_QUEUE_OLDEST,       GAUGE,     "cofferdam_broker_queue_oldest_wait_seconds", "",             "age of the oldest waiting job") \
    X(BR_IN_FLIGHT,          GAUGE,     "cofferdam_broker_in_flight_jobs",           "",              "jobs at workers") \
    X(BR_CREDIT,             GAUGE,     "cofferdam_broker_credit_jobs",              "",              "jobs that workers can still take") \
    X(BR_PEERS,              GAUGE,     "cofferdam_broker_peers",                    "role",          "connected peers") \
    X(BR_TENANTS,            GAUGE,     "cofferdam_broker_queued_tenants",           "",              "tenants with waiting jobs") \
    X(BR_JOBS,               COUNTER,   "cofferdam_broker_jobs_total",               "outcome",       "jobs that ended") \
    X(BR_REFUSED,            COUNTER,   "cofferdam_broker_refused_total",            "reason",        "jobs refused") \
    X(BR_LOST,               COUNTER,   "cofferdam_broker_lost_jobs_total",          "",              "jobs whose worker was lost") \
    X(BR_BAD_MESSAGES,       COUNTER,   "cofferdam_broker_bad_messages_total",       "",              "malformed or forbidden messages") \
    X(BR_WAIT_SECONDS,       HISTOGRAM, "cofferdam_broker_wait_seconds",             "",              "time a job waited for a worker") \
    X(BR_SANDBOX_CALLS,      GAUGE,     "cofferdam_broker_sandbox_calls_in_flight",  "",              "sandbox calls routed and not yet answered") \
    X(BR_SESSIONS,           GAUGE,     "cofferdam_broker_sessions",                 "",              "sandbox sessions reported by sandboxd") \
    X(WK_IN_FLIGHT,          GAUGE,     "cofferdam_worker_in_flight_jobs",           "",              "jobs being worked on") \
    X(WK_JOBS,               COUNTER,   "cofferdam_worker_jobs_total",               "path,outcome",  "jobs finished; path fast, loop, sandbox or object") \
    X(WK_OVERHEAD_SECONDS,   HISTOGRAM, "cofferdam_worker_overhead_seconds",         "",              "time of a job not spent waiting for a model or a sandbox") \
    X(WK_ROUNDS,             COUNTER,   "cofferdam_worker_rounds_total",             "",              "model calls made by the agentic loop") \
    X(WK_UPSTREAM_RETRIES,   COUNTER,   "cofferdam_worker_upstream_retries_total",   "",              "model calls tried again") \
    X(WK_OPERATION,          HISTOGRAM, "gen_ai_client_operation_duration_seconds",  "operation",     "duration of model calls (OpenTelemetry gen_ai.client.operation.duration)") \
    X(WK_TOKENS,             COUNTER,   "gen_ai_client_token_usage_total",           "type",          "tokens used (OpenTelemetry gen_ai.client.token.usage)") \
    X(WK_TOOL,               HISTOGRAM, "gen_ai_execute_tool_duration_seconds",      "",              "duration of tool runs (OpenTelemetry gen_ai.execute_tool.duration)") \
    X(SB_SESSIONS,           GAUGE,     "cofferdam_sandboxd_sessions",               "state",         "sandbox sessions by state") \
    X(SB_QUEUED_RUNS,        GAUGE,     "cofferdam_sandboxd_queued_runs",            "",              "runs waiting for their sandbox") \
    X(SB_POOL,               GAUGE,     "cofferdam_sandboxd_pool_sandboxes",         "pool",          "ready sandboxes in a pool") \
    X(SB_CREATES,            COUNTER,   "cofferdam_sandboxd_creates_total",          "provider,outcome", "sandbox creations") \
    X(SB_DELETES,            COUNTER,   "cofferdam_sandboxd_deletes_total",          "provider,reason", "sandboxes deleted") \
    X(SB_RUNS,               COUNTER,   "cofferdam_sandboxd_runs_total",             "provider,outcome", "code runs") \
    X(SB_RUN_SECONDS,        HISTOGRAM, "cofferdam_sandboxd_run_seconds",            "provider",      "duration of code runs") \
    X(SB_CREATE_SECONDS,     HISTOGRAM, "cofferdam_sandboxd_create_seconds",         "provider",      "duration of sandbox creations") \
    X(PROC_LOOP_LAG,         GAUGE,     "cofferdam_process_loop_lag_seconds",        "",              "largest delay of the event loop in the last second") \
    X(PROC_RSS,              GAUGE,     "cofferdam_process_resident_bytes",          "",              "resident memory") \
    X(PROC_UPTIME,           GAUGE,     "cofferdam_process_uptime_seconds",          "",              "time since the process started") \
    X(PROC_SOFT_CHECKS,      COUNTER,   "cofferdam_process_soft_check_failures_total", "",            "soft checks that failed")
/* clang-format on */

#endif
