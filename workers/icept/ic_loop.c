#include "ic_loop.h"

#include "base/id.h"
#include "base/mem.h"
#include "ic_usage.h"
#include "wk_redact.h"

static void call_fini(struct ic_call *c)
{
    bytes_fini(&c->call_id);
    bytes_fini(&c->args);
    bytes_fini(&c->code);
    bytes_fini(&c->result);
    bytes_fini(&c->extra);
    memset(c, 0, sizeof(*c));
}

static void extras_fini(struct ic_loop *l)
{
    for (unsigned i = 0; i < l->extra_count; i++) {
        bytes_fini(&l->extras[i].key);
        bytes_fini(&l->extras[i].value);
    }
    l->extra_count = 0;
}

struct ic_loop *ic_loop_new(const struct ic_request *req, const struct cfg *cfg, uint32_t now_s)
{
    struct ic_loop *l = mem_zalloc(sizeof(*l));

    if (l == NULL) {
        return NULL;
    }
    l->req = req;
    l->cfg = cfg;
    l->ops = req->surface == IC_CHAT ? &ic_chat_ops : &ic_responses_ops;
    l->now_s = now_s;
    bytes_init(&l->transcript, IC_TEXT_MAX);
    bytes_init(&l->out, IC_TEXT_MAX);
    bytes_init(&l->round_items, IC_TEXT_MAX);
    bytes_init(&l->answer, IC_TEXT_MAX);
    bytes_init(&l->content, IC_TEXT_MAX);
    bytes_init(&l->text, IC_TEXT_MAX);
    bytes_init(&l->message, IC_TEXT_MAX);
    return l;
}

/* clang-format off */
#define TEXTS(X) \
    X(transcript) X(usage) X(out) X(response_id) X(created) X(first) X(answer) X(round_items) X(round_usage) \
    X(content) X(text) X(message) X(finish)
/* clang-format on */

void ic_loop_free(struct ic_loop *l)
{
    if (l == NULL) {
        return;
    }
#define X(name) bytes_fini(&l->name);
    TEXTS(X)
#undef X
    for (unsigned i = 0; i < l->item_count; i++) {
        bytes_fini(&l->items[i].id);
        bytes_fini(&l->items[i].json);
    }
    mem_free(l->items);
    ic_slots_reset(l);
    mem_free(l->slots);
    for (unsigned i = 0; i < IC_CALLS_MAX; i++) {
        call_fini(&l->calls[i]);
    }
    extras_fini(l);
    mem_free(l);
}

int ic_loop_rc(const struct ic_loop *l)
{
#define X(name)                                                                                    \
    if (l->name.rc != 0) {                                                                         \
        return l->name.rc;                                                                         \
    }
    TEXTS(X)
#undef X
    for (unsigned i = 0; i < l->call_count; i++) {
        const struct ic_call *c = &l->calls[i];

        if (c->args.rc != 0 || c->code.rc != 0 || c->result.rc != 0 || c->call_id.rc != 0 ||
            c->extra.rc != 0) {
            return ERR_LIMIT;
        }
    }
    for (unsigned i = 0; i < l->item_count; i++) {
        if (l->items[i].json.rc != 0 || l->items[i].id.rc != 0) {
            return ERR_LIMIT;
        }
    }
    return ic_slots_rc(l);
}

void ic_loop_round_begin(struct ic_loop *l)
{
    for (unsigned i = 0; i < l->call_count; i++) {
        call_fini(&l->calls[i]);
    }
    l->call_count = 0;
    ic_slots_reset(l);
    l->final_count = 0;
    l->client_calls = 0;
    l->is_cut = false;
    l->is_ended = false;
    l->is_over = false;
    l->has_message = false;
    l->has_dropped = false;
    l->is_reasoning_lost = false;
    bytes_reset(&l->round_items);
    bytes_reset(&l->round_usage);
    l->has_earlier_text = l->has_earlier_text || l->text.n > 0;
    bytes_reset(&l->text);
    bytes_reset(&l->finish);
    extras_fini(l);
}

void ic_loop_round_usage(struct ic_loop *l, uint64_t *ret_in, uint64_t *ret_out)
{
    struct icj u = {ICJ_ABSENT, {NULL, 0}};

    if (l->round_usage.n > 0 &&
        icj_parse(&u, sv_from(l->round_usage.p, l->round_usage.n), NULL) == 0) {
        ic_usage_add(&l->usage, u);
    }
    *ret_in = icj_uint_or(icj_get(u, "input_tokens"), icj_uint_or(icj_get(u, "prompt_tokens"), 0));
    *ret_out =
        icj_uint_or(icj_get(u, "output_tokens"), icj_uint_or(icj_get(u, "completion_tokens"), 0));
}

/* The text of a string without our keys, which are looked for before the text is cut. */
static void copy_text(const struct ic_loop *l, struct icj v, char *dst, size_t cap)
{
    struct bytes tmp = {.cap_max = IC_TEXT_MAX};
    struct bytes clean = {.cap_max = IC_TEXT_MAX};
    struct str_view text = icj_view(v, &tmp);

    if (wk_redact(l->cfg, text, &clean) == 0) {
        sv_copy(dst, cap, sv_from(clean.p, clean.n));
    }
    bytes_fini(&tmp);
    bytes_fini(&clean);
}

