/* zg_seccomp_table.h - the system calls of sandboxes. Three lists and, in zg_seccomp.c, the calls
 * whose arguments decide. A call on no list does not exist (ENOSYS), which is what a C library or a
 * runtime that is newer than this list expects to hear: it falls back to an older call.
 *
 * ZG_CALLS_ALLOWED  needed by the interpreter, its libraries and ordinary programs started from
 * cells ZG_CALLS_REFUSED  known, asked for by well-meant programs, of no use here: EPERM
 * ZG_CALLS_DEADLY   no well-meant program in a sandbox makes them; the first tools of a break-out:
 *                   the process is killed with SIGSYS
 *
 * Memory that belongs to no process (System V, memory files) and counters that all sandboxes of one
 * host user share (inotify) are refused: without control groups nothing else would bound them.
 *
 * Names unknown to the running libseccomp or to the architecture are skipped. */
#ifndef CFD_SANDBOXD_ZG_SECCOMP_TABLE_H
#define CFD_SANDBOXD_ZG_SECCOMP_TABLE_H

/* clang-format off */
#define ZG_CALLS_ALLOWED(X) \
    /* files through descriptors */ \
    X(read) X(write) X(readv) X(writev) X(pread64) X(pwrite64) X(preadv) X(pwritev) X(preadv2) X(pwritev2) \
    X(open) X(openat) X(openat2) X(creat) X(close) X(close_range) X(lseek) X(dup) X(dup2) X(dup3) X(fcntl) \
    X(flock) X(fsync) X(fdatasync) X(sync_file_range) X(truncate) X(ftruncate) X(fallocate) X(fadvise64) X(readahead) \
    X(sendfile) X(copy_file_range) X(splice) X(tee) X(pipe) X(pipe2) \
    /* names and what they stand for */ \
    X(stat) X(lstat) X(fstat) X(newfstatat) X(statx) X(statfs) X(fstatfs) X(access) X(faccessat) X(faccessat2) \
    X(getdents) X(getdents64) X(getcwd) X(chdir) X(fchdir) X(mkdir) X(mkdirat) X(rmdir) X(unlink) X(unlinkat) \
    X(rename) X(renameat) X(renameat2) X(link) X(linkat) X(symlink) X(symlinkat) X(readlink) X(readlinkat) X(umask) \
    X(chown) X(fchown) X(lchown) X(fchownat) X(utime) X(utimes) X(utimensat) X(futimesat) \
    X(getxattr) X(lgetxattr) X(fgetxattr) X(listxattr) X(llistxattr) X(flistxattr) \
    /* waiting */ \
    X(poll) X(ppoll) X(select) X(pselect6) X(epoll_create) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(epoll_pwait) \
    X(epoll_pwait2) X(eventfd) X(eventfd2) X(signalfd) X(signalfd4) X(timerfd_create) X(timerfd_settime) X(timerfd_gettime) \
    X(nanosleep) X(clock_nanosleep) X(pause) X(alarm) X(getitimer) X(setitimer) \
    X(timer_create) X(timer_settime) X(timer_gettime) X(timer_getoverrun) X(timer_delete) \
    /* memory */ \
    X(brk) X(mmap) X(munmap) X(mremap) X(mprotect) X(madvise) X(mincore) X(msync) X(mlock) X(mlock2) X(munlock) X(munlockall) \
    X(membarrier) X(pkey_alloc) X(pkey_free) X(pkey_mprotect) \
    /* processes and threads of the sandbox; clone is in zg_seccomp.c */ \
    X(fork) X(vfork) X(execve) X(execveat) X(exit) X(exit_group) X(wait4) X(waitid) X(kill) X(tkill) X(tgkill) \
    X(pidfd_open) X(pidfd_send_signal) X(rt_sigaction) X(rt_sigprocmask) X(rt_sigreturn) X(rt_sigpending) \
    X(rt_sigtimedwait) X(rt_sigsuspend) X(rt_sigqueueinfo) X(rt_tgsigqueueinfo) X(sigaltstack) X(restart_syscall) \
    X(futex) X(futex_waitv) X(set_robust_list) X(get_robust_list) X(set_tid_address) X(rseq) X(arch_prctl) \
    X(getpid) X(getppid) X(gettid) X(getpgid) X(getpgrp) X(getsid) X(setpgid) X(setsid) \
    X(getuid) X(geteuid) X(getgid) X(getegid) X(getgroups) X(getresuid) X(getresgid) \
    X(setuid) X(setgid) X(setreuid) X(setregid) X(setresuid) X(setresgid) X(setfsuid) X(setfsgid) X(capget) \
    X(sched_yield) X(sched_getaffinity) X(sched_setaffinity) X(sched_getparam) X(sched_getscheduler) X(sched_getattr) \
    X(sched_get_priority_max) X(sched_get_priority_min) X(sched_rr_get_interval) X(getpriority) X(setpriority) \
    X(getrlimit) X(setrlimit) X(prlimit64) X(getrusage) X(times) X(getcpu) X(sysinfo) X(uname) X(getrandom) \
    X(time) X(gettimeofday) X(clock_gettime) X(clock_getres) \
    /* sockets; socket is in zg_seccomp.c */ \
    X(connect) X(bind) X(listen) X(accept) X(accept4) X(getsockname) X(getpeername) X(sendto) X(recvfrom) \
    X(sendmsg) X(recvmsg) X(sendmmsg) X(recvmmsg) X(shutdown) X(setsockopt) X(getsockopt)

