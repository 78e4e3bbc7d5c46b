#include "zg_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "cofferdam-"
#define DAEMON "cofferdam.daemon"

static const struct {
    const char *name;
    const char *v1_file;
    const char *v2_file;
    const char *v2_suffix;
} kinds[ZG_CGROUP_KINDS] = {
    [ZG_CGROUP_MEMORY] = {"memory", "memory.limit_in_bytes", "memory.max", ""},
    [ZG_CGROUP_PIDS] = {"pids", "pids.max", "pids.max", ""},
    [ZG_CGROUP_CPU] = {"cpu", "cpu.cfs_quota_us", "cpu.max", " 100000"},
};

/* Whether `name` is one of the comma-separated words of `list`. */
static bool list_has(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p != NULL; p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0' || p[n] == '\n')) {
            return true;
        }
    }
    return false;
}

/* The caller's own group in the hierarchy of `controller` ("" = version 2), from /proc/self/cgroup.
 */
static bool own_group(const char *controller, char *ret, size_t cap)
{
    static char text[8192];
    char *save = NULL;

    if (zg_slurp("/proc/self/cgroup", text, sizeof(text)) <= 0) {
        return false;
    }
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list != NULL ? strchr(list + 1, ':') : NULL;

        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        list++;
        if (*controller == '\0' ? *list == '\0' : list_has(list, controller)) {
            (void)snprintf(ret, cap, "%s", path);
            return true;
        }
    }
    return false;
}

/* Where the hierarchy is mounted, from /proc/self/mountinfo; its root must be the hierarchy's or
 * the path below it. */
static bool mount_point(const char *controller, char *ret, size_t cap)
{
    static char text[65536];
    char *save = NULL;

    if (zg_slurp("/proc/self/mountinfo", text, sizeof(text)) <= 0) {
        return false;
    }
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char at[512];
        char type[32];
        char options[512];
        char *tail = strstr(line, " - ");

        if (tail == NULL || sscanf(line, "%*s %*s %*s %*s %511s", at) != 1 ||
            sscanf(tail, " - %31s %*s %511s", type, options) != 2) {
            continue;
        }
        if (*controller == '\0' ? strcmp(type, "cgroup2") == 0
                                : strcmp(type, "cgroup") == 0 && list_has(options, controller)) {
            (void)snprintf(ret, cap, "%s", at);
            return true;
        }
    }
    return false;
}

/* "cofferdam-NAMESPACE-": process ids mean something only inside their own pid namespace. */
static void prefix_make(char *ret, size_t cap)
{
    struct stat st;

    (void)snprintf(ret, cap, PREFIX "%lx-",
                   stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0UL);
}

