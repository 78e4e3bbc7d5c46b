#include "io/uvcurl.h"

#include <dirent.h>

#include "base/mem.h"
#include "io_http_server.h"
#include "io_test.h"

#define OK_HEAD   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One: 1\r\n\r\n"
#define OK_ANSWER OK_HEAD "hello"

enum when { NEVER, AT_HEAD, AT_DATA, AT_DONE };
enum what { CANCEL_SELF, CANCEL_OTHER, CLOSE_CLIENT, START_ANOTHER, PAUSE_SELF, START_AND_CANCEL };

struct env {
    struct loop loop;
    struct uvcurl *client;
    struct server server;
    unsigned closed;
    unsigned fds;
};

/* One transfer and what was seen of it. */
struct get {
    struct env *env;
    struct uvcurl_xfer *x;
    char order[8]; /* h = head, d = data (once), D = done */
    unsigned heads, datas, dones;
    int status, rc, native;
    char text[ERR_TEXT_MAX];
    struct bytes headers, body;
    enum when when;
    enum what what;
    struct get *other;
    struct uvcurl_req req;
};

static void order_put(struct get *g, char c)
{
    size_t n = strlen(g->order);

    if ((n == 0 || g->order[n - 1] != c) && n + 1 < sizeof(g->order)) {
        g->order[n] = c;
    }
}

static void get_start(struct get *g);

static void get_act(struct get *g, enum when now)
{
    if (g->when != now) {
        return;
    }
    g->when = NEVER;
    switch (g->what) {
    case CANCEL_SELF:
        uvcurl_cancel(g->x);
        break;
    case CANCEL_OTHER:
        uvcurl_cancel(g->other->x);
        break;
    case CLOSE_CLIENT:
        uvcurl_close(g->env->client, io_count, &g->env->closed);
        g->env->client = NULL;
        break;
    case START_ANOTHER:
        get_start(g->other);
        break;
    case START_AND_CANCEL:
        get_start(g->other);
        uvcurl_cancel(g->other->x);
        break;
    case PAUSE_SELF:
        uvcurl_pause(g->x);
        break;
    }
}

static void on_head(void *ctx, int status, struct str_view headers)
{
    struct get *g = ctx;

    g->heads++;
    g->status = status;
    (void)bytes_put_sv(&g->headers, headers);
    order_put(g, 'h');
    get_act(g, AT_HEAD);
}

static void on_data(void *ctx, struct str_view data)
{
    struct get *g = ctx;

    g->datas++;
    (void)bytes_put_sv(&g->body, data);
    order_put(g, 'd');
    get_act(g, AT_DATA);
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct get *g = ctx;

    g->dones++;
    g->rc = rc;
    assert_true((rc == 0) == (e == NULL));
    if (e != NULL) {
        assert_int_equal(e->code, rc);
        assert_true(e->text[0] != '\0');
        (void)snprintf(g->text, sizeof(g->text), "%s", e->text);
    }
    order_put(g, 'D');
    get_act(g, AT_DONE);
}

static void get_start(struct get *g)
{
    struct uvcurl_hooks h = {on_head, on_data, on_done, g};
    struct err e = {0};

    assert_int_equal(uvcurl_start(g->env->client, &g->x, &g->req, &h, &e), 0);
}

static struct get get_of(struct env *t)
{
    return (struct get){.env = t, .req = {.method = "GET", .url = t->server.url}};
}

static void get_fini(struct get *g)
{
    bytes_fini(&g->headers);
    bytes_fini(&g->body);
}

/* Starts, waits for the end and checks it. */
static void get_run(struct get *g, int want_rc)
{
    get_start(g);
    IO_UNTIL(&g->env->loop, g->dones, 1);
    if (g->rc != want_rc) {
        fail_msg("%s instead of %s: %s", err_name(g->rc),
                 want_rc != 0 ? err_name(want_rc) : "success", g->text);
    }
}

