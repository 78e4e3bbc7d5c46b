#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CLIENT   ERR_BLAME_CLIENT
#define UPSTREAM ERR_BLAME_UPSTREAM
#define PEER     ERR_BLAME_PEER
#define SELF     ERR_BLAME_SELF
static const struct err_info infos[] = {
#define X(name, blame, retry, http, type, code, text)                                              \
    {#name, blame, (retry) != 0, http, type, code, text},
    ERR_TABLE(X)
#undef X
};
#undef CLIENT
#undef UPSTREAM
#undef PEER
#undef SELF

static const struct err_info info_ok = {"OK", ERR_BLAME_SELF, false, 200, "", NULL, "no error"};

const struct err_info *err_info(int code)
{
    if (code >= 0 || code < -(int)ERR_ORD_COUNT) {
        return &infos[ERR_ORD_INTERNAL];
    }
    return &infos[-1 - code];
}

const char *err_name(int code)
{
    return code == ERR_OK ? info_ok.name : err_info(code)->name;
}

__attribute__((format(printf, 4, 0))) static int fill(struct err *e, int code, const char *param,
                                                      const char *fmt, va_list ap)
{
    if (e == NULL) {
        return code;
    }
    e->code = code;
    e->native = 0;
    e->retry_after_ms = 0;
    snprintf(e->param, sizeof(e->param), "%s", param != NULL ? param : "");
    if (fmt == NULL) {
        const struct err_info *info = code == ERR_OK ? &info_ok : err_info(code);

        snprintf(e->text, sizeof(e->text), "%s", info->text);
    } else if (vsnprintf(e->text, sizeof(e->text), fmt, ap) < 0) {
        e->text[0] = '\0';
    }
    return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(e, code, NULL, fmt, ap);
    va_end(ap);
    return code;
}

int err_set_param(struct err *e, int code, const char *param, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(e, code, param, fmt, ap);
    va_end(ap);
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char old[ERR_TEXT_MAX];
    va_list ap;
    size_t n;

    if (e == NULL) {
        return ERR_INTERNAL;
    }
    memcpy(old, e->text, sizeof(old));
    va_start(ap, fmt);
    if (vsnprintf(e->text, sizeof(e->text), fmt, ap) < 0) {
        e->text[0] = '\0';
    }
    va_end(ap);
    n = strlen(e->text);
    for (const char *s = ": "; *s != '\0' && n + 1 < sizeof(e->text); s++) {
        e->text[n++] = *s;
    }
    for (const char *s = old; *s != '\0' && n + 1 < sizeof(e->text); s++) {
        e->text[n++] = *s;
    }
    e->text[n] = '\0';
    return e->code;
}

int err_from_errno(int native)
{
    switch (native) {
    case ENOMEM:
        return ERR_NOMEM;
    case ENOENT:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERR_FORBIDDEN;
    case EAGAIN:
        return ERR_AGAIN;
    case ETIMEDOUT:
        return ERR_DEADLINE;
    case ECANCELED:
        return ERR_CANCELLED;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
        return ERR_LIMIT;
    case EEXIST:
    case EBUSY:
    case EADDRINUSE:
        return ERR_CONFLICT;
    case ENOSYS:
    case EOPNOTSUPP:
        return ERR_HOST;
    default:
        return ERR_IO;
    }
}

int err_errno(struct err *e, int native, const char *what)
{
    int code = err_from_errno(native);

    err_set(e, code, "%s: %s", what, strerror(native));
    if (e != NULL) {
        e->native = native;
    }
    return code;
}
