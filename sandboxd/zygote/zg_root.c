#include "zg_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAGE       "/tmp" /* covered by the template's tmpfs while it is built */
#define UIDS_FIRST  0x70000000U
#define UIDS_COUNT  65536U
#define UIDS_SMALL  4096U
#define SOURCES_MAX 96

/* What is shown read-only, when the host has it. Links are copied as links. */
static const char *const shown[] = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/python3",
    "/etc/python3.11",
    "/etc/matplotlibrc",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/var/cache/fontconfig",
};

/* Copied, because they are small and the host may replace them. */
static const char *const copied[] = {"/etc/ld.so.cache", "/etc/mime.types", "/etc/localtime",
                                     "/etc/magic", "/etc/inputrc"};

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};

static const struct {
    const char *path;
    const char *text;
} files[] = {
    {"/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                    "sandbox:x:1000:1000:sandbox:/mnt/data:/bin/bash\n"
                    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
    {"/etc/hosts", "127.0.0.1 localhost sandbox\n"},
    {"/etc/hostname", "sandbox\n"},
};

static const char *const places[] = {
    "/tmp", "/mnt",     "/mnt/data",          "/dev", "/dev/shm", "/proc",
    "/var", "/var/lib", "/var/lib/cofferdam", "/etc", "/run"};

/* One bind: opened before the stage covers anything, mounted later through its descriptor. */
struct source {
    const char *path;
    int fd;
};

static int id_map_put(const char *file, unsigned inside, unsigned outside)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "%u %u 1", inside, outside);
    return zg_put_at(AT_FDCWD, file, line);
}

/* A range of ids of this user namespace that no host account uses. */
static void uid_range_find(struct zg_uids *ret)
{
    char text[4096];
    char *line = text;

    ret->first = geteuid();
    ret->count = 1;
    if (zg_slurp("/proc/self/uid_map", text, sizeof(text)) <= 0) {
        return;
    }
    for (char *save = NULL; (line = strtok_r(save == NULL ? text : NULL, "\n", &save)) != NULL;) {
        unsigned long inside = 0;
        unsigned long outside = 0;
        unsigned long count = 0;

        if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) != 3) {
            continue;
        }
        if (inside <= UIDS_FIRST && inside + count >= (unsigned long)UIDS_FIRST + UIDS_COUNT) {
            *ret = (struct zg_uids){UIDS_FIRST, UIDS_COUNT};
            return;
        }
        if (count >= 4UL * UIDS_SMALL) { /* a container's map: stay clear of both ends */
            *ret = (struct zg_uids){(unsigned)(inside + count - 2UL * UIDS_SMALL), UIDS_SMALL};
        }
    }
}

int zg_ns_enter(struct zg_uids *ret, struct zg_err *e)
{
    int own = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    unsigned uid = geteuid();
    unsigned gid = getegid();

    if (uid == 0 && unshare(own) == 0) {
        uid_range_find(ret);
        return 0;
    }
    if (unshare(CLONE_NEWUSER | own) != 0) {
        return zg_fail(e, errno,
                       "namespaces: the kernel refuses user, mount or network namespaces; allow "
                       "them (sysctl user.max_user_namespaces > 0, "
                       "kernel.unprivileged_userns_clone=1, "
                       "kernel.apparmor_restrict_unprivileged_userns=0; in a container also its "
                       "seccomp profile)");
    }
    if (zg_put_at(AT_FDCWD, "/proc/self/setgroups", "deny") != 0 ||
        id_map_put("/proc/self/uid_map", uid, uid) != 0 ||
        id_map_put("/proc/self/gid_map", gid, gid) != 0) {
        return zg_fail(e, errno, "user namespace: cannot write the id maps");
    }
    *ret = (struct zg_uids){uid, 1};
    return 0;
}

