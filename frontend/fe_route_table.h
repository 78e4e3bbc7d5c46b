/* fe_route_table.h - every route of both listeners.
 * X(NAME, "pattern", methods, where, handler, kind, "metric label")
 *   pattern  exact path; a final "/" matches any longer path below it. Tried in order, both with
 * and without "/v1" in front when it starts with "/v1" methods  letters: G get (and HEAD), P post,
 * U put, A patch, D delete where    P public listener, A admin listener, B both handler  FE_DO_*;
 * JOB goes to a worker as `kind` Public routes need a key unless their handler is HEALTH, READY or
 * ALIVE. */
#ifndef CFD_FRONTEND_FE_ROUTE_TABLE_H
#define CFD_FRONTEND_FE_ROUTE_TABLE_H

/* clang-format off */
#define FE_ROUTE_TABLE(X) \
    X(RESPONSES,      "/v1/responses",              "P",    'P', JOB,     MSG_KIND_RESPONSES, "responses") \
    X(CHAT,           "/v1/chat/completions",       "P",    'P', JOB,     MSG_KIND_CHAT,      "chat") \
    X(INPUT_TOKENS,   "/v1/responses/input_tokens", "P",    'P', JOB,     MSG_KIND_MODEL,     "model") \
    X(COMPACT,        "/v1/responses/compact",      "P",    'P', JOB,     MSG_KIND_MODEL,     "model") \
    X(RESPONSE,       "/v1/responses/",             "GPD",  'P', JOB,     MSG_KIND_OBJECT,    "object") \
    X(FILES,          "/v1/files",                  "GP",   'P', JOB,     MSG_KIND_OBJECT,    "object") \
    X(FILE,           "/v1/files/",                 "GPD",  'P', JOB,     MSG_KIND_OBJECT,    "object") \
    X(SANDBOXES,      "/v1/sandboxes",              "GP",   'P', JOB,     MSG_KIND_SANDBOX,   "sandbox") \
    X(SANDBOX,        "/v1/sandboxes/",             "GPUD", 'P', JOB,     MSG_KIND_SANDBOX,   "sandbox") \
    X(MODELS,         "/v1/models",                 "G",    'P', MODELS,  MSG_KIND_MODEL,     "models") \
    X(MODEL,          "/v1/models/",                "G",    'P', MODEL,   MSG_KIND_MODEL,     "models") \
    X(EMBEDDINGS,     "/v1/embeddings",             "P",    'P', JOB,     MSG_KIND_MODEL,     "model") \
    X(COMPLETIONS,    "/v1/completions",            "P",    'P', JOB,     MSG_KIND_MODEL,     "model") \
    X(HEALTH,         "/healthz",                   "G",    'B', HEALTH,  MSG_KIND_MODEL,     "health") \
    X(READY,          "/readyz",                    "G",    'B', READY,   MSG_KIND_MODEL,     "health") \
    X(LIVELINESS,     "/health/liveliness",         "G",    'B', ALIVE,   MSG_KIND_MODEL,     "health") \
    X(LIVENESS,       "/health/liveness",           "G",    'B', ALIVE,   MSG_KIND_MODEL,     "health") \
    X(READINESS,      "/health/readiness",          "G",    'B', READY,   MSG_KIND_MODEL,     "health") \
    X(METRICS,        "/metrics",                   "G",    'A', METRICS, MSG_KIND_MODEL,     "admin") \
    X(STATUS,         "/status",                    "G",    'A', STATUS,  MSG_KIND_MODEL,     "admin") \
    X(PAGE,           "/",                          "G",    'A', PAGE,    MSG_KIND_MODEL,     "admin")
/* clang-format on */

#endif
