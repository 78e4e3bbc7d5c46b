/* Every way to get a configuration wrong that we could think of, with the message it must give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "config/cfg_text.h"

#define C         "cofferdam:\n"
#define M(params) "model_list:\n- model_name: m\n  litellm_params: {" params "}\n"

struct bad {
    enum cfg_role role;
    const char *text;
    const char *message; /* must be contained */
};

static const struct bad bads[] = {
    /* YAML */
    {CFG_FOR_CTL, "a: [1, 2", "c.yaml:2: not valid YAML"},
    {CFG_FOR_CTL, "a: 1\n b: 2\n", "c.yaml:2: not valid YAML"},
    {CFG_FOR_CTL, "a:\n\t- x\n", "c.yaml:2: not valid YAML"},
    {CFG_FOR_CTL, "a: \xff\n", "not readable as YAML"},
    {CFG_FOR_CTL, "- a\n- b\n", "c.yaml:1: the file is not a map"},
    {CFG_FOR_CTL, "word\n", "c.yaml:1: the file is not a map"},
    {CFG_FOR_CTL, "a: 1\n---\nb: 2\n", "c.yaml:2: more than one YAML document"},
    {CFG_FOR_CTL, "a: 1\nb: 2\na: 3\n", "c.yaml:3: a: given twice, first on line 1"},
    {CFG_FOR_CTL, C "  listen: 127.0.0.1:1\n  listen: 127.0.0.1:2\n",
     "c.yaml:3: listen: given twice, first on line 2"},
    {CFG_FOR_CTL, "? [a]\n: 1\n", "c.yaml:1: a key is not a plain word"},
    {CFG_FOR_CTL, "a: *nope\n", "c.yaml:1: *nope names no anchor"},
    {CFG_FOR_CTL, "a: &x [*x]\n", "c.yaml:1: *x names no anchor"},
    {CFG_FOR_CTL, "a: !!python/object:x 1\n", "c.yaml:1: unsupported YAML tag"},
    {CFG_FOR_CTL, "a: \"x\\0y\"\n", "c.yaml:1: a value holds a NUL byte"},
    {CFG_FOR_CTL, "a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
     "c.yaml:1: nested more than 32 deep"},
    {CFG_FOR_CTL, "<<: 1\n", "c.yaml:1: << needs a map"},
    /* our section */
    {CFG_FOR_CTL, "cofferdam: 1\n", "c.yaml:1: cofferdam: must be a map"},
    {CFG_FOR_CTL, "cofferdam: [1]\n", "c.yaml:1: cofferdam: must be a map"},
    {CFG_FOR_CTL, C "  lisen: x\n",
     "c.yaml:2: cofferdam.lisen: unknown key; did you mean cofferdam.listen?"},
    {CFG_FOR_CTL, C "  sesions: {}\n",
     "c.yaml:2: cofferdam.sesions: unknown key; did you mean cofferdam.sessions?"},
    {CFG_FOR_CTL, C "  sessions:\n    ttl: 5\n",
     "c.yaml:3: cofferdam.sessions.ttl: unknown key; did you mean cofferdam.sessions.ttl_s?"},
    {CFG_FOR_CTL, C "  ttl_s: 5\n",
     "c.yaml:2: cofferdam.ttl_s: unknown key; did you mean cofferdam.sessions.ttl_s?"},
    {CFG_FOR_CTL, C "  max_agentic_loops: 5\n",
     "did you mean cofferdam.code_interpreter.max_agentic_loops?"},
    {CFG_FOR_CTL, C "  curve: {pubkey: x}\n",
     "c.yaml:2: cofferdam.curve.pubkey: unknown key; did you mean cofferdam.curve.public_key?"},
    {CFG_FOR_CTL, C "  limits: 5\n", "c.yaml:2: cofferdam.limits: must be a map"},
    {CFG_FOR_CTL, C "  workers: many\n",
     "c.yaml:2: cofferdam.workers: must be a whole number from 0 to 256, not \"many\"; write "
     "digits only"},
    {CFG_FOR_CTL, C "  workers: 257\n",
     "c.yaml:2: cofferdam.workers: must be a whole number from 0 to 256, not \"257\"; choose one"},
    {CFG_FOR_CTL, C "  workers: -1\n",
     "cofferdam.workers: must be a whole number from 0 to 256, not \"-1\""},
    {CFG_FOR_CTL, C "  workers: true\n", "cofferdam.workers: must be a whole number"},
    {CFG_FOR_CTL, C "  workers: 1.5\n", "cofferdam.workers: must be a whole number"},
    {CFG_FOR_CTL, C "  workers: 1k\n", "cofferdam.workers: must be a whole number"},
    {CFG_FOR_CTL, C "  workers: [1]\n",
     "c.yaml:2: cofferdam.workers: must be a single value, not a list"},
    {CFG_FOR_CTL, C "  workers: 99999999999999999999999\n",
     "cofferdam.workers: must be a whole number"},
    {CFG_FOR_CTL, C "  local: {memory: 1m}\n",
     "cofferdam.local.memory: must be a whole number from 67108864 to"},
    {CFG_FOR_CTL, C "  local: {memory: 512x}\n",
     "cofferdam.local.memory: must be a whole number from 67108864 to 1099511627776, not \"512x\"; "
     "k, m or g may follow"},
    {CFG_FOR_CTL, C "  local: {memory: 99999999999999g}\n",
     "cofferdam.local.memory: must be a whole number"},
    {CFG_FOR_CTL, C "  code_interpreter: {max_agentic_loops: 0}\n",
     "c.yaml:2: cofferdam.code_interpreter.max_agentic_loops: must be a whole number from 1 to "
     "100, not \"0\""},
    {CFG_FOR_CTL, C "  code_interpreter: {max_agentic_loops: true}\n",
     "cofferdam.code_interpreter.max_agentic_loops: must be a whole number"},
    {CFG_FOR_CTL, C "  code_interpreter: {max_agentic_loops: 2.5}\n",
     "cofferdam.code_interpreter.max_agentic_loops: must be a whole number"},
    {CFG_FOR_CTL, C "  code_interpreter: {tool_name: \"a b\"}\n",
     "cofferdam.code_interpreter.tool_name: may hold only letters"},
    {CFG_FOR_CTL, C "  run_broker: maybe\n",
     "c.yaml:2: cofferdam.run_broker: must be true or false"},
    {CFG_FOR_CTL, C "  run_dir: rel\n", "c.yaml:2: cofferdam.run_dir: must be an absolute path"},
    {CFG_FOR_CTL, C "  run_dir: \"\"\n",
     "cofferdam.run_dir: must have 1 to 80 bytes, not 0; fill it in"},
    {CFG_FOR_CTL, C "  state_dir: rel\n", "cofferdam.state_dir: must be an absolute path"},
    {CFG_FOR_CTL, C "  log_level: loud\n",
     "cofferdam.log_level: must be debug, info, warn or error; choose one"},
    {CFG_FOR_CTL, C "  sessions: {on_stop: drop}\n",
     "cofferdam.sessions.on_stop: must be keep or delete"},
    {CFG_FOR_CTL, C "  local: {network: full}\n", "cofferdam.local.network: must be none"},
    {CFG_FOR_CTL, C "  local: {root: rel}\n", "cofferdam.local.root: must be an absolute path"},
    {CFG_FOR_CTL, C "  local: {binds: [rel]}\n",
     "cofferdam.local.binds: entries must be absolute paths"},
    {CFG_FOR_CTL, C "  local: {binds: {a: b}}\n",
     "cofferdam.local.binds: must be a list of strings"},
    {CFG_FOR_CTL, C "  listen: 4000\n", "c.yaml:2: cofferdam.listen: must be HOST:PORT"},
    {CFG_FOR_CTL, C "  listen: example.com:4000\n",
     "cofferdam.listen: must be HOST:PORT with an IP address or localhost"},
    {CFG_FOR_CTL, C "  listen: 127.0.0.1:70000\n", "cofferdam.listen: must be HOST:PORT"},
    {CFG_FOR_CTL, C "  listen: 0.0.0.0:4000\n",
     "c.yaml:2: cofferdam.listen: is reachable from other hosts and no API key is configured"},
    {CFG_FOR_CTL, C "  listen: \"[::]:4000\"\n", "cofferdam.listen: is reachable from other hosts"},
    {CFG_FOR_CTL, C "  admin_listen: nowhere\n", "cofferdam.admin_listen: must be HOST:PORT"},
    {CFG_FOR_CTL, C "  admin_listen: 127.0.0.1:4000\n",
     "cofferdam.admin_listen: is the same address as listen"},
    {CFG_FOR_CTL, C "  session_header: \"a b\"\n",
     "cofferdam.session_header: must be a header name"},
    {CFG_FOR_CTL, C "  session_header: Authorization\n",
     "cofferdam.session_header: must not be a header that carries credentials"},
    {CFG_FOR_CTL, C "  broker_listen: 10.0.0.1:5000\n",
     "cofferdam.broker_listen: must be tcp://HOST:PORT"},
    {CFG_FOR_CTL, C "  broker_listen: tcp://10.0.0.1:5000\n",
     "cofferdam.broker_listen: carries requests between hosts and needs cofferdam.curve"},
    {CFG_FOR_CTL, C "  return_listen: tcp://0.0.0.0:*\n",
     "cofferdam.return_listen: carries requests between hosts"},
    {CFG_FOR_CTL, C "  brokers: [udp://x]\n",
     "cofferdam.brokers: entries must be ipc:///PATH or tcp://HOST:PORT"},
    {CFG_FOR_CTL, C "  brokers: [tcp://10.0.0.1:5000]\n",
     "cofferdam.brokers: carries requests between hosts"},
    {CFG_FOR_CTL, C "  curve: {public_key: x}\n", "cofferdam.curve.secret_key: is missing"},
    {CFG_FOR_BROKER, C "  curve: {public_key: x, secret_key: y, broker_key: z}\n",
     "cofferdam.curve.public_key: must be 40 characters of Z85"},
    /* keys */
    {CFG_FOR_CTL, C "  api_keys: x\n", "cofferdam.api_keys: must be a list"},
    {CFG_FOR_CTL, C "  api_keys: [x]\n", "cofferdam.api_keys[0]: must be a map with name and key"},
    {CFG_FOR_CTL, C "  api_keys: [{name: a}]\n", "cofferdam.api_keys[0].key: is missing"},
    {CFG_FOR_CTL, C "  api_keys: [{key: a}]\n", "cofferdam.api_keys[0].name: is missing"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: b, color: red}]\n",
     "cofferdam.api_keys[0].color: unknown key"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: \"a b\", key: b}]\n",
     "cofferdam.api_keys[0].name: must have 1 to 64 letters"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: b}, {name: a, key: c}]\n",
     "cofferdam.api_keys[1].key: a key named \"a\" is already there"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: b}, {name: c, key: b}]\n",
     "cofferdam.api_keys[1].key: is the same key as that of another entry"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: \"b c\"}]\n",
     "cofferdam.api_keys[0].key: holds a space"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: os.environ/CFD_T_UNSET}]\n",
     "c.yaml:2: cofferdam.api_keys[0].key: environment variable CFD_T_UNSET is not set"},
    {CFG_FOR_FRONTEND, C "  api_keys: [{name: a, key: b, rpm: x}]\n",
     "cofferdam.api_keys[0].rpm: must be a whole number"},
    {CFG_FOR_CTL, "general_settings: {master_key: \"\"}\n",
     "c.yaml:1: general_settings.master_key: is empty"},
    {CFG_FOR_FRONTEND, "general_settings: {master_key: os.environ/CFD_T_UNSET}\n",
     "general_settings.master_key: environment variable CFD_T_UNSET is not set"},
    /* models */
    {CFG_FOR_CTL, "model_list: {a: b}\n", "c.yaml:1: model_list: must be a list"},
    {CFG_FOR_CTL, "model_list: [x]\n", "model_list[0]: must be a map"},
    {CFG_FOR_CTL, "model_list:\n- litellm_params: {model: openai/x}\n",
     "c.yaml:2: model_list[0].model_name: is missing"},
    {CFG_FOR_CTL, "model_list:\n- model_name: x\n", "model_list[0].litellm_params: is missing"},
    {CFG_FOR_WORKER, M("api_key: x"), "c.yaml:3: model_list[0].litellm_params.model: is missing"},
    {CFG_FOR_WORKER, M("model: openai/"),
     "model_list[0].litellm_params.model: lacks the part before or after the /"},
    {CFG_FOR_WORKER, M("model: azure/gpt"),
     "model_list[0].litellm_params.model: provider \"azure\" is not supported; use "
     "openai/DEPLOYMENT"},
    {CFG_FOR_WORKER, M("model: bedrock/x"), "provider \"bedrock\" is not supported"},
    {CFG_FOR_WORKER, M("model: homegrown/x"),
     "model_list[0].litellm_params.api_base: is missing and provider \"homegrown\" has no known "
     "address"},
    {CFG_FOR_WORKER, M("model: openai/x, api_base: ftp://x"),
     "model_list[0].litellm_params.api_base: must be an http:// or https:// URL"},
    {CFG_FOR_WORKER, M("model: openai/x, api_base: \"http://u:p@h/v1\""),
     "api_base: must be an http:// or https:// URL without user"},
    {CFG_FOR_WORKER, M("model: openai/x, api_key: os.environ/CFD_T_UNSET"),
     "c.yaml:3: model_list[0].litellm_params.api_key: environment variable CFD_T_UNSET is not set"},
    {CFG_FOR_WORKER, M("model: openai/x, api_key: os.environ/"),
     "api_key: os.environ/ must be followed by the name"},
    {CFG_FOR_WORKER, M("model: openai/x, api_key: \"a\\nb\""),
     "api_key: holds a space or control character"},
    {CFG_FOR_WORKER, M("model: openai/x, timeout: soon"),
     "timeout: must be seconds from 0.001 to 86400"},
    {CFG_FOR_WORKER, M("model: openai/x, timeout: 0"), "timeout: must be seconds"},
    {CFG_FOR_WORKER, M("model: openai/x, weight: 0"), "weight: must be a whole number from 1"},
    {CFG_FOR_WORKER, M("model: openai/x, max_agentic_loops: 0"),
     "model_list[0].litellm_params.max_agentic_loops: must be a whole number from 1 to 100"},
    {CFG_FOR_WORKER, M("model: openai/x, max_agentic_loops: false"),
     "max_agentic_loops: must be a whole number"},
    {CFG_FOR_WORKER, M("model: openai/x, max_agentic_loops: three"),
     "max_agentic_loops: must be a whole number"},
    {CFG_FOR_WORKER, M("model: openai/x, extra_headers: {Host: x}"),
     "extra_headers.Host: is not a header that may be added"},
    {CFG_FOR_WORKER, M("model: openai/x, extra_headers: {a: \"x\\r\\ny: z\"}"),
     "extra_headers.a: holds a line end"},
    {CFG_FOR_WORKER, "model_list:\n- model_name: a*b\n  litellm_params: {model: openai/x}\n",
     "model_name: may have * only as its last character"},
    /* tools and settings */
    {CFG_FOR_SANDBOXD, "sandbox_tools: {a: b}\n", "sandbox_tools: must be a list"},
    {CFG_FOR_SANDBOXD,
     "sandbox_tools:\n- sandbox_tool_name: a\n  litellm_params: {sandbox_provider: e2b}\n",
     "sandbox_tools[0].litellm_params.api_key: is missing; write it here or set E2B_API_KEY"},
    {CFG_FOR_SANDBOXD,
     "sandbox_tools:\n- sandbox_tool_name: a\n  litellm_params: {sandbox_provider: opensandbox}\n",
     "sandbox_tools[0].litellm_params.api_base: is missing; write the server's URL here or set "
     "OPEN_SANDBOX_API_BASE"},
    {CFG_FOR_SANDBOXD,
     "sandbox_tools:\n- sandbox_tool_name: a\n  litellm_params: {sandbox_provider: e2b, api_key: "
     "os.environ/CFD_T_UNSET}\n",
     "sandbox_tools[0].litellm_params.api_key: environment variable CFD_T_UNSET"},
    {CFG_FOR_SANDBOXD,
     "sandbox_tools:\n- sandbox_tool_name: a\n  litellm_params: {sandbox_provider: local, "
     "env_vars: {A: {b: c}}}\n",
     "env_vars.A: must be a string"},
    {CFG_FOR_SANDBOXD,
     "sandbox_tools:\n- sandbox_tool_name: a\n  litellm_params: {sandbox_provider: local, "
     "allow_internet_access: 3}\n",
     "allow_internet_access: must be true or false"},
    {CFG_FOR_WORKER,
     "litellm_settings: {code_interpreter_interception_params: {sandbox_tool_name: ghost}}\n",
     "litellm_settings.code_interpreter_interception_params.sandbox_tool_name: names no usable "
     "entry of sandbox_tools"},
    {CFG_FOR_WORKER, "litellm_settings: {code_interpreter_interception_params: {enabled: 7}}\n",
     "enabled: must be true or false"},
    {CFG_FOR_WORKER, "litellm_settings: {callbacks: {a: b}}\n",
     "litellm_settings.callbacks: must be a list of strings"},
    {CFG_FOR_WORKER, "litellm_settings: {num_retries: x}\n",
     "litellm_settings.num_retries: must be a whole number"},
    {CFG_FOR_WORKER, "litellm_settings: []\n", "litellm_settings: must be a map"},
    {CFG_FOR_WORKER, "environment_variables: 1\n", "environment_variables: must be a map"},
};

