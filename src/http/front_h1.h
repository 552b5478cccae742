/* One client connection speaking HTTP/1.1, shared by its three files: front_h1.c (its life, clocks and
 * flushes), front_h1_read.c (requests in), front_h1_answer.c (answers out). */
#pragma once

#include "front.h"
#include "h1_write.h"

enum h1_state {
    H1_IDLE,   /* between requests, nothing of the next one seen */
    H1_HEAD,   /* part of a head is here */
    H1_BODY,   /* the head was handed up; the body is not complete */
    H1_BUSY,   /* the request is complete, its answer is not */
    H1_LAST,   /* the last answer is complete and on its way out */
    H1_LINGER, /* everything is sent; what still comes is thrown away, so that the client can read the answer
                */
    H1_CLOSED, /* to be reaped */
};

struct h1_front {
    struct wg_front base;
    struct wg_stream stream; /* of the current request; x is NULL when the exchange is done with it */
    enum h1_state state;
    bool keep_alive, http10;
    bool wanted, paused, expects; /* the body: asked for; stopped; 100 Continue owed */
    bool empty, inside;    /* no byte of body will come, its end is owed; the head is being handed up */
    bool headed, ended;    /* the answer: head queued; complete */
    bool no_body, chunked; /* the answer's framing */
    bool above;            /* pending went over the high mark */
    bool broken, reset;    /* the answer was aborted: close after what is queued; with a reset */
    enum wg_body_kind body;
    uint64_t left; /* of a body with a length */
    struct wg_h1_chunked decoder;
    struct wg_buf in; /* bytes read and not yet used: part of a head, or what is pipelined behind */
    size_t scanned;
    struct wg_chain out;
    wg_usec read_deadline, write_deadline;
    struct wg_timer timer; /* at the nearer deadline or earlier: deadlines move without moving it */
    struct wg_timer again; /* bytes are left to look at in the next turn */
};

static inline struct h1_front *h1_of(struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return WG_CONTAINER_OF(front, struct h1_front, base);
}

/* True while another request may begin: not while answers to those before pile up unread. */
static inline bool h1_takes_head(const struct h1_front *h1)
{
    return h1->state == H1_HEAD || (h1->state == H1_IDLE && h1->out.len <= WG_PENDING_HIGH);
}

/* True while bytes of the request's body are wanted. */
static inline bool h1_takes_body(const struct h1_front *h1)
{
    return h1->state == H1_BODY && h1->wanted && !h1->paused;
}

/* ---- front_h1.c ---- */
/* The one place where the state changes: it decides what is waited for. */
void h1_set_state(struct h1_front *h1, enum h1_state state);
/* The client has this long for its next byte; NEVER: no limit. */
void h1_expect_read(struct h1_front *h1, wg_usec wait);
/* Reading goes on while nothing waits unread; behind a running request only the client's leaving is watched.
 */
void h1_watch(struct h1_front *h1);
void h1_close_now(struct h1_front *h1, bool hard);

/* ---- front_h1_read.c ---- */
/* Looks at bytes that have come, or that were kept (then they are those in h1->in). */
void h1_look(struct h1_front *h1, const char *data, size_t len);
void h1_on_readable(void *arg);
/* Looks at bytes that were kept, in a turn of their own. */
void h1_on_again(struct wg_timer *timer);
/* Answers a head that cannot be served, and closes. */
void h1_refuse_head(struct h1_front *h1, int status, const char *why);

/* ---- front_h1_answer.c ---- */
extern const struct wg_stream_ops h1_stream_ops;
