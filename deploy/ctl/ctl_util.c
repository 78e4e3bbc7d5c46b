#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/cfg_text.h"
#include "ctl.h"
#include "os/os_proc.h"

#define FILE_MAX 1048576U

int ctl_complain(const struct err *e)
{
    (void)fprintf(stderr, "cofferdam: %s\n", e->text);
    return 1;
}

int ctl_config(struct cfg **ret, const struct ctl_opts *o)
{
    struct err e = {0};

    if (cfg_load(ret, o->config, CFG_FOR_CTL, NULL, NULL, &e) != 0) {
        return ctl_complain(&e);
    }
    return 0;
}

int ctl_validate(const char *file, struct str_view text, cfg_notice_cb notice, void *ctx,
                 struct err *e)
{
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        struct cfg *c = NULL;
        int rc = cfg_load_text(&c, file, text, role, role == CFG_FOR_CTL ? notice : NULL, ctx, e);

        cfg_unref(c);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int ctl_read_file(struct bytes *out, const char *path, struct err *e)
{
    char buf[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    if (fd < 0) {
        return err_set(e, ERR_CONFIG, "%.300s: cannot open: %s; check the path and permissions",
                       path, strerror(errno));
    }
    while (out->n <= FILE_MAX && (n = read(fd, buf, sizeof(buf))) > 0) {
        (void)bytes_put(out, buf, (size_t)n);
    }
    int saved = errno;

    (void)close(fd);
    if (n < 0) {
        return err_set(e, ERR_CONFIG, "%.300s: cannot read: %s", path, strerror(saved));
    }
    return out->rc != 0 ? err_set(e, out->rc, NULL) : 0;
}

int ctl_listen_url(char *dst, size_t cap, const char *listen)
{
    char host[64];
    uint16_t port = 0;
    int rc = cfg_split_listen(listen, host, sizeof(host), &port);

    if (rc != 0) {
        return rc;
    }
    const char *shown = strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1"
                        : strcmp(host, "::") == 0    ? "::1"
                                                     : host;
    bool is_v6 = strchr(shown, ':') != NULL;
    int n = snprintf(dst, cap, "http://%s%s%s:%u", is_v6 ? "[" : "", shown, is_v6 ? "]" : "",
                     (unsigned)port);

    return n > 0 && (size_t)n < cap ? 0 : ERR_INVALID;
}

int ctl_url(char *dst, size_t cap, const struct cfg *c, const char *addr_file, const char *listen,
            struct err *e)
{
    char path[512];
    char lock[512];
    struct bytes text = {0};
    struct err ignored;
    pid_t pid = 0;

    bytes_init(&text, 4096);
    (void)snprintf(path, sizeof(path), "%s/%s", c->run_dir, addr_file);
    (void)snprintf(lock, sizeof(lock), "%s/" CTL_PID_FILE, c->run_dir);
    if (os_lock_holder(&pid, lock, &ignored) == 0 && ctl_read_file(&text, path, &ignored) == 0 &&
        text.n > 0) {
        text.p[strcspn(text.p, "\n")] = '\0';
        int rc = ctl_listen_url(dst, cap, text.p);

        bytes_fini(&text);
        return rc == 0 ? 0 : err_set(e, ERR_CONFIG, "%.300s: damaged; restart the gateway", path);
    }
    bytes_fini(&text);
    if (listen[0] == '\0') {
        return err_set(e, ERR_CONFIG,
                       "%.300s: cofferdam.admin_listen is off; turn it on to see the status",
                       c->file);
    }
    if (ctl_listen_url(dst, cap, listen) != 0) {
        return err_set(e, ERR_CONFIG, "%.300s: listen address %.100s is not usable", c->file,
                       listen);
    }
    return 0;
}
