/* wk_route.h - what routing decides from a scanned body. Pure but for the configuration. */
#ifndef CFD_WORKERS_WK_ROUTE_H
#define CFD_WORKERS_WK_ROUTE_H

#include "config/cfg.h"
#include "wk_scan.h"

#define WK_MODEL_NAME_MAX 256

/* Is code execution taken over for this model (on, and enabled for a provider that serves it)? */
bool wk_route_is_intercepted(const struct cfg *cfg, struct str_view model);

/* The model that the body names, decoded into dst, checked against the configuration. */
int wk_route_model(const struct cfg *cfg, const struct wk_scan *scan, struct str_view body,
                   char dst[WK_MODEL_NAME_MAX], struct str_view *ret, struct err *e);

#endif
