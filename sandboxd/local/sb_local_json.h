/* sb_local_json.h - JSON that foreign code sent, checked and written anew. The only user of jansson
 * here. */
#ifndef CFD_SANDBOXD_SB_LOCAL_JSON_H
#define CFD_SANDBOXD_SB_LOCAL_JSON_H

#include "base/str.h"

/* An object of MIME type -> value; is_main_result, when there, is a boolean. 0, ERR_INVALID_JSON or
 * ERR_NOMEM. `out` is reset first. */
int sb_local_json_display(struct str_view in, struct bytes *out);
/* An object with exactly name, value and traceback, all strings; same errors. */
int sb_local_json_exception(struct str_view in, struct bytes *out);

#endif
