/* HTTP messages, the strict HTTP/1.1 codec, and the two interfaces that hide the protocol from everybody
 * above: the front (towards the client) and the back (towards the model server). Everything belongs to the
 * loop of its connection. Sources: RFC 9110, RFC 9112, RFC 9113. What is ambiguous there is refused here. */
#pragma once

#include "wakegate/base/blocks.h"
#include "wakegate/base/buf.h"
#include "wakegate/event.h"

/* ---- header fields ---- */
enum { WG_FIELDS_MAX = 100 };

/* Known names; policy is data: see wg_token_flags. */
enum wg_token {
    WG_TOKEN_OTHER,
    WG_TOKEN_ACCEPT_ENCODING,
    WG_TOKEN_API_KEY,
    WG_TOKEN_AUTHORIZATION,
    WG_TOKEN_CONNECTION,
    WG_TOKEN_CONTENT_ENCODING,
    WG_TOKEN_CONTENT_LENGTH,
    WG_TOKEN_CONTENT_TYPE,
    WG_TOKEN_COOKIE,
    WG_TOKEN_DATE,
    WG_TOKEN_EXPECT,
    WG_TOKEN_HOST,
    WG_TOKEN_HTTP2_SETTINGS,
    WG_TOKEN_KEEP_ALIVE,
    WG_TOKEN_PREFER,
    WG_TOKEN_PROXY_AUTHENTICATE,
    WG_TOKEN_PROXY_AUTHORIZATION,
    WG_TOKEN_PROXY_CONNECTION,
    WG_TOKEN_RETRY_AFTER,
    WG_TOKEN_SERVER_TIMING,
    WG_TOKEN_TE,
    WG_TOKEN_TRACEPARENT,
    WG_TOKEN_TRAILER,
    WG_TOKEN_TRANSFER_ENCODING,
    WG_TOKEN_UPGRADE,
    WG_TOKEN_X_API_KEY,
    WG_TOKEN_X_FORWARDED_FOR,
    WG_TOKEN_X_FORWARDED_HOST,
    WG_TOKEN_X_FORWARDED_PROTO,
    WG_TOKEN_FORWARDED,
    WG_TOKEN_X_GATEWAY_MODEL_NAME,
    WG_TOKEN_X_REQUEST_ID,
    WG_TOKEN_X_STAINLESS_READ_TIMEOUT,
    WG_TOKEN_X_STAINLESS_TIMEOUT,
    WG_TOKEN_COUNT
};
enum {
    WG_FIELD_HOP = 1 << 0,      /* hop-by-hop: never forwarded, either way (RFC 9110 7.6.1) */
    WG_FIELD_FRAMING = 1 << 1,  /* written anew by whoever sends the message */
    WG_FIELD_SECRET = 1 << 2,   /* the tenant's key: never to the model, never in a log */
    WG_FIELD_OURS_REQ = 1 << 3, /* replaced by our own value in requests */
    WG_FIELD_OURS_RES = 1 << 4, /* replaced by our own value in responses */
    WG_FIELD_SINGLE = 1 << 5,   /* at most one in a message */
    WG_FIELD_KEPT = 1 << 6,     /* we decide by it: naming it in Connection does not make it hop-by-hop */
};
enum wg_token wg_token_find(struct wg_slice name);
unsigned wg_token_flags(enum wg_token token);
struct wg_slice wg_token_name(enum wg_token token); /* lower case */

struct wg_field {
    struct wg_slice name, value; /* as sent, value trimmed */
    enum wg_token token;
    bool hop; /* named in Connection, or hop-by-hop by itself */
};
struct wg_fields {
    struct wg_field items[WG_FIELDS_MAX];
    unsigned n;
};
/* The first field with this token or name (any case); NULL if absent. */
const struct wg_field *wg_fields_get(const struct wg_fields *fields, enum wg_token token);
const struct wg_field *wg_fields_find(const struct wg_fields *fields, struct wg_slice name);
/* -ENOSPC when there are WG_FIELDS_MAX already. */
WG_MUST_CHECK int wg_fields_add(struct wg_fields *fields, struct wg_slice name, struct wg_slice value);