static unsigned fds_count(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d) != NULL) {
        n++;
    }
    (void)closedir(d);
    return n;
}

static struct env *env_open(const struct step *steps, unsigned connections_max)
{
    struct env *t = calloc(1, sizeof(*t));
    struct err e = {0};

    t->fds = fds_count();
    io_loop_start(&t->loop);
    server_start(&t->server, steps);
    assert_int_equal(uvcurl_new(&t->client, &t->loop, connections_max, &e), 0);
    return t;
}

static void env_close(struct env *t)
{
    if (t->client != NULL) {
        uvcurl_close(t->client, io_count, &t->closed);
        assert_int_equal(t->closed, 0);
    }
    IO_UNTIL(&t->loop, t->closed, 1);
    server_end(&t->server);
    io_loop_end(&t->loop);
    assert_int_equal(fds_count(), t->fds);
    free(t);
}

/* --- requests -------------------------------------------------------------------------------- */

static void test_get(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct str_view v;

    (void)state;
    g.req.headers = (const char *const[]){"X-Mine: a", "X-Nothing:", "Content-Length: 77", NULL};
    get_run(&g, 0);
    assert_string_equal(g.order, "hdD");
    assert_int_equal(g.status, 200);
    assert_true(uvcurl_header((struct str_view){g.headers.p, g.headers.n}, "x-one", &v));
    assert_true(sv_eq(v, SV_LIT("1")));
    assert_null(strstr(g.headers.p, "HTTP/1.1"));
    assert_string_equal(g.body.p, "hello");
    assert_ptr_equal(strstr(t->server.request[0], "GET /v1/x?y=1 HTTP/1.1\r\n"),
                     t->server.request[0]);
    assert_non_null(strstr(t->server.request[0], "\r\nX-Mine: a\r\n"));
    assert_non_null(strstr(t->server.request[0], "\r\nX-Nothing:\r\n"));
    assert_non_null(strstr(t->server.request[0], "\r\nUser-Agent: cofferdam/"));
    assert_null(strstr(t->server.request[0], "Content-Length"));
    assert_null(strcasestr(t->server.request[0], "accept-encoding"));
    get_fini(&g);
    env_close(t);
}

static void test_bodies(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0},
                                        {S_REPEAT, 0, 6},
                                        {S_END, 0, 0}};
    static const char *const methods[] = {"POST", "POST", "PUT", "DELETE", "POST", "PATCH", "GET"};
    static const size_t parts[] = {1, 3, 3, 2, 0, 0, 0};
    struct uvcurl_slice three[3] = {{SV_LIT("{\"model\":\"")}, {SV_LIT("gpt")}, {SV_LIT("\"}")}};
    struct env *t = env_open(steps, 0);

    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        static const char *const bodies[] = {"{\"model\":\"",
                                             "{\"model\":\"gpt\"}",
                                             "{\"model\":\"gpt\"}",
                                             "{\"model\":\"gpt",
                                             "",
                                             "",
                                             ""};
        struct get g = get_of(t);
        char line[64];
        const char *raw = NULL;

        g.req.method = methods[i];
        g.req.body = three;
        g.req.body_count = parts[i];
        g.req.headers =
            (const char *const[]){i % 2 != 0 ? "Content-Type: application/json" : "A: b",
                                  "User-Agent: mine", "Expect: 100-continue", NULL};
        get_run(&g, 0);
        raw = t->server.request[i];
        (void)snprintf(line, sizeof(line), "%s /v1/x?y=1 HTTP/1.1\r\n", methods[i]);
        assert_ptr_equal(strstr(raw, line), raw);
        assert_string_equal(strstr(raw, "\r\n\r\n") + 4, bodies[i]);
        (void)snprintf(line, sizeof(line), "\r\nContent-Length: %zu\r\n", strlen(bodies[i]));
        assert_true((strstr(raw, line) != NULL) == (i != 6));
        assert_true((strcasestr(raw, "content-type") != NULL) == (i % 2 != 0));
        assert_null(strcasestr(raw, "expect:"));
        assert_null(strstr(raw, "cofferdam/"));
        assert_non_null(strstr(raw, "\r\nUser-Agent: mine\r\n"));
        get_fini(&g);
    }
    assert_int_equal(atomic_load(&t->server.accepts), 1); /* all on one kept connection */
    env_close(t);
}

