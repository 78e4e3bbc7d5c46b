/* The provider contract on real local sandboxes, and what only they promise. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "provider_contract.h"

static const struct provider_contract contract = {
    .ops = &sb_local_ops,
    .config = "cofferdam:\n"
              "  local: {memory: 256m, pids: 24, disk: 33554432, output_max_bytes: 200000,\n"
              "          pool_parked: 2, pool_warm: 1}\n",
};

static struct pc_world world;

static const char *text_of(const struct bytes *b)
{
    return b->n > 0 ? b->p : "";
}

static void expect(struct sb_box *b, const char *code, const char *out)
{
    struct pc_run r;

    pc_run(&world, &r, b, code);
    if (r.end != SB_END_OK || strcmp(text_of(&r.out), out) != 0) {
        fail_msg("end %d (%s), out '%s', exception %s", r.end, r.e.text, text_of(&r.out),
                 text_of(&r.exception));
    }
    pc_run_fini(&r);
}

/* The code ends the sandbox; `why` is part of the text people see. */
static void expect_lost(const char *code, const char *why)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    pc_run(&world, &r, b, code);
    assert_int_equal(r.end, SB_END_LOST);
    assert_int_equal(r.e.code, ERR_SANDBOX_LOST);
    if (strstr(r.e.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", r.e.text, why);
    }
    assert_string_equal(text_of(&r.out), "before\n"); /* what was printed is not lost */
    pc_run_fini(&r);
    assert_false(world.ops->is_alive(b));
    pc_run(&world, &r, b, "print(1)"); /* a run of a dead box ends, later */
    assert_int_equal(r.end, SB_END_LOST);
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_exits(void **state)
{
    (void)state;
    expect_lost("print('before')\nimport os\nos._exit(3)", "exited (status 3)");
    expect_lost("print('before', flush=True)\nimport ctypes\nctypes.string_at(0)",
                "crashed (signal 11");
}

static void test_sys_exit(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b, "import sys\nsys.exit(4)");
    assert_int_equal(r.end, SB_END_OK);
    assert_non_null(strstr(text_of(&r.exception), "SystemExit"));
    pc_run_fini(&r);
    expect(b, "print('alive')", "alive\n");
    pc_destroy(&world, b);
}

/* More than the limit in one piece: refused, the session survives. */
static void test_memory_refused(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b, "x = bytearray(3 << 30)");
    assert_int_equal(r.end, SB_END_OK);
    assert_non_null(strstr(text_of(&r.exception), "MemoryError"));
    pc_run_fini(&r);
    expect(b, "print('alive')", "alive\n");
    pc_destroy(&world, b);
}

/* More than the limit bit by bit: the kernel ends it where a control group limits memory, else
 * Python says so. */
static void test_memory_used_up(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b,
           "import os\nfor _ in range(3):\n  if os.fork() == 0: break\n"
           "x = [bytearray(1 << 20) for _ in range(180)]\nimport time\ntime.sleep(1)");
    assert_true(r.end == SB_END_OK || strstr(r.e.text, "out of memory: more than 256 MiB") != NULL);
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

/* IPython's own ways: magics, shell lines, top-level await, and plain cells on the short path
 * beside them. */
