/* wk_return.c - see wk_return.h. */
#include "wk_return.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

struct wk_conn {
    struct wk_return *owner;
    struct list_link all;
    struct plane *plane;
    unsigned refs;
    uint64_t idle_since_ms;
    struct list waiters; /* struct wk_waiter */
    size_t key_n;
    char key[MSG_ENDPOINT_MAX + 1];
};

struct wk_return {
    struct wk_return_opts opts;
    char routing_id[MSG_NAME_MAX + 1];
    struct map *conns; /* endpoint -> wk_conn */
    struct list list;  /* struct wk_conn.all */
    unsigned planes;   /* open or closing */
    bool is_closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

static void maybe_free(struct wk_return *r)
{
    if (!r->is_closing || r->planes > 0) {
        return;
    }
    void (*cb)(void *ctx) = r->on_closed;
    void *ctx = r->closed_ctx;
    map_free(r->conns);
    mem_free(r);
    cb(ctx);
}

static void on_conn_closed(void *ctx)
{
    struct wk_conn *c = ctx;
    struct wk_return *r = c->owner;

    mem_free(c);
    r->planes--;
    maybe_free(r);
}

static void close_conn(struct wk_conn *c)
{
    struct wk_return *r = c->owner;

    (void)map_take(r->conns, sv_from(c->key, c->key_n));
    list_remove(&r->list, &c->all);
    plane_close(c->plane, on_conn_closed, c);
}

static void wake(struct wk_conn *c)
{
    size_t n = c->waiters.count; /* those that wait again get their turn at the next wake-up */

    c->refs++;
    while (n-- > 0 && !list_is_empty(&c->waiters)) {
        struct wk_waiter *w = CONTAINER_OF(list_first(&c->waiters), struct wk_waiter, link);
        wk_return_unwait(w);
        w->fn(w);
    }
    wk_return_drop(c);
}

static void on_conn_msg(void *ctx, const struct plane_in *in)
{
    struct wk_conn *c = ctx;

    c->owner->opts.on_msg(c->owner->opts.ctx, in);
}

static void on_conn_link(void *ctx, bool is_up)
{
    if (is_up) {
        wake(ctx);
    }
}

static void on_conn_writable(void *ctx)
{
    wake(ctx);
}

int wk_return_new(struct wk_return **ret, const struct wk_return_opts *o)
{
    struct wk_return *r = mem_zalloc(sizeof(*r));

    if (r == NULL || (r->conns = map_new(WK_RETURN_MAX)) == NULL) {
        mem_free(r);
        return ERR_NOMEM;
    }
    r->opts = *o;
    (void)sv_copy(r->routing_id, sizeof(r->routing_id), sv_of(o->routing_id));
    list_init(&r->list);
    *ret = r;
    return 0;
}

/* Closes the connection that has been idle longest; false when all are in use. */
static bool make_room(struct wk_return *r)
{
    struct wk_conn *oldest = NULL;

    LIST_FOREACH_SAFE (k, tmp, &r->list) {
        struct wk_conn *c = CONTAINER_OF(k, struct wk_conn, all);
        if (c->refs == 0 && (oldest == NULL || c->idle_since_ms < oldest->idle_since_ms)) {
            oldest = c;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    close_conn(oldest);
    return true;
}

static int open_conn(struct wk_return *r, struct wk_conn **ret, struct str_view endpoint,
                     struct err *e)
{
    struct wk_conn *c = mem_zalloc(sizeof(*c));
    struct plane_hooks hooks = {
        .on_msg = on_conn_msg, .on_link = on_conn_link, .on_writable = on_conn_writable, .ctx = c};
    struct plane_opts opts = {.kind = PLANE_DEALER, .routing_id = r->routing_id};
    int rc;

    if (c == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    c->owner = r;
    list_init(&c->waiters);
    (void)sv_copy(c->key, sizeof(c->key), endpoint);
    c->key_n = endpoint.n;
    opts.endpoint = c->key;
    opts.curve = sv_starts(endpoint, SV_LIT("tcp://")) ? r->opts.curve : NULL;
    if ((rc = map_put(r->conns, endpoint, c)) != 0) {
        mem_free(c);
        return err_set(e, rc, NULL);
    }
    if ((rc = plane_open(&c->plane, r->opts.loop, &opts, &hooks, e)) != 0) {
        (void)map_take(r->conns, endpoint);
        mem_free(c);
        return rc;
    }
    list_push_back(&r->list, &c->all);
    r->planes++;
    *ret = c;
    return 0;
}

int wk_return_take(struct wk_return *r, struct wk_conn **ret, struct str_view endpoint,
                   struct err *e)
{
    struct wk_conn *c = map_get(r->conns, endpoint);
    int rc;

    if (c == NULL) {
        if ((!sv_starts(endpoint, SV_LIT("ipc://")) && !sv_starts(endpoint, SV_LIT("tcp://"))) ||
            endpoint.n > MSG_ENDPOINT_MAX || memchr(endpoint.p, 0, endpoint.n) != NULL) {
            return err_set(e, ERR_INVALID, "return endpoint must start with ipc:// or tcp://");
        }
        if (map_count(r->conns) >= WK_RETURN_MAX && !make_room(r)) {
            return err_set(e, ERR_LIMIT, "more than %d frontends at once", WK_RETURN_MAX);
        }
        rc = open_conn(r, &c, endpoint, e);
        if (c == NULL) { /* it is set on success only */
            return rc;
        }
    }
    c->refs++;
    *ret = c;
    return 0;
}

void wk_return_drop(struct wk_conn *c)
{
    if (c == NULL) {
        return;
    }
    REQUIRE(c->refs > 0);
    if (--c->refs == 0) {
        c->idle_since_ms = clock_ms();
    }
}

int wk_return_send(struct wk_conn *c, struct str_view frame0, struct buf *payload)
{
    return plane_send(c->plane, (struct str_view){NULL, 0}, frame0, payload);
}

void wk_return_wait(struct wk_conn *c, struct wk_waiter *w, void (*fn)(struct wk_waiter *w))
{
    if (list_link_is_in(&w->link)) {
        return;
    }
    w->conn = c;
    w->fn = fn;
    list_push_back(&c->waiters, &w->link);
}

void wk_return_unwait(struct wk_waiter *w)
{
    if (list_link_is_in(&w->link)) {
        list_remove(&w->conn->waiters, &w->link);
    }
}

void wk_return_tick(struct wk_return *r, uint64_t now_ms)
{
    LIST_FOREACH_SAFE (k, tmp, &r->list) {
        struct wk_conn *c = CONTAINER_OF(k, struct wk_conn, all);
        if (c->refs == 0 && now_ms - c->idle_since_ms >= WK_RETURN_IDLE_MS) {
            close_conn(c);
        }
    }
}

void wk_return_close(struct wk_return *r, void (*on_closed)(void *ctx), void *ctx)
{
    r->on_closed = on_closed;
    r->closed_ctx = ctx;
    r->planes++; /* held while looping */
    LIST_FOREACH_SAFE (k, tmp, &r->list) {
        close_conn(CONTAINER_OF(k, struct wk_conn, all));
    }
    r->is_closing = true;
    r->planes--;
    maybe_free(r);
}
