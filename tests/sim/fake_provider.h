/* fake_provider.h - a sandbox provider of the tests: every operation waits until the test completes
 * it. */
#ifndef CFD_TESTS_FAKE_PROVIDER_H
#define CFD_TESTS_FAKE_PROVIDER_H

#include "sb_provider.h"

#define FAKE_BOXES_MAX 4096

struct sb_box {
    char id[40];
    bool is_used;
    bool is_alive;
    bool is_running;
    bool is_interrupted;
    bool is_destroying;
    unsigned runs;
    char code[64];
    struct sb_run_hooks run;
    sb_destroyed_cb destroyed;
    void *destroyed_ctx;
    void (*on_dead)(void *ctx, const char *why);
    void *dead_ctx;
};

struct fake_create {
    bool is_pending;
    sb_created_cb cb;
    void *ctx;
};

struct fake {
    struct sb_box boxes[FAKE_BOXES_MAX];
    struct fake_create creates[FAKE_BOXES_MAX];
    unsigned box_count;
    unsigned create_count;
    unsigned alive;
    unsigned alive_max;
    bool is_manual_destroy; /* destroys wait for fake_destroyed */
};

extern const struct sb_provider_ops fake_ops;
extern struct fake fake;

void fake_reset(void);
/* Completes the oldest pending create. Returns the new box, NULL when rc != 0 or nothing waits. */
struct sb_box *fake_created(int rc);
void fake_end(struct sb_box *b, enum sb_end end, int code, const char *text);
void fake_destroyed(struct sb_box *b);
void fake_die(struct sb_box *b);
unsigned fake_creates_pending(void);

#endif
