/* ctl_child_table.h - the daemons, in the order they are started; they are stopped in the opposite
 * order, so that nothing waits for an answer that cannot come any more. X(KIND, "name", "program",
 * role, count, drop_caps, drains, stop_ms) count      how many the configuration `c` wants
 *   drop_caps  it starts without capabilities (sandboxd needs them to isolate sandboxes when run as
 * root) drains     it may take drain_s to finish what it has stop_ms    time to stop beyond that;
 * killed afterwards */
#ifndef CFD_CTL_CHILD_TABLE_H
#define CFD_CTL_CHILD_TABLE_H

/* clang-format off */
#define CTL_CHILD_TABLE(X) \
    X(BROKER,   "broker",   "cofferdam-broker",   CFG_FOR_BROKER,   (c->run_broker ? 1U : 0U), true,  false, 5000) \
    X(SANDBOXD, "sandboxd", "cofferdam-sandboxd", CFG_FOR_SANDBOXD, (unsigned)c->sandboxds,    false, false, 20000) \
    X(WORKER,   "worker",   "cofferdam-worker",   CFG_FOR_WORKER,   (unsigned)c->workers,      true,  true,  3000) \
    X(FRONTEND, "frontend", "cofferdam-frontend", CFG_FOR_FRONTEND, (unsigned)c->frontends,    true,  true,  3000)
/* clang-format on */

#endif
