/* The answer on its way out, against a connection that is played here: what is one message, what is
 * held, what is cut. */
#include "../support/unit.h"

#include "wk_pool.h"

#define SENT_MAX 64

struct sent {
    struct msg_head head;
    struct msg_body_HEAD m_head;
    struct msg_body_CHUNK m_chunk;
    struct msg_body_END m_end;
    char text[ERR_TEXT_MAX];
    char headers[256];
    char *payload; /* NUL-terminated copy */
    size_t n;
};

static struct sent sent[SENT_MAX];
static unsigned sent_count;
static int next_rc; /* what the connection answers */
static struct wk_waiter *waiting;
static unsigned drained;
static unsigned writables;
static struct wk_pool pool;
static struct wk_task *task;

/* --- played --- */

int wk_return_send(struct wk_conn *c, struct str_view frame0, struct buf *payload)
{
    struct sent *s = &sent[sent_count];

    (void)c;
    if (next_rc != 0) {
        return next_rc;
    }
    assert_true(sent_count < SENT_MAX);
    sent_count++;
    memset(s, 0, sizeof(*s));
    assert_int_equal(msg_head_decode(&s->head, &frame0), 0);
    if (s->head.type == MSG_HEAD) {
        assert_int_equal(msg_decode_HEAD(&s->m_head, frame0), 0);
        (void)sv_copy(s->headers, sizeof(s->headers), s->m_head.headers);
    } else if (s->head.type == MSG_CHUNK) {
        assert_int_equal(msg_decode_CHUNK(&s->m_chunk, frame0), 0);
    } else {
        assert_int_equal(s->head.type, MSG_END);
        assert_int_equal(msg_decode_END(&s->m_end, frame0), 0);
        (void)sv_copy(s->text, sizeof(s->text), s->m_end.text);
    }
    s->n = payload != NULL ? payload->n : 0;
    s->payload = mem_strndup(payload != NULL ? payload->p : "", s->n);
    return 0;
}

void wk_return_wait(struct wk_conn *c, struct wk_waiter *w, void (*fn)(struct wk_waiter *w))
{
    (void)c;
    w->fn = fn;
    waiting = w;
}

void wk_return_unwait(struct wk_waiter *w)
{
    if (waiting == w) {
        waiting = NULL;
    }
}

void wk_return_drop(struct wk_conn *c)
{
    (void)c;
}

struct msg_head wk_task_head(const struct wk_task *t, uint8_t type, uint32_t flags)
{
    return (struct msg_head){
        .type = type, .attempt = t->job.attempt, .flags = flags, .rid = t->job.rid};
}

uint64_t wk_task_waited_us(const struct wk_task *t)
{
    (void)t;
    return 0;
}

void wk_task_on_drained(struct wk_task *t)
{
    (void)t;
    drained++;
}

static void on_writable(struct wk_job *job)
{
    (void)job;
    writables++;
}

static const struct wk_handler_ops ops = {.path = "test", .on_writable = on_writable};

/* --- tools --- */

static struct wk_job *begin(uint32_t window)
{
    memset(&pool, 0, sizeof(pool));
    list_init(&pool.dirty);
    bytes_init(&pool.frame, 1U << 20);
    task = mem_zalloc(sizeof(*task));
    task->job.pool = &pool;
    task->job.attempt = 1;
    task->job.ops = &ops;
    sent_count = drained = writables = 0;
    next_rc = 0;
    waiting = NULL;
    wk_out_init(&task->out, &task->job, (struct wk_conn *)(uintptr_t)8, window);
    return &task->job;
}

static void end(void)
{
    wk_out_fini(&task->out);
    mem_free(task);
    bytes_fini(&pool.frame);
    for (unsigned i = 0; i < sent_count; i++) {
        mem_free(sent[i].payload);
    }
    assert_int_equal(mem_live(), 0);
}

static void turn(void)
{
    struct list_link *k;

    while ((k = list_first(&pool.dirty)) != NULL) {
        list_remove(&pool.dirty, k);
        wk_out_flush_turn(CONTAINER_OF(k, struct wk_out, dirty));
    }
}

static void head(struct wk_job *job, enum msg_stream stream, uint64_t length)
{
    struct wk_head h = {.status = 200,
                        .headers = SV_LIT("a: b\r\n"),
                        .length = length,
                        .stream = stream,
                        .processing_ms = 7};

    wk_out_head(job, &h);
}

