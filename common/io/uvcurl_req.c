/* One easy handle: what is set once, what is set per request, and the callbacks that read the
 * answer. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/uvcurl_priv.h"

/* curl writes a body below this size together with the head, in one go, when it has it in one
 * piece. */
#define JOIN_MAX       65535U
#define ARENA_KEEP_MAX 16384U
#define OWN_LINES      3U /* User-Agent, Expect:, Content-Type: */
#define OWN_BYTES      96U
#define URL_MAX        ((size_t)1 << 20)

/* --- the answer ------------------------------------------------------------------------------ */

static size_t stop_with(struct uvcurl_xfer *x, int rc)
{
    x->fail_rc = rc;
    return 0; /* not what was offered: curl ends the transfer */
}

static bool is_over(const struct uvcurl_xfer *x)
{
    return x->state != XFER_RUNNING;
}

static size_t head_end(struct uvcurl_xfer *x, size_t n)
{
    if (x->status < 200) { /* interim answer */
        bytes_reset(&x->head);
        return n;
    }
    x->is_head_done = true;
    if (x->hooks.on_head != NULL) {
        x->hooks.on_head(x->hooks.ctx, x->status, (struct str_view){x->head.p, x->head.n});
    }
    return is_over(x) ? 0 : n;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is curl's */
static size_t on_header(char *p, size_t size, size_t count, void *userp)
{
    struct uvcurl_xfer *x = userp;
    size_t n = size * count;
    struct str_view line = {p, n};
    int status = 0;

    if (is_over(x)) {
        return 0;
    }
    x->received_ms = uv_now(&x->owner->loop->uv);
    if (x->is_head_done) {
        return n; /* trailers */
    }
    if ((status = uvcurl_status_line(line)) != 0) {
        bytes_reset(&x->head);
        x->status = status;
        if (status < 100 || status > 599) { /* RFC 9110, 15: no such class */
            return stop_with(x, ERR_UPSTREAM_BAD);
        }
        if (status >= 200) {
            x->is_answering = true;
            uvcurl_timer_arm(x);
        }
        return n;
    }
    if (n > 0 && (p[0] == '\r' || p[0] == '\n')) {
        return head_end(x, n);
    }
    if (uvcurl_head_put(&x->head, line) != 0) {
        return stop_with(x, x->head.rc == ERR_NOMEM ? ERR_NOMEM : ERR_UPSTREAM_BAD);
    }
    return n;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is curl's */
static size_t on_write(char *p, size_t size, size_t count, void *userp)
{
    struct uvcurl_xfer *x = userp;
    size_t n = size * count;

    if (is_over(x)) {
        return 0;
    }
    if (x->is_paused) {
        x->is_held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    x->received_ms = uv_now(&x->owner->loop->uv);
    if (x->body_max != 0 && n > x->body_max - x->body_bytes) {
        return stop_with(x, ERR_LIMIT);
    }
    x->body_bytes += n;
    if (n > 0 && x->hooks.on_data != NULL) {
        x->hooks.on_data(x->hooks.ctx, (struct str_view){p, n});
    }
    return is_over(x) ? 0 : n;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is curl's */
static int on_connected(void *userp, char *ip, char *local_ip, int port, int local_port)
{
    struct uvcurl_xfer *x = userp;

    (void)ip;
    (void)local_ip;
    (void)port;
    (void)local_port;
    x->is_sent = true;
    x->sent_ms = uv_now(&x->owner->loop->uv);
    uvcurl_timer_arm(x);
    return CURL_PREREQFUNC_OK;
}

/* --- the body -------------------------------------------------------------------------------- */

static size_t on_read(char *p, size_t size, size_t count, void *userp)
{
    struct uvcurl_xfer *x = userp;
    size_t room = size * count;
    size_t done = 0;

    while (done < room && x->read_slice < x->slice_count) {
        struct str_view s = x->slices[x->read_slice].bytes;
        size_t n = s.n - x->read_offset;

        n = n < room - done ? n : room - done;
        if (n > 0) {
            memcpy(p + done, s.p + x->read_offset, n);
        }
        done += n;
        x->read_offset += n;
        if (x->read_offset == s.n) {
            x->read_slice++;
            x->read_offset = 0;
        }
    }
    return done;
}

/* curl goes back to send a body again on another connection; a request that must be sent once says
 * no. */
static int on_seek(void *userp, curl_off_t offset, int origin)
{
    struct uvcurl_xfer *x = userp;
    size_t left = (size_t)offset;

    if (x->is_once || origin != SEEK_SET || offset < 0) {
        return CURL_SEEKFUNC_FAIL;
    }
    x->read_slice = 0;
    while (x->read_slice < x->slice_count && left >= x->slices[x->read_slice].bytes.n) {
        left -= x->slices[x->read_slice].bytes.n;
        x->read_slice++;
    }
    x->read_offset = left;
    return x->read_slice < x->slice_count || left == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

/* --- set once -------------------------------------------------------------------------------- */

static CURLcode callbacks_set(struct uvcurl_xfer *x)
{
    CURLcode rc = curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, on_header);

    rc |= curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, on_write);
    rc |= curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_READFUNCTION, on_read);
    rc |= curl_easy_setopt(x->easy, CURLOPT_READDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_SEEKFUNCTION, on_seek);
    rc |= curl_easy_setopt(x->easy, CURLOPT_SEEKDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_PREREQFUNCTION, on_connected);
    rc |= curl_easy_setopt(x->easy, CURLOPT_PREREQDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, uvcurl_on_open);
    rc |= curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETDATA, x);
    rc |= curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETFUNCTION, uvcurl_on_close);
    rc |= curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETDATA, x->owner);
    return rc;
}

