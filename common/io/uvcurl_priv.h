/* uvcurl_priv.h - shared by uvcurl*.c only.
 *
 *   IDLE (in the pool) --start--> QUEUED (not yet with curl) --> RUNNING --complete, failed--> DONE
 * --on_done--> IDLE QUEUED, RUNNING --cancel--> IDLE; inside one of curl's callbacks: RUNNING
 * --cancel--> DOOMED --> IDLE
 */
#ifndef CFD_IO_UVCURL_PRIV_H
#define CFD_IO_UVCURL_PRIV_H

#include <curl/curl.h>

#include "base/list.h"
#include "io/uvcurl.h"

enum xfer_state { XFER_IDLE, XFER_QUEUED, XFER_RUNNING, XFER_DONE, XFER_DOOMED };

struct uvcurl_sock {
    uv_poll_t poll;
    struct uvcurl *owner; /* borrowed */
    curl_socket_t fd;
    int wanted;   /* uv events that curl waits for; 0 = an idle connection, or a paused transfer */
    int active;   /* uv events that the loop watches */
    bool is_kept; /* an established connection: curl tells us when it closes it */
    bool is_closed;
};

struct uvcurl {
    struct loop *loop;
    CURLM *multi;
    uv_timer_t curl_timer; /* what curl asked for */
    uv_timer_t kick;       /* resumed transfers */
    unsigned
        handles;    /* uv handles not yet closed: both timers, one per transfer object and socket */
    unsigned depth; /* > 0: inside curl, where transfers cannot be added or removed */
    bool is_closing;
    bool is_ended;              /* curl is gone; only handles are still closing */
    struct list pool;           /* IDLE */
    struct list queued;         /* QUEUED: started inside one of curl's callbacks */
    struct list running;        /* RUNNING */
    struct list doomed;         /* DOOMED */
    struct list resumed;        /* RUNNING, to be told to go on at the next kick */
    struct uvcurl_sock **socks; /* by descriptor; owned */
    size_t socks_cap;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

struct uvcurl_xfer {
    struct list_link link;    /* in the list of its state */
    struct list_link resumed; /* in uvcurl.resumed */
    struct uvcurl *owner;
    CURL *easy;
    enum xfer_state state;
    struct uvcurl_hooks hooks;
    uv_timer_t timer;  /* first byte, idle gap, total */
    uint64_t armed_ms; /* when the timer fires, loop time; 0 = not armed */
    uint64_t started_ms, sent_ms, received_ms;
    unsigned connect_ms, first_byte_ms, idle_ms, total_ms;
    uint64_t body_max, body_bytes;
    int status; /* of the head being read */
    bool is_once;
    bool has_opened;   /* a socket, since the last request on a kept connection */
    bool is_sent;      /* curl was about to write the request */
    bool is_answering; /* the final head began */
    bool is_head_done;
    bool is_paused;    /* by the owner */
    bool is_held;      /* curl was told to hold data back */
    int fail_rc;       /* why a callback of ours made curl stop; 0 = it did not */
    struct bytes head; /* raw header lines of the head being read */
    char *arena;       /* owned: header list and joined body; kept in the pool while small */
    size_t arena_cap;
    struct uvcurl_slice slices[UVCURL_SLICES_MAX];
    size_t slice_count;
    size_t read_slice, read_offset;
    CURLU *url;            /* owned: the last request's URL, parsed; NULL = none */
    struct bytes url_text; /* what it was parsed from, with NUL; empty = nothing */
    long connect_set;      /* the limits that curl was told last; -1 = none yet */
    long fresh_set;
    bool has_ca;                       /* a ca_file of the last request is set */
    char *ca_default, *capath_default; /* owned; NULL = none */
    char error[CURL_ERROR_SIZE];
};

/* uvcurl_req.c: the easy handle of a new object; one request on it; the answer's callbacks. */
int uvcurl_easy_new(struct uvcurl_xfer *x);
void uvcurl_easy_free(struct uvcurl_xfer *x);
int uvcurl_easy_prepare(struct uvcurl_xfer *x, const struct uvcurl_req *req, struct err *e);
/* Drops what the last request left behind. */
void uvcurl_easy_recycle(struct uvcurl_xfer *x);

/* uvcurl.c: the deadlines changed. */
void uvcurl_timer_arm(struct uvcurl_xfer *x);
/* uvcurl.c: hands curl an event of a socket (CURL_CSELECT_*). */
void uvcurl_run(struct uvcurl *u, curl_socket_t fd, int mask);
/* uvcurl.c: one uv handle of u has closed. */
void uvcurl_handle_closed(struct uvcurl *u);

/* uvcurl_sock.c: curl's callbacks. */
int uvcurl_on_socket(CURL *easy, curl_socket_t fd, int what, void *userp, void *socketp);
curl_socket_t uvcurl_on_open(void *clientp, curlsocktype purpose, struct curl_sockaddr *addr);
int uvcurl_on_close(void *clientp, curl_socket_t fd);
/* The connection of a finished transfer stays open: watch it from now on until it closes. */
void uvcurl_sock_keep(struct uvcurl_xfer *x);
void uvcurl_socks_fini(struct uvcurl *u);

/* uvcurl_text.c: pure. The status of an "HTTP/x nnn" line, 0 when it is none. */
int uvcurl_status_line(struct str_view line);
/* Appends one header line as "Name: value\r\n"; joins a folded line to the one before; drops what
 * is no header. */
int uvcurl_head_put(struct bytes *head, struct str_view line);
/* May a caller's header line be sent? Control characters, and lines without a name, are not. */
bool uvcurl_line_is_valid(struct str_view line);
/* Is it one of those that only the client itself sets? */
bool uvcurl_line_is_ours(struct str_view line);

#endif