static void data(struct wk_job *job, const char *text)
{
    struct buf *b = buf_copy(text, strlen(text));

    (void)wk_out_data(job, b, 0);
    buf_unref(b);
}

/* --- tests --- */

static void test_small_answer_is_one_message(void **state)
{
    struct wk_job *job = begin(1024);

    (void)state;
    head(job, MSG_STREAM_NONE, 5);
    assert_int_equal(sent_count, 0);
    assert_true(wk_out_write(job, SV_LIT("hel")));
    assert_true(wk_out_write(job, SV_LIT("lo")));
    wk_out_finish(job);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].head.type, MSG_HEAD);
    assert_int_equal(sent[0].head.flags, MSG_FLAG_LAST);
    assert_int_equal(sent[0].m_head.status, 200);
    assert_int_equal(sent[0].m_head.length, 5);
    assert_int_equal(sent[0].m_head.processing_ms, 7);
    assert_string_equal(sent[0].headers, "a: b\r\n");
    assert_string_equal(sent[0].payload, "hello");
    assert_true(wk_out_is_drained(&task->out));
    assert_true(wk_out_is_ended(job));
    turn();
    assert_int_equal(sent_count, 1);
    end();
}

static void test_unknown_length_of_a_whole_answer_is_filled_in(void **state)
{
    struct wk_job *job = begin(1024);

    (void)state;
    head(job, MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN);
    data(job, "abc");
    wk_out_finish(job);
    assert_int_equal(sent[0].m_head.length, 3);
    end();
    job = begin(1024);
    head(job, MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN);
    wk_out_finish(job);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].m_head.length, 0);
    assert_int_equal(sent[0].head.flags, MSG_FLAG_LAST);
    end();
}

static void test_head_waits_for_data_unless_stream(void **state)
{
    struct wk_job *job = begin(1024);

    (void)state;
    head(job, MSG_STREAM_NONE, 10);
    turn();
    assert_int_equal(sent_count, 0);
    data(job, "01234");
    turn();
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].head.flags, 0);
    data(job, "56789");
    wk_out_finish(job);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[1].head.type, MSG_CHUNK);
    assert_int_equal(sent[1].head.flags, MSG_FLAG_LAST);
    end();
    job = begin(1024);
    head(job, MSG_STREAM_RESPONSES, MSG_LENGTH_UNKNOWN);
    turn();
    assert_int_equal(sent_count, 1); /* the client's stream opens at once */
    wk_out_finish(job);
    assert_int_equal(sent[1].head.type, MSG_END);
    assert_int_equal(sent[1].m_end.code, 0);
    end();
}

static void test_events_are_not_cut(void **state)
{
    struct wk_job *job = begin(1 << 20);

    (void)state;
    head(job, MSG_STREAM_RESPONSES, MSG_LENGTH_UNKNOWN);
    turn();
    (void)wk_out_write(
        job, SV_LIT("data: {\"type\":\"a\",\"sequence_number\":4}\n\ndata: {\"sequence_num"));
    turn();
    assert_int_equal(sent_count, 2);
    assert_string_equal(sent[1].payload, "data: {\"type\":\"a\",\"sequence_number\":4}\n\n");
    assert_int_equal(sent[1].m_chunk.sequence, 5);
    (void)wk_out_write(job, SV_LIT("ber\":5}\r\n"));
    turn();
    assert_int_equal(sent_count, 2);
    (void)wk_out_write(job, SV_LIT("\r\n"));
    turn();
    assert_int_equal(sent_count, 3);
    assert_string_equal(sent[2].payload, "data: {\"sequence_number\":5}\r\n\r\n");
    assert_int_equal(sent[2].m_chunk.sequence, 6);
    (void)wk_out_write(job, SV_LIT("data: rest"));
    wk_out_finish(job); /* a provider that ends without a blank line: still byte for byte */
    assert_string_equal(sent[3].payload, "data: rest");
    assert_int_equal(sent[3].head.flags, MSG_FLAG_LAST);
    end();
}

