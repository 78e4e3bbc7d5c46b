#include "io/uvcurl.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/uvcurl_priv.h"

#define POOL_MAX 128U
#define IDLE_MAX 1024U

static void after(struct uvcurl *u);
static void end(struct uvcurl *u);

void uvcurl_handle_closed(struct uvcurl *u)
{
    void (*on_closed)(void *ctx) = u->on_closed;
    void *ctx = u->closed_ctx;

    INVARIANT(u->handles > 0);
    u->handles--;
    if (!u->is_ended || u->handles > 0) {
        return;
    }
    mem_free(u);
    if (on_closed != NULL) {
        on_closed(ctx);
    }
}

/* --- transfer objects ------------------------------------------------------------------------ */

static void on_xfer_timer_closed(uv_handle_t *h)
{
    struct uvcurl_xfer *x = h->data;
    struct uvcurl *u = x->owner;

    mem_free(x);
    uvcurl_handle_closed(u);
}

/* `x` is in no list. */
static void xfer_free(struct uvcurl_xfer *x)
{
    uvcurl_easy_free(x);
    uv_close((uv_handle_t *)&x->timer, on_xfer_timer_closed);
}

static struct uvcurl_xfer *xfer_new(struct uvcurl *u)
{
    struct uvcurl_xfer *x = mem_zalloc(sizeof(*x));

    if (x == NULL) {
        return NULL;
    }
    x->owner = u;
    (void)uv_timer_init(&u->loop->uv, &x->timer);
    x->timer.data = x;
    u->handles++;
    if (uvcurl_easy_new(x) != 0) {
        xfer_free(x);
        return NULL;
    }
    return x;
}

static struct list *list_of(struct uvcurl_xfer *x)
{
    switch (x->state) {
    case XFER_IDLE:
        return &x->owner->pool;
    case XFER_QUEUED:
        return &x->owner->queued;
    case XFER_RUNNING:
        return &x->owner->running;
    case XFER_DOOMED:
        return &x->owner->doomed;
    case XFER_DONE:
        break;
    }
    return NULL;
}

/* The only writer of x->state. */
static void move(struct uvcurl_xfer *x, enum xfer_state next)
{
    struct list *to = NULL;

    if (list_link_is_in(&x->link)) {
        list_remove(list_of(x), &x->link);
    }
    if (list_link_is_in(&x->resumed)) {
        list_remove(&x->owner->resumed, &x->resumed);
    }
    x->state = next;
    if ((to = list_of(x)) != NULL) {
        list_push_front(to, &x->link); /* the pool hands out the warmest */
    }
}

/* Back to the pool. curl no longer knows the transfer. */
static void recycle(struct uvcurl_xfer *x)
{
    struct uvcurl *u = x->owner;

    memset(&x->hooks, 0, sizeof(x->hooks));
    (void)uv_timer_stop(&x->timer);
    x->armed_ms = 0;
    if (u->is_ended || u->pool.count >= POOL_MAX) {
        move(x, XFER_DONE);
        xfer_free(x);
        return;
    }
    uvcurl_easy_recycle(x);
    move(x, XFER_IDLE);
}

/* --- deadlines ------------------------------------------------------------------------------- */

static void deadline_take(uint64_t *at, uint64_t candidate)
{
    if (*at == 0 || candidate < *at) {
        *at = candidate;
    }
}

/* Loop time of the next limit, 0 = none. */
static uint64_t deadline_next(const struct uvcurl_xfer *x)
{
    uint64_t at = 0;

    if (x->total_ms != 0) {
        deadline_take(&at, x->started_ms + x->total_ms);
    }
    if (x->is_sent && !x->is_answering && x->first_byte_ms != 0) {
        deadline_take(&at, x->sent_ms + x->first_byte_ms);
    }
    if (x->is_answering && !x->is_paused && x->idle_ms != 0) {
        deadline_take(&at, x->received_ms + x->idle_ms);
    }
    return at;
}

static void finish(struct uvcurl_xfer *x, int rc, struct err *e);

