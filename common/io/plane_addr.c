#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/plane_priv.h"

#define IPC_PREFIX "ipc://"
#define TCP_PREFIX "tcp://"
#define PATH_CAP   sizeof(((struct sockaddr_un *)NULL)->sun_path)

static bool has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool host_is_loopback(const char *host)
{
    return has_prefix(host, "127.") || has_prefix(host, "localhost:") ||
           has_prefix(host, "[::1]:") || has_prefix(host, "lo:");
}

int plane_addr_check(const char *endpoint, bool has_curve, struct err *e)
{
    if (endpoint == NULL || strlen(endpoint) > MSG_ENDPOINT_MAX) {
        return err_set(e, ERR_CONFIG, "an endpoint is missing or longer than %d bytes",
                       MSG_ENDPOINT_MAX);
    }
    if (has_prefix(endpoint, IPC_PREFIX)) {
        const char *path = endpoint + strlen(IPC_PREFIX);

        if (path[0] == '\0' || strlen(path) >= PATH_CAP) {
            return err_set(e, ERR_CONFIG,
                           "%s: the socket path must have 1 to %zu bytes; choose a shorter run_dir",
                           endpoint, PATH_CAP - 1);
        }
        return 0;
    }
    if (!has_prefix(endpoint, TCP_PREFIX)) {
        return err_set(e, ERR_CONFIG, "%s: an endpoint starts with ipc:// or tcp://", endpoint);
    }
    if (!has_curve && !host_is_loopback(endpoint + strlen(TCP_PREFIX))) {
        return err_set(e, ERR_CONFIG, "%s: tcp beyond loopback needs CURVE keys", endpoint);
    }
    return 0;
}

/* Makes every missing directory above the last component. */
static int parents_make(const char *path, struct err *e)
{
    char dir[PATH_CAP];

    (void)snprintf(dir, sizeof(dir), "%s", path);
    for (char *p = strchr(dir + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
            int saved = errno;
            char what[PATH_CAP + 32];

            (void)snprintf(what, sizeof(what), "cannot create directory %s", dir);
            return err_errno(e, saved, what);
        }
        *p = '/';
    }
    return 0;
}

/* 0 = nobody listens; ERR_CONFLICT = somebody does. */
static int listener_probe(const char *path, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = 0;

    if (fd < 0) {
        return err_errno(e, errno, "socket");
    }
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    /* EAGAIN: a listener whose backlog is full. */
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN ||
        errno == EINPROGRESS) {
        rc = err_set(e, ERR_CONFLICT,
                     "%s is in use by another process; stop it or choose another run_dir", path);
    } else if (errno != ECONNREFUSED && errno != ENOENT) {
        rc = err_errno(e, errno, path);
    }
    (void)close(fd);
    return rc;
}

int plane_addr_prepare(const char *endpoint, struct err *e)
{
    const char *path = endpoint + strlen(IPC_PREFIX);
    struct stat st;
    int rc = 0;

    if (!has_prefix(endpoint, IPC_PREFIX) || path[0] != '/') {
        return 0; /* tcp, the abstract namespace, or a name that libzmq chooses */
    }
    if ((rc = parents_make(path, e)) != 0) {
        return rc;
    }
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? 0 : err_errno(e, errno, path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFLICT,
                       "%s exists and is not a socket; remove it or choose another run_dir", path);
    }
    if ((rc = listener_probe(path, e)) != 0) {
        return rc;
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return err_errno(e, errno, path);
    }
    return 0;
}

struct plane_addr_file plane_addr_file(const char *endpoint)
{
    const char *path = endpoint + strlen(IPC_PREFIX);
    struct stat st;

    if (!has_prefix(endpoint, IPC_PREFIX) || lstat(path, &st) != 0) {
        return (struct plane_addr_file){0, 0};
    }
    return (struct plane_addr_file){st.st_dev, st.st_ino};
}

void plane_addr_remove(const char *endpoint, struct plane_addr_file file)
{
    struct plane_addr_file now = plane_addr_file(endpoint);

    if (file.ino != 0 && now.dev == file.dev && now.ino == file.ino) {
        (void)unlink(endpoint + strlen(IPC_PREFIX));
    }
}
