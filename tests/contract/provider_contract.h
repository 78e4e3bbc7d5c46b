/* provider_contract.h - what every sandbox provider must do, whatever is behind it. A test program
 * per provider calls provider_contract_run with its operations and configuration; the harness below
 * serves its own tests too. */
#ifndef CFD_TESTS_PROVIDER_CONTRACT_H
#define CFD_TESTS_PROVIDER_CONTRACT_H

#include "base/str.h"
#include "io/loop.h"
#include "sb_provider.h"

struct provider_contract {
    const struct sb_provider_ops *ops;
    const char *config; /* YAML text */
    const char *tool;   /* sandbox tool name, NULL = default */
};

/* A running provider on its own loop. */
struct pc_world {
    const struct sb_provider_ops *ops;
    struct loop loop;
    struct cfg *cfg;
    struct sb_provider *provider;
    uv_timer_t watchdog;
    const char *waiting_for; /* what the watchdog reports */
};

/* One run, collected. */
struct pc_run {
    struct bytes out;     /* stdout */
    struct bytes err;     /* stderr */
    struct bytes log;     /* all events in order: "O:..|E:..|D:..|X:..|C:..|" */
    struct bytes display; /* last display */
    struct bytes exception;
    unsigned displays;
    bool is_ended;
    bool is_truncated;
    enum sb_end end;
    struct err e;
    unsigned ends;
    void (*on_first)(struct pc_run *r); /* on the first event; may be NULL */
    struct sb_box *box;
    struct pc_world *w;
};

/* Checks every operation of the interface. Number of failed tests. */
int provider_contract_run(const struct provider_contract *c);

int pc_setup(struct pc_world *w, const struct provider_contract *c);
void pc_teardown(struct pc_world *w);
/* Runs the loop until *flag; aborts the test program after 60 s. */
void pc_wait(struct pc_world *w, const bool *flag, const char *what);
struct sb_box *pc_create(struct pc_world *w);
void pc_destroy(struct pc_world *w, struct sb_box *b);
/* Starts; call pc_run_wait for the end. */
void pc_run_start(struct pc_world *w, struct pc_run *r, struct sb_box *b, const char *code,
                  uint32_t timeout_ms);
void pc_run_wait(struct pc_run *r);
void pc_run(struct pc_world *w, struct pc_run *r, struct sb_box *b, const char *code);
void pc_run_fini(struct pc_run *r);
/* Runs the loop for a while. */
void pc_pass(struct pc_world *w, unsigned ms);

#endif