/* ---- messages ---- */
enum wg_body_kind {
    WG_BODY_NONE,
    WG_BODY_LENGTH, /* content_length bytes, maybe 0 */
    WG_BODY_CHUNKED,
    WG_BODY_CLOSE, /* responses only: until the connection closes */
};

struct wg_request {
    struct wg_slice method, target; /* target: origin form, as sent ("/v1/x?y"), or "*" (OPTIONS), or
                                     * host:port (CONNECT); absolute form is split into authority and the rest
                                     * ("/" if there is none: then it does not borrow the head) */
    struct wg_slice path, query;    /* of target; query without "?", empty if none; both empty for CONNECT */
    struct wg_slice authority;      /* Host or :authority; empty only in HTTP/1.0 */
    struct wg_fields fields;
    enum wg_body_kind body;
    uint64_t content_length;
    unsigned version; /* 10, 11, 20 */
    bool keep_alive;  /* HTTP/1: the connection may serve another request */
    bool expect_continue;
};

struct wg_response {
    int status;
    struct wg_fields fields;
    enum wg_body_kind body;
    uint64_t
        content_length; /* as announced, also where the body is WG_BODY_NONE (HEAD, 304); 0 if it was not */
    unsigned version;
    bool keep_alive;
};

/* ---- the HTTP/1.1 codec (pure: no sockets) ---- */
enum wg_h1_result {
    WG_H1_OK,
    WG_H1_PARTIAL,   /* more bytes are needed */
    WG_H1_BAD,       /* 400 (or a broken response); *ret_why says what */
    WG_H1_TOO_LARGE, /* more than WG_FIELDS_MAX fields, or a target over 8 KiB: 431 */
    WG_H1_VERSION,   /* not HTTP/1.0 or 1.1: 505 is answered as 400 */
};
/* Length of the head at the start of data, the blank line included; 0: not complete yet. *scanned remembers
 * how far earlier calls looked (start with 0 for each head). A blank line made of bare LF or bare CR ends the
 * head too, and then its parse fails: so it is refused at once. One empty CRLF line before a request line is
 * skipped by the caller; any more are a head of their own, and bad. */
size_t wg_h1_head_end(const char *data, size_t len, size_t *scanned);
/* Parses one complete head (wg_h1_head_end bytes of it). Slices in the result borrow `data`. A head is taken
 * only if all parties would read it alike; anything else is refused with the reason in *ret_why (static text,
 * for the answer and the log). The result is filled in place: it is not to be used unless WG_H1_OK came back.
 * Fields named in Connection are marked hop, but for those with WG_FIELD_KEPT. */
enum wg_h1_result wg_h1_parse_request(const char *data, size_t len, struct wg_request *ret_request,
                                      const char **ret_why);
/* request_method: HEAD answers have no body. 1xx, 204 and 304 have none either. 101 is for the caller to
 * refuse. */
enum wg_h1_result wg_h1_parse_response(const char *data, size_t len, struct wg_slice request_method,
                                       struct wg_response *ret_response, const char **ret_why);

/* Incremental decoder of chunked bodies. Trailer fields are checked and kept up to 4 KiB (larger: BAD). */
struct wg_h1_chunked {
    int state;
    uint64_t left;         /* of the current chunk; while its size line is read, the size so far */
    unsigned digits;       /* of the current chunk's size */
    unsigned extension;    /* bytes of the current chunk's extension */
    unsigned extensions;   /* bytes of all extensions */
    struct wg_buf trailer; /* raw trailer section, for wg_h1_parse_trailers */
    const char *why;       /* static text, once a feed was BAD */
};
void wg_h1_chunked_init(struct wg_h1_chunked *chunked);
void wg_h1_chunked_clear(struct wg_h1_chunked *chunked);
/* Decodes from data: *ret_used bytes were read, the last of which are *ret_data (a run of body bytes inside
 * data, maybe empty). Call again with the rest while PARTIAL and used > 0. OK: the body (and its trailers)
 * are over; what is behind *ret_used is not ours. BAD: see why. */
