/* Golden bytes: golden/v<MSG_VERSION>/ holds every message as it is on the wire, and the schema. A
 * difference means that two builds of one protocol version do not understand each other. To change
 * the protocol on purpose: raise MSG_VERSION and run this test once with CFD_WRITE_GOLDEN=1, which
 * creates missing files and never overwrites one. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "msg_ops.h"

static const char *const how_names[] = {"min", NULL, "typical"};

static void path_of(char *dst, size_t cap, const char *file)
{
    snprintf(dst, cap, "tests/contract/golden/v%d/%s", MSG_VERSION, file);
}

static void write_new(const char *path, const struct bytes *want)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd >= 0) {
        assert_int_equal(write(fd, want->p, want->n), want->n);
        close(fd);
    }
}

static void compare(const char *file, const struct bytes *want)
{
    char path[256];
    char *have = calloc(1, want->n + 2);
    size_t n;
    FILE *f;

    assert_non_null(have);
    path_of(path, sizeof(path), file);
    if (getenv("CFD_WRITE_GOLDEN") != NULL) {
        write_new(path, want);
    }
    if ((f = fopen(path, "rb")) == NULL) {
        fail_msg("%s is missing: see the top of test_msg_golden.c", path);
    }
    n = fread(have, 1, want->n + 1, f);
    fclose(f);
    if (n != want->n || memcmp(have, want->p, n) != 0) {
        fail_msg("%s differs: the protocol changed without a new MSG_VERSION; now it is\n%s", path,
                 want->p);
    }
    free(have);
}

static void test_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_ops); i++) {
        const struct msg_ops *ops = &all_ops[i];
        const struct msg_head h = ops_head(ops);
        struct bytes text = {0};
        char file[80];

        for (int how = 0; how < FILL_COUNT; how++) {
            struct bytes out = {0};
            union any_body m;

            if (how_names[how] == NULL) {
                continue;
            }
            ops->fill(&m, (enum fill)how);
            assert_int_equal(ops->encode(&out, &h, &m), 0);
            bytes_printf(&text, "%s ", how_names[how]);
            bytes_put_hex(&text, out.p, out.n);
            bytes_put_char(&text, '\n');
            bytes_fini(&out);
        }
        snprintf(file, sizeof(file), "%s.hex", ops->name);
        compare(file, &text);
        bytes_fini(&text);
    }
}

static void put_unsigned(struct bytes *b, uint64_t lo, uint64_t hi)
{
    bytes_printf(b, "%llu..%llu", (unsigned long long)lo, (unsigned long long)hi);
}

static void put_signed(struct bytes *b, int64_t lo, int64_t hi)
{
    bytes_printf(b, "%lld..%lld", (long long)lo, (long long)hi);
}

#define RANGE_u8(lo, hi)  put_unsigned(&b, (lo), (hi))
#define RANGE_u16(lo, hi) put_unsigned(&b, (lo), (hi))
#define RANGE_u32(lo, hi) put_unsigned(&b, (lo), (hi))
#define RANGE_u64(lo, hi) put_unsigned(&b, (lo), (hi))
#define RANGE_i32(lo, hi) put_signed(&b, (lo), (hi))
#define RANGE_id(lo, hi)  put_unsigned(&b, 16, 16)
#define RANGE_str(lo, hi) put_unsigned(&b, (lo), (hi))
#define FIELD_SCHEMA(kind, name, lo, hi, doc)                                                      \
    bytes_put_str(&b, "  " #kind " " #name " ");                                                   \
    RANGE_##kind(lo, hi);                                                                          \
    bytes_put_char(&b, '\n');

static void test_schema(void **state)
{
    struct bytes b = {0};

    (void)state;
#define X(NAME, id, senders, states, prose)                                                        \
    bytes_printf(&b, "%s %d %s %s\n", #NAME, (id), #senders, #states);                             \
    NAME##_FIELDS(FIELD_SCHEMA)
    MSG_TABLE(X)
#undef X
    assert_int_equal(b.rc, 0);
    compare("schema.txt", &b);
    bytes_fini(&b);
}

static void test_no_stray_files(void **state)
{
    char path[256];
    DIR *d;
    size_t n = 0;

    (void)state;
    path_of(path, sizeof(path), "");
    d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *ent; (ent = readdir(d)) != NULL;) {
        n += ent->d_name[0] != '.' ? 1 : 0;
    }
    closedir(d);
    assert_int_equal(n, COUNT_OF(all_ops) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_no_stray_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
