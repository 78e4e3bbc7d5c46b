#include "sb_zygote_proto.h"

#include <string.h>

static void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 0 = sandboxd's, 1 = the zygote's, -1 = no such type. */
static int ctl_sender(unsigned type)
{
    switch (type) {
#define X(name, id, from, doc)                                                                     \
    case (id):                                                                                     \
        return (from);
        ZYP_CTL_TABLE(X)
#undef X
    default:
        return -1;
    }
}

size_t zyp_ctl_encode(void *dst, const struct zyp_ctl *m)
{
    uint8_t *p = dst;
    size_t n = m->text_len < ZYP_TEXT_MAX ? m->text_len : ZYP_TEXT_MAX;

    p[0] = (uint8_t)m->type;
    p[1] = ZYP_VERSION;
    p[2] = (uint8_t)(m->flags & 0xFFU);
    p[3] = 0;
    put32(p + 4, m->seq);
    put32(p + 8, (uint32_t)m->num);
    if (n > 0) {
        memcpy(p + ZYP_CTL_HEAD, m->text, n);
    }
    return ZYP_CTL_HEAD + n;
}

int zyp_ctl_decode(struct zyp_ctl *ret, const void *in, size_t n, bool from_zygote)
{
    const uint8_t *p = in;

    if (n < ZYP_CTL_HEAD || n > ZYP_CTL_HEAD + ZYP_TEXT_MAX || p[1] != ZYP_VERSION || p[3] != 0) {
        return ZYP_MALFORMED;
    }
    if (ctl_sender(p[0]) != (from_zygote ? 1 : 0)) {
        return ZYP_MALFORMED;
    }
    uint32_t num = get32(p + 8);

    ret->type = (enum zyp_ctl_type)p[0];
    ret->flags = p[2];
    ret->seq = get32(p + 4);
    memcpy(&ret->num, &num, sizeof(num));
    ret->text = (const char *)p + ZYP_CTL_HEAD;
    ret->text_len = n - ZYP_CTL_HEAD;
    return 0;
}

/* 0 = sandboxd's, 1 = the child's, -1 = no such type. */
static int frame_sender(unsigned type)
{
    switch (type) {
#define X(name, id, from, max, doc)                                                                \
    case (id):                                                                                     \
        return (from);
        ZYP_FRAME_TABLE(X)
#undef X
    default:
        return -1;
    }
}

uint32_t zyp_frame_limit(unsigned type)
{
    switch (type) {
#define X(name, id, from, max, doc)                                                                \
    case (id):                                                                                     \
        return (max);
        ZYP_FRAME_TABLE(X)
#undef X
    default:
        return 0;
    }
}

void zyp_frame_encode(uint8_t dst[ZYP_FRAME_HEAD], enum zyp_frame_type type, uint32_t len)
{
    dst[0] = (uint8_t)type;
    dst[1] = ZYP_VERSION;
    dst[2] = 0;
    dst[3] = 0;
    put32(dst + 4, len);
}

int zyp_frame_decode(struct zyp_frame *ret, const void *in, size_t n, bool from_child)
{
    const uint8_t *p = in;

    if (n < ZYP_FRAME_HEAD) {
        return ZYP_SHORT;
    }
    uint32_t len = get32(p + 4);

    if (p[1] != ZYP_VERSION || p[2] != 0 || p[3] != 0 ||
        frame_sender(p[0]) != (from_child ? 1 : 0) || len > zyp_frame_limit(p[0])) {
        return ZYP_MALFORMED;
    }
    ret->type = (enum zyp_frame_type)p[0];
    ret->len = len;
    return 0;
}

void zyp_u64_encode(uint8_t dst[8], uint64_t v)
{
    put32(dst, (uint32_t)v);
    put32(dst + 4, (uint32_t)(v >> 32));
}

