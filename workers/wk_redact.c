#include "wk_redact.h"

#include "base/secret.h"

static struct str_view key_of(const struct cfg *cfg, unsigned i)
{
    const struct secret *key = cfg->deployments[i].api_key;
    struct str_view v = key != NULL ? secret_view(key) : (struct str_view){NULL, 0};

    return v.n >= WK_REDACT_MIN ? v : (struct str_view){NULL, 0};
}

static const char *find(struct str_view text, struct str_view key)
{
    return key.n > 0 && text.n >= key.n ? memmem(text.p, text.n, key.p, key.n) : NULL;
}

bool wk_redact_is_needed(const struct cfg *cfg, struct str_view text)
{
    for (unsigned i = 0; i < cfg->deployment_count; i++) {
        if (find(text, key_of(cfg, i)) != NULL) {
            return true;
        }
    }
    return false;
}

size_t wk_redact_longest(const struct cfg *cfg)
{
    size_t longest = 0;

    for (unsigned i = 0; i < cfg->deployment_count; i++) {
        struct str_view key = key_of(cfg, i);

        longest = key.n > longest ? key.n : longest;
    }
    return longest;
}

/* The longest key that is in the text: what remains of a key is no key, but may still be guessed
 * from. */
static struct str_view longest_in(const struct cfg *cfg, struct str_view text)
{
    struct str_view longest = {NULL, 0};

    for (unsigned i = 0; i < cfg->deployment_count; i++) {
        struct str_view key = key_of(cfg, i);

        if (key.n > longest.n && find(text, key) != NULL) {
            longest = key;
        }
    }
    return longest;
}

static void replace(struct str_view text, struct str_view key, struct bytes *out)
{
    const char *at;

    while ((at = find(text, key)) != NULL) {
        size_t n = (size_t)(at - text.p);

        bytes_put(out, text.p, n);
        bytes_put_str(out, "[redacted]");
        text.p += n + key.n;
        text.n -= n + key.n;
    }
    bytes_put_sv(out, text);
}

int wk_redact(const struct cfg *cfg, struct str_view text, struct bytes *out)
{
    struct bytes now = {.cap_max = out->cap_max};
    struct bytes next = {.cap_max = out->cap_max};
    struct str_view key;

    bytes_put_sv(&now, text);
    for (unsigned i = 0; i < cfg->deployment_count; i++) { /* the mark may hold a key, too */
        struct bytes swap = now;

        key = longest_in(cfg, sv_from(now.p, now.n));
        if (key.n == 0 || now.rc != 0) {
            break;
        }

        bytes_reset(&next);
        replace(sv_from(now.p, now.n), key, &next);
        now = next;
        next = swap;
    }
    if (now.rc != 0) {
        out->rc = out->rc != 0 ? out->rc : now.rc;
    } else {
        bytes_put(out, now.p, now.n);
    }
    bytes_fini(&now);
    bytes_fini(&next);
    return out->rc;
}