static void test_large_bodies(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0},
                                        {S_REPEAT, 0, 1},
                                        {S_END, 0, 0}};
    enum { N = 1500000 };
    struct env *t = env_open(steps, 0);
    char *p = malloc(2 * N);

    (void)state;
    for (size_t i = 0; i < 2 * N; i++) {
        p[i] = (char)('a' + i % 23);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct uvcurl_slice two[2] = {{{p, N}}, {{p + N, N}}};
        struct get g = get_of(t);
        const char *raw = NULL;

        g.req.method = "POST";
        g.req.body = two;
        g.req.body_count = 2 - i;
        get_run(&g, 0);
        raw = t->server.request[i];
        assert_null(strcasestr(raw, "expect:"));
        assert_memory_equal(strstr(raw, "\r\n\r\n") + 4, p, N * (2 - i));
        get_fini(&g);
    }
    free(p);
    env_close(t);
}

static void test_head_method(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},       {S_REQUEST, 0, 0},
                                        {S_SEND, OK_HEAD, 0},   {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct get h = get_of(t);

    (void)state;
    g.req.method = "HEAD";
    get_run(&g, 0);
    assert_string_equal(g.order, "hD");
    get_run(&h, 0); /* the object is used again for a GET */
    assert_string_equal(h.order, "hdD");
    get_fini(&g);
    get_fini(&h);
    env_close(t);
}

static void test_refused_input(void **state)
{
    static const struct step steps[] = {{S_END, 0, 0}};
    static const char *const lines[] = {"no colon", "A: b\r\nB: c", ": x", "A\n: x", ""};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct uvcurl_hooks h = {on_head, on_data, on_done, &g};
    struct err e = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        g.req.headers = (const char *const[]){lines[i], NULL};
        assert_int_equal(uvcurl_start(t->client, &g.x, &g.req, &h, &e), ERR_INVALID);
    }
    g.req.headers = NULL;
    g.req.method = "GET /\r\nX";
    assert_int_equal(uvcurl_start(t->client, &g.x, &g.req, &h, &e), ERR_INVALID);
    g.req.method = "GET";
    g.req.url = "ftp://127.0.0.1/x";
    get_run(&g, ERR_INVALID);
    g.dones = 0;
    g.req.url = "file:///etc/passwd";
    get_run(&g, ERR_INVALID);
    g.dones = 0;
    g.req.url = "http://[bad";
    get_run(&g, ERR_INVALID);
    assert_int_equal(g.heads + g.datas, 0);
    env_close(t);
}

/* --- answers --------------------------------------------------------------------------------- */

static void test_interim_and_chunks(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n", 0},
        {S_SEND, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 0},
        {S_SEND,
         "HTTP/1.1 429 Slow\r\nTransfer-Encoding: chunked\r\nRetry-After: 3\r\nFolded: a\r\n  "
         "b\r\n\r\n",
         0},
        {S_SEND, "3\r\nabc\r\n", 0},
        {S_WAIT, 0, 0},
        {S_SEND, "3\r\ndef\r\n0\r\nX-Trailer: t\r\n\r\n", 0},
        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct str_view v;

    (void)state;
    get_start(&g);
    IO_UNTIL(&t->loop, g.datas, 1); /* a chunk is handed on as it arrives */
    assert_string_equal(g.body.p, "abc");
    assert_int_equal(g.dones, 0);
    server_go(&t->server);
    IO_UNTIL(&t->loop, g.dones, 1);
    assert_int_equal(g.rc, 0);
    assert_int_equal(g.heads, 1);
    assert_int_equal(g.status, 429);
    assert_string_equal(g.body.p, "abcdef");
    assert_null(strstr(g.headers.p, "Interim"));
    assert_null(strstr(g.headers.p, "Link"));
    assert_null(strstr(g.headers.p, "Trailer"));
    assert_true(uvcurl_header((struct str_view){g.headers.p, g.headers.n}, "folded", &v));
    assert_true(sv_eq(v, SV_LIT("a b")));
    get_fini(&g);
    env_close(t);
}

