#include "zg_landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's interface, spelled out: the headers of supported systems know its first versions
 * only. */
#define CREATE_VERSION     1U
#define RULE_PATH_BENEATH  1
#define FS_EXECUTE         (1ULL << 0)
#define FS_WRITE_FILE      (1ULL << 1)
#define FS_READ_FILE       (1ULL << 2)
#define FS_READ_DIR        (1ULL << 3)
#define FS_MAKE_CHAR       (1ULL << 6)
#define FS_MAKE_BLOCK      (1ULL << 11)
#define FS_ABI_1           ((1ULL << 13) - 1)
#define FS_REFER           (1ULL << 13) /* 2 */
#define FS_TRUNCATE        (1ULL << 14) /* 3 */
#define FS_IOCTL_DEV       (1ULL << 15) /* 5 */
#define NET_BIND_CONNECT   3ULL         /* 4 */
#define SCOPE_UNIX_SIGNALS 3ULL         /* 6 */

#define ABI_REFER    2
#define ABI_TRUNCATE 3
#define ABI_NET      4
#define ABI_IOCTL    5
#define ABI_SCOPE    6

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

int zg_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0UL, CREATE_VERSION);

    return abi > 0 ? (int)abi : 0;
}

static uint64_t fs_handled(int abi)
{
    uint64_t v = FS_ABI_1;

    v |= abi >= ABI_REFER ? FS_REFER : 0;
    v |= abi >= ABI_TRUNCATE ? FS_TRUNCATE : 0;
    v |= abi >= ABI_IOCTL ? FS_IOCTL_DEV : 0;
    return v;
}

static int rule_add(int ruleset, const char *path, uint64_t allowed)
{
    struct path_attr a = {.allowed = allowed, .parent_fd = open(path, O_PATH | O_CLOEXEC)};

    if (a.parent_fd < 0) {
        return -1;
    }
    long rc = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &a, 0U);
    int native = errno;

    (void)close(a.parent_fd);
    errno = native;
    return rc == 0 ? 0 : -1;
}

int zg_landlock_enter(int abi)
{
    const uint64_t handled = fs_handled(abi);
    const uint64_t read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
    const uint64_t device = read | FS_WRITE_FILE | (handled & FS_TRUNCATE); /* > /dev/null */
    const uint64_t own = handled & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
    struct ruleset_attr attr = {.fs = handled,
                                .net = abi >= ABI_NET ? NET_BIND_CONNECT : 0,
                                .scoped = abi >= ABI_SCOPE ? SCOPE_UNIX_SIGNALS : 0};
    size_t size = abi >= ABI_SCOPE ? sizeof(attr) : abi >= ABI_NET ? 16 : 8;
    int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0U);

    if (fd < 0) {
        return -1;
    }
    int rc = -1;

    if (rule_add(fd, "/", read) == 0 && rule_add(fd, "/dev", device) == 0 &&
        rule_add(fd, "/dev/shm", own) == 0 && rule_add(fd, "/tmp", own) == 0 &&
        rule_add(fd, "/mnt/data", own) == 0) {
        rc = (int)syscall(SYS_landlock_restrict_self, fd, 0U);
    }
    int native = errno;

    (void)close(fd);
    errno = native;
    return rc;
}