static void test_huge_event_is_passed_on(void **state)
{
    struct wk_job *job = begin(1 << 30);
    static char big[WK_OUT_PARTIAL_MAX];

    (void)state;
    memset(big, 'x', sizeof(big));
    head(job, MSG_STREAM_RESPONSES, MSG_LENGTH_UNKNOWN);
    (void)wk_out_write(job, sv_from(big, sizeof(big)));
    turn();
    assert_int_equal(sent_count, 1); /* only the head: exactly the bound is still held */
    assert_int_equal(sent[0].n, 0);
    (void)wk_out_write(job, SV_LIT("y"));
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[1].n, sizeof(big) + 1);
    struct err e = {0};
    (void)err_set(&e, ERR_UPSTREAM_CUT, NULL);
    wk_out_abort(job, &e);
    assert_int_equal(sent_count, 4);
    assert_string_equal(sent[2].payload,
                        "\n\n"); /* keeps the error event apart from the half one */
    assert_int_equal(sent[3].m_end.code, ERR_UPSTREAM_CUT);
    end();
}

static void test_window(void **state)
{
    struct wk_job *job = begin(1024);
    static char big[5000];
    size_t total = 0;

    (void)state;
    memset(big, 'a', sizeof(big));
    head(job, MSG_STREAM_NONE, sizeof(big) * 2);
    assert_true(wk_out_write(job, sv_from(big, sizeof(big))));
    turn();
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].n, 1024);
    assert_false(wk_out_is_writable(job));
    struct buf *b = buf_copy(big, sizeof(big));
    assert_false(wk_out_data(job, b, 0)); /* kept all the same */
    buf_unref(b);
    turn();
    assert_int_equal(sent_count, 1);
    for (unsigned i = 0; i < 20 && !wk_out_is_drained(&task->out); i++) {
        if (i == 4) {
            wk_out_finish(job);
        }
        wk_out_add_window(&task->out, 1000);
    }
    assert_true(wk_out_is_drained(&task->out));
    for (unsigned i = 0; i < sent_count; i++) {
        total += sent[i].n;
        assert_true(sent[i].n <= 1024);
        assert_int_equal(sent[i].head.flags, i + 1 == sent_count ? MSG_FLAG_LAST : 0);
    }
    assert_int_equal(total, sizeof(big) * 2);
    assert_int_equal(drained, 1);
    end();
}

static void test_writable_is_told(void **state)
{
    struct wk_job *job = begin(1024);
    static char big[2000];

    (void)state;
    head(job, MSG_STREAM_NONE, MSG_LENGTH_UNKNOWN);
    (void)wk_out_write(job, sv_from(big, sizeof(big)));
    turn();
    assert_false(wk_out_write(job, SV_LIT("x")));
    turn();
    assert_int_equal(writables, 0);
    wk_out_add_window(&task->out, 100);
    assert_int_equal(writables, 0); /* used up at once by what waited */
    wk_out_add_window(&task->out, 2000);
    assert_int_equal(writables, 1);
    wk_out_add_window(&task->out, 2000);
    assert_int_equal(writables, 1); /* only when asked for */
    wk_out_finish(job);
    end();
}

static void test_blocked_connection(void **state)
{
    struct wk_job *job = begin(1 << 20);

    (void)state;
    next_rc = ERR_AGAIN;
    head(job, MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN);
    data(job, "data: 1\n\n");
    turn();
    assert_int_equal(sent_count, 0);
    assert_non_null(waiting);
    assert_false(wk_out_is_writable(job));
    data(job, "data: 2\n\n");
    wk_out_finish(job);
    assert_false(wk_out_is_drained(&task->out));
    waiting->fn(waiting); /* still blocked */
    assert_int_equal(sent_count, 0);
    next_rc = 0;
    waiting->fn(waiting);
    assert_int_equal(sent_count, 2);
    assert_string_equal(sent[0].payload, "data: 1\n\n");
    assert_string_equal(sent[1].payload, "data: 2\n\n");
    assert_int_equal(sent[1].head.flags, MSG_FLAG_LAST);
    assert_int_equal(drained, 1);
    end();
}

