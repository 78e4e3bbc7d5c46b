/* fe_check.h - the character rules of HTTP/1.1 as this gateway applies them. Pure, any thread. */
#ifndef CFD_FRONTEND_FE_CHECK_H
#define CFD_FRONTEND_FE_CHECK_H

#include "base/str.h"

/* One or more token characters (RFC 9110 5.6.2): methods and field names. */
bool fe_check_token(struct str_view s);
/* Field content: anything but control bytes; HTAB and bytes from 0x80 up are allowed. */
bool fe_check_value(struct str_view s);
/* host [":" port] with a registered name or address of [A-Za-z0-9._~-], or a bracketed IPv6
 * address. */
bool fe_check_host(struct str_view s);

/* A request target taken apart. All views borrow from the target. */
struct fe_target {
    struct str_view host;  /* of an absolute-form target, else empty */
    struct str_view path;  /* starts with '/', or is "*" */
    struct str_view query; /* without '?', empty when there is none */
    bool is_absolute;
};

/* Origin form, absolute form (http, https) or "*" when `is_options`. Percent escapes must be
 * complete and not NUL. */
bool fe_check_target(struct str_view s, bool is_options, struct fe_target *ret);

#endif
