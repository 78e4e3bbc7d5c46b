#include <stdio.h>

#include "base/log.h"
#include "ctl_super.h"

#define PROBE_MS                                                                                   \
    10U /* at first; later PROBE_LATER_MS: importing an interpreter takes seconds on a slow host   \
         */
#define PROBE_LATER_MS 50U
#define PROBES_FAST    20U
#define PROBE_TOTAL_MS 2000U

static void on_timer(uv_timer_t *t);

static void again(struct ctl_super *s)
{
    (void)uv_timer_start(&s->ready_timer, on_timer,
                         s->probes < PROBES_FAST ? PROBE_MS : PROBE_LATER_MS, 0);
}

static void ready(struct ctl_super *s)
{
    s->is_ready = true;
    (void)printf("cofferdam ready %s\n", s->url[0] != '\0' ? s->url : "(no frontend here)");
    (void)fflush(stdout);
    ctl_ready_stop(s);
}

static void on_head(void *ctx, int status, struct str_view headers)
{
    struct ctl_super *s = ctx;

    (void)headers;
    s->probe_status = status;
}

static void on_data(void *ctx, struct str_view data)
{
    (void)ctx;
    (void)data;
}

/* Connections are spread over the frontends, so as many answers in a row must be good. */
static void on_done(void *ctx, int rc, const struct err *e)
{
    struct ctl_super *s = ctx;

    (void)e;
    s->probe = NULL;
    s->probes_good = rc == 0 && s->probe_status == 200 ? s->probes_good + 1 : 0;
    if (s->probes_good >= s->cfg->frontends) {
        ready(s);
    } else if (s->probes_good > 0) {
        on_timer(&s->ready_timer);
    } else {
        again(s);
    }
}

static bool all_running(struct ctl_super *s)
{
    LIST_FOREACH_SAFE (l, next, &s->children) {
        if (CONTAINER_OF(l, struct ctl_child, link)->pid == 0) {
            return false;
        }
    }
    return true;
}

static void on_timer(uv_timer_t *t)
{
    struct ctl_super *s = t->data;
    char url[160];
    struct uvcurl_hooks hooks = {
        .on_head = on_head, .on_data = on_data, .on_done = on_done, .ctx = s};
    struct uvcurl_req req = {.method = "GET",
                             .url = url,
                             .connect_ms = PROBE_TOTAL_MS,
                             .total_ms = PROBE_TOTAL_MS,
                             .body_max = 65536,
                             .is_once = true};

    if (s->curl == NULL) {
        return;
    }
    if (s->url[0] == '\0') {
        if (all_running(s)) {
            ready(s);
        } else {
            again(s);
        }
        return;
    }
    s->probe_status = 0;
    s->probes++;
    (void)snprintf(url, sizeof(url), "%s/readyz", s->url);
    if (uvcurl_start(s->curl, &s->probe, &req, &hooks, NULL) != 0) {
        s->probe = NULL;
        again(s);
    }
}

int ctl_ready_start(struct ctl_super *s, struct err *e)
{
    int rc = uvcurl_new(&s->curl, &s->loop, 1, e);

    if (rc == 0) {
        again(s);
    }
    return rc;
}

void ctl_ready_stop(struct ctl_super *s)
{
    (void)uv_timer_stop(&s->ready_timer);
    if (s->curl != NULL) {
        uvcurl_close(s->curl, NULL, NULL); /* cancels the probe */
        s->curl = NULL;
        s->probe = NULL;
    }
}
