/* ic_chat.h - the chat surface: reading (ic_chat.c) and writing (ic_chat_emit.c). */
#ifndef CFD_ICEPT_IC_CHAT_H
#define CFD_ICEPT_IC_CHAT_H

#include "ic_loop.h"

/* A chunk made from the provider's `chunk` with our delta. */
void ic_chat_emit_delta(struct ic_loop *l, struct icj chunk, struct str_view delta,
                        struct icj logprobs);
void ic_chat_emit_answer(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body);
void ic_chat_emit_fail(struct ic_loop *l);

#endif
