#include "zg_seccomp.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

#include "zg_seccomp_table.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define NAMES_MAX 512U
#define LOW32     0xFFFFFFFFU

#define X(name) #name,
static const char *const allowed[] = {ZG_CALLS_ALLOWED(X)};
static const char *const refused[] = {ZG_CALLS_REFUSED(X)};
static const char *const deadly[] = {ZG_CALLS_DEADLY(X)};
#undef X

static const scmp_datum_t namespace_bits = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                           CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                           CLONE_NEWNET;

/* What descriptors are asked that sandboxes have: files, pipes, sockets. TIOCSTI and its like are
 * not here, nor is anything of a device or file system. */
static const scmp_datum_t ioctls[] = {TCGETS,  TIOCGWINSZ, FIONREAD, FIONBIO,
                                      FIOCLEX, FIONCLEX,   FIOASYNC, TIOCOUTQ};

/* Names, and questions. Not PR_SET_PDEATHSIG (a sandbox dies with its owner) nor PR_SET_DUMPABLE.
 */
static const scmp_datum_t prctls[] = {
    PR_SET_NAME,         PR_GET_NAME,         PR_GET_PDEATHSIG,   PR_GET_DUMPABLE,
    PR_GET_NO_NEW_PRIVS, PR_SET_NO_NEW_PRIVS, PR_GET_SECCOMP,     PR_CAPBSET_READ,
    PR_GET_KEEPCAPS,     PR_GET_SECUREBITS,   PR_SET_TIMERSLACK,  PR_GET_TIMERSLACK,
    PR_SET_VMA,          PR_SET_THP_DISABLE,  PR_GET_THP_DISABLE, PR_GET_TID_ADDRESS};

struct build {
    scmp_filter_ctx c;
    uint32_t kill; /* action for deadly calls */
    bool is_trace;
};

/* A rule that says what the default says already (test mode) and one about a call that this
 * architecture lacks are none. */
static int rule_done(int rc)
{
    return rc == -EACCES || rc == -EDOM ? 0 : rc;
}

static uint32_t refusal(const struct build *b, unsigned code)
{
    return b->is_trace ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(code);
}

static int list_add(const struct build *b, const char *const *names, size_t n, uint32_t action)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);

        if (nr != __NR_SCMP_ERROR) {
            rc = rule_done(seccomp_rule_add(b->c, action, nr, 0));
        }
    }
    return rc;
}

/* clone3 hides its flags from filters: it does not exist, and libc falls back to clone. */
static int clone_rules_add(const struct build *b)
{
    int rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, namespace_bits, 0)));

    if (rc == 0) { /* in test mode too: libc blocks all signals around it */
        rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
    }
    for (scmp_datum_t bit = 1; rc == 0 && bit != 0 && bit <= namespace_bits; bit <<= 1) {
        if ((bit & namespace_bits) != 0) {
            rc = rule_done(seccomp_rule_add(b->c, b->kill, SCMP_SYS(clone), 1,
                                            SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)));
        }
    }
    return rc;
}

/* Only unix and IP sockets, and no raw ones; vsock in particular is not bound to a network
 * namespace. Families that programs try are answered as by a kernel without them; each rule costs
 * every sandbox some time, so not all. */
static int socket_rules_add(const struct build *b)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    static const int others[] = {AF_NETLINK, AF_PACKET, AF_VSOCK};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    int rc = 0;

    for (unsigned f = 0; f < 3; f++) {
        for (unsigned t = 0; rc == 0 && t < (families[f] == AF_UNIX ? 3U : 2U); t++) {
            rc = rule_done(
                seccomp_rule_add(b->c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                                 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[f], 0),
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xF, (scmp_datum_t)types[t])));
        }
        if (rc == 0) {
            rc = rule_done(
                seccomp_rule_add(b->c, refusal(b, EPERM), SCMP_SYS(socket), 2,
                                 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[f], 0),
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xF, (scmp_datum_t)SOCK_RAW)));
        }
    }
    for (unsigned f = 0; rc == 0 && f < sizeof(others) / sizeof(others[0]); f++) {
        rc = rule_done(seccomp_rule_add(b->c, refusal(b, EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                        SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)others[f], 0)));
    }
    for (unsigned t = 0; rc == 0 && t < 3; t++) {
        rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 2,
                                        SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0),
                                        SCMP_A1(SCMP_CMP_MASKED_EQ, 0xF, (scmp_datum_t)types[t])));
    }
    return rc;
}

static int values_allow(const struct build *b, int nr, unsigned arg, const scmp_datum_t *v,
                        size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ALLOW, nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, LOW32, v[i])));
    }
    return rc;
}