static CURLcode policy_set(CURL *easy)
{
    CURLcode rc = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);

    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    rc |= curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 0L);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)UVCURL_READ_BYTES);
    /* Ending a transfer must not wait for its name look-up, which runs on a thread. */
    rc |= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    return rc;
}

static char *info_copy(CURL *easy, CURLINFO what)
{
    char *s = NULL;

    return curl_easy_getinfo(easy, what, &s) == CURLE_OK && s != NULL ? mem_strdup(s) : NULL;
}

int uvcurl_easy_new(struct uvcurl_xfer *x)
{
    CURLcode rc = CURLE_OK;

    bytes_init(&x->head, UVCURL_HEAD_MAX);
    bytes_init(&x->url_text, URL_MAX);
    x->connect_set = x->fresh_set = -1;
    if ((x->easy = curl_easy_init()) == NULL) {
        return ERR_NOMEM;
    }
    rc |= curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->error);
    rc |= curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    rc |= callbacks_set(x);
    rc |= policy_set(x->easy);
    x->ca_default = info_copy(x->easy, CURLINFO_CAINFO);
    x->capath_default = info_copy(x->easy, CURLINFO_CAPATH);
    return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

void uvcurl_easy_free(struct uvcurl_xfer *x)
{
    if (x->easy != NULL) {
        curl_easy_cleanup(x->easy);
    }
    x->easy = NULL;
    curl_url_cleanup(x->url);
    x->url = NULL;
    bytes_fini(&x->url_text);
    bytes_fini(&x->head);
    mem_free(x->arena);
    mem_free(x->ca_default);
    mem_free(x->capath_default);
    x->arena = x->ca_default = x->capath_default = NULL;
}

/* --- per request ----------------------------------------------------------------------------- */

static int arena_reserve(struct uvcurl_xfer *x, size_t n)
{
    if (n <= x->arena_cap) {
        return 0;
    }
    mem_free(x->arena);
    x->arena_cap = 0;
    if ((x->arena = mem_alloc(n)) == NULL) {
        return ERR_NOMEM;
    }
    x->arena_cap = n;
    return 0;
}

/* The nodes of a header list and their strings, laid out in the arena instead of one allocation
 * each. */
struct list_build {
    struct curl_slist *nodes;
    size_t count;
    char *text;
};

static void line_add(struct list_build *b, struct str_view line)
{
    struct str_view value = sv_trim(
        (struct str_view){line.p + sv_find(line, ':') + 1, line.n - sv_find(line, ':') - 1});
    struct curl_slist *node = &b->nodes[b->count];

    memcpy(b->text, line.p, line.n);
    b->text[line.n] = '\0';
    if (value.n == 0) {
        b->text[sv_find(line, ':')] = ';'; /* how curl is told of a header without a value */
        b->text[sv_find(line, ':') + 1] = '\0';
    }
    node->data = b->text;
    node->next = NULL;
    if (b->count > 0) {
        b->nodes[b->count - 1].next = node;
    }
    b->count++;
    b->text += line.n + 1;
}

