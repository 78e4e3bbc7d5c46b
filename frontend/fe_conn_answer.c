/* Answers on a connection: heads, bodies, chunk framing, errors. */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "fe_app.h"
#include "fe_conn.h"
#include "fe_request.h"

static bool may_have_body(int status)
{
    return status != 204 && status != 304 && status >= 200;
}

/* How the end of this answer's body is told. */
static enum http1_framing choose_framing(const struct fe_conn *c, const struct fe_answer *a)
{
    if (!may_have_body(a->status)) {
        return HTTP1_NO_BODY;
    }
    if (a->length != MSG_LENGTH_UNKNOWN) {
        return HTTP1_LENGTH;
    }
    if (c->is_head_request) {
        return HTTP1_NO_BODY;
    }
    /* before a request head is complete its version is not known; 1.1 can always be closed */
    return fe_http_head(c->http)->minor == 0 ? HTTP1_UNTIL_CLOSE : HTTP1_CHUNKED;
}

/* The head into c->out. */
static int build_head(struct fe_conn *c, const struct fe_answer *a)
{
    struct http1_head h = {.status = a->status,
                           .minor = fe_http_head(c->http)->minor,
                           .date = fe_app_date(c->fe),
                           .request_id = c->has_rid ? c->rid_text : NULL,
                           .content_type = a->content_type,
                           .headers = a->headers,
                           .framing = c->framing,
                           .length = a->length,
                           .is_close = c->must_close};

    bytes_reset(&c->out);
    return http1_write_head(&c->out, &h);
}

/* The last byte of the answer has been queued. */
static void answer_complete(struct fe_conn *c)
{
    if (c->state == FE_CONN_CLOSED) {
        return;
    }
    fe_conn_move(c, FE_CONN_FLUSH, "answer complete");
    if (c->seg_count == 0) {
        fe_conn_finish(c);
    }
}

/* Writes [head] + body with its framing in one go. */
static void send_body(struct fe_conn *c, struct str_view head, struct fe_vec body, bool is_last)
{
    struct fe_vec v[4];
    unsigned n = 0;
    char chunk[HTTP1_CHUNK_HEAD_MAX];

    if (head.n > 0) {
        v[n++] = (struct fe_vec){head.p, head.n, NULL};
    }
    if (c->is_head_request || c->framing == HTTP1_NO_BODY) {
        body.n = 0;
    }
    c->bytes_out += body.n;
    if (c->framing == HTTP1_CHUNKED && !c->is_head_request) {
        if (body.n > 0) {
            v[n++] = (struct fe_vec){chunk, http1_chunk_head(chunk, body.n), NULL};
            v[n++] = body;
        }
        struct str_view end = body.n == 0 ? SV_LIT("0\r\n\r\n")
                              : is_last   ? SV_LIT("\r\n0\r\n\r\n")
                                          : SV_LIT("\r\n");

        if (body.n > 0 || is_last) {
            v[n++] = (struct fe_vec){end.p, end.n, NULL};
        }
    } else if (body.n > 0) {
        v[n++] = body;
    }
    if (n > 0) {
        fe_conn_send(c, v, n);
    }
    if (c->first_us == 0) {
        c->first_us = clock_us();
    }
}

/* With a Content-Length, exactly that many bytes go out. false: the answer had to be cut. */
static bool check_length(struct fe_conn *c, size_t n, bool is_last)
{
    if (c->framing != HTTP1_LENGTH || c->is_head_request) {
        return true;
    }
    if (n > c->body_left || (is_last && n != c->body_left)) {
        fe_conn_cut(c);
        return false;
    }
    c->body_left -= n;
    return true;
}

static void answer(struct fe_conn *c, const struct fe_answer *a, struct fe_vec first, bool is_last)
{
    REQUIRE(c->state == FE_CONN_HEAD || c->state == FE_CONN_BODY || c->state == FE_CONN_WAIT);
    if (c->state != FE_CONN_WAIT) {
        c->must_close = true; /* the rest of this request will not be read */
    }
    if (c->fe->is_draining) {
        c->must_close = true;
    }
    c->status = a->status;
    c->framing = choose_framing(c, a);
    c->must_close = c->must_close || c->framing == HTTP1_UNTIL_CLOSE;
    c->body_left = a->length;
    fe_conn_move(c, FE_CONN_REPLY, "answer begins");
    if (build_head(c, a) != 0) {
        fe_conn_close(c);
        return;
    }
    if (check_length(c, first.n, is_last)) {
        send_body(c, sv_from(c->out.p, c->out.n), first, is_last);
        if (is_last) {
            answer_complete(c);
        }
        fe_conn_arm(c);
    }
}

void fe_conn_answer(struct fe_conn *c, const struct fe_answer *a, struct buf *first, bool is_last)
{
    struct str_view v = buf_view(first);

    answer(c, a, (struct fe_vec){v.p, v.n, first}, is_last);
}

void fe_conn_answer_text(struct fe_conn *c, struct fe_answer *a, struct str_view body)
{
    a->length = body.n;
    answer(c, a, (struct fe_vec){body.p, body.n, NULL}, true);
}

void fe_conn_more(struct fe_conn *c, struct buf *b, bool is_last)
{
    struct str_view v = buf_view(b);

    if (c->state != FE_CONN_REPLY || !check_length(c, v.n, is_last)) {
        return;
    }
    send_body(c, (struct str_view){NULL, 0}, (struct fe_vec){v.p, v.n, b}, is_last);
    if (is_last) {
        answer_complete(c);
    }
    fe_conn_arm(c);
}

void fe_conn_cut(struct fe_conn *c)
{
    fe_conn_close(c);
}

void fe_conn_error(struct fe_conn *c, const struct err *e)
{
    struct fe_answer a = {.status = err_info(e->code)->http, .content_type = "application/json"};
    struct bytes headers = {0};
    struct bytes body = {0};
    char allow[64];

    if (e->code == ERR_METHOD) {
        fe_route_allow(allow, sizeof(allow), &c->route);
        bytes_put_str(&headers, "allow: ");
        bytes_put_str(&headers, allow);
        bytes_put_str(&headers, "\r\n");
    }
    if (http1_error_headers(&headers, e) == 0 && http1_error_body(&body, e) == 0) {
        a.headers = sv_from(headers.p, headers.n);
        fe_conn_answer_text(c, &a, sv_from(body.p, body.n));
    } else {
        fe_conn_close(c);
    }
    bytes_fini(&headers);
    bytes_fini(&body);
}