/* Mode argument `arg` of call `nr`: no set-user-id, no set-group-id. */
static int mode_rules_add(const struct build *b, int nr, unsigned arg)
{
    int rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ALLOW, nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, 0)));

    if (rc == 0) {
        rc = rule_done(seccomp_rule_add(b->c, refusal(b, EPERM), nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID)));
    }
    if (rc == 0) {
        rc = rule_done(seccomp_rule_add(b->c, refusal(b, EPERM), nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID)));
    }
    return rc;
}

/* mknod makes named pipes and nothing else. */
static int node_rules_add(const struct build *b, int nr, unsigned arg)
{
    int rc = rule_done(seccomp_rule_add(b->c, SCMP_ACT_ALLOW, nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO)));

    if (rc == 0) {
        rc = rule_done(seccomp_rule_add(b->c, refusal(b, EPERM), nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR)));
    }
    if (rc == 0) {
        rc = rule_done(seccomp_rule_add(b->c, refusal(b, EPERM), nr, 1,
                                        SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK)));
    }
    return rc;
}

static int rules_add(const struct build *b)
{
    int rc = 0;

    if ((rc = list_add(b, allowed, sizeof(allowed) / sizeof(allowed[0]), SCMP_ACT_ALLOW)) != 0 ||
        (rc = list_add(b, refused, sizeof(refused) / sizeof(refused[0]), refusal(b, EPERM))) != 0 ||
        (rc = list_add(b, deadly, sizeof(deadly) / sizeof(deadly[0]), b->kill)) != 0 ||
        (rc = clone_rules_add(b)) != 0 || (rc = socket_rules_add(b)) != 0 ||
        (rc = values_allow(b, SCMP_SYS(ioctl), 1, ioctls, sizeof(ioctls) / sizeof(ioctls[0]))) !=
            0 ||
        (rc = values_allow(b, SCMP_SYS(prctl), 0, prctls, sizeof(prctls) / sizeof(prctls[0]))) !=
            0 ||
        (rc = mode_rules_add(b, SCMP_SYS(chmod), 1)) != 0 ||
        (rc = mode_rules_add(b, SCMP_SYS(fchmod), 1)) != 0 ||
        (rc = mode_rules_add(b, SCMP_SYS(fchmodat), 2)) != 0 ||
        (rc = node_rules_add(b, SCMP_SYS(mknod), 1)) != 0) {
        return rc;
    }
    return node_rules_add(b, SCMP_SYS(mknodat), 2);
}

/* ---- test mode ---------------------------------------------------------------------------- */

static char names[NAMES_MAX][24]; /* filled in the zygote: nothing may be looked up in a handler */

static void names_fill(void)
{
    for (unsigned nr = 0; nr < NAMES_MAX; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)nr);

        (void)snprintf(names[nr], sizeof(names[0]), "%s", name != NULL ? name : "unknown");
        free(name);
    }
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    unsigned nr = (unsigned)info->si_syscall;
    char line[96];

    (void)sig;
    int n = snprintf(line, sizeof(line), "cofferdam: system call %s (%u) is not allowed\n",
                     nr < NAMES_MAX ? names[nr] : "unknown", nr);

    (void)!write(2, line, (size_t)n);
#if defined(__x86_64__)
    u->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
    u->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#else
    (void)u; /* the call's result is undefined here; the name has been told */
#endif
}

static int trace_start(struct zg_err *e)
{
    struct sigaction a;

    names_fill();
    memset(&a, 0, sizeof(a));
    a.sa_sigaction = on_trap;
    a.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSYS, &a, NULL) == 0 ? 0 : zg_fail(e, errno, "seccomp: sigaction");
}

/* ---- the program -------------------------------------------------------------------------- */

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

int zg_seccomp_build(struct zg_seccomp *ret, bool is_trace, struct zg_err *e)
{
    struct build b = {.c = seccomp_init(is_trace ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(ENOSYS)),
                      .kill = is_trace ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS,
                      .is_trace = is_trace};
    int rc = -ENOMEM;

    if (is_trace && trace_start(e) != 0) {
        seccomp_release(b.c);
        return -1;
    }
    if (b.c != NULL) {
        (void)seccomp_attr_set(b.c, SCMP_FLTATR_CTL_OPTIMIZE,
                               2); /* binary tree; absent in old versions */
        rc = rules_add(&b);
    }
    if (rc == 0) {
        rc = seccomp_attr_set(b.c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (rc == 0 && program_export(ret, b.c) != 0) {
        rc = -EIO;
    }
    seccomp_release(b.c);
    return rc == 0 ? 0 : zg_fail(e, -rc, "seccomp: cannot build the filter");
}

int zg_seccomp_load(const struct zg_seccomp *s)
{
    struct sock_fprog prog = {.len = s->count, .filter = s->prog};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
