/* The worker between a played broker, a played frontend and a scripted provider: whole stories. */
#include "wk_rig.h"

#include <stdio.h>

#include "wk_pass.h"

static const char models[] =
    "- model_name: gpt\n"
    "  litellm_params: {model: openai/real, api_base: 'http://127.0.0.1:PORT/v1', api_key: sk-up}\n"
    "- model_name: 'p/*'\n"
    "  litellm_params: {model: 'openai/*', api_base: 'http://127.0.0.1:PORT/w', organization: "
    "org-1}\n"
    "- model_name: two\n"
    "  litellm_params: {model: openai/first, api_base: 'http://127.0.0.1:1/v1', api_key: sk-a}\n"
    "- model_name: two\n"
    "  litellm_params: {model: openai/second, api_base: 'http://127.0.0.1:PORT/v1', api_key: sk-b, "
    "order: 2}\n"
    "- model_name: down\n"
    "  litellm_params: {model: openai/real, api_base: 'http://127.0.0.1:1/v1', api_key: sk-a, "
    "max_retries: 0}\n"
    "- model_name: once\n"
    "  litellm_params: {model: openai/real, api_base: 'http://127.0.0.1:PORT/v1', api_key: sk-a, "
    "max_retries: 0}\n";

static const struct rig_job chat = {
    .number = 1,
    .kind = MSG_KIND_CHAT,
    .path = "/v1/chat/completions?x=1",
    .headers = "content-type: application/json\r\nx-stainless-lang: js\r\nopenai-beta: b=1\r\n",
    .body = "{\"model\":\"gpt\",\"messages\":[]}"};

static unsigned loop_jobs;

/* The loop is another library; here a job for it is only counted. */
static void icept_cancel(struct wk_job *job, int code)
{
    (void)code;
    wk_job_done(job, MSG_OUTCOME_CANCELLED);
}

static void icept_writable(struct wk_job *job)
{
    (void)job;
}

void wk_icept_start(struct wk_job *job)
{
    static const struct wk_handler_ops ops = {"loop", icept_cancel, icept_writable};
    struct wk_head head = {.status = 200, .length = 4, .stream = MSG_STREAM_NONE};

    loop_jobs++;
    job->ops = &ops;
    wk_out_head(job, &head);
    (void)wk_out_write(job, SV_LIT("loop"));
    wk_out_finish(job);
    wk_job_done(job, MSG_OUTCOME_OK);
}

static void test_fast_path(void **state)
{
    struct rig r;

    (void)state;
    rig_start(&r, models, "");
    assert_int_equal(r.at_broker.v[1].status, 64); /* credit */
    rig_reply_json(&r, "200 OK", "X-Request-Id: up1\r\nSet-Cookie: a\r\n", "{\"ok\":1}");
    rig_dispatch(&r, &chat);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_int_equal(h->flags, MSG_FLAG_LAST); /* the whole answer is one message */
    assert_int_equal(h->status, 200);
    assert_int_equal(h->length, 8);
    assert_string_equal(h->payload, "{\"ok\":1}");
    assert_string_equal(h->text,
                        "content-type: application/json\r\nx-provider-request-id: up1\r\n");
    h = rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    assert_int_equal(h->status, MSG_OUTCOME_OK);
    assert_non_null(strstr(r.requests[0], "POST /v1/chat/completions?x=1 HTTP/1.1\r\n"));
    assert_non_null(strstr(r.requests[0], "Authorization: Bearer sk-up\r\n"));
    assert_non_null(strstr(r.requests[0], "openai-beta: b=1\r\n"));
    assert_null(strstr(r.requests[0], "stainless"));
    assert_non_null(strstr(r.requests[0], "\r\n\r\n{\"model\":\"real\",\"messages\":[]}"));
    assert_int_equal(r.at_frontend.count, 1);
    /* a second one on the same connection; wildcard model, without /v1, reserved fields cut */
    rig_reply_json(&r, "200 OK", "", "{}");
    struct rig_job two = chat;
    two.number = 2;
    two.kind = MSG_KIND_RESPONSES;
    two.path = "/responses";
    two.body =
        "{\"callbacks\":1,\"model\":\"p\\/x\\\"y\",\"metadata\":{\"session_id\":\"s\",\"k\":1}}";
    rig_dispatch(&r, &two);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    assert_non_null(strstr(r.requests[1], "POST /w/responses HTTP/1.1\r\n"));
    assert_non_null(strstr(r.requests[1], "OpenAI-Organization: org-1\r\n"));
    assert_non_null(strstr(r.requests[1], "{\"model\":\"x\\\"y\",\"metadata\":{\"k\":1}}"));
    assert_int_equal(r.connections, 1);
    rig_stop(&r);
}

