/* ic_responses_emit.c - writes the client's Responses events and objects: one id, one sequence, one
 * item order. */
#include <stdio.h>

#include "base/id.h"
#include "ic_responses.h"

/* --- events --- */

static void begin(struct ic_loop *l, const char *type)
{
    bytes_printf(&l->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
                 l->sequence++);
}

static void end(struct ic_loop *l)
{
    bytes_put_str(&l->out, "}\n\n");
}

static void put_item_id(struct ic_loop *l, unsigned item)
{
    const struct bytes *id = &l->items[item].id;

    icj_put_str(&l->out, "item_id", sv_from(id->p, id->n));
}

void ic_emit_item_event(struct ic_loop *l, const char *type, unsigned item, struct str_view json)
{
    if (!l->req->is_stream) {
        return;
    }
    begin(l, type);
    icj_put_u64(&l->out, "output_index", item);
    icj_put_key(&l->out, "item");
    ic_put_flat(&l->out, json);
    end(l);
}

void ic_emit_passed(struct ic_loop *l, struct icj event, const struct ic_slot *slot,
                    const struct bytes *item)
{
    struct bytes seq = {0};
    struct bytes index = {0};
    struct bytes id = {0};
    struct bytes tmp = {0};
    struct bytes json = {.cap_max = event.raw.n + (item != NULL ? item->n : 0) + 1024};
    struct icj_edit edits[4];
    struct str_view type = icj_view(icj_get(event, "type"), &tmp);
    unsigned n = 0;

    if (!l->req->is_stream || type.n == 0 || sv_find(type, '\n') < type.n ||
        sv_find(type, '\r') < type.n) {
        bytes_fini(&tmp);
        return;
    }
    bytes_put_u64(&seq, l->sequence++);
    edits[n++] = (struct icj_edit){"sequence_number", sv_from(seq.p, seq.n), true};
    if (slot != NULL) {
        bytes_put_u64(&index, slot->item);
        edits[n++] = (struct icj_edit){"output_index", sv_from(index.p, index.n), true};
        bytes_put_json_str(&id, sv_from(l->items[slot->item].id.p, l->items[slot->item].id.n));
        edits[n++] = (struct icj_edit){"item_id", sv_from(id.p, id.n), item == NULL};
    }
    if (item != NULL) {
        edits[n++] = (struct icj_edit){"item", sv_from(item->p, item->n), true};
    }
    icj_copy(&json, event, edits, n);
    bytes_put_str(&l->out, "event: ");
    bytes_put_sv(&l->out, type);
    bytes_put_str(&l->out, "\ndata: ");
    ic_put_flat(&l->out, sv_from(json.p, json.n));
    bytes_put_str(&l->out, "\n\n");
    bytes_fini(&seq);
    bytes_fini(&index);
    bytes_fini(&id);
    bytes_fini(&tmp);
    bytes_fini(&json);
}

/* --- the response object --- */

struct shape {
    const char *status;
    bool has_output; /* items so far; else [] */
    bool has_usage;  /* the sum so far; else null */
    struct str_view error;
    struct str_view details;
};

static void put_output(const struct ic_loop *l, struct bytes *ret)
{
    bytes_put_char(ret, '[');
    for (unsigned i = 0; i < l->item_count; i++) {
        if (l->items[i].json.n > 0) {
            icj_put_comma(ret);
            ic_put_flat(ret, sv_from(l->items[i].json.p, l->items[i].json.n));
        }
    }
    bytes_put_char(ret, ']');
}

static struct str_view or_text(struct icj v, const char *fallback)
{
    return v.type != ICJ_ABSENT ? v.raw : sv_of(fallback);
}

/* The provider's snapshot with what is ours, and what the client sent, in it. */
static void put_response(struct ic_loop *l, struct icj base, const struct shape *s,
                         struct bytes *ret)
{
    struct bytes output = {.cap_max = IC_TEXT_MAX};
    struct bytes status = {0};
    struct bytes model = {0};
    struct icj done_at = icj_get(base, "completed_at");
    struct icj_edit e[18];
    unsigned n = 0;
    bool is_done = strcmp(s->status, "completed") == 0;