static void test_no_redirect_no_proxy(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
         0},
        {S_END, 0, 0}};
    struct env *t = NULL;
    struct get g;

    (void)state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    t = env_open(steps, 0);
    g = get_of(t);
    get_run(&g, 0);
    assert_int_equal(g.status, 302);
    assert_string_equal(g.order, "hD");
    get_fini(&g);
    env_close(t);
    (void)unsetenv("http_proxy");
    (void)unsetenv("ALL_PROXY");
}

static void test_not_http(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, "SSH-2.0-OpenSSH\r\n", 0},
                                        {S_CLOSE, 0, 0},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    get_run(&g, ERR_UPSTREAM_BAD);
    assert_string_equal(g.order, "D");
    env_close(t);
}

static void test_head_too_large(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, "HTTP/1.1 200 OK\r\n", 0},
                                        {S_SEND, "A: ", 0},
                                        {S_FILL, 0, 40000},
                                        {S_SEND, "\r\nB: ", 0},
                                        {S_FILL, 0, 40000},
                                        {S_SEND, "\r\n\r\nhello", 0},
                                        {S_CLOSE, 0, 0},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    get_run(&g, ERR_UPSTREAM_BAD);
    assert_string_equal(g.order, "D");
    env_close(t);
}

static void test_body_max(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, OK_ANSWER, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", 0},
        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct get h = get_of(t);

    (void)state;
    g.req.body_max = h.req.body_max = 5;
    get_run(&g, 0);
    get_run(&h, ERR_LIMIT);
    get_fini(&g);
    get_fini(&h);
    env_close(t);
}

static void test_cuts(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_CLOSE, 0, 0}, /* before the head */
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_RESET, 0, 0}, /* the same, hard */
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 200 OK\r\nA: b", 0},
        {S_CLOSE, 0, 0}, /* inside it */
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, OK_HEAD "hel", 0},
        {S_CLOSE, 0, 0}, /* in the body */
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 0},
        {S_CLOSE, 0, 0},
        {S_END, 0, 0}};
    static const char *const orders[] = {"D", "D", "D", "hdD", "hdD"};
    struct env *t = env_open(steps, 0);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct get g = get_of(t);

        get_run(&g, ERR_UPSTREAM_CUT);
        assert_string_equal(g.order, orders[i]);
        get_fini(&g);
    }
    env_close(t);
}

static void test_until_close(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, "HTTP/1.0 200 OK\r\n\r\nall of it", 0},
                                        {S_CLOSE, 0, 0},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    get_run(&g, 0);
    assert_string_equal(g.body.p, "all of it");
    get_fini(&g);
    env_close(t);
}

static void test_refused_connection(void **state)
{
    static const struct step steps[] = {{S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    g.req.url = "http://127.0.0.1:1/";
    get_run(&g, ERR_UPSTREAM_CONNECT);
    g.dones = 0;
    g.req.url = "http://name.invalid/";
    get_run(&g, ERR_UPSTREAM_CONNECT);
    env_close(t);
}

/* The name has two addresses and the server listens on one. */
static void test_two_addresses(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0},
                                        {S_REPEAT, 0, 2},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "http://localhost:%u/", t->server.port);
    for (unsigned i = 0; i < 3; i++) {
        struct get g = get_of(t);

        g.req.url = url;
        get_run(&g, 0);
        get_fini(&g);
    }
    assert_int_equal(atomic_load(&t->server.accepts), 1);
    env_close(t);
}