static void test_stream_and_window(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(
        &r,
        (struct rig_reply){
            .parts =
                {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
                 "data: 1\n\ndata: {\"half", "\":2}\n\n", "data: [DONE]\n\n"},
            .does_close = true});
    job.body = "{\"model\":\"gpt\",\"stream\":true}";
    rig_dispatch(&r, &job);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_int_equal(h->n, 0);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    assert_string_equal(r.at_frontend.v[1].payload, "data: 1\n\n");
    assert_string_equal(r.at_frontend.v[2].payload, "data: {\"half\":2}\n\n");
    assert_string_equal(r.at_frontend.v[3].payload, "data: [DONE]\n\n");
    assert_non_null(strstr(r.requests[0], "Accept: text/event-stream"));
    /* a client that takes nothing stops the provider; each WINDOW lets more through */
    static char big[60001];
    static char head[128];
    memset(big, 'z', sizeof(big) - 1);
    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                   (sizeof(big) - 1) * 3);
    rig_reply(&r, (struct rig_reply){.parts = {head, big, big, big}});
    job.number = 2;
    job.window = 1024;
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 2);
    assert_true(h->n <= 1024);
    rig_turn_for(&r, 50);
    unsigned before = r.at_frontend.count;
    size_t total = h->n;
    while (rig_count(&r.at_broker, MSG_DONE) < 2) {
        rig_window(&r, 2, 30000);
        rig_turn_for(&r, 10);
    }
    for (unsigned i = before; i < r.at_frontend.count; i++) {
        assert_true(r.at_frontend.v[i].n <= 30000 + 1024);
        total += r.at_frontend.v[i].n;
    }
    assert_int_equal(total, (sizeof(big) - 1) * 3);
    rig_stop(&r);
}

static void expect_error(struct rig *r, struct rig_job job, int code, const char *text)
{
    static uint8_t number = 100;
    unsigned n = rig_count(&r->at_frontend, MSG_END);

    job.number = number++;
    rig_dispatch(r, &job);
    struct rig_heard *h = rig_wait(r, &r->at_frontend, MSG_END, n + 1);
    if (h->code != code || strstr(h->text, text) == NULL) {
        fail_msg("wanted %s '%s', got %s '%s'", err_name(code), text, err_name(h->code), h->text);
    }
}

static void test_bad_requests(void **state)
{
    static const struct {
        const char *body;
        int code;
        const char *text;
    } rows[] = {
        {NULL, ERR_INVALID_JSON, "empty"},
        {"{\"model\":", ERR_INVALID_JSON, "byte 9"},
        {"[]", ERR_INVALID_TYPE, "JSON object"},
        {"{}", ERR_MISSING_PARAM, "'model'"},
        {"{\"model\":3}", ERR_INVALID_TYPE, "a number"},
        {"{\"model\":\"none\"}", ERR_MODEL_NOT_FOUND, "'none'"},
        {"{\"model\":\"*\"}", ERR_MODEL_NOT_FOUND, "'*'"},
        {"{\"model\":\"gpt\",\"model\":\"gpt\"}", ERR_INVALID, "'model'"},
    };
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        job.body = rows[i].body;
        expect_error(&r, job, rows[i].code, rows[i].text);
    }
    job.body = chat.body;
    job.path = "/v1/../admin";
    expect_error(&r, job, ERR_NOT_FOUND, "segments");
    job.path = "/v1/%2E./admin";
    expect_error(&r, job, ERR_NOT_FOUND, "segments");
    job.path = "/v1/a b";
    expect_error(&r, job, ERR_BAD_REQUEST, "percent-encoded");
    job.path = "/v1/chat/completions";
    job.body = "{\"model\":\"down\"}";
    expect_error(&r, job, ERR_UPSTREAM_CONNECT, "'down'");
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, COUNT_OF(rows) + 4);
    rig_stop(&r);
}

