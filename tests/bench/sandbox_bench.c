/* sandbox_bench: create -> first output of local sandboxes (warm, parked, cold), and
 * create+run+delete per second. sandbox_bench [rounds]            not a test: numbers for people */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "sb_provider.h"

static struct {
    struct loop loop;
    struct cfg *cfg;
    struct sb_provider *p;
    struct sb_box *box;
    uint64_t created_us;
    uint64_t first_us;
    struct buf *code;
    bool is_ended;
    bool is_destroyed;
    bool is_passed;
} b;

static void wait_for(const bool *flag)
{
    while (!*flag) {
        (void)uv_run(&b.loop.uv, UV_RUN_ONCE);
    }
}

static void on_pass(uv_timer_t *t)
{
    (void)t;
    b.is_passed = true;
}

static void pass(unsigned ms)
{
    static uv_timer_t t;
    static bool is_init;

    if (!is_init) {
        (void)uv_timer_init(&b.loop.uv, &t);
        uv_unref((uv_handle_t *)&t);
        is_init = true;
    }
    b.is_passed = false;
    (void)uv_timer_start(&t, on_pass, ms, 0);
    wait_for(&b.is_passed);
}

static void on_event(void *ctx, enum sb_event_kind kind, struct str_view data)
{
    (void)ctx;
    (void)data;
    if (kind == SB_EVENT_STDOUT && b.first_us == 0) {
        b.first_us = clock_us();
    }
}

static void on_end(void *ctx, enum sb_end end, bool is_truncated, const struct err *e)
{
    (void)ctx;
    (void)is_truncated;
    if (end != SB_END_OK) {
        (void)fprintf(stderr, "run: %s\n", e->text);
        exit(1);
    }
    b.is_ended = true;
}

static void on_created(void *ctx, int rc, struct sb_box *box, const struct err *e)
{
    static const struct sb_run_hooks hooks = {on_event, on_end, NULL};

    (void)ctx;
    if (rc != 0) {
        (void)fprintf(stderr, "create: %s\n", e->text);
        exit(1);
    }
    b.created_us = clock_us();
    b.box = box;
    /* from inside the callback, as sandboxd does it: the loop would sleep first otherwise */
    sb_local_ops.run(box, b.code, 30000, &hooks);
}

static void on_destroyed(void *ctx, int rc, const struct err *e)
{
    (void)ctx;
    (void)rc;
    (void)e;
    b.is_destroyed = true;
}

struct sample {
    uint64_t created_us;
    uint64_t first_us;
    uint64_t end_us;
};

static struct sample cycle(struct buf *code)
{
    struct sb_create_opts o = {.cfg = b.cfg, .owner_tag = "bench"};
    uint64_t t0 = clock_us();

    b.code = code;
    b.is_ended = b.is_destroyed = false;
    b.first_us = 0;
    sb_local_ops.create(b.p, &o, on_created, NULL);
    wait_for(&b.is_ended);
    struct sample s = {b.created_us - t0, b.first_us - t0, clock_us() - t0};

    sb_local_ops.destroy(b.box, on_destroyed, NULL);
    wait_for(&b.is_destroyed);
    return s;
}

static int compare(const void *x, const void *y)
{
    uint64_t p = *(const uint64_t *)x;
    uint64_t q = *(const uint64_t *)y;

    return p < q ? -1 : p > q ? 1 : 0;
}

static void line(const char *what, uint64_t *v, unsigned n)
{
    qsort(v, n, sizeof(*v), compare);
    (void)printf("%-34s p50 %6llu us   p90 %6llu us   min %6llu us\n", what,
                 (unsigned long long)v[n / 2], (unsigned long long)v[n * 9 / 10],
                 (unsigned long long)v[0]);
}

static void start(unsigned parked, unsigned warm)
{
    char path[] = "/tmp/cfd-bench-XXXXXX";
    static const struct loop_hooks none;
    int fd = mkstemp(path);
    struct err e = {0};

    (void)dprintf(fd, "cofferdam:\n  local: {pool_parked: %u, pool_warm: %u}\n", parked, warm);
    (void)close(fd);
    if (cfg_load(&b.cfg, path, CFG_FOR_SANDBOXD, NULL, NULL, &e) != 0 || id_init() != 0 ||
        loop_init(&b.loop, &none, 1000) != 0 || sb_local_ops.start(&b.p, &b.loop, b.cfg, &e) != 0) {
        (void)fprintf(stderr, "start: %s\n", e.text);
        exit(1);
    }
    (void)unlink(path);
    pass(300);
}

static void on_stopped(void *ctx)
{
    *(bool *)ctx = true;
}

static void stop(void)
{
    bool is_stopped = false;

    sb_local_ops.stop(b.p, on_stopped, &is_stopped);
    wait_for(&is_stopped);
}

static double cpu_s(void)
{
    FILE *f = fopen("/proc/stat", "r");
    unsigned long long user = 0;
    unsigned long long nice_ = 0;
    unsigned long long sys = 0;

    if (f != NULL) {
        if (fscanf(f, "cpu %llu %llu %llu", &user, &nice_, &sys) != 3) {
            user = 0;
        }
        (void)fclose(f);
    }
    return (double)(user + nice_ + sys) / (double)sysconf(_SC_CLK_TCK);
}

static void measure(const char *what, unsigned parked, unsigned warm, unsigned rounds,
                    unsigned gap_ms)
{
    uint64_t *first = calloc(rounds, sizeof(*first));
    uint64_t *created = calloc(rounds, sizeof(*created));
    struct buf *code = buf_copy("print(1)", 8);
    char name[64];

    if (first == NULL || created == NULL || code == NULL) {
        exit(1);
    }
    start(parked, warm);
    for (unsigned i = 0; i < rounds; i++) {
        struct sample s = cycle(code);

        created[i] = s.created_us;
        first[i] = s.first_us;
        if (gap_ms > 0) {
            pass(gap_ms);
        }
    }
    (void)snprintf(name, sizeof(name), "%s: create", what);
    line(name, created, rounds);
    (void)snprintf(name, sizeof(name), "%s: create -> first output", what);
    line(name, first, rounds);
    stop();
    buf_unref(code);
    free(first);
    free(created);
}

static void throughput(unsigned rounds)
{
    struct buf *code = buf_copy("print(1)", 8);

    start(4, 0);
    double cpu = cpu_s();
    uint64_t t0 = clock_us();

    for (unsigned i = 0; i < rounds; i++) {
        (void)cycle(code);
    }
    double s = (double)(clock_us() - t0) / 1e6;

    cpu = cpu_s() - cpu;
    (void)printf("create+run+delete, one at a time     %.0f per second; %.0f per core second "
                 "(machine-wide CPU)\n",
                 rounds / s, rounds / cpu);
    stop();
    buf_unref(code);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;

    rounds = rounds > 0 ? rounds : 1;
    measure("warm", 2, 4, rounds, 20);
    measure("parked", 4, 0, rounds, 20);
    measure("cold", 0, 0, rounds, 20);
    measure("cold, back to back", 0, 0, rounds, 0);
    throughput(rounds * 3);
    return 0;
}