int ic_loop_upstream_error(struct ic_loop *l, struct icj error, struct err *e)
{
    char text[400] = "";
    uint64_t status = icj_uint_or(icj_get(error, "code"), 0);

    if (error.type == ICJ_STRING) {
        copy_text(l, error, text, sizeof(text));
    } else {
        copy_text(l, icj_get(error, "message"), text, sizeof(text));
        copy_text(l, icj_get(error, "type"), l->fail.type, sizeof(l->fail.type));
        copy_text(l, icj_get(error, "code"), l->fail.code, sizeof(l->fail.code));
    }
    l->fail.status = status >= 400 && status < 600 ? (int)status : 0;
    return err_set(e, ERR_UPSTREAM_STATUS, "%s",
                   text[0] != '\0' ? text : "the model provider reported an error");
}

unsigned ic_item_new(struct ic_loop *l)
{
    if (l->item_count == IC_ITEMS_MAX) {
        return IC_NONE;
    }
    if (l->item_count == l->item_cap) {
        unsigned cap = l->item_cap == 0 ? 16 : l->item_cap * 2;
        struct ic_item *p = mem_realloc(l->items, cap * sizeof(*p));

        if (p == NULL) {
            return IC_NONE;
        }
        l->items = p;
        l->item_cap = cap;
    }
    memset(&l->items[l->item_count], 0, sizeof(l->items[0]));
    bytes_init(&l->items[l->item_count].json, IC_TEXT_MAX);
    return l->item_count++;
}

bool ic_call_is_shown_next(const struct ic_loop *l)
{
    return wk_run_may_show(&l->run, l->call_count);
}

struct ic_call *ic_call_new(struct ic_loop *l)
{
    struct ic_call *c;

    if (l->call_count == IC_CALLS_MAX) {
        return NULL;
    }
    c = &l->calls[l->call_count];
    call_fini(c);
    c->is_shown = ic_call_is_shown_next(l);
    c->item = IC_NONE;
    ic_args_init(&c->dec);
    l->call_count++;
    return c;
}

void ic_call_feed(struct ic_call *c, struct str_view piece)
{
    bytes_put_sv(&c->args, piece);
    ic_args_feed(&c->dec, piece, &c->code);
}

void ic_call_set_id(struct ic_loop *l, struct ic_call *c, struct str_view id)
{
    char fresh[48];
    bool is_used = id.n == 0;

    for (unsigned i = 0; i < l->call_count && !is_used; i++) {
        const struct bytes *other = &l->calls[i].call_id;

        is_used = &l->calls[i] != c && sv_eq(id, sv_from(other->p, other->n));
    }
    if (is_used) {
        id_text(fresh, sizeof(fresh), "call_", 12);
        id = sv_of(fresh);
    }
    bytes_put_sv(&c->call_id, id);
}

void ic_call_replace(struct ic_call *c, struct str_view whole)
{
    struct bytes old = c->code;

    if (c->is_args_done || whole.n == 0 || sv_eq(whole, sv_from(c->args.p, c->args.n))) {
        return;
    }
    memset(&c->code, 0, sizeof(c->code));
    bytes_reset(&c->args);
    ic_args_init(&c->dec);
    ic_call_feed(c, whole);
    if (!c->is_code_replaced && c->code_sent > 0 &&
        !sv_starts(sv_from(c->code.p, c->code.n), sv_from(old.p, c->code_sent))) {
        c->is_code_replaced = true;
    }
    bytes_fini(&old);
}

void ic_call_end(struct ic_call *c)
{
    if (!c->is_args_done) {
        c->is_args_done = true;
        c->is_valid = ic_args_end(&c->dec, sv_from(c->args.p, c->args.n));
    }
}

struct str_view ic_args_view(struct icj args, struct bytes *tmp)
{
    return args.type == ICJ_OBJECT ? args.raw : icj_view(args, tmp);
}

void ic_call_item_json(const struct ic_loop *l, const struct ic_call *c, const char *status,
                       struct str_view code, struct str_view outputs, struct bytes *ret)
{
    const struct bytes *id = &l->items[c->item].id;

    bytes_put_char(ret, '{');
    icj_put_str(ret, "id", sv_from(id->p, id->n));
    icj_put_str(ret, "type", SV_LIT("code_interpreter_call"));
    icj_put_str(ret, "status", sv_of(status));
    icj_put_str(ret, "code", code);
    icj_put_str(ret, "container_id", sv_of(l->container));
    icj_put_raw(ret, "outputs", outputs);
    bytes_put_char(ret, '}');
}

void ic_call_outputs(const struct ic_loop *l, const struct ic_call *c, const struct ic_output *out,
                     struct bytes *ret)
{
    if (!l->req->is_outputs_included) {
        bytes_put_str(ret, "null");
    } else if (!c->is_valid) {
        bytes_put_str(ret, "[{\"type\":\"logs\",\"logs\":\"" IC_INVALID_ARGS "\"}]");
    } else {
        ic_output_client_json(out, ret);
    }
}

void ic_put_flat(struct bytes *out, struct str_view raw)
{
    size_t from = out->n;

    if (bytes_put_sv(out, raw) != 0 ||
        (sv_find(raw, '\n') == raw.n && sv_find(raw, '\r') == raw.n)) {
        return;
    }
    for (size_t i = from; i < out->n; i++) {
        if (out->p[i] == '\n' || out->p[i] == '\r') {
            out->p[i] = ' ';
        }
    }
}