static void test_retries(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    /* 429 with a time, then a cut connection, then the answer */
    rig_reply_json(&r, "429 Too Many Requests", "Retry-After-Ms: 20\r\n", "{\"error\":1}");
    rig_reply(&r, (struct rig_reply){.parts = {NULL}, .does_close = true});
    rig_reply_json(&r, "200 OK", "", "{\"ok\":1}");
    rig_dispatch(&r, &job);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_int_equal(h->status, 200);
    assert_int_equal(r.request_count, 3);
    /* tries are over: the provider's own last answer reaches the client */
    for (unsigned i = 0; i < 3; i++) {
        rig_reply_json(&r, "503 Busy", i == 2 ? "X-Mine: 1\r\n" : "Retry-After-Ms: 1\r\n",
                       i == 2 ? "{\"last\":1}" : "{\"n\":1}");
    }
    job.number = 2;
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 2);
    assert_int_equal(h->status, 503);
    assert_string_equal(h->payload, "{\"last\":1}");
    assert_non_null(strstr(h->text, "x-mine: 1"));
    /* not retryable: at once */
    rig_reply_json(&r, "400 Bad", "", "{\"error\":{}}");
    job.number = 3;
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 3);
    assert_int_equal(h->status, 400);
    /* asked to wait longer than a minute: passed on */
    rig_reply_json(&r, "429 Later", "Retry-After: 61\r\n", "{}");
    job.number = 4;
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 4);
    assert_int_equal(h->status, 429);
    assert_non_null(strstr(h->text, "retry-after: 61"));
    /* another deployment at once when the first is down */
    rig_reply_json(&r, "200 OK", "", "{}");
    job.number = 5;
    job.body = "{\"model\":\"two\"}";
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 5);
    assert_int_equal(h->status, 200);
    assert_non_null(strstr(r.requests[r.request_count - 1], "Bearer sk-b"));
    assert_non_null(strstr(r.requests[r.request_count - 1], "{\"model\":\"second\"}"));
    /* an error status, then nothing but cut connections: the status is worth more. (A cut on a
     * reused connection would be sent again by libcurl itself.) */
    rig_reply(&r,
              (struct rig_reply){.parts = {"HTTP/1.1 500 Oops\r\nRetry-After-Ms: 1\r\nConnection: "
                                           "close\r\nContent-Length: 10\r\n\r\n{\"kept\":1}"},
                                 .does_close = true});
    rig_reply(&r, (struct rig_reply){.parts = {NULL}, .does_close = true});
    rig_reply(&r, (struct rig_reply){.parts = {NULL}, .does_close = true});
    job.number = 6;
    job.body = "{\"model\":\"gpt\"}";
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 6);
    assert_int_equal(h->status, 500);
    assert_string_equal(h->payload, "{\"kept\":1}");
    /* an object may not be made twice: only what surely did not happen is sent again */
    rig_reply_json(&r, "500 Oops", "", "{}");
    job.number = 7;
    job.kind = MSG_KIND_OBJECT;
    job.path = "/v1/files";
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 7);
    assert_int_equal(h->status, 500);
    assert_int_equal(r.request_count, r.reply_count);
    rig_stop(&r);
}

/* An answer that would be tried again but is too large to keep meanwhile goes to the client at
 * once. */
static void test_large_retryable_answer(void **state)
{
    static char body[1300001];
    static char head[128];
    struct rig r;
    size_t total = 0;

    (void)state;
    rig_start(&r, models, "");
    memset(body, 'e', sizeof(body) - 1);
    (void)snprintf(head, sizeof(head), "HTTP/1.1 503 Busy\r\nContent-Length: %zu\r\n\r\n",
                   sizeof(body) - 1);
    rig_reply(&r, (struct rig_reply){.parts = {head, body}});
    struct rig_job job = chat;
    job.window = 1U << 22;
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    /* DONE travels another way and may overtake the end of the answer */
    while ((r.at_frontend.v[r.at_frontend.count - 1].flags & MSG_FLAG_LAST) == 0) {
        rig_turn_for(&r, 1);
    }
    assert_int_equal(r.at_frontend.v[0].status, 503);
    for (unsigned i = 0; i < r.at_frontend.count; i++) {
        total += r.at_frontend.v[i].n;
    }
    assert_int_equal(total, sizeof(body) - 1);
    assert_int_equal(r.request_count, 1);
    rig_stop(&r);
}

static void test_cut_mid_answer(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(&r,
              (struct rig_reply){.parts = {"HTTP/1.1 200 OK\r\nContent-Type: "
                                           "text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                                           "9\r\ndata: 1\n\n\r\n"},
                                 .does_close = true});
    job.body = "{\"model\":\"once\",\"stream\":true}";
    rig_dispatch(&r, &job);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_END, 1);
    assert_int_equal(h->code, ERR_UPSTREAM_CUT);
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_DONE, 1)->status, MSG_OUTCOME_ERROR);
    rig_stop(&r);
}

