/* zg_landlock.h - a second wall for files, TCP and signals, where the kernel has Landlock: even
 * what came into sight by a mistake of ours or the kernel's cannot be opened.
 *
 *   template root   read, execute        /dev       read, write (five devices)
 *   /tmp, /mnt/data, /dev/shm: everything but device nodes      all else: nothing
 *   TCP: neither connect nor bind (ABI 4); abstract unix sockets and signals: own domain (ABI 6)
 *
 * Errors: 0 or -1 with errno. Runs between clone and the interpreter; allocates nothing. */
#ifndef CFD_SANDBOXD_ZG_LANDLOCK_H
#define CFD_SANDBOXD_ZG_LANDLOCK_H

/* Version of the kernel's Landlock, 0 = it has none or it is switched off. */
int zg_landlock_abi(void);
/* In the child, once its file systems are mounted and after no_new_privs. */
int zg_landlock_enter(int abi);

#endif