/* --- connections ----------------------------------------------------------------------------- */

static void test_keep_alive(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0},
                                        {S_REPEAT, 0, 99},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        struct get g = get_of(t);

        get_run(&g, 0);
        get_fini(&g);
    }
    assert_int_equal(atomic_load(&t->server.accepts), 1);
    env_close(t);
}

static void on_turn(uv_prepare_t *p)
{
    ++*(unsigned *)p->data;
}

/* The server closes a kept connection while it is idle: the loop does not spin, the next request
 * works. */
static void test_idle_close(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_CLOSE, 0, 0},
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct get h = get_of(t);
    unsigned turns = 0;
    uv_prepare_t count;

    (void)state;
    get_run(&g, 0);
    (void)uv_prepare_init(&t->loop.uv, &count);
    count.data = &turns;
    (void)uv_prepare_start(&count, on_turn);
    io_turn_for(&t->loop, 100);
    uv_close((uv_handle_t *)&count, NULL);
    assert_in_range(turns, 1, 20);
    get_run(&h, 0);
    get_fini(&g);
    get_fini(&h);
    env_close(t);
}

/* What curl does by itself: a kept connection closes as the second request arrives, so it is sent
 * once more. */
static void test_retry_of_curl(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},  {S_REQUEST, 0, 0},      {S_SEND, OK_ANSWER, 0},
        {S_REQUEST, 0, 0}, {S_CLOSE, 0, 0},        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    struct uvcurl_slice body = {SV_LIT("run me")};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct get h = get_of(t);

    (void)state;
    get_run(&g, 0);
    h.req.method = "POST";
    h.req.body = &body;
    h.req.body_count = 1;
    get_run(&h, 0);
    assert_int_equal(atomic_load(&t->server.requests), 3);
    get_fini(&g);
    get_fini(&h);
    env_close(t);
}

/* And what is_once makes of the same story: a connection of its own, and no second try. */
static void test_once(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},  {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0}, {S_CLOSE, 0, 0},   {S_NOBODY, 0, 200},     {S_END, 0, 0}};
    struct uvcurl_slice body[2] = {{SV_LIT("run me ")}, {SV_LIT("once")}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct get h = get_of(t);

    (void)state;
    get_run(&g, 0);
    h.req.method = "POST";
    h.req.body = body;
    h.req.body_count = 2;
    h.req.is_once = true;
    get_run(&h, ERR_UPSTREAM_CUT);
    io_turn_for(&t->loop, 250);
    assert_int_equal(atomic_load(&t->server.requests), 2);
    assert_int_equal(atomic_load(&t->server.accepts), 2);
    assert_int_equal(atomic_load(&t->server.intruders), 0);
    get_fini(&g);
    env_close(t);
}

static void test_connections_max(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_ANSWER, 0},
                                        {S_REPEAT, 0, 4},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 1);
    struct get g[5];

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        g[i] = get_of(t);
        get_start(&g[i]);
    }
    for (unsigned i = 0; i < 5; i++) {
        IO_UNTIL(&t->loop, g[i].dones, 1);
        assert_int_equal(g[i].rc, 0);
        get_fini(&g[i]);
    }
    assert_int_equal(atomic_load(&t->server.accepts), 1);
    env_close(t);
}

/* --- pause ----------------------------------------------------------------------------------- */