#define ZG_CALLS_REFUSED(X) \
    X(mbind) X(set_mempolicy) X(get_mempolicy) X(migrate_pages) X(move_pages) X(set_mempolicy_home_node) \
    X(sched_setscheduler) X(sched_setparam) X(sched_setattr) X(ioprio_set) X(ioprio_get) X(mlockall) \
    X(setgroups) X(capset) X(personality) X(syslog) X(sethostname) X(setdomainname) X(settimeofday) X(clock_settime) \
    X(clock_adjtime) X(adjtimex) X(acct) X(quotactl) X(quotactl_fd) X(vhangup) X(sync) X(syncfs) \
    X(setxattr) X(lsetxattr) X(fsetxattr) X(removexattr) X(lremovexattr) X(fremovexattr) \
    X(name_to_handle_at) X(fanotify_init) X(fanotify_mark) X(vmsplice) X(process_madvise) X(process_mrelease) \
    X(mq_open) X(mq_unlink) X(mq_timedsend) X(mq_timedreceive) X(mq_notify) X(mq_getsetattr) \
    X(msgget) X(msgsnd) X(msgrcv) X(msgctl) X(shmget) X(shmat) X(shmdt) X(shmctl) X(semget) X(semop) X(semtimedop) X(semctl) \
    X(memfd_create) X(inotify_init) X(inotify_init1) X(seccomp) X(landlock_create_ruleset) X(landlock_add_rule) \
    X(landlock_restrict_self) X(remap_file_pages) X(memfd_secret)

#define ZG_CALLS_DEADLY(X) \
    X(mount) X(umount2) X(umount) X(pivot_root) X(chroot) X(open_tree) X(move_mount) X(fsopen) X(fsconfig) X(fsmount) \
    X(fspick) X(mount_setattr) X(setns) X(unshare) X(ptrace) X(process_vm_readv) X(process_vm_writev) X(kcmp) \
    X(pidfd_getfd) X(bpf) X(perf_event_open) X(userfaultfd) X(keyctl) X(add_key) X(request_key) X(kexec_load) \
    X(kexec_file_load) X(init_module) X(finit_module) X(delete_module) X(create_module) X(query_module) \
    X(open_by_handle_at) X(lookup_dcookie) X(swapon) X(swapoff) X(reboot) X(iopl) X(ioperm) X(modify_ldt) X(nfsservctl) \
    X(uselib) X(ustat) X(sysfs) X(_sysctl)
/* clang-format on */

#endif