    bytes_printf(&status, "\"%s\"", s->status);
    bytes_put_json_str(&model, sv_from(l->req->model.p, l->req->model.n));
    if (s->has_output) {
        put_output(l, &output);
    } else {
        bytes_put_str(&output, "[]");
    }
    e[n++] = (struct icj_edit){"id", sv_from(l->response_id.p, l->response_id.n), true};
    e[n++] = (struct icj_edit){"object", SV_LIT("\"response\""), true};
    e[n++] = (struct icj_edit){"created_at", sv_from(l->created.p, l->created.n), true};
    e[n++] = (struct icj_edit){"status", sv_from(status.p, status.n), true};
    e[n++] = (struct icj_edit){"completed_at", is_done ? or_text(done_at, "null") : SV_LIT("null"),
                               false};
    e[n++] = (struct icj_edit){"error", s->error, true};
    e[n++] = (struct icj_edit){"incomplete_details", s->details, true};
    if (icj_get(base, "model").type == ICJ_ABSENT) {
        e[n++] = (struct icj_edit){"model", sv_from(model.p, model.n), true};
    }
    e[n++] = (struct icj_edit){"output", sv_from(output.p, output.n), true};
    if (icj_get(base, "parallel_tool_calls").type == ICJ_ABSENT) {
        e[n++] = (struct icj_edit){"parallel_tool_calls", or_text(l->req->parallel, "true"), true};
    }
    e[n++] = (struct icj_edit){"tools", l->req->tools.raw, true};
    e[n++] = (struct icj_edit){
        "tool_choice",
        icj_is_set(l->req->tool_choice) ? l->req->tool_choice.raw : SV_LIT("\"auto\""), true};
    e[n++] = (struct icj_edit){
        "metadata", icj_is_set(l->req->metadata) ? l->req->metadata.raw : SV_LIT("{}"), true};
    e[n++] =
        (struct icj_edit){"max_output_tokens", or_text(l->req->max_output_tokens, "null"), true};
    e[n++] = (struct icj_edit){"max_tool_calls", or_text(l->req->max_tool_calls, "null"), true};
    e[n++] = (struct icj_edit){
        "usage", s->has_usage && l->usage.n > 0 ? sv_from(l->usage.p, l->usage.n) : SV_LIT("null"),
        true};
    struct bytes json = {.cap_max = IC_TEXT_MAX};

    icj_copy(&json, base, e, n);
    ic_put_flat(ret, sv_from(json.p, json.n));
    if (json.rc != 0 || output.rc != 0) {
        ret->rc = ERR_LIMIT;
    }
    bytes_fini(&json);
    bytes_fini(&output);
    bytes_fini(&status);
    bytes_fini(&model);
}

static struct icj latest(const struct ic_loop *l)
{
    struct icj v = {ICJ_ABSENT, {NULL, 0}};

    if (l->answer.n > 0) {
        (void)icj_parse(&v, sv_from(l->answer.p, l->answer.n), NULL);
    }
    return v;
}

/* Id and time that every snapshot of this answer repeats. */
static void fix_identity(struct ic_loop *l, struct icj response)
{
    char id[64];

    if (l->response_id.n == 0 && icj_get(response, "id").type == ICJ_STRING) {
        bytes_put_sv(&l->response_id, icj_get(response, "id").raw);
    }
    if (l->response_id.n == 0) {
        id_text(id, sizeof(id), "resp_", 24);
        bytes_put_json_str(&l->response_id, sv_of(id));
    }
    if (l->created.n == 0 && icj_get(response, "created_at").type == ICJ_NUMBER) {
        bytes_put_sv(&l->created, icj_get(response, "created_at").raw);
    }
    if (l->created.n == 0) {
        bytes_put_u64(&l->created, l->now_s);
    }
}

static void emit_snapshot(struct ic_loop *l, const char *type, struct icj base,
                          const struct shape *s)
{
    begin(l, type);
    icj_put_key(&l->out, "response");
    put_response(l, base, s, &l->out);
    end(l);
}

void ic_emit_opening(struct ic_loop *l, struct icj response)
{
    static const struct shape s = {
        .status = "in_progress", .error = {"null", 4}, .details = {"null", 4}};

    if (l->is_created || !l->req->is_stream) {
        return;
    }
    l->is_created = true;
    fix_identity(l, response);
    emit_snapshot(l, "response.created", response, &s);
    emit_snapshot(l, "response.in_progress", response, &s);
}

