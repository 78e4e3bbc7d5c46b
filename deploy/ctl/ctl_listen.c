#include "ctl_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/cfg.h"

#define BACKLOG 4096

union address {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_make(union address *a, const char *host, uint16_t port)
{
    memset(a, 0, sizeof(*a));
    if (strchr(host, ':') == NULL) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons(port);
        (void)inet_pton(AF_INET, host, &a->v4.sin_addr);
        return sizeof(a->v4);
    }
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons(port);
    (void)inet_pton(AF_INET6, host, &a->v6.sin6_addr);
    return sizeof(a->v6);
}

static const char *remedy(int native)
{
    return native == EADDRINUSE      ? "another program has it; stop that or choose another port"
           : native == EACCES        ? "ports below 1024 need root or CAP_NET_BIND_SERVICE"
           : native == EADDRNOTAVAIL ? "this host has no such address"
                                     : "choose another address";
}

int ctl_listen(int *ret, char *ret_addr, size_t cap, const char *listen_addr, const char *key,
               struct err *e)
{
    union address a;
    char host[64];
    uint16_t port = 0;
    int on = 1;

    if (cfg_split_listen(listen_addr, host, sizeof(host), &port) != 0) {
        return err_set(e, ERR_CONFIG, "%s: %.100s is not HOST:PORT", key, listen_addr);
    }
    socklen_t len = address_make(&a, host, port);
    int fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, &a.sa, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, &a.sa, &len) != 0) {
        int saved = errno;

        if (fd >= 0) {
            (void)close(fd);
        }
        return err_set(e, ERR_HOST, "%s: cannot listen on %.100s: %s; %s", key, listen_addr,
                       strerror(saved), remedy(saved));
    }
    port = ntohs(a.sa.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    (void)snprintf(ret_addr, cap, a.sa.sa_family == AF_INET ? "%s:%u" : "[%s]:%u", host,
                   (unsigned)port);
    *ret = fd;
    return 0;
}
