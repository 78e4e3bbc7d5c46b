/* The authentication handler (ZeroMQ's ZAP, RFC 27): libzmq asks it once per handshake on a CURVE
 * socket. It admits exactly the keys that the socket's owner listed. It is bound before the first
 * CURVE ROUTER binds, because libzmq admits everybody when no handler exists. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/check.h"
#include "base/id.h"
#include "base/mem.h"
#include "io/plane_priv.h"

#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define DOMAIN_MAX   32U
#define REQUEST_PARTS                                                                              \
    7U /* version, request id, domain, address, identity, mechanism, credentials */
#define PART_MAX 256U

struct zap_domain {
    struct list_link link;
    char name[DOMAIN_MAX];
    size_t count;
    uint8_t keys[][PLANE_CURVE_KEY_BYTES];
};

struct plane_zap {
    void *sock;
    uv_poll_t poll;
    struct list domains;
};

struct zap_part {
    size_t n;
    char p[PART_MAX];
};

static bool key_is_admitted(const struct plane_zap *z, const struct zap_part *domain,
                            const struct zap_part *key)
{
    bool is_found = false;

    if (key->n != PLANE_CURVE_KEY_BYTES) {
        return false;
    }
    LIST_FOREACH_SAFE (k, tmp, &z->domains) {
        const struct zap_domain *d = CONTAINER_OF(k, struct zap_domain, link);

        if (!sv_eq(sv_from(domain->p, domain->n), sv_of(d->name))) {
            continue;
        }
        for (size_t i = 0; i < d->count; i++) {
            is_found |= id_equal(d->keys[i], key->p, PLANE_CURVE_KEY_BYTES);
        }
    }
    return is_found;
}

/* Reads one whole request; parts beyond the expected ones and over-long ones are dropped. False =
 * none there. */
static bool request_read(void *sock, struct zap_part parts[REQUEST_PARTS], size_t *ret_count)
{
    size_t count = 0;
    int more = 1;
    size_t n = sizeof(more);

    while (more != 0) {
        struct zap_part scrap;
        struct zap_part *at = count < REQUEST_PARTS ? &parts[count] : &scrap;
        int got = zmq_recv(sock, at->p, sizeof(at->p), ZMQ_DONTWAIT);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return false;
        }
        at->n = (size_t)got <= sizeof(at->p) ? (size_t)got : 0;
        count++;
        if (zmq_getsockopt(sock, ZMQ_RCVMORE, &more, &n) != 0) {
            return false;
        }
    }
    *ret_count = count;
    return true;
}

static void part_send(void *sock, const char *p, size_t n, int flags)
{
    while (zmq_send(sock, p, n, flags | ZMQ_DONTWAIT) < 0 && errno == EINTR) {
    }
}

static void reply_send(void *sock, const struct zap_part *request_id, bool is_admitted)
{
    const char *code = is_admitted ? "200" : "400";
    const char *text = is_admitted ? "OK" : "key not allowed";

    part_send(sock, "1.0", 3, ZMQ_SNDMORE);
    part_send(sock, request_id->p, request_id->n, ZMQ_SNDMORE);
    part_send(sock, code, strlen(code), ZMQ_SNDMORE);
    part_send(sock, text, strlen(text), ZMQ_SNDMORE);
    part_send(sock, "", 0, ZMQ_SNDMORE); /* user id */
    part_send(sock, "", 0, 0);           /* metadata */
}

static void on_zap(uv_poll_t *h, int status, int events)
{
    struct plane_zap *z = h->data;
    struct zap_part parts[REQUEST_PARTS];
    size_t count = 0;

    (void)status;
    (void)events;
    /* Until nothing is left: the descriptor tells of an edge only. One request per handshake, so
     * this is short. */
    while (request_read(z->sock, parts, &count)) {
        bool is_admitted = count == REQUEST_PARTS &&
                           sv_eq(sv_from(parts[0].p, parts[0].n), SV_LIT("1.0")) &&
                           sv_eq(sv_from(parts[5].p, parts[5].n), SV_LIT("CURVE")) &&
                           key_is_admitted(z, &parts[2], &parts[6]);

        if (count < 2) {
            parts[1].n = 0;
        }
        reply_send(z->sock, &parts[1], is_admitted);
    }
}

