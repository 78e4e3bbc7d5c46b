/* fe_route.h - method and path to what handles them. Pure.
 *
 * Paths are compared as they came: nothing is decoded, merged or resolved. A path with an empty
 * segment, a dot segment (plain or escaped) or an escaped slash outside /v1/models/{id} has no
 * route. */
#ifndef CFD_FRONTEND_FE_ROUTE_H
#define CFD_FRONTEND_FE_ROUTE_H

#include "base/str.h"
#include "proto/msg.h"

enum fe_do {
    FE_DO_NONE, /* 404 */
    FE_DO_JOB,
    FE_DO_MODELS,
    FE_DO_MODEL,
    FE_DO_HEALTH,
    FE_DO_READY,
    FE_DO_ALIVE,
    FE_DO_METRICS,
    FE_DO_STATUS,
    FE_DO_PAGE,
    FE_DO_OPTIONS /* 204 with Allow */
};

struct fe_route {
    enum fe_do what;
    enum msg_kind kind; /* of a JOB */
    bool is_allowed;    /* false: 405 with `allow` */
    bool needs_key;
    bool needs_body;     /* a POST that makes no sense without one */
    bool has_prefix;     /* the path starts with /v1 */
    const char *methods; /* static letters of the table */
    const char *label;   /* metric label, static */
};

void fe_route_find(struct fe_route *ret, bool is_admin, enum msg_method method,
                   struct str_view path);
/* "GET, HEAD, OPTIONS" into dst. */
void fe_route_allow(char *dst, size_t cap, const struct fe_route *r);
/* The id behind /v1/models/ or /models/, percent-decoded once into dst; false when it does not fit.
 */
bool fe_route_model_id(struct str_view path, char *dst, size_t cap);

#endif
