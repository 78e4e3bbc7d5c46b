/* fe_request_int.h - shared between fe_request.c and fe_request_answer.c only. */
#ifndef CFD_FRONTEND_FE_REQUEST_INT_H
#define CFD_FRONTEND_FE_REQUEST_INT_H

#include "fe_request.h"

/* Takes it off its connection and out of every table, and frees it. The connection goes on by
 * itself. */
void fe_request_retire(struct fe_request *r);
void fe_request_body_drop(struct fe_request *r);
/* Ends the answer with an error, whatever has been sent. Frees r. */
void fe_request_fail(struct fe_request *r, const struct err *e);
/* The request a message is about, or NULL when it is of no interest any more. A broker that
 * restarted may have moved on to the next attempt by itself. */
struct fe_request *fe_request_find_for(struct fe *fe, const struct plane_in *in);
void fe_request_cancel_stray(struct fe *fe, const struct msg_head *of);

#endif
