#include "io/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sm.h"

#define FRAME_MAX 4096U
#define STATS_MAX ((size_t)4 << 20)

enum link_state { LINK_DOWN, LINK_GREETING, LINK_UP };

/* Picture in link.h. GREETING -> GREETING: the WELCOME did not come, HELLO again. */
static const struct sm_state states[] = {
    [LINK_DOWN] = {"DOWN", 1U << LINK_GREETING},
    [LINK_GREETING] = {"GREETING", 1U << LINK_DOWN | 1U << LINK_GREETING | 1U << LINK_UP},
    [LINK_UP] = {"UP", 1U << LINK_DOWN},
};

struct link {
    struct loop *loop;
    struct plane *plane;
    struct link_hooks hooks;
    enum msg_role role;
    unsigned state; /* enum link_state */
    struct msg_id16 instance;
    struct msg_id16 broker; /* instance last seen */
    bool has_broker;
    bool is_leaving; /* BYE was said */
    bool is_closing;
    uint32_t pid;
    uint64_t pid_ns;
    uint32_t capacity;
    uint32_t heartbeat_ms;
    uint32_t liveness;
    uint64_t heard_ms; /* clock_ms of the last message from the broker */
    uv_timer_t timer;  /* DOWN: wait after BYE; GREETING: wait for WELCOME; UP: heartbeats */
    uv_timer_t stats;  /* UP */
    struct closer closer;
    struct bytes frame; /* scratch for encoding */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    char name[MSG_NAME_MAX + 1];
    char own_endpoint[MSG_ENDPOINT_MAX + 1];
};

static void greet(struct link *l, const char *why);

static void move(struct link *l, enum link_state next, const char *why)
{
    l->state = sm_move(states, "link", 0, l->state, next, why);
}

static struct msg_head head_of(uint8_t type)
{
    return (struct msg_head){.type = type};
}

/* Sends what was encoded into l->frame. */
static int frame_send(struct link *l, int rc, struct buf *payload)
{
    struct str_view frame0 = {l->frame.p, l->frame.n};

    if (rc == 0) {
        rc = l->is_closing ? ERR_AGAIN
                           : plane_send(l->plane, (struct str_view){NULL, 0}, frame0, payload);
    }
    bytes_reset(&l->frame);
    return rc;
}

/* --- what is sent ---------------------------------------------------------------------------- */

static int hello_send(struct link *l)
{
    struct msg_head h = head_of(MSG_HELLO);
    struct msg_body_HELLO m = {
        .role = (uint8_t)l->role,
        .name = sv_of(l->name),
        .instance = l->instance,
        .pid = l->pid,
        .pid_ns = l->pid_ns,
        .endpoint = sv_of(l->own_endpoint),
        .capacity = l->capacity,
    };
    struct buf *payload = NULL;
    int rc = ERR_INTERNAL;

    if (l->hooks.on_greet != NULL) {
        l->hooks.on_greet(l->hooks.ctx, &payload);
    }
    rc = frame_send(l, msg_encode_HELLO(&l->frame, &h, &m), payload);
    buf_unref(payload);
    return rc;
}

static void heartbeat_send(struct link *l)
{
    struct msg_head h = head_of(MSG_HEARTBEAT);
    struct msg_body_HEARTBEAT m = {.load = l->hooks.on_load != NULL ? l->hooks.on_load(l->hooks.ctx)
                                                                    : 0};

    /* At the high-water mark everything else that is queued shows that we live. */
    (void)frame_send(l, msg_encode_HEARTBEAT(&l->frame, &h, &m), NULL);
}

static void bye_send(struct link *l)
{
    struct msg_head h = head_of(MSG_BYE);
    struct msg_body_BYE m = {.code = 0, .text = SV_LIT("draining")};

    (void)frame_send(l, msg_encode_BYE(&l->frame, &h, &m), NULL);
}

static void on_stats_timer(uv_timer_t *t)
{
    struct link *l = t->data;
    struct msg_head h = head_of(MSG_STATS);
    struct msg_body_STATS m = {
        .lag_us = (uint32_t)(l->loop->lag_us < UINT32_MAX ? l->loop->lag_us : UINT32_MAX)};
    struct bytes text;
    struct buf *payload = NULL;

    bytes_init(&text, STATS_MAX);
    l->hooks.on_stats(l->hooks.ctx, &text);
    if (text.rc == 0 && text.n > 0) {
        payload = buf_from_bytes(&text);
    }
    bytes_fini(&text);
    (void)frame_send(l, msg_encode_STATS(&l->frame, &h, &m), payload);
    buf_unref(payload);
}

