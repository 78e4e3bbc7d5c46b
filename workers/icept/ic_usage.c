#include "ic_usage.h"

#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX   4
#define MEMBERS_MAX 64 /* of one object; more are dropped */

static void add_numbers(struct bytes *out, struct icj a, struct icj b)
{
    char ta[64] = "";
    char tb[64] = "";
    int64_t na;
    int64_t nb;
    int64_t sum;

    if (icj_int(a, &na) && icj_int(b, &nb) && !__builtin_add_overflow(na, nb, &sum)) {
        bytes_printf(out, "%lld", (long long)sum);
        return;
    }
    sv_copy(ta, sizeof(ta), a.raw);
    sv_copy(tb, sizeof(tb), b.raw);
    bytes_printf(out, "%.12g", strtod(ta, NULL) + strtod(tb, NULL));
}

static void merge(struct bytes *out, struct icj a, struct icj b, unsigned depth);

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX */
static void merge_value(struct bytes *out, struct icj v, struct icj other, unsigned depth)
{
    if (v.type == ICJ_NUMBER && other.type == ICJ_NUMBER) {
        add_numbers(out, v, other);
    } else if (v.type == ICJ_OBJECT && other.type == ICJ_OBJECT && depth < DEPTH_MAX) {
        merge(out, v, other, depth + 1);
    } else {
        bytes_put_sv(out, icj_is_set(other) ? other.raw : v.raw);
    }
}

/* Decoded name of a member; false for one that no usage object has. */
static bool member_name(struct icj key, char *dst, size_t cap)
{
    struct bytes text = {0};
    struct str_view s = icj_view(key, &text);
    bool is_good = s.n < cap && sv_find(s, '\0') == s.n && sv_copy(dst, cap, s);

    bytes_fini(&text);
    return is_good;
}

/* `b` is the newer one.
 * NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX */
static void merge(struct bytes *out, struct icj a, struct icj b, unsigned depth)
{
    struct icj_iter it = icj_iter(a);
    struct icj key;
    struct icj v;
    char name[64];
    unsigned count = 0;

    bytes_put_char(out, '{');
    while (icj_next_member(&it, &key, &v) && count < MEMBERS_MAX) {
        if (member_name(key, name, sizeof(name))) {
            count++;
            icj_put_key(out, name);
            merge_value(out, v, icj_get(b, name), depth);
        }
    }
    it = icj_iter(b);
    while (icj_next_member(&it, &key, &v) && count < MEMBERS_MAX) {
        if (member_name(key, name, sizeof(name)) && icj_get(a, name).type == ICJ_ABSENT) {
            count++;
            icj_put_raw(out, name, v.raw);
        }
    }
    bytes_put_char(out, '}');
}

void ic_usage_add(struct bytes *sum, struct icj usage)
{
    struct bytes merged = {0};
    struct icj old;

    if (usage.type != ICJ_OBJECT) {
        return;
    }
    if (sum->n == 0 || icj_parse(&old, sv_from(sum->p, sum->n), NULL) != 0) {
        bytes_reset(sum);
        bytes_put_sv(sum, usage.raw);
        return;
    }
    merge(&merged, old, usage, 0);
    if (merged.rc == 0) {
        bytes_reset(sum);
        bytes_put(sum, merged.p, merged.n);
    }
    bytes_fini(&merged);
}
