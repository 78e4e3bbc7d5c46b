#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "config/cfg_log.h"
#include "config/cfg_text.h"

/* A file as LiteLLM users have it, with keys that mean nothing here. */
static const char litellm_text[] =
    "model_list:\n"
    "  - model_name: gpt-5.6-terra\n"
    "    litellm_params:\n"
    "      model: openai/gpt-5.6-terra\n"
    "      api_key: os.environ/CFD_T_OPENAI\n"
    "      api_version: \"2026-01-01\"\n"
    "      rpm: 480\n"
    "      tpm: 100000\n"
    "      timeout: 300\n"
    "      stream_timeout: 60.5\n"
    "      max_retries: 4\n"
    "      weight: 3\n"
    "      order: 1\n"
    "      max_agentic_loops: \" 5 \"\n"
    "    model_info: {id: \"dep-1\", mode: chat}\n"
    "  - model_name: gpt-5.6-terra\n"
    "    litellm_params:\n"
    "      model: groq/llama-4\n"
    "      api_key: os.environ/CFD_T_GROQ\n"
    "      max_agentic_loops: 4.0\n"
    "  - model_name: local/*\n"
    "    litellm_params: {model: hosted_vllm/*, api_base: \"http://127.0.0.1:8000/v1/\"}\n"
    "  - model_name: \"*\"\n"
    "    litellm_params: {model: openai/*, organization: org-1, extra_headers: {X-Team: "
    "os.environ/CFD_T_TEAM}}\n"
    "  - model_name: plain\n"
    "    litellm_params: {model: gpt-5-mini}\n"
    "sandbox_tools:\n"
    "  - sandbox_tool_name: my-e2b\n"
    "    litellm_params: {sandbox_provider: e2b, api_key: os.environ/CFD_T_E2B, template: base, "
    "timeout: 120,\n"
    "                     allow_internet_access: no, metadata: {team: 7}, env_vars: {A: \"1\", B: "
    "2},\n"
    "                     resource_limits: {cpu: \"1\", memory: 2Gi, n: 3, f: 0.5, t: true, z: "
    "null, l: [a]},\n"
    "                     color: red}\n"
    "  - not a map\n"
    "  - sandbox_tool_name: \"\"\n"
    "    litellm_params: {sandbox_provider: e2b}\n"
    "  - sandbox_tool_name: no-provider\n"
    "    litellm_params: {api_key: x}\n"
    "  - sandbox_tool_name: twice\n"
    "    litellm_params: {sandbox_provider: opensandbox, api_base: \"http://one:8080/v1\"}\n"
    "  - sandbox_tool_name: twice\n"
    "    litellm_params: {sandbox_provider: opensandbox, api_base: \"http://two:8080/v1\", "
    "request_timeout: 2.5}\n"
    "litellm_settings:\n"
    "  callbacks: [\"code_interpreter_interception\", prometheus]\n"
    "  code_interpreter_interception_params: {enabled: true, enabled_providers: [openai, groq], "
    "sandbox_tool_name: my-e2b}\n"
    "  drop_params: true\n"
    "  num_retries: 3\n"
    "  request_timeout: 120\n"
    "  fallbacks: [{a: [b]}]\n"
    "router_settings: {routing_strategy: simple-shuffle, redis_host: os.environ/CFD_T_UNSET, "
    "num_retries: 9}\n"
    "general_settings: {master_key: os.environ/CFD_T_MASTER, database_url: \"postgres://x\"}\n"
    "environment_variables: {CFD_T_TEAM: blue, CFD_T_GROQ: os.environ/CFD_T_GROQ_REAL}\n";

struct notices {
    unsigned count;
    unsigned ignored;
    char text[8192];
};

static void on_notice(void *ctx, unsigned line, const char *key, const char *why)
{
    struct notices *n = ctx;
    size_t at = strlen(n->text);

    n->count++;
    n->ignored += strncmp(why, "ignored", 7) == 0;
    snprintf(n->text + at, sizeof(n->text) - at, "%u %s %s\n", line, key, why);
}