static void test_cells(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    expect(b, "import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  print('in')\nawait f()",
           "in\n");
    pc_run(&world, &r, b, "try:\n  get_ipython()\nexcept NameError: print('plain')");
    bool has_ipython = r.out.n == 0;

    pc_run_fini(&r);
    if (has_ipython) {
        expect(b, "!echo shell", "shell\n");
        expect(b, "files = !echo a b\nprint(files)", "['a b']\n");
        expect(b, "%%capture out\nprint('hidden')", "");
        expect(b, "print(out.stdout)", "hidden\n\n");
        expect(b, "x = 5;\n_i", "");
        /* a formatter of the user's own counts for values that have a short way too */
        expect(b,
               "fs = get_ipython().display_formatter.formatters\nfs['text/html'].for_type(int, "
               "lambda v: '<b>%d</b>' % v)\nNone",
               "");
        pc_run(&world, &r, b, "7");
        assert_non_null(strstr(text_of(&r.display), "<b>7</b>"));
        pc_run_fini(&r);
        expect(b,
               "fs['text/html'].pop(int); fs['text/plain'].for_type(str, lambda v, p, c: "
               "p.text('MINE'))\nNone",
               "");
        pc_run(&world, &r, b, "'text'");
        assert_non_null(strstr(text_of(&r.display), "MINE"));
        pc_run_fini(&r);
    }
    pc_run(&world, &r, b, "x = 7\nx;");
    assert_int_equal(r.displays, 0); /* a semicolon keeps the value back */
    pc_run_fini(&r);
    pc_run(&world, &r, b, "def g():\n    return 1 // 0\n\ng()");
    assert_non_null(
        strstr(text_of(&r.exception), "return 1 // 0")); /* the traceback shows source */
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_processes(void **state)
{
    struct sb_box *b = pc_create(&world);

    (void)state;
    expect(b,
           "import os, signal\npids = []\n"
           "try:\n  while len(pids) < 200:\n    p = os.fork()\n    if p == 0: signal.pause()\n"
           "    pids.append(p)\nexcept OSError as e: print('refused')\nprint(len(pids) < 26)",
           "refused\nTrue\n");
    pc_destroy(&world, b); /* and all of them end with it */
}

static void test_low_level_output(void **state)
{
    struct sb_box *b = pc_create(&world);

    (void)state;
    expect(b,
           "import os, subprocess\nprint('a')\nos.write(1, b'b\\n')\nprint('c')\n"
           "subprocess.run(['sh', '-c', 'echo d; echo e'])\nprint('f')\n"
           "os.system('echo g')\nimport "
           "ctypes\nctypes.CDLL(None).puts(b'h')\nctypes.CDLL(None).fflush(None)\n"
           "print('i')",
           "a\nb\nc\nd\ne\nf\ng\nh\ni\n");
    expect(b,
           "pid = os.fork()\nif pid == 0:\n  print('child', flush=True); os._exit(0)\n"
           "os.waitpid(pid, 0)\nprint('parent')",
           "child\nparent\n");
    pc_destroy(&world, b);
}

static void test_files_and_input(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    expect(b,
           "import os\nprint(os.getcwd(), os.environ['HOME'], os.getuid())\n"
           "open('a.txt', 'w').write('x')\nprint(os.listdir('.'), os.listdir('/tmp'))",
           "/mnt/data /mnt/data 1000\n['a.txt'] []\n");
    pc_run(&world, &r, b, "input('name? ')");
    assert_non_null(strstr(text_of(&r.exception), "input is not available"));
    pc_run_fini(&r);
    pc_run(&world, &r, b, "open('big', 'wb').write(b'x' * (64 << 20))");
    assert_non_null(strstr(text_of(&r.exception), "OSError"));
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_figures(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    pc_run(&world, &r, b,
           "try:\n  import matplotlib.pyplot as plt\nexcept ImportError: print('missing')\n"
           "else:\n  plt.plot([1, 2]); plt.show(); plt.figure(); plt.plot([3]); print('shown')");
    if (strcmp(text_of(&r.out), "missing\n") != 0) {
        assert_int_equal(r.displays, 2);
        assert_non_null(strstr(text_of(&r.display), "\"image/png\":\"iVBOR"));
        const char *first = strstr(text_of(&r.log), "D:{");

        assert_true(first != NULL && first < strstr(text_of(&r.log), "O:shown"));
    }
    pc_run_fini(&r);
    pc_run(&world, &r, b, "1");
    assert_int_equal(r.displays, 1); /* closed after the cell */
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

static void test_fresh_randomness(void **state)
{
    struct pc_run r[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct sb_box *b = pc_create(&world);

        pc_run(&world, &r[i], b,
               "import random\nprint(random.random())\n"
               "try:\n  import numpy\n  print(numpy.random.rand())\nexcept ImportError: pass");
        pc_destroy(&world, b);
    }
    assert_string_not_equal(text_of(&r[0].out), text_of(&r[1].out));
    pc_run_fini(&r[0]);
    pc_run_fini(&r[1]);
}

/* ---- files -------------------------------------------------------------------------------- */

struct answer {
    bool is_done;
    int rc;
    struct buf *data; /* own reference */
    char text[512];
};

static void on_file(void *ctx, int rc, struct buf *data, const struct err *e)
{
    struct answer *a = ctx;

    assert_false(a->is_done);
    a->is_done = true;
    a->rc = rc;
    a->data = data != NULL ? buf_ref(data) : NULL;
    (void)snprintf(a->text, sizeof(a->text), "%s", rc != 0 ? e->text : "");
}

/* The error code; `want` = what the data must hold, NULL = nothing is said about it. */
static int file_n(struct sb_box *b, enum sb_file_op op, struct str_view path, struct str_view data,
                  const char *want)
{
    struct answer a = {0};

    world.ops->file(b, op, path, data, on_file, &a);
    assert_false(a.is_done); /* never from inside the call */
    pc_wait(&world, &a.is_done, "a file operation");
    if (want != NULL) {
        if (a.rc != 0 || a.data == NULL ||
            memmem(a.data->p, a.data->n, want, strlen(want)) == NULL) {
            fail_msg("%d '%s': not '%s' but '%.*s'", a.rc, a.text, want,
                     a.data != NULL ? (int)a.data->n : 0, a.data != NULL ? a.data->p : "");
        }
    }
    buf_unref(a.data);
    return a.rc;
}

static int file(struct sb_box *b, enum sb_file_op op, const char *path, const char *data,
                const char *want)
{
    return file_n(b, op, sv_of(path), sv_of(data), want);
}

static void test_file_operations(void **state)
{
    struct sb_box *b = pc_create(&world);
    char *large = calloc(1, (32U << 20) + 1);

    (void)state;
    assert_non_null(large);
    assert_int_equal(file(b, SB_FILE_LIST, "", "", "[]"), 0); /* before any run */
    assert_int_equal(file(b, SB_FILE_PUT, "a/b/c.txt", "hello", NULL), 0);
    assert_int_equal(file(b, SB_FILE_GET, "/mnt/data/a/b/c.txt", "", "hello"), 0);
    expect(b, "print(open('a/b/c.txt').read())\nopen('mine', 'w').write('from code')", "hello\n");
    assert_int_equal(file(b, SB_FILE_GET, "mine", "", "from code"), 0);
    assert_int_equal(file(b, SB_FILE_PUT, "mine", "", NULL), 0);
    assert_int_equal(file(b, SB_FILE_STAT, "mine", "", "\"type\":\"file\",\"size\":0,"), 0);
    assert_int_equal(
        file(b, SB_FILE_LIST, "/mnt/data", "", "{\"name\":\"a\",\"type\":\"directory\""), 0);
    assert_int_equal(file(b, SB_FILE_DELETE, "a", "", NULL), ERR_INVALID); /* not empty */
    assert_int_equal(file(b, SB_FILE_DELETE, "a/b/c.txt", "", NULL), 0);
    assert_int_equal(file(b, SB_FILE_DELETE, "a/b", "", NULL), 0);
    assert_int_equal(file(b, SB_FILE_GET, "a/b/c.txt", "", NULL), ERR_NOT_FOUND);
    assert_int_equal(file(b, SB_FILE_GET, "a", "", NULL), ERR_INVALID);
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_of("big"), sv_from(large, (32U << 20) + 1), NULL),
                     ERR_BODY_TOO_LARGE);
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_of("big"), sv_from(large, 16U << 20), NULL), 0);
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_of("more"), sv_from(large, 24U << 20), NULL),
                     ERR_BODY_TOO_LARGE); /* the disk is full */
    assert_int_equal(file(b, SB_FILE_STAT, "more", "", NULL), ERR_NOT_FOUND);
    expect(b, "import os\nprint(sorted(os.listdir()))", "['a', 'big', 'mine']\n"); /* no rest */
    free(large);
    pc_destroy(&world, b);
}

