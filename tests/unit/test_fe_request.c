/* The life of a job as its client sees it, with broker and worker played by the test. */
#include "fe_rig.h"

#include "base/metric.h"

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_start(&rig, "");
    rig_broker_up(&rig);
    rig_connect(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_stop(&rig);
    metric_reset();
    assert_int_equal(mem_live(), 0);
    return 0;
}

static void post(const char *path)
{
    rig_forget(&rig);
    rig_post(&rig, path, "{\"model\":\"m\"}");
    RIG_UNTIL(&rig, rig_is_submitted);
}

static struct msg_body_HEAD head(uint8_t stream, uint64_t length)
{
    return (struct msg_body_HEAD){.status = 200,
                                  .stream = stream,
                                  .length = length,
                                  .overhead_us = 250,
                                  .processing_ms = 7,
                                  .headers =
                                      SV_LIT("content-type: text/x\r\ncontent-length: 99\r\n")};
}

static bool has_end(struct rig *r)
{
    return rig_has(r, "\r\n0\r\n\r\n"); /* a line of its own: a header may end in 0 too */
}

static bool has_ok(struct rig *r)
{
    return rig_has(r, "HTTP/1.1 200 OK\r\n") && rig_has(r, "hello");
}

static bool has_head(struct rig *r)
{
    return rig_has(r, "\r\n\r\n");
}

static bool has_error(struct rig *r)
{
    return rig_has(r, "\"code\":") && rig_has(r, "}}");
}

static bool is_cut(struct rig *r)
{
    return r->has_eof;
}

static bool is_cancelled(struct rig *r)
{
    return r->cancels > 0;
}

