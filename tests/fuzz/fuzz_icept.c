/* A hostile provider: the whole loop with a fake job. First byte: surface, stream, piece; the rest
 * is the first answer. The job ends exactly once (the fake checks), and an internal call never
 * reaches the client. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "fake_job.h"
#include "fake_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    fake_job_free(f);
    return 0;
}
