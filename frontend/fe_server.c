#include "fe_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "config/cfg.h"
#include "fe_app.h"
#include "fe_conn.h"

#define BACKLOG   4096
#define FIRST_FD  3
#define FDS_SPARE 128U /* for everything that is not a client connection */

enum { LISTENER_HTTP, LISTENER_ADMIN };

/* --- accepting
 * ---------------------------------------------------------------------------------------------------
 */

static bool is_full(const struct fe_server *s)
{
    return s->conns.count >= s->fe->cfg->connections_max || s->conns.count >= s->conns_max;
}

static void accept_one(struct fe_listener *l)
{
    struct fe_conn *c = NULL;

    if (fe_conn_open(&c, l->server, l->is_admin) != 0) {
        l->is_paused = true; /* tried again when a connection ends */
        return;
    }
    fe_conn_accept(c, (uv_stream_t *)&l->tcp);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct fe_listener *l = stream->data;

    if (!l->is_open) {
        return;
    }
    if (status !=
        0) { /* EMFILE and the like: libuv's reserve descriptor has shed what was waiting */
        metric_add(METRIC_FE_REJECTS, "accept_failed", NULL, 1);
        LOG(OVERLOAD, NULL, KV_S("what", "accept"), KV_S("error", uv_strerror(status)));
        return;
    }
    if (is_full(l->server) && !l->is_admin) {
        metric_add(METRIC_FE_REJECTS, "connections_max", NULL, 1);
        LOG(OVERLOAD, NULL, KV_S("what", "limits.connections"),
            KV_U("connections", l->server->conns.count));
        l->is_paused = true; /* libuv stops polling until the waiting connection is accepted */
        return;
    }
    accept_one(l);
}

void fe_server_on_conn_gone(struct fe_server *s)
{
    for (size_t i = 0; i < 2; i++) {
        struct fe_listener *l = &s->listeners[i];

        if (l->is_open && l->is_paused && !is_full(s)) {
            l->is_paused = false;
            accept_one(l);
        }
    }
}

/* --- where the listeners come from
 * -------------------------------------------------------------------------------- */

static bool is_listening_socket(int fd)
{
    int on = 0;
    socklen_t n = sizeof(on);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on != 0;
}

/* The inherited descriptor for `want`, or -1. */
static int inherited_fd(const char *want, size_t index)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    uint64_t n = 0;
    uint64_t p = 0;

    if (count_text == NULL || !sv_to_u64(sv_of(count_text), 16, &n) ||
        (pid != NULL && (!sv_to_u64(sv_of(pid), INT32_MAX, &p) || (pid_t)p != getpid()))) {
        return -1;
    }
    if (names == NULL) {
        return index < n ? FIRST_FD + (int)index : -1;
    }
    struct str_view rest = sv_of(names);

    for (uint64_t i = 0; i < n; i++) {
        size_t end = sv_find(rest, ':');

        if (sv_eq(sv_from(rest.p, end), sv_of(want))) {
            return FIRST_FD + (int)i;
        }
        end = end < rest.n ? end + 1 : end;
        rest = sv_from(rest.p + end, rest.n - end);
    }
    return -1;
}

static int fail_uv(struct err *e, int uv_code, const char *what, const char *where)
{
    err_set(e, loop_err(uv_code), "%s %s: %s", what, where, uv_strerror(uv_code));
    return e->code;
}

static int open_inherited(struct fe_listener *l, int fd, const char *name, struct err *e)
{
    int rc = 0;

    if (!is_listening_socket(fd)) {
        return err_set(e, ERR_CONFIG, "inherited descriptor %d (%s) is not a listening socket", fd,
                       name);
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if ((rc = uv_tcp_open(&l->tcp, fd)) != 0) {
        return fail_uv(e, rc, "cannot use the inherited listener", name);
    }
    return 0;
}

static int open_bound(struct fe_listener *l, const char *address, struct err *e)
{
    char host[256];
    uint16_t port = 0;
    struct sockaddr_storage sa = {0};
    int rc = cfg_split_listen(address, host, sizeof(host), &port);

    if (rc != 0) {
        return err_set(e, ERR_CONFIG, "'%s' is not HOST:PORT", address);
    }
    if (strcmp(host, "localhost") == 0) {
        (void)sv_copy(host, sizeof(host), SV_LIT("127.0.0.1"));
    }
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&sa) != 0 &&
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)&sa) != 0) {
        return err_set(e, ERR_CONFIG, "cannot listen on '%s': give a numeric address", address);
    }
    if ((rc = uv_tcp_bind(&l->tcp, (const struct sockaddr *)&sa, 0)) != 0) {
        return fail_uv(e, rc, "cannot listen on", address);
    }
    return 0;
}