static void test_messages(void **state)
{
    (void)state;
    unsigned failures = 0;

    unsetenv("CFD_T_UNSET");
    unsetenv("E2B_API_KEY");
    unsetenv("OPEN_SANDBOX_API_BASE");
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        struct err e = {0};
        struct cfg *c = NULL;
        unsigned long live = mem_live();
        int rc = cfg_load_text(&c, "c.yaml", sv_of(bads[i].text), bads[i].role, NULL, NULL, &e);

        if (rc == 0 || strstr(e.text, bads[i].message) == NULL) {
            print_error("case %zu: rc %d\n text: %s\n have: %s\n want: %s\n", i, rc, bads[i].text,
                        e.text, bads[i].message);
            failures++;
            cfg_unref(c);
            continue;
        }
        assert_int_equal(rc, ERR_CONFIG);
        assert_null(c);
        assert_int_equal(mem_live(), live); /* nothing is left of a failed load */
    }
    assert_int_equal(failures, 0);
    assert_true(sizeof(bads) / sizeof(bads[0]) >= 100);
}

static void test_expansion_is_bounded(void **state)
{
    static char text[4096];
    struct err e = {0};
    struct cfg *c = NULL;
    int n = snprintf(text, sizeof(text), "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");

    (void)state;
    for (int i = 1; i < 12; i++) {
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1,
                      i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    assert_int_equal(cfg_load_text(&c, "c.yaml", sv_of(text), CFG_FOR_CTL, NULL, NULL, &e),
                     ERR_CONFIG);
    assert_non_null(strstr(e.text, "holds too much"));
}

static void test_text_expansion_is_bounded(void **state)
{
    size_t big = 900 * 1024;
    char *text = malloc(big + 256);
    struct err e = {0};
    struct cfg *c = NULL;

    (void)state;
    int n = sprintf(text, "a: &a ");

    memset(text + n, 'x', big);
    strcpy(text + (size_t)n + big, "\nb: [*a, *a, *a, *a, *a, *a]\n");
    assert_int_equal(cfg_load_text(&c, "c.yaml", sv_of(text), CFG_FOR_CTL, NULL, NULL, &e),
                     ERR_CONFIG);
    assert_non_null(strstr(e.text, "too much text"));
    free(text);
}

static void test_file_too_large(void **state)
{
    size_t n = 1024 * 1024 + 1;
    char *text = malloc(n);
    struct err e = {0};
    struct cfg *c = NULL;

    (void)state;
    memset(text, '\n', n);
    assert_int_equal(cfg_load_text(&c, "c.yaml", sv_from(text, n), CFG_FOR_CTL, NULL, NULL, &e),
                     ERR_CONFIG);
    assert_non_null(strstr(e.text, "larger than 1 MiB"));
    free(text);
}

static void test_file_errors(void **state)
{
    struct err e = {0};
    struct cfg *c = NULL;

    (void)state;
    assert_int_equal(cfg_load(&c, "/nonexistent/x.yaml", CFG_FOR_CTL, NULL, NULL, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "/nonexistent/x.yaml: cannot open"));
    assert_int_equal(cfg_load(&c, "/", CFG_FOR_CTL, NULL, NULL, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "not a regular file"));
    assert_null(c);
}

/* Runs out of memory at every allocation in turn: an error each time, and nothing leaks. */
static void test_out_of_memory(void **state)
{
    static const char text[] =
        "model_list:\n- model_name: a\n  litellm_params: &p {model: openai/x, api_key: k, "
        "extra_headers: {A: b}}\n"
        "- model_name: b\n  litellm_params: {<<: *p, weight: 2}\n"
        "sandbox_tools:\n- sandbox_tool_name: s\n  litellm_params: {sandbox_provider: local, "
        "env_vars: {A: 1}}\n"
        "litellm_settings: {callbacks: [x, code_interpreter_interception], drop_params: true}\n"
        "general_settings: {master_key: sk-1}\n"
        "cofferdam: {api_keys: [{name: a, key: b}], brokers: [ipc:///tmp/x], local: {binds: "
        "[/opt]}}\n";
    (void)state;
    unsigned long live = mem_live();

    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        for (long n = 0;; n++) {
            struct err e = {0};
            struct cfg *c = NULL;

            (void)mem_fail_nth(n);
            int rc = cfg_load_text(&c, "c.yaml", sv_of(text), role, NULL, NULL, &e);
            bool fired = mem_fail_nth(-1) != 0;

            cfg_unref(c);
            assert_int_equal(mem_live(), live);
            if (!fired) {
                assert_int_equal(rc, 0);
                break;
            }
            assert_true(rc == ERR_NOMEM || rc == 0); /* 0: only the notice list was shortened */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_expansion_is_bounded),
        cmocka_unit_test(test_text_expansion_is_bounded),
        cmocka_unit_test(test_file_too_large),
        cmocka_unit_test(test_file_errors),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
