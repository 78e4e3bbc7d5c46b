/* Requests: refused with a text, or rewritten into JSON that parses and holds no native tool. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "ic_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_body(const struct ic_request *r, bool is_first, bool is_closing)
{
    struct bytes body = {0};
    struct icj v;
    struct icj tool;

    bytes_put_str(&body, "{\"model\":\"x\"");
    bytes_put(&body, r->head.p, r->head.n);
    if (r->has_input) {
        bytes_put_str(&body, ",\"input\":[");
        bytes_put(&body, r->items.p, r->items.n);
    }
    bytes_put_str(&body, r->has_input ? "]" : " ");
    ic_request_tail(r, is_first, is_closing, r->output_tokens_max, &body);
    REQUIRE(icj_parse(&v, sv_from(body.p, body.n), NULL) == 0);
    struct icj_iter it = icj_iter(icj_get(v, "tools"));

    while (icj_next(&it, &tool)) {
        REQUIRE(!icj_is(icj_get(tool, "type"), "code_interpreter"));
    }
    bytes_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "litellm_code_execution";
    static char header[] = "x-session";
    struct cfg cfg = {0};
    struct ic_request r;
    struct err e = {0};

    if (size < 1) {
        return 0;
    }
    cfg.ci_tool_name = name;
    cfg.session_header = header;
    int rc = ic_request_parse(&r, (data[0] & 1) != 0 ? IC_CHAT : IC_RESPONSES,
                              sv_from(data + 1, size - 1), SV_LIT("x-session: s\r\n"), &cfg, &e);

    if (rc == 0) {
        for (unsigned i = 0; i < 3; i++) {
            check_body(&r, i == 0, i == 2);
        }
    } else {
        REQUIRE(rc < 0 && e.code == rc && e.text[0] != '\0');
    }
    ic_request_fini(&r);
    return 0;
}
