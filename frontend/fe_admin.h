/* fe_admin.h - answers that need the broker's knowledge: /metrics and /status. Without a broker, or
 * when it does not answer within FE_ADMIN_WAIT_MS, they show what this process knows by itself.
 * Bounds: FE_ADMIN_ASKS_MAX questions at once. */
#ifndef CFD_FRONTEND_FE_ADMIN_H
#define CFD_FRONTEND_FE_ADMIN_H

#include "io/plane.h"

#define FE_ADMIN_ASKS_MAX 32U
#define FE_ADMIN_WAIT_MS  2000U

struct fe;
struct fe_conn;

struct fe_admin_ask {
    struct fe_conn *conn; /* borrowed; NULL = free slot */
    uint32_t call;
    bool is_status;
    uint64_t until_ms;
};

struct fe_admin {
    struct fe_admin_ask asks[FE_ADMIN_ASKS_MAX];
    uint32_t next_call;
};

void fe_admin_ask_metrics(struct fe_conn *c);
void fe_admin_ask_status(struct fe_conn *c);
void fe_admin_on_reply(struct fe *fe, const struct plane_in *in);
void fe_admin_on_conn_gone(struct fe_conn *c);
void fe_admin_tick(struct fe *fe);

#endif
