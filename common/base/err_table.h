/* err_table.h - the only list of error codes.
 *
 * X(NAME, blame, retry, http, type, code, text)
 *   blame  who caused it: CLIENT, UPSTREAM, PEER or SELF; decides reply, metric and log level
 *   retry  whether the same request may succeed later
 *   http   status when it reaches a client; type and code are OpenAI's error object fields
 *          (a NULL code is JSON null)
 * Values are assigned by position, from -1 down, and live inside one build only: on the wire
 * between processes the code travels as its number and both ends must be of one protocol version.
 */
#ifndef CFD_BASE_ERR_TABLE_H
#define CFD_BASE_ERR_TABLE_H

/* clang-format off */
#define ERR_TABLE(X) \
    X(INTERNAL,            SELF,     0, 500, "server_error",          NULL,                        "internal error") \
    X(NOMEM,               SELF,     1, 503, "server_error",          "out_of_memory",             "out of memory") \
    X(INVALID,             CLIENT,   0, 400, "invalid_request_error", "invalid_value",             "invalid value") \
    X(INVALID_JSON,        CLIENT,   0, 400, "invalid_request_error", "invalid_json",              "the body is not valid JSON") \
    X(INVALID_TYPE,        CLIENT,   0, 400, "invalid_request_error", "invalid_type",              "wrong type") \
    X(MISSING_PARAM,       CLIENT,   0, 400, "invalid_request_error", "missing_required_parameter", "missing required parameter") \
    X(UNSUPPORTED_PARAM,   CLIENT,   0, 400, "invalid_request_error", "unsupported_parameter",     "unsupported parameter") \
    X(ABOVE_MAX,           CLIENT,   0, 400, "invalid_request_error", "integer_above_max_value",   "value too large") \
    X(BELOW_MIN,           CLIENT,   0, 400, "invalid_request_error", "integer_below_min_value",   "value too small") \
    X(STRING_TOO_LONG,     CLIENT,   0, 400, "invalid_request_error", "string_above_max_length",   "string too long") \
    X(BAD_REQUEST,         CLIENT,   0, 400, "invalid_request_error", "bad_request",               "malformed HTTP request") \
    X(UNAUTHORIZED,        CLIENT,   0, 401, "invalid_request_error", "invalid_api_key",           "incorrect API key provided") \
    X(FORBIDDEN,           CLIENT,   0, 403, "invalid_request_error", "request_forbidden",         "not allowed") \
    X(NOT_FOUND,           CLIENT,   0, 404, "invalid_request_error", NULL,                        "not found") \
    X(MODEL_NOT_FOUND,     CLIENT,   0, 404, "invalid_request_error", "model_not_found",           "the model does not exist") \
    X(METHOD,              CLIENT,   0, 405, "invalid_request_error", "method_not_allowed",        "method not allowed") \
    X(REQUEST_TIMEOUT,     CLIENT,   1, 408, "invalid_request_error", "request_timeout",           "the request was not received in time") \
    X(CONFLICT,            CLIENT,   1, 409, "invalid_request_error", "conflict",                  "conflict") \
    X(BODY_TOO_LARGE,      CLIENT,   0, 413, "invalid_request_error", "request_too_large",         "request body too large") \
    X(URI_TOO_LONG,        CLIENT,   0, 414, "invalid_request_error", "uri_too_long",              "request target too long") \
    X(EXPECTATION,         CLIENT,   0, 417, "invalid_request_error", "expectation_failed",        "unsupported Expect header") \
    X(HEAD_TOO_LARGE,      CLIENT,   0, 431, "invalid_request_error", "headers_too_large",         "request header fields too large") \
    X(NOT_IMPLEMENTED,     CLIENT,   0, 501, "invalid_request_error", "not_implemented",           "not implemented") \
    X(HTTP_VERSION,        CLIENT,   0, 505, "invalid_request_error", "http_version",              "HTTP version not supported") \
    X(RATE_LIMIT,          CLIENT,   1, 429, "rate_limit_error",      "rate_limit_exceeded",       "too many requests") \
    X(SANDBOX_CAPACITY,    CLIENT,   1, 429, "rate_limit_error",      "sandbox_capacity",          "all sandboxes are busy") \
    X(QUEUE_FULL,          SELF,     1, 503, "server_error",          "server_is_overloaded",      "the request queue is full") \
    X(UNAVAILABLE,         SELF,     1, 503, "server_error",          "service_unavailable",       "no worker is available") \
    X(DRAINING,            SELF,     1, 503, "server_error",          "shutting_down",             "the server is shutting down") \
    X(WORKER_LOST,         SELF,     1, 502, "server_error",          "worker_lost",               "the worker of this request was lost") \
    X(DEADLINE,            SELF,     1, 504, "server_error",          "deadline_exceeded",         "the request ran out of time") \
    X(CANCELLED,           CLIENT,   0, 499, "invalid_request_error", "cancelled",                 "cancelled by the client") \
    X(UPSTREAM_CONNECT,    UPSTREAM, 1, 502, "server_error",          "upstream_unreachable",      "cannot reach the model provider") \
    X(UPSTREAM_TIMEOUT,    UPSTREAM, 1, 504, "server_error",          "upstream_timeout",          "the model provider did not answer in time") \
    X(UPSTREAM_CUT,        UPSTREAM, 1, 502, "server_error",          "upstream_disconnected",     "the model provider closed the connection early") \
    X(UPSTREAM_BAD,        UPSTREAM, 0, 502, "server_error",          "upstream_invalid_response", "the model provider sent an invalid answer") \
    X(UPSTREAM_STATUS,     UPSTREAM, 1, 502, "server_error",          "upstream_error",            "the model provider refused the request") \
    X(SANDBOX_UNAVAILABLE, UPSTREAM, 1, 503, "server_error",          "sandbox_unavailable",       "the sandbox provider is unavailable") \
    X(SANDBOX_AUTH,        UPSTREAM, 0, 502, "server_error",          "sandbox_auth_failed",       "the sandbox provider refused its API key") \
    X(SANDBOX_LOST,        UPSTREAM, 0, 502, "server_error",          "sandbox_lost",              "the sandbox was lost while code was running") \
    X(SANDBOX_NOT_FOUND,   CLIENT,   0, 404, "invalid_request_error", "sandbox_not_found",         "no such sandbox") \
    X(SANDBOX_BUSY,        CLIENT,   1, 409, "invalid_request_error", "sandbox_busy",              "the sandbox is busy") \
    X(PEER_VERSION,        PEER,     0, 500, "server_error",          NULL,                        "peer speaks another protocol version") \
    X(PEER_MALFORMED,      PEER,     0, 500, "server_error",          NULL,                        "malformed message from a peer") \
    X(PEER_FORBIDDEN,      PEER,     0, 500, "server_error",          NULL,                        "message not permitted for this peer in this state") \
    X(AGAIN,               SELF,     1, 503, "server_error",          NULL,                        "would block") \
    X(LIMIT,               SELF,     1, 503, "server_error",          NULL,                        "an internal limit was reached") \
    X(CONFIG,              SELF,     0, 500, "server_error",          NULL,                        "invalid configuration") \
    X(IO,                  SELF,     1, 500, "server_error",          NULL,                        "input/output error") \
    X(HOST,                SELF,     0, 500, "server_error",          NULL,                        "the host lacks something that is required") \
    X(EOF,                 PEER,     0, 500, "server_error",          NULL,                        "end of input")
/* clang-format on */

#endif