/* The connection is still good for another request. */
static void check_next(void)
{
    rig_forget(&rig);
    rig_send(&rig, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    RIG_UNTIL(&rig, has_head);
    assert_true(rig_has(&rig, "HTTP/1.1 200 OK\r\n"));
    assert_int_equal(map_count(rig.fe->requests), 0);
    assert_int_equal(rig.fe->body_bytes, 0);
}

static void small_answer_in_one_message(void **state)
{
    (void)state;
    post("/responses?a=1");
    assert_string_equal(rig.path, "/v1/responses?a=1");
    assert_int_equal(rig.kind, MSG_KIND_RESPONSES);
    assert_int_equal(rig.method, MSG_METHOD_POST);
    assert_int_equal(rig.submit.attempt, 1);
    assert_int_equal(rig.submit.flags, 0);
    assert_in_range(rig.submit.deadline_ms, 890000, 900000);
    assert_string_equal(rig.headers, "content-type: application/json\r\n");
    assert_sv_equal(sv_from(rig.payload.p, rig.payload.n), "{\"model\":\"m\"}");
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    assert_true(rig_has(&rig, "content-length: 5\r\n")); /* ours, not the worker's */
    assert_false(rig_has(&rig, "content-length: 99"));
    assert_true(rig_has(&rig, "content-type: text/x\r\n"));
    assert_true(rig_has(&rig, "openai-processing-ms: 7\r\n"));
    assert_true(rig_has(&rig, "x-cofferdam-overhead-ms: "));
    assert_true(rig_has(&rig, "x-request-id: req_"));
    check_next();
}

static void streamed_answer(void **state)
{
    (void)state;
    post("/v1/chat/completions");
    rig_head(&rig, 0, head(MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN), "", 0);
    RIG_UNTIL(&rig, has_head);
    assert_true(rig_has(&rig, "transfer-encoding: chunked\r\n"));
    assert_true(rig_has(&rig, "cache-control: no-cache\r\nx-accel-buffering: no\r\n"));
    rig_chunk(&rig, 0, "data: a\n\n", 9, 0);
    rig_chunk(&rig, 0, "data: b\n\n", 9, 0);
    rig_chunk(&rig, 0, "", 0, MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_end);
    assert_true(rig_has(&rig, "\r\n\r\n9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n0\r\n\r\n"));
    check_next();
}

static void known_length_is_kept(void **state)
{
    (void)state;
    post("/v1/embeddings");
    rig_head(&rig, 0, head(MSG_STREAM_NONE, 10), "hello", 0);
    rig_chunk(&rig, 0, "world", 5, MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    assert_true(rig_has(&rig, "content-length: 10\r\n"));
    check_next();
}

static void wrong_length_is_cut(void **state)
{
    (void)state;
    post("/v1/embeddings");
    rig_head(&rig, 0, head(MSG_STREAM_NONE, 10), "hello", 0);
    rig_chunk(&rig, 0, "toomuch", 7, MSG_FLAG_LAST);
    RIG_UNTIL(&rig, is_cut);
    assert_false(rig_has(&rig, "toomuch"));
}

static bool is_second(struct rig *r)
{
    return r->submit.attempt == 2;
}

static void lost_before_the_first_byte_is_tried_again(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_lost(&rig, 1);
    RIG_UNTIL(&rig, is_second);
    assert_sv_equal(sv_from(rig.payload.p, rig.payload.n), "{\"model\":\"m\"}");
    rig_head(&rig, 1, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "stale", MSG_FLAG_LAST);
    rig_lost(&rig, 1); /* said twice */
    rig_turn(&rig, 50);
    assert_int_equal(rig.in.n, 0);
    rig_head(&rig, 2, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    rig_head(&rig, 2, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "again", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    rig_turn(&rig, 50);
    assert_false(rig_has(&rig, "again"));
    check_next();
}

static void lost_twice_is_an_error(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_lost(&rig, 1);
    RIG_UNTIL(&rig, is_second);
    rig_lost(&rig, 2);
    RIG_UNTIL(&rig, has_error);
    assert_true(rig_has(&rig, "HTTP/1.1 502 "));
    assert_true(rig_has(&rig, "\"code\":\"worker_lost\""));
    check_next();
}

static void lost_in_a_stream_ends_it_visibly(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_head(&rig, 0, head(MSG_STREAM_RESPONSES, MSG_LENGTH_UNKNOWN),
             "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
             "\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n",
             0);
    RIG_UNTIL(&rig, has_head);
    rig_lost(&rig, 1);
    RIG_UNTIL(&rig, has_end);
    assert_true(rig_has(&rig, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":1,"));
    assert_true(rig_has(&rig, "event: response.failed\n"));
    assert_true(rig_has(&rig, "\"id\":\"resp_1\",\"status\":\"failed\""));
    check_next();
}

static void lost_in_a_body_is_cut(void **state)
{
    (void)state;
    post("/v1/audio/speech");
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "part", 0);
    RIG_UNTIL(&rig, has_head);
    rig_lost(&rig, 1);
    RIG_UNTIL(&rig, is_cut);
    assert_false(has_end(&rig));
}

static void error_before_the_answer(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_end(&rig, ERR_SANDBOX_CAPACITY, "tools[0]", "all busy", 2500);
    RIG_UNTIL(&rig, has_error);
    assert_true(rig_has(&rig, "HTTP/1.1 429 Too Many Requests\r\n"));
    assert_true(rig_has(&rig, "retry-after: 3\r\n"));
    assert_true(rig_has(
        &rig, "{\"message\":\"all busy\",\"type\":\"rate_limit_error\",\"param\":\"tools[0]\","
              "\"code\":\"sandbox_capacity\"}"));
    check_next();
}

static void error_in_a_chat_stream(void **state)
{
    (void)state;
    post("/v1/chat/completions");
    rig_head(&rig, 0, head(MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN), "data: {}\n\n", 0);
    rig_end(&rig, ERR_UPSTREAM_CUT, "", "", 0);
    RIG_UNTIL(&rig, has_end);
    assert_true(rig_has(&rig, "data: {\"error\":{\"message\":\"the model provider closed"));
    check_next();
}

static void refused_by_the_broker(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_refuse(&rig, ERR_QUEUE_FULL, 1500, "full");
    RIG_UNTIL(&rig, has_error);
    assert_true(rig_has(&rig, "HTTP/1.1 503 "));
    assert_true(rig_has(&rig, "retry-after: 2\r\n"));
    check_next();
}

static void client_that_leaves_cancels(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_hang_up(&rig);
    RIG_UNTIL(&rig, is_cancelled);
    assert_int_equal(rig.cancel_code, ERR_CANCELLED);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "late",
             MSG_FLAG_LAST); /* nobody wants it */
    rig_connect(&rig);
    check_next();
}

static void client_that_leaves_a_stream_cancels(void **state)
{
    (void)state;
    post("/v1/chat/completions");
    rig_head(&rig, 0, head(MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN), "data: {}\n\n", 0);
    RIG_UNTIL(&rig, has_head);
    rig_hang_up(&rig);
    RIG_UNTIL(&rig, is_cancelled); /* although nothing more is written */
    rig_connect(&rig);
    check_next();
}

static void half_closed_client_is_answered(void **state)
{
    (void)state;
    post("/v1/responses");
    assert_int_equal(shutdown(rig.fd, SHUT_WR), 0);
    rig_turn(&rig, 700); /* longer than the probe */
    assert_int_equal(rig.cancels, 0);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    RIG_UNTIL(&rig, is_cut);
}

static bool has_window(struct rig *r)
{
    return r->windows > 0;
}

static void window_follows_the_client(void **state)
{
    static char data[FE_WINDOW_BYTES / 4];
    unsigned sent = 0;

    (void)state;
    memset(data, 'x', sizeof(data));
    post("/v1/audio/speech");
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "", 0);
    rig_chunk(&rig, 0, data, sizeof(data), 0);
    rig_turn(&rig, 50);
    assert_int_equal(rig.windows, 0); /* not yet half */
    for (sent = 1; sent < 4; sent++) {
        rig_chunk(&rig, 0, data, sizeof(data), 0);
    }
    RIG_UNTIL(&rig, has_window);
    rig_turn(&rig, 50);
    assert_in_range(rig.window_bytes, FE_WINDOW_BYTES / 2, FE_WINDOW_BYTES);
    rig_chunk(&rig, 0, "", 0, MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_end);
    check_next();
}

static void broker_restart(void **state)
{
    (void)state;
    post("/v1/responses");
    rig_broker_down(&rig);
    rig_forget(&rig);
    rig_broker_up(&rig);
    RIG_UNTIL(&rig, rig_is_submitted);
    assert_int_equal(rig.submit.flags, MSG_FLAG_RESUBMIT);
    assert_int_equal(rig.payload.n, 13);
    rig_head(&rig, 2, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello",
             MSG_FLAG_LAST); /* the broker's next attempt */
    RIG_UNTIL(&rig, has_ok);
    check_next();
}

static void broker_restart_during_a_stream(void **state)
{
    (void)state;
    post("/v1/chat/completions");
    rig_head(&rig, 0, head(MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN), "data: {}\n\n", 0);
    RIG_UNTIL(&rig, has_head);
    rig_broker_down(&rig);
    rig_chunk(&rig, 0, "data: 1\n\n", 9, 0);
    rig.submits = 0;
    rig_broker_up(&rig);
    RIG_UNTIL(&rig, rig_is_submitted);
    assert_int_equal(rig.submit.flags, MSG_FLAG_RESUBMIT | MSG_FLAG_STARTED);
    assert_int_equal(rig.payload.n, 0);
    rig_chunk(&rig, 0, "data: 2\n\n", 9, MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_end);
    assert_true(rig_has(&rig, "data: 1\n\n\r\n9\r\ndata: 2\n\n"));
    check_next();
}

static void waits_for_a_broker(void **state)
{
    (void)state;
    rig_broker_down(&rig);
    rig_forget(&rig);
    rig_post(&rig, "/v1/responses", "{\"model\":\"m\"}");
    rig_turn(&rig, 100);
    assert_int_equal(rig.in.n, 0);
    rig_broker_up(&rig);
    RIG_UNTIL(&rig, rig_is_submitted);
    assert_int_equal(rig.submit.flags, 0);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    check_next();
}

static bool has_not_ready(struct rig *r)
{
    return rig_has(r, "\"missing\":[\"broker\",\"worker\",\"sandboxd\"]");
}

static void ready_says_what_is_missing(void **state)
{
    (void)state;
    rig_send(&rig, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    RIG_UNTIL(&rig, has_head);
    assert_true(rig_has(&rig, "HTTP/1.1 200 OK\r\n"));
    rig_broker_down(&rig);
    rig_forget(&rig);
    rig_send(&rig, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    RIG_UNTIL(&rig, has_not_ready);
    assert_true(rig_has(&rig, "HTTP/1.1 503 "));
}

static void head_request_has_no_body(void **state)
{
    (void)state;
    rig_forget(&rig);
    rig_send(&rig, "HEAD /v1/files/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer K\r\n\r\n");
    RIG_UNTIL(&rig, rig_is_submitted);
    assert_int_equal(rig.method, MSG_METHOD_GET);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_head);
    assert_true(rig_has(&rig, "content-length: 5\r\n"));
    rig_turn(&rig, 20);
    assert_false(rig_has(&rig, "hello"));
    check_next();
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    rig_forget(&rig);
    rig_post(&rig, "/v1/responses", "{\"model\":\"m\"}");
    rig_send(&rig, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    RIG_UNTIL(&rig, rig_is_submitted);
    rig_turn(&rig, 50);
    assert_int_equal(rig.in.n, 0);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    rig_turn(&rig, 50);
    assert_true(strstr(rig.in.p, "hello") < strstr(rig.in.p, "{\"status\":\"ok\"}"));
}

static void drain_lets_running_requests_finish(void **state)
{
    (void)state;
    post("/v1/responses");
    loop_drain(&rig.fe->loop);
    rig_turn(&rig, 50);
    assert_false(rig.fe->is_stopped);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    assert_true(rig_has(&rig, "connection: close\r\n"));
    RIG_UNTIL(&rig, is_cut);
}

static void malformed_messages_change_nothing(void **state)
{
    struct msg_head h = {0};
    struct bytes out = {0};

    (void)state;
    post("/v1/responses");
    rig_chunk(&rig, 0, "early", 5, 0); /* before any HEAD */
    rig_head(&rig, 0, (struct msg_body_HEAD){.status = 100, .stream = 1, .length = 5}, "bad",
             MSG_FLAG_LAST); /* no final status */
    h = rig.submit;
    h.type = MSG_HEARTBEAT; /* not on this path */
    assert_int_equal(msg_encode_HEARTBEAT(&out, &h, &(struct msg_body_HEARTBEAT){0}), 0);
    assert_int_equal(
        plane_send(rig.worker, (struct str_view){NULL, 0}, sv_from(out.p, out.n), NULL), 0);
    bytes_fini(&out);
    rig_turn(&rig, 50);
    assert_int_equal(rig.in.n, 0);
    rig_head(&rig, 0, head(MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN), "hello", MSG_FLAG_LAST);
    RIG_UNTIL(&rig, has_ok);
    check_next();
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(small_answer_in_one_message),
        T(streamed_answer),
        T(known_length_is_kept),
        T(wrong_length_is_cut),
        T(lost_before_the_first_byte_is_tried_again),
        T(lost_twice_is_an_error),
        T(lost_in_a_stream_ends_it_visibly),
        T(lost_in_a_body_is_cut),
        T(error_before_the_answer),
        T(error_in_a_chat_stream),
        T(refused_by_the_broker),
        T(client_that_leaves_cancels),
        T(client_that_leaves_a_stream_cancels),
        T(half_closed_client_is_answered),
        T(window_follows_the_client),
        T(broker_restart),
        T(broker_restart_during_a_stream),
        T(waits_for_a_broker),
        T(ready_says_what_is_missing),
        T(head_request_has_no_body),
        T(pipelined_requests_are_answered_in_order),
        T(drain_lets_running_requests_finish),
        T(malformed_messages_change_nothing),
    };

    return id_init() != 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
