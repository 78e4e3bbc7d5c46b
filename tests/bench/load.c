/* load.c - a load generator that costs little: keep-alive connections, one request at a time on
 * each.
 *
 *   load PORT CONNECTIONS SECONDS BODY_FILE PATH [HEADER...]
 *
 * Prints one JSON object: requests, seconds, rps, errors, latency percentiles in microseconds (p50,
 * p90, p99, max), and the same for the time to the first body byte ("first_*"). For streams of the
 * mock it also checks that no event is lost or reordered ("events", "lost") and records the delay
 * of each event by the mock's own stamp ("event_*", same host clock), with the share in the 36-44
 * ms band that delayed acknowledgements would show. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define IN_MAX      (1U << 18)
#define SAMPLES_MAX (1U << 23)

struct conn {
    int fd;
    char in[IN_MAX];
    size_t n;
    size_t head;    /* length of the head, 0 = not complete yet */
    long long body; /* content length, -1 = chunked */
    size_t scanned; /* events seen up to here */
    unsigned next_event;
    unsigned long long start_us;
    unsigned long long first_us;
    int is_dead;
};

struct samples {
    unsigned *us;
    size_t n;
};

static struct samples latency;
static struct samples first;
static struct samples event_delay;
static char *request;
static size_t request_n;
static unsigned long long errors;
static unsigned long long lost;
static int port;
static int ep;

static unsigned long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000U + (unsigned long long)t.tv_nsec / 1000U;
}

static void sample(struct samples *s, unsigned long long us)
{
    if (s->us == NULL) {
        s->us = malloc(SAMPLES_MAX * sizeof(*s->us));
    }
    if (s->n < SAMPLES_MAX) {
        s->us[s->n++] = (unsigned)us;
    }
}

static void connect_one(struct conn *c)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)(void *)&a, sizeof(a)) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
}

static void ask(struct conn *c)
{
    size_t at = 0;

    c->n = c->head = c->scanned = 0;
    c->next_event = 0;
    c->first_us = 0;
    c->start_us = now_us();
    while (at < request_n) {
        ssize_t k = send(c->fd, request + at, request_n - at, MSG_NOSIGNAL);

        if (k <= 0) {
            break;
        }
        at += (size_t)k;
    }
}

static void reconnect(struct conn *c)
{
    errors++;
    close(c->fd);
    connect_one(c);
    ask(c);
}

static void scan_events(struct conn *c, unsigned long long now)
{
    for (;;) {
        char *p = memmem(c->in + c->scanned, c->n - c->scanned, "\"delta\":\"word ", 14);
        char *end = p != NULL ? memchr(p + 14, '"', c->n - (size_t)(p + 14 - c->in)) : NULL;
        unsigned k;
        unsigned long long at;

        if (end == NULL) {
            return;
        }
        if (sscanf(p + 14, "%u at %llu", &k, &at) == 2) {
            lost += k != c->next_event ? 1U : 0U;
            c->next_event = k + 1;
            sample(&event_delay, now > at ? now - at : 0);
        }
        c->scanned = (size_t)(end - c->in);
    }
}

static int is_complete(struct conn *c)
{
    if (c->body >= 0) {
        return c->n >= c->head + (size_t)c->body;
    }
    return c->n >= c->head + 5 && memcmp(c->in + c->n - 5, "0\r\n\r\n", 5) == 0;
}

static void parse_head(struct conn *c)
{
    char *end = memmem(c->in, c->n, "\r\n\r\n", 4);

    if (end == NULL) {
        return;
    }
    c->head = (size_t)(end - c->in) + 4;
    c->body = -1;
    *end = '\0';
    for (char *p = c->in; (p = strchr(p, '\n')) != NULL;) {
        p++;
        if (strncasecmp(p, "content-length:", 15) == 0) {
            c->body = atoll(p + 15);
        }
    }
    *end = '\r';
    if (memcmp(c->in + 9, "200", 3) != 0) {
        errors++;
        fprintf(stderr, "%.200s\n", c->in);
    }
}