/* --- state ----------------------------------------------------------------------------------- */

static void down(struct link *l, const char *why)
{
    bool was_up = l->state == LINK_UP;

    (void)uv_timer_stop(&l->timer);
    (void)uv_timer_stop(&l->stats);
    if (l->state != LINK_DOWN) {
        move(l, LINK_DOWN, why);
    }
    if (was_up) {
        LOG(LINK_DOWN, NULL, KV_S("endpoint", plane_endpoint(l->plane)), KV_S("why", why));
        if (l->hooks.on_down != NULL) {
            l->hooks.on_down(l->hooks.ctx);
        }
    }
}

static void on_timer(uv_timer_t *t)
{
    struct link *l = t->data;

    switch ((enum link_state)l->state) {
    case LINK_DOWN:
        greet(l, "waited after BYE");
        break;
    case LINK_GREETING:
        greet(l, "no WELCOME came");
        break;
    case LINK_UP:
        if (clock_ms() - l->heard_ms > (uint64_t)l->heartbeat_ms * l->liveness) {
            down(l, "the broker is silent");
            if (!l->is_closing) {
                greet(l, "after silence");
            }
        } else {
            heartbeat_send(l);
        }
        break;
    }
}

static void greet(struct link *l, const char *why)
{
    if (!plane_is_up(l->plane)) {
        return; /* on_link follows */
    }
    move(l, LINK_GREETING, why);
    /* A HELLO that finds no room is repeated like one that was not answered. */
    (void)hello_send(l);
    if (!l->is_closing) {
        (void)uv_timer_start(&l->timer, on_timer, LINK_WELCOME_MS, 0);
    }
}

static void on_plane_link(void *ctx, bool is_up)
{
    struct link *l = ctx;

    if (is_up) {
        down(l, "the connection was made anew"); /* only when the loss went unnoticed */
        if (!l->is_closing) {
            greet(l, "connected");
        }
    } else {
        down(l, "the connection was lost");
    }
}

static void welcomed(struct link *l, const struct plane_in *in)
{
    struct msg_body_WELCOME w;
    struct err e = {0};
    bool is_new = false;

    if (msg_decode_WELCOME(&w, in->fields) != 0) {
        (void)err_set(&e, ERR_PEER_MALFORMED, "a malformed WELCOME");
        LOG(PEER_BAD, NULL, KV_S("peer", "broker"), KV_ERR(&e));
        return;
    }
    if (l->state != LINK_GREETING) {
        return; /* answer to a HELLO that was repeated, or late */
    }
    is_new = !l->has_broker || memcmp(&l->broker, &w.instance, sizeof(w.instance)) != 0;
    l->broker = w.instance;
    l->has_broker = true;
    l->heartbeat_ms = w.heartbeat_ms;
    l->liveness = w.liveness;
    l->heard_ms = clock_ms();
    move(l, LINK_UP, "WELCOME");
    (void)uv_timer_start(&l->timer, on_timer, l->heartbeat_ms, l->heartbeat_ms);
    if (l->hooks.on_stats != NULL) {
        (void)uv_timer_start(&l->stats, on_stats_timer, LINK_STATS_MS, LINK_STATS_MS);
    }
    LOG(LINK_UP, NULL, KV_S("endpoint", plane_endpoint(l->plane)),
        KV_S("broker", is_new ? "new" : "same"));
    if (l->hooks.on_up != NULL) {
        l->hooks.on_up(l->hooks.ctx, is_new, &w);
    }
    if (l->is_leaving && l->state == LINK_UP && !l->is_closing) {
        bye_send(l);
    }
}

static void on_plane_msg(void *ctx, const struct plane_in *in)
{
    struct link *l = ctx;

    l->heard_ms = clock_ms();
    if (in->head.type == MSG_WELCOME) {
        welcomed(l, in);
        return;
    }
    if (l->state == LINK_UP || in->head.type == MSG_BYE) {
        l->hooks.on_msg(l->hooks.ctx, in);
    }
    if (in->head.type == MSG_BYE && !l->is_closing) {
        down(l, "the broker said BYE");
        if (!l->is_closing) {
            (void)uv_timer_start(&l->timer, on_timer, LINK_BYE_WAIT_MS, 0);
        }
    }
}

static void on_plane_bad(void *ctx, struct str_view peer, const struct err *e)
{
    (void)ctx;
    (void)peer;
    LOG(PEER_BAD, NULL, KV_S("peer", "broker"), KV_ERR(e));
}

