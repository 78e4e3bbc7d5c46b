/* ctl_table.h - the commands of `cofferdam`. X(name, function, options, args, "usage", "doc")
 *   options  letters of the options it takes: c --config, j --json, s --sandbox
 *   args     most positional arguments */
#ifndef CFD_CTL_TABLE_H
#define CFD_CTL_TABLE_H

/* clang-format off */
#define CTL_TABLE(X) \
    X("up",           ctl_cmd_up,     "c",  0, "--config FILE",                             "run everything in the foreground until SIGTERM") \
    X("check",        ctl_cmd_check,  "c",  0, "--config FILE",                             "validate the configuration and this host") \
    X("status",       ctl_cmd_status, "cj", 0, "[--json] --config FILE",                    "show processes, queues and sessions") \
    X("run",          ctl_cmd_run,    "cs", 1, "[--config FILE] [--sandbox TOOL] FILE|-",   "run Python code in a fresh sandbox") \
    X("reload",       ctl_cmd_reload, "c",  0, "--config FILE",                             "make the running processes read their configuration again") \
    X("curve-keygen", ctl_cmd_keygen, "",   0, "",                                          "print a new CURVE key pair for links between hosts")
/* clang-format on */

#endif