static struct cfg *load_as(const char *text, enum cfg_role role, struct notices *n)
{
    struct err e = {0};
    struct cfg *c = NULL;
    int rc = cfg_load_text(&c, "c.yaml", sv_of(text), role, n != NULL ? on_notice : NULL, n, &e);

    if (rc != 0) {
        fail_msg("%s", e.text);
    }
    return c;
}

static void set_env(void)
{
    setenv("CFD_T_OPENAI", "sk-openai", 1);
    setenv("CFD_T_GROQ_REAL", "gsk-groq", 1);
    setenv("CFD_T_E2B", "e2b_key", 1);
    setenv("CFD_T_MASTER", "sk-master", 1);
    setenv("OPENAI_API_KEY", "sk-fallback", 1);
    unsetenv("CFD_T_UNSET");
    unsetenv("CFD_T_TEAM");
    unsetenv("CFD_T_GROQ");
    unsetenv("OPENAI_BASE_URL");
}

static void assert_secret(const struct secret *s, const char *want)
{
    assert_non_null(s);
    assert_true(sv_eq(secret_view(s), sv_of(want)));
}

static void test_litellm_worker(void **state)
{
    struct notices n = {0};

    (void)state;
    set_env();
    struct cfg *c = load_as(litellm_text, CFG_FOR_WORKER, &n);
    const struct cfg_deployment *d = c->deployments;

    assert_int_equal(c->deployment_count, 5);
    assert_string_equal(d[0].model_name, "gpt-5.6-terra");
    assert_string_equal(d[0].provider, "openai");
    assert_string_equal(d[0].model, "gpt-5.6-terra");
    assert_string_equal(d[0].api_base, "https://api.openai.com/v1");
    assert_secret(d[0].api_key, "sk-openai");
    assert_int_equal(d[0].timeout_ms, 300000);
    assert_int_equal(d[0].stream_timeout_ms, 60500);
    assert_int_equal(d[0].max_retries, 4);
    assert_int_equal(d[0].weight, 3);
    assert_int_equal(d[0].order, 1);
    assert_int_equal(d[0].rounds_max, 5);
    assert_string_equal(d[1].api_base, "https://api.groq.com/openai/v1");
    assert_secret(d[1].api_key, "gsk-groq"); /* through environment_variables */
    assert_int_equal(d[1].max_retries, -1);
    assert_int_equal(d[1].weight, 1);
    assert_int_equal(d[1].rounds_max, 4);
    assert_string_equal(d[2].provider, "hosted_vllm");
    assert_string_equal(d[2].api_base, "http://127.0.0.1:8000/v1");
    assert_null(d[2].api_key);
    assert_string_equal(d[3].model, "*");
    assert_string_equal(d[3].organization, "org-1");
    assert_string_equal(d[3].headers[0], "X-Team: blue");
    assert_null(d[3].headers[1]);
    assert_secret(d[3].api_key, "sk-fallback");
    assert_string_equal(d[4].provider, "openai");
    assert_string_equal(d[4].model, "gpt-5-mini");
    assert_string_equal(c->model_names[0], "gpt-5.6-terra");
    assert_string_equal(c->model_names[1], "plain");
    assert_null(c->model_names[2]);
    assert_true(c->interception_enabled);
    assert_string_equal(c->interception_providers[0], "openai");
    assert_string_equal(c->interception_providers[1], "groq");
    assert_null(c->interception_providers[2]);
    assert_string_equal(c->interception_tool, "my-e2b");
    assert_int_equal(c->num_retries, 3);
    assert_int_equal(c->request_timeout_ms, 120000);
    /* one notice lists what has no meaning; four say what was skipped or replaced */
    assert_int_equal(n.ignored, 1);
    assert_int_equal(n.count, 8); /* three of them: tools whose provider this version has not */
    assert_non_null(strstr(n.text, "model_list[].litellm_params.rpm"));
    assert_non_null(strstr(n.text, "sandbox_tools[].litellm_params.color"));
    assert_non_null(strstr(n.text, "router_settings.routing_strategy"));
    assert_non_null(strstr(n.text, "general_settings.database_url"));
    assert_non_null(strstr(n.text, "33 sandbox_tools[1] skipped: not a map"));
    assert_non_null(strstr(n.text, "sandbox_tools[2] skipped: sandbox_tool_name"));
    assert_non_null(strstr(n.text, "sandbox_tools[3] skipped: litellm_params.sandbox_provider"));
    cfg_unref(c);
}