static int open_listener(struct fe_server *s, size_t index, const char *name, const char *address,
                         struct err *e)
{
    struct fe_listener *l = &s->listeners[index];
    int fd = inherited_fd(name, index);
    int rc = 0;

    if (fd < 0 && address[0] == '\0') {
        return 0;
    }
    l->server = s;
    l->is_admin = index == LISTENER_ADMIN;
    if ((rc = uv_tcp_init(&s->fe->loop.uv, &l->tcp)) != 0) {
        return fail_uv(e, rc, "cannot listen on", address);
    }
    closer_add(&s->closer);
    l->is_open = true;
    l->tcp.data = l;
    rc = fd >= 0 ? open_inherited(l, fd, name, e) : open_bound(l, address, e);
    if (rc != 0) {
        return rc;
    }
    if ((rc = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection)) != 0) {
        return fail_uv(e, rc, "cannot listen on", address);
    }
    return 0;
}

/* As many descriptors as we may have; the cap of connections follows from it. */
static unsigned raise_nofile(void)
{
    struct rlimit r = {0};

    if (getrlimit(RLIMIT_NOFILE, &r) != 0) {
        return UINT32_MAX;
    }
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY ||
        r.rlim_cur > UINT32_MAX) {
        return UINT32_MAX;
    }
    return r.rlim_cur > 2UL * FDS_SPARE ? (unsigned)r.rlim_cur - FDS_SPARE
                                        : (unsigned)r.rlim_cur / 2U;
}

static void on_closed(void *ctx)
{
    struct fe_server *s = ctx;

    fe_app_check_drained(s->fe);
}

int fe_server_open(struct fe_server *s, struct fe *fe, struct err *e)
{
    int rc = 0;

    s->fe = fe;
    list_init(&s->conns);
    closer_init(&s->closer, on_closed, s);
    s->conns_max = raise_nofile();
    rc = open_listener(s, LISTENER_HTTP, "http", fe->cfg->listen, e);
    if (rc == 0) {
        rc = open_listener(s, LISTENER_ADMIN, "admin", fe->cfg->admin_listen, e);
    }
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDNAMES");
    return rc;
}

static void listener_close(struct fe_server *s, struct fe_listener *l)
{
    if (l->is_open) {
        l->is_open = false;
        closer_close_one(&s->closer, (uv_handle_t *)&l->tcp);
    }
}

void fe_server_drain(struct fe_server *s)
{
    listener_close(s, &s->listeners[LISTENER_HTTP]);
    LIST_FOREACH_SAFE (k, tmp, &s->conns) {
        struct fe_conn *c = CONTAINER_OF(k, struct fe_conn, link);

        if (!c->is_admin) {
            fe_conn_drain(c);
        }
    }
}

void fe_server_close(struct fe_server *s)
{
    listener_close(s, &s->listeners[LISTENER_HTTP]);
    listener_close(s, &s->listeners[LISTENER_ADMIN]);
    LIST_FOREACH_SAFE (k, tmp, &s->conns) {
        fe_conn_close(CONTAINER_OF(k, struct fe_conn, link));
    }
    closer_finish(&s->closer);
}

void fe_server_address(const struct fe_server *s, bool is_admin, char *dst, size_t cap)
{
    const struct fe_listener *l = &s->listeners[is_admin ? LISTENER_ADMIN : LISTENER_HTTP];
    struct sockaddr_storage sa = {0};
    int n = sizeof(sa);
    char host[64] = "";
    unsigned port = 0;

    dst[0] = '\0';
    if (!l->is_open || uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&sa, &n) != 0) {
        return;
    }
    if (sa.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&sa;

        (void)uv_ip6_name(in6, host, sizeof(host));
        port = ntohs(in6->sin6_port);
        (void)snprintf(dst, cap, "[%s]:%u", host, port);
    } else {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)&sa;

        (void)uv_ip4_name(in4, host, sizeof(host));
        port = ntohs(in4->sin_port);
        (void)snprintf(dst, cap, "%s:%u", host, port);
    }
}
