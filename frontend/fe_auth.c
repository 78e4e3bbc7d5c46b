#include "fe_auth.h"

#define KEY_MAX 4096

static int refuse(struct err *e, const char *text)
{
    return err_set(e, ERR_UNAUTHORIZED, "%s", text);
}

/* The token after "Bearer ", or false. */
static bool bearer(struct str_view value, struct str_view *ret)
{
    const struct str_view scheme = SV_LIT("bearer ");

    if (value.n <= scheme.n || !sv_eq_nocase(sv_from(value.p, scheme.n), scheme)) {
        return false;
    }
    *ret = sv_trim(sv_from(value.p + scheme.n, value.n - scheme.n));
    return ret->n > 0;
}

/* Finds the presented key. */
static int find_token(struct str_view *ret, const struct fe_http_head *head, struct err *e)
{
    struct str_view value;
    unsigned count = fe_http_find(head, "x-litellm-api-key", &value);

    if (count == 0 && (count = fe_http_find(head, "authorization", &value)) == 1 &&
        !bearer(value, ret)) {
        return refuse(
            e, "The Authorization header must have the form 'Authorization: Bearer YOUR_API_KEY'.");
    }
    if (count == 1) {
        if (!bearer(value, ret)) {
            *ret = value;
        }
        return 0;
    }
    if (count == 0 && (count = fe_http_find(head, "x-api-key", ret)) == 1) {
        return 0;
    }
    return refuse(
        e, count == 0
               ? "You didn't provide an API key. Send it as 'Authorization: Bearer YOUR_API_KEY'."
               : "More than one API key header of the same name. Send exactly one.");
}

int fe_auth_check(struct fe_caller *ret, const struct cfg *cfg, const struct fe_http_head *head,
                  struct err *e)
{
    struct str_view token = {NULL, 0};
    struct fe_caller c = {0};
    int rc = 0;

    if (!cfg_has_keys(cfg)) {
        *ret = c;
        return 0;
    }
    rc = find_token(&token, head, e);
    if (rc != 0) {
        return rc;
    }
    if (token.n == 0 || token.n > KEY_MAX) {
        return refuse(e, "Incorrect API key provided.");
    }
    id_sha256(c.tenant.b, token.p, token.n);
    c.key = cfg_find_key(cfg, &c.tenant);
    if (c.key == NULL) {
        return refuse(e, "Incorrect API key provided. Check the key, or ask the operator of this "
                         "gateway for one.");
    }
    *ret = c;
    return 0;
}