static void on_plane_writable(void *ctx)
{
    struct link *l = ctx;

    if (l->state == LINK_UP && l->hooks.on_writable != NULL) {
        l->hooks.on_writable(l->hooks.ctx);
    }
}

/* --- open and close -------------------------------------------------------------------------- */

static void on_handles_closed(void *ctx)
{
    struct link *l = ctx;
    void (*on_closed)(void *ctx) = l->on_closed;
    void *closed_ctx = l->closed_ctx;

    bytes_fini(&l->frame);
    mem_free(l);
    if (on_closed != NULL) {
        on_closed(closed_ctx);
    }
}

static void on_plane_closed(void *ctx)
{
    struct link *l = ctx;

    closer_close_one(&l->closer, (uv_handle_t *)&l->timer);
    closer_close_one(&l->closer, (uv_handle_t *)&l->stats);
    closer_finish(&l->closer);
}

static int opts_copy(struct link *l, const struct link_opts *o, struct err *e)
{
    const char *own = o->own_endpoint != NULL ? o->own_endpoint : "";
    struct stat st;

    if (o->name == NULL || !sv_copy(l->name, sizeof(l->name), sv_of(o->name)) ||
        l->name[0] == '\0') {
        return err_set(e, ERR_CONFIG, "a process name must have 1 to %d bytes", MSG_NAME_MAX);
    }
    if (!sv_copy(l->own_endpoint, sizeof(l->own_endpoint), sv_of(own))) {
        return err_set(e, ERR_CONFIG, "the return endpoint is longer than %d bytes",
                       MSG_ENDPOINT_MAX);
    }
    l->role = o->role;
    l->capacity = o->capacity;
    l->pid = (uint32_t)getpid();
    if (stat("/proc/self/ns/pid", &st) == 0) {
        l->pid_ns = st.st_ino;
    } else {
        l->pid = 0; /* nobody could tell which namespace it counts in */
    }
    id_random(&l->instance, sizeof(l->instance));
    return 0;
}

int link_open(struct link **ret, struct loop *loop, const struct link_opts *opts,
              const struct link_hooks *hooks, struct err *e)
{
    struct link *l = mem_zalloc(sizeof(*l));
    struct plane_hooks on = {
        .on_msg = on_plane_msg,
        .on_bad = on_plane_bad,
        .on_link = on_plane_link,
        .on_writable = on_plane_writable,
        .ctx = l,
    };
    struct plane_opts how = {
        .kind = PLANE_DEALER, .endpoint = opts->endpoint, .curve = opts->curve};
    char routing_id[65];
    char tail[13];
    int rc = ERR_INTERNAL;

    if (l == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    bytes_init(&l->frame, FRAME_MAX);
    l->loop = loop;
    l->hooks = *hooks;
    if ((rc = opts_copy(l, opts, e)) != 0) {
        goto fail;
    }
    hex_encode(tail, l->instance.b, 6);
    (void)snprintf(routing_id, sizeof(routing_id), "%.50s.%s", l->name, tail);
    how.routing_id = routing_id;
    closer_init(&l->closer, on_handles_closed, l);
    if ((rc = plane_open(&l->plane, loop, &how, &on, e)) != 0) {
        goto fail;
    }
    (void)uv_timer_init(&loop->uv, &l->timer);
    (void)uv_timer_init(&loop->uv, &l->stats);
    l->timer.data = l->stats.data = l;
    closer_add(&l->closer);
    closer_add(&l->closer);
    *ret = l;
    return 0;
fail:
    bytes_fini(&l->frame);
    mem_free(l);
    return rc;
}

bool link_is_up(const struct link *l)
{
    return l->state == LINK_UP && !l->is_closing;
}

int link_send(struct link *l, struct str_view frame0, struct buf *payload)
{
    if (!link_is_up(l)) {
        return ERR_AGAIN;
    }
    return plane_send(l->plane, (struct str_view){NULL, 0}, frame0, payload);
}

void link_say_bye(struct link *l)
{
    l->is_leaving = true;
    if (link_is_up(l)) {
        bye_send(l);
    }
}

void link_close(struct link *l, void (*on_closed)(void *ctx), void *ctx)
{
    REQUIRE(!l->is_closing);
    l->is_closing = true;
    l->on_closed = on_closed;
    l->closed_ctx = ctx;
    (void)uv_timer_stop(&l->timer);
    (void)uv_timer_stop(&l->stats);
    plane_close(l->plane, on_plane_closed, l);
}