/* A stream that has said its last word ends well, also when its connection stays open or is cut. */
static void test_stream_kept_open(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Content-Length: 1000\r\n\r\n";
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(&r, (struct rig_reply){.parts = {head, "data: 1\n\ndata: [DO", "NE]\n\n"}});
    job.body = "{\"model\":\"gpt\",\"stream\":true}";
    rig_dispatch(&r, &job);
    uint64_t from = clock_ms();
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_DONE, 1)->status, MSG_OUTCOME_OK);
    assert_in_range(clock_ms() - from, WK_PASS_LINGER_MS, 5000);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_END, 1);
    assert_int_equal(h->code, 0);
    rig_until(&r, &r.closed_connections, 1);
    /* cut after the last event */
    rig_reply(&r, (struct rig_reply){.parts = {head, "event: response.completed\ndata: {}\n\n"},
                                     .does_close = true});
    job.number = 2;
    job.kind = MSG_KIND_RESPONSES;
    job.path = "/v1/responses";
    rig_dispatch(&r, &job);
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_DONE, 2)->status, MSG_OUTCOME_OK);
    assert_int_equal(rig_wait(&r, &r.at_frontend, MSG_END, 2)->code, 0);
    /* cut before it */
    rig_reply(&r, (struct rig_reply){.parts = {head, "event: response.completed\ndata: {}\n"},
                                     .does_close = true});
    job.number = 3;
    rig_dispatch(&r, &job);
    assert_int_equal(rig_wait(&r, &r.at_frontend, MSG_END, 3)->code, ERR_UPSTREAM_CUT);
    rig_stop(&r);
}

static void heard_put(const struct rig *r, uint8_t number, char *dst, size_t cap)
{
    size_t n = 0;

    for (unsigned i = 0; i < r->at_frontend.count; i++) {
        const struct rig_heard *h = &r->at_frontend.v[i];

        if (h->rid.b[0] == number) {
            assert_true(n + h->n < cap);
            memcpy(dst + n, h->payload, h->n);
            n += h->n;
        }
    }
    dst[n] = '\0';
}

/* A provider that repeats the key it refuses tells it us, not the client. */
static void test_keys_are_not_told(void **state)
{
    static const char keyed[] =
        "- model_name: gpt\n"
        "  litellm_params: {model: openai/real, api_base: 'http://127.0.0.1:PORT/v1', api_key: "
        "sk-operator-key, max_retries: 0}\n";
    struct rig r;
    struct rig_job job = chat;
    char text[4096];

    (void)state;
    rig_start(&r, keyed, "");
    rig_reply_json(&r, "400 Bad", "", "{\"error\":\"sk-operator-key, sk-operator-ke\"}");
    rig_dispatch(&r, &job);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_int_equal(h->status, 400);
    assert_int_equal(h->flags, MSG_FLAG_LAST);
    assert_string_equal(h->payload, "{\"error\":\"[redacted], sk-operator-ke\"}");
    assert_int_equal(h->length, h->n);
    /* in pieces, with a length that no longer fits */
    rig_reply(&r, (struct rig_reply){.parts = {"HTTP/1.1 401 No\r\nContent-Length: 46\r\n\r\n",
                                               "0123456789012345678901234 sk-op", "erator",
                                               "-key tail"}});
    job.number = 2;
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    heard_put(&r, 2, text, sizeof(text));
    assert_string_equal(text, "0123456789012345678901234 [redacted] tail");
    /* what succeeds is not touched */
    rig_reply_json(&r, "200 OK", "", "{\"echo\":\"sk-operator-key\"}");
    job.number = 3;
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 3);
    assert_string_equal(h->payload, "{\"echo\":\"sk-operator-key\"}");
    rig_stop(&r);
}

