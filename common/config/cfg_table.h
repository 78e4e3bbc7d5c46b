/* cfg_table.h - every scalar key under `cofferdam:`.
 * X("path", type, member, default, lo, hi, "doc"); type str (default string, bounds in bytes), num
 * (sizes and times: plain numbers; memory keys also take k/m/g suffixes), bool.
 * deploy/config.example.yaml shows them all. */
#ifndef CFD_CONFIG_CFG_TABLE_H
#define CFD_CONFIG_CFG_TABLE_H

/* clang-format off */
#define CFG_TABLE(X) \
    X("listen",                         str,  listen,                 "127.0.0.1:4000", 3, 255,          "client address") \
    X("admin_listen",                   str,  admin_listen,           "127.0.0.1:4001", 0, 255,          "metrics, health and status address; empty = off") \
    X("run_dir",                        str,  run_dir,                "/run/cofferdam", 1, 80,           "directory of the sockets; made 0700") \
    X("state_dir",                      str,  state_dir,              "/var/lib/cofferdam", 1, 255,      "directory of the journal") \
    X("log_level",                      str,  log_level,              "info",           4, 5,            "debug, info, warn or error") \
    X("frontends",                      num,  frontends,              1,                0, 64,           "frontend processes that `cofferdam up` starts") \
    X("workers",                        num,  workers,                1,                0, 256,          "worker processes that `cofferdam up` starts") \
    X("sandboxds",                      num,  sandboxds,              1,                0, 1,            "0 = sandboxd runs on another host") \
    X("run_broker",                     bool, run_broker,             true,             0, 1,            "false = the broker runs on another host") \
    X("broker_listen",                  str,  broker_listen,          "",               0, 255,          "extra tcp:// endpoint of the broker for other hosts; needs curve") \
    X("return_listen",                  str,  return_listen,          "",               0, 255,          "tcp://HOST:* where workers on other hosts return answers; empty = ipc in run_dir") \
    X("allow_anonymous",                bool, allow_anonymous_key,    false,            0, 1,            "accept requests without a key on a non-loopback address") \
    X("drain_s",                        num,  drain_s,                30,               0, 3600,         "longest wait for running requests when stopping") \
    X("session_header",                 str,  session_header,         "",               0, 64,           "header that also names a session; empty = none") \
    X("limits.body_bytes",              num,  body_max_bytes,         104857600,        1024, 536870912, "largest request body") \
    X("limits.connections",             num,  connections_max,        10000,            1, 1000000,      "client connections per frontend") \
    X("limits.requests",                num,  requests_max,           4096,             1, 1000000,      "requests in flight per frontend") \
    X("limits.head_timeout_ms",         num,  head_timeout_ms,        10000,            100, 600000,     "whole request head") \
    X("limits.body_timeout_ms",         num,  body_timeout_ms,        30000,            100, 600000,     "longest gap inside a request body") \
    X("limits.idle_timeout_ms",         num,  idle_timeout_ms,        75000,            100, 3600000,    "idle keep-alive connection") \
    X("limits.write_timeout_ms",        num,  write_timeout_ms,       120000,           100, 3600000,    "a client that takes nothing") \
    X("limits.request_timeout_s",       num,  request_deadline_s,     900,              1, 86400,        "whole request") \
    X("limits.keepalive_comment_s",     num,  keepalive_comment_s,    15,               1, 300,          "comment lines on a silent event stream") \
    X("queue.jobs",                     num,  queue_jobs_max,         10000,            1, 1000000,      "jobs waiting in all") \
    X("queue.per_key",                  num,  queue_per_key_max,      1000,             1, 1000000,      "jobs waiting per API key") \
    X("queue.wait_s",                   num,  queue_wait_s,           60,               1, 3600,         "longest wait for a worker") \
    X("worker.jobs",                    num,  worker_jobs_max,        512,              1, 65535,        "jobs at once per worker") \
    X("worker.connections",             num,  worker_connections_max, 512,              1, 65535,        "connections per worker to the providers, in use and kept; fewer than worker.jobs makes long streams wait") \
    X("upstream.connect_timeout_ms",    num,  up_connect_ms,          10000,            10, 600000,      "") \
    X("upstream.first_byte_timeout_ms", num,  up_first_byte_ms,       600000,           10, 3600000,     "") \
    X("upstream.idle_timeout_ms",       num,  up_idle_ms,             300000,           10, 3600000,     "") \
    X("code_interpreter.tool_name",     str,  ci_tool_name,           "litellm_code_execution", 1, 64,   "function name the model sees") \
    X("code_interpreter.tool_description", str, ci_tool_description,  "",               0, 4096,         "empty = built in") \
    X("code_interpreter.max_agentic_loops", num, ci_rounds_max,       10,               1, 100,          "model calls of one request that may run code") \
    X("code_interpreter.run_timeout_s", num,  ci_run_timeout_s,       60,               1, 3600,         "one run of code") \
    X("code_interpreter.request_timeout_s", num, ci_wall_s,           600,              1, 86400,        "all rounds of a request") \
    X("code_interpreter.max_tool_output_bytes", num, ci_output_max_bytes, 65536,        256, 10485760,   "text of one run shown to the model") \
    X("sessions.ttl_s",                 num,  sessions_ttl_s,         900,              1, 86400,        "from the last access") \
    X("sessions.per_key",               num,  sessions_per_key,       10,               1, 10000,        "sessions per API key") \
    X("sessions.on_stop",               str,  sessions_on_stop,       "keep",           4, 6,            "keep or delete remote sessions on a graceful stop") \
    X("sessions.total",                 num,  sandboxes_max,          256,              1, 100000,       "sandboxes at once per sandboxd") \
    X("local.memory",                   num,  local_memory_bytes,     536870912,        67108864, 1099511627776, "address space is not limited by it; resident memory is where cgroups allow") \
    X("local.pids",                     num,  local_pids_max,         64,               4, 4096,         "processes and threads per sandbox") \
    X("local.files",                    num,  local_files_max,        256,              16, 65536,       "open files per process") \
    X("local.disk",                     num,  local_disk_bytes,       268435456,        1048576, 1099511627776, "size of the sandbox's own file systems") \
    X("local.cpu_s",                    num,  local_cpu_s,            120,              1, 86400,        "CPU seconds per run") \
    X("local.network",                  str,  local_network,          "none",           4, 4,            "only none") \
    X("local.output_max_bytes",         num,  local_output_max_bytes, 10485760,         1024, 1073741824, "output of one run, all providers") \
    X("local.pool_parked",              num,  local_pool_parked,      8,                0, 1000,         "isolated children ready to use") \
    X("local.pool_warm",                num,  local_pool_warm,        2,                0, 1000,         "children that have already run a cell") \
    X("local.root",                     str,  local_root,             "",               0, 255,          "prepared root directory instead of binds of the host's")
/* clang-format on */

#endif