static void test_pause(void **state)
{
    enum { N = 3000000 };
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n", 0},
        {S_FILL, 0, N},
        {S_END, 0, 0}};
    static const enum when whens[] = {AT_HEAD, AT_DATA};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct env *t = env_open(steps, 0);
        struct get g = get_of(t);

        g.when = whens[i];
        g.what = PAUSE_SELF;
        get_start(&g);
        IO_UNTIL(&t->loop, g.heads, 1);
        if (whens[i] == AT_DATA) {
            IO_UNTIL(&t->loop, g.datas, 1);
        }
        for (unsigned k = 0; k < 5; k++) {
            size_t bytes = g.body.n;
            unsigned datas = g.datas;

            io_turn_for(&t->loop, 10);
            assert_int_equal(g.body.n, bytes);
            g.when = AT_DATA; /* once more */
            uvcurl_resume(g.x);
            assert_int_equal(g.body.n, bytes); /* not inside the call */
            uvcurl_pause(g.x);
            uvcurl_resume(g.x);
            IO_UNTIL(&t->loop, g.datas, datas + 1);
            assert_int_equal(g.datas, datas + 1);
        }
        assert_int_equal(g.dones, 0);
        uvcurl_resume(g.x);
        IO_UNTIL(&t->loop, g.dones, 1);
        assert_int_equal(g.rc, 0);
        assert_int_equal(g.body.n, N);
        get_fini(&g);
        env_close(t);
    }
}

/* --- limits of time -------------------------------------------------------------------------- */

static void test_first_byte_limit(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0},
        {S_REQUEST, 0, 0},
        {S_SEND, "HTTP/1.1 100 Continue\r\n\r\n", 0}, /* is no answer */
        {S_WAIT, 0, 0},
        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    uint64_t from = clock_ms();

    (void)state;
    g.req.first_byte_ms = 80;
    g.req.idle_ms = 5000;
    get_run(&g, ERR_UPSTREAM_TIMEOUT);
    assert_in_range(clock_ms() - from, 75, 2000);
    assert_non_null(strstr(g.text, "no answer began within 80 ms"));
    server_go(&t->server);
    env_close(t);
}

static void test_idle_limit(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_HEAD "hel", 0},
                                        {S_WAIT, 0, 0},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    g.req.first_byte_ms = 5000;
    g.req.idle_ms = 80;
    get_run(&g, ERR_UPSTREAM_TIMEOUT);
    assert_string_equal(g.order, "hdD");
    assert_non_null(strstr(g.text, "stood still for 80 ms"));
    server_go(&t->server);
    get_fini(&g);
    env_close(t);
}

static void test_idle_not_while_paused(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},           {S_REQUEST, 0, 0},
                                        {S_SEND, OK_HEAD "hel", 0}, {S_WAIT, 0, 0},
                                        {S_SEND, "lo", 0},          {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    g.req.idle_ms = 100;
    g.when = AT_DATA;
    g.what = PAUSE_SELF;
    get_start(&g);
    IO_UNTIL(&t->loop, g.datas, 1);
    io_turn_for(&t->loop, 250);
    assert_int_equal(g.dones, 0);
    uvcurl_resume(g.x);
    server_go(&t->server);
    IO_UNTIL(&t->loop, g.dones, 1);
    assert_int_equal(g.rc, 0);
    assert_string_equal(g.body.p, "hello");
    get_fini(&g);
    env_close(t);
}

static void test_total_limit(void **state)
{
    static const struct step steps[] = {{S_ACCEPT, 0, 0},
                                        {S_REQUEST, 0, 0},
                                        {S_SEND, OK_HEAD "hel", 0},
                                        {S_WAIT, 0, 0},
                                        {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);

    (void)state;
    g.req.total_ms = 80;
    g.req.idle_ms = 10000;
    g.when = AT_DATA;
    g.what = PAUSE_SELF; /* the total goes on */
    get_run(&g, ERR_UPSTREAM_TIMEOUT);
    assert_non_null(strstr(g.text, "longer than 80 ms"));
    server_go(&t->server);
    get_fini(&g);
    env_close(t);
}

/* A full accept queue: the kernel answers no further connect. */
static void test_connect_limit(void **state)
{
    static const struct step steps[] = {{S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int fill[4];
    char url[64];

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&a, sizeof(a));
    }
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(a.sin_port));
    g.req.url = url;
    g.req.connect_ms = 100;
    g.req.first_byte_ms = 5000;
    get_run(&g, ERR_UPSTREAM_CONNECT);
    for (int i = 0; i < 4; i++) {
        (void)close(fill[i]);
    }
    (void)close(listener);
    env_close(t);
}