static void on_xfer_timer(uv_timer_t *t)
{
    struct uvcurl_xfer *x = t->data;
    uint64_t now = uv_now(&x->owner->loop->uv);
    uint64_t at = deadline_next(x);
    struct err e = {0};
    int rc = ERR_INTERNAL;

    x->armed_ms = 0;
    if (at == 0 || at > now) {
        uvcurl_timer_arm(x); /* bytes came in the meantime */
        return;
    }
    if (x->total_ms != 0 && at == x->started_ms + x->total_ms) {
        rc = err_set(&e, ERR_UPSTREAM_TIMEOUT, "the request took longer than %u ms", x->total_ms);
    } else if (!x->is_answering) {
        rc = err_set(&e, ERR_UPSTREAM_TIMEOUT, "no answer began within %u ms", x->first_byte_ms);
    } else {
        rc = err_set(&e, ERR_UPSTREAM_TIMEOUT, "the answer stood still for %u ms", x->idle_ms);
    }
    if (x->state == XFER_RUNNING) {
        (void)curl_multi_remove_handle(x->owner->multi, x->easy);
    }
    finish(x, rc, &e);
}

/* A deadline that only moved back is found out when the timer fires, so a stream costs no timer
 * work per event. */
void uvcurl_timer_arm(struct uvcurl_xfer *x)
{
    uint64_t at = deadline_next(x);
    uint64_t now = uv_now(&x->owner->loop->uv);

    if (at == 0 || (x->armed_ms != 0 && x->armed_ms <= at)) {
        return;
    }
    x->armed_ms = at;
    (void)uv_timer_start(&x->timer, on_xfer_timer, at > now ? at - now : 0, 0);
}

/* --- ends ------------------------------------------------------------------------------------ */

static void finish(struct uvcurl_xfer *x, int rc, struct err *e)
{
    struct uvcurl *u = x->owner;

    move(x, XFER_DONE);
    (void)uv_timer_stop(&x->timer);
    if (x->hooks.on_done != NULL) {
        x->hooks.on_done(x->hooks.ctx, rc, rc != 0 ? e : NULL);
    }
    recycle(x);
    if (u->is_closing && u->depth == 0) {
        end(u);
    }
}

static int code_of(const struct uvcurl_xfer *x, CURLcode rc)
{
    if (x->fail_rc != 0) {
        return x->fail_rc;
    }
    if (rc == CURLE_OUT_OF_MEMORY) { /* libcurl says so too of a header line above 100 kB */
        return x->is_sent && !x->is_head_done ? ERR_UPSTREAM_BAD : ERR_NOMEM;
    }
    if (rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL) {
        return x->is_sent ? ERR_UPSTREAM_BAD : ERR_INVALID;
    }
    if (!x->is_sent) {
        return ERR_UPSTREAM_CONNECT;
    }
    if (rc == CURLE_WEIRD_SERVER_REPLY || rc == CURLE_BAD_CONTENT_ENCODING) {
        return ERR_UPSTREAM_BAD;
    }
    return rc == CURLE_OPERATION_TIMEDOUT ? ERR_UPSTREAM_TIMEOUT : ERR_UPSTREAM_CUT;
}

static void complete(struct uvcurl_xfer *x, CURLcode result)
{
    struct err e = {0};
    int rc = 0;

    if (x->has_opened && result == CURLE_OK) {
        x->has_opened = false;
        uvcurl_sock_keep(x);
    }
    (void)curl_multi_remove_handle(x->owner->multi, x->easy);
    if (result != CURLE_OK || x->fail_rc != 0) {
        rc = code_of(x, result);
        if (rc == ERR_LIMIT) {
            (void)err_set(&e, rc, "the answer is longer than %llu bytes",
                          (unsigned long long)x->body_max);
        } else if (x->fail_rc == ERR_UPSTREAM_BAD) {
            (void)err_set(&e, rc,
                          "the head of the answer has no valid status or more than %d bytes",
                          UVCURL_HEAD_MAX);
        } else {
            (void)err_set(&e, rc, "%s",
                          x->error[0] != '\0' ? x->error : curl_easy_strerror(result));
        }
        e.native = (int)result;
    } else if (!x->is_head_done) {
        rc = err_set(&e, ERR_UPSTREAM_CUT, "the connection closed inside the head of the answer");
    }
    finish(x, rc, &e);
}

/* What had to wait until curl returned. */
static void after(struct uvcurl *u)
{
    struct list_link *k = NULL;
    CURLMsg *msg = NULL;
    int left = 0;

    while ((k = list_first(&u->doomed)) != NULL) {
        struct uvcurl_xfer *x = CONTAINER_OF(k, struct uvcurl_xfer, link);

        (void)curl_multi_remove_handle(u->multi, x->easy);
        recycle(x);
    }
    while (!u->is_closing && (k = list_last(&u->queued)) != NULL) {
        struct uvcurl_xfer *x = CONTAINER_OF(k, struct uvcurl_xfer, link);

        if (curl_multi_add_handle(u->multi, x->easy) == CURLM_OK) {
            move(x, XFER_RUNNING);
        } else {
            struct err e = {0};

            (void)err_set(&e, ERR_NOMEM, NULL);
            finish(x, ERR_NOMEM, &e);
        }
    }
    while (!u->is_closing && (msg = curl_multi_info_read(u->multi, &left)) != NULL) {
        struct uvcurl_xfer *x = NULL;
        CURLcode result = msg->data.result;

        if (msg->msg == CURLMSG_DONE &&
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &x) == CURLE_OK) {
            complete(x, result);
        }
    }
}

