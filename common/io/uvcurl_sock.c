/* The sockets of curl on the loop. curl forgets a connection whenever no transfer uses it; the loop
 * keeps watching it for input, so that a kept connection costs no epoll_ctl per request. That is
 * safe only for descriptors whose closing we see. curl tells that of established connections, but
 * not of attempts to connect that failed or lost the race, nor of descriptors of its own: those are
 * let go whenever curl says so. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/uvcurl_priv.h"

static struct uvcurl_sock *sock_find(const struct uvcurl *u, curl_socket_t fd)
{
    return fd >= 0 && (size_t)fd < u->socks_cap ? u->socks[fd] : NULL;
}

static int socks_grow(struct uvcurl *u, size_t need)
{
    size_t cap = u->socks_cap > 0 ? u->socks_cap : 64;
    struct uvcurl_sock **p = NULL;

    while (cap < need) {
        cap *= 2;
    }
    if (cap == u->socks_cap) {
        return 0;
    }
    if ((p = mem_realloc(u->socks, cap * sizeof(struct uvcurl_sock *))) == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = u->socks_cap; i < cap; i++) {
        p[i] = NULL;
    }
    u->socks = p;
    u->socks_cap = cap;
    return 0;
}

static struct uvcurl_sock *sock_new(struct uvcurl *u, curl_socket_t fd)
{
    struct uvcurl_sock *s = NULL;

    if (socks_grow(u, (size_t)fd + 1) != 0 || (s = mem_zalloc(sizeof(*s))) == NULL) {
        return NULL;
    }
    if (uv_poll_init(&u->loop->uv, &s->poll, fd) != 0) {
        mem_free(s);
        return NULL;
    }
    s->poll.data = s;
    s->owner = u;
    s->fd = fd;
    u->handles++;
    u->socks[fd] = s;
    return s;
}

static void on_sock_closed(uv_handle_t *h)
{
    struct uvcurl_sock *s = h->data;
    struct uvcurl *u = s->owner;

    mem_free(s);
    uvcurl_handle_closed(u);
}

static void sock_close(struct uvcurl_sock *s)
{
    s->owner->socks[s->fd] = NULL;
    s->is_closed = true;
    s->wanted = s->active = 0;
    uv_close((uv_handle_t *)&s->poll, on_sock_closed);
}

static void on_poll(uv_poll_t *h, int status, int events);

static void sock_watch(struct uvcurl_sock *s, int events)
{
    if (events != s->active && uv_poll_start(&s->poll, events, on_poll) == 0) {
        s->active = events;
    }
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct uvcurl_sock *s = h->data;
    int mask = ((events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0) |
               ((events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0);

    if (status < 0) {
        /* libuv stopped watching. Let curl read and write: told of an error alone it would not look
         * for the reason, and not repeat a request whose kept connection was reset. */
        s->active = 0;
        mask = CURL_CSELECT_IN | CURL_CSELECT_OUT;
    }
    if (s->wanted == 0) {
        /* An idle connection was closed by the server (curl finds out when it wants to reuse it),
         * or a paused transfer has more. */
        (void)uv_poll_stop(&s->poll);
        s->active = 0;
        return;
    }
    uvcurl_run(s->owner, s->fd, mask);
    if (!s->is_closed && s->wanted != 0) {
        sock_watch(s, s->wanted);
    }
}

int uvcurl_on_socket(CURL *easy, curl_socket_t fd, int what, void *userp, void *socketp)
{
    struct uvcurl *u = userp;
    struct uvcurl_sock *s = sock_find(u, fd);

    (void)easy;
    (void)socketp;
    if (what == CURL_POLL_REMOVE) {
        if (s != NULL && !s->is_kept) {
            sock_close(s);
        } else if (s != NULL) {
            s->wanted = 0;
            if ((s->active & UV_WRITABLE) != 0) {
                sock_watch(s, UV_READABLE);
            }
        }
        return 0;
    }
    if (s == NULL && (s = sock_new(u, fd)) == NULL) {
        return -1;
    }
    s->wanted = (what & CURL_POLL_IN) != 0 ? UV_READABLE : 0;
    if ((what & CURL_POLL_OUT) != 0) {
        s->wanted |= UV_WRITABLE;
    }
    if (s->wanted != 0) {
        sock_watch(s, s->wanted);
    }
    return 0;
}

curl_socket_t uvcurl_on_open(void *clientp, curlsocktype purpose, struct curl_sockaddr *addr)
{
    struct uvcurl_xfer *x = clientp;
    struct uvcurl_sock *stale = NULL;
    int fd = socket(addr->family, addr->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, addr->protocol);

    (void)purpose;
    x->has_opened = true;
    if ((stale = sock_find(x->owner, fd)) != NULL) {
        /* An attempt that curl closed without a word. It may take the new descriptor for the old
         * one and not tell again what it waits for. */
        int wanted = stale->wanted;
        struct uvcurl_sock *s = NULL;

        sock_close(stale);
        if ((s = sock_new(x->owner, fd)) != NULL && wanted != 0) {
            s->wanted = wanted;
            sock_watch(s, wanted);
        }
    }
    return fd;
}

void uvcurl_sock_keep(struct uvcurl_xfer *x)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    struct uvcurl_sock *s = NULL;

    if (curl_easy_getinfo(x->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD) {
        return;
    }
    if ((s = sock_find(x->owner, fd)) != NULL || (s = sock_new(x->owner, fd)) != NULL) {
        s->is_kept = true;
    }
}

int uvcurl_on_close(void *clientp, curl_socket_t fd)
{
    struct uvcurl_sock *s = sock_find(clientp, fd);

    if (s != NULL) {
        sock_close(s); /* before the number can be used again */
    }
    return close(fd);
}

void uvcurl_socks_fini(struct uvcurl *u)
{
    for (size_t i = 0; i < u->socks_cap; i++) {
        if (u->socks[i] != NULL) {
            sock_close(u->socks[i]);
        }
    }
    mem_free(u->socks);
    u->socks = NULL;
    u->socks_cap = 0;
}
