/* ic_chat.h - the chat surface: reading (ic_chat.c, tool calls in ic_chat_calls.c) and writing
 * (ic_chat_emit.c). */
#ifndef CFD_ICEPT_IC_CHAT_H
#define CFD_ICEPT_IC_CHAT_H

#include "ic_loop.h"

/* Tool call fragments of a delta. Those of the client's calls go into `ret`, a JSON array: a call
 * is held back until its name and the first of its arguments are there, then told with a whole
 * name. */
int ic_chat_take_fragments(struct ic_loop *l, struct icj calls, struct bytes *ret, struct err *e);
/* The stream is complete: so are the calls. `ret`: client calls that were held back, a JSON array.
 */
int ic_chat_end_fragments(struct ic_loop *l, struct bytes *ret, struct err *e);
/* Tool calls of a whole message, each by its place in it. */
int ic_chat_take_whole(struct ic_loop *l, struct icj calls, struct err *e);

/* A chunk made from the provider's `chunk` with our delta. */
void ic_chat_emit_delta(struct ic_loop *l, struct icj chunk, struct str_view delta,
                        struct icj logprobs);
void ic_chat_emit_answer(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body);
void ic_chat_emit_fail(struct ic_loop *l);

#endif