static void test_cancel_and_deadline(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(&r, (struct rig_reply){.does_nothing = true});
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 1);
    rig_cancel(&r, 1, ERR_CANCELLED);
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_DONE, 1)->status, MSG_OUTCOME_CANCELLED);
    rig_until(&r, &r.closed_connections, 1); /* the model call is really over */
    assert_int_equal(r.at_frontend.count, 0);
    rig_cancel(&r, 1, ERR_CANCELLED); /* crossed with DONE */
    rig_cancel(&r, 9, ERR_CANCELLED);
    rig_reply(&r, (struct rig_reply){.does_nothing = true});
    job.number = 2;
    job.deadline_ms = 100;
    rig_dispatch(&r, &job);
    assert_int_equal(rig_wait(&r, &r.at_frontend, MSG_END, 1)->code, ERR_DEADLINE);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    /* a second attempt makes the first one obsolete */
    rig_reply(&r, (struct rig_reply){.does_nothing = true});
    rig_reply_json(&r, "200 OK", "", "{}");
    job.number = 3;
    job.deadline_ms = 0;
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 3);
    job.attempt = 2;
    rig_dispatch(&r, &job);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_int_equal(h->attempt, 2);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 4);
    rig_stop(&r);
}

static void test_routing(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    loop_jobs = 0;
    job.body = "{\"model\":\"gpt\",\"tools\":[{\"type\":\"code_interpreter\"}]}";
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    assert_int_equal(loop_jobs, 1);
    /* objects: method, target and body untouched, by the first openai deployment or the one that is
     * named */
    rig_reply_json(&r, "200 OK", "", "{}");
    job = (struct rig_job){.number = 2,
                           .kind = MSG_KIND_OBJECT,
                           .method = MSG_METHOD_DELETE,
                           .path = "/v1/responses/resp_1?a=b"};
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    assert_non_null(strstr(r.requests[0], "DELETE /v1/responses/resp_1?a=b HTTP/1.1"));
    assert_non_null(strstr(r.requests[0], "Bearer sk-up"));
    rig_reply_json(&r, "200 OK", "", "{}");
    job = (struct rig_job){.number = 3,
                           .kind = MSG_KIND_OBJECT,
                           .method = MSG_METHOD_POST,
                           .path = "/v1/files?model=p%2Fx",
                           .headers = "content-type: multipart/form-data; boundary=B\r\n",
                           .body = "--B\r\n\r\n--B--"};
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 3);
    assert_non_null(strstr(r.requests[1], "POST /w/files?model=p%2Fx HTTP/1.1"));
    assert_non_null(strstr(r.requests[1], "Content-Type: multipart/form-data; boundary=B\r\n"));
    assert_non_null(strstr(r.requests[1], "--B\r\n\r\n--B--"));
    job.path = "/v1/files";
    job.headers = "x-cofferdam-model: none\r\n";
    expect_error(&r, job, ERR_MODEL_NOT_FOUND, "'none'");
    rig_stop(&r);
}

static void test_broker_restart(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(&r, (struct rig_reply){.does_nothing = true});
    rig_reply(
        &r, (struct rig_reply){.parts = {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n12", "34"}});
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 1);
    job.number = 2;
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 2);
    rig_broker_down(&r);
    (void)rig_wait(&r, &r.at_frontend, MSG_CHUNK, 1); /* the running answer goes on */
    rig_turn_for(&r, 20);
    rig_broker_up(&r);
    rig_until(&r, &r.hellos, 2);
    assert_int_equal(r.hello_n,
                     2 * MSG_JOB_REC_BYTES); /* the finished one too: its DONE is still to come */
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_CREDIT, 2)->status, 62);
    assert_int_equal(rig_wait(&r, &r.at_broker, MSG_DONE, 1)->rid.b[0], 2);
    rig_cancel(&r, 1, ERR_CANCELLED);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    rig_stop(&r);
}

static void test_drain(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "");
    rig_reply(
        &r, (struct rig_reply){.parts = {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "1234"}});
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 1);
    wk_pool_drain(r.pool);
    (void)rig_wait(&r, &r.at_broker, MSG_BYE, 1);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_string_equal(h->payload, "1234");
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    rig_until(&r, &r.stopped, 1);
    rig_stop(&r);
}

/* Each allocation of a job's start fails once: the broker hears DONE every time, the frontend is
 * told, nothing leaks. */