int zyp_u64_decode(uint64_t *ret, const void *in, size_t n)
{
    const uint8_t *p = in;

    if (n != 8) {
        return ZYP_MALFORMED;
    }
    *ret = (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
    return 0;
}

void zyp_run_encode(uint8_t dst[ZYP_RUN_HEAD], const struct zyp_run *r)
{
    put32(dst, r->run);
    put32(dst + 4, r->cpu_s);
    zyp_u64_encode(dst + 8, r->output_max);
}

int zyp_run_decode(struct zyp_run *ret, const void *in, size_t n)
{
    const uint8_t *p = in;

    if (n < ZYP_RUN_HEAD) {
        return ZYP_MALFORMED;
    }
    ret->run = get32(p);
    ret->cpu_s = get32(p + 4);
    return zyp_u64_decode(&ret->output_max, p + 8, 8);
}

void zyp_end_encode(uint8_t dst[8], const struct zyp_end *e)
{
    put32(dst, e->run);
    put32(dst + 4, e->flags);
}

int zyp_end_decode(struct zyp_end *ret, const void *in, size_t n)
{
    const uint8_t *p = in;

    if (n != 8) {
        return ZYP_MALFORMED;
    }
    ret->run = get32(p);
    ret->flags = get32(p + 4);
    return 0;
}

void zyp_file_head_encode(uint8_t dst[ZYP_FILE_HEAD], enum zyp_file_op op, size_t path_len)
{
    dst[0] = (uint8_t)op;
    dst[1] = 0;
    dst[2] = (uint8_t)path_len;
    dst[3] = (uint8_t)(path_len >> 8);
}

int zyp_file_decode(struct zyp_file *ret, const void *in, size_t n)
{
    const uint8_t *p = in;

    if (n < ZYP_FILE_HEAD || p[0] < ZYP_FILE_PUT || p[0] > ZYP_FILE_DELETE || p[1] != 0) {
        return ZYP_MALFORMED;
    }
    size_t len = (size_t)p[2] | (size_t)p[3] << 8;

    if (len > ZYP_PATH_MAX || len > n - ZYP_FILE_HEAD ||
        memchr(p + ZYP_FILE_HEAD, '\0', len) != NULL) {
        return ZYP_MALFORMED;
    }
    ret->op = (enum zyp_file_op)p[0];
    ret->path = (const char *)p + ZYP_FILE_HEAD;
    ret->path_len = len;
    ret->data = p + ZYP_FILE_HEAD + len;
    ret->data_len = n - ZYP_FILE_HEAD - len;
    return 0;
}

size_t zyp_entry_encode(void *dst, const struct zyp_entry *e)
{
    uint8_t *p = dst;

    p[0] = (uint8_t)e->kind;
    zyp_u64_encode(p + 1, e->size);
    zyp_u64_encode(p + 9, e->mtime_ms);
    p[17] = (uint8_t)e->name_len;
    p[18] = (uint8_t)(e->name_len >> 8);
    memcpy(p + ZYP_ENTRY_HEAD, e->name, e->name_len);
    return ZYP_ENTRY_HEAD + e->name_len;
}

int zyp_entry_decode(struct zyp_entry *ret, const void *in, size_t n)
{
    const uint8_t *p = in;

    if (n < ZYP_ENTRY_HEAD || p[0] == 0 || strchr("fdlo", p[0]) == NULL) {
        return ZYP_MALFORMED;
    }
    size_t len = (size_t)p[17] | (size_t)p[18] << 8;

    if (len == 0 || len > ZYP_PATH_MAX || len > n - ZYP_ENTRY_HEAD ||
        memchr(p + ZYP_ENTRY_HEAD, '\0', len) != NULL ||
        zyp_u64_decode(&ret->size, p + 1, 8) != 0 ||
        zyp_u64_decode(&ret->mtime_ms, p + 9, 8) != 0) {
        return ZYP_MALFORMED;
    }
    ret->kind = (char)p[0];
    ret->name = (const char *)p + ZYP_ENTRY_HEAD;
    ret->name_len = len;
    return (int)(ZYP_ENTRY_HEAD + len);
}
