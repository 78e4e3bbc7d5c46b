/* fuzz_msg.c - all message decoders. Whatever is accepted must encode to the same bytes again. */
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "proto/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decodes as NAME whatever the header's type says, so that one input reaches every decoder. */
#define X(NAME, id, senders, states, prose)                                                        \
    static void try_##NAME(const struct msg_head *h, struct str_view fields)                       \
    {                                                                                              \
        struct msg_body_##NAME m;                                                                  \
        struct bytes out = {0};                                                                    \
        int rc = msg_decode_##NAME(&m, fields);                                                    \
                                                                                                   \
        if (rc != 0) {                                                                             \
            REQUIRE(rc == ERR_PEER_MALFORMED);                                                     \
            return;                                                                                \
        }                                                                                          \
        REQUIRE(msg_encode_##NAME(&out, h, &m) == 0);                                              \
        REQUIRE(out.n == MSG_HEAD_BYTES + fields.n);                                               \
        REQUIRE(sv_eq(sv_from(out.p + MSG_HEAD_BYTES, fields.n), fields));                         \
        bytes_fini(&out);                                                                          \
    }
MSG_TABLE(X)
#undef X

static void try_all(const uint8_t *data, size_t size)
{
    struct str_view in = sv_from(data, size);
    struct msg_head h;
    int rc = msg_head_decode(&h, &in);

    if (rc != 0) {
        REQUIRE(rc == ERR_PEER_MALFORMED || rc == ERR_PEER_VERSION);
        return;
    }
    REQUIRE(in.n == size - MSG_HEAD_BYTES);
    for (unsigned role = 0; role < 6; role++) {
        (void)msg_is_permitted(h.type, (enum msg_role)role, size & 1, size & 2);
    }
#define X(NAME, id, senders, states, prose) try_##NAME(&h, in);
    MSG_TABLE(X)
#undef X
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    try_all(data, size);
    /* once more with a head of this version, so that old corpora never become useless */
    if (size >= 2 && (copy = malloc(size)) != NULL) {
        memcpy(copy, data, size);
        copy[0] = MSG_MAGIC;
        copy[1] = MSG_VERSION;
        try_all(copy, size);
        free(copy);
    }
    return 0;
}