enum wg_h1_result wg_h1_chunked_feed(struct wg_h1_chunked *chunked, const char *data, size_t len,
                                     size_t *ret_used, struct wg_slice *ret_data);
/* Fields of the trailer section; slices borrow chunked->trailer. Framing, routing and credential fields are
 * dropped (RFC 9110 6.5.1). PARTIAL before the body is over. */
enum wg_h1_result wg_h1_parse_trailers(const struct wg_h1_chunked *chunked, struct wg_fields *ret_fields);

/* ---- the front: towards the client ---- */
/* An answer with more than this pending on the front stops its back until drained(). More than one read of a
 * back (64 KiB) with its framing: a client that keeps up costs no stops. */
enum { WG_PENDING_HIGH = 96 * 1024 };

struct wg_strings;
struct wg_front;  /* one client connection */
struct wg_stream; /* one request on it, and its answer */

/* Upward calls about a stream. `x` is what head() returned. After gone() or the end of the answer (head or
 * data with the end) the stream is no longer the exchange's: it makes no further call on it. */
struct wg_front_handler {
    /* A request's head is complete. request is valid until head returns. Never returns NULL. The body, if
     * any, waits until want_body. */
    void *(*head)(void *owner, struct wg_stream *stream, const struct wg_request *request);
    void (*body)(void *x, const char *data, size_t len); /* decoded; only between want_body and pause */
    void (*body_end)(
        void *x,
        const struct wg_fields *trailers); /* also for requests without a body; trailers may be NULL */
    void (*body_failed)(void *x, const char *why); /* bad chunk, more or fewer bytes than declared; answer it
                                                      (400), the connection closes after */
    void (*body_stalled)(void *x); /* no progress within limits.bodyIdleTimeout while we were willing to read;
                                      answer it (408) */
    void (*drained)(void *x);      /* pending output fell below the low mark */
    void (*gone)(void *x); /* the client left, half-closed, reset, or did not read within writeIdleTimeout */
    /* A head that cannot be served (`status` 400, 408 or 431): body gets what the client is told, as JSON.
     * The connection closes after it. */
    void (*malformed)(void *owner, struct wg_front *front, int status, const char *why, struct wg_buf *body);
    void (*closed)(void *owner, struct wg_front *front); /* the connection is gone; may be NULL */
};

struct wg_front_limits {
    wg_usec header_timeout, body_idle_timeout, write_idle_timeout, idle_timeout;
    size_t max_header_bytes;
    unsigned max_streams; /* of one HTTP/2 connection; more are refused (REFUSED_STREAM) */
};

/* The protocol's side of a stream, HTTP/1.1 or HTTP/2: whoever answers need not know which. */
struct wg_stream_ops {
    void (*want_body)(struct wg_stream *stream); /* all checks at the head are done: send 100 if it was
                                                    expected, deliver the body */
    void (*pause_body)(struct wg_stream *stream, bool paused);
    /* Starts the answer. Fields are copied. Framing fields and Connection in it are ignored: the front writes
     * its own, from body and content_length (WG_BODY_NONE ends the answer here). Date is added. */
    void (*head)(struct wg_stream *stream, const struct wg_response *response);
    void (*data)(struct wg_stream *stream, const char *data,
                 size_t len); /* copied; flushed at the end of the turn */
    void (*end)(struct wg_stream *stream, const struct wg_fields *trailers); /* trailers may be NULL */
    void (*abort)(struct wg_stream *stream); /* makes the answer look broken: no final chunk, reset for
                                                close-delimited ones */
    size_t (*pending)(const struct wg_stream *stream); /* bytes of the answer that the client has not taken */
    bool (*can_stream)(const struct wg_stream *stream); /* an answer of unknown length can be framed (not
                                                           HTTP/1.0 keep-alive: there it closes) */
};

