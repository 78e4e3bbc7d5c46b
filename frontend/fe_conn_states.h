/* fe_conn_states.h - one client connection. test_fe_conn_states.c checks this picture against the
 * table.
 *
 *   IDLE --first byte--> HEAD --head complete--> BODY --request complete--> WAIT
 *   WAIT --answer begins--> REPLY --last byte queued--> FLUSH --queue empty--> IDLE, or LINGER when
 * it must close HEAD, BODY --refused early--> REPLY LINGER: our side is shut, what the client still
 * sends is dropped until it closes or a second has passed any --gone, timed out, cut--> CLOSED */
#ifndef CFD_FRONTEND_FE_CONN_STATES_H
#define CFD_FRONTEND_FE_CONN_STATES_H

/* clang-format off */
#define FE_CONN_STATES(X) \
    X(IDLE,   TO(HEAD) | TO(CLOSED)) \
    X(HEAD,   TO(BODY) | TO(REPLY) | TO(CLOSED)) \
    X(BODY,   TO(WAIT) | TO(REPLY) | TO(CLOSED)) \
    X(WAIT,   TO(REPLY) | TO(CLOSED)) \
    X(REPLY,  TO(FLUSH) | TO(CLOSED)) \
    X(FLUSH,  TO(IDLE) | TO(LINGER) | TO(CLOSED)) \
    X(LINGER, TO(CLOSED)) \
    X(CLOSED, 0U)
/* clang-format on */

enum fe_conn_state {
#define X(name, to) FE_CONN_##name,
    FE_CONN_STATES(X)
#undef X
        FE_CONN_STATE_COUNT
};

#endif
