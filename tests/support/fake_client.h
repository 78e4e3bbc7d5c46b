/* fake_client.h - reads what a client would get, as strictly as the strictest SDK, and hands out
 * one object. */
#ifndef CFD_TESTS_FAKE_CLIENT_H
#define CFD_TESTS_FAKE_CLIENT_H

#include <jansson.h>

#include "base/str.h"

/* The provider contradicts its own deltas: code.done, not they, must agree with the item. */
extern bool fc_is_code_replaced;

/* A Responses stream: checks order, numbers, ids and deltas; returns the terminal event's response
 * (owned), its type in *ret_type (static), and how many events came. Fails the test on a breach. */
json_t *fc_responses_stream(struct str_view text, const char **ret_type, unsigned *ret_events,
                            uint32_t *ret_last);
/* A chat stream put together as a chat.completion; {"error":..} as it is. */
json_t *fc_chat_stream(struct str_view text);
json_t *fc_object(struct str_view text);

#endif