static void test_file_names(void **state)
{
    static const char *const bad[] = {"",
                                      "..",
                                      "a/../../etc/passwd",
                                      "/etc/passwd",
                                      "/mnt",
                                      "/mnt/datax",
                                      "/mnt/data/..",
                                      "x/..",
                                      ".",
                                      "/mnt/data",
                                      "/"};
    struct sb_box *b = pc_create(&world);
    char name[1200];

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (int op = SB_FILE_PUT; op <= SB_FILE_DELETE; op++) {
            if (op != SB_FILE_LIST) {
                assert_int_equal(file(b, (enum sb_file_op)op, bad[i], "x", NULL), ERR_INVALID);
            }
        }
    }
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_from("a\0b", 3), sv_of("x"), NULL), ERR_INVALID);
    memset(name, 'n', sizeof(name));
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_from(name, 255), sv_of("x"), NULL), 0);
    assert_int_equal(file_n(b, SB_FILE_GET, sv_from(name, 255), sv_of(""), "x"), 0);
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_from(name, 256), sv_of("x"), NULL), ERR_INVALID);
    assert_int_equal(file_n(b, SB_FILE_PUT, sv_from(name, 1100), sv_of("x"), NULL), ERR_INVALID);
    static const char *const odd[] = {"new\nline", "\xff\xfe", "-rf",     " ",
                                      "...",       "\"'`$(x)", "\x1b[31m"};

    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(file(b, SB_FILE_PUT, odd[i], odd[i], NULL), 0);
        assert_int_equal(file(b, SB_FILE_GET, odd[i], "", odd[i]), 0);
    }
    assert_int_equal(file(b, SB_FILE_LIST, "", "", "\"new\\nline\""), 0);
    pc_destroy(&world, b);
}

