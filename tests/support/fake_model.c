#include "fake_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"

#define PIECE 5 /* bytes of text or arguments per delta */

/* Bytes of the next delta: PIECE, or more when a character would be split. */
static size_t piece_at(const char *text, size_t n, size_t at)
{
    size_t k = n - at < PIECE ? n - at : PIECE;

    while (at + k < n && ((unsigned char)text[at + k] & 0xC0) == 0x80) {
        k++;
    }
    return k;
}

static const char *finish_of(const struct fm_answer *a)
{
    if (a->finish != NULL) {
        return a->finish;
    }
    for (unsigned i = 0; i < FM_MAX; i++) {
        if (a->items[i].kind == FM_CALL) {
            return "tool_calls";
        }
    }
    return "stop";
}

static bool is_incomplete(const struct fm_answer *a)
{
    return strcmp(finish_of(a), "length") == 0 || strcmp(finish_of(a), "content_filter") == 0;
}

static void put_str(struct bytes *b, const char *text)
{
    bytes_put_json_str(b, sv_of(text));
}

/* --- Responses --- */

static void item_id(struct bytes *b, unsigned round, unsigned i, const struct fm_item *it)
{
    static const char *const prefix[] = {"", "msg", "fc", "rs"};

    if (it->kind != FM_CALL && it->id != NULL) {
        bytes_put_str(b, it->id);
    } else {
        bytes_printf(b, "%s_%u_%u", prefix[it->kind], round, i);
    }
}

