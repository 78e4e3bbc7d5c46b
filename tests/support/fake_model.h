/* fake_model.h - writes a provider's answers, for both surfaces, as one object or as an event
 * stream. */
#ifndef CFD_TESTS_FAKE_MODEL_H
#define CFD_TESTS_FAKE_MODEL_H

#include <stdbool.h>

enum fm_kind { FM_END, FM_TEXT, FM_CALL, FM_REASONING };

struct fm_item {
    enum fm_kind kind;
    const char *text; /* TEXT; REASONING: encrypted content; CALL: arguments */
    const char *name; /* CALL */
    const char *id;   /* CALL: call_id; others: item id or NULL */
};

#define FM_MAX 8

struct fm_answer {
    struct fm_item items[FM_MAX];
    const char *finish; /* chat's word: stop, length, ...; NULL = by items */
    unsigned in;        /* tokens */
    unsigned out;
};

/* The caller owns the text (free). `round` makes ids differ between answers. */
char *fm_write(bool is_chat, bool is_stream, unsigned round, const struct fm_answer *a);

#endif
