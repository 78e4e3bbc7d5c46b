#include "http1_write.h"

#include <stdio.h>
#include <time.h>

static const struct reason_row {
    int status;
    const char *text;
} reasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http1_reason(int status)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status) {
            return reasons[i].text;
        }
    }
    return "";
}

void http1_date(char dst[HTTP1_DATE_CAP], uint64_t unix_ms)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)(unix_ms / 1000U);
    struct tm tm = {0};

    (void)gmtime_r(&t, &tm);
    (void)snprintf(dst, HTTP1_DATE_CAP, "%s, %02u %s %04u %02u:%02u:%02u GMT",
                   days[(unsigned)tm.tm_wday % 7U], (unsigned)tm.tm_mday % 100U,
                   months[(unsigned)tm.tm_mon % 12U], (unsigned)(tm.tm_year + 1900) % 10000U,
                   (unsigned)tm.tm_hour % 100U, (unsigned)tm.tm_min % 100U,
                   (unsigned)tm.tm_sec % 100U);
}

static void put_line(struct bytes *out, const char *name, const char *value)
{
    bytes_put_str(out, name);
    bytes_put_str(out, value);
    bytes_put(out, "\r\n", 2);
}

int http1_write_head(struct bytes *out, const struct http1_head *h)
{
    bytes_put_str(out, "HTTP/1.1 ");
    bytes_put_u64(out, (uint64_t)h->status);
    bytes_put_char(out, ' ');
    bytes_put_str(out, http1_reason(h->status));
    put_line(out, "\r\ndate: ", h->date);
    if (h->content_type != NULL) {
        put_line(out, "content-type: ", h->content_type);
    }
    if (h->framing == HTTP1_LENGTH) {
        bytes_put_str(out, "content-length: ");
        bytes_put_u64(out, h->length);
        bytes_put(out, "\r\n", 2);
    } else if (h->framing == HTTP1_CHUNKED) {
        bytes_put_str(out, "transfer-encoding: chunked\r\n");
    }
    if (h->request_id != NULL) {
        put_line(out, "x-request-id: ", h->request_id);
    }
    bytes_put_sv(out, h->headers);
    if (h->is_close || h->framing == HTTP1_UNTIL_CLOSE) {
        bytes_put_str(out, "connection: close\r\n");
    } else if (h->minor == 0) {
        bytes_put_str(out, "connection: keep-alive\r\n");
    }
    return bytes_put(out, "\r\n", 2);
}

size_t http1_chunk_head(char dst[HTTP1_CHUNK_HEAD_MAX], uint64_t n)
{
    static const char digits[] = "0123456789abcdef";
    char rev[16];
    size_t k = 0;
    size_t len = 0;

    do {
        rev[k++] = digits[n & 15U];
        n >>= 4;
    } while (n != 0);
    while (k > 0) {
        dst[len++] = rev[--k];
    }
    dst[len++] = '\r';
    dst[len++] = '\n';
    return len;
}

int http1_error_body(struct bytes *out, const struct err *e)
{
    const struct err_info *info = err_info(e->code);

    bytes_put_str(out, "{\"error\":{\"message\":");
    bytes_put_json_str(out, sv_of(e->text[0] != '\0' ? e->text : info->text));
    bytes_put_str(out, ",\"type\":");
    bytes_put_json_str(out, sv_of(info->type));
    bytes_put_str(out, ",\"param\":");
    if (e->param[0] != '\0') {
        bytes_put_json_str(out, sv_of(e->param));
    } else {
        bytes_put_str(out, "null");
    }
    bytes_put_str(out, ",\"code\":");
    if (info->code != NULL) {
        bytes_put_json_str(out, sv_of(info->code));
    } else {
        bytes_put_str(out, "null");
    }
    return bytes_put_str(out, "}}");
}

unsigned http1_retry_after_s(unsigned ms)
{
    unsigned s = ms / 1000U + (ms % 1000U != 0 ? 1U : 0U);

    if (s < 1) {
        return 1;
    }
    return s > 59 ? 59 : s; /* SDKs ignore or refuse longer waits */
}

int http1_error_headers(struct bytes *out, const struct err *e)
{
    const struct err_info *info = err_info(e->code);
    bool is_retried =
        info->http == 408 || info->http == 409 || info->http == 429 || info->http >= 500;

    if (info->is_retryable && (e->retry_after_ms > 0 || info->http == 429 || info->http == 503)) {
        bytes_put_str(out, "retry-after: ");
        bytes_put_u64(out, http1_retry_after_s(e->retry_after_ms));
        bytes_put(out, "\r\n", 2);
    }
    if (is_retried != info->is_retryable) { /* SDKs go by the status; say where that is wrong */
        put_line(out, "x-should-retry: ", info->is_retryable ? "true" : "false");
    }
    if (info->http == 401) {
        bytes_put_str(out, "www-authenticate: Bearer\r\n");
    }
    return out->rc;
}