static void test_litellm_sandboxd(void **state)
{
    (void)state;
    set_env();
    struct cfg *c = load_as(litellm_text, CFG_FOR_SANDBOXD, NULL);
    const struct cfg_sandbox_tool *t = cfg_find_tool(c, SV_LIT("my-e2b"));

    assert_int_equal(c->sandbox_tool_count, 3);
    assert_string_equal(c->sandbox_tools[2].name, "local");
    assert_non_null(t);
    assert_string_equal(t->provider, "e2b");
    assert_secret(t->api_key, "e2b_key");
    assert_string_equal(t->api_base, "https://api.e2b.app");
    assert_string_equal(t->template_id, "base");
    assert_int_equal(t->timeout_s, 120);
    assert_int_equal(t->allow_internet_access, 0);
    assert_string_equal(t->metadata_json, "{\"team\":\"7\"}");
    assert_string_equal(t->env_vars_json, "{\"A\":\"1\",\"B\":\"2\"}");
    assert_string_equal(
        t->resource_limits_json,
        "{\"cpu\":\"1\",\"memory\":\"2Gi\",\"n\":3,\"f\":0.5,\"t\":true,\"z\":null,\"l\":[\"a\"]}");
    assert_int_equal(t->request_timeout_ms, 60000);
    t = cfg_find_tool(c, SV_LIT("twice"));
    assert_string_equal(t->api_base, "http://two:8080/v1");
    assert_int_equal(t->request_timeout_ms, 2500);
    assert_int_equal(t->allow_internet_access, -1);
    assert_string_equal(cfg_find_tool(c, SV_LIT("local"))->provider, "local");
    assert_null(cfg_find_tool(c, SV_LIT("no-provider")));
    assert_string_equal(cfg_find_tool(c, SV_LIT(""))->name, "my-e2b");
    /* no model or client key */
    for (unsigned i = 0; i < c->deployment_count; i++) {
        assert_null(c->deployments[i].api_key);
        assert_null(c->deployments[i].headers);
    }
    cfg_unref(c);
}

static void test_roles_get_only_their_secrets(void **state)
{
    (void)state;
    set_env();
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        struct cfg *c = load_as(litellm_text, role, NULL);
        static const struct tenant_id none;

        for (unsigned i = 0; i < c->deployment_count; i++) {
            assert_true(role == CFG_FOR_WORKER || c->deployments[i].api_key == NULL);
        }
        for (unsigned i = 0; i < c->sandbox_tool_count; i++) {
            assert_true(role == CFG_FOR_SANDBOXD || c->sandbox_tools[i].api_key == NULL);
            assert_true(role == CFG_FOR_SANDBOXD || c->sandbox_tools[i].env_vars_json == NULL);
        }
        assert_int_equal(c->api_key_count, 1);
        assert_true((memcmp(&c->api_keys[0].tenant, &none, sizeof(none)) != 0) ==
                    (role == CFG_FOR_FRONTEND));
        cfg_unref(c);
    }
}

/* What a role does not need may be unset. */
static void test_roles_need_only_their_environment(void **state)
{
    struct err e = {0};
    struct cfg *c = NULL;

    (void)state;
    set_env();
    unsetenv("CFD_T_OPENAI");
    unsetenv("CFD_T_E2B");
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        bool is_needed = role == CFG_FOR_WORKER || role == CFG_FOR_SANDBOXD;

        assert_int_equal(cfg_load_text(&c, "c.yaml", sv_of(litellm_text), role, NULL, NULL, &e),
                         is_needed ? ERR_CONFIG : 0);
        cfg_unref(c);
        c = NULL;
    }
    unsetenv("CFD_T_MASTER");
    c = load_as(litellm_text, CFG_FOR_CTL, NULL); /* status works in any shell */
    assert_true(cfg_has_keys(c));
    cfg_unref(c);
}