/* Removes groups whose zygote is dead, with the slots in them. */
static void stale_sweep(const char *parent)
{
    char prefix[64];
    DIR *d = opendir(parent);
    struct dirent *ent;
    struct dirent *sub;

    prefix_make(prefix, sizeof(prefix));
    while (d != NULL && (ent = readdir(d)) != NULL) {
        size_t n = strlen(prefix);
        long pid = strncmp(ent->d_name, prefix, n) == 0 ? strtol(ent->d_name + n, NULL, 10) : 0;

        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) {
            continue;
        }
        int fd = openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *inner = fd >= 0 ? fdopendir(fd) : NULL;

        while (inner != NULL && (sub = readdir(inner)) != NULL) {
            if (sub->d_type == DT_DIR && sub->d_name[0] != '.') {
                (void)unlinkat(dirfd(inner), sub->d_name, AT_REMOVEDIR);
            }
        }
        if (inner != NULL) {
            (void)closedir(inner);
        }
        (void)unlinkat(dirfd(d), ent->d_name, AT_REMOVEDIR);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

static int base_open(struct zg_cgroups *g, unsigned kind, const char *parent)
{
    char prefix[64];

    prefix_make(prefix, sizeof(prefix));
    if (snprintf(g->path[kind], sizeof(g->path[kind]), "%s/%s%d", parent, prefix, getpid()) >=
        (int)sizeof(g->path[kind])) {
        errno = ENAMETOOLONG;
        return -1;
    }
    stale_sweep(parent);
    if (mkdir(g->path[kind], 0755) != 0 && errno != EEXIST) {
        return -1;
    }
    g->base[kind] = open(g->path[kind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return g->base[kind] >= 0 ? 0 : -1;
}

static void v1_init(struct zg_cgroups *g)
{
    char at[512];
    char own[PATH_MAX / 2];
    char parent[PATH_MAX];

    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        if (!mount_point(kinds[k].name, at, sizeof(at)) ||
            !own_group(kinds[k].name, own, sizeof(own))) {
            continue;
        }
        (void)snprintf(parent, sizeof(parent), "%s%s", at, strcmp(own, "/") == 0 ? "" : own);
        if (base_open(g, k, parent) == 0) {
            g->has[k] = true;
            g->version = 1;
        } else {
            (void)snprintf(g->why, sizeof(g->why), "%.120s: %s", parent, strerror(errno));
        }
    }
}

/* Moves the daemon's own processes into a leaf, because version 2 wants inner groups empty. Refuses
 * when the group holds anything but the zygote and its parent: it was not delegated to us then. */
static int v2_leaf_make(const char *own)
{
    char path[PATH_MAX];
    static char text[4096];
    char line[32];
    char *save = NULL;

    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", own);
    if (zg_slurp(path, text, sizeof(text)) < 0) {
        return -1;
    }
    char *copy = strdup(text);
    bool is_ours = copy != NULL;

    for (char *p = copy != NULL ? strtok_r(copy, "\n", &save) : NULL; p != NULL;
         p = strtok_r(NULL, "\n", &save)) {
        long pid = strtol(p, NULL, 10);

        is_ours = is_ours && (pid == getpid() || pid == getppid());
    }
    free(copy);
    (void)snprintf(path, sizeof(path), "%s/" DAEMON, own);
    if (!is_ours || (mkdir(path, 0755) != 0 && errno != EEXIST)) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/" DAEMON "/cgroup.procs", own);
    (void)snprintf(line, sizeof(line), "%d", getppid());
    (void)zg_put_at(AT_FDCWD, path, line); /* the parent may live elsewhere */
    (void)snprintf(line, sizeof(line), "%d", getpid());
    return zg_put_at(AT_FDCWD, path, line);
}

static void v2_init(struct zg_cgroups *g)
{
    char at[512];
    char own[PATH_MAX / 2];
    char parent[PATH_MAX - 64];
    char path[PATH_MAX];
    char have[512];

    if (!mount_point("", at, sizeof(at)) || !own_group("", own, sizeof(own)) ||
        strcmp(own, "/") == 0) {
        return;
    }
    (void)snprintf(parent, sizeof(parent), "%s%s", at, own);
    char *leaf = strstr(parent, "/" DAEMON);
    bool is_leaf = leaf != NULL;

    if (is_leaf) { /* an earlier zygote has moved us all */
        *leaf = '\0';
    }
    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", parent);
    if (zg_slurp(path, have, sizeof(have)) <= 0 || strstr(have, "memory") == NULL ||
        strstr(have, "pids") == NULL) {
        return;
    }
    bool has_cpu = strstr(have, "cpu ") != NULL || strstr(have, "cpu\n") != NULL;
    const char *want = has_cpu ? "+memory +pids +cpu" : "+memory +pids";

    (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", parent);
    if ((!is_leaf && v2_leaf_make(parent) != 0) || zg_put_at(AT_FDCWD, path, want) != 0 ||
        base_open(g, ZG_CGROUP_MEMORY, parent) != 0 ||
        zg_put_at(g->base[ZG_CGROUP_MEMORY], "cgroup.subtree_control", want) != 0) {
        (void)snprintf(g->why, sizeof(g->why), "%.120s: %s (not delegated?)", parent,
                       strerror(errno));
        return;
    }
    g->version = 2;
    g->has[ZG_CGROUP_MEMORY] = g->has[ZG_CGROUP_PIDS] = true;
    g->has[ZG_CGROUP_CPU] = has_cpu;
}

void zg_cgroup_init(struct zg_cgroups *g, const struct zg_opts *o)
{
    memset(g, 0, sizeof(*g));
    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        g->base[k] = -1;
    }
    g->limit[ZG_CGROUP_MEMORY] = o->memory_bytes;
    g->limit[ZG_CGROUP_PIDS] = o->pids_max + 1; /* the zygote visits */
    g->limit[ZG_CGROUP_CPU] = 100000;
    (void)snprintf(g->why, sizeof(g->why), "no control group may be written");
    v2_init(g);
    if (g->version == 0) {
        v1_init(g);
    }
}

static int slot_make(struct zg_cgroups *g, unsigned kind, int base, unsigned slot)
{
    char path[96];
    char value[64];

    (void)snprintf(path, sizeof(path), "%u", slot);
    if (mkdirat(base, path, 0755) != 0 && errno != EEXIST) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%u/%s", slot,
                   g->version == 2 ? kinds[kind].v2_file : kinds[kind].v1_file);
    (void)snprintf(value, sizeof(value), "%llu%s", (unsigned long long)g->limit[kind],
                   g->version == 2 ? kinds[kind].v2_suffix : "");
    if (zg_put_at(base, path, value) != 0) {
        return -1;
    }
    if (g->version == 2) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%u/cgroup.procs", slot);
    return zg_put_at(base, path, "0");
}

int zg_cgroup_ready(struct zg_cgroups *g, unsigned slot, struct zg_err *e)
{
    char path[64];

    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        int base = g->version == 2 ? g->base[ZG_CGROUP_MEMORY] : g->base[k];

        if (g->has[k] && slot_make(g, k, base, slot) != 0) {
            return zg_fail(e, errno, "control group %s", kinds[k].name);
        }
    }
    if (g->version == 2) {
        (void)snprintf(path, sizeof(path), "%u/memory.swap.max", slot);
        (void)zg_put_at(g->base[ZG_CGROUP_MEMORY], path, "0"); /* absent without swap */
    }
    return 0;
}