/* --- our calls --- */

void ic_emit_call_added(struct ic_loop *l, struct ic_call *c)
{
    struct bytes json = {0};

    if (!l->req->is_stream) {
        return;
    }
    ic_call_item_json(l, c, "in_progress", SV_LIT(""),
                      l->req->is_outputs_included ? SV_LIT("[]") : SV_LIT("null"), &json);
    ic_emit_item_event(l, "response.output_item.added", c->item, sv_from(json.p, json.n));
    bytes_fini(&json);
    begin(l, "response.code_interpreter_call.in_progress");
    icj_put_u64(&l->out, "output_index", c->item);
    put_item_id(l, c->item);
    end(l);
}

static void emit_status(struct ic_loop *l, const char *type, const struct ic_call *c)
{
    begin(l, type);
    icj_put_u64(&l->out, "output_index", c->item);
    put_item_id(l, c->item);
    end(l);
}

void ic_emit_call_code(struct ic_loop *l, struct ic_call *c)
{
    if (!l->req->is_stream || !c->is_shown || c->is_code_final) {
        return;
    }
    if (c->code.n > c->code_sent && !c->is_code_replaced) {
        begin(l, "response.code_interpreter_call_code.delta");
        icj_put_u64(&l->out, "output_index", c->item);
        put_item_id(l, c->item);
        icj_put_str(&l->out, "delta", sv_from(c->code.p + c->code_sent, c->code.n - c->code_sent));
        end(l);
        c->code_sent = c->code.n;
    }
    if (c->is_args_done) {
        begin(l, "response.code_interpreter_call_code.done");
        icj_put_u64(&l->out, "output_index", c->item);
        put_item_id(l, c->item);
        icj_put_str(&l->out, "code", sv_from(c->code.p, c->code.n));
        end(l);
        c->is_code_final = true;
    }
}

void ic_emit_run_begin(struct ic_loop *l, struct ic_call *c)
{
    if (l->req->is_stream && c->is_shown) {
        emit_status(l, "response.code_interpreter_call.interpreting", c);
    }
}

static void finish_call(struct ic_loop *l, struct ic_call *c, const char *status,
                        struct str_view outputs)
{
    struct bytes *json = &l->items[c->item].json;

    ic_call_item_json(l, c, status, sv_from(c->code.p, c->code.n), outputs, json);
    ic_emit_item_event(l, "response.output_item.done", c->item, sv_from(json->p, json->n));
}

void ic_emit_run_end(struct ic_loop *l, struct ic_call *c, const struct ic_output *out)
{
    struct bytes outputs = {.cap_max = IC_TEXT_MAX};

    if (!c->is_shown) {
        return;
    }
    ic_call_outputs(l, c, out, &outputs);
    if (l->req->is_stream) {
        emit_status(l, "response.code_interpreter_call.completed", c);
    }
    finish_call(l, c, "completed", sv_from(outputs.p, outputs.n));
    bytes_fini(&outputs);
}

void ic_emit_run_dropped(struct ic_loop *l, struct ic_call *c)
{
    if (c->is_shown && l->items[c->item].json.n == 0) {
        finish_call(l, c, "incomplete",
                    l->req->is_outputs_included ? SV_LIT("[]") : SV_LIT("null"));
    }
}

/* --- the end --- */

