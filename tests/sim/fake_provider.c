#include "fake_provider.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

struct fake fake;

void fake_reset(void)
{
    memset(&fake, 0, sizeof(fake));
}

static int fake_start(struct sb_provider **ret, struct loop *loop, struct cfg *cfg, struct err *e)
{
    (void)ret;
    (void)loop;
    (void)cfg;
    (void)e;
    return 0;
}

static void fake_reload(struct sb_provider *p, struct cfg *cfg)
{
    (void)p;
    (void)cfg;
}

static void fake_stop(struct sb_provider *p, void (*on_stopped)(void *ctx), void *ctx)
{
    (void)p;
    on_stopped(ctx);
}

static void fake_create(struct sb_provider *p, const struct sb_create_opts *o, sb_created_cb cb,
                        void *ctx)
{
    (void)p;
    (void)o;
    REQUIRE(fake.create_count < FAKE_BOXES_MAX);
    fake.creates[fake.create_count++] = (struct fake_create){true, cb, ctx};
}

unsigned fake_creates_pending(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < fake.create_count; i++) {
        n += fake.creates[i].is_pending ? 1U : 0U;
    }
    return n;
}

struct sb_box *fake_created(int rc)
{
    for (unsigned i = 0; i < fake.create_count; i++) {
        struct fake_create *c = &fake.creates[i];
        struct err e = {0};
        struct sb_box *b = NULL;

        if (!c->is_pending) {
            continue;
        }
        c->is_pending = false;
        if (rc == 0) {
            REQUIRE(fake.box_count < FAKE_BOXES_MAX);
            b = &fake.boxes[fake.box_count++];
            b->is_used = b->is_alive = true;
            snprintf(b->id, sizeof(b->id), "box-%u", fake.box_count);
            fake.alive++;
            fake.alive_max = fake.alive > fake.alive_max ? fake.alive : fake.alive_max;
        } else {
            (void)err_set(&e, rc, "scripted failure");
        }
        c->cb(c->ctx, rc, b, &e);
        return b;
    }
    return NULL;
}

static const char *fake_id(const struct sb_box *b)
{
    return b->id;
}

static bool fake_is_alive(const struct sb_box *b)
{
    return b->is_alive;
}

static void fake_set_on_dead(struct sb_box *b, void (*on_dead)(void *ctx, const char *why),
                             void *ctx)
{
    b->on_dead = on_dead;
    b->dead_ctx = ctx;
}

static void fake_run(struct sb_box *b, struct buf *code, uint32_t timeout_ms,
                     const struct sb_run_hooks *hooks)
{
    (void)timeout_ms;
    REQUIRE(!b->is_running && !b->is_destroying); /* the core's promise: one run at a time */
    b->is_running = true;
    b->is_interrupted = false;
    b->runs++;
    (void)sv_copy(b->code, sizeof(b->code), buf_view(code));
    b->run = *hooks;
}

static void fake_interrupt(struct sb_box *b)
{
    b->is_interrupted = true;
}

void fake_end(struct sb_box *b, enum sb_end end, int code, const char *text)
{
    struct err e = {0};

    REQUIRE(b->is_running);
    b->is_running = false;
    if (text != NULL) {
        (void)err_set(&e, code, "%s", text);
    }
    b->run.on_end(b->run.ctx, end, false, &e);
}

static void fake_destroy(struct sb_box *b, sb_destroyed_cb cb, void *ctx)
{
    REQUIRE(!b->is_destroying);
    b->is_destroying = true;
    b->destroyed = cb;
    b->destroyed_ctx = ctx;
    if (!fake.is_manual_destroy) {
        fake_destroyed(b);
    }
}

void fake_destroyed(struct sb_box *b)
{
    if (b->is_running) {
        fake_end(b, SB_END_LOST, ERR_SANDBOX_LOST, "deleted");
    }
    b->is_used = b->is_alive = false;
    fake.alive--;
    b->destroyed(b->destroyed_ctx, 0, NULL);
}

void fake_die(struct sb_box *b)
{
    b->is_alive = false;
    if (b->is_running) {
        fake_end(b, SB_END_LOST, ERR_SANDBOX_LOST, "killed");
    } else if (!b->is_destroying) {
        b->on_dead(b->dead_ctx, "killed");
    }
}

const struct sb_provider_ops fake_ops = {
    .name = "local",
    .start = fake_start,
    .reload = fake_reload,
    .stop = fake_stop,
    .create = fake_create,
    .id = fake_id,
    .is_alive = fake_is_alive,
    .set_on_dead = fake_set_on_dead,
    .run = fake_run,
    .interrupt = fake_interrupt,
    .destroy = fake_destroy,
};