static void test_keys(void **state)
{
    static const char text[] =
        "general_settings: {master_key: sk-master}\n"
        "cofferdam:\n  listen: 0.0.0.0:4000\n  api_keys:\n"
        "  - {name: team-a, key: sk-a, max_sessions: 3, rpm: 60, max_parallel: 4}\n"
        "  - {name: team-b, key: sk-b}\n";
    struct tenant_id t;

    (void)state;
    struct cfg *c = load_as(text, CFG_FOR_FRONTEND, NULL);

    assert_true(cfg_has_keys(c));
    assert_false(c->allow_anonymous);
    id_sha256(t.b, "sk-a", 4);
    assert_string_equal(cfg_find_key(c, &t)->name, "team-a");
    assert_int_equal(cfg_find_key(c, &t)->max_sessions, 3);
    assert_int_equal(cfg_find_key(c, &t)->rpm, 60);
    assert_int_equal(cfg_find_key(c, &t)->max_parallel, 4);
    id_sha256(t.b, "sk-master", 9);
    assert_string_equal(cfg_find_key(c, &t)->name, "master");
    id_sha256(t.b, "sk-z", 4);
    assert_null(cfg_find_key(c, &t));
    memset(&t, 0, sizeof(t));
    assert_null(cfg_find_key(c, &t));
    cfg_unref(c);
    c = load_as(text, CFG_FOR_WORKER, NULL);
    assert_null(cfg_find_key(c, &t)); /* unresolved keys are all zero and match nothing */
    cfg_unref(c);
}

static void test_defaults(void **state)
{
    (void)state;
    struct cfg *c = load_as("", CFG_FOR_FRONTEND, NULL);

    assert_string_equal(c->listen, "127.0.0.1:4000");
    assert_string_equal(c->admin_listen, "127.0.0.1:4001");
    assert_int_equal(c->ci_rounds_max, 10);
    assert_int_equal(c->local_memory_bytes, 512 * 1024 * 1024);
    assert_true(c->run_broker);
    assert_true(c->allow_anonymous);
    assert_true(c->interception_enabled);
    assert_null(c->interception_providers);
    assert_string_equal(cfg_find_tool(c, sv_of(NULL))->name, "local");
    assert_string_equal(c->brokers[0], "ipc:///run/cofferdam/broker.sock");
    assert_null(c->brokers[1]);
    assert_int_equal(c->num_retries, 2);
    assert_int_equal(c->request_timeout_ms, 600000);
    assert_null(c->model_names[0]);
    assert_null(c->curve.public_key);
    cfg_unref(c);
}