struct wg_stream {
    const struct wg_stream_ops *ops;
    void *x; /* the exchange */
    struct wg_front *front;
};

/* Takes the descriptor; owner is handed to head(), malformed() and closed(). The limits and the pool are
 * borrowed for the connection's life. tls NULL: cleartext, and HTTP/2 is known by its preface (RFC 9113 3.3);
 * else it is agreed upon by ALPN. */
struct wg_front *wg_front_new(struct wg_loop *loop, struct wg_pool *pool, int fd,
                              const struct sockaddr_storage *peer, struct wg_tls *tls,
                              const struct wg_front_limits *limits, const struct wg_front_handler *handler,
                              void *owner);
/* Closes at once (hard: reset); gone() is told for an open stream. */
void wg_front_close(struct wg_front *front, bool hard);
/* Graceful: what runs is finished. HTTP/1.1: the answer says Connection: close, idle connections close now.
 * HTTP/2: a GOAWAY that allows what is on its way, after a round trip the real one, and the end with the last
 * stream (RFC 9113 6.8). */
void wg_front_drain(struct wg_front *front);
bool wg_front_idle(const struct wg_front *front);
const struct sockaddr_storage *wg_front_peer(const struct wg_front *front);
bool wg_front_tls(const struct wg_front *front);
/* The names in the client's verified certificate; NULL without one. */
const struct wg_strings *wg_front_sans(const struct wg_front *front);

/* ---- the back: towards the model server ---- */
struct wg_back;      /* one request on one connection */
struct wg_back_pool; /* kept-alive connections of one loop */

enum wg_back_error {
    WG_BACK_CONNECT, /* refused, unreachable, not connected in time: nothing was sent */
    WG_BACK_UNSENT,  /* the connection closed before any byte of the request was written */
    WG_BACK_RESET,   /* after bytes were written, before a whole head came */
    WG_BACK_BAD,     /* an answer that is not strict HTTP */
    WG_BACK_BROKEN,  /* after the head: cut short */
};

/* Upward calls; none after head-less error, end, or cancel. */
struct wg_back_handler {
    void (*connected)(void *x);                                /* the request goes out now */
    void (*head)(void *x, const struct wg_response *response); /* 1xx are not told; valid for the call */
    void (*data)(void *x, const char *data, size_t len);
    void (*end)(void *x, const struct wg_fields *trailers);
    void (*error)(void *x, enum wg_back_error error, const char *why);
};

struct wg_back_request {
    uint64_t endpoint_id; /* connections are kept by this, never by address: an address that comes back is
                             another endpoint */
    const struct sockaddr *address;
    socklen_t address_len;
    struct wg_slice method;         /* copied; for the answer's framing */
    struct wg_buf *head;            /* the whole HTTP/1.1 head as bytes; taken over (moved out) */
    const struct wg_chain *body;    /* borrowed until end, error or cancel; NULL: none */
    wg_usec connect_timeout, reuse; /* reuse: how long a kept connection may have idled */
};

/* max_idle: connections kept per endpoint. */
struct wg_back_pool *wg_back_pool_new(struct wg_loop *loop, struct wg_pool *blocks, size_t max_idle);
struct wg_back_pool *wg_back_pool_free(struct wg_back_pool *pool);
/* Closes kept connections to this endpoint (it left). */
void wg_back_pool_forget(struct wg_back_pool *pool, uint64_t endpoint_id);

/* Never calls back from inside: what fails at once is told at the end of the turn. */
struct wg_back *wg_back_start(struct wg_back_pool *pool, const struct wg_back_request *request,
                              const struct wg_back_handler *handler, void *x);
/* Back-pressure: stops and starts reading the answer. Never calls back from inside. */
void wg_back_pause(struct wg_back *back, bool paused);
/* True once every byte of the request is with the kernel: then the body is no longer looked at and may be
 * freed. */
bool wg_back_sent(const struct wg_back *back);
/* Closes the connection within this turn, so that the engine stops generating. No call comes after it.
 * NULL-safe. */
void wg_back_cancel(struct wg_back *back);