/* As it is. A line "Name:" without a value tells curl to leave its own header out. */
static void line_own(struct list_build *b, const char *line)
{
    size_t n = strlen(line);
    struct curl_slist *node = &b->nodes[b->count];

    memcpy(b->text, line, n + 1);
    node->data = b->text;
    node->next = NULL;
    if (b->count > 0) {
        b->nodes[b->count - 1].next = node;
    }
    b->count++;
    b->text += n + 1;
}

static size_t body_size(const struct uvcurl_req *req)
{
    size_t n = 0;

    for (size_t i = 0; i < req->body_count; i++) {
        n += req->body[i].bytes.n;
    }
    return n;
}

static int headers_set(struct uvcurl_xfer *x, const struct uvcurl_req *req, bool is_post,
                       size_t join_bytes, char **ret_join, struct err *e)
{
    size_t lines = 0;
    size_t text_bytes = OWN_BYTES;
    bool has_type = false;
    bool has_agent = false;
    struct list_build b = {0};

    for (; req->headers != NULL && req->headers[lines] != NULL; lines++) {
        struct str_view line = sv_of(req->headers[lines]);

        if (!uvcurl_line_is_valid(line)) {
            return err_set(e, ERR_INVALID,
                           "header number %zu is not a 'Name: value' line of plain text",
                           lines + 1);
        }
        struct str_view name = {line.p, sv_find(line, ':')};

        text_bytes += line.n + 2;
        has_type |= sv_eq_nocase(name, SV_LIT("content-type"));
        has_agent |= sv_eq_nocase(name, SV_LIT("user-agent"));
    }
    if (arena_reserve(x, (lines + OWN_LINES) * sizeof(struct curl_slist) + text_bytes +
                             join_bytes) != 0) {
        return err_set(e, ERR_NOMEM, NULL);
    }
    b.nodes = (struct curl_slist *)(void *)x->arena;
    b.text = x->arena + (lines + OWN_LINES) * sizeof(struct curl_slist);
    for (size_t i = 0; i < lines; i++) {
        struct str_view line = sv_of(req->headers[i]);

        if (!uvcurl_line_is_ours(line)) {
            line_add(&b, line);
        }
    }
    if (!has_agent) { /* not by CURLOPT_USERAGENT, which curl formats anew for each request */
        line_own(&b, "User-Agent: cofferdam/" CFD_VERSION);
    }
    line_own(&b, "Expect:");
    if (is_post && !has_type) {
        line_own(&b, "Content-Type:");
    }
    *ret_join = b.text;
    return curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, b.nodes) == CURLE_OK
               ? 0
               : err_set(e, ERR_NOMEM, NULL);
}

/* `join`: room for the whole body, or NULL to send the slices as they are. */
static CURLcode body_set(struct uvcurl_xfer *x, const struct uvcurl_req *req, size_t n, char *join)
{
    const char *fields = NULL; /* NULL = on_read */
    CURLcode rc = CURLE_OK;

    x->slice_count = req->body_count;
    for (size_t i = 0; i < req->body_count; i++) {
        x->slices[i] = req->body[i];
    }
    x->read_slice = x->read_offset = 0;
    if (n == 0) {
        fields = "";
    } else if (req->body_count == 1) {
        fields = req->body[0].bytes.p;
    } else if (join != NULL) {
        (void)on_read(join, 1, n, x);
        fields = join;
    }
    rc |= curl_easy_setopt(x->easy, CURLOPT_POST, 1L);
    rc |= curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    rc |= curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, fields); /* not copied */
    return rc;
}

static CURLcode ca_set(struct uvcurl_xfer *x, const char *ca_file)
{
    CURLcode rc = CURLE_OK;

    if (ca_file != NULL) {
        rc |= curl_easy_setopt(x->easy, CURLOPT_CAINFO, ca_file);
        rc |= curl_easy_setopt(x->easy, CURLOPT_CAPATH, NULL);
    } else if (x->has_ca) {
        rc |= curl_easy_setopt(x->easy, CURLOPT_CAINFO, x->ca_default);
        rc |= curl_easy_setopt(x->easy, CURLOPT_CAPATH, x->capath_default);
    }
    x->has_ca = ca_file != NULL;
    return rc;
}

