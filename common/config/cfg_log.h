/* cfg_log.h - what a long-running process logs of its configuration. */
#ifndef CFD_CONFIG_CFG_LOG_H
#define CFD_CONFIG_CFG_LOG_H

#include "config/cfg.h"

/* Set for its daemons by a supervisor, which has logged the notices of the file they read. */
#define CFG_ENV_SUPERVISED "COFFERDAM_SUPERVISED"

/* For cfg_load: logs CONFIG_NOTICE, unless a supervisor did. */
void cfg_log_notice(void *ctx, unsigned line, const char *key, const char *why);
/* `c` takes effect: numbers it within this process (c->generation), logs CONFIG_LOADED. */
void cfg_taken(struct cfg *c);

#endif