static void put_item(struct bytes *b, unsigned round, unsigned i, const struct fm_item *it,
                     bool is_done)
{
    bytes_put_str(b, "{\"id\":\"");
    item_id(b, round, i, it);
    bytes_put_str(b, "\",");
    switch (it->kind) {
    case FM_TEXT:
        bytes_printf(b,
                     "\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                     is_done ? "completed" : "in_progress");
        if (is_done) {
            bytes_put_str(b,
                          "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
            put_str(b, it->text);
            bytes_put_str(b, "}");
        }
        bytes_put_str(b, "]}");
        break;
    case FM_CALL:
        bytes_printf(
            b, "\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":\"%s\",",
            is_done ? "completed" : "in_progress", it->id, it->name);
        bytes_put_str(b, "\"arguments\":");
        put_str(b, is_done ? it->text : "");
        bytes_put_str(b, "}");
        break;
    case FM_REASONING:
        bytes_put_str(b, "\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[]");
        if (it->text != NULL) {
            bytes_put_str(b, ",\"encrypted_content\":");
            put_str(b, it->text);
        }
        bytes_put_str(b, "}");
        break;
    case FM_END:
        break;
    }
}

static void put_response(struct bytes *b, unsigned round, const struct fm_answer *a, bool is_done)
{
    bytes_printf(
        b,
        "{\"id\":\"resp_up_%u\",\"object\":\"response\",\"created_at\":%u,\"status\":\"%s\","
        "\"model\":\"up-2026\",\"error\":null,\"incomplete_details\":%s,\"store\":true,"
        "\"temperature\":0.30000000000000004,\"big\":123456789012345678901234567890,"
        "\"parallel_tool_calls\":true,\"tools\":[{\"type\":\"function\"}],\"tool_choice\":"
        "\"auto\",\"output\":[",
        round, 1760000000 + round,
        !is_done           ? "in_progress"
        : is_incomplete(a) ? "incomplete"
                           : "completed",
        is_done && is_incomplete(a)
            ? (strcmp(finish_of(a), "length") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                   : "{\"reason\":\"content_filter\"}")
            : "null");
    for (unsigned i = 0; is_done && i < FM_MAX && a->items[i].kind != FM_END; i++) {
        bytes_put_str(b, i > 0 ? "," : "");
        put_item(b, round, i, &a->items[i], true);
    }
    if (is_done) {
        bytes_printf(b,
                     "],\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":"
                     "1},\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":2},"
                     "\"total_tokens\":%u}}",
                     a->in, a->out, a->in + a->out);
    } else {
        bytes_put_str(b, "],\"usage\":null}");
    }
}

struct writer {
    struct bytes *b;
    unsigned round;
    unsigned seq;
};

static void begin(struct writer *w, const char *type)
{
    bytes_printf(w->b, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
                 w->seq++);
}

static void end(struct writer *w)
{
    bytes_put_str(w->b, "}\n\n");
}

static void put_ids(struct writer *w, unsigned i, const struct fm_item *it)
{
    bytes_put_str(w->b, ",\"item_id\":\"");
    item_id(w->b, w->round, i, it);
    bytes_printf(w->b, "\",\"output_index\":%u", i);
}

static void put_item_event(struct writer *w, unsigned i, const struct fm_item *it, bool is_done)
{
    begin(w, is_done ? "response.output_item.done" : "response.output_item.added");
    bytes_printf(w->b, ",\"output_index\":%u,\"item\":", i);
    put_item(w->b, w->round, i, it, is_done);
    end(w);
}

static void put_deltas(struct writer *w, unsigned i, const struct fm_item *it)
{
    bool is_text = it->kind == FM_TEXT;
    size_t n = strlen(it->text);

    for (size_t at = 0; at < n;) {
        size_t k = piece_at(it->text, n, at);

        begin(w, is_text ? "response.output_text.delta" : "response.function_call_arguments.delta");
        put_ids(w, i, it);
        bytes_put_str(w->b,
                      is_text ? ",\"content_index\":0,\"logprobs\":[],\"delta\":" : ",\"delta\":");
        bytes_put_json_str(w->b, sv_from(it->text + at, k));
        end(w);
        at += k;
    }
}

static void put_part(struct writer *w, unsigned i, const struct fm_item *it, bool is_done)
{
    begin(w, is_done ? "response.content_part.done" : "response.content_part.added");
    put_ids(w, i, it);
    bytes_put_str(w->b,
                  ",\"content_index\":0,\"part\":{\"type\":\"output_text\",\"annotations\":[],"
                  "\"logprobs\":[],\"text\":");
    put_str(w->b, is_done ? it->text : "");
    bytes_put_str(w->b, "}");
    end(w);
}

static void put_streamed_item(struct writer *w, unsigned i, const struct fm_item *it)
{
    put_item_event(w, i, it, false);
    if (it->kind == FM_TEXT) {
        put_part(w, i, it, false);
        put_deltas(w, i, it);
        begin(w, "response.output_text.done");
        put_ids(w, i, it);
        bytes_put_str(w->b, ",\"content_index\":0,\"logprobs\":[],\"text\":");
        put_str(w->b, it->text);
        end(w);
        put_part(w, i, it, true);
    } else if (it->kind == FM_CALL) {
        put_deltas(w, i, it);
        begin(w, "response.function_call_arguments.done");
        put_ids(w, i, it);
        bytes_put_str(w->b, ",\"arguments\":");
        put_str(w->b, it->text);
        end(w);
    }
    put_item_event(w, i, it, true);
}

static void put_responses_stream(struct bytes *b, unsigned round, const struct fm_answer *a)
{
    struct writer w = {b, round, 0};
    static const char *const opening[] = {"response.created", "response.in_progress"};

    for (unsigned i = 0; i < 2; i++) {
        begin(&w, opening[i]);
        bytes_put_str(b, ",\"response\":");
        put_response(b, round, a, false);
        end(&w);
    }
    for (unsigned i = 0; i < FM_MAX && a->items[i].kind != FM_END; i++) {
        put_streamed_item(&w, i, &a->items[i]);
    }
    begin(&w, is_incomplete(a) ? "response.incomplete" : "response.completed");
    bytes_put_str(b, ",\"response\":");
    put_response(b, round, a, true);
    end(&w);
}

/* --- chat --- */

static void put_usage(struct bytes *b, const struct fm_answer *a)
{
    bytes_printf(b,
                 "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":1}}",
                 a->in, a->out, a->in + a->out);
}

static void put_call(struct bytes *b, const struct fm_item *it)
{
    bytes_printf(
        b,
        "{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":", it->id,
        it->name);
    put_str(b, it->text);
    bytes_put_str(b, "}}");
}