/* The handle keeps the parsed URL: parsing is a tenth of what curl does for a small request, and
 * the next one mostly goes to the same place. A URL that does not parse is left to curl to refuse.
 */
static CURLcode url_set(struct uvcurl_xfer *x, const char *url)
{
    size_t n = strlen(url) + 1;
    bool is_parsed = false;
    CURLcode rc = CURLE_OK;

    if (n == x->url_text.n && memcmp(x->url_text.p, url, n) == 0) {
        return CURLE_OK;
    }
    bytes_reset(&x->url_text);
    if (x->url != NULL || (x->url = curl_url()) != NULL) {
        is_parsed = curl_url_set(x->url, CURLUPART_URL, url,
                                 CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME |
                                     CURLU_PATH_AS_IS) == CURLUE_OK;
    }
    rc |= curl_easy_setopt(x->easy, CURLOPT_CURLU, is_parsed ? x->url : NULL);
    rc |= curl_easy_setopt(x->easy, CURLOPT_URL, url);
    if (rc == CURLE_OK && is_parsed) {
        (void)bytes_put(&x->url_text, url, n); /* without it the next one is parsed again */
    }
    return rc;
}

static CURLcode limits_set(struct uvcurl_xfer *x, long connect_ms, long is_fresh)
{
    CURLcode rc = CURLE_OK;

    if (x->connect_set != connect_ms) {
        rc |= curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
        x->connect_set = connect_ms;
    }
    if (x->fresh_set != is_fresh) {
        rc |= curl_easy_setopt(x->easy, CURLOPT_FRESH_CONNECT, is_fresh);
        x->fresh_set = is_fresh;
    }
    return rc;
}

static bool method_is_token(const char *m)
{
    size_t n = strlen(m);

    return n > 0 && n < 32 && strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == n;
}

int uvcurl_easy_prepare(struct uvcurl_xfer *x, const struct uvcurl_req *req, struct err *e)
{
    size_t n = body_size(req);
    bool is_joined = req->body_count > 1 && n <= JOIN_MAX;
    bool is_post = false;
    const char *custom = NULL;
    char *join = NULL;
    CURLcode rc = CURLE_OK;
    int ret = ERR_INTERNAL;

    REQUIRE(req->body_count <= UVCURL_SLICES_MAX);
    if (!method_is_token(req->method)) {
        return err_set(e, ERR_INVALID, "not a method name");
    }
    is_post = n > 0 || strcmp(req->method, "POST") == 0 || strcmp(req->method, "PUT") == 0 ||
              strcmp(req->method, "PATCH") == 0;
    if ((ret = headers_set(x, req, is_post, is_joined ? n : 0, &join, e)) != 0) {
        return ret;
    }
    if (is_post) {
        rc |= body_set(x, req, n, is_joined ? join : NULL);
        custom = strcmp(req->method, "POST") != 0 ? req->method : NULL;
    } else {
        rc |= curl_easy_setopt(x->easy, CURLOPT_HTTPGET, 1L);
        if (strcmp(req->method, "HEAD") == 0) {
            rc |= curl_easy_setopt(x->easy, CURLOPT_NOBODY, 1L);
        } else if (strcmp(req->method, "GET") != 0) {
            custom = req->method;
        }
    }
    rc |= curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, custom);
    rc |= url_set(x, req->url);
    rc |= limits_set(x, (long)x->connect_ms, req->is_once ? 1L : 0L);
    rc |= ca_set(x, req->ca_file);
    return rc == CURLE_OK ? 0 : err_set(e, ERR_NOMEM, "cannot set up a request");
}

void uvcurl_easy_recycle(struct uvcurl_xfer *x)
{
    bytes_reset(&x->head);
    if (x->arena_cap > ARENA_KEEP_MAX) {
        mem_free(x->arena);
        x->arena = NULL;
        x->arena_cap = 0;
    }
    if (x->arena != NULL) {
        mem_wipe(x->arena, x->arena_cap); /* headers carry keys */
    }
    if (x->head.cap > ARENA_KEEP_MAX) {
        bytes_fini(&x->head);
        bytes_init(&x->head, UVCURL_HEAD_MAX);
    }
    x->slice_count = 0;
}
