/* fe_app.h - the frontend process: everything that is there once.
 *
 * Threads: loop thread only. Lifetime: from fe_app_start to the return of loop_run.
 * Bounds:  limits.connections, limits.requests, FE_BODIES_MAX bytes of request bodies held at once.
 */
#ifndef CFD_FRONTEND_FE_APP_H
#define CFD_FRONTEND_FE_APP_H

#include "base/list.h"
#include "base/map.h"
#include "config/cfg.h"
#include "fe_admin.h"
#include "fe_link.h"
#include "fe_quota.h"
#include "fe_return.h"
#include "fe_server.h"
#include "http1_write.h"
#include "io/loop.h"

#define FE_NAME_MAX    32
#define FE_BODIES_MAX  ((uint64_t)2U << 30)
#define FE_INBUF_BYTES 65536U

struct fe {
    struct loop loop;
    struct cfg *cfg; /* owned reference */
    char config_file[512];
    char name[FE_NAME_MAX];
    struct fe_server server;
    struct fe_links links;
    struct fe_return ret;
    struct fe_admin admin;
    struct fe_quota *quota; /* owned */
    struct map *requests;   /* request id -> struct fe_request, those not yet answered */
    struct list open;       /* the same, oldest first */
    struct buf *models;     /* body of /v1/models; owned */
    uint64_t models_created_s;
    uint64_t body_bytes; /* request bodies held */
    char date[HTTP1_DATE_CAP];
    uint64_t date_s;
    uint64_t started_ms;
    bool is_draining;
    bool is_stopped;
    char inbuf[FE_INBUF_BYTES]; /* what a read just brought; used up before the next read */
};

struct fe_app_opts {
    const char *config_file;
    const char *name;
};

/* Loads the configuration, opens listeners and planes. On success run fe_app_run, then fe_app_free.
 */
int fe_app_new(struct fe **ret, const struct fe_app_opts *opts, struct err *e);
void fe_app_run(struct fe *fe);
void fe_app_free(struct fe *fe); /* accepts NULL */
/* The Date header of this second. */
const char *fe_app_date(struct fe *fe);
/* Ends the loop when draining and nothing is left. */
void fe_app_check_drained(struct fe *fe);
/* Sets the gauges and appends this process's metrics. */
void fe_app_snapshot(struct fe *fe, struct bytes *out);

#endif
