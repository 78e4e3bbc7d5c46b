/* ic_responses.h - the Responses surface: reading (ic_responses.c) and writing
 * (ic_responses_emit.c). */
#ifndef CFD_ICEPT_IC_RESPONSES_H
#define CFD_ICEPT_IC_RESPONSES_H

#include "ic_loop.h"

/* response.created and response.in_progress, once; `response` is the provider's first snapshot or
 * absent. */
void ic_emit_opening(struct ic_loop *l, struct icj response);
/* A provider's event with our sequence number, output index and item id. `item` NULL = item as it
 * came. */
void ic_emit_passed(struct ic_loop *l, struct icj event, const struct ic_slot *slot,
                    const struct bytes *item);
/* output_item.added + in_progress of a call of ours. */
void ic_emit_call_added(struct ic_loop *l, struct ic_call *c);
/* The code that is decoded and not sent yet, and code.done when the arguments are complete. */
void ic_emit_call_code(struct ic_loop *l, struct ic_call *c);
void ic_emit_item_event(struct ic_loop *l, const char *type, unsigned item, struct str_view json);
void ic_emit_run_begin(struct ic_loop *l, struct ic_call *c);
void ic_emit_run_end(struct ic_loop *l, struct ic_call *c, const struct ic_output *out);
void ic_emit_run_dropped(struct ic_loop *l, struct ic_call *c);
void ic_emit_answer(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body);
void ic_emit_fail(struct ic_loop *l);

#endif