static void on_readable(struct conn *c, int is_over)
{
    ssize_t k = recv(c->fd, c->in + c->n, IN_MAX - c->n, MSG_DONTWAIT);
    unsigned long long now = now_us();

    if (k <= 0) {
        if (k == 0 || errno != EAGAIN) {
            reconnect(c);
        }
        return;
    }
    c->n += (size_t)k;
    if (c->head == 0) {
        parse_head(c);
    }
    if (c->head == 0) {
        return;
    }
    if (c->first_us == 0 && c->n > c->head) {
        c->first_us = now;
    }
    scan_events(c, now);
    if (c->body < 0 && c->n > IN_MAX / 2) { /* a long stream: keep the end only */
        memmove(c->in + c->head, c->in + c->scanned, c->n - c->scanned);
        c->n = c->head + c->n - c->scanned;
        c->scanned = c->head;
    }
    if (is_complete(c)) {
        sample(&latency, now - c->start_us);
        sample(&first, c->first_us - c->start_us);
        if (!is_over) {
            ask(c);
        } else {
            c->is_dead = 1;
        }
    }
}

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a;
    unsigned y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

static void print(const char *name, struct samples *s)
{
    if (s->n == 0) {
        return;
    }
    qsort(s->us, s->n, sizeof(*s->us), compare);
    printf(",\"%sp50\":%u,\"%sp90\":%u,\"%sp99\":%u,\"%smax\":%u", name, s->us[s->n / 2], name,
           s->us[s->n * 9 / 10], name, s->us[s->n * 99 / 100], name, s->us[s->n - 1]);
}

static void make_request(const char *path, const char *file, char **headers, int count)
{
    FILE *f = fopen(file, "rb");
    static char body[IN_MAX];
    size_t n = f != NULL ? fread(body, 1, sizeof(body), f) : 0;
    size_t at;

    request = malloc(n + 8192);
    at = (size_t)sprintf(request,
                         "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n",
                         path, n);
    for (int i = 0; i < count; i++) {
        at += (size_t)sprintf(request + at, "%s\r\n", headers[i]);
    }
    at += (size_t)sprintf(request + at, "\r\n");
    memcpy(request + at, body, n);
    request_n = at + n;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: load PORT CONNECTIONS SECONDS BODY_FILE PATH [HEADER...]\n");
        return 2;
    }
    int count = atoi(argv[2]);
    struct conn *conns = calloc((size_t)count, sizeof(*conns));
    unsigned long long start;
    unsigned long long end;
    size_t in_band = 0;

    port = atoi(argv[1]);
    ep = epoll_create1(0);
    make_request(argv[5], argv[4], argv + 6, argc - 6);
    for (int i = 0; i < count; i++) {
        connect_one(&conns[i]);
    }
    start = now_us();
    end = start + (unsigned long long)(atof(argv[3]) * 1e6);
    for (int i = 0; i < count; i++) {
        ask(&conns[i]);
    }
    for (int alive = count; alive > 0 && now_us() < end + 10000000U;) {
        struct epoll_event evs[256];
        int n = epoll_wait(ep, evs, 256, 100);

        for (int i = 0; i < n; i++) {
            struct conn *c = evs[i].data.ptr;

            if (c->is_dead) {
                continue;
            }
            on_readable(c, now_us() >= end);
            alive -= c->is_dead;
        }
    }
    double seconds = (double)(now_us() - start) / 1e6;

    for (size_t i = 0; i < event_delay.n; i++) {
        in_band += event_delay.us[i] >= 36000 && event_delay.us[i] <= 44000 ? 1U : 0U;
    }
    printf("{\"requests\":%zu,\"seconds\":%.3f,\"rps\":%.1f,\"errors\":%llu", latency.n, seconds,
           (double)latency.n / seconds, errors);
    print("", &latency);
    print("first_", &first);
    printf(",\"events\":%zu,\"lost\":%llu,\"in_36_44_ms\":%zu", event_delay.n, lost, in_band);
    print("event_", &event_delay);
    printf("}\n");
    return 0;
}
