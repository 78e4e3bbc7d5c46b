/* The broker's core against any stream of events: well-formed messages with small random fields,
 * and raw ones. Its structure is checked after every step. Input: a series of records, one byte of
 * kind each. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "br_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t n;
};

static unsigned take(struct input *in, unsigned below)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++ % below;
}

static struct br_core *core;
static uint64_t now_ms;

static void step(const struct br_event *ev)
{
    size_t n;
    const struct br_act *acts = br_core_step(core, now_ms, ev, &n);
    const char *bad = br_core_check(core);

    if (bad != NULL) {
        fprintf(stderr, "not true: %s\n", bad);
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        struct msg_head h;
        struct str_view frame0 = acts[i].frame0;

        if (acts[i].kind == BR_ACT_SEND && msg_head_decode(&h, &frame0) != 0) {
            abort(); /* we never send what cannot be read */
        }
    }
}

static void send_frame(struct input *in, struct str_view frame0, struct buf *payload)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f"};
    struct br_event ev = {
        .kind = BR_EV_MSG, .from = {0, sv_of(ids[take(in, 6)])}, .payload = payload};

    ev.frame0 = ev.fields = frame0;
    if (msg_head_decode(&ev.head, &ev.fields) != 0) {
        ev.kind = BR_EV_BAD;
        ev.code = ERR_PEER_MALFORMED;
    }
    step(&ev);
}

static struct buf *payload_take(struct input *in)
{
    unsigned n = take(in, 80);

    if (n > in->n) {
        n = (unsigned)in->n;
    }
    if (n == 0) {
        return NULL;
    }
    in->p += n;
    in->n -= n;
    return buf_copy(in->p - n, n);
}

static struct msg_head head_take(struct input *in, uint8_t type)
{
    struct msg_head h = {.type = type};

    h.attempt = (uint8_t)take(in, 4);
    h.flags = take(in, 8);
    h.deadline_ms = take(in, 3) * 700U;
    h.rid.b[0] = (uint8_t)take(in, 6);
    h.tenant.b[0] = (uint8_t)take(in, 3);
    return h;
}

#define VALUES 6U /* bytes for the fields of one message */

#define ENCODE(NAME, ...)                                                                          \
    do {                                                                                           \
        struct msg_head h_ = head_take(in, MSG_##NAME);                                            \
        uint8_t v[VALUES];                                                                         \
        for (unsigned i_ = 0; i_ < VALUES; i_++) {                                                 \
            v[i_] = (uint8_t)take(in, 256);                                                        \
        }                                                                                          \
        struct msg_body_##NAME m_ = {__VA_ARGS__};                                                 \
        (void)v;                                                                                   \
        rc = msg_encode_##NAME(out, &h_, &m_);                                                     \
    } while (0)

static int encode_peer(struct bytes *out, struct input *in, unsigned kind)
{
    static const char *const names[] = {"x", "y", "z"};
    int rc = 0;

    switch (kind) {
    case 0:
        ENCODE(HELLO, .role = (uint8_t)(1 + v[0] % 3), .name = sv_of(names[v[1] % 3]),
               .instance = {{v[2] % 2}}, .capacity = v[3] % 5, .pid = v[4] % 2, .pid_ns = v[5] % 2);
        break;
    case 1:
        ENCODE(HEARTBEAT, .load = v[0]);
        break;
    case 2:
        ENCODE(BYE, .code = 0);
        break;
    case 3:
        ENCODE(SUBMIT, .kind = 1, .method = 3, .window = 4096, .endpoint = SV_LIT("e"),
               .path = SV_LIT("/"));
        break;
    case 4:
        ENCODE(CREDIT, .n = (uint16_t)(1 + v[0] % 9));
        break;
    case 5:
        ENCODE(DONE, .outcome = (uint8_t)(1 + v[0] % 4), .credit = v[1] % 2);
        break;
    case 6:
        ENCODE(CANCEL, .code = ERR_CANCELLED);
        break;
    case 7:
        ENCODE(STATS, .lag_us = v[0]);
        break;
    default:
        ENCODE(STATS_GET, .what = (uint8_t)(1 + v[0] % 2));
        break;
    }
    return rc;
}

static int encode_sbx(struct bytes *out, struct input *in, unsigned kind)
{
    static const char *const names[] = {"", "x", "y"};
    int rc = 0;

    switch (kind) {
    case 0:
        ENCODE(SBX_CALL, .call = v[0] > 250 ? UINT32_MAX : v[0] % 3U, .op = (uint8_t)(1 + v[1] % 9),
               .scope = (uint8_t)(1 + v[2] % 3), .owner = sv_of(names[v[3] % 3]),
               .timeout_ms = v[4]);
        break;
    case 1:
        ENCODE(SBX_EVENT, .call = (v[0] % 3U) << 8 | v[1] % 3U, .kind = 2);
        break;
    case 2:
        ENCODE(SBX_RESULT, .call = v[2] > 250 ? UINT32_MAX : (v[0] % 3U) << 8 | v[1] % 3U);
        break;
    case 3:
        ENCODE(SBX_CANCEL, .call = v[0] % 3U);
        break;
    default:
        ENCODE(SBX_SESSIONS, .sessions = v[0], .sandboxes = v[1]);
        break;
    }
    return rc;
}

static void one_event(struct input *in)
{
    unsigned kind = take(in, 22);
    unsigned queue = 1 + take(in, 4);
    unsigned fair = take(in, 2);
    unsigned peer = take(in, 12);
    struct br_limits limits = {20,  queue, 2,   64,   500, 2,
                               100, 3,     200, 3000, 200, (enum br_fair)fair};
    struct br_event ev = {.kind = BR_EV_TICK, .peer = peer, .limits = &limits, .drain_ms = 1000};
    struct bytes out = {0};
    struct buf *payload;

    if (kind < 14) {
        int rc = kind < 9 ? encode_peer(&out, in, kind) : encode_sbx(&out, in, kind - 9);

        payload = payload_take(in);
        if (rc == 0) {
            send_frame(in, sv_from(out.p, out.n), payload);
        }
        buf_unref(payload);
    } else if (kind == 14) { /* anything at all */
        size_t n = in->n < 120 ? in->n : 120;
        struct str_view raw = sv_from(in->p, n);

        in->p += n;
        in->n -= n;
        send_frame(in, raw, NULL);
    } else if (kind == 15) {
        ev.kind = BR_EV_EXITED;
        step(&ev);
    } else if (kind == 16) {
        ev.kind = BR_EV_UNREACHABLE;
        step(&ev);
    } else if (kind == 17) {
        ev.kind = BR_EV_LIMITS;
        step(&ev);
    } else if (kind == 18 && take(in, 8) == 0) {
        ev.kind = BR_EV_DRAIN;
        step(&ev);
    } else {
        now_ms += take(in, 16) * 20U;
        if (br_core_next_due(core) <= now_ms) {
            step(&ev);
        }
    }
    bytes_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    struct br_setup setup = {
        {20, 4, 3, 64, 500, 2, 100, 3, 200, 3000, 200, BR_FAIR_ROUND_ROBIN}, {{1}}, 1, 1000};
    struct input in = {data, size};

    if (!is_ready) {
        log_init("fuzz");
        log_set_level(LOG_LEVEL_ERROR);
        is_ready = id_init() == 0;
    }
    now_ms = setup.now_ms;
    if (br_core_new(&core, &setup) != 0) {
        abort();
    }
    while (in.n > 0) {
        one_event(&in);
    }
    br_core_free(core);
    return 0;
}