static void test_own_values(void **state)
{
    static const char z85[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
    char text[2048];

    (void)state;
    setenv("CFD_T_LISTEN", "127.0.0.1:0", 1);
    snprintf(
        text, sizeof(text),
        "cofferdam:\n  listen: os.environ/CFD_T_LISTEN\n  admin_listen: \"\"\n  run_dir: /tmp/r\n"
        "  local: {memory: 1g, disk: 64MiB, binds: [/opt, /srv/data], pool_warm: 0}\n"
        "  limits: {body_bytes: 2m}\n  code_interpreter: {max_agentic_loops: \"7\", run_timeout_s: "
        "5.0}\n"
        "  brokers: [tcp://10.0.0.1:5000]\n  broker_listen: tcp://0.0.0.0:5000\n  return_listen: "
        "tcp://10.0.0.2:*\n"
        "  curve: {public_key: \"%s\", secret_key: \"%s\", broker_key: \"%s\", allowed: "
        "[\"%s\"]}\n",
        z85, z85, z85, z85);
    struct cfg *c = load_as(text, CFG_FOR_BROKER, NULL);

    assert_string_equal(c->listen, "127.0.0.1:0");
    assert_string_equal(c->admin_listen, "");
    assert_int_equal(c->local_memory_bytes, 1 << 30);
    assert_int_equal(c->local_disk_bytes, 64 << 20);
    assert_int_equal(c->body_max_bytes, 2 << 20);
    assert_int_equal(c->ci_rounds_max, 7);
    assert_int_equal(c->ci_run_timeout_s, 5);
    assert_string_equal(c->local_binds[1], "/srv/data");
    assert_string_equal(c->brokers[0], "tcp://10.0.0.1:5000");
    assert_secret(c->curve.secret_key, z85);
    assert_string_equal(c->curve.allowed[0], z85);
    cfg_unref(c);
    c = load_as(text, CFG_FOR_CTL, NULL);
    assert_null(c->curve.secret_key);
    cfg_unref(c);
}

static bool interception(const char *settings)
{
    char text[512];

    snprintf(text, sizeof(text), "litellm_settings: %s\n", settings);
    struct cfg *c = load_as(text, CFG_FOR_WORKER, NULL);
    bool on = c->interception_enabled;

    cfg_unref(c);
    return on;
}

static void test_callbacks(void **state)
{
    (void)state;
    assert_true(interception("{}"));
    assert_true(interception("{callbacks: null}"));
    assert_true(interception("{callbacks: code_interpreter_interception}"));
    assert_true(interception("{callbacks: [a, code_interpreter_interception]}"));
    assert_false(interception("{callbacks: []}"));
    assert_false(interception("{callbacks: [prometheus]}"));
    assert_false(interception(
        "{callbacks: [prometheus], success_callback: [code_interpreter_interception]}"));
    assert_false(interception("{code_interpreter_interception_params: {enabled: false}}"));
    assert_false(interception("{callbacks: [code_interpreter_interception], "
                              "code_interpreter_interception_params: {enabled: no}}"));
}

static void test_find_deployments(void **state)
{
    unsigned at[4];

    (void)state;
    set_env();
    struct cfg *c = load_as(litellm_text, CFG_FOR_WORKER, NULL);

    assert_int_equal(cfg_find_deployments(c, SV_LIT("gpt-5.6-terra"), at, 4), 2);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[1], 1);
    assert_int_equal(cfg_find_deployments(c, SV_LIT("gpt-5.6-terra"), at, 1), 1);
    assert_int_equal(cfg_find_deployments(c, SV_LIT("local/llama"), at, 4), 1);
    assert_int_equal(at[0], 2);
    assert_int_equal(cfg_find_deployments(c, SV_LIT("anything"), at, 4), 1);
    assert_int_equal(at[0], 3);
    assert_int_equal(cfg_find_deployments(c, SV_LIT(""), at, 4), 0);
    assert_int_equal(cfg_find_deployments(c, SV_LIT("plain"), at, 0), 0);
    cfg_unref(c);
    c = load_as("model_list: [{model_name: a, litellm_params: {model: openai/a}}]\n",
                CFG_FOR_WORKER, NULL);
    assert_int_equal(cfg_find_deployments(c, SV_LIT("b"), at, 4), 0);
    cfg_unref(c);
}

static void test_merge_keys_and_anchors(void **state)
{
    static const char text[] =
        "base: &b {model: openai/a, weight: 2}\n"
        "model_list:\n- model_name: a\n  litellm_params: {<<: *b, weight: 5}\n"
        "- model_name: b\n  litellm_params: *b\n"
        "- model_name: c\n  litellm_params: {<<: [{order: 3}, *b]}\n";

    (void)state;
    struct cfg *c = load_as(text, CFG_FOR_WORKER, NULL);

    assert_int_equal(c->deployments[0].weight, 5);
    assert_string_equal(c->deployments[0].model, "a");
    assert_int_equal(c->deployments[1].weight, 2);
    assert_int_equal(c->deployments[2].order, 3);
    assert_int_equal(c->deployments[2].weight, 2);
    cfg_unref(c);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_reload_is_atomic(void **state)
{
    char path[] = "/tmp/cfd-test-cfg-XXXXXX";
    struct err e = {0};
    struct cfg *old = NULL;
    struct cfg *c = NULL;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "cofferdam: {workers: 2}\n");
    assert_int_equal(cfg_load(&old, path, CFG_FOR_BROKER, NULL, NULL, &e), 0);
    write_file(path, "cofferdam: {workers: 3, nonsense: 1}\n");
    unsigned long live = mem_live();
    assert_int_equal(cfg_load(&c, path, CFG_FOR_BROKER, NULL, NULL, &e), ERR_CONFIG);
    assert_null(c);
    assert_int_equal(mem_live(), live);
    assert_int_equal(old->workers, 2);
    write_file(path, "cofferdam: {workers: 4}\n");
    assert_int_equal(cfg_load(&c, path, CFG_FOR_BROKER, NULL, NULL, &e), 0);
    assert_int_equal(c->workers, 4);
    cfg_taken(old);
    cfg_taken(c);
    assert_int_equal(c->generation,
                     old->generation + 1); /* loads that were not taken do not count */
    assert_ptr_equal(cfg_ref(old), old);
    cfg_unref(old);
    assert_int_equal(old->workers, 2);
    cfg_unref(old);
    cfg_unref(c);
    cfg_unref(NULL);
    unlink(path);
}