/* mkdir -p of the parent of STAGE/path. */
static int parents_make(const char *path)
{
    char full[PATH_MAX];

    if (snprintf(full, sizeof(full), STAGE "%s", path) >= (int)sizeof(full)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *p = full + sizeof(STAGE); (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (mkdir(full, 0755) != 0 && errno != EEXIST) {
            return -1;
        }
        *p = '/';
    }
    return 0;
}

static int file_put(const char *path, const void *p, size_t n)
{
    char full[PATH_MAX];

    (void)snprintf(full, sizeof(full), STAGE "%s", path);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0) {
        return -1;
    }
    int rc = zg_write_all(fd, p, n);

    (void)close(fd);
    return rc;
}

static int file_copy(int from, const char *path)
{
    char chunk[65536];
    char full[PATH_MAX];
    ssize_t n = 0;

    (void)snprintf(full, sizeof(full), STAGE "%s", path);
    int to = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (to < 0) {
        return -1;
    }
    while ((n = read(from, chunk, sizeof(chunk))) > 0 && zg_write_all(to, chunk, (size_t)n) == 0) {
    }
    (void)close(to);
    return n == 0 ? 0 : -1;
}

/* Binds `s` recursively at STAGE/s->path. */
static int bind_put(const struct source *s, bool is_device, struct zg_err *e)
{
    char from[64];
    char to[PATH_MAX];
    struct stat st;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", s->fd);
    if (snprintf(to, sizeof(to), STAGE "%s", s->path) >= (int)sizeof(to) ||
        parents_make(s->path) != 0 || fstat(s->fd, &st) != 0) {
        return zg_fail(e, errno, "root: cannot prepare %s", s->path);
    }
    if (S_ISDIR(st.st_mode) ? mkdir(to, 0755) != 0 && errno != EEXIST
                            : file_put(s->path, "", 0) != 0) {
        return zg_fail(e, errno, "root: cannot make %s", s->path);
    }
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0) {
        return zg_fail(e, errno, "root: cannot bind %s", s->path);
    }
    if (is_device) {
        attr.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    }
    if (mount_setattr(AT_FDCWD, to, AT_RECURSIVE, &attr, sizeof(attr)) != 0) {
        return zg_fail(e, errno, "root: cannot make the bind of %s read-only", s->path);
    }
    return 0;
}

static const char *host_path(char *dst, size_t cap, const struct zg_opts *o, const char *path)
{
    (void)snprintf(dst, cap, "%s%s", o->root != NULL ? o->root : "", path);
    return dst;
}

/* A symbolic link of the host (/bin -> usr/bin) is shown as the same link. 1 = it was one. */
static int link_collect(const struct zg_opts *o, const char *path, char *ret_target, size_t cap)
{
    char from[PATH_MAX];
    ssize_t n = readlink(host_path(from, sizeof(from), o, path), ret_target, cap - 1);

    if (n <= 0) {
        return 0;
    }
    ret_target[n] = '\0';
    return 1;
}

struct plan {
    struct source binds[SOURCES_MAX];
    unsigned bind_count;
    struct source copies[8];
    unsigned copy_count;
    struct {
        const char *path;
        char target[256];
    } links[16];
    unsigned link_count;
    struct source devs[8];
    unsigned dev_count;
    int proc_fd;
};

static void bind_collect(struct plan *p, const char *from, const char *path, int flags)
{
    int fd = open(from, flags | O_CLOEXEC);

    if (fd >= 0) {
        p->binds[p->bind_count++] = (struct source){path, fd};
    }
}

