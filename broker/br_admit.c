/* br_admit.c - who may send what, and when: peer x state x message, from the message table. */
#include "br_int.h"

int br_admit(const struct br_peer *p, const struct msg_head *h, const char **ret_text)
{
    if (p == NULL) {
        if (h->type == MSG_HELLO) {
            return 0; /* its role is judged when the fields are decoded */
        }
        *ret_text = "say HELLO first";
        return ERR_PEER_FORBIDDEN;
    }
    if (!msg_is_permitted(h->type, p->role, br_peer_is_live(p), false)) {
        *ret_text = "this role may not send this message here";
        return ERR_PEER_FORBIDDEN;
    }
    return 0;
}