static void put_chat_object(struct bytes *b, unsigned round, const struct fm_answer *a)
{
    unsigned calls = 0;
    bool has_text = false;

    bytes_printf(b,
                 "{\"id\":\"chatcmpl-%u\",\"object\":\"chat.completion\",\"created\":%u,\"model\":"
                 "\"up-2026\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                 "\"content\":",
                 round, 1760000000 + round);
    for (unsigned i = 0; i < FM_MAX; i++) {
        if (a->items[i].kind == FM_TEXT) {
            put_str(b, a->items[i].text);
            has_text = true;
            break;
        }
    }
    bytes_put_str(b, has_text ? "" : "null");
    for (unsigned i = 0; i < FM_MAX; i++) {
        if (a->items[i].kind == FM_REASONING) {
            bytes_put_str(b, ",\"reasoning_content\":");
            put_str(b, a->items[i].text);
        }
    }
    bytes_put_str(b, ",\"refusal\":null,\"annotations\":[]");
    for (unsigned i = 0; i < FM_MAX; i++) {
        if (a->items[i].kind == FM_CALL) {
            bytes_put_str(b, calls++ == 0 ? ",\"tool_calls\":[" : ",");
            put_call(b, &a->items[i]);
        }
    }
    bytes_printf(b, "%s},\"logprobs\":null,\"finish_reason\":\"%s\"}],\"usage\":",
                 calls > 0 ? "]" : "", finish_of(a));
    put_usage(b, a);
    bytes_put_str(b, "}");
}

static void chunk(struct bytes *b, unsigned round, const char *delta, const char *finish)
{
    bytes_printf(
        b,
        "data: {\"id\":\"chatcmpl-%u\",\"object\":\"chat.completion.chunk\",\"created\":%u,"
        "\"model\":\"up-2026\",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,"
        "\"finish_reason\":%s}],\"usage\":null}\n\n",
        round, 1760000000 + round, delta, finish);
}

static void put_text_chunks(struct bytes *b, unsigned round, const char *key, const char *text)
{
    size_t n = strlen(text);

    for (size_t at = 0; at < n;) {
        size_t k = piece_at(text, n, at);
        struct bytes d = {0};

        bytes_printf(&d, "{\"%s\":", key);
        bytes_put_json_str(&d, sv_from(text + at, k));
        bytes_put_char(&d, '}');
        chunk(b, round, d.p, "null");
        bytes_fini(&d);
        at += k;
    }
}

static void put_call_chunks(struct bytes *b, unsigned round, unsigned index,
                            const struct fm_item *it)
{
    size_t n = strlen(it->text);
    struct bytes d = {0};

    bytes_printf(&d,
                 "{\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"function\",\"function\":{"
                 "\"name\":\"%s\",\"arguments\":\"\"}}]}",
                 index, it->id, it->name);
    chunk(b, round, d.p, "null");
    for (size_t at = 0; at < n;) {
        size_t k = piece_at(it->text, n, at);

        bytes_reset(&d);
        bytes_printf(&d, "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", index);
        bytes_put_json_str(&d, sv_from(it->text + at, k));
        bytes_put_str(&d, "}}]}");
        chunk(b, round, d.p, "null");
        at += k;
    }
    bytes_fini(&d);
}

static void put_chat_stream(struct bytes *b, unsigned round, const struct fm_answer *a)
{
    unsigned calls = 0;
    struct bytes finish = {0};

    chunk(b, round, "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", "null");
    for (unsigned i = 0; i < FM_MAX && a->items[i].kind != FM_END; i++) {
        const struct fm_item *it = &a->items[i];

        if (it->kind == FM_CALL) {
            put_call_chunks(b, round, calls++, it);
        } else {
            put_text_chunks(b, round, it->kind == FM_TEXT ? "content" : "reasoning_content",
                            it->text);
        }
    }
    bytes_printf(&finish, "\"%s\"", finish_of(a));
    chunk(b, round, "{}", finish.p);
    bytes_fini(&finish);
    bytes_printf(
        b,
        "data: {\"id\":\"chatcmpl-%u\",\"object\":\"chat.completion.chunk\",\"created\":%u,"
        "\"model\":\"up-2026\",\"choices\":[],\"usage\":",
        round, 1760000000 + round);
    put_usage(b, a);
    bytes_put_str(b, "}\n\ndata: [DONE]\n\n");
}

char *fm_write(bool is_chat, bool is_stream, unsigned round, const struct fm_answer *a)
{
    struct bytes b = {0};
    char *text;

    if (is_chat && is_stream) {
        put_chat_stream(&b, round, a);
    } else if (is_chat) {
        put_chat_object(&b, round, a);
    } else if (is_stream) {
        put_responses_stream(&b, round, a);
    } else {
        put_response(&b, round, a, true);
    }
    REQUIRE(b.rc == 0);
    text = strdup(b.p);
    bytes_fini(&b);
    return text;
}
