#include "config/cfg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/cfg_keys.h"
#include "config/cfg_load.h"
#include "config/cfg_text.h"

#define ENV_NAMES_MAX 1000U

/* NOLINTNEXTLINE(readability-function-size): one statement for each row of the table */
static void cfg_free(struct cfg *c)
{
    for (unsigned i = 0; i < c->deployment_count; i++) {
        cfg_deployment_fini(&c->deployments[i]);
    }
    for (unsigned i = 0; i < c->sandbox_tool_count; i++) {
        cfg_tool_fini(&c->sandbox_tools[i]);
    }
    for (unsigned i = 0; i < c->api_key_count; i++) {
        mem_free(c->api_keys[i].name);
    }
    mem_free(c->deployments);
    mem_free(c->sandbox_tools);
    mem_free(c->api_keys);
    mem_free(c->file);
    mem_free(c->interception_tool);
    cfg_names_free(c->model_names);
    cfg_names_free(c->interception_providers);
    cfg_names_free(c->brokers);
    cfg_names_free(c->local_binds);
    cfg_curve_fini(&c->curve);
#define FREE_str(p)                             mem_free(p)
#define FREE_num(p)                             ((void)(p))
#define FREE_bool(p)                            ((void)(p))
#define X(path, type, member, def, lo, hi, doc) FREE_##type(c->member);
    CFG_TABLE(X)
#undef X
    mem_free(c);
}

struct cfg *cfg_ref(struct cfg *c)
{
    REQUIRE(c->refs > 0);
    c->refs++;
    return c;
}

void cfg_unref(struct cfg *c)
{
    if (c == NULL) {
        return;
    }
    REQUIRE(c->refs > 0);
    if (--c->refs == 0) {
        cfg_free(c);
    }
}

void cfg_names_free(char **names)
{
    for (char **n = names; n != NULL && *n != NULL; n++) {
        mem_free(*n);
    }
    mem_free(names);
}

static int load_sections(struct cfg_load *l, const struct cfg_node *root)
{
    const struct cfg_node *env = NULL;
    int rc;

    if ((rc = cfg_get_map(l, root, "environment_variables", &env)) != 0) {
        return rc;
    }
    l->env = env;
    if ((rc = cfg_load_models(l, root)) != 0 || (rc = cfg_load_tools(l, root)) != 0 ||
        (rc = cfg_load_litellm(l, root)) != 0) {
        return rc;
    }
    return cfg_load_own(l, root);
}

/* Loads into a new snapshot; on error nothing is left of it. */
static int load_text(struct cfg_load *l, struct cfg **ret, struct str_view text)
{
    struct cfg_node *root = NULL;
    int rc = ERR_INTERNAL;

    if ((l->c = mem_zalloc(sizeof(*l->c))) == NULL || (l->c->file = mem_strdup(l->file)) == NULL) {
        mem_free(l->c);
        return cfg_nomem(l);
    }
    l->c->refs = 1;
    bytes_init(&l->ignored, 4096);
    if ((rc = cfg_yaml_parse(&root, l->file, text, l->e)) == 0) {
        rc = load_sections(l, root);
    }
    if (rc == 0 && l->ignored.n > 0 && l->notice != NULL) {
        l->notice(l->notice_ctx, l->ignored_line, l->ignored.p, "ignored: no meaning here");
    }
    bytes_fini(&l->ignored);
    cfg_node_free(root); /* wipes */
    if (rc != 0) {
        cfg_unref(l->c);
        return rc;
    }
    *ret = l->c;
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): cfg_load plus the text */
int cfg_load_text(struct cfg **ret, const char *file, struct str_view text, enum cfg_role role,
                  cfg_notice_cb notice, void *ctx, struct err *e)
{
    struct cfg_load l = {.file = file, .role = role, .notice = notice, .notice_ctx = ctx, .e = e};

    return load_text(&l, ret, text);
}

static int read_all(int fd, const char *file, char *buf, size_t *ret_n, struct err *e)
{
    size_t n = 0;

    while (n < CFG_YAML_FILE_MAX + 1) {
        ssize_t k = read(fd, buf + n, CFG_YAML_FILE_MAX + 1 - n);

        if (k == 0) {
            break;
        }
        if (k < 0 && errno != EINTR) {
            return err_set(e, ERR_CONFIG, "%s: cannot read: %s", file, strerror(errno));
        }
        n += k > 0 ? (size_t)k : 0;
    }
    *ret_n = n;
    return 0;
}

