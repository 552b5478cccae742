/* One client connection speaking HTTP/2 (RFC 9113, by nghttp2), shared by its files: front_h2.c (its life,
 * clocks and end), front_h2_recv.c (frames and requests in), front_h2_send.c (frames out), front_h2_stream.c
 * (answers). */
#pragma once

#include <nghttp2/nghttp2.h>

#include "front.h"
#include "glitch.h"
#include "h2_head.h"

/* How long is taken in what comes behind the end of an answer, or of all. */
#define H2_LINGER_TIME WG_USEC_PER_SEC

enum h2_state {
    H2_OPEN,    /* streams come and go */
    H2_NOTICED, /* the client was told that the end is near, and what it had sent by then is served */
    H2_LEAVING, /* the real GOAWAY is on its way: the end comes with the last stream */
    H2_ENDING,  /* nothing is served any more: closed once what is queued is sent */
    H2_LINGER,  /* all is sent; what still comes is thrown away, so that the client can read the end */
    H2_CLOSED,  /* to be reaped */
};

enum h2_request_state {
    H2_REQUEST_BODY, /* the head was handed up, more is to come */
    H2_REQUEST_END,  /* complete, its end still to be told: the body was not wanted yet, or is paused */
    H2_REQUEST_TOLD, /* complete, and handed up */
};

enum h2_answer_state {
    H2_ANSWER_NONE,
    H2_ANSWER_BEGUN,  /* the head is queued */
    H2_ANSWER_ENDED,  /* all of it is queued, or it was given up: the exchange is done with the stream */
    H2_ANSWER_BROKEN, /* cut: a reset follows what is queued */
    H2_ANSWER_SENT,   /* and handed to the connection, while the request is not complete: it is taken in for a
                         moment */
};

struct h2_front {
    struct wg_front base;
    enum h2_state state;
    nghttp2_session *session;
    struct wg_list streams;
    unsigned n_streams;
    size_t pending;       /* bytes in all streams' out */
    struct h2_head *head; /* the block that is being received, one at a time; NULL: none, or not wanted */
    unsigned head_extra;  /* fields of it that came after it had grown too large */
    unsigned head_frames; /* CONTINUATIONs of it */
    struct wg_chain out;  /* whole frames that the connection has not taken yet */
    char *fill;           /* where frames are collected in a flush; NULL: in out */
    size_t filled, room;
    struct glitch glitch;
    bool doomed;             /* the glitch bucket is empty */
    bool capped;             /* the SETTINGS frame with our limit of streams is out */
    bool ping_back;          /* the PING behind the notice was answered */
    bool inside;             /* a head is being handed up */
    unsigned early_refusals; /* streams in excess before the client acknowledged our SETTINGS */
    size_t discarded;
    wg_usec head_deadline, settings_deadline, write_deadline, idle_deadline, step_deadline;
    struct wg_timer timer; /* at the nearest deadline or earlier */
    struct wg_timer again; /* kept bodies are looked at in the next turn */
};

struct h2_stream {
    struct wg_stream stream; /* x is NULL when the exchange is done with it */
    struct wg_list link;
    int32_t id;
    enum h2_request_state request;
    enum h2_answer_state answer;
    bool wanted, paused, expects;
    bool no_body;            /* of the answer: HEAD, 204, 304 */
    bool deferred;           /* nghttp2 waits to be told of bytes */
    bool above;              /* pending went over the high mark */
    struct wg_chain in, out; /* body that is not wanted yet, at most a window of it; answer not sent yet */
    uint64_t declared;       /* length of the request's body; UINT64_MAX if it was not */
    struct wg_buf trailers;  /* of the answer: name NUL value NUL … */
    wg_usec born, read_deadline, write_deadline;
};

static inline struct h2_front *h2_of(struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return WG_CONTAINER_OF(front, struct h2_front, base);
}

static inline struct h2_stream *h2_stream_of(const struct wg_stream *stream)
{
    return WG_CONTAINER_OF((uintptr_t)stream, struct h2_stream, stream);
}

static inline struct h2_front *h2_front_of(const struct h2_stream *stream)
{
    return h2_of(stream->stream.front);
}

/* ---- front_h2.c ---- */
/* A deadline was set: the timer is to find it. */
void h2_arm(struct h2_front *h2, wg_usec at);
/* Takes from the glitch bucket: 0, or NGHTTP2_ERR_CALLBACK_FAILURE once it is empty, to be returned to
 * nghttp2. */
int h2_spend(struct h2_front *h2, enum glitch_kind kind);
/* Ends with GOAWAY and what is queued; streams are told. error: of RFC 9113 7. */
void h2_end(struct h2_front *h2, uint32_t error, const char *why);
void h2_close_now(struct h2_front *h2, bool hard);
/* After anything that may have been the last: a graceful end. */
void h2_check_end(struct h2_front *h2);
void h2_set_idle(struct h2_front *h2);

/* ---- front_h2_recv.c ---- */
void h2_on_readable(void *arg);
void h2_feed(struct h2_front *h2, const char *data, size_t len);
void h2_set_callbacks(nghttp2_session_callbacks *callbacks);
/* Else nghttp2 skips frames of unknown types in silence, however many. */
void h2_accept_unknown(nghttp2_option *option);
/* Hands up what was kept of the body, and its end, once they are wanted. */
void h2_deliver(struct h2_stream *stream);
void h2_stream_free(struct h2_stream *stream);

/* ---- front_h2_send.c ---- */
void h2_on_flush(void *arg);
/* Serialises control frames that wait, into out: false if the session is broken. */
bool h2_collect(struct h2_front *h2);
void h2_set_send_callbacks(nghttp2_session_callbacks *callbacks);
ssize_t h2_read_answer(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *arg);

/* ---- front_h2_stream.c ---- */
extern const struct wg_stream_ops h2_stream_ops;
/* A request that cannot be read: answered on its stream, and the rest of it is not. */
void h2_refuse_head(struct h2_stream *stream, int status, const char *why);