static void test_errors(void **state)
{
    struct wk_job *job = begin(1024);
    struct err e = {0};

    (void)state;
    (void)err_set_param(&e, ERR_INVALID, "model", "bad");
    e.retry_after_ms = 5;
    wk_out_error(job, &e);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].head.type, MSG_END);
    assert_int_equal(sent[0].m_end.code, ERR_INVALID);
    assert_int_equal(sent[0].m_end.retry_after_ms, 5);
    assert_string_equal(sent[0].text, "bad");
    assert_true(wk_out_is_drained(&task->out));
    end();

    job = begin(1024); /* a head that nobody has seen gives way to a clean error */
    head(job, MSG_STREAM_NONE, 100);
    data(job, "half");
    wk_out_abort(job, &e);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].head.type, MSG_END);
    end();

    job = begin(1024); /* whole events go out before the error, half ones do not */
    head(job, MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN);
    turn();
    data(job, "data: 1\n\ndata: 2");
    wk_out_abort(job, &e);
    assert_int_equal(sent_count, 3);
    assert_string_equal(sent[1].payload, "data: 1\n\n");
    assert_int_equal(sent[2].m_end.code, ERR_INVALID);
    assert_true(wk_out_write(job, SV_LIT("late"))); /* ignored */
    wk_out_finish(job);
    wk_out_abort(job, &e);
    assert_int_equal(sent_count, 3);
    end();
}

static void test_drop(void **state)
{
    struct wk_job *job = begin(1024);

    (void)state;
    next_rc = ERR_AGAIN;
    head(job, MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN);
    data(job, "data: 1\n\n");
    turn();
    wk_out_drop(&task->out);
    assert_null(waiting);
    assert_true(wk_out_is_drained(&task->out));
    wk_out_finish(job);
    end();
    job = begin(1024);
    wk_out_drop(&task->out);
    head(job, MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN); /* a handler that has not heard yet */
    data(job, "x");
    wk_out_finish(job);
    assert_int_equal(sent_count, 0);
    end();
}

static void fail_run(void *arg)
{
    struct wk_job *job;
    struct err e = {0};

    (void)arg;
    memset(&pool, 0, sizeof(pool));
    list_init(&pool.dirty);
    if ((task = mem_zalloc(sizeof(*task))) == NULL) {
        return;
    }
    job = &task->job;
    job->pool = &pool;
    job->ops = &ops;
    sent_count = 0;
    next_rc = ERR_NOT_FOUND; /* nothing is recorded */
    wk_out_init(&task->out, job, (struct wk_conn *)(uintptr_t)8, 1024);
    head(job, MSG_STREAM_CHAT, MSG_LENGTH_UNKNOWN);
    (void)wk_out_write(job, SV_LIT("data: 1\n\nda"));
    next_rc = ERR_AGAIN;
    turn();
    (void)wk_out_write(job, SV_LIT("ta: 2\n\n"));
    (void)err_set(&e, ERR_IO, NULL);
    wk_out_abort(job, &e);
    wk_out_fini(&task->out);
    mem_free(task);
    bytes_fini(&pool.frame);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(unit_fail_each(fail_run, NULL) > 3);
}

static void test_cut(void **state)
{
    static const struct {
        const char *text;
        size_t want;
    } rows[] = {
        {"", 0},
        {"\n", 0},
        {"a\n", 0},
        {"\n\n", 2},
        {"a\n\n", 3},
        {"a\n\nb", 3},
        {"a\r\n\r\nb\r\n", 5},
        {"a\n\nb\n\nc", 6},
        {"a\n\r\nb", 4},
        {"a\r\r", 0},
        {"a\r\n\n", 4},
        {"a\n\n\n", 4},
        {"\r\n\r\n", 4},
        {"x\r\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(wk_out_event_cut(rows[i].text, strlen(rows[i].text)), rows[i].want);
    }
    assert_int_equal(wk_out_sequence(SV_LIT("data: {\"sequence_number\": 9}\n\n")), 10);
    assert_int_equal(wk_out_sequence(SV_LIT("data: {\"sequence_number\":9}\n\ndata: {}\n\n")), 0);
    assert_int_equal(wk_out_sequence(SV_LIT("data: {\"sequence_number\":99999999999}\n\n")), 0);
    assert_int_equal(wk_out_sequence(SV_LIT("")), 0);
    assert_int_equal(wk_out_sequence(SV_LIT("\n\n")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_answer_is_one_message),
        cmocka_unit_test(test_unknown_length_of_a_whole_answer_is_filled_in),
        cmocka_unit_test(test_head_waits_for_data_unless_stream),
        cmocka_unit_test(test_events_are_not_cut),
        cmocka_unit_test(test_huge_event_is_passed_on),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_writable_is_told),
        cmocka_unit_test(test_blocked_connection),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
