#include "fe_return.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "fe_app.h"
#include "fe_request.h"

static void on_msg(void *ctx, const struct plane_in *in)
{
    struct fe *fe = ctx;
    struct err e = {0};

    switch (in->head.type) {
    case MSG_HEAD:
        fe_request_on_head(fe, in);
        break;
    case MSG_CHUNK:
        fe_request_on_chunk(fe, in);
        break;
    case MSG_END:
        fe_request_on_end(fe, in);
        break;
    default:
        err_set(&e, ERR_PEER_FORBIDDEN, "%s on the return path", msg_name(in->head.type));
        LOG(PEER_BAD, NULL, KV_ERR(&e));
        break;
    }
}

static void on_bad(void *ctx, struct str_view peer, const struct err *e)
{
    (void)ctx;
    LOG(PEER_BAD, NULL, KV_SV("peer", peer), KV_ERR(e));
}

static void on_writable(void *ctx)
{
    struct fe *fe = ctx;

    fe_request_retry_grants(fe);
}

/* Whether nobody listens on this socket any more. */
static bool is_stale(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused = false;

    if (fd >= 0 && sv_copy(a.sun_path, sizeof(a.sun_path), sv_of(path))) {
        is_refused =
            connect(fd, (struct sockaddr *)(void *)&a, sizeof(a)) != 0 && errno == ECONNREFUSED;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_refused;
}

/* A killed frontend leaves its socket behind; its successor takes it away. */
static void sweep(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    struct dirent *ent;
    char path[512];

    while (d != NULL && (ent = readdir(d)) != NULL) {
        if (strncmp(ent->d_name, prefix, strlen(prefix)) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", dir, ent->d_name);
        if (is_stale(path)) {
            (void)unlink(path);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

int fe_return_open(struct fe *fe, struct err *e)
{
    char endpoint[256];
    char random[16];
    char secret[64] = "";
    struct cfg_curve *k = &fe->cfg->curve;
    struct plane_hooks hooks = {
        .on_msg = on_msg, .on_bad = on_bad, .on_writable = on_writable, .ctx = fe};
    struct plane_curve curve = {.public_key = k->public_key};
    struct plane_opts opts = {.kind = PLANE_ROUTER, .endpoint = endpoint};
    int rc = 0;

    if (fe->cfg->return_listen[0] != '\0') {
        (void)sv_copy(endpoint, sizeof(endpoint), sv_of(fe->cfg->return_listen));
        if (k->secret_key != NULL) {
            (void)sv_copy(secret, sizeof(secret), secret_view(k->secret_key));
            curve.secret_key = secret;
            curve.allowed = (const char *const *)k->allowed;
            opts.curve = &curve;
        }
    } else { /* a socket path has room for 107 bytes: run_dir 80, so the name's end must do */
        size_t n = strlen(fe->name);
        char prefix[16];

        (void)snprintf(prefix, sizeof(prefix), "fe-%.6s-", n > 6 ? fe->name + n - 6 : fe->name);
        sweep(fe->cfg->run_dir, prefix);
        id_text(random, sizeof(random), "", 4);
        (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/%s%s.sock", fe->cfg->run_dir, prefix,
                       random);
    }
    rc = plane_open(&fe->ret.plane, &fe->loop, &opts, &hooks, e);
    mem_wipe(secret, sizeof(secret));
    return rc;
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

void fe_return_close(struct fe *fe)
{
    if (fe->ret.plane != NULL) {
        plane_close(fe->ret.plane, on_closed, NULL);
        fe->ret.plane = NULL;
    }
}

const char *fe_return_endpoint(const struct fe *fe)
{
    return plane_endpoint(fe->ret.plane);
}

int fe_return_grant(struct fe *fe, struct str_view peer, const struct request_id *rid,
                    uint8_t attempt, uint32_t bytes)
{
    struct msg_head h = {.type = MSG_WINDOW, .attempt = attempt, .rid = *rid};
    struct msg_body_WINDOW w = {.bytes = bytes};
    struct bytes out = {0};
    int rc = fe->ret.plane == NULL ? ERR_AGAIN : msg_encode_WINDOW(&out, &h, &w);

    if (rc == 0) {
        rc = plane_send(fe->ret.plane, peer, sv_from(out.p, out.n), NULL);
    }
    bytes_fini(&out);
    return rc;
}