static void test_file_tricks(void **state)
{
    struct sb_box *b = pc_create(&world);

    (void)state;
    expect(
        b,
        "import os\nos.symlink('/etc/passwd', 'l'); os.symlink('/', 'd'); os.symlink('l2', 'l2')\n"
        "os.mkfifo('p'); os.symlink('real', 'good'); open('real', 'w').write('R')\n"
        "os.symlink('/proc/self/fd/3', 'f')",
        "");
    assert_int_equal(file(b, SB_FILE_GET, "l", "", NULL), ERR_INVALID);
    assert_int_equal(file(b, SB_FILE_GET, "d/etc/passwd", "", NULL), ERR_INVALID);
    assert_int_equal(file(b, SB_FILE_PUT, "d/tmp/x", "x", NULL), ERR_INVALID);
    assert_int_equal(file(b, SB_FILE_GET, "l2", "", NULL), ERR_INVALID);
    assert_int_equal(file(b, SB_FILE_GET, "p", "", NULL), ERR_INVALID); /* and does not wait */
    assert_int_equal(file(b, SB_FILE_GET, "f", "", NULL), ERR_INVALID);
    assert_int_equal(file(b, SB_FILE_GET, "good", "", "R"), 0);
    assert_int_equal(file(b, SB_FILE_PUT, "l", "mine", NULL), 0); /* replaced, not followed */
    expect(b, "print(os.path.islink('l'), open('l').read(), len(open('/etc/passwd').read()) > 9)",
           "False mine True\n");
    assert_int_equal(file(b, SB_FILE_DELETE, "d", "", NULL), 0);
    pc_destroy(&world, b);
}

static void test_files_changed(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct pc_run r;

    (void)state;
    assert_int_equal(file(b, SB_FILE_PUT, "given", "1", NULL), 0);
    pc_run(&world, &r, b, "import os\nos.mkdir('d'); open('d/x.csv', 'w').write('abc')");
    assert_non_null(
        strstr(text_of(&r.log), "F:[{\"name\":\"d/x.csv\",\"type\":\"file\",\"size\":3,"));
    assert_null(strstr(text_of(&r.log), "given")); /* no work of the run */
    pc_run_fini(&r);
    pc_run(&world, &r, b, "1 + 1");
    assert_null(strstr(text_of(&r.log), "F:"));
    pc_run_fini(&r);
    pc_run(&world, &r, b, "open('given', 'a').write('2'); os.remove('d/x.csv')");
    assert_non_null(
        strstr(text_of(&r.log), "F:[{\"name\":\"given\",\"type\":\"file\",\"size\":2,"));
    pc_run_fini(&r);
    pc_run(&world, &r, b,
           "for i in range(5000): open('f%d' % i, 'w').close()\nos.symlink('/', 'r')");
    assert_int_equal(r.end, SB_END_OK); /* bounded */
    pc_run_fini(&r);
    pc_destroy(&world, b);
}

/* Code that stands in the way of an answer, or gives one of its own. */
static void test_file_hostile(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct answer a = {0};

    (void)state;
    expect(b,
           "import os, threading, time\n"
           "def go():\n  time.sleep(.3)\n  os.write(3, b'\\x0b\\1\\0\\0\\xff\\xff\\xff\\x7f')\n"
           "threading.Thread(target=go).start()\nos.mkfifo('p')",
           "");
    pc_pass(&world, 600); /* an answer that nobody asked for */
    assert_false(world.ops->is_alive(b));
    assert_int_equal(file(b, SB_FILE_GET, "x", "", NULL), ERR_SANDBOX_LOST);
    pc_destroy(&world, b);
    b = pc_create(&world);
    world.ops->file(b, SB_FILE_GET, sv_of("x"), sv_of(""), on_file, &a);
    pc_destroy(&world, b); /* at any moment: the operation ends first */
    assert_true(a.is_done && (a.rc == ERR_SANDBOX_LOST || a.rc == ERR_NOT_FOUND));
    buf_unref(a.data);
}

