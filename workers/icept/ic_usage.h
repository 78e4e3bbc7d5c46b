/* ic_usage.h - token usage summed over model calls, whatever its members are. Pure.
 *
 * Numbers of equal name are added, objects are summed member by member, anything else is taken from
 * the newest. */
#ifndef CFD_ICEPT_IC_USAGE_H
#define CFD_ICEPT_IC_USAGE_H

#include "ic_json.h"

/* sum += usage; `sum` holds JSON text, empty = nothing yet. Not an object: no change. */
void ic_usage_add(struct bytes *sum, struct icj usage);

#endif
