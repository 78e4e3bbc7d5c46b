/* Every row of the HTTP/1.1 table that is about bytes, whole and cut at every place. */
#include "../support/unit.h"

#include <stdio.h>

#include "fe_http.h"

#define H  "Host: x\r\nAuthorization: Bearer K\r\n"
#define P  "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Type: application/json\r\n"
#define G  "GET /healthz HTTP/1.1\r\n"
#define CH P "Transfer-Encoding: chunked\r\n\r\n"
#define OK "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"

/* `want`: what the parser reports. "GET /p[body];" per request, "!400" for an error. */
static const struct row {
    const char *id;
    const char *bytes;
    size_t n;
    const char *want;
} rows[] = {
#define R(id, bytes, want)                                                                         \
    {                                                                                              \
        id, bytes, sizeof(bytes) - 1, want                                                         \
    }
    R("ok-get", "GET /v1/models HTTP/1.1\r\n" H "\r\n", "GET /v1/models[];"),
    R("ok-chunked", CH "5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n",
      "POST /v1/chat/completions[hello world];"),
    R("ok-chunked-ext", CH "5;a=b\r\nhello\r\n0;c\r\n\r\n", "POST /v1/chat/completions[hello];"),
    R("ok-chunked-ext-quoted", CH "5;a=\"b c\"\r\nhello\r\n0\r\n\r\n",
      "POST /v1/chat/completions[hello];"),
    R("ok-chunk-zeros", CH "0005\r\nhello\r\n000\r\n\r\n", "POST /v1/chat/completions[hello];"),
    R("ok-chunk-case", CH "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
      "POST /v1/chat/completions[01234567890123456789];"),
    R("ok-trailer", CH "1\r\nx\r\n0\r\nX-T: 1\r\n\r\n" OK,
      "POST /v1/chat/completions[x];GET /ok[];"),
    R("ok-case",
      "POST /a HTTP/1.1\r\nhOST: x\r\ntransfer-encoding: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n",
      "POST /a[x];"),
    R("ok-ows", "POST /a HTTP/1.1\r\n" H "Content-Length:\t 5 \t\r\n\r\nhello", "POST /a[hello];"),
    R("ok-ows-te", "POST /a HTTP/1.1\r\n" H "Transfer-Encoding:\t chunked \t\r\n\r\n0\r\n\r\n",
      "POST /a[];"),
    R("ok-leading-crlf", "\r\n" OK, "GET /ok[];"),
    R("ok-absolute", "GET http://y:80/ok?a=1 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /ok[];"),
    R("ok-absolute-bare", "GET http://y HTTP/1.1\r\nHost: x\r\n\r\n", "GET /[];"),
    R("ok-10", "GET /healthz HTTP/1.0\r\n\r\n", "GET /healthz[]x;"),
    R("ok-10-ka", "GET /healthz HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /healthz[];"),
    R("ok-close", G "Host: x\r\nConnection: close\r\n\r\n", "GET /healthz[]x;"),
    R("ok-close-list", G "Host: x\r\nConnection: foo, CLOSE\r\n\r\n", "GET /healthz[]x;"),
    R("ok-close-two", G "Host: x\r\nConnection: foo\r\nConnection: close\r\n\r\n",
      "GET /healthz[]x;"),
    R("ok-pipeline", OK OK OK, "GET /ok[];GET /ok[];GET /ok[];"),
    R("ok-pipeline-mixed", CH "3\r\nabc\r\n0\r\n\r\n" OK,
      "POST /v1/chat/completions[abc];GET /ok[];"),
    R("ok-head", "HEAD /healthz HTTP/1.1\r\n" H "\r\n", "HEAD /healthz[];"),
    R("ok-expect", P "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n{}",
      "POST /v1/chat/completions[{}];"),
    R("ok-empty-value", G "Host: x\r\nX-A:\r\n\r\n", "GET /healthz[];"),
    R("ok-utf8-value", G "Host: x\r\nX-A: \xc3\xa9\r\n\r\n", "GET /healthz[];"),
    R("ok-tab-value", G "Host: x\r\nX-A: a\tb\r\n\r\n", "GET /healthz[];"),
    R("ok-query", "GET /v1/models?limit=1&a[]=b HTTP/1.1\r\n" H "\r\n", "GET /v1/models[];"),
    R("ok-ipv6-host", G "Host: [::1]:4000\r\n\r\n", "GET /healthz[];"),
    R("ok-options-star", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS *[];"),
    R("ok-get-body", G "Host: x\r\nContent-Length: 5\r\n\r\nhello" OK,
      "GET /healthz[hello];GET /ok[];"),
    R("ok-cl-zero", P "Content-Length: 0\r\n\r\n" OK, "POST /v1/chat/completions[];GET /ok[];"),
    R("ok-upgrade", G "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" OK,
      "GET /healthz[];GET /ok[];"),
    R("ok-upgrade-h2c", G "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
      "GET /healthz[];"),
    R("ok-upgrade-body",
      P "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}" OK,
      "POST /v1/chat/completions[{}];GET /ok[];"),
    R("ok-proxy-connection", G "Host: x\r\nProxy-Connection: close\r\nTE: gzip\r\n\r\n",
      "GET /healthz[];"),
    R("te-underscore", P "Transfer_Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}" OK,
      "POST /v1/chat/completions[{}];GET /ok[];"),
    R("trailer-length", CH "1\r\nx\r\n0\r\nContent-Length: 1\r\nHost: y\r\n\r\n" OK,
      "POST /v1/chat/completions[x];GET /ok[];"),
    R("trailer-te", CH "1\r\nx\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n" OK,
      "POST /v1/chat/completions[x];GET /ok[];"),

    R("host-none", G "\r\n" OK, "!400"),
    R("host-two", G "Host: x\r\nHost: x\r\n\r\n" OK, "!400"),
    R("host-two-other", G "Host: x\r\nHost: y\r\n\r\n", "!400"),
    R("host-space", G "Host: a b\r\n\r\n", "!400"),
    R("host-path", G "Host: x/y\r\n\r\n", "!400"),
    R("host-comma", G "Host: x,y\r\n\r\n", "!400"),
    R("host-user", G "Host: u@x\r\n\r\n", "!400"),
    R("host-port", G "Host: x:99999\r\n\r\n", "!400"),
    R("host-empty", G "Host:\r\n\r\n", "!400"),
    R("host-10-bad", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "!400"),
    R("cl-te", P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "!400"),
    R("te-cl", P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "!400"),
    R("cl-two", P "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" OK, "!400"),
    R("cl-two-other", P "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "!400"),
    R("cl-list", P "Content-Length: 5, 5\r\n\r\nhello", "!400"),
    R("cl-list-other", P "Content-Length: 5, 6\r\n\r\nhello", "!400"),
    R("cl-plus", P "Content-Length: +5\r\n\r\nhello", "!400"),
    R("cl-minus", P "Content-Length: -1\r\n\r\nhello", "!400"),
    R("cl-junk", P "Content-Length: 5x\r\n\r\nhello", "!400"),
    R("cl-hex", P "Content-Length: 0x5\r\n\r\nhello", "!400"),
    R("cl-space", P "Content-Length: 5 5\r\n\r\nhello", "!400"),
    R("cl-empty", P "Content-Length:\r\n\r\n", "!400"),
    R("cl-wide", P "Content-Length: \xef\xbc\x91\r\n\r\nh", "!400"),
    R("cl-semicolon", P "Content-Length: 5;\r\n\r\nhello", "!400"),
    R("cl-30", P "Content-Length: 123456789012345678901234567890\r\n\r\n", "!400"),
    R("cl-63", P "Content-Length: 9223372036854775808\r\n\r\n", "!400"),
    R("te-x", P "Transfer-Encoding: xchunked\r\n\r\n", "!501"),
    R("te-list", P "Transfer-Encoding: chunked, identity\r\n\r\n", "!400"),
    R("te-identity", P "Transfer-Encoding: identity\r\n\r\n", "!501"),
    R("te-gzip", P "Transfer-Encoding: gzip, chunked\r\n\r\n", "!400"),
    R("te-twice", P "Transfer-Encoding: chunked, chunked\r\n\r\n", "!400"),
    R("te-fold", P "Transfer-Encoding:\r\n chunked\r\n\r\n", "!400"),
    R("te-param", P "Transfer-Encoding: chunked;q=1\r\n\r\n", "!400"),
    R("te-quoted", P "Transfer-Encoding: \"chunked\"\r\n\r\n", "!400"),
    R("te-inner-space", P "Transfer-Encoding: chunk ed\r\n\r\n", "!400"),
    R("te-vtab",
      P "Transfer-Encoding: \x0b"
        "chunked\r\n\r\n",
      "!400"),
    R("te-empty", P "Transfer-Encoding:\r\n\r\n", "!400"),
    R("te-two", P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"),
    R("te-10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "!400"),
    R("te-space-colon", P "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "!400"),
    R("chunk-g", CH "g\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-0x", CH "0x5\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-plus", CH "+5\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-minus", CH "-1\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-space-before", CH " 5\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-space-after", CH "5 \r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-tab-after", CH "5\t\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-space-ext", CH "5 ;a\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-empty", CH "\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-only-ext", CH ";a=b\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-17", CH "00000000000000005\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-64", CH "8000000000000000\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-lf", CH "5\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-cr-only", CH "5\rhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-nocrlf", CH "5\r\nhello0\r\n\r\n", "POST /v1/chat/completions[hello!400"),
    R("chunk-data-lf", CH "5\r\nhello\n0\r\n\r\n", "POST /v1/chat/completions[hello!400"),
    R("chunk-data-extra", CH "5\r\nhelloX\r\n0\r\n\r\n", "POST /v1/chat/completions[hello!400"),
    R("chunk-ext-lf", CH "5;a\nb\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("chunk-ext-nul", CH "5;a\0b\r\nhello\r\n", "POST /v1/chat/completions[!400"),
    R("trailer-nul", CH "0\r\nX: \0\r\n\r\n", "POST /v1/chat/completions[!400"),
    R("trailer-lf", CH "0\r\nX: 1\n\r\n", "POST /v1/chat/completions[!400"),
    R("trailer-cr", CH "0\r\nX: 1\rY\r\n\r\n", "POST /v1/chat/completions[!400"),
    R("trailer-nocolon", CH "0\r\nX\r\n\r\n", "POST /v1/chat/completions[!400"),
    R("trailer-end-lf", CH "0\r\n\n", "POST /v1/chat/completions[!400"),
    R("name-space", G "Host: x\r\nX A: 1\r\n\r\n", "!400"),
    R("name-paren", G "Host: x\r\nX(: 1\r\n\r\n", "!400"),
    R("name-empty", G "Host: x\r\n: 1\r\n\r\n", "!400"),
    R("name-nul", G "Host: x\r\nX\0: 1\r\n\r\n", "!400"),
    R("name-utf8", G "Host: x\r\n\xc3\xa9: 1\r\n\r\n", "!400"),
    R("name-nocolon", G "Host: x\r\nfoo\r\n\r\n", "!400"),
    R("value-nul", G "Host: x\r\nX: a\0b\r\n\r\n", "!400"),
    R("value-cr", G "Host: x\r\nX: a\rb\r\n\r\n", "!400"),
    R("value-01", G "Host: x\r\nX: \x01\r\n\r\n", "!400"),
    R("value-7f", G "Host: x\r\nX: \x7f\r\n\r\n", "!400"),
    R("fold", G "Host: x\r\nX: a\r\n b\r\n\r\n", "!400"),
    R("fold-tab", G "Host: x\r\nX: a\r\n\tb\r\n\r\n", "!400"),
    R("lf-only", "GET /healthz HTTP/1.1\nHost: x\n\n", "!400"),
    R("lf-first", "GET /healthz HTTP/1.1\nHost: x\r\n\r\n", "!400"),
    R("lf-last", G "Host: x\r\n\n", "!400"),
    R("lf-leading", "\n" OK, "!400"),
    R("cr-only", "GET /healthz HTTP/1.1\rHost: x\r\r", "!400"),
    R("crcrlf", G "Host: x\r\r\n\r\n", "!400"),
    R("two-leading-crlf", "\r\n\r\n" OK, "!400"),
    R("space-before-name", G " Host: x\r\n\r\n", "!400"),
    R("line-two-spaces", "GET  /healthz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("line-two-spaces-2", "GET /healthz  HTTP/1.1\r\n" H "\r\n", "!400"),
    R("line-tab", "GET\t/healthz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("line-trailing", "GET /healthz HTTP/1.1 \r\n" H "\r\n", "!400"),
    R("line-leading", " GET /healthz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("line-lower", "GET /healthz http/1.1\r\n" H "\r\n", "!400"),
    R("line-1.1x", "GET /healthz HTTP/1.1x\r\n" H "\r\n", "!400"),
    R("line-01.1", "GET /healthz HTTP/01.1\r\n" H "\r\n", "!400"),
    R("line-space-version", "GET /healthz HTTP /1.1\r\n" H "\r\n", "!400"),
    R("line-no-version", "GET /healthz\r\n" H "\r\n", "!400"),
    R("line-no-target", "GET HTTP/1.1\r\n" H "\r\n", "!400"),
    R("line-no-method", " /healthz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("version-2", "GET /healthz HTTP/2.0\r\n" H "\r\n", "!505"),
    R("version-1.2", "GET /healthz HTTP/1.2\r\n" H "\r\n", "!505"),
    R("version-0.9", "GET /healthz HTTP/0.9\r\n" H "\r\n", "!505"),
    R("version-3", "GET /healthz HTTP/3\r\n" H "\r\n", "!400"),
    R("h2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!505"),
    R("tls-hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "!400"),
    R("target-control", "GET /a\x01 HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-nul", "GET /a\0 HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-utf8", "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-fragment", "GET /healthz#frag HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-relative", "GET healthz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-http", "GET http:// HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-http-user", "GET http://u@x/ HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-ftp", "GET ftp://x/ HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-star", "GET * HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-percent", "GET /% HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-percent-zz", "GET /%zz HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-percent-00", "GET /%00 HTTP/1.1\r\n" H "\r\n", "!400"),
    R("target-literal", "GET //v1/models HTTP/1.1\r\n" H "\r\n", "GET //v1/models[];"),
    R("target-dots", "GET /v1/../healthz HTTP/1.1\r\n" H "\r\n", "GET /v1/../healthz[];"),
    R("method-foo", "FOO /healthz HTTP/1.1\r\n" H "\r\n", "!501"),
    R("method-lower", "get /healthz HTTP/1.1\r\n" H "\r\n", "!501"),
    R("method-connect", "CONNECT x:80 HTTP/1.1\r\n" H "\r\n", "!501"),
    R("method-trace", "TRACE /healthz HTTP/1.1\r\n" H "\r\n", "TRACE /healthz[];"),
    R("expect-other", P "Expect: 200-ok\r\n\r\n", "!417"),
    R("expect-two", P "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", "!417"),
    R("after-error", P "Content-Length: 5\r\nContent-Length: 5\r\n\r\n" OK, "!400"),
    R("after-good", OK "BAD\r\n\r\n" OK, "GET /ok[];!400"),
    R("part", "GET /ok HTTP/1.1\r\nHost: x\r\n", ""),
    R("part-body", P "Content-Length: 9\r\n\r\nabc", "POST /v1/chat/completions[abc"),
#undef R
};

static void put_event(struct bytes *log, struct fe_http *h, enum fe_http_event ev,
                      struct str_view body)
{
    const struct fe_http_head *head = fe_http_head(h);

    switch (ev) {
    case FE_HTTP_MORE:
        break;
    case FE_HTTP_HEAD:
        bytes_put_sv(log, head->method_text);
        bytes_put_char(log, ' ');
        bytes_put_sv(log, head->target.path);
        bytes_put_char(log, '[');
        break;
    case FE_HTTP_BODY:
        bytes_put_sv(log, body);
        break;
    case FE_HTTP_END:
        bytes_put_str(log, head->is_keep_alive ? "];" : "]x;");
        break;
    case FE_HTTP_ERROR:
        bytes_printf(log, "!%d", err_info(fe_http_error(h)->code)->http);
        break;
    }
}

/* Feeds exact-size copies, so that reading one byte too far is seen. Returns whether it may go on.
 */
static bool feed(struct fe_http *h, struct bytes *log, const char *p, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);
    enum fe_http_event ev = FE_HTTP_HEAD;
    struct str_view body = {NULL, 0};

    memcpy(copy, p, n);
    struct str_view in = sv_from(copy, n);

    while (ev != FE_HTTP_MORE && ev != FE_HTTP_ERROR) {
        ev = fe_http_next(h, &in, &body);
        put_event(log, h, ev, body);
    }
    free(copy);
    return ev != FE_HTTP_ERROR;
}

static void check(const struct row *r, const struct bytes *log, const char *how, size_t at)
{
    if (!sv_eq(sv_from(log->p, log->n), sv_of(r->want))) {
        fail_msg("%s (%s at %zu): want '%s', have '%.*s'", r->id, how, at, r->want, (int)log->n,
                 log->p);
    }
}

static void each_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fe_http *h = fe_http_new();
        struct bytes log = {0};

        feed(h, &log, rows[i].bytes, rows[i].n);
        check(&rows[i], &log, "whole", 0);
        bytes_fini(&log);
        fe_http_free(h);
    }
}

static void each_row_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fe_http *h = fe_http_new();
        struct bytes log = {0};

        for (size_t k = 0; k < rows[i].n && feed(h, &log, rows[i].bytes + k, 1); k++) {
        }
        check(&rows[i], &log, "bytes", 0);
        bytes_fini(&log);
        fe_http_free(h);
    }
}

static void each_row_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 1; k < rows[i].n; k++) {
            struct fe_http *h = fe_http_new();
            struct bytes log = {0};

            if (feed(h, &log, rows[i].bytes, k)) {
                feed(h, &log, rows[i].bytes + k, rows[i].n - k);
            }
            check(&rows[i], &log, "split", k);
            bytes_fini(&log);
            fe_http_free(h);
        }
    }
}

static const char *run(const char *bytes, size_t n, uint64_t limit)
{
    static char text[256];
    struct fe_http *h = fe_http_new();
    struct bytes log = {0};
    struct str_view in = sv_from(bytes, n);
    struct str_view body;
    enum fe_http_event ev = FE_HTTP_HEAD;

    while (ev != FE_HTTP_MORE && ev != FE_HTTP_ERROR) {
        ev = fe_http_next(h, &in, &body);
        if (ev == FE_HTTP_HEAD && limit != 0) {
            fe_http_limit_body(h, limit);
        }
        if (ev == FE_HTTP_ERROR || ev == FE_HTTP_END) {
            put_event(&log, h, ev, body);
        }
    }
    (void)sv_copy(text, sizeof(text), sv_from(log.p, log.n));
    bytes_fini(&log);
    fe_http_free(h);
    return text;
}

static void limits(void **state)
{
    struct bytes b = {0};

    (void)state;
    bytes_put_str(&b, "GET /");
    for (int i = 0; i < 16384; i++) {
        bytes_put_char(&b, 'a');
    }
    assert_string_equal(run(b.p, b.n, 0), "!414"); /* before its end has come */
    bytes_reset(&b);
    bytes_put_str(&b, G "Host: x\r\nX: ");
    for (int i = 0; i < 100000; i++) {
        bytes_put_char(&b, 'a');
    }
    assert_string_equal(run(b.p, b.n, 0), "!431");
    bytes_reset(&b);
    bytes_put_str(&b, G "Host: x\r\n");
    for (int i = 0; i < 99; i++) {
        bytes_put_str(&b, "X: 1\r\n");
    }
    size_t n = b.n;

    bytes_put_str(&b, "\r\n");
    assert_string_equal(run(b.p, b.n, 0), "];");
    b.n = n;
    bytes_put_str(&b, "X: 1\r\n\r\n");
    assert_string_equal(run(b.p, b.n, 0), "!431");
    bytes_reset(&b);
    bytes_put_str(&b, CH "5;");
    for (int i = 0; i < 1 << 20; i++) {
        bytes_put_char(&b, 'a');
    }
    assert_string_equal(run(b.p, b.n, 0), "!431");
    bytes_reset(&b);
    bytes_put_str(&b, CH "0\r\n");
    for (int i = 0; i < 1000; i++) {
        bytes_put_str(&b, "X: 1\r\n");
    }
    assert_string_equal(run(b.p, b.n, 0), "!431");
    bytes_fini(&b);
}

static void body_limit(void **state)
{
    static const char length[] = P "Content-Length: 6\r\n\r\n";
    static const char chunked[] = CH "3\r\nabc\r\n4\r\n";
    static const char exact[] = CH "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";

    (void)state;
    assert_string_equal(run(length, sizeof(length) - 1, 5), "!413");
    assert_string_equal(run(chunked, sizeof(chunked) - 1, 6),
                        "!413"); /* before the data has come */
    assert_string_equal(run(exact, sizeof(exact) - 1, 5), "];");
}

static void fields_are_found(void **state)
{
    static const char text[] =
        "POST /a?b=c HTTP/1.1\r\nhost: x\r\nX-Two: 1\r\nx-two: 2\r\nX-One: \t v w \t\r\n"
        "Content-Length: 0\r\n\r\n";
    struct fe_http *h = fe_http_new();
    struct str_view in = sv_from(text, sizeof(text) - 1);
    struct str_view v = {NULL, 0};

    (void)state;
    assert_true(fe_http_is_idle(h));
    assert_int_equal(fe_http_next(h, &in, &v), FE_HTTP_HEAD);
    assert_false(fe_http_is_idle(h));
    assert_int_equal(fe_http_next(h, &in, &v), FE_HTTP_END);
    assert_true(fe_http_is_idle(h));
    const struct fe_http_head *head = fe_http_head(h);

    assert_int_equal(head->method, MSG_METHOD_POST);
    assert_sv_equal(head->target.path, "/a");
    assert_sv_equal(head->target.query, "b=c");
    assert_sv_equal(head->host, "x");
    assert_int_equal(fe_http_find(head, "x-one", &v), 1);
    assert_sv_equal(v, "v w");
    assert_int_equal(fe_http_find(head, "x-two", &v), 2);
    assert_int_equal(fe_http_find(head, "x-three", &v), 0);
    fe_http_free(h);
}

static void absolute_target_overrides_host(void **state)
{
    static const char text[] = "GET http://y:81/p HTTP/1.1\r\nHost: x\r\n\r\n";
    struct fe_http *h = fe_http_new();
    struct str_view in = sv_from(text, sizeof(text) - 1);
    struct str_view v = {NULL, 0};

    (void)state;
    assert_int_equal(fe_http_next(h, &in, &v), FE_HTTP_HEAD);
    assert_sv_equal(fe_http_head(h)->host, "y:81");
    fe_http_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row),
        cmocka_unit_test(each_row_byte_by_byte),
        cmocka_unit_test(each_row_at_every_split),
        cmocka_unit_test(limits),
        cmocka_unit_test(body_limit),
        cmocka_unit_test(fields_are_found),
        cmocka_unit_test(absolute_target_overrides_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
