#include "zg_watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zg_util.h"

struct usage {
    unsigned long long anon_kib;
    unsigned long long shared_kib;
    unsigned long long text_kib; /* tells a fork of the zygote from another program */
};

static struct usage base;
static pid_t found[ZG_WATCH_PROCESSES];
static unsigned found_count;

static unsigned long long field(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static int usage_read(struct usage *ret, const char *path)
{
    static char text[8192];

    if (zg_slurp(path, text, sizeof(text)) <= 0) {
        return -1;
    }
    *ret = (struct usage){field(text, "\nRssAnon:"), field(text, "\nRssShmem:"),
                          field(text, "\nVmExe:")};
    return 0;
}

void zg_watch_init(void)
{
    (void)usage_read(&base, "/proc/self/status");
}

/* Adds the children of every thread of `pid`. */
static void children_add(pid_t pid)
{
    static char text[32768];
    char path[300];
    struct dirent *ent;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *d = opendir(path);

    while (d != NULL && (ent = readdir(d)) != NULL) {
        char *save = NULL;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, ent->d_name);
        if (ent->d_name[0] == '.' || zg_slurp(path, text, sizeof(text)) <= 0) {
            continue;
        }
        for (char *p = strtok_r(text, " ", &save); p != NULL && found_count < ZG_WATCH_PROCESSES;
             p = strtok_r(NULL, " ", &save)) {
            found[found_count++] = (pid_t)strtol(p, NULL, 10);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

uint64_t zg_watch_bytes(pid_t pid)
{
    uint64_t sum = 0;
    struct usage u;
    char path[64];

    found[0] = pid;
    found_count = 1;
    for (unsigned i = 0; i < found_count; i++) {
        (void)snprintf(path, sizeof(path), "/proc/%d/status", found[i]);
        if (usage_read(&u, path) != 0) {
            continue;
        }
        uint64_t own = u.text_kib == base.text_kib ? base.anon_kib : 0;

        sum += (u.anon_kib > own ? u.anon_kib - own : 0) + u.shared_kib;
        children_add(found[i]);
    }
    return sum * 1024;
}
