/* sb_shell.h - sandboxd's process: links to the brokers, providers, the core between them, reload
 * and drain.
 *
 * Threads: loop thread. Lifetime: sb_shell_run returns when the process should end. */
#ifndef CFD_SANDBOXD_SB_SHELL_H
#define CFD_SANDBOXD_SB_SHELL_H

#include "base/err.h"

struct sb_shell_opts {
    const char *config_file; /* borrowed for the life of the shell */
    const char *name;        /* process name, e.g. sandboxd-0 */
};

/* Loads the configuration, starts the providers and runs until stopped. 0, or an ERR code with *e
 * set when it could not start. */
int sb_shell_run(const struct sb_shell_opts *opts, struct err *e);

#endif