static void test_out_of_memory(void **state)
{
    struct rig r;
    struct msg_body_DISPATCH m = {.kind = MSG_KIND_CHAT, .method = MSG_METHOD_POST, .window = 4096};
    struct plane_in in = {.head = {.type = MSG_DISPATCH, .attempt = 1}};
    char endpoint[160];
    bool has_fired = true;
    unsigned n = 0;

    (void)state;
    rig_start(&r, models, "");
    rig_reply_json(&r, "200 OK", "", "{}");
    rig_dispatch(&r, &chat); /* connects everything */
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/fe.sock", r.dir);
    m.endpoint = sv_of(endpoint);
    m.path = sv_of(chat.path);
    m.headers = sv_of(chat.headers);
    in.payload = buf_copy(chat.body, strlen(chat.body));
    for (; has_fired; n++) {
        assert_true(n < 100);
        unsigned answers = rig_count(&r.at_frontend, MSG_END) + rig_count(&r.at_frontend, MSG_HEAD);
        memset(in.head.rid.b, (int)(100 + n), sizeof(in.head.rid.b));
        if (r.reply_next == r.reply_count) {
            rig_reply_json(&r, "200 OK", "", "{}");
        }
        (void)mem_fail_nth((long)n);
        wk_task_start(&r.pool->brokers[0], &in, &m);
        has_fired = mem_fail_nth(-1) != 0;
        (void)rig_wait(&r, &r.at_broker, MSG_DONE, n + 2);
        assert_int_equal(rig_count(&r.at_frontend, MSG_END) + rig_count(&r.at_frontend, MSG_HEAD),
                         answers + 1);
    }
    assert_true(n > 6);
    buf_unref(in.payload);
    rig_stop(&r);
}

static void test_more_than_credit(void **state)
{
    struct rig r;
    struct rig_job job = chat;

    (void)state;
    rig_start(&r, models, "  limits: {requests: 10}\n");
    r.pool->brokers[0].capacity = 1;
    rig_reply(&r, (struct rig_reply){.does_nothing = true});
    rig_dispatch(&r, &job);
    rig_until(&r, &r.request_count, 1);
    expect_error(&r, job, ERR_LIMIT, "more jobs");
    rig_stop(&r);
}

/* --- sandboxes --- */

static struct rig_job sandbox_job(uint8_t number, enum msg_method method, const char *path,
                                  const char *body)
{
    return (struct rig_job){
        .number = number, .kind = MSG_KIND_SANDBOX, .method = method, .path = path, .body = body};
}

static void test_sandbox_routes(void **state)
{
    struct rig r;
    struct rig_job job;
    struct rig_heard *h;

    (void)state;
    rig_start(&r, models, "");
    job = sandbox_job(1, MSG_METHOD_POST, "/v1/sandboxes",
                      "{\"session_id\":\"s1\",\"sandbox_tool\":\"local\"}");
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 1);
    assert_int_equal(h->op, MSG_SBX_OPEN);
    assert_int_equal(h->scope, MSG_SCOPE_SESSION);
    assert_string_equal(h->text, "s1||local");
    rig_sbx_result(&r, 1, h->call, 0, "", "{\"id\":\"box1\",\"object\":\"sandbox\"}");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_string_equal(h->payload, "{\"id\":\"box1\",\"object\":\"sandbox\"}");
    assert_int_equal(h->flags, MSG_FLAG_LAST);

    job = sandbox_job(2, MSG_METHOD_GET, "/v1/sandboxes?limit=1", NULL);
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 2);
    assert_int_equal(h->op, MSG_SBX_LIST);
    rig_sbx_result(&r, 2, h->call, 0, "", "{\"data\":[]}");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 2);
    assert_string_equal(h->payload, "{\"object\":\"list\",\"data\":[],\"has_more\":false}");

    job = sandbox_job(3, MSG_METHOD_DELETE, "/sandboxes/box1", NULL);
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 3);
    assert_int_equal(h->op, MSG_SBX_DELETE);
    assert_string_equal(h->text, "box1||");
    rig_sbx_result(&r, 3, h->call, 0, "", "");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 3);
    assert_string_equal(h->payload,
                        "{\"id\":\"box1\",\"object\":\"sandbox.deleted\",\"deleted\":true}");

    job = sandbox_job(4, MSG_METHOD_GET, "/v1/sandboxes/gone", NULL);
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 4);
    rig_sbx_result(&r, 4, h->call, ERR_SANDBOX_NOT_FOUND, "no such sandbox", "");
    h = rig_wait(&r, &r.at_frontend, MSG_END, 1);
    assert_int_equal(h->code, ERR_SANDBOX_NOT_FOUND);
    rig_stop(&r);
}