/* Opens all sources while the host's paths are still in sight. */
static int plan_make(struct plan *p, const struct zg_opts *o, struct zg_err *e)
{
    char from[PATH_MAX];
    for (unsigned i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        if (link_collect(o, shown[i], p->links[p->link_count].target, sizeof(p->links[0].target)) !=
            0) {
            p->links[p->link_count++].path = shown[i];
        } else {
            bind_collect(p, host_path(from, sizeof(from), o, shown[i]), shown[i], O_PATH);
        }
        if (p->link_count == 16) {
            return zg_fail(e, 0, "root: too many links");
        }
    }
    for (unsigned i = 0; i < o->bind_count; i++) {
        unsigned before = p->bind_count;

        bind_collect(p, o->binds[i], o->binds[i], O_PATH);
        if (p->bind_count == before) {
            return zg_fail(e, errno, "root: local.binds: cannot open %s", o->binds[i]);
        }
    }
    for (unsigned i = 0; i < sizeof(copied) / sizeof(copied[0]); i++) {
        int fd = open(host_path(from, sizeof(from), o, copied[i]), O_RDONLY | O_CLOEXEC);

        if (fd >= 0) {
            p->copies[p->copy_count++] = (struct source){copied[i], fd};
        }
    }
    for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        int fd = open(devices[i], O_PATH | O_CLOEXEC);

        if (fd < 0) {
            return zg_fail(e, errno, "root: %s is missing on the host", devices[i]);
        }
        p->devs[p->dev_count++] = (struct source){devices[i], fd};
    }
    p->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return p->proc_fd >= 0 ? 0 : zg_fail(e, errno, "root: /proc is not mounted");
}

static void plan_close(struct plan *p)
{
    for (unsigned i = 0; i < p->bind_count; i++) {
        (void)close(p->binds[i].fd);
    }
    for (unsigned i = 0; i < p->copy_count; i++) {
        (void)close(p->copies[i].fd);
    }
    for (unsigned i = 0; i < p->dev_count; i++) {
        (void)close(p->devs[i].fd);
    }
    (void)close(p->proc_fd);
}

static int tree_fill(const struct plan *p, struct zg_err *e)
{
    char full[PATH_MAX];
    char from[64];

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(full, sizeof(full), STAGE "%s", places[i]);
        if (mkdir(full, 0755) != 0 && errno != EEXIST) {
            return zg_fail(e, errno, "root: cannot make %s", places[i]);
        }
    }
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", p->proc_fd);
    if (mount(from, STAGE "/proc", NULL, MS_BIND | MS_REC, NULL) != 0) {
        return zg_fail(e, errno, "root: cannot bind /proc");
    }
    for (unsigned i = 0; i < p->link_count; i++) {
        (void)snprintf(full, sizeof(full), STAGE "%s", p->links[i].path);
        if (parents_make(p->links[i].path) != 0 || symlink(p->links[i].target, full) != 0) {
            return zg_fail(e, errno, "root: cannot link %s", p->links[i].path);
        }
    }
    for (unsigned i = 0; i < p->bind_count; i++) {
        if (bind_put(&p->binds[i], false, e) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < p->dev_count; i++) {
        if (bind_put(&p->devs[i], true, e) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < p->copy_count; i++) {
        if (file_copy(p->copies[i].fd, p->copies[i].path) != 0) {
            return zg_fail(e, errno, "root: cannot copy %s", p->copies[i].path);
        }
    }
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (file_put(files[i].path, files[i].text, strlen(files[i].text)) != 0) {
            return zg_fail(e, errno, "root: cannot write %s", files[i].path);
        }
    }
    if (symlink("/proc/self/fd", STAGE "/dev/fd") != 0 ||
        symlink("/proc/self/fd/0", STAGE "/dev/stdin") != 0 ||
        symlink("/proc/self/fd/1", STAGE "/dev/stdout") != 0 ||
        symlink("/proc/self/fd/2", STAGE "/dev/stderr") != 0) {
        return zg_fail(e, errno, "root: cannot make the links in /dev");
    }
    return 0;
}

int zg_root_enter(const struct zg_opts *o, struct zg_err *e)
{
    static struct plan plan; /* large; once per process */

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return zg_fail(e, errno, "mount namespace: cannot make mounts private");
    }
    if (plan_make(&plan, o, e) != 0) {
        return -1;
    }
    if (mount("cofferdam", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=32m,mode=755") != 0) {
        return zg_fail(e, errno, "root: cannot mount a tmpfs");
    }
    if (tree_fill(&plan, e) != 0) {
        return -1;
    }
    plan_close(&plan);
    if (chdir(STAGE) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
        return zg_fail(e, errno, "root: pivot_root");
    }
    return 0;
}

int zg_root_seal(struct zg_err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) != 0) {
        return zg_fail(e, errno, "root: cannot make it read-only");
    }
    return 0;
}
