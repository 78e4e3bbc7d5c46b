/* A hostile provider: the whole loop with a fake job. First byte: surface, stream, piece; the rest
 * is the first answer. The job ends exactly once (the fake checks), and what the client gets is
 * well formed. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "fake_job.h"
#include "fake_model.h"
#include "ic_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A stream for the client: whole events, JSON on one line, numbers without a gap. */
static void check_stream(struct str_view out, bool is_chat)
{
    uint64_t sequence = 0;

    while (out.n > 0) {
        const char *end = memmem(out.p, out.n, "\n\n", 2);
        struct str_view frame = {out.p, 0};
        struct icj v;

        REQUIRE(end != NULL);
        frame.n = (size_t)(end - out.p);
        out.n -= frame.n + 2;
        out.p = end + 2;
        if (!is_chat) {
            size_t n = sv_find(frame, '\n');

            REQUIRE(sv_starts(frame, SV_LIT("event: ")) && n < frame.n);
            frame = sv_from(frame.p + n + 1, frame.n - n - 1);
        }
        REQUIRE(sv_starts(frame, SV_LIT("data: ")));
        frame = sv_from(frame.p + 6, frame.n - 6);
        if (is_chat && sv_eq(frame, SV_LIT("[DONE]"))) {
            REQUIRE(out.n == 0);
            return;
        }
        REQUIRE(icj_parse(&v, frame, NULL) == 0 && v.type == ICJ_OBJECT);
        REQUIRE(is_chat || icj_uint_or(icj_get(v, "sequence_number"), UINT64_MAX) == sequence++);
    }
}

static void check_answer(const struct fake_job *f, bool is_chat, bool is_stream)
{
    struct str_view out = sv_from(f->out.p, f->out.n);
    struct icj v;

    if (!f->is_finished) {
        REQUIRE(f->error.code != 0);
    } else if (f->status == 200 && is_stream) {
        check_stream(out, is_chat);
    } else {
        REQUIRE(icj_parse(&v, out, NULL) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct fm_answer second = {.items = {{FM_TEXT, "done", NULL, NULL}}, .out = 1};
    struct bytes body = {0};
    struct fake_job *f;
    bool is_chat;
    bool is_stream;

    if (size < 1 || size > 1 << 16) {
        return 0;
    }
    is_chat = (data[0] & 1) != 0;
    is_stream = (data[0] & 2) != 0;
    bytes_printf(&body,
                 "{\"model\":\"m\",%s,\"stream\":%s,\"tools\":[{\"type\":\"code_interpreter\","
                 "\"container\":{\"type\":\"auto\"}}]%s}",
                 is_chat ? "\"messages\":[{}]" : "\"input\":[]", is_stream ? "true" : "false",
                 (data[0] & 4) != 0 ? ",\"include\":[\"code_interpreter_call.outputs\"]" : "");
    f = fake_job_new(is_chat ? MSG_KIND_CHAT : MSG_KIND_RESPONSES, body.p);
    bytes_fini(&body);
    f->piece = (data[0] & 8) != 0 ? 7 : 0;
    char *text = malloc(size);

    REQUIRE(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    fake_job_answer(f, 200, text);
    if (is_stream) {
        f->answers[0].headers = "content-type: text/event-stream\r\n";
    }
    fake_job_answer(f, 200, fm_write(is_chat, is_stream, 2, &second));
    fake_job_start(f);
    fake_job_run(f);
    REQUIRE(f->is_done);
    check_answer(f, is_chat, is_stream);
    fake_job_free(f);
    return 0;
}