static int zap_new(struct plane_set *s, struct err *e)
{
    struct plane_zap *z = mem_zalloc(sizeof(*z));
    uv_os_sock_t fd = -1;
    int linger = 0;
    int rc = ERR_INTERNAL;

    if (z == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    list_init(&z->domains);
    if ((z->sock = zmq_socket(s->zmq, ZMQ_REP)) == NULL) {
        rc = plane_zmq_err(e, "cannot create the authentication handler");
        goto fail;
    }
    (void)zmq_setsockopt(z->sock, ZMQ_LINGER, &linger, sizeof(linger));
    if (zmq_bind(z->sock, ZAP_ENDPOINT) != 0) {
        rc = errno == EADDRINUSE
                 ? err_set(e, ERR_CONFLICT,
                           "another event loop of this process already authenticates CURVE peers")
                 : plane_zmq_err(e, "cannot bind the authentication handler");
        goto fail;
    }
    if ((rc = plane_zmq_fd(z->sock, &fd)) != 0 ||
        (rc = loop_err(uv_poll_init(&s->loop->uv, &z->poll, fd))) != 0) {
        (void)err_set(e, rc, "cannot watch the authentication handler");
        goto fail;
    }
    closer_add(&s->closer);
    z->poll.data = z;
    (void)uv_poll_start(&z->poll, UV_READABLE, on_zap);
    s->zap = z;
    return 0;
fail:
    if (z->sock != NULL) {
        (void)zmq_close(z->sock);
    }
    mem_free(z);
    return rc;
}

int plane_zap_add(struct plane_set *s, const char *domain, const char *const *allowed,
                  struct err *e)
{
    struct zap_domain *d = NULL;
    size_t count = 0;
    int rc = 0;

    while (allowed != NULL && allowed[count] != NULL) {
        count++;
    }
    if (count == 0) {
        return err_set(e, ERR_CONFIG,
                       "CURVE is on but no client key is allowed: nobody could connect");
    }
    if (s->zap == NULL && (rc = zap_new(s, e)) != 0) {
        return rc;
    }
    if ((d = mem_zalloc(sizeof(*d) + count * PLANE_CURVE_KEY_BYTES)) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    (void)snprintf(d->name, sizeof(d->name), "%s", domain);
    for (d->count = 0; d->count < count; d->count++) {
        const char *text = allowed[d->count];

        if (strlen(text) != 40 || zmq_z85_decode(d->keys[d->count], text) == NULL) {
            rc = err_set(e, ERR_CONFIG,
                         "allowed CURVE key number %zu is not a Z85 key of 40 characters",
                         d->count + 1);
            mem_free(d);
            return rc;
        }
    }
    list_push_back(&s->zap->domains, &d->link);
    return 0;
}

void plane_zap_remove(struct plane_set *s, const char *domain)
{
    if (s->zap == NULL) {
        return;
    }
    LIST_FOREACH_SAFE (k, tmp, &s->zap->domains) {
        struct zap_domain *d = CONTAINER_OF(k, struct zap_domain, link);

        if (strcmp(d->name, domain) == 0) {
            list_remove(&s->zap->domains, k);
            mem_free(d);
        }
    }
}

void plane_zap_close(struct plane_zap *z, struct closer *closer)
{
    closer_close_one(closer, (uv_handle_t *)&z->poll);
    (void)zmq_unbind(z->sock, ZAP_ENDPOINT); /* at once; closing alone frees the name later */
    (void)zmq_close(z->sock);
    z->sock = NULL;
}

void plane_zap_free(struct plane_zap *z)
{
    if (z == NULL) {
        return;
    }
    INVARIANT(list_is_empty(&z->domains));
    mem_free(z);
}