static int load_file(struct cfg_load *l, struct cfg **ret)
{
    struct stat st;
    size_t n = 0;
    char *buf = NULL;
    int rc = ERR_INTERNAL;
    int fd = open(l->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = err_set(l->e, ERR_CONFIG, "%s: cannot open: %s; check the path and permissions",
                     l->file, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = err_set(l->e, ERR_CONFIG, "%s: not a regular file; give the path of a YAML file",
                     l->file);
        goto out;
    }
    if ((buf = mem_alloc(CFG_YAML_FILE_MAX + 1)) == NULL) {
        rc = cfg_nomem(l);
        goto out;
    }
    if ((rc = read_all(fd, l->file, buf, &n, l->e)) == 0) {
        rc = load_text(l, ret, sv_from(buf, n));
    }
    mem_wipe(buf, n);
out:
    mem_free(buf);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

int cfg_load(struct cfg **ret, const char *file, enum cfg_role role, cfg_notice_cb notice,
             void *ctx, struct err *e)
{
    struct cfg_load l = {.file = file, .role = role, .notice = notice, .notice_ctx = ctx, .e = e};

    return load_file(&l, ret);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int cfg_env_names(char ***ret, const char *file, enum cfg_role role, struct err *e)
{
    struct cfg_load l = {.file = file, .role = role, .e = e};
    struct cfg *c = NULL;
    struct str_view name;
    void *value = NULL;
    size_t it = 0;
    size_t n = 0;
    char **names = NULL;
    int rc = ERR_INTERNAL;

    if ((l.env_used = map_new(ENV_NAMES_MAX)) == NULL) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    if ((rc = load_file(&l, &c)) != 0) {
        goto out;
    }
    if (map_count(l.env_used) >= ENV_NAMES_MAX) {
        rc = err_set(e, ERR_CONFIG, "%s: names more than %u environment variables; use fewer", file,
                     ENV_NAMES_MAX - 1);
        goto out;
    }
    if ((names = mem_calloc(map_count(l.env_used) + 1, sizeof(*names))) == NULL) {
        rc = err_set(e, ERR_NOMEM, NULL);
        goto out;
    }
    while (map_next(l.env_used, &it, &name, &value)) {
        if ((names[n++] = mem_strndup(name.p, name.n)) == NULL) {
            rc = err_set(e, ERR_NOMEM, NULL);
            goto out;
        }
    }
    qsort(names, n, sizeof(*names), compare_names);
    *ret = names;
    names = NULL;
out:
    cfg_names_free(names);
    map_free(l.env_used);
    cfg_unref(c);
    return rc;
}

static unsigned match(const struct cfg *c, struct str_view name, unsigned *ret_index, unsigned max)
{
    unsigned n = 0;

    for (unsigned i = 0; i < c->deployment_count && n < max; i++) {
        const char *have = c->deployments[i].model_name;

        if (have != NULL && sv_eq(sv_of(have), name)) {
            ret_index[n++] = i;
        }
    }
    return n;
}

unsigned cfg_find_deployments(const struct cfg *c, struct str_view model, unsigned *ret_index,
                              unsigned max)
{
    const char *best = NULL;
    size_t best_len = 0;
    unsigned n = sv_find(model, '*') < model.n ? 0 : match(c, model, ret_index, max);

    if (n > 0 || max == 0 || model.n == 0) {
        return n;
    }
    for (unsigned i = 0; i < c->deployment_count; i++) {
        const char *have = c->deployments[i].model_name;
        size_t len = have != NULL ? strlen(have) : 0;

        if (len > 0 && have[len - 1] == '*' && sv_starts(model, sv_from(have, len - 1)) &&
            (best == NULL || len > best_len)) {
            best = have;
            best_len = len;
        }
    }
    return best != NULL ? match(c, sv_of(best), ret_index, max) : 0;
}

const struct cfg_sandbox_tool *cfg_find_tool(const struct cfg *c, struct str_view name)
{
    if (name.n == 0) {
        if (c->interception_tool == NULL) {
            return &c->sandbox_tools[0]; /* the first configured, else local */
        }
        name = sv_of(c->interception_tool);
    }
    for (unsigned i = 0; i < c->sandbox_tool_count; i++) {
        if (sv_eq(sv_of(c->sandbox_tools[i].name), name)) {
            return &c->sandbox_tools[i];
        }
    }
    return NULL;
}

const struct cfg_api_key *cfg_find_key(const struct cfg *c, const struct tenant_id *tenant)
{
    static const struct tenant_id none;
    const struct cfg_api_key *found = NULL;

    for (unsigned i = 0; i < c->api_key_count; i++) {
        const struct cfg_api_key *k = &c->api_keys[i];

        found = id_equal(k->tenant.b, tenant->b, sizeof(tenant->b)) ? k : found;
    }
    return id_equal(tenant->b, none.b, sizeof(none.b)) ? NULL : found;
}

bool cfg_has_keys(const struct cfg *c)
{
    return c->api_key_count > 0;
}

int cfg_split_listen(const char *listen, char *ret_host, size_t host_cap, uint16_t *ret_port)
{
    unsigned char addr[16];
    char host[64];
    const char *colon = strrchr(listen, ':');
    bool is_v6 = listen[0] == '[';
    uint64_t port = 0;

    if (colon == NULL || colon == listen || !sv_to_u64(sv_of(colon + 1), 65535, &port)) {
        return ERR_INVALID;
    }
    struct str_view h = sv_from(listen, (size_t)(colon - listen));

    if (is_v6) {
        if (h.n < 3 || h.p[h.n - 1] != ']') {
            return ERR_INVALID;
        }
        h = sv_from(h.p + 1, h.n - 2);
    } else if (sv_eq(h, SV_LIT("localhost"))) {
        h = SV_LIT("127.0.0.1");
    }
    if (!sv_copy(host, sizeof(host), h) || inet_pton(is_v6 ? AF_INET6 : AF_INET, host, addr) != 1 ||
        !sv_copy(ret_host, host_cap, h)) {
        return ERR_INVALID;
    }
    *ret_port = (uint16_t)port;
    return 0;
}
