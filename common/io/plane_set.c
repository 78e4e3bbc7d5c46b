#include <errno.h>
#include <pthread.h>
#include <zmq.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/plane_priv.h"

#define SOCKETS_MAX 4096
/* Marked planes looked at in one turn of the loop; each of them is bounded by itself. */
#define TURNS_MAX   16U

/* --- the context of the process -------------------------------------------------------------- */

static pthread_mutex_t ctx_lock = PTHREAD_MUTEX_INITIALIZER;
static void *ctx;         /* NULL = none */
static unsigned ctx_refs; /* sets, over all loops of the process */

static void *ctx_get(void)
{
    void *ret = NULL;

    (void)pthread_mutex_lock(&ctx_lock);
    if (ctx == NULL && (ctx = zmq_ctx_new()) != NULL) {
        (void)zmq_ctx_set(ctx, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    }
    if ((ret = ctx) != NULL) {
        ctx_refs++;
    }
    (void)pthread_mutex_unlock(&ctx_lock);
    return ret;
}

static void ctx_put(void)
{
    (void)pthread_mutex_lock(&ctx_lock);
    ctx_refs--;
    (void)pthread_mutex_unlock(&ctx_lock);
}

/* Runs in loop_fini: zmq_ctx_term waits (at most the linger time) until the last messages have
 * left. */
static void ctx_collect(void)
{
    void *old = NULL;

    (void)pthread_mutex_lock(&ctx_lock);
    if (ctx_refs == 0) {
        old = ctx;
        ctx = NULL;
    }
    (void)pthread_mutex_unlock(&ctx_lock);
    while (old != NULL && zmq_ctx_term(old) != 0 && errno == EINTR) {
    }
}

int plane_zmq_err(struct err *e, const char *what)
{
    int native = errno;
    int code = native < ZMQ_HAUSNUMERO ? err_from_errno(native) : ERR_IO;

    (void)err_set(e, code, "%s: %s", what, zmq_strerror(native));
    if (e != NULL) {
        e->native = native;
    }
    return code;
}

int plane_zmq_fd(void *sock, uv_os_sock_t *ret)
{
    size_t n = sizeof(*ret);

    return zmq_getsockopt(sock, ZMQ_FD, ret, &n) == 0 ? 0 : ERR_IO;
}

/* --- the planes of a loop -------------------------------------------------------------------- */

void plane_set_mark(struct plane_set *s, struct plane_turn *t)
{
    if (!list_link_is_in(&t->link)) {
        list_push_back(&s->marked, &t->link);
    }
}

void plane_set_postpone(struct plane_set *s, struct plane_turn *t)
{
    plane_set_unmark(s, t);
    list_push_back(&s->postponed, &t->link);
    t->is_postponed = true;
}

void plane_set_unmark(struct plane_set *s, struct plane_turn *t)
{
    if (list_link_is_in(&t->link)) {
        list_remove(t->is_postponed ? &s->postponed : &s->marked, &t->link);
    }
    t->is_postponed = false;
}

static void on_idle(uv_idle_t *h)
{
    (void)h; /* being active is its work: the loop does not sleep */
}

static void on_prepare(uv_prepare_t *h)
{
    struct plane_set *s = h->data;
    struct list_link *k = NULL;

    while ((k = list_first(&s->postponed)) != NULL) {
        struct plane_turn *t = CONTAINER_OF(k, struct plane_turn, link);

        plane_set_unmark(s, t);
        plane_set_mark(s, t);
    }
    for (unsigned i = 0; i < TURNS_MAX && (k = list_first(&s->marked)) != NULL; i++) {
        struct plane_turn *t = CONTAINER_OF(k, struct plane_turn, link);

        list_remove(&s->marked, k);
        t->fn(t); /* may mark again, or close planes; the set itself ends in a close callback */
    }
    if (list_is_empty(&s->marked) && list_is_empty(&s->postponed)) {
        (void)uv_idle_stop(&s->idle);
    } else {
        (void)uv_idle_start(&s->idle, on_idle);
    }
}

static void on_set_closed(void *arg)
{
    struct plane_set *s = arg;

    plane_zap_free(s->zap);
    ctx_put();
    mem_free(s);
}

static int set_new(struct plane_set **ret, struct loop *loop, struct err *e)
{
    struct plane_set *s = mem_zalloc(sizeof(*s));

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    if ((s->zmq = ctx_get()) == NULL) {
        mem_free(s);
        return err_set(e, ERR_NOMEM, "cannot create the message context");
    }
    s->loop = loop;
    list_init(&s->marked);
    list_init(&s->postponed);
    closer_init(&s->closer, on_set_closed, s);
    (void)uv_prepare_init(&loop->uv, &s->prepare);
    (void)uv_idle_init(&loop->uv, &s->idle);
    s->prepare.data = s->idle.data = s;
    closer_add(&s->closer);
    closer_add(&s->closer);
    (void)uv_prepare_start(&s->prepare, on_prepare);
    loop->planes = s;
    loop->at_fini = ctx_collect;
    *ret = s;
    return 0;
}

int plane_set_get(struct plane_set **ret, struct loop *loop, struct err *e)
{
    struct plane_set *s = loop->planes;
    int rc = 0;

    if (s == NULL && (rc = set_new(&s, loop, e)) != 0) {
        return rc;
    }
    INVARIANT(s != NULL);
    s->refs++;
    *ret = s;
    return 0;
}

void plane_set_put(struct plane_set *s)
{
    INVARIANT(s->refs > 0);
    if (--s->refs > 0) {
        return;
    }
    INVARIANT(list_is_empty(&s->marked) && list_is_empty(&s->postponed));
    s->loop->planes = NULL;
    if (s->zap != NULL) {
        plane_zap_close(s->zap, &s->closer);
    }
    closer_close_one(&s->closer, (uv_handle_t *)&s->prepare);
    closer_close_one(&s->closer, (uv_handle_t *)&s->idle);
    closer_finish(&s->closer);
}