static const char *dead_why;

static void on_dead(void *ctx, const char *why)
{
    dead_why = why;
    *(bool *)ctx = true;
}

static pid_t zygote_pid(void)
{
    DIR *d = opendir("/proc");
    struct dirent *ent;
    pid_t found = 0;

    while (d != NULL && (ent = readdir(d)) != NULL) {
        char path[300];
        char line[64] = "";
        int ppid = 0;
        long pid = strtol(ent->d_name, NULL, 10);

        (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
        FILE *f = pid > 0 ? fopen(path, "r") : NULL;

        if (f != NULL) {
            if (fscanf(f, "%*d (%63[^)]) %*c %d", line, &ppid) == 2 && ppid == getpid() &&
                strcmp(line, "cofferdam-zygot") == 0) {
                found = (pid_t)pid;
            }
            (void)fclose(f);
        }
    }
    (void)closedir(d);
    return found;
}

/* Children of the zygote. */
static unsigned sandbox_count(void)
{
    char path[64];
    char text[8192];
    unsigned n = 0;
    pid_t z = zygote_pid();

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", z, z);
    FILE *f = fopen(path, "r");
    size_t got = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;

    if (f != NULL) {
        (void)fclose(f);
    }
    for (size_t i = 0; i < got; i++) {
        n += text[i] == ' ' ? 1 : 0;
    }
    return n;
}

static void test_zygote_dies(void **state)
{
    struct sb_box *b = pc_create(&world);
    struct sb_box *c = pc_create(&world);
    struct pc_run r = {.on_first = NULL};
    bool is_dead = false;

    (void)state;
    world.ops->set_on_dead(b, on_dead, &is_dead);
    pc_run_start(&world, &r, c, "import time\ntime.sleep(50)", 30000);
    pc_pass(&world, 50);
    assert_int_equal(kill(zygote_pid(), SIGKILL), 0);
    pc_wait(&world, &is_dead, "the death of an idle sandbox");
    assert_true(strlen(dead_why) > 0);
    pc_run_wait(&r);
    assert_int_equal(r.end, SB_END_LOST);
    pc_run_fini(&r);
    pc_destroy(&world, b);
    pc_destroy(&world, c);
    b = pc_create(&world); /* from the next zygote */
    expect(b, "print('again')", "again\n");
    pc_destroy(&world, b);
}

static void test_dies_between_runs(void **state)
{
    struct sb_box *b = pc_create(&world);
    bool is_dead = false;

    (void)state;
    world.ops->set_on_dead(b, on_dead, &is_dead);
    expect(b, "import os, threading\nthreading.Timer(0.1, lambda: os._exit(0)).start()", "");
    pc_wait(&world, &is_dead, "the death between runs");
    assert_false(world.ops->is_alive(b));
    pc_destroy(&world, b);
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct sb_box *b = pc_create(&world);

        expect(b, "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nprint('ok')", "ok\n");
        pc_destroy(&world, b);
    }
    pc_pass(&world, 300);
    assert_true(sandbox_count() <= 3); /* the pools */
}

static void test_foreign_frames(void **state)
{
    (void)state;
    expect_lost(
        "print('before')\nimport os\nos.write(3, b'\\xff' * 64)\nimport time\ntime.sleep(5)",
        "broke the protocol");
}

static int setup(void **state)
{
    (void)state;
    return pc_setup(&world, &contract);
}

static int teardown(void **state)
{
    (void)state;
    pc_teardown(&world);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exits),
        cmocka_unit_test(test_sys_exit),
        cmocka_unit_test(test_memory_refused),
        cmocka_unit_test(test_memory_used_up),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_low_level_output),
        cmocka_unit_test(test_files_and_input),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_fresh_randomness),
        cmocka_unit_test(test_file_operations),
        cmocka_unit_test(test_file_names),
        cmocka_unit_test(test_file_tricks),
        cmocka_unit_test(test_files_changed),
        cmocka_unit_test(test_file_hostile),
        cmocka_unit_test(test_dies_between_runs),
        cmocka_unit_test(test_foreign_frames),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_zygote_dies),
    };
    int failed = provider_contract_run(&contract);

    failed += cmocka_run_group_tests_name("local provider", tests, setup, teardown);
    return failed == 0 ? 0 : 1;
}