int zg_cgroup_clone_fd(const struct zg_cgroups *g, unsigned slot)
{
    char path[32];

    if (g->version != 2) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%u", slot);
    return openat(g->base[ZG_CGROUP_MEMORY], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool was_oom(const struct zg_cgroups *g, unsigned slot)
{
    char path[64];
    char text[512];
    unsigned long kills = 0;

    (void)snprintf(path, sizeof(path), "%u/%s", slot,
                   g->version == 2 ? "memory.events" : "memory.oom_control");
    int fd = openat(g->base[ZG_CGROUP_MEMORY], path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    const char *at = strstr(text, "oom_kill ");

    return at != NULL && sscanf(at, "oom_kill %lu", &kills) == 1 && kills > 0;
}

int zg_cgroup_drop(struct zg_cgroups *g, unsigned slot, bool *ret_is_oom)
{
    char path[32];
    int rc = 0;

    (void)snprintf(path, sizeof(path), "%u", slot);
    *ret_is_oom = g->has[ZG_CGROUP_MEMORY] && was_oom(g, slot);
    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        if (g->base[k] >= 0 && unlinkat(g->base[k], path, AT_REMOVEDIR) != 0 && errno != ENOENT) {
            rc = -1;
        }
    }
    return rc;
}

void zg_cgroup_fini(struct zg_cgroups *g)
{
    /* the bases' own parents are reachable as ".." of the open descriptors */
    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        if (g->base[k] < 0) {
            continue;
        }
        const char *name = strrchr(g->path[k], '/') + 1;

        if (g->version == 1) {
            (void)zg_put_at(g->base[k], "../cgroup.procs", "0");
        }
        int up = openat(g->base[k], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (up >= 0) {
            (void)unlinkat(up, name, AT_REMOVEDIR);
            (void)close(up);
        }
        (void)close(g->base[k]);
        g->base[k] = -1;
    }
}
