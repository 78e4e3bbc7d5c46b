/* fe_return.h - the endpoint on which workers return answers directly. */
#ifndef CFD_FRONTEND_FE_RETURN_H
#define CFD_FRONTEND_FE_RETURN_H

#include "io/plane.h"

struct fe;

struct fe_return {
    struct plane *plane; /* owned */
};

int fe_return_open(struct fe *fe, struct err *e);
void fe_return_close(struct fe *fe);
const char *fe_return_endpoint(const struct fe *fe);
/* Sends WINDOW to the worker `peer`. */
int fe_return_grant(struct fe *fe, struct str_view peer, const struct request_id *rid,
                    uint8_t attempt, uint32_t bytes);

#endif
