/* ic_request.h - the client's request: checked, taken apart, and put together again for each model
 * call.
 *
 * Everything we do not need to change keeps its bytes (see ic_json.h). The body of a model call is
 *
 *   {"model": <spliced by wk_up> , head... , "input":[ items... transcript... ] tail... }
 *
 * head and items are made once, here; the transcript grows with every round; the tail depends on
 * the round (tools, tool_choice, tokens left).
 *
 * Threads:  loop thread. Lifetime: spans borrow from `body`, which must outlive the request.
 * Errors:   CLIENT errors with `param` set; the text says what to send instead. */
#ifndef CFD_ICEPT_IC_REQUEST_H
#define CFD_ICEPT_IC_REQUEST_H

#include "config/cfg.h"
#include "ic_json.h"
#include "proto/msg.h"

#define IC_SESSION_MAX      256
#define IC_ALIAS_MAX        64
#define IC_CONTAINER_MAX    192
#define IC_FILES_MAX        50
#define IC_CONTAINER_PREFIX "cntr_"

enum ic_surface { IC_RESPONSES, IC_CHAT };

struct ic_request {
    enum ic_surface surface;
    struct icj root;
    struct bytes model; /* decoded public name */
    bool is_stream;
    bool is_outputs_included; /* run outputs are part of the items the client gets */
    bool is_usage_included;   /* chat: the client asked for the usage chunk */
    bool is_unstored;         /* store:false: the provider forgets the items of each round */
    bool is_conversation;     /* the provider keeps the history itself */

    char alias[IC_ALIAS_MAX + 1]; /* name of our function, no client function has it */
    bool is_type_taken;           /* a client function is called code_interpreter */
    bool is_name_taken;           /* ... or as our function is called by default */
    char session[IC_SESSION_MAX + 1];
    size_t session_n;                     /* 0 = none */
    char container[IC_CONTAINER_MAX + 1]; /* explicit container as the client wrote it, "" = auto */
    struct bytes sbx_params;              /* JSON object with container settings, or empty */

    uint64_t tool_calls_max;    /* UINT64_MAX = none */
    uint64_t output_tokens_max; /* UINT64_MAX = none */
    const char *tokens_name;    /* member that carries the cap */

    /* originals for the echo; absent when the client did not send them */
    struct icj tools;
    struct icj tool_choice;
    struct icj parallel;
    struct icj metadata;
    struct icj max_output_tokens;
    struct icj max_tool_calls;

    /* upstream's parts */
    struct bytes head;  /* ,"k":v,... */
    struct bytes items; /* input items or messages, comma separated */
    bool has_input;
    struct bytes include;       /* array, empty = leave out */
    struct bytes tools_all;     /* array with our function */
    struct bytes tools_closing; /* without it; empty = none left */
    struct bytes choice_first;  /* tool_choice; empty = leave out */
    struct bytes choice_later;
    struct bytes choice_closing;
};

/* `headers`: the client's, 'name: value' CRLF each. On error *ret still needs ic_request_fini. */
int ic_request_parse(struct ic_request *ret, enum ic_surface surface, struct str_view body,
                     struct str_view headers, const struct cfg *cfg, struct err *e);
void ic_request_fini(struct ic_request *r); /* accepts zeroed */

/* What follows the items of one model call: from `]` to the final `}`. */
void ic_request_tail(const struct ic_request *r, bool is_first, bool is_closing,
                     uint64_t output_tokens_left, struct bytes *ret);

/* --- parts, one file each --- */

/* ic_tools.c: tools, tool_choice -> alias, container, tools_*, choice_*. */
int ic_tools_parse(struct ic_request *r, const struct cfg *cfg, struct err *e);
/* ic_history.c: input or messages -> items. Needs the alias. */
int ic_history_parse(struct ic_request *r, struct icj input, struct err *e);

/* "Invalid type for 'param': expected X, but got Y instead." */
int ic_bad_type(struct err *e, const char *param, const char *expected, struct icj got);

#endif