static void leave(struct uvcurl *u)
{
    INVARIANT(u->depth > 0);
    if (--u->depth > 0) {
        return;
    }
    if (u->is_closing) {
        end(u);
    } else {
        after(u);
    }
}

void uvcurl_run(struct uvcurl *u, curl_socket_t fd, int mask)
{
    int running = 0;

    if (u->is_closing) {
        return;
    }
    u->depth++;
    (void)curl_multi_socket_action(u->multi, fd, mask, &running);
    leave(u);
}

/* --- timers ---------------------------------------------------------------------------------- */

static void on_curl_timer(uv_timer_t *t)
{
    uvcurl_run(t->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout_set(CURLM *multi, long timeout_ms, void *userp)
{
    struct uvcurl *u = userp;

    (void)multi;
    if (u->is_ended) {
        return 0;
    }
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&u->curl_timer);
    } else {
        (void)uv_timer_start(&u->curl_timer, on_curl_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

static void on_kick(uv_timer_t *t)
{
    struct uvcurl *u = t->data;
    struct list_link *k = NULL;

    while (!u->is_closing && (k = list_first(&u->resumed)) != NULL) {
        struct uvcurl_xfer *x = CONTAINER_OF(k, struct uvcurl_xfer, resumed);

        list_remove(&u->resumed, k);
        if (x->is_paused) {
            continue; /* once more */
        }
        x->is_held = false;
        u->depth++;
        (void)curl_easy_pause(x->easy, CURLPAUSE_CONT); /* hands out what was held back */
        leave(u);
    }
}

/* --- the interface --------------------------------------------------------------------------- */

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_rc = CURLE_FAILED_INIT;

static void global_init(void)
{
    global_rc = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int uvcurl_new(struct uvcurl **ret, struct loop *loop, unsigned connections_max, struct err *e)
{
    struct uvcurl *u = NULL;
    CURLMcode rc = CURLM_OK;

    (void)pthread_once(&global_once, global_init);
    if (global_rc != CURLE_OK || (u = mem_zalloc(sizeof(*u))) == NULL ||
        (u->multi = curl_multi_init()) == NULL) {
        mem_free(u);
        return err_set(e, ERR_NOMEM, "cannot start the HTTP client");
    }
    u->loop = loop;
    list_init(&u->pool);
    list_init(&u->queued);
    list_init(&u->running);
    list_init(&u->doomed);
    list_init(&u->resumed);
    rc |= curl_multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, uvcurl_on_socket);
    rc |= curl_multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u);
    rc |= curl_multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, on_timeout_set);
    rc |= curl_multi_setopt(u->multi, CURLMOPT_TIMERDATA, u);
    /* curl's own bound on idle connections follows the number of transfers and would close them in
     * every lull. */
    rc |= curl_multi_setopt(u->multi, CURLMOPT_MAXCONNECTS,
                            (long)(connections_max > 0 ? connections_max : IDLE_MAX));
    if (connections_max > 0) {
        rc |= curl_multi_setopt(u->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)connections_max);
    }
    if (rc != CURLM_OK) {
        (void)curl_multi_cleanup(u->multi);
        mem_free(u);
        return err_set(e, ERR_NOMEM, "cannot set up the HTTP client");
    }
    (void)uv_timer_init(&loop->uv, &u->curl_timer);
    (void)uv_timer_init(&loop->uv, &u->kick);
    u->curl_timer.data = u->kick.data = u;
    u->handles = 2;
    *ret = u;
    return 0;
}

static void on_own_timer_closed(uv_handle_t *h)
{
    uvcurl_handle_closed(h->data);
}

static void list_free(struct uvcurl *u, struct list *l)
{
    struct list_link *k = NULL;

    while ((k = list_first(l)) != NULL) {
        struct uvcurl_xfer *x = CONTAINER_OF(k, struct uvcurl_xfer, link);

        if (x->state == XFER_RUNNING || x->state == XFER_DOOMED) {
            (void)curl_multi_remove_handle(u->multi, x->easy);
        }
        move(x, XFER_DONE);
        xfer_free(x);
    }
}

