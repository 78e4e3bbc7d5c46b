/* The client's TLS policy, against a small TLS server in another process (the distribution's
 * Python). */
#include "io/uvcurl.h"

#include <signal.h>
#include <sys/wait.h>

#include "io_test.h"

/* A certificate for "localhost", self-signed, good for a hundred years, and its key: of no use but
 * here. */
static const char pem[] = "-----BEGIN PRIVATE KEY-----\n"
                          "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDGbX0nla4LTp98bi\n"
                          "gYTJa+uIS9R8SyDSLZrmYTeiU8ahRANCAARK02Mr5n2mWKng+1sLMlLNpBz6PZ8a\n"
                          "GJLTluNy3XdJMbRl+NhFxsed/R3A/7RH5/BIIwP9SgSFm8Q2HmIawXXy\n"
                          "-----END PRIVATE KEY-----\n"
                          "-----BEGIN CERTIFICATE-----\n"
                          "MIIBYjCCAQegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv\n"
                          "c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM\n"
                          "CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABErTYyvmfaZYqeD7\n"
                          "WwsyUs2kHPo9nxoYktOW43Ldd0kxtGX42EXGx539HcD/tEfn8EgjA/1KBIWbxDYe\n"
                          "YhrBdfKjSDBGMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/\n"
                          "MB0GA1UdDgQWBBTuIjwgU2LYshJ0pedYkLbSNFwg7jAKBggqhkjOPQQDAgNJADBG\n"
                          "AiEAvZPpEE1wNhZAu/kZRkhD1wugyQA/CCLeaby+wXy0/BkCIQCt5FC1hW51agUx\n"
                          "aWLDFAEUF2qxV7fGXS4YrWkaTKaAtQ==\n"
                          "-----END CERTIFICATE-----\n";

static const char server_code[] =
    "import http.server, ssl, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    def do_POST(self):\n"
    "        body = self.rfile.read(int(self.headers['Content-Length']))\n"
    "        self.send_response(200)\n"
    "        self.send_header('Content-Length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body)\n"
    "    def log_message(self, *a): pass\n"
    "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
    "s.handle_error = lambda *a: None\n"
    "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "c.load_cert_chain(sys.argv[1])\n"
    "s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)\n"
    "print(s.server_address[1], flush=True)\n"
    "s.serve_forever()\n";

struct env {
    struct loop loop;
    struct uvcurl *client;
    char dir[64];
    char pem_path[128];
    pid_t pid;
    unsigned port;
    unsigned closed;
};

struct get {
    unsigned dones;
    int rc, status;
    char text[ERR_TEXT_MAX];
    struct bytes body;
};

static void on_head(void *ctx, int status, struct str_view headers)
{
    (void)headers;
    ((struct get *)ctx)->status = status;
}

static void on_data(void *ctx, struct str_view data)
{
    (void)bytes_put_sv(&((struct get *)ctx)->body, data);
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct get *g = ctx;

    g->dones++;
    g->rc = rc;
    (void)snprintf(g->text, sizeof(g->text), "%s", e != NULL ? e->text : "");
}

static void server_start(struct env *t)
{
    int out[2];
    FILE *f = fopen(t->pem_path, "w");
    char line[32] = "";

    assert_non_null(f);
    assert_true(fputs(pem, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(pipe(out), 0);
    if ((t->pid = fork()) == 0) {
        (void)dup2(out[1], 1);
        (void)execl("/usr/bin/python3", "python3", "-c", server_code, t->pem_path, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    assert_true(read(out[0], line, sizeof(line) - 1) > 0);
    t->port = (unsigned)strtoul(line, NULL, 10);
    assert_true(t->port > 0);
    (void)close(out[0]);
}

static int env_start(void **state)
{
    struct env *t = calloc(1, sizeof(*t));

    io_dir_make(t->dir);
    (void)snprintf(t->pem_path, sizeof(t->pem_path), "%s/server.pem", t->dir);
    server_start(t);
    io_loop_start(&t->loop);
    assert_int_equal(uvcurl_new(&t->client, &t->loop, 4, NULL), 0);
    *state = t;
    return 0;
}

static int env_end(void **state)
{
    struct env *t = *state;

    uvcurl_close(t->client, io_count, &t->closed);
    IO_UNTIL(&t->loop, t->closed, 1);
    io_loop_end(&t->loop);
    (void)kill(t->pid, SIGKILL);
    (void)waitpid(t->pid, NULL, 0);
    io_dir_remove(t->dir);
    free(t);
    return 0;
}

static void post(struct env *t, const char *host, const char *ca_file, int want_rc)
{
    struct get g = {0};
    struct uvcurl_hooks h = {on_head, on_data, on_done, &g};
    struct uvcurl_slice body = {SV_LIT("over TLS")};
    struct uvcurl_req req = {.method = "POST", .body = &body, .body_count = 1, .ca_file = ca_file};
    struct uvcurl_xfer *x = NULL;
    char url[64];

    (void)snprintf(url, sizeof(url), "https://%s:%u/", host, t->port);
    req.url = url;
    assert_int_equal(uvcurl_start(t->client, &x, &req, &h, NULL), 0);
    IO_UNTIL(&t->loop, g.dones, 1);
    if (g.rc != want_rc) {
        fail_msg("%s instead of %s: %s", err_name(g.rc), err_name(want_rc), g.text);
    }
    if (want_rc == 0) {
        assert_int_equal(g.status, 200);
        assert_string_equal(g.body.p, "over TLS");
    } else {
        assert_non_null(strcasestr(g.text, "certificate"));
    }
    bytes_fini(&g.body);
}

/* A certificate that nobody vouches for is refused before anything is sent; one file's trust does
 * not leak into other requests, in whatever order they use the pooled objects. */
static void test_trust(void **state)
{
    struct env *t = *state;

    post(t, "localhost", NULL, ERR_UPSTREAM_CONNECT);
    post(t, "localhost", t->pem_path, 0);
    post(t, "localhost", t->pem_path, 0);
    post(t, "localhost", NULL, ERR_UPSTREAM_CONNECT);
    post(t, "localhost", t->pem_path, 0);
}

static void test_name(void **state)
{
    struct env *t = *state;

    post(t, "127.0.0.1", t->pem_path, ERR_UPSTREAM_CONNECT);
}

static void test_missing_ca_file(void **state)
{
    struct env *t = *state;

    post(t, "localhost", "/nonexistent/ca.pem", ERR_UPSTREAM_CONNECT);
    post(t, "localhost", t->pem_path, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trust, env_start, env_end),
        cmocka_unit_test_setup_teardown(test_name, env_start, env_end),
        cmocka_unit_test_setup_teardown(test_missing_ca_file, env_start, env_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