static void test_sandbox_run(void **state)
{
    static const char result[] =
        "{\"object\":\"code_execution\",\"stdout\":\"hi\\n\",\"sandbox_id\":\"box1\"}";
    static const struct msg_id16 none;
    struct rig r;
    struct rig_job job;
    struct rig_heard *h;

    (void)state;
    rig_start(&r, models, "");
    job = sandbox_job(1, MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"print('hi')\"}");
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 1);
    assert_int_equal(h->op, MSG_SBX_RUN);
    assert_int_equal(h->scope, MSG_SCOPE_REQUEST);
    assert_string_equal(h->payload, "print('hi')");
    assert_memory_not_equal(&h->op_id, &none, sizeof(none));
    rig_sbx_result(&r, 1, h->call, 0, "", result);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL,
                 2); /* deleted in every outcome, by the same sandboxd */
    assert_int_equal(h->op, MSG_SBX_CLOSE);
    assert_string_equal(h->text, "|sandboxd-0|");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_non_null(strstr(h->payload, "\"notes\":[]"));

    /* streamed */
    job = sandbox_job(2, MSG_METHOD_POST, "/v1/sandboxes/box1/run",
                      "{\"code\":\"1\",\"stream\":true,\"timeout_s\":2.5}");
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 3);
    assert_int_equal(h->scope, MSG_SCOPE_SANDBOX);
    rig_sbx_event(&r, 2, h->call, MSG_SBX_STARTED, "box1");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 2);
    assert_non_null(strstr(h->text, "text/event-stream"));
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 3);
    rig_sbx_event(&r, 2, h->call, MSG_SBX_STDOUT, "a\n");
    rig_sbx_event(&r, 2, h->call, MSG_SBX_DISPLAY, "{\"text/plain\":\"5\"}");
    rig_sbx_event(&r, 2, h->call, MSG_SBX_EXCEPTION,
                  "{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    rig_sbx_result(&r, 2, h->call, 0, "", result);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 2);
    struct bytes all = {0};
    for (unsigned i = 0; i < r.at_frontend.count; i++) {
        if (r.at_frontend.v[i].rid.b[0] == 2) {
            (void)bytes_put(&all, r.at_frontend.v[i].payload, r.at_frontend.v[i].n);
        }
    }
    assert_string_equal(
        all.p,
        "event: stdout\ndata: {\"type\":\"stdout\",\"text\":\"a\\n\"}\n\n"
        "event: result\ndata: {\"type\":\"result\",\"result\":{\"text/plain\":\"5\"}}\n\n"
        "event: error\ndata: "
        "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}\n\n"
        "event: done\ndata: {\"type\":\"done\",\"object\":\"code_execution\",\"stdout\":\"hi\\n\","
        "\"sandbox_id\":\"box1\",\"notes\":[]}\n\n");
    bytes_fini(&all);
    rig_stop(&r);
}

static void test_sandbox_errors(void **state)
{
    static const struct {
        enum msg_method method;
        const char *path;
        const char *body;
        int code;
        const char *text;
    } rows[] = {
        {MSG_METHOD_POST, "/v1/sandboxes/run", NULL, ERR_MISSING_PARAM, "'code'"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{", ERR_INVALID_JSON, "could not parse"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "[]", ERR_INVALID_TYPE, "object"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":5}", ERR_INVALID_TYPE, "'code'"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\",\"timeout_s\":0}", ERR_BELOW_MIN,
         "timeout_s"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\",\"timeout_s\":1e9}", ERR_ABOVE_MAX,
         "timeout_s"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\",\"stream\":1}", ERR_INVALID_TYPE,
         "stream"},
        {MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\",\"sandbox_tool\":\"x\"}",
         ERR_INVALID, "'x'"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"session_id\":\"\"}", ERR_INVALID, "session_id"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"session_id\":\"a\\u0000b\"}", ERR_INVALID_JSON,
         "request: a string must not hold the character \\u0000 at byte"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"a\\u0000\":1}", ERR_INVALID_JSON, "\\u0000 at byte"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"a\":1,\"a\":1}", ERR_INVALID_JSON, "given twice"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"a\":1e999}", ERR_INVALID_JSON, "out of range"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"a\":\"\\ud800\"}", ERR_INVALID_JSON, "\\u escape"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{\"a\" 1}", ERR_INVALID_JSON, "expected ':' at byte 5"},
        {MSG_METHOD_POST, "/v1/sandboxes", "{} x", ERR_INVALID_JSON, "after the object at byte 3"},
        {MSG_METHOD_POST, "/v1/sandboxes", "   ", ERR_INVALID_JSON, "byte 3"},
        {MSG_METHOD_PUT, "/v1/sandboxes", NULL, ERR_METHOD, "GET or POST"},
        {MSG_METHOD_PUT, "/v1/sandboxes/x", NULL, ERR_METHOD, "DELETE"},
        {MSG_METHOD_GET, "/v1/sandboxes/run", NULL, ERR_METHOD, "POST"},
        {MSG_METHOD_GET, "/v1/sandboxes/x/y", NULL, ERR_NOT_FOUND, "No such route"},
        {MSG_METHOD_GET, "/v1/sandboxes/a%2Fb", NULL, ERR_SANDBOX_NOT_FOUND, ""},
    };
    struct rig r;

    (void)state;
    rig_start(&r, models, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_error(&r, sandbox_job(0, rows[i].method, rows[i].path, rows[i].body), rows[i].code,
                     rows[i].text);
    }
    assert_int_equal(rig_count(&r.at_broker, MSG_SBX_CALL), 0);
    rig_stop(&r);
}

static void test_sandbox_cancel(void **state)
{
    struct rig r;
    struct rig_job job = sandbox_job(1, MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\"}");
    struct rig_heard *h;

    (void)state;
    rig_start(&r, models, "");
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 1);
    rig_cancel(&r, 1, ERR_CANCELLED);
    (void)rig_wait(&r, &r.at_broker, MSG_SBX_CANCEL, 1);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 2);
    assert_int_equal(h->op, MSG_SBX_CLOSE);
    (void)rig_wait(&r, &r.at_broker, MSG_DONE, 1);
    rig_sbx_result(&r, 1, 0, 0, "", "{}"); /* too late for anybody */
    rig_turn_for(&r, 20);
    rig_stop(&r);
}

