/* mock.c - a model server that costs as little as possible, for the benchmarks: answers any POST
 * with a small JSON object; with "stream":true with `events` server-sent events, `gap_us` apart;
 * with a function tool offered and no output in the conversation yet, with a call of that tool. One
 * thread, epoll, no parsing beyond the length.
 *
 *   mock PORT [EVENTS] [GAP_US]      prints "mock ready" */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 8192
#define IN_MAX    (1U << 20)

struct conn {
    int fd;
    char *in;
    size_t n;
    unsigned events_left; /* of the stream being sent */
    unsigned event;
    unsigned long long next_us;
};

static struct conn *conns[CONNS_MAX];
static unsigned events_per_stream = 20;
static unsigned gap_us;
static unsigned streaming;

static unsigned long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000U + (unsigned long long)t.tv_nsec / 1000U;
}

static void send_all(struct conn *c, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);

        if (k < 0 && errno == EAGAIN) {
            continue; /* loopback; the buffers are large */
        }
        if (k <= 0) {
            return;
        }
        p += k;
        n -= (size_t)k;
    }
}

static void send_json(struct conn *c, const char *body)
{
    char out[8192];
    int n = snprintf(
        out, sizeof(out),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);

    send_all(c, out, (size_t)n);
}

static void send_event(struct conn *c)
{
    char data[512];
    char out[640];
    int n;

    n = snprintf(data, sizeof(data),
                 "event: response.output_text.delta\ndata: "
                 "{\"type\":\"response.output_text.delta\",\"sequence_number\":%u,"
                 "\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"word %u "
                 "at %llu\",\"logprobs\":[]}\n\n",
                 c->event, c->event, now_us());
    n = snprintf(out, sizeof(out), "%x\r\n%s\r\n%s", (unsigned)n, data,
                 c->events_left == 1 ? "0\r\n\r\n" : "");
    send_all(c, out, (size_t)n);
    c->event++;
    c->events_left--;
    streaming -= c->events_left == 0 ? 1U : 0U;
}

static void start_stream(struct conn *c)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

    send_all(c, head, sizeof(head) - 1);
    c->events_left = events_per_stream;
    c->event = 0;
    streaming++;
    if (gap_us == 0) {
        while (c->events_left > 0) {
            send_event(c);
        }
        return;
    }
    send_event(c);
    c->next_us = now_us() + gap_us;
}

static void tool_name(const char *body, size_t n, char *ret, size_t cap)
{
    const char *p = memmem(body, n, "\"function\"", 10);
    const char *q = p != NULL ? memmem(p, n - (size_t)(p - body), "\"name\":", 7) : NULL;

    ret[0] = '\0';
    if (q == NULL) {
        return;
    }
    q += 7;
    q += strspn(q, " \"");
    snprintf(ret, cap, "%.*s", (int)strcspn(q, "\""), q);
}

static void respond(struct conn *c, const char *body, size_t n)
{
    char name[128];
    char out[4096];

    if (memmem(body, n, "\"stream\":true", 13) != NULL ||
        memmem(body, n, "\"stream\": true", 14) != NULL) {
        start_stream(c);
        return;
    }
    tool_name(body, n, name, sizeof(name));
    if (name[0] != '\0' && memmem(body, n, "function_call_output", 20) == NULL) {
        snprintf(out, sizeof(out),
                 "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":"
                 "\"completed\",\"model\":\"m\",\"error\":null,"
                 "\"incomplete_details\":null,\"output\":[{\"id\":\"fc_1\",\"type\":\"function_"
                 "call\",\"status\":\"completed\","
                 "\"call_id\":\"call_1\",\"name\":\"%s\",\"arguments\":\"{\\\"code\\\":\\\"print(6*"
                 "7)\\\"}\"}],\"usage\":{\"input_"
                 "tokens\":10,\"output_tokens\":5,\"total_tokens\":15}}",
                 name);
        send_json(c, out);
        return;
    }
    send_json(c, "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":"
                 "\"completed\",\"model\":\"m\",\"error\":null,"
                 "\"incomplete_details\":null,\"output\":[{\"id\":\"msg_1\",\"type\":\"message\","
                 "\"status\":\"completed\",\"role\":"
                 "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"The answer is "
                 "42.\",\"annotations\":[]}]}],"
                 "\"usage\":{\"input_tokens\":10,\"output_tokens\":5,\"total_tokens\":15}}");
}

/* Serves every complete request in the buffer. */
static void serve(struct conn *c)
{
    for (;;) {
        char *end = memmem(c->in, c->n, "\r\n\r\n", 4);
        size_t length = 0;
        size_t head;

        if (end == NULL) {
            return;
        }
        head = (size_t)(end - c->in) + 4;
        *end = '\0';
        for (char *p = c->in; (p = strchr(p, '\n')) != NULL;) {
            p++;
            if (strncasecmp(p, "content-length:", 15) == 0) {
                length = strtoul(p + 15, NULL, 10);
            }
        }
        *end = '\r';
        if (c->n < head + length) {
            return;
        }
        respond(c, c->in + head, length);
        c->n -= head + length;
        memmove(c->in, c->in + head + length, c->n);
    }
}

static void drop(struct conn *c)
{
    streaming -= c->events_left > 0 ? 1U : 0U;
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c);
}

static void on_readable(struct conn *c)
{
    ssize_t k = recv(c->fd, c->in + c->n, IN_MAX - c->n, MSG_DONTWAIT);

    if (k == 0 || (k < 0 && errno != EAGAIN)) {
        drop(c);
    } else if (k > 0) {
        c->n += (size_t)k;
        serve(c);
    }
}

static int open_listener(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)(void *)&a, sizeof(a)) != 0 || listen(fd, 1024) != 0) {
        perror("bind");
        exit(1);
    }
    return fd;
}

static void accept_one(int ep, int listener)
{
    int fd = accept(listener, NULL, NULL);
    int one = 1;
    struct conn *c;

    if (fd < 0 || fd >= CONNS_MAX) {
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c = calloc(1, sizeof(*c));
    c->fd = fd;
    c->in = malloc(IN_MAX);
    conns[fd] = c;
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

/* Sends what is due. Returns how long until the next event may be due, in ms, -1 = nothing streams.
 */
static int pace(void)
{
    unsigned long long now = now_us();

    if (streaming == 0) {
        return -1;
    }
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = conns[i];

        while (c != NULL && c->events_left > 0 && c->next_us <= now) {
            send_event(c);
            c->next_us += gap_us;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    int ep = epoll_create1(0);
    int listener = open_listener(argc > 1 ? atoi(argv[1]) : 0);
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener};
    int wait_ms = -1;

    events_per_stream = argc > 2 ? (unsigned)atoi(argv[2]) : 20;
    gap_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    signal(SIGPIPE, SIG_IGN);
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    getsockname(listener, (struct sockaddr *)(void *)&a, &len);
    printf("mock ready %d\n", ntohs(a.sin_port));
    fflush(stdout);
    for (;;) {
        struct epoll_event evs[256];
        int n = epoll_wait(ep, evs, 256, wait_ms);

        for (int i = 0; i < n; i++) {
            if (evs[i].data.fd == listener) {
                accept_one(ep, listener);
            } else if (conns[evs[i].data.fd] != NULL) {
                on_readable(conns[evs[i].data.fd]);
            }
        }
        wait_ms = gap_us > 0 ? pace() : -1;
    }
}
