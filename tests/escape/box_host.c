/* box_host: local sandboxes behind a line protocol, for tests that look at them from outside.
 *
 *   in   create N | destroy N | interrupt N | quit
 *        run N TIMEOUT_MS BYTES\n<code>
 *        limits MEMORY DISK PIDS            (a reload with other limits)
 *   out  ready
 *        created N ID | gone N | dead N BYTES\n<why>
 *        event N KIND BYTES\n<data>         KIND: O stdout, E stderr, D display, X exception, C
 * count end N HOW IS_TRUNCATED BYTES\n<text>       HOW: ok timeout interrupted lost failed N
 * BYTES\n<text>
 *
 * box_host CONFIG: the provider alone, no broker, no network. Ends when its input does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "sb_provider.h"

#define BOXES_MAX 20000U

struct slot {
    unsigned n;
    struct sb_box *box;
};

static struct {
    struct loop loop;
    struct cfg *cfg;
    struct sb_provider *p;
    struct slot slots[BOXES_MAX];
    uv_pipe_t in;
    struct bytes pending;
    bool is_stopping;
} h;

static void say(const char *head, struct str_view data)
{
    (void)printf("%s %zu\n", head, data.n);
    (void)fwrite(data.p, 1, data.n, stdout);
    (void)fflush(stdout);
}

static void say_n(const char *what, const struct slot *s, const char *detail)
{
    (void)printf("%s %u%s%s\n", what, s->n, detail[0] != '\0' ? " " : "", detail);
    (void)fflush(stdout);
}

static void on_event(void *ctx, enum sb_event_kind kind, struct str_view data)
{
    const struct slot *s = ctx;
    char head[64];

    (void)snprintf(head, sizeof(head), "event %u %c", s->n, "OEDXCF"[kind]);
    say(head, data);
}

static void on_end(void *ctx, enum sb_end end, bool is_truncated, const struct err *e)
{
    static const char *const names[] = {"ok", "timeout", "interrupted", "lost"};
    const struct slot *s = ctx;
    char head[64];

    (void)snprintf(head, sizeof(head), "end %u %s %d", s->n, names[end], is_truncated ? 1 : 0);
    say(head, sv_of(end == SB_END_OK ? "" : e->text));
}

static void on_dead(void *ctx, const char *why)
{
    const struct slot *s = ctx;
    char head[64];

    (void)snprintf(head, sizeof(head), "dead %u", s->n);
    say(head, sv_of(why));
}

static void on_created(void *ctx, int rc, struct sb_box *box, const struct err *e)
{
    struct slot *s = ctx;
    char head[64];

    if (rc != 0) {
        (void)snprintf(head, sizeof(head), "failed %u", s->n);
        say(head, sv_of(e->text));
        return;
    }
    s->box = box;
    sb_local_ops.set_on_dead(box, on_dead, s);
    say_n("created", s, sb_local_ops.id(box));
}

static void on_gone(void *ctx, int rc, const struct err *e)
{
    (void)e;
    say_n(rc == 0 ? "gone" : "stuck", ctx, "");
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    uv_close((uv_handle_t *)&h.in, NULL);
    loop_stop(&h.loop);
}

static void quit(void)
{
    if (!h.is_stopping) {
        h.is_stopping = true;
        (void)uv_read_stop((uv_stream_t *)&h.in);
        sb_local_ops.stop(h.p, on_stopped, NULL);
    }
}

static struct cfg *config_load(const char *path)
{
    struct cfg *cfg = NULL;
    struct err e = {0};

    if (cfg_load(&cfg, path, CFG_FOR_SANDBOXD, NULL, NULL, &e) != 0) {
        (void)fprintf(stderr, "box_host: %s\n", e.text);
        exit(2);
    }
    return cfg;
}

/* One command without its code; the number of bytes of code that follow, or 0. */
static void command(const char *line, const char *code, size_t code_n)
{
    static const struct sb_run_hooks hooks = {.on_event = on_event, .on_end = on_end};
    char verb[16] = "";
    char path[256] = "";
    unsigned n = 0;
    unsigned timeout_ms = 0;

    (void)sscanf(line, "%15s %u %u", verb, &n, &timeout_ms);
    struct slot *s = &h.slots[n % BOXES_MAX];

    s->n = n % BOXES_MAX;
    if (strcmp(verb, "create") == 0) {
        struct sb_create_opts o = {.cfg = h.cfg, .owner_tag = "escape"};

        sb_local_ops.create(h.p, &o, on_created, s);
    } else if (strcmp(verb, "run") == 0) {
        struct sb_run_hooks mine = hooks;
        struct buf *b = buf_copy(code, code_n);

        mine.ctx = s;
        sb_local_ops.run(s->box, b, timeout_ms, &mine);
        buf_unref(b);
    } else if (strcmp(verb, "interrupt") == 0) {
        sb_local_ops.interrupt(s->box);
    } else if (strcmp(verb, "destroy") == 0) {
        sb_local_ops.destroy(s->box, on_gone, s);
        s->box = NULL;
    } else if (sscanf(line, "reload %255s", path) == 1) {
        struct cfg *before = h.cfg;

        h.cfg = config_load(path);
        sb_local_ops.reload(h.p, h.cfg);
        cfg_unref(before);
        (void)printf("reloaded\n");
        (void)fflush(stdout);
    } else {
        quit();
    }
}

static void commands_take(void)
{
    const char *end = NULL;

    while (!h.is_stopping && h.pending.n > 0 &&
           (end = memchr(h.pending.p, '\n', h.pending.n)) != NULL) {
        char line[512] = "";
        size_t head = (size_t)(end - h.pending.p) + 1;
        size_t code_n = 0;

        memcpy(line, h.pending.p, head < sizeof(line) ? head - 1 : sizeof(line) - 1);
        (void)sscanf(line, "run %*u %*u %zu", &code_n);
        if (h.pending.n < head + code_n) {
            return;
        }
        command(line, h.pending.p + head, code_n);
        bytes_drop(&h.pending, head + code_n);
    }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *b)
{
    static char space[65536];

    (void)handle;
    (void)size;
    *b = uv_buf_init(space, sizeof(space));
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    (void)stream;
    if (n < 0) {
        quit();
        return;
    }
    REQUIRE(bytes_put(&h.pending, b->base, (size_t)n) == 0);
    commands_take();
}

int main(int argc, char **argv)
{
    static const struct loop_hooks none;
    struct err e = {0};

    if (argc != 2) {
        (void)fprintf(stderr, "usage: box_host CONFIG\n");
        return 2;
    }
    h.cfg = config_load(argv[1]);
    bytes_init(&h.pending, 256U << 20);
    if (id_init() != 0 || loop_init(&h.loop, &none, 1000) != 0 ||
        sb_local_ops.start(&h.p, &h.loop, h.cfg, &e) != 0) {
        (void)fprintf(stderr, "box_host: %s\n", e.text);
        return 1;
    }
    if (uv_pipe_init(&h.loop.uv, &h.in, 0) != 0 || uv_pipe_open(&h.in, 0) != 0 ||
        uv_read_start((uv_stream_t *)&h.in, on_alloc, on_input) != 0) {
        (void)fprintf(stderr, "box_host: standard input must be a pipe\n");
        return 2;
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    loop_run(&h.loop);
    loop_fini(&h.loop);
    bytes_fini(&h.pending);
    cfg_unref(h.cfg);
    return 0;
}