/* The closing answer was only a call that nothing answers: say so instead of saying nothing. */
static void add_message(struct ic_loop *l)
{
    static const char part[] =
        "{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}";
    static const char text[] = "The code interpreter limit of this response is reached, and the "
                               "model gave no final answer.";
    unsigned item = ic_item_new(l);
    struct bytes full = {0};
    struct bytes json = {0};
    char id[48];

    if (item == IC_NONE) {
        return;
    }
    id_text(id, sizeof(id), "msg_", 16);
    bytes_put_str(&l->items[item].id, id);
    bytes_printf(&full,
                 "{\"type\":\"output_text\",\"text\":\"%s\",\"annotations\":[],\"logprobs\":[]}",
                 text);
    bytes_printf(&l->items[item].json,
                 "{\"id\":\"%s\",\"type\":\"message\",\"status\":\"completed\",\"role\":"
                 "\"assistant\",\"content\":[%s]}",
                 id, full.p);
    if (l->req->is_stream) {
        static const char *const types[] = {
            "response.content_part.added", "response.output_text.delta",
            "response.output_text.done", "response.content_part.done"};

        bytes_printf(&json,
                     "{\"id\":\"%s\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":"
                     "\"assistant\",\"content\":[]}",
                     id);
        ic_emit_item_event(l, "response.output_item.added", item, sv_from(json.p, json.n));
        for (unsigned i = 0; i < 4; i++) {
            begin(l, types[i]);
            icj_put_u64(&l->out, "output_index", item);
            put_item_id(l, item);
            icj_put_u64(&l->out, "content_index", 0);
            if (i == 0 || i == 3) {
                icj_put_raw(&l->out, "part", i == 0 ? sv_of(part) : sv_from(full.p, full.n));
            } else {
                icj_put_str(&l->out, i == 1 ? "delta" : "text", sv_of(text));
                icj_put_raw(&l->out, "logprobs", SV_LIT("[]"));
            }
            end(l);
        }
        ic_emit_item_event(l, "response.output_item.done", item,
                           sv_from(l->items[item].json.p, l->items[item].json.n));
    }
    bytes_fini(&full);
    bytes_fini(&json);
}

void ic_emit_answer(struct ic_loop *l, const struct wk_run_action *a, struct bytes *body)
{
    struct icj base = latest(l);
    struct icj details = icj_get(base, "incomplete_details");
    struct shape s = {.status = a->is_cut ? "incomplete" : "completed",
                      .has_output = true,
                      .has_usage = true,
                      .error = SV_LIT("null"),
                      .details = SV_LIT("null")};

    fix_identity(l, base);
    if (l->has_dropped && !l->has_message && l->client_calls == 0 && !a->is_cut) {
        add_message(l);
    }
    if (a->is_cut) {
        s.details = !a->is_token_cut && details.type == ICJ_OBJECT
                        ? details.raw
                        : SV_LIT("{\"reason\":\"max_output_tokens\"}");
    }
    if (l->req->is_stream) {
        emit_snapshot(l, a->is_cut ? "response.incomplete" : "response.completed", base, &s);
    } else {
        put_response(l, base, &s, body);
    }
}

void ic_emit_fail(struct ic_loop *l)
{
    const struct err_info *info = err_info(l->fail.e.code);
    const char *code = l->fail.code[0] != '\0' ? l->fail.code
                       : info->code != NULL    ? info->code
                                               : "server_error";
    const char *type = l->fail.type[0] != '\0' ? l->fail.type : info->type;
    struct icj base = latest(l);
    struct bytes inner = {0};
    struct bytes error = {0};
    struct shape s = {
        .status = "failed", .has_output = true, .has_usage = true, .details = SV_LIT("null")};

    ic_emit_opening(l, base);
    for (unsigned i = 0; i < l->call_count; i++) {
        ic_emit_run_dropped(l, &l->calls[i]);
    }
    bytes_put_char(&inner, '{');
    icj_put_str(&inner, "type", sv_of(type));
    icj_put_str(&inner, "code", sv_of(code));
    icj_put_str(&inner, "message", sv_of(l->fail.e.text));
    icj_put_raw(&inner, "param", SV_LIT("null"));
    bytes_put_char(&inner, '}');
    begin(l, "error");
    icj_put_raw(&l->out, "error", sv_from(inner.p, inner.n));
    icj_put_str(&l->out, "code", sv_of(code));
    icj_put_str(&l->out, "message", sv_of(l->fail.e.text));
    icj_put_raw(&l->out, "param", SV_LIT("null"));
    end(l);
    bytes_put_char(&error, '{');
    icj_put_str(&error, "code", sv_of(code));
    icj_put_str(&error, "message", sv_of(l->fail.e.text));
    bytes_put_char(&error, '}');
    s.error = sv_from(error.p, error.n);
    emit_snapshot(l, "response.failed", base, &s);
    bytes_fini(&inner);
    bytes_fini(&error);
}
