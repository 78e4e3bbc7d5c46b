#include "zg_seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Refused whatever their arguments. Names unknown to the running libseccomp are skipped: the kernel
 * headers it was built with do not know the call either. */
static const char *const refused[] = {
    "mount",
    "umount2",
    "umount",
    "pivot_root",
    "chroot",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "setns",
    "unshare",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "kcmp",
    "pidfd_getfd",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    "open_by_handle_at",
    "name_to_handle_at",
    "fanotify_init",
    "lookup_dcookie",
    "quotactl",
    "quotactl_fd",
    "acct",
    "swapon",
    "swapoff",
    "reboot",
    "syslog",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "stime",
    "iopl",
    "ioperm",
    "modify_ldt",
    "vm86",
    "vm86old",
    "nfsservctl",
    "uselib",
    "ustat",
    "sysfs",
    "_sysctl",
    "vhangup",
    "vmsplice",
    "migrate_pages",
    "move_pages",
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "set_mempolicy_home_node",
    "remap_file_pages",
    "mknod",
    "mknodat",
    "memfd_secret",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "process_mrelease",
    "afs_syscall",
    "tuxcall",
    "getpmsg",
    "putpmsg",
    "security",
    "vserver",
    "mq_open",
    "mq_unlink",
    "personality",
    "seccomp",
};

static const unsigned namespace_bits[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
                                          CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
                                          CLONE_NEWNET};

static int clone_rules_add(scmp_filter_ctx c)
{
    int rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    for (unsigned i = 0; rc == 0 && i < sizeof(namespace_bits) / sizeof(namespace_bits[0]); i++) {
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, namespace_bits[i], namespace_bits[i]));
    }
    return rc;
}

/* Only unix and IP sockets, and no raw ones; vsock in particular is not bound to a network
 * namespace. */
static int socket_rules_add(scmp_filter_ctx c)
{
    int rc = 0;

    for (int family = 0; rc == 0 && family < 64; family++) {
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6) {
            rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family, 0));
        }
    }
    if (rc == 0) {
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                              SCMP_A0(SCMP_CMP_GE, 64, 0));
    }
    static const int raw[] = {SOCK_RAW, SOCK_RDM, SOCK_PACKET};

    for (unsigned i = 0; rc == 0 && i < sizeof(raw) / sizeof(raw[0]); i++) {
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, 0xF, (scmp_datum_t)raw[i]));
    }
    return rc;
}

/* Typing into somebody's terminal; set-user-id files. */
static int misc_rules_add(scmp_filter_ctx c)
{
    int rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, 0xFFFFFFFFU, (scmp_datum_t)TIOCSTI));

    if (rc == 0) {
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, 0xFFFFFFFFU, (scmp_datum_t)TIOCLINUX));
    }
    static const scmp_datum_t suid = S_ISUID | S_ISGID;

    for (scmp_datum_t bit = S_ISGID; rc == 0 && bit <= S_ISUID; bit <<= 1) {
        scmp_datum_t mask = suid & bit;

        if ((rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(chmod), 1,
                                   SCMP_A1(SCMP_CMP_MASKED_EQ, mask, mask))) == 0 &&
            (rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmod), 1,
                                   SCMP_A1(SCMP_CMP_MASKED_EQ, mask, mask))) == 0) {
            rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmodat), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, mask, mask));
        }
    }
    return rc;
}

static int rules_add(scmp_filter_ctx c)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < sizeof(refused) / sizeof(refused[0]); i++) {
        int nr = seccomp_syscall_resolve_name(refused[i]);

        if (nr != __NR_SCMP_ERROR) {
            rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), nr, 0);
            rc = rc == -EACCES || rc == -EDOM ? 0 : rc; /* not on this architecture */
        }
    }
    if (rc == 0 && (rc = clone_rules_add(c)) == 0 && (rc = socket_rules_add(c)) == 0) {
        rc = misc_rules_add(c);
    }
    return rc;
}

/* Takes the compiled program out through a memory file. */
static int program_export(struct zg_seccomp *ret, scmp_filter_ctx c)
{
    int fd = memfd_create("seccomp", MFD_CLOEXEC);
    struct stat st;
    int rc = -1;

    if (fd >= 0 && seccomp_export_bpf(c, fd) == 0 && fstat(fd, &st) == 0 && st.st_size > 0 &&
        (size_t)st.st_size / sizeof(struct sock_filter) <= BPF_MAXINSNS) {
        ret->prog = malloc((size_t)st.st_size);
        if (ret->prog != NULL &&
            pread(fd, ret->prog, (size_t)st.st_size, 0) == (ssize_t)st.st_size) {
            ret->count = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter));
            rc = 0;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

int zg_seccomp_build(struct zg_seccomp *ret, struct zg_err *e)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    int rc = c != NULL ? rules_add(c) : -ENOMEM;

    if (rc == 0) {
        (void)seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE,
                               2); /* binary tree; absent in old versions */
        rc = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (rc == 0 && program_export(ret, c) != 0) {
        rc = -EIO;
    }
    seccomp_release(c);
    return rc == 0 ? 0 : zg_fail(e, -rc, "seccomp: cannot build the filter");
}

int zg_seccomp_load(const struct zg_seccomp *s)
{
    struct sock_fprog prog = {.len = s->count, .filter = s->prog};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
