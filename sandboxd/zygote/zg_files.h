/* zg_files.h - files under /mnt/data for sandboxd, done inside the sandbox: whatever a name or a
 * link does, it happens with the sandbox's own rights and view, so there is nothing to win.
 *
 * Paths are relative to /mnt/data and stay below it (openat2, RESOLVE_BENEATH). PUT makes missing
 * directories and replaces a file or link by rename: a link is never written through, a reader sees
 * the old content or the new.
 *
 * Threads:  the main thread, between runs. Errors: errno values, sent to sandboxd.
 * Bounds:   ZYP_FILE_MAX bytes a file, ZYP_ENTRIES_MAX entries a listing, ZYP_LIST_MAX bytes. */
#ifndef CFD_SANDBOXD_ZG_FILES_H
#define CFD_SANDBOXD_ZG_FILES_H

#include <stddef.h>

/* Answers one FILE frame's payload with a FILE_REPLY frame. */
void zg_files_do(const void *request, size_t n);
/* Sends one CHANGED frame when files differ from what the last look saw; `is_silent` only looks. */
void zg_files_changed(int is_silent);

#endif
