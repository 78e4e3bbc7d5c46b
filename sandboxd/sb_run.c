#include "sb_run.h"

#include <string.h>

#include "base/mem.h"

/* Slack for JSON around the output: the cap is on what the code produced. */
#define BYTES_SLACK 65536U

struct sb_run *sb_run_new(const struct sb_origin *origin, enum msg_sbx_op op, size_t output_max)
{
    struct sb_run *r = mem_zalloc(sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    r->waiters[0] = *origin;
    r->waiter_count = 1;
    r->op = op;
    r->output_max = output_max;
    bytes_init(&r->out, output_max + BYTES_SLACK);
    bytes_init(&r->err, output_max + BYTES_SLACK);
    bytes_init(&r->results, output_max + BYTES_SLACK);
    bytes_init(&r->exception, output_max + BYTES_SLACK);
    return r;
}

void sb_run_free(struct sb_run *r)
{
    if (r == NULL) {
        return;
    }
    buf_unref(r->code);
    bytes_fini(&r->out);
    bytes_fini(&r->err);
    bytes_fini(&r->results);
    bytes_fini(&r->exception);
    mem_free(r);
}

bool sb_run_has_op_id(const struct sb_run *r)
{
    static const struct msg_id16 none;

    return memcmp(&r->op_id, &none, sizeof(none)) != 0;
}

bool sb_origin_eq(const struct sb_origin *a, const struct sb_origin *b)
{
    return a->link == b->link && a->call == b->call &&
           memcmp(&a->rid, &b->rid, sizeof(a->rid)) == 0;
}

int sb_run_add_waiter(struct sb_run *r, const struct sb_origin *origin)
{
    for (unsigned i = 0; i < r->waiter_count; i++) {
        if (sb_origin_eq(&r->waiters[i], origin)) {
            return 0;
        }
    }
    if (r->waiter_count == SB_WAITERS_MAX) {
        return ERR_LIMIT;
    }
    r->waiters[r->waiter_count++] = *origin;
    return 0;
}

bool sb_run_drop_waiter(struct sb_run *r, const struct sb_origin *origin)
{
    for (unsigned i = 0; i < r->waiter_count; i++) {
        if (sb_origin_eq(&r->waiters[i], origin)) {
            r->waiters[i] = r->waiters[--r->waiter_count];
            return true;
        }
    }
    return false;
}

static bool has_room(struct sb_run *r, size_t n)
{
    size_t used = r->out.n + r->err.n + r->results.n + r->exception.n;

    if (used > r->output_max || n > r->output_max - used) {
        r->is_truncated = true;
        return false;
    }
    return true;
}

static enum msg_sbx_event note_json(struct sb_run *r, struct bytes *into, struct str_view data,
                                    enum msg_sbx_event kind)
{
    if (!has_room(r, data.n)) {
        return 0;
    }
    if (into == &r->results && into->n > 0) {
        (void)bytes_put_char(into, ',');
    }
    return bytes_put_sv(into, data) == 0 ? kind : 0;
}

enum msg_sbx_event sb_run_event(struct sb_run *r, enum sb_event_kind kind, struct str_view data)
{
    uint64_t n;

    switch (kind) {
    case SB_EVENT_STDOUT:
        return has_room(r, data.n) && bytes_put_sv(&r->out, data) == 0 ? MSG_SBX_STDOUT : 0;
    case SB_EVENT_STDERR:
        return has_room(r, data.n) && bytes_put_sv(&r->err, data) == 0 ? MSG_SBX_STDERR : 0;
    case SB_EVENT_DISPLAY:
        return note_json(r, &r->results, data, MSG_SBX_DISPLAY);
    case SB_EVENT_EXCEPTION:
        /* the first one is the cell's; a second is none */
        return r->exception.n == 0 ? note_json(r, &r->exception, data, MSG_SBX_EXCEPTION) : 0;
    case SB_EVENT_COUNT:
        if (sv_to_u64(data, UINT32_MAX, &n)) {
            r->count = n;
            r->has_count = true;
        }
        return 0;
    case SB_EVENT_FILES: /* for those who ask for files */
        return 0;
    }
    return 0;
}

static void put_error(struct bytes *b, const struct sb_run *r, const char *name, const char *text)
{
    (void)bytes_put_str(b, ",\"error\":");
    if (r->exception.n > 0) {
        (void)bytes_put(b, r->exception.p, r->exception.n);
    } else if (name != NULL) {
        (void)bytes_put_str(b, "{\"name\":");
        (void)bytes_put_json_str(b, sv_of(name));
        (void)bytes_put_str(b, ",\"value\":");
        (void)bytes_put_json_str(b, sv_of(text != NULL ? text : ""));
        (void)bytes_put_str(b, ",\"traceback\":\"\"}");
    } else {
        (void)bytes_put_str(b, "null");
    }
}

struct buf *sb_run_result(struct sb_run *r, const char *error_name, const char *error_text,
                          const char *sandbox_id)
{
    struct bytes b;
    struct buf *ret = NULL;

    /* escaping can make a byte six */
    bytes_init(&b, (r->output_max + BYTES_SLACK) * 7);
    (void)bytes_put_str(&b, "{\"object\":\"code_execution\",\"stdout\":");
    (void)bytes_put_json_str(&b, sv_from(r->out.p, r->out.n));
    (void)bytes_put_str(&b, ",\"stderr\":");
    (void)bytes_put_json_str(&b, sv_from(r->err.p, r->err.n));
    (void)bytes_put_str(&b, ",\"results\":[");
    if (r->results.n > 0) {
        (void)bytes_put(&b, r->results.p, r->results.n);
    }
    (void)bytes_put_char(&b, ']');
    put_error(&b, r, error_name, error_text);
    (void)bytes_put_str(&b, ",\"execution_count\":");
    if (r->has_count) {
        (void)bytes_put_u64(&b, r->count);
    } else {
        (void)bytes_put_str(&b, "null");
    }
    (void)bytes_put_str(&b, ",\"truncated\":");
    (void)bytes_put_str(&b, r->is_truncated ? "true" : "false");
    (void)bytes_put_str(&b, ",\"sandbox_id\":");
    (void)bytes_put_json_str(&b, sv_of(sandbox_id));
    (void)bytes_put_char(&b, '}');
    if (b.rc == 0) {
        ret = buf_from_bytes(&b);
    }
    bytes_fini(&b);
    return ret;
}
