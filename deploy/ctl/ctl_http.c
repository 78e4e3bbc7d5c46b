#include "ctl_http.h"

#include <stdio.h>

#include "base/mem.h"
#include "io/uvcurl.h"

#define ANSWER_MAX 67108864U

struct exchange {
    struct loop loop;
    struct uvcurl *curl;
    struct uvcurl_xfer *xfer;
    struct bytes *out;
    int status;
    int rc;
    struct err err;
};

static void finish(struct exchange *x, int rc)
{
    x->rc = rc;
    x->xfer = NULL;
    uvcurl_close(x->curl, NULL, NULL);
    loop_stop(&x->loop);
}

static void on_head(void *ctx, int status, struct str_view headers)
{
    struct exchange *x = ctx;

    (void)headers;
    x->status = status;
}

static void on_data(void *ctx, struct str_view data)
{
    struct exchange *x = ctx;

    (void)bytes_put_sv(x->out, data);
}

static void on_done(void *ctx, int rc, const struct err *e)
{
    struct exchange *x = ctx;

    if (rc != 0 && e != NULL) {
        x->err = *e;
    }
    finish(x, rc);
}

static void on_drain(void *ctx)
{
    struct exchange *x = ctx;

    uvcurl_cancel(x->xfer);
    finish(x, err_set(&x->err, ERR_CANCELLED, "interrupted"));
}

static int start(struct exchange *x, const struct ctl_http_req *req)
{
    struct uvcurl_slice body = {req->body};
    struct uvcurl_hooks hooks = {
        .on_head = on_head, .on_data = on_data, .on_done = on_done, .ctx = x};
    char *auth = NULL;
    const char *headers[4] = {"Content-Type: application/json", "Accept: application/json", NULL,
                              NULL};
    struct uvcurl_req r = {.method = req->method,
                           .url = req->url,
                           .headers = headers,
                           .body = &body,
                           .body_count = req->body.n > 0 ? 1 : 0,
                           .connect_ms = 5000,
                           .total_ms = req->total_ms,
                           .body_max = ANSWER_MAX,
                           .is_once = true};

    if (req->key != NULL) {
        size_t cap = strlen(req->key) + 32;

        if ((auth = mem_alloc(cap)) == NULL) {
            return err_set(&x->err, ERR_NOMEM, NULL);
        }
        (void)snprintf(auth, cap, "Authorization: Bearer %s", req->key);
        headers[2] = auth;
    }
    int rc = uvcurl_start(x->curl, &x->xfer, &r, &hooks, &x->err);

    if (auth != NULL) {
        mem_wipe(auth, strlen(auth));
    }
    mem_free(auth);
    return rc;
}

int ctl_http(const struct ctl_http_req *req, int *ret_status, struct bytes *out, struct err *e)
{
    struct exchange *x = mem_zalloc(sizeof(*x));
    struct loop_hooks hooks = {.on_drain = on_drain, .ctx = x};
    int rc = ERR_INTERNAL;

    if (x == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    x->out = out;
    if ((rc = loop_init(&x->loop, &hooks, 1000)) != 0) {
        mem_free(x);
        return err_set(e, rc, "cannot make an event loop");
    }
    if ((rc = uvcurl_new(&x->curl, &x->loop, 1, &x->err)) != 0) {
        x->rc = rc;
        loop_stop(&x->loop);
    } else if ((rc = start(x, req)) != 0) {
        finish(x, rc);
    }
    loop_run(&x->loop);
    loop_fini(&x->loop);
    *ret_status = x->status;
    rc = x->rc;
    if (rc != 0 && e != NULL) {
        *e = x->err;
    }
    mem_free(x);
    return rc;
}
