/* ic_loop.h - one intercepted request between the wires: what a model answered, what ran, what the
 * client gets.
 *
 * wk_icept.c (the shell) moves bytes and asks wk_run what is next; the two surfaces
 * (ic_responses*.c, ic_chat*.c) read upstream answers and write the client's, both through struct
 * ic_ops. Nothing here does I/O or reads a clock.
 *
 * Threads:  loop thread. Lifetime: borrows the request and the configuration.
 * Errors:   ERR_UPSTREAM_* for what a provider got wrong; a stuck `rc` of a bytes is checked by
 * ic_loop_rc. Bounds:   IC_ITEMS_MAX items, IC_CALLS_MAX calls of a round, IC_TEXT_MAX bytes of
 * each growing text. */
#ifndef CFD_ICEPT_IC_LOOP_H
#define CFD_ICEPT_IC_LOOP_H

#include "ic_args.h"
#include "ic_output.h"
#include "ic_request.h"
#include "wk_run.h"
#include "wk_sse.h"

#define IC_ITEMS_MAX  4096
#define IC_CALLS_MAX  128
#define IC_SLOTS_MAX  4096
#define IC_TEXT_MAX   ((size_t)256 << 20)
#define IC_NONE       UINT32_MAX
#define IC_NO_INDEX   UINT64_MAX
#define IC_EXTRAS_MAX 16

#define IC_INVALID_ARGS "[invalid tool arguments: could not parse code]"

struct ic_loop;

/* An item of the answer: of Responses' `output`, or a code_interpreter_calls entry of chat. */
struct ic_item {
    struct bytes id;
    struct bytes json; /* final form; empty while it is not done */
};

/* A call of our function in the current round. */
struct ic_call {
    struct bytes call_id;
    struct bytes args; /* as the model wrote them */
    struct bytes code; /* decoded */
    struct ic_args dec;
    bool is_args_done;
    bool is_valid;
    bool is_shown;         /* the client sees an item of it */
    unsigned item;         /* in items, IC_NONE */
    size_t code_sent;      /* bytes of code already sent as deltas */
    bool is_code_replaced; /* what was sent is not how it begins */
    bool is_code_final;    /* code.done was sent */
    struct bytes result;   /* text for the model */
    struct bytes extra;    /* chat: further members of the tool call, ,"k":v */
};

/* A member of a streamed chat message that is not content or tool_calls, put together again. */
struct ic_extra {
    struct bytes key;   /* JSON string */
    struct bytes value; /* decoded text, array elements without the brackets, or JSON */
    enum icj_type type;
};

/* PENDING: a call whose function is not known yet. HIDDEN: nothing of it is shown, run or replayed.
 */
enum ic_slot_kind { IC_SLOT_PENDING, IC_SLOT_PASSED, IC_SLOT_OURS, IC_SLOT_HIDDEN };

/* What an upstream item (or tool call) of the current round is known by, and what became of it. */
struct ic_slot {
    uint64_t index; /* output_index or tool call index, IC_NO_INDEX */
    enum ic_slot_kind kind;
    unsigned call; /* OURS: in calls, IC_NONE when it is dropped */
    unsigned item; /* PASSED: in items (chat: index of the client's call) */
    bool is_done;
    uint64_t final_at;    /* position in the final output, IC_NO_INDEX */
    char type[32];        /* of a Responses item, cut */
    struct bytes id;      /* the provider's; empty = not known */
    struct bytes call_id; /* Responses */
    struct bytes name;    /* of the function; chat: as far as it came */
    struct bytes raw;     /* Responses: the item in its last form; chat: the first fragment */
    struct bytes args;    /* chat: of a call that is not ours, or not known to be */
};

struct ic_ops {
    /* Reads one event of the upstream stream. 1: the sandbox must be open first, deliver the event
     * again then. */
    int (*on_event)(struct ic_loop *l, struct wk_sse_event ev, struct err *e);
    /* Reads a whole answer; 1 as above. */
    int (*on_object)(struct ic_loop *l, struct icj root, struct err *e);
    /* The upstream stream ended. */
    int (*on_end)(struct ic_loop *l, struct err *e);
    /* The code of `call` starts to run; its outputs are known. */
    void (*run_begin)(struct ic_loop *l, struct ic_call *call);
    void (*run_end)(struct ic_loop *l, struct ic_call *call, const struct ic_output *out);
    /* Calls that were shown but are not run because the answer was cut. */
    void (*run_dropped)(struct ic_loop *l, struct ic_call *call);
    /* The round is over: items and results go to the transcript. */
    void (*put_results)(struct ic_loop *l);
    /* The end: a whole body into `body`, or the last events into l->out. */
    void (*answer)(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body);
    /* The end of a started stream after an error (l->fail). */
    void (*fail)(struct ic_loop *l);
};

struct ic_fail {
    struct err e;
    char type[64]; /* of the provider's error object, "" = the table's */
    char code[64];
    int status; /* HTTP status the provider's error object names, 0 = none */
};

struct ic_loop {
    const struct ic_request *req; /* borrowed */
    const struct cfg *cfg;        /* borrowed */
    const struct ic_ops *ops;
    struct wk_run run;
    struct ic_fail fail;
    struct bytes transcript;  /* ,item,item... after the request's own items */
    struct bytes usage;       /* summed, "" = none known */
    struct bytes out;         /* stream bytes for the client, taken by the shell */
    struct bytes response_id; /* JSON string */
    struct bytes created;     /* JSON number */
    struct bytes first;       /* chat: the first chunk, for members that every chunk repeats */
    struct ic_item *items;    /* owned */
    unsigned item_count;
    unsigned item_cap;
    uint32_t sequence;                    /* of the next event */
    uint32_t now_s;                       /* wall clock when the request began */
    char container[IC_CONTAINER_MAX + 1]; /* id as given to clients; "" = not open yet */
    bool is_created;                      /* stream: the opening events were written */