/* --- cancel and close in every place --------------------------------------------------------- */

static const struct step slow_steps[] = {
    {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_HEAD "hel", 0},
    {S_WAIT, 0, 0},   {S_SEND, "lo", 0}, {S_CLOSE, 0, 0},
    {S_END, 0, 0}};

static void test_cancel_in_callbacks(void **state)
{
    static const enum when whens[] = {AT_HEAD, AT_DATA, AT_DONE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct env *t = env_open(slow_steps, 0);
        struct get g = get_of(t);

        g.when = whens[i];
        g.what = CANCEL_SELF;
        get_start(&g);
        server_go(&t->server);
        while (g.when != NEVER) {
            (void)uv_run(&t->loop.uv, UV_RUN_ONCE);
        }
        io_turn_for(&t->loop, 30);
        assert_int_equal(g.heads, 1);
        assert_int_equal(g.dones, whens[i] == AT_DONE);
        assert_int_equal(g.datas > 0, whens[i] != AT_HEAD);
        get_fini(&g);
        env_close(t);
    }
}

static void test_close_in_callbacks(void **state)
{
    static const enum when whens[] = {AT_HEAD, AT_DATA, AT_DONE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct env *t = env_open(slow_steps, 0);
        struct get g = get_of(t);
        struct get other = get_of(t);

        g.when = whens[i];
        g.what = CLOSE_CLIENT;
        get_start(&g);
        get_start(&other);
        server_go(&t->server);
        IO_UNTIL(&t->loop, t->closed, 1);
        assert_int_equal(other.dones, 0);
        assert_int_equal(g.dones, whens[i] == AT_DONE);
        get_fini(&g);
        get_fini(&other);
        env_close(t);
    }
}

static void test_start_in_callbacks(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_CLOSE, 0, 0},
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    static const enum when whens[] = {AT_HEAD, AT_DATA, AT_DONE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct env *t = env_open(steps, 0);
        struct get g = get_of(t);
        struct get other = get_of(t);

        g.when = whens[i];
        g.what = START_ANOTHER;
        g.other = &other;
        get_start(&g);
        IO_UNTIL(&t->loop, g.dones, 1);
        IO_UNTIL(&t->loop, other.dones, 1);
        assert_int_equal(g.rc, 0);
        if (other.rc != 0) {
            fail_msg("%u: %s", i, other.text);
        }
        get_fini(&g);
        get_fini(&other);
        env_close(t);
    }
}

static void test_start_and_cancel_in_callbacks(void **state)
{
    static const enum when whens[] = {AT_HEAD, AT_DATA, AT_DONE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct env *t = env_open(slow_steps, 0);
        struct get g = get_of(t);
        struct get other = get_of(t);

        g.when = whens[i];
        g.what = START_AND_CANCEL;
        g.other = &other;
        get_start(&g);
        server_go(&t->server);
        IO_UNTIL(&t->loop, g.dones, 1);
        assert_int_equal(g.rc, 0);
        io_turn_for(&t->loop, 20);
        assert_int_equal(other.heads + other.dones, 0);
        get_fini(&g);
        env_close(t);
    }
}

static void test_cancel_other(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    static const enum when whens[] = {AT_HEAD, AT_DATA, AT_DONE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct env *t = env_open(steps, 0);
        struct get g = get_of(t);
        struct get other = get_of(t);

        g.when = whens[i];
        g.what = CANCEL_OTHER;
        g.other = &other;
        get_start(&g);
        get_start(&other);
        IO_UNTIL(&t->loop, g.dones, 1);
        assert_int_equal(g.rc, 0);
        io_turn_for(&t->loop, 20);
        assert_int_equal(other.heads + other.dones, 0);
        get_fini(&g);
        env_close(t);
    }
}

