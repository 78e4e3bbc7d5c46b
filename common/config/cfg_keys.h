/* cfg_keys.h - inside common/config only: client API keys (kept as hashes) and CURVE keys. */
#ifndef CFD_CONFIG_CFG_KEYS_H
#define CFD_CONFIG_CFG_KEYS_H

#include "config/cfg_load.h"

/* general_settings.master_key and cofferdam.api_keys. */
int cfg_load_keys(struct cfg_load *l, const struct cfg_node *root, const struct cfg_node *own);
int cfg_load_curve(struct cfg_load *l, const struct cfg_node *own);
void cfg_curve_fini(struct cfg_curve *c);

#endif
