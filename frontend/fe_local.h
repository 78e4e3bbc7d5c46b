/* fe_local.h - what the frontend answers by itself: models, health, the status page, OPTIONS. */
#ifndef CFD_FRONTEND_FE_LOCAL_H
#define CFD_FRONTEND_FE_LOCAL_H

#include "fe_conn.h"

/* Answers the request of c->route, whose handler is not JOB, METRICS or STATUS. */
void fe_local_answer(struct fe_conn *c, const struct fe_http_head *head);
/* Builds the body of /v1/models from the configuration. NULL on out of memory. */
struct buf *fe_local_models(const struct cfg *cfg, uint64_t created_s);

#endif