/* Cancelled at once, while connecting, while its name is looked up, and paused with data held back.
 */
static void test_cancel_early_and_late(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_HEAD, 0}, {S_FILL, 0, 5}, {S_END, 0, 0}};
    struct env *t = env_open(steps, 0);
    struct get g = get_of(t);
    char url[64];

    (void)state;
    get_start(&g);
    uvcurl_cancel(g.x);
    (void)snprintf(url, sizeof(url), "http://name.invalid:%u/", t->server.port);
    g.req.url = url;
    get_start(&g);
    (void)uv_run(&t->loop.uv, UV_RUN_NOWAIT);
    uvcurl_cancel(g.x);
    g.req.url = t->server.url;
    g.when = AT_HEAD;
    g.what = PAUSE_SELF;
    get_start(&g);
    IO_UNTIL(&t->loop, g.heads, 1);
    io_turn_for(&t->loop, 20);
    uvcurl_resume(g.x); /* the kick is on its way when the cancel comes */
    uvcurl_cancel(g.x);
    io_turn_for(&t->loop, 20);
    assert_int_equal(g.datas + g.dones, 0);
    get_fini(&g);
    env_close(t);
}

/* Every allocation of ours fails once on the way of a request. */
static void test_out_of_memory(void **state)
{
    static const struct step steps[] = {
        {S_ACCEPT, 0, 0}, {S_REQUEST, 0, 0}, {S_SEND, OK_ANSWER, 0}, {S_END, 0, 0}};
    bool is_clean = false;

    (void)state;
    for (long nth = 0; nth < 40 && !is_clean; nth++) {
        struct env *t = env_open(steps, 0);
        struct get g = get_of(t);
        struct uvcurl_hooks h = {on_head, NULL, on_done, &g};
        struct err e = {0};
        int rc = 0;

        (void)mem_fail_nth(nth);
        rc = uvcurl_start(t->client, &g.x, &g.req, &h, &e);
        if (rc == 0) {
            g.headers.cap_max = 1; /* keeps the test itself from allocating */
            IO_UNTIL(&t->loop, g.dones, 1);
            is_clean = g.rc == 0;
        } else {
            assert_int_equal(rc, ERR_NOMEM);
        }
        (void)mem_fail_nth(-1);
        if (!is_clean) { /* let the server's script end */
            struct get again = get_of(t);

            get_start(&again);
            IO_UNTIL(&t->loop, again.dones, 1);
            get_fini(&again);
        }
        env_close(t);
    }
    assert_true(is_clean);
}

#define T(f) cmocka_unit_test(f)

int main(void)
{
    struct loop warm; /* libuv keeps descriptors of its own from now on; the tests count theirs */
    const struct CMUnitTest tests[] = {
        T(test_get),
        T(test_bodies),
        T(test_large_bodies),
        T(test_head_method),
        T(test_refused_input),
        T(test_interim_and_chunks),
        T(test_no_redirect_no_proxy),
        T(test_not_http),
        T(test_head_too_large),
        T(test_body_max),
        T(test_cuts),
        T(test_until_close),
        T(test_refused_connection),
        T(test_two_addresses),
        T(test_keep_alive),
        T(test_idle_close),
        T(test_retry_of_curl),
        T(test_once),
        T(test_connections_max),
        T(test_pause),
        T(test_first_byte_limit),
        T(test_idle_limit),
        T(test_idle_not_while_paused),
        T(test_total_limit),
        T(test_connect_limit),
        T(test_cancel_in_callbacks),
        T(test_close_in_callbacks),
        T(test_start_in_callbacks),
        T(test_start_and_cancel_in_callbacks),
        T(test_cancel_other),
        T(test_cancel_early_and_late),
        T(test_out_of_memory),
    };

    io_loop_start(&warm);
    io_loop_end(&warm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