/* The end of everything, outside curl. A transfer whose on_done is running frees itself afterwards.
 */
static void end(struct uvcurl *u)
{
    if (u->is_ended) {
        return;
    }
    list_free(u, &u->running);
    list_free(u, &u->doomed);
    list_free(u, &u->queued);
    list_free(u, &u->pool);
    (void)curl_multi_cleanup(u->multi);
    u->multi = NULL;
    uvcurl_socks_fini(u);
    u->is_ended = true;
    uv_close((uv_handle_t *)&u->curl_timer, on_own_timer_closed);
    uv_close((uv_handle_t *)&u->kick, on_own_timer_closed);
}

void uvcurl_close(struct uvcurl *u, void (*on_closed)(void *ctx), void *ctx)
{
    struct list_link *k = NULL;

    REQUIRE(!u->is_closing);
    u->is_closing = true;
    u->on_closed = on_closed;
    u->closed_ctx = ctx;
    if (u->depth == 0) {
        end(u);
        return;
    }
    while ((k = list_first(&u->running)) != NULL) {
        move(CONTAINER_OF(k, struct uvcurl_xfer, link), XFER_DOOMED);
    }
}

static void xfer_reset(struct uvcurl_xfer *x, const struct uvcurl_req *req,
                       const struct uvcurl_hooks *hooks)
{
    x->hooks = *hooks;
    x->connect_ms = req->connect_ms != 0 ? req->connect_ms : UVCURL_CONNECT_MS;
    x->first_byte_ms = req->first_byte_ms;
    x->idle_ms = req->idle_ms;
    x->total_ms = req->total_ms;
    x->body_max = req->body_max;
    x->is_once = req->is_once;
    x->body_bytes = 0;
    x->started_ms = uv_now(&x->owner->loop->uv);
    x->sent_ms = x->received_ms = x->armed_ms = 0;
    x->status = x->fail_rc = 0;
    x->is_sent = x->is_answering = x->is_head_done = x->is_paused = x->is_held = false;
    x->error[0] = '\0';
}

int uvcurl_start(struct uvcurl *u, struct uvcurl_xfer **ret, const struct uvcurl_req *req,
                 const struct uvcurl_hooks *hooks, struct err *e)
{
    struct uvcurl_xfer *x = NULL;
    struct list_link *k = NULL;
    int rc = ERR_INTERNAL;

    REQUIRE(!u->is_closing);
    if ((k = list_first(&u->pool)) != NULL) {
        x = CONTAINER_OF(k, struct uvcurl_xfer, link);
    } else if ((x = xfer_new(u)) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    xfer_reset(x, req, hooks);
    move(x, XFER_QUEUED);
    if ((rc = uvcurl_easy_prepare(x, req, e)) != 0) {
        recycle(x);
        return rc;
    }
    if (u->depth == 0) {
        if (curl_multi_add_handle(u->multi, x->easy) != CURLM_OK) {
            recycle(x);
            return err_set(e, ERR_NOMEM, NULL);
        }
        move(x, XFER_RUNNING);
    }
    uvcurl_timer_arm(x);
    *ret = x;
    return 0;
}

void uvcurl_pause(struct uvcurl_xfer *x)
{
    x->is_paused = true; /* the next data is held back, which makes curl stop reading */
}

void uvcurl_resume(struct uvcurl_xfer *x)
{
    if (!x->is_paused) {
        return;
    }
    x->is_paused = false;
    if (x->state != XFER_RUNNING && x->state != XFER_QUEUED) {
        return;
    }
    x->received_ms = uv_now(&x->owner->loop->uv);
    uvcurl_timer_arm(x);
    if (x->is_held && !list_link_is_in(&x->resumed)) {
        list_push_back(&x->owner->resumed, &x->resumed);
        (void)uv_timer_start(&x->owner->kick, on_kick, 0, 0);
    }
}

void uvcurl_cancel(struct uvcurl_xfer *x)
{
    switch (x->state) {
    case XFER_RUNNING:
        memset(&x->hooks, 0, sizeof(x->hooks));
        (void)uv_timer_stop(&x->timer);
        if (x->owner->depth > 0) {
            move(x, XFER_DOOMED);
            return;
        }
        (void)curl_multi_remove_handle(x->owner->multi, x->easy);
        recycle(x);
        break;
    case XFER_QUEUED:
        recycle(x);
        break;
    case XFER_DONE: /* inside its own on_done */
    case XFER_DOOMED:
    case XFER_IDLE:
        break;
    }
}