    /* the round */
    bool is_cut;            /* status incomplete, finish_reason length or content_filter */
    bool is_ended;          /* the terminal event or finish was seen */
    bool is_over;           /* nothing of this round that matters can follow */
    bool has_message;       /* text for the client */
    bool has_dropped;       /* a call of ours was left out in the closing round */
    bool is_reasoning_lost; /* reasoning could not be replayed: ids of later items must go, too */
    bool has_earlier_text;  /* chat: an earlier round had text */
    bool is_role_sent;      /* chat */
    unsigned call_count;
    unsigned slot_count;
    unsigned slot_cap;
    unsigned client_calls;
    unsigned extra_count;
    struct ic_slot *slots; /* owned */
    struct ic_call calls[IC_CALLS_MAX];
    uint64_t final_count;     /* items of the final output */
    struct bytes round_items; /* ,item,item... */
    struct bytes round_usage;
    struct bytes answer; /* latest whole response object (template of the final one) */

    /* chat */
    struct bytes text;                     /* of this round, streamed */
    struct bytes content;                  /* of all rounds so far, joined */
    struct bytes message;                  /* whole answers: the round's message object */
    struct bytes finish;                   /* JSON finish_reason of this round */
    struct ic_extra extras[IC_EXTRAS_MAX]; /* further members of the streamed message */
};

/* NULL: out of memory. */
struct ic_loop *ic_loop_new(const struct ic_request *req, const struct cfg *cfg, uint32_t now_s);
void ic_loop_free(struct ic_loop *l); /* accepts NULL */
void ic_loop_round_begin(struct ic_loop *l);
int ic_loop_rc(const struct ic_loop *l); /* first stuck error of any text */
/* Tokens of the round into the sum; returns the round's output tokens. Also the input tokens. */
void ic_loop_round_usage(struct ic_loop *l, uint64_t *ret_in, uint64_t *ret_out);

/* Remembers a provider's error object ({"message","type","code"} or a string) as what went wrong,
 * without the keys of ours that may be in it. */
int ic_loop_upstream_error(struct ic_loop *l, struct icj error, struct err *e);

unsigned ic_item_new(struct ic_loop *l); /* index, or IC_NONE */

/* ic_slot.c. Pointers to slots are good until the next ic_slot_new. */
struct ic_slot *ic_slot_new(struct ic_loop *l, uint64_t index); /* PENDING; NULL: too many */
void ic_slots_reset(struct ic_loop *l);
int ic_slots_rc(const struct ic_loop *l);
struct ic_slot *ic_slot_find(struct ic_loop *l, uint64_t index); /* the newest */
/* The newest with the provider's id; `is_unnumbered`: among those without an index only. */
struct ic_slot *ic_slot_find_id(struct ic_loop *l, struct icj id, bool is_unnumbered);
/* Notes what the item is known by; what is known already stays. */
void ic_slot_identify(struct ic_slot *s, struct icj item);
/* The slot of a Responses item: by call_id, by id, by output_index; unless `is_added`, also the
 * open one there whatever its ids are. */
struct ic_slot *ic_slot_of_item(struct ic_loop *l, uint64_t index, struct icj item, bool is_added);
/* The slot an event about a part of an item belongs to. */
struct ic_slot *ic_slot_of_event(struct ic_loop *l, struct icj event, struct icj type);
/* Finds the items of the final output among those of the stream: sets final_at. */
void ic_slots_match_final(struct ic_loop *l, struct icj output);
struct ic_slot *ic_slot_at_final(struct ic_loop *l, uint64_t at);
struct icj ic_slot_raw(const struct ic_slot *s); /* absent when there is none */
/* A new call of ours; NULL when the round has too many. */
struct ic_call *ic_call_new(struct ic_loop *l);
/* The provider's id of a call; a fresh one when it is missing or another call of the round has it.
 */
void ic_call_set_id(struct ic_loop *l, struct ic_call *c, struct str_view id);
/* Would the next call of ours get an item? */
bool ic_call_is_shown_next(const struct ic_loop *l);
void ic_call_feed(struct ic_call *c, struct str_view piece);
/* `whole` replaces what was collected when it differs. Code that was sent already and is not how
 * the new code begins stays sent: no further delta follows, code.done carries the truth. */
void ic_call_replace(struct ic_call *c, struct str_view whole);
/* Arguments are complete. */
void ic_call_end(struct ic_call *c);
/* Arguments as text: a string's, or the object itself as some providers send it. */
struct str_view ic_args_view(struct icj args, struct bytes *tmp);
/* {"id","type":"code_interpreter_call","status","code","container_id","outputs"} */
void ic_call_item_json(const struct ic_loop *l, const struct ic_call *c, const char *status,
                       struct str_view code, struct str_view outputs, struct bytes *ret);
/* Outputs JSON of a finished call as the client asked: array or null. */
void ic_call_outputs(const struct ic_loop *l, const struct ic_call *c, const struct ic_output *out,
                     struct bytes *ret);

/* Appends JSON text on one line (spaces for the line breaks between tokens). */
void ic_put_flat(struct bytes *out, struct str_view raw);

extern const struct ic_ops ic_responses_ops;
extern const struct ic_ops ic_chat_ops;

#endif
