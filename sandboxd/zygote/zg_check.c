#include "zg_check.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sb_zygote_proto.h"
#include "zg_probe.h"

static void line_put(const char *name, bool is_there, const char *detail)
{
    (void)printf("%s: %s %s\n", name, is_there ? "yes" : "no", detail);
}

/* The steps before the failing one took effect; the failing one is named in the text. */
static int steps_print(const char *failure)
{
    bool has_failed = false;
    const char *name = NULL;

    for (unsigned i = 0; i < zg_jail_step_count(); i++) {
        const char *doc = zg_jail_step_doc(i, &name);
        char mark[64];

        (void)snprintf(mark, sizeof(mark), "step %s", name);
        const char *at = failure != NULL ? strstr(failure, mark) : NULL;
        char end = at != NULL ? at[strlen(mark)] : '\0';

        if (has_failed) {
            line_put(name, false, "not reached");
        } else if (at != NULL && (end == ',' || end == ':' || end == '\0')) {
            line_put(name, false, failure);
            has_failed = true;
        } else {
            line_put(name, true, doc);
        }
    }
    return has_failed ? 1 : 0;
}

static void groups_print(const struct zg_cgroups *g)
{
    static const char *const names[] = {"memory-limit", "process-limit", "cpu-limit"};
    static const char *const without[] = {"rlimits and a watch", "rlimits only", "none"};
    char detail[512];

    for (unsigned k = 0; k < ZG_CGROUP_KINDS; k++) {
        if (g->has[k]) {
            (void)snprintf(detail, sizeof(detail), "control group version %d", g->version);
        } else {
            (void)snprintf(detail, sizeof(detail), "%s (%s)", without[k], g->why);
        }
        line_put(names[k], g->has[k], detail);
    }
}

/* Reads one frame; the payload is cut to cap-1 and NUL-terminated. Returns its type or -1. */
static int frame_read(int fd, char *dst, size_t cap)
{
    uint8_t head[ZYP_FRAME_HEAD];
    struct zyp_frame f;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, 20000) != 1 || zg_read_all(fd, head, sizeof(head)) != 1 ||
        zyp_frame_decode(&f, head, sizeof(head), true) != 0 || f.len >= cap ||
        (f.len > 0 && zg_read_all(fd, dst, f.len) != 1)) {
        return -1;
    }
    dst[f.len] = '\0';
    return (int)f.type;
}

/* Sends the probe, prints its lines. Number of "no" lines, 1 when it did not end well. */
static int probe_run(int fd)
{
    static char text[65536];
    uint8_t head[ZYP_FRAME_HEAD];
    uint8_t run[ZYP_RUN_HEAD];
    size_t n = strlen((const char *)zg_probe_source);
    int type = 0;
    int bad = 0;

    zyp_frame_encode(head, ZYP_FRAME_RUN, (uint32_t)(sizeof(run) + n));
    zyp_run_encode(run, &(struct zyp_run){1, 10, 1U << 20});
    if (zg_write_all(fd, head, sizeof(head)) != 0 || zg_write_all(fd, run, sizeof(run)) != 0 ||
        zg_write_all(fd, zg_probe_source, n) != 0) {
        line_put("run", false, "the sandbox takes no code");
        return 1;
    }
    while ((type = frame_read(fd, text, sizeof(text))) > 0 && type != ZYP_FRAME_END) {
        if (type == ZYP_FRAME_STDOUT || type == ZYP_FRAME_STDERR) {
            (void)fputs(text, stdout);
            bad += strstr(text, ": no ") != NULL ? 1 : 0;
        } else if (type == ZYP_FRAME_EXCEPTION) {
            line_put("run", false, text);
            bad++;
        }
    }
    if (type != ZYP_FRAME_END) {
        line_put("run", false, "the sandbox ended during the probe");
        bad++;
    }
    return bad;
}

int zg_check_run(struct zg_zoo *z)
{
    struct zg_err e;
    struct zg_spawned s;
    struct zg_exited x;
    static char text[ZYP_TEXT_MAX + 1];
    int bad = 0;

    if (zg_spawn(z, 1, &s, &e) != 0) {
        line_put("namespaces", false, e.text);
        return 1;
    }
    int type = frame_read(s.stream, text, sizeof(text));

    bad = steps_print(type == ZYP_FRAME_READY    ? NULL
                      : type == ZYP_FRAME_FAILED ? text
                                                 : "no answer");
    if (type == ZYP_FRAME_READY) {
        bad += probe_run(s.stream);
    } else if (type != ZYP_FRAME_FAILED) {
        line_put("start", false, "the sandbox ended before it was ready");
        bad++;
    }
    line_put("distinct-uids", z->uids.count > 1,
             z->uids.count > 1
                 ? "each sandbox has a host uid of its own"
                 : "all sandboxes run as the caller's uid (start as root to change that)");
    (void)snprintf(text, sizeof(text), "version %d", z->jail.landlock_abi);
    line_put("landlock-kernel", z->jail.landlock_abi > 0,
             z->jail.landlock_abi > 0 ? text : "the kernel has none; the other walls stand");
    groups_print(&z->groups);
    (void)close(s.stream);
    (void)kill(s.pid, SIGKILL);
    struct pollfd end = {.fd = s.pidfd, .events = POLLIN};

    (void)poll(&end, 1, 5000);
    for (int i = 0; i < 100 && !zg_collect(z, &x); i++) {
        (void)poll(NULL, 0, 10);
    }
    return bad == 0 ? 0 : 1;
}
