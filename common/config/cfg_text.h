/* cfg_text.h - loading from memory, for tests and fuzzing. */
#ifndef CFD_CONFIG_CFG_TEXT_H
#define CFD_CONFIG_CFG_TEXT_H

#include "config/cfg.h"

/* cfg_load with the text of the file given; `file` is only named in messages. */
int cfg_load_text(struct cfg **ret, const char *file, struct str_view text, enum cfg_role role,
                  cfg_notice_cb notice, void *ctx, struct err *e);

#endif
