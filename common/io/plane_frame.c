#include "io/plane_priv.h"

#define PARTS_MAX 2U

int plane_frame_decode(struct plane_in *ret, struct str_view *payload, const struct str_view *parts,
                       size_t count, struct err *e)
{
    struct str_view rest;
    int rc = ERR_INTERNAL;

    if (count == 0 || count > PARTS_MAX) {
        return err_set(e, ERR_PEER_MALFORMED, "a message of %zu frames; 1 or 2 are expected",
                       count);
    }
    if (count == PARTS_MAX && parts[1].n > PLANE_PAYLOAD_MAX) {
        return err_set(e, ERR_PEER_MALFORMED, "a payload of %zu bytes; at most %zu are allowed",
                       parts[1].n, PLANE_PAYLOAD_MAX);
    }
    rest = parts[0];
    if ((rc = msg_head_decode(&ret->head, &rest)) != 0) {
        return err_set(e, rc,
                       rc == ERR_PEER_VERSION ? "a message of another protocol version, %zu bytes"
                                              : "a malformed message header, %zu bytes",
                       parts[0].n);
    }
    ret->frame0 = parts[0];
    ret->fields = rest;
    *payload = count == PARTS_MAX ? parts[1] : (struct str_view){NULL, 0};
    return 0;
}
