/* sb_oplog.h - record of finished runs by operation id, so that a repeated request is answered and
 * never run again.
 *
 * Threads: loop thread. Lifetime: the record owns its buffers. Bounds: SB_OPLOG_ENTRIES_MAX entries
 * and SB_OPLOG_BYTES_MAX bytes; the oldest go first, and everything older than SB_OPLOG_TTL_MS. */
#ifndef CFD_SANDBOXD_SB_OPLOG_H
#define CFD_SANDBOXD_SB_OPLOG_H

#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "proto/msg.h"

#define SB_OPLOG_ENTRIES_MAX 8192
#define SB_OPLOG_BYTES_MAX   (64U * 1024U * 1024U)
#define SB_OPLOG_TTL_MS      (15U * 60U * 1000U) /* longer than any request lives by default */

struct sb_oplog;

struct sb_op_result {
    int code;
    uint32_t notes;
    char sandbox_id[129];
    struct buf *payload; /* owned by the record; may be NULL */
};

struct sb_oplog *sb_oplog_new(void);
void sb_oplog_free(struct sb_oplog *l);
/* Copies *r and takes its own reference of the payload. An existing record stays. 0 or ERR_NOMEM.
 */
int sb_oplog_put(struct sb_oplog *l, const struct tenant_id *tenant, const struct msg_id16 *op,
                 const struct sb_op_result *r, uint64_t now_ms);
/* Borrowed until the next call; NULL when unknown or too old. */
const struct sb_op_result *sb_oplog_get(struct sb_oplog *l, const struct tenant_id *tenant,
                                        const struct msg_id16 *op, uint64_t now_ms);

#endif
