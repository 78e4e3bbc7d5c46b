/* io_http_server.h - a scripted HTTP server on a raw socket and a thread of its own: it does
 * exactly what the test's list of steps says, malformed and unfriendly things included. */
#ifndef CFD_TEST_IO_HTTP_SERVER_H
#define CFD_TEST_IO_HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io_test.h"

enum step_op {
    S_END,     /* closes what is open */
    S_ACCEPT,  /* the next connection, becomes the current one */
    S_REQUEST, /* reads one whole request */
    S_SEND,    /* text */
    S_FILL,    /* `n` bytes of 'x' */
    S_WAIT,    /* until server_go */
    S_CLOSE,
    S_RESET,
    S_NOBODY, /* for `n` ms nobody may connect */
    S_REPEAT  /* `n` more times the last two steps */
};

struct step {
    enum step_op op;
    const char *text;
    unsigned n;
};

#define SERVER_REQUESTS 256

struct server {
    pthread_t thread;
    int listener;
    unsigned port;
    char url[64];
    const struct step *steps;
    atomic_uint go;
    atomic_uint requests, accepts, intruders, broken;
    char *request[SERVER_REQUESTS]; /* raw */
    int kept[8];
    unsigned kept_count;
};

static void server_send(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

        if (w <= 0) {
            return;
        }
        p += w;
        n -= (size_t)w;
    }
}

/* Reads a head and as much body as Content-Length says. */
static void server_request(struct server *s, int fd)
{
    size_t cap = 4U << 20;
    size_t n = 0;
    size_t want = 0;
    char *p = malloc(cap);

    while (want == 0 || n < want) {
        ssize_t r = recv(fd, p + n, cap - n - 1, 0);
        char *end = NULL;

        if (r <= 0) {
            atomic_fetch_add(&s->broken, 1);
            free(p);
            return;
        }
        n += (size_t)r;
        p[n] = '\0';
        if (want == 0 && (end = strstr(p, "\r\n\r\n")) != NULL) {
            const char *length = strstr(p, "Content-Length: ");

            want = (size_t)(end - p) + 4;
            if (length != NULL && length < end) {
                want += strtoul(length + 16, NULL, 10);
            }
        }
    }
    if (atomic_load(&s->requests) < SERVER_REQUESTS) {
        s->request[atomic_load(&s->requests)] = p;
    } else {
        free(p);
    }
    atomic_fetch_add(&s->requests, 1);
}

static void server_fill(int fd, size_t n)
{
    char block[4096];

    memset(block, 'x', sizeof(block));
    while (n > 0) {
        size_t k = n < sizeof(block) ? n : sizeof(block);

        server_send(fd, block, k);
        n -= k;
    }
}

static void server_step(struct server *s, const struct step *k, int *fd, unsigned *waits)
{
    struct linger hard = {1, 0};
    struct pollfd pfd = {.fd = s->listener, .events = POLLIN};

    switch (k->op) {
    case S_ACCEPT:
        if (*fd >= 0) {
            s->kept[s->kept_count++] = *fd; /* stays open until the end */
        }
        *fd = accept(s->listener, NULL, NULL);
        atomic_fetch_add(&s->accepts, 1);
        break;
    case S_REQUEST:
        server_request(s, *fd);
        break;
    case S_SEND:
        server_send(*fd, k->text, strlen(k->text));
        break;
    case S_FILL:
        server_fill(*fd, k->n);
        break;
    case S_WAIT:
        ++*waits;
        while (atomic_load(&s->go) < *waits) {
            (void)usleep(500);
        }
        break;
    case S_RESET:
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        (void)close(*fd);
        *fd = -1;
        break;
    case S_CLOSE:
        (void)close(*fd);
        *fd = -1;
        break;
    case S_NOBODY:
        if (poll(&pfd, 1, (int)k->n) > 0) {
            atomic_fetch_add(&s->intruders, 1);
        }
        break;
    case S_REPEAT:
    case S_END:
        break;
    }
}

static void *server_main(void *arg)
{
    struct server *s = arg;
    int fd = -1;
    unsigned waits = 0;

    for (const struct step *k = s->steps; k->op != S_END; k++) {
        server_step(s, k, &fd, &waits);
        for (unsigned i = 0; k->op == S_REPEAT && i < k->n; i++) {
            server_step(s, k - 2, &fd, &waits);
            server_step(s, k - 1, &fd, &waits);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    while (s->kept_count > 0) {
        (void)close(s->kept[--s->kept_count]);
    }
    return NULL;
}

static void server_start(struct server *s, const struct step *steps)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);

    memset(s, 0, sizeof(*s));
    s->steps = steps;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s->listener, 64), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
    s->port = ntohs(a.sin_port);
    (void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/v1/x?y=1", s->port);
    assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

static inline void server_go(struct server *s)
{
    atomic_fetch_add(&s->go, 1);
}

static void server_end(struct server *s)
{
    (void)pthread_join(s->thread, NULL);
    (void)close(s->listener);
    for (unsigned i = 0; i < SERVER_REQUESTS; i++) {
        free(s->request[i]);
    }
}

#endif