static bool has_name(char **names, const char *name)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

static void test_env_names(void **state)
{
    static const char *const want[5][4] = {
        [CFG_FOR_CTL] = {NULL},
        [CFG_FOR_FRONTEND] = {"CFD_T_MASTER", NULL},
        [CFG_FOR_BROKER] = {NULL},
        [CFG_FOR_WORKER] = {"CFD_T_OPENAI", "CFD_T_GROQ_REAL", "OPENAI_API_KEY", NULL},
        [CFG_FOR_SANDBOXD] = {"CFD_T_E2B", NULL}};
    char path[] = "/tmp/cfd-test-cfg-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    set_env();
    write_file(path, litellm_text);
    for (enum cfg_role role = CFG_FOR_CTL; role <= CFG_FOR_SANDBOXD; role++) {
        struct err e = {0};
        char **names = NULL;
        size_t n = 0;

        assert_int_equal(cfg_env_names(&names, path, role, &e), 0);
        while (names[n] != NULL) {
            n++;
        }
        for (size_t i = 0; i < 4; i++) {
            if (want[role][i] == NULL) {
                assert_int_equal(n, i);
                break;
            }
            assert_true(has_name(names, want[role][i]));
        }
        cfg_names_free(names);
    }
    unlink(path);
}

static void test_split_listen(void **state)
{
    static const struct {
        const char *text;
        const char *host; /* NULL = refused */
        uint16_t port;
    } cases[] = {
        {"127.0.0.1:4000", "127.0.0.1", 4000},
        {"0.0.0.0:0", "0.0.0.0", 0},
        {"[::1]:65535", "::1", 65535},
        {"localhost:1", "127.0.0.1", 1},
        {"", NULL, 0},
        {":4000", NULL, 0},
        {"127.0.0.1", NULL, 0},
        {"127.0.0.1:", NULL, 0},
        {"127.0.0.1:x", NULL, 0},
        {"127.0.0.1:65536", NULL, 0},
        {"::1:4000", NULL, 0},
        {"[::1:4000", NULL, 0},
        {"[]:1", NULL, 0},
        {"1.2.3:1", NULL, 0},
        {"[127.0.0.1]:1", NULL, 0},
        {"host name:1", NULL, 0},
    };
    char host[64];
    uint16_t port = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rc = cfg_split_listen(cases[i].text, host, sizeof(host), &port);

        assert_int_equal(rc, cases[i].host != NULL ? 0 : ERR_INVALID);
        if (rc == 0) {
            assert_string_equal(host, cases[i].host);
            assert_int_equal(port, cases[i].port);
        }
    }
    assert_int_equal(cfg_split_listen("127.0.0.1:1", host, 4, &port), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_litellm_worker),
        cmocka_unit_test(test_litellm_sandboxd),
        cmocka_unit_test(test_roles_get_only_their_secrets),
        cmocka_unit_test(test_roles_need_only_their_environment),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_own_values),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_find_deployments),
        cmocka_unit_test(test_merge_keys_and_anchors),
        cmocka_unit_test(test_reload_is_atomic),
        cmocka_unit_test(test_env_names),
        cmocka_unit_test(test_split_listen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
