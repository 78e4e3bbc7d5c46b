#include "fe_admin.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "fe_app.h"
#include "fe_conn.h"

#define ADMIN_TEXT_MAX (64U << 20)

static void answer(struct fe_conn *c, const char *type, struct str_view body)
{
    struct fe_answer a = {
        .status = 200, .content_type = type, .headers = SV_LIT("cache-control: no-store\r\n")};

    fe_conn_answer_text(c, &a, body);
}

static void answer_metrics(struct fe_conn *c, struct str_view snapshots)
{
    struct bytes out;
    struct err e = {0};

    bytes_init(&out, ADMIN_TEXT_MAX);
    if (metric_render(&out, snapshots) == 0) {
        answer(c, "text/plain; version=0.0.4; charset=utf-8", sv_from(out.p, out.n));
    } else {
        err_set(&e, ERR_NOMEM, NULL);
        fe_conn_error(c, &e);
    }
    bytes_fini(&out);
}

/* What this process knows without a broker. */
static void answer_alone(struct fe_conn *c, bool is_status)
{
    struct fe *fe = c->fe;
    struct bytes out;

    bytes_init(&out, ADMIN_TEXT_MAX);
    if (is_status) {
        bytes_put_str(&out, "{\"broker\":null,\"frontend\":{\"name\":");
        bytes_put_json_str(&out, sv_of(fe->name));
        bytes_printf(&out, ",\"connections\":%zu,\"in_flight\":%zu,\"draining\":%s}}",
                     fe->server.conns.count, map_count(fe->requests),
                     fe->is_draining ? "true" : "false");
        answer(c, "application/json", sv_from(out.p, out.n));
    } else {
        fe_app_snapshot(fe, &out);
        answer_metrics(c, sv_from(out.p, out.n));
    }
    bytes_fini(&out);
}

/* The broker's collection; with ours in it even when we have not reported to it yet. */
static void answer_with_own(struct fe_conn *c, struct str_view snapshots)
{
    struct bytes out;
    char own[FE_NAME_MAX + 16];
    int n = snprintf(own, sizeof(own), "process=\"%s\"", c->fe->name);

    if (snapshots.n > 0 && memmem(snapshots.p, snapshots.n, own, (size_t)n) != NULL) {
        answer_metrics(c, snapshots);
        return;
    }
    bytes_init(&out, ADMIN_TEXT_MAX);
    bytes_put_sv(&out, snapshots);
    fe_app_snapshot(c->fe, &out);
    answer_metrics(c, sv_from(out.p, out.n));
    bytes_fini(&out);
}

static int send_question(struct fe *fe, uint32_t call, bool is_status)
{
    struct msg_head h = {.type = MSG_STATS_GET};
    struct msg_body_STATS_GET m = {.call = call,
                                   .what = is_status ? MSG_STATS_STATUS : MSG_STATS_METRICS};
    struct tenant_id nobody = {{0}};
    struct bytes out = {0};
    int rc = msg_encode_STATS_GET(&out, &h, &m);

    if (rc == 0) {
        rc = fe_links_send(fe, fe_links_choose(fe, &nobody), sv_from(out.p, out.n), NULL);
    }
    bytes_fini(&out);
    return rc;
}

static void ask(struct fe_conn *c, bool is_status)
{
    struct fe_admin *a = &c->fe->admin;

    for (unsigned i = 0; i < FE_ADMIN_ASKS_MAX; i++) {
        struct fe_admin_ask *q = &a->asks[i];

        if (q->conn == NULL) {
            if (send_question(c->fe, ++a->next_call, is_status) != 0) {
                break;
            }
            *q = (struct fe_admin_ask){c, a->next_call, is_status, clock_ms() + FE_ADMIN_WAIT_MS};
            return;
        }
    }
    answer_alone(c, is_status);
}

void fe_admin_ask_metrics(struct fe_conn *c)
{
    ask(c, false);
}

void fe_admin_ask_status(struct fe_conn *c)
{
    ask(c, true);
}

void fe_admin_on_reply(struct fe *fe, const struct plane_in *in)
{
    struct msg_body_STATS_REPLY m;

    if (msg_decode_STATS_REPLY(&m, in->fields) != 0) {
        return;
    }
    for (unsigned i = 0; i < FE_ADMIN_ASKS_MAX; i++) {
        struct fe_admin_ask *q = &fe->admin.asks[i];
        struct fe_conn *c = q->conn;

        if (c == NULL || q->call != m.call) {
            continue;
        }
        q->conn = NULL;
        if (q->is_status) {
            answer(c, "application/json", buf_view(in->payload));
        } else {
            answer_with_own(c, buf_view(in->payload));
        }
        return;
    }
}

void fe_admin_on_conn_gone(struct fe_conn *c)
{
    if (!c->is_admin) {
        return;
    }
    for (unsigned i = 0; i < FE_ADMIN_ASKS_MAX; i++) {
        if (c->fe->admin.asks[i].conn == c) {
            c->fe->admin.asks[i].conn = NULL;
        }
    }
}

void fe_admin_tick(struct fe *fe)
{
    uint64_t now = clock_ms();

    for (unsigned i = 0; i < FE_ADMIN_ASKS_MAX; i++) {
        struct fe_admin_ask *q = &fe->admin.asks[i];
        struct fe_conn *c = q->conn;

        if (c != NULL && now > q->until_ms) {
            q->conn = NULL;
            answer_alone(c, q->is_status);
        }
    }
}
