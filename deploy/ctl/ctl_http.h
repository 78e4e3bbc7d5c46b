/* ctl_http.h - one HTTP exchange for a command, on a loop of its own. Blocks the caller until it is
 * over. */
#ifndef CFD_CTL_HTTP_H
#define CFD_CTL_HTTP_H

#include "base/err.h"
#include "base/str.h"

struct ctl_http_req {
    const char *method;
    const char *url;
    struct str_view body; /* JSON; empty = none */
    const char *key;      /* API key; NULL = none */
    unsigned total_ms;    /* 0 = no limit */
};

/* 0 for any complete answer, whatever its status; SIGINT and SIGTERM end it with ERR_CANCELLED. */
int ctl_http(const struct ctl_http_req *req, int *ret_status, struct bytes *out, struct err *e);

#endif
