/* Files of a sandbox: one operation at a time, between runs; see zg_files.h for what the sandbox
 * does and sb_provider.h for what the core is told. */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "sb_local_int.h"

#define PREFIX "/mnt/data"

/* "/mnt/data/a", "a", "./a" -> "a"; false for what is not below /mnt/data or is no name at all. The
 * sandbox checks again, with links in sight. */
static bool path_normal(struct str_view in, struct str_view *ret)
{
    struct str_view prefix = SV_INIT(PREFIX);

    if (in.n > 0 && in.p[0] == '/') {
        if (!sv_starts(in, prefix) || (in.n > prefix.n && in.p[prefix.n] != '/')) {
            return false;
        }
        in = (struct str_view){in.p + prefix.n, in.n - prefix.n};
    }
    while (in.n > 0 && (in.p[0] == '/' || (in.p[0] == '.' && (in.n == 1 || in.p[1] == '/')))) {
        in = (struct str_view){in.p + 1, in.n - 1};
    }
    if (in.n > ZYP_PATH_MAX || (in.n > 0 && memchr(in.p, '\0', in.n) != NULL)) {
        return false;
    }
    for (struct str_view rest = in; rest.n > 0;) {
        size_t n = sv_find(rest, '/');

        if (n == 2 && rest.p[0] == '.' && rest.p[1] == '.') {
            return false;
        }
        n = n < rest.n ? n + 1 : n;
        rest = (struct str_view){rest.p + n, rest.n - n};
    }
    *ret = in;
    return true;
}

static int errno_code(uint32_t native)
{
    switch (native) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EFBIG:
    case E2BIG:
    case ENOSPC:
    case ENOMEM:
        return ERR_BODY_TOO_LARGE;
    default:
        return ERR_INVALID;
    }
}

void sb_local_file_finish(struct sb_box *b, int rc, struct buf *data, const struct err *e)
{
    static const struct err none;
    sb_data_cb cb = b->file_cb;

    REQUIRE(b->has_file);
    b->has_file = false;
    b->file_cb = NULL;
    buf_unref(b->code);
    b->code = NULL;
    if (b->state != SB_LOCAL_DYING) {
        (void)uv_timer_stop(&b->timer);
    }
    if (b->state == SB_LOCAL_BUSY) {
        sb_local_box_move(b, SB_LOCAL_IDLE, "file");
    }
    cb(b->file_ctx, rc, data, e != NULL ? e : &none);
}

/* Answers from the timer: never from inside the call. */
static void refuse_later(struct sb_box *b, int code, const char *text)
{
    (void)err_set(&b->file_err, code, "%s", text);
    (void)uv_timer_start(&b->timer, b->timer.timer_cb, 0, 0);
}

void sb_local_file_start(struct sb_box *b, enum sb_file_op op, struct str_view path,
                         struct str_view data, sb_data_cb cb, void *ctx)
{
    struct str_view name;
    struct bytes body = {0};

    REQUIRE(!b->has_run && !b->has_file && b->state >= SB_LOCAL_IDLE && b->state <= SB_LOCAL_DEAD);
    b->has_file = true;
    b->file_op = op;
    b->file_cb = cb;
    b->file_ctx = ctx;
    b->file_err.code = 0;
    if (b->state == SB_LOCAL_DEAD) {
        refuse_later(b, ERR_SANDBOX_LOST, b->why);
        return;
    }
    sb_local_box_move(b, SB_LOCAL_BUSY, "file");
    if (!path_normal(path, &name) || (name.n == 0 && op != SB_FILE_LIST)) {
        refuse_later(b, ERR_INVALID,
                     "the path must name something below /mnt/data, without .. and at most 1024 "
                     "bytes long");
        return;
    }
    if (data.n > ZYP_FILE_MAX) {
        refuse_later(b, ERR_BODY_TOO_LARGE, "a file may be 32 MiB large at most");
        return;
    }
    uint8_t head[ZYP_FILE_HEAD];

    zyp_file_head_encode(head, (enum zyp_file_op)(op + 1), name.n);
    bytes_init(&body, ZYP_FILE_HEAD + ZYP_PATH_MAX + (size_t)ZYP_FILE_MAX + 1);
    (void)bytes_put(&body, head, sizeof(head));
    (void)bytes_put_sv(&body, name);
    (void)bytes_put_sv(&body, data);
    struct buf *frame = body.rc == 0 ? buf_from_bytes(&body) : NULL;

    bytes_fini(&body);
    if (frame == NULL) {
        refuse_later(b, ERR_NOMEM, "out of memory");
        return;
    }
    (void)uv_timer_start(&b->timer, b->timer.timer_cb, SB_LOCAL_FILE_MS, 0);
    sb_local_file_send(b, frame);
    buf_unref(frame);
}

void sb_local_file_on_timer(struct sb_box *b)
{
    if (b->file_err.code != 0) {
        struct err e = b->file_err;

        sb_local_file_finish(b, e.code, NULL, &e);
        return;
    }
    b->is_broken = true; /* its code stands in the way of the answer */
    sb_local_box_kill(b);
}

static int entry_write(struct bytes *out, const struct zyp_entry *e)
{
    static const char *const kinds[] = {"file", "directory", "link", "other"};
    struct str_view name = {e->name, e->name_len};
    const char *kind = kinds[strchr("fdlo", e->kind) - "fdlo"];

    (void)bytes_put_str(out, out->n > 1 ? ",{\"name\":" : "{\"name\":");
    (void)bytes_put_json_str(out, name);
    return bytes_printf(out, ",\"type\":\"%s\",\"size\":%llu,\"mtime_ms\":%llu}", kind,
                        (unsigned long long)e->size, (unsigned long long)e->mtime_ms);
}

/* Entries that a sandbox sent, as a JSON array. 0, ERR_INVALID (nonsense) or ERR_NOMEM. */
int sb_local_file_entries(struct str_view in, struct bytes *out)
{
    struct zyp_entry e;

    bytes_reset(out);
    (void)bytes_put_char(out, '[');
    for (unsigned n = 0; in.n > 0; n++) {
        int used = zyp_entry_decode(&e, in.p, in.n);

        if (used < 0 || n == ZYP_ENTRIES_MAX) {
            return ERR_INVALID;
        }
        (void)entry_write(out, &e);
        in = (struct str_view){in.p + used, in.n - (size_t)used};
    }
    return bytes_put_char(out, ']') == 0 ? 0 : ERR_NOMEM;
}

bool sb_local_file_on_reply(struct sb_box *b, struct str_view in)
{
    struct err e;
    uint32_t native = 0;

    if (!b->has_file || b->file_err.code != 0 || in.n < 4) {
        return false;
    }
    for (unsigned i = 0; i < 4; i++) {
        native |= (uint32_t)(unsigned char)in.p[i] << (8 * i);
    }
    if (native != 0) {
        int code = errno_code(native);

        (void)err_set(&e, code, "%s", native < 4096 ? strerror((int)native) : "unknown error");
        sb_local_file_finish(b, code, NULL, &e);
        return true;
    }
    in = (struct str_view){in.p + 4, in.n - 4};
    if (b->file_op == SB_FILE_LIST || b->file_op == SB_FILE_STAT) {
        if (sb_local_file_entries(in, &b->p->scratch) != 0) {
            return false;
        }
        in = (struct str_view){b->p->scratch.p, b->p->scratch.n};
    }
    struct buf *data =
        b->file_op != SB_FILE_PUT && b->file_op != SB_FILE_DELETE ? buf_copy(in.p, in.n) : NULL;

    sb_local_file_finish(b, 0, data, NULL);
    buf_unref(data);
    return true;
}
