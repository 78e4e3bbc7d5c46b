#include "../support/unit.h"

#include "fe_headers.h"
#include "fe_route.h"

static const struct row {
    const char *path;
    enum msg_method method;
    char where; /* P, A */
    enum fe_do what;
    enum msg_kind kind;
    bool is_allowed;
    bool needs_key;
} rows[] = {
#define GET  MSG_METHOD_GET
#define POST MSG_METHOD_POST
    {"/v1/responses", POST, 'P', FE_DO_JOB, MSG_KIND_RESPONSES, true, true},
    {"/responses", POST, 'P', FE_DO_JOB, MSG_KIND_RESPONSES, true, true},
    {"/v1/responses", GET, 'P', FE_DO_JOB, MSG_KIND_RESPONSES, false, true},
    {"/v1/chat/completions", POST, 'P', FE_DO_JOB, MSG_KIND_CHAT, true, true},
    {"/chat/completions", POST, 'P', FE_DO_JOB, MSG_KIND_CHAT, true, true},
    {"/v1/responses/input_tokens", POST, 'P', FE_DO_JOB, MSG_KIND_MODEL, true, true},
    {"/v1/responses/resp_1", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/responses/resp_1", MSG_METHOD_DELETE, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/responses/resp_1/cancel", POST, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/responses/resp_1/input_items", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/responses/resp_1", MSG_METHOD_PUT, 'P', FE_DO_JOB, MSG_KIND_OBJECT, false, true},
    {"/v1/files", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/files/file-1/content", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/sandboxes", POST, 'P', FE_DO_JOB, MSG_KIND_SANDBOX, true, true},
    {"/v1/sandboxes/run", POST, 'P', FE_DO_JOB, MSG_KIND_SANDBOX, true, true},
    {"/sandboxes/x", MSG_METHOD_DELETE, 'P', FE_DO_JOB, MSG_KIND_SANDBOX, true, true},
    {"/v1/embeddings", POST, 'P', FE_DO_JOB, MSG_KIND_MODEL, true, true},
    {"/embeddings", POST, 'P', FE_DO_JOB, MSG_KIND_MODEL, true, true},
    {"/v1/audio/speech", POST, 'P', FE_DO_JOB, MSG_KIND_MODEL, true, true},
    {"/audio/speech", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/audio/speech", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/models", GET, 'P', FE_DO_MODELS, MSG_KIND_MODEL, true, true},
    {"/models", MSG_METHOD_HEAD, 'P', FE_DO_MODELS, MSG_KIND_MODEL, true, true},
    {"/v1/models/a", GET, 'P', FE_DO_MODEL, MSG_KIND_MODEL, true, true},
    {"/v1/models/a%2Fb:c", GET, 'P', FE_DO_MODEL, MSG_KIND_MODEL, true, true},
    {"/v1/models/a/b", GET, 'P', FE_DO_MODEL, MSG_KIND_MODEL, true, true},
    {"/v1/models/..", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/models", MSG_METHOD_DELETE, 'P', FE_DO_MODELS, MSG_KIND_MODEL, false, true},
    {"/healthz", GET, 'P', FE_DO_HEALTH, MSG_KIND_MODEL, true, false},
    {"/healthz", GET, 'A', FE_DO_HEALTH, MSG_KIND_MODEL, true, false},
    {"/healthz", POST, 'P', FE_DO_HEALTH, MSG_KIND_MODEL, false, false},
    {"/healthz", MSG_METHOD_OTHER, 'P', FE_DO_HEALTH, MSG_KIND_MODEL, false, false},
    {"/v1/healthz", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/readyz", GET, 'P', FE_DO_READY, MSG_KIND_MODEL, true, false},
    {"/health/liveliness", GET, 'P', FE_DO_ALIVE, MSG_KIND_MODEL, true, false},
    {"/health/readiness", GET, 'P', FE_DO_READY, MSG_KIND_MODEL, true, false},
    {"/metrics", GET, 'A', FE_DO_METRICS, MSG_KIND_MODEL, true, false},
    {"/metrics", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/status", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/status", GET, 'A', FE_DO_STATUS, MSG_KIND_MODEL, true, false},
    {"/", GET, 'A', FE_DO_PAGE, MSG_KIND_MODEL, true, false},
    {"/", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses", POST, 'A', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"*", MSG_METHOD_OPTIONS, 'P', FE_DO_OPTIONS, MSG_KIND_MODEL, true, false},
    {"/v1/responses", MSG_METHOD_OPTIONS, 'P', FE_DO_OPTIONS, MSG_KIND_RESPONSES, true, false},
    {"/nowhere", MSG_METHOD_OPTIONS, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    /* never another route than the literal path */
    {"//v1/models", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1//models", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/../healthz", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/%2e%2e/healthz", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/%2E./healthz", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/./chat/completions", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/x/..", POST, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses/..", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses//x", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses/a%2Fb", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses/a%5cb", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/%72esponses", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/V1/models", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/healthz/", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/healthz;x", GET, 'P', FE_DO_NONE, MSG_KIND_MODEL, false, false},
    {"/v1/responses/a...b", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
    {"/v1/responses/...", GET, 'P', FE_DO_JOB, MSG_KIND_OBJECT, true, true},
};

static void each_route(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        struct fe_route got;

        fe_route_find(&got, r->where == 'A', r->method, sv_of(r->path));
        if (got.what != r->what || got.kind != r->kind || got.is_allowed != r->is_allowed ||
            got.needs_key != r->needs_key) {
            fail_msg("row %zu %s: what %d kind %d allowed %d key %d", i, r->path, got.what,
                     got.kind, got.is_allowed, got.needs_key);
        }
    }
}

static void allow_lists(void **state)
{
    struct fe_route r;
    char text[64];

    (void)state;
    fe_route_find(&r, false, POST, SV_LIT("/healthz"));
    fe_route_allow(text, sizeof(text), &r);
    assert_string_equal(text, "GET, HEAD, OPTIONS");
    fe_route_find(&r, false, GET, SV_LIT("/v1/sandboxes/x"));
    fe_route_allow(text, sizeof(text), &r);
    assert_string_equal(text, "GET, HEAD, POST, PUT, DELETE, OPTIONS");
    fe_route_allow(text, 4, &r); /* cut, never past the end */
    assert_true(strlen(text) < 4);
}

static void model_ids_are_decoded_once(void **state)
{
    char id[16];

    (void)state;
    assert_true(fe_route_model_id(SV_LIT("/v1/models/a%2Fb:c"), id, sizeof(id)));
    assert_string_equal(id, "a/b:c");
    assert_true(fe_route_model_id(SV_LIT("/models/a/b"), id, sizeof(id)));
    assert_string_equal(id, "a/b");
    assert_true(fe_route_model_id(SV_LIT("/models/%252F"), id, sizeof(id)));
    assert_string_equal(id, "%2F");
    assert_false(fe_route_model_id(SV_LIT("/models/0123456789abcdef"), id, sizeof(id)));
}

static void request_headers_are_chosen(void **state)
{
    static const char text[] =
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s\r\nx-api-key: s\r\nCookie: s\r\n"
        "OpenAI-Organization: o\r\nX-Stainless-Lang: js\r\nUser-Agent: u\r\nX-Other: n\r\n"
        "Content-Type: a/b\r\nX-Sess: 1\r\nTE: x\r\nContent-Length: 0\r\n\r\n";
    struct fe_http *h = fe_http_new();
    struct str_view in = sv_from(text, sizeof(text) - 1);
    struct str_view body;
    struct bytes out = {0};

    (void)state;
    assert_int_equal(fe_http_next(h, &in, &body), FE_HTTP_HEAD);
    assert_int_equal(fe_headers_to_worker(&out, fe_http_head(h), SV_LIT("x-sess")), 0);
    assert_sv_equal(sv_from(out.p, out.n),
                    "openai-organization: o\r\nx-stainless-lang: js\r\nuser-agent: u\r\n"
                    "content-type: a/b\r\nx-sess: 1\r\n");
    bytes_reset(&out);
    fe_headers_to_worker(&out, fe_http_head(h),
                         SV_LIT("authorization")); /* a credential never travels */
    assert_null(memmem(out.p, out.n, "Bearer", 6));
    bytes_fini(&out);
    fe_http_free(h);
}

static void answer_headers_are_checked(void **state)
{
    struct bytes out = {0};

    (void)state;
    assert_int_equal(
        fe_headers_from_worker(&out, SV_LIT("content-type: a/b\r\nContent-Length: 5\r\nX-A:\tb\r\n"
                                            "transfer-encoding: chunked\r\nset-cookie: a=b\r\n"
                                            "x-request-id: other\r\nconnection: close\r\n")),
        0);
    assert_sv_equal(sv_from(out.p, out.n), "content-type: a/b\r\nX-A:\tb\r\n");
    bytes_reset(&out);
    assert_int_equal(fe_headers_from_worker(
                         &out, SV_LIT("bad name: 1\r\nx-b: a\rb\r\nnocolon\r\nx-c: \0\r\nx-d: 1")),
                     4);
    assert_sv_equal(sv_from(out.p, out.n), "x-d: 1\r\n");
    bytes_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_route),
        cmocka_unit_test(allow_lists),
        cmocka_unit_test(model_ids_are_decoded_once),
        cmocka_unit_test(request_headers_are_chosen),
        cmocka_unit_test(answer_headers_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