static void test_sandbox_call_survives_broker(void **state)
{
    struct rig r;
    struct rig_job job = sandbox_job(1, MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\"}");
    struct rig_heard *h;
    struct msg_id16 op;

    (void)state;
    rig_start(&r, models, "");
    rig_dispatch(&r, &job);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 1);
    op = h->op_id;
    rig_broker_down(&r);
    rig_turn_for(&r, 20);
    rig_broker_up(&r);
    h = rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 2);
    assert_int_equal(h->call, 0);
    assert_memory_equal(&h->op_id, &op, sizeof(op)); /* answered from the record, never run twice */
    assert_string_equal(h->payload, "1");
    rig_sbx_result(&r, 1, 0, 0, "", "{\"stdout\":\"\"}");
    h = rig_wait(&r, &r.at_frontend, MSG_HEAD, 1);
    assert_non_null(strstr(h->payload, "\"sandbox_id\":\"box1\""));
    rig_stop(&r);
}

static void test_sandbox_call_without_broker(void **state)
{
    struct rig r;
    struct rig_job job = sandbox_job(1, MSG_METHOD_POST, "/v1/sandboxes/run", "{\"code\":\"1\"}");

    (void)state;
    rig_start(&r, models, "");
    rig_dispatch(&r, &job);
    (void)rig_wait(&r, &r.at_broker, MSG_SBX_CALL, 1);
    rig_broker_down(&r);
    rig_turn_for(&r, 20);
    struct wk_task *t = CONTAINER_OF(list_first(&r.pool->list), struct wk_task, all);
    wk_sbx_tick(t, clock_ms() + 29000);
    assert_int_equal(r.at_frontend.count, 0);
    wk_sbx_tick(t, clock_ms() + 31000);
    struct rig_heard *h = rig_wait(&r, &r.at_frontend, MSG_END, 1);
    assert_int_equal(h->code, ERR_SANDBOX_UNAVAILABLE);
    assert_non_null(strstr(h->text, "may have run"));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_path),
        cmocka_unit_test(test_stream_and_window),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_large_retryable_answer),
        cmocka_unit_test(test_cut_mid_answer),
        cmocka_unit_test(test_stream_kept_open),
        cmocka_unit_test(test_keys_are_not_told),
        cmocka_unit_test(test_cancel_and_deadline),
        cmocka_unit_test(test_routing),
        cmocka_unit_test(test_broker_restart),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_more_than_credit),
        cmocka_unit_test(test_sandbox_routes),
        cmocka_unit_test(test_sandbox_run),
        cmocka_unit_test(test_sandbox_errors),
        cmocka_unit_test(test_sandbox_cancel),
        cmocka_unit_test(test_sandbox_call_survives_broker),
        cmocka_unit_test(test_sandbox_call_without_broker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
