/* One client connection speaking HTTP/1.1: requests one after the other, each with its answer, in order.
 * Pipelined requests wait unread behind the one that runs; the client's leaving is noticed all the same. */
#include "front.h"
#include "h1_write.h"

#include "wakegate/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PENDING_LOW  (16 * 1024)
#define LINGER       WG_USEC_PER_SEC
#define IOV_MAX_TURN 32

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
    bool draining, keep_alive, http10;
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
    struct wg_deferred dead;
};

static struct h1_front *h1_of(struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return WG_CONTAINER_OF(front, struct h1_front, base);
}

static struct h1_front *h1_of_stream(const struct wg_stream *stream)
{
    return h1_of(stream->front);
}

/* ---- state and deadlines ---- */

static void arm_timer(struct h1_front *h1)
{
    const wg_usec at = WG_MIN(h1->read_deadline, h1->write_deadline);
    if (at < h1->timer.at)
        wg_timer_set(&h1->timer, at);
}

static wg_usec in_future(const struct h1_front *h1, wg_usec wait)
{
    return wg_usec_add(wg_loop_now(h1->base.loop), wait);
}

static void expect_read(struct h1_front *h1, wg_usec wait)
{
    h1->read_deadline = wait == WG_USEC_NEVER ? WG_USEC_NEVER : in_future(h1, wait);
    arm_timer(h1);
}

static void expect_write(struct h1_front *h1, bool pending)
{
    h1->write_deadline = pending ? in_future(h1, h1->base.limits->write_idle_timeout) : WG_USEC_NEVER;
    arm_timer(h1);
}

static bool takes_body(const struct h1_front *h1)
{
    return h1->state == H1_BODY && h1->wanted && !h1->paused;
}

/* Reading goes on while nothing waits unread; behind a running request only the client's leaving is watched.
 */
static void watch(struct h1_front *h1)
{
    const bool stopped =
        h1->in.len > 0 && (h1->state == H1_BUSY || (h1->state == H1_BODY && !takes_body(h1)));
    wg_conn_want_read(h1->base.conn, !stopped);
    wg_conn_watch_hangup(h1->base.conn, stopped);
}

/* The one place where the state changes: it decides what is waited for. */
static void set_state(struct h1_front *h1, enum h1_state state)
{
    const struct wg_front_limits *limits = h1->base.limits;
    WG_ASSERT(h1->state != H1_CLOSED);
    if (h1->state == state && state != H1_BODY)
        return;
    h1->state = state;
    switch (state) {
    case H1_IDLE:
        expect_read(h1, limits->idle_timeout);
        break;
    case H1_HEAD:
        expect_read(h1, limits->header_timeout);
        break;
    case H1_BODY:
        expect_read(h1, takes_body(h1) ? limits->body_idle_timeout : WG_USEC_NEVER);
        break;
    case H1_BUSY:
    case H1_LAST:
    case H1_CLOSED:
        expect_read(h1, WG_USEC_NEVER);
        break;
    case H1_LINGER:
        expect_read(h1, LINGER);
        break;
    }
}

static void reap(struct wg_deferred *deferred)
{
    struct h1_front *h1 = WG_CONTAINER_OF(deferred, struct h1_front, dead);
    wg_buf_clear(&h1->in);
    wg_h1_chunked_clear(&h1->decoder);
    h1->base.magic = 0;
    free(h1);
}

/* May be called at any time and twice: by timeouts, errors, the end of the last answer, and from above. */
static void close_now(struct h1_front *h1, bool hard)
{
    if (h1->state == H1_CLOSED)
        return;
    set_state(h1, H1_CLOSED);
    wg_timer_cancel(&h1->timer);
    wg_timer_cancel(&h1->again);
    wg_chain_clear(&h1->out, h1->base.pool);
    wg_conn_close(h1->base.conn, hard);
    h1->base.conn = NULL;
    void *x = h1->stream.x;
    h1->stream.x = NULL;
    if (x)
        h1->base.handler->gone(x);
    if (h1->base.handler->closed)
        h1->base.handler->closed(h1->base.owner, &h1->base);
    wg_loop_reap(h1->base.loop, &h1->dead);
}

/* ---- writing ---- */

static void mark_dirty(struct h1_front *h1)
{
    wg_conn_mark_dirty(h1->base.conn);
}

static void report_drained(struct h1_front *h1)
{
    if (!h1->above || h1->out.len > PENDING_LOW)
        return;
    h1->above = false;
    if (h1->stream.x && !h1->ended)
        h1->base.handler->drained(h1->stream.x);
}

/* All that was queued is with the kernel: the end of a connection's life, or the next request. */
static void sent_all(struct h1_front *h1)
{
    if (h1->broken) {
        close_now(h1, h1->reset);
    } else if (h1->state == H1_LAST) {
        /* FIN first, and reading on for a moment: a close with unread bytes would reset the answer away (RFC
         * 9112 9.6). */
        wg_conn_shutdown(h1->base.conn);
        set_state(h1, H1_LINGER);
        watch(h1);
    }
}

static void on_flush(void *arg)
{
    struct h1_front *h1 = arg;
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    bool progress = false;
    while (h1->out.len > 0) {
        struct iovec iov[IOV_MAX_TURN];
        const int n = wg_chain_iov(&h1->out, iov, IOV_MAX_TURN);
        const ssize_t sent = wg_conn_writev(h1->base.conn, iov, n);
        if (sent == -EAGAIN)
            break;
        if (sent < 0) {
            close_now(h1, true);
            return;
        }
        wg_chain_consume(&h1->out, h1->base.pool, (size_t)sent);
        progress = true;
    }
    const bool pending = h1->out.len > 0;
    wg_conn_want_write(h1->base.conn, pending);
    if (progress || !pending || h1->write_deadline == WG_USEC_NEVER)
        expect_write(h1, pending);
    if (!pending)
        sent_all(h1);
    if (h1->state != H1_CLOSED)
        report_drained(h1);
}

static void on_writable(void *arg)
{
    on_flush(arg);
}

/* ---- reading requests ---- */

static void refuse_head(struct h1_front *h1, int status, const char *why)
{
    struct wg_buf body = WG_BUF_INIT(4096);
    h1->base.handler->malformed(h1->base.owner, &h1->base, status, why, &body);
    struct wg_chain *out = &h1->out;
    struct wg_pool *pool = h1->base.pool;
    char text[32];
    h1_write_status(out, pool, status);
    h1_date(wg_clock_wall(), text);
    h1_write_field(out, pool, WG_SLICE("Date"), wg_slice_str(text));
    h1_write_field(out, pool, WG_SLICE("Content-Type"), WG_SLICE("application/json"));
    const int len = snprintf(text, sizeof(text), "%zu", body.len);
    h1_write_field(out, pool, WG_SLICE("Content-Length"), wg_slice(text, (size_t)len));
    h1_write_field(out, pool, WG_SLICE("Connection"), WG_SLICE("close"));
    wg_chain_append(out, pool, "\r\n", 2);
    wg_chain_append(out, pool, body.data, body.len);
    wg_buf_clear(&body);
    set_state(h1, H1_LAST);
    mark_dirty(h1);
}

/* A body of no bytes ends without any byte coming. */
static void end_empty_body(struct h1_front *h1)
{
    if (!h1->empty || !h1->wanted || !h1->stream.x)
        return;
    h1->empty = false;
    h1->base.handler->body_end(h1->stream.x, NULL);
}

static void begin_request(struct h1_front *h1, const struct wg_request *request)
{
    h1->keep_alive = request->keep_alive && !h1->draining;
    h1->http10 = request->version == 10;
    h1->expects = request->expect_continue;
    h1->wanted = h1->paused = h1->headed = h1->ended = h1->chunked = h1->above = false;
    h1->no_body = wg_slice_eq(request->method, WG_SLICE("HEAD"));
    h1->body = request->body;
    h1->left = request->body == WG_BODY_LENGTH ? request->content_length : 0;
    h1->empty = request->body != WG_BODY_CHUNKED && h1->left == 0;
    if (request->body == WG_BODY_CHUNKED) {
        wg_h1_chunked_clear(&h1->decoder);
        wg_h1_chunked_init(&h1->decoder);
    }
    set_state(h1, h1->empty ? H1_BUSY : H1_BODY);
    h1->inside = true;
    void *x = h1->base.handler->head(h1->base.owner, &h1->stream, request);
    h1->inside = false;
    if (h1->state == H1_CLOSED || h1->ended)
        return;
    h1->stream.x = x;
    end_empty_body(h1);
}

/* Takes one head off the front of the bytes: how many it was, 0 if it is not complete (or was refused). */
static size_t take_head(struct h1_front *h1, const char *data, size_t len)
{
    /* RFC 9112 2.2: one empty line before a request line. */
    const size_t skipped = len >= 2 && data[0] == '\r' && data[1] == '\n' ? 2 : 0;
    h1->scanned = WG_MIN(h1->scanned, len - skipped);
    const size_t head = wg_h1_head_end(data + skipped, len - skipped, &h1->scanned);
    if (head == 0 && len - skipped <= h1->base.limits->max_header_bytes) {
        set_state(h1, H1_HEAD);
        return 0;
    }
    h1->scanned = 0;
    if (head == 0 || head > h1->base.limits->max_header_bytes) {
        refuse_head(h1, 431, "the head is larger than limits.maxHeaderBytes");
        return 0;
    }
    struct wg_request request;
    const char *why = "";
    switch (wg_h1_parse_request(data + skipped, head, &request, &why)) {
    case WG_H1_OK:
        begin_request(h1, &request);
        return skipped + head;
    case WG_H1_TOO_LARGE:
        refuse_head(h1, 431, why);
        return 0;
    default:
        refuse_head(h1, 400, why);
        return 0;
    }
}

static void end_body(struct h1_front *h1, const struct wg_fields *trailers)
{
    set_state(h1, H1_BUSY);
    if (h1->stream.x)
        h1->base.handler->body_end(h1->stream.x, trailers);
}

static void fail_body(struct h1_front *h1, const char *why)
{
    h1->keep_alive = false;
    h1->wanted = false; /* nothing behind this point can be read as a body */
    if (h1->stream.x)
        h1->base.handler->body_failed(h1->stream.x, why);
}

static size_t take_length(struct h1_front *h1, const char *data, size_t len)
{
    const size_t n = (size_t)WG_MIN((uint64_t)len, h1->left);
    h1->left -= n;
    if (n > 0 && h1->stream.x)
        h1->base.handler->body(h1->stream.x, data, n);
    if (h1->left == 0 && h1->state == H1_BODY)
        end_body(h1, NULL);
    return n;
}

static size_t take_chunks(struct h1_front *h1, const char *data, size_t len)
{
    size_t used = 0;
    struct wg_slice piece = {0};
    const enum wg_h1_result result = wg_h1_chunked_feed(&h1->decoder, data, len, &used, &piece);
    if (piece.len > 0 && h1->stream.x)
        h1->base.handler->body(h1->stream.x, piece.ptr, piece.len);
    if (h1->state != H1_BODY || result == WG_H1_PARTIAL)
        return used;
    struct wg_fields trailers;
    if (result == WG_H1_OK && wg_h1_parse_trailers(&h1->decoder, &trailers) == WG_H1_OK)
        end_body(h1, &trailers);
    else
        fail_body(h1, h1->decoder.why ? h1->decoder.why : "bad trailer section");
    return used;
}

static size_t take_body(struct h1_front *h1, const char *data, size_t len)
{
    expect_read(h1, h1->base.limits->body_idle_timeout);
    return h1->body == WG_BODY_CHUNKED ? take_chunks(h1, data, len) : take_length(h1, data, len);
}

/* Uses as many bytes as the state allows; the rest stays for later. One request at a time is begun here. */
static size_t consume(struct h1_front *h1, const char *data, size_t len)
{
    size_t used = 0;
    bool begun = false;
    while (used < len) {
        size_t n = 0;
        if ((h1->state == H1_IDLE || h1->state == H1_HEAD) && !begun) {
            n = take_head(h1, data + used, len - used);
            begun = n > 0;
        } else if (takes_body(h1)) {
            n = take_body(h1, data + used, len - used);
        } else if (h1->state == H1_LAST || h1->state == H1_LINGER) {
            return len;
        }
        used += n;
        if (n == 0)
            break;
    }
    return used;
}

static void look(struct h1_front *h1, const char *data, size_t len)
{
    const bool kept = data == h1->in.data;
    const size_t used = consume(h1, data, len);
    if (h1->state == H1_CLOSED)
        return;
    if (kept)
        wg_buf_consume(&h1->in, used);
    else if (used < len && wg_buf_add(&h1->in, data + used, len - used) < 0) {
        close_now(h1, true);
        return;
    }
    if (h1->in.len == 0)
        wg_buf_clear(&h1->in);
    if (h1->in.len > 0 && (h1->state == H1_IDLE || takes_body(h1)))
        wg_timer_set(&h1->again, 0); /* the next turn: a pipelining client is no better than the others */
    watch(h1);
}

/* A FIN is leaving, too: nobody waits for minutes behind a connection that is half closed. Only an answer
 * that is complete and on its way is still delivered. */
static void end_of_file(struct h1_front *h1, bool hard)
{
    if (hard || h1->out.len == 0 || !(h1->state == H1_LAST || h1->state == H1_IDLE)) {
        close_now(h1, hard || h1->out.len > 0);
        return;
    }
    set_state(h1, H1_LAST);
    h1->broken = true; /* closes when all is sent: nothing more will be read */
    wg_conn_want_read(h1->base.conn, false);
}

static void on_readable(void *arg)
{
    struct h1_front *h1 = arg;
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    size_t room;
    char *scratch = wg_pool_scratch(h1->base.pool, &room);
    const ssize_t n = wg_conn_read(h1->base.conn, scratch, room);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        end_of_file(h1, n < 0);
        return;
    }
    if (h1->in.len == 0) {
        look(h1, scratch, (size_t)n);
        return;
    }
    if (wg_buf_add(&h1->in, scratch, (size_t)n) < 0)
        close_now(h1, true);
    else
        look(h1, h1->in.data, h1->in.len);
}

static void on_hangup(void *arg)
{
    struct h1_front *h1 = arg;
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    close_now(h1, true);
}

static void on_again(struct wg_timer *timer)
{
    struct h1_front *h1 = WG_CONTAINER_OF(timer, struct h1_front, again);
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    end_empty_body(h1);
    if (h1->state != H1_CLOSED && h1->in.len > 0)
        look(h1, h1->in.data, h1->in.len);
}

/* ---- timeouts ---- */

static void read_timed_out(struct h1_front *h1)
{
    h1->read_deadline = WG_USEC_NEVER;
    switch (h1->state) {
    case H1_HEAD:
        refuse_head(h1, 408, "the head did not arrive within limits.headerTimeout");
        break;
    case H1_BODY:
        h1->keep_alive = false;
        if (h1->stream.x)
            h1->base.handler->body_stalled(h1->stream.x);
        break;
    case H1_IDLE:
    case H1_LINGER:
        close_now(h1, false);
        break;
    case H1_BUSY:
    case H1_LAST:
    case H1_CLOSED:
        break;
    }
}

static void on_timer(struct wg_timer *timer)
{
    struct h1_front *h1 = WG_CONTAINER_OF(timer, struct h1_front, timer);
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    const wg_usec now = wg_loop_now(h1->base.loop);
    if (now >= h1->write_deadline) {
        close_now(h1, true);
        return;
    }
    if (now >= h1->read_deadline)
        read_timed_out(h1);
    if (h1->state != H1_CLOSED)
        arm_timer(h1);
}

/* ---- the stream ---- */

/* The answer is complete: on to the next request, or to the end of the connection. */
static void end_answer(struct h1_front *h1)
{
    h1->ended = true;
    h1->stream.x = NULL;
    if (h1->state == H1_BUSY && h1->keep_alive) {
        set_state(h1, H1_IDLE);
        if (h1->in.len > 0)
            wg_timer_set(&h1->again, 0);
        watch(h1);
    } else {
        set_state(h1, H1_LAST);
    }
    mark_dirty(h1);
}

static void stream_want_body(struct wg_stream *stream)
{
    struct h1_front *h1 = h1_of_stream(stream);
    h1->wanted = true;
    if (h1->expects && h1->in.len == 0) {
        wg_chain_append(&h1->out, h1->base.pool, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        mark_dirty(h1);
    }
    if (h1->state == H1_BODY)
        set_state(h1, H1_BODY);
    if (!h1->inside)
        wg_timer_set(&h1->again,
                     0); /* an empty body ends, and kept bytes are looked at, outside of this call */
}

static void stream_pause_body(struct wg_stream *stream, bool paused)
{
    struct h1_front *h1 = h1_of_stream(stream);
    if (h1->paused == paused || h1->state != H1_BODY)
        return;
    h1->paused = paused;
    set_state(h1, H1_BODY);
    watch(h1);
    if (!paused)
        wg_timer_set(&h1->again, 0);
}

static void write_framing(struct h1_front *h1, const struct wg_response *response)
{
    struct wg_chain *out = &h1->out;
    struct wg_pool *pool = h1->base.pool;
    switch (response->body) {
    case WG_BODY_LENGTH: {
        char digits[24];
        const int len =
            snprintf(digits, sizeof(digits), "%llu", (unsigned long long)response->content_length);
        h1_write_field(out, pool, WG_SLICE("Content-Length"), wg_slice(digits, (size_t)len));
        break;
    }
    case WG_BODY_CHUNKED:
    case WG_BODY_CLOSE:
        if (h1->http10) {
            h1->keep_alive = false;
        } else if (!h1->no_body) {
            h1->chunked = true;
            h1_write_field(out, pool, WG_SLICE("Transfer-Encoding"), WG_SLICE("chunked"));
        }
        break;
    case WG_BODY_NONE:
        if (!h1->no_body && response->status != 204 && response->status != 304)
            h1_write_field(out, pool, WG_SLICE("Content-Length"), WG_SLICE("0"));
        break;
    }
    if (h1->state == H1_BODY || h1->draining)
        h1->keep_alive = false; /* what is left of the request is not read: nothing can follow it */
    if (!h1->keep_alive)
        h1_write_field(out, pool, WG_SLICE("Connection"), WG_SLICE("close"));
    else if (h1->http10)
        h1_write_field(out, pool, WG_SLICE("Connection"), WG_SLICE("keep-alive"));
}

static void stream_head(struct wg_stream *stream, const struct wg_response *response)
{
    struct h1_front *h1 = h1_of_stream(stream);
    struct wg_chain *out = &h1->out;
    struct wg_pool *pool = h1->base.pool;
    WG_ASSERT(!h1->headed && !h1->ended);
    h1->headed = true;
    h1_write_status(out, pool, response->status);
    bool dated = false;
    for (unsigned i = 0; i < response->fields.n; i++) {
        const struct wg_field *field = &response->fields.items[i];
        if (field->hop || (wg_token_flags(field->token) & (WG_FIELD_HOP | WG_FIELD_FRAMING)))
            continue;
        dated |= field->token == WG_TOKEN_DATE;
        h1_write_field(out, pool, field->name, field->value);
    }
    if (!dated) {
        char date[32];
        h1_date(wg_clock_wall(), date);
        h1_write_field(out, pool, WG_SLICE("Date"), wg_slice_str(date));
    }
    write_framing(h1, response);
    wg_chain_append(out, pool, "\r\n", 2);
    h1->no_body = h1->no_body || response->status == 204 || response->status == 304;
    mark_dirty(h1);
    if (response->body == WG_BODY_NONE)
        end_answer(h1);
}

static void stream_data(struct wg_stream *stream, const char *data, size_t len)
{
    struct h1_front *h1 = h1_of_stream(stream);
    WG_ASSERT(h1->headed && !h1->ended);
    if (h1->no_body || len == 0)
        return;
    if (h1->chunked)
        h1_write_chunk(&h1->out, h1->base.pool, data, len);
    else
        wg_chain_append(&h1->out, h1->base.pool, data, len);
    h1->above |= h1->out.len > WG_PENDING_HIGH;
    mark_dirty(h1);
}

static void stream_end(struct wg_stream *stream, const struct wg_fields *trailers)
{
    struct h1_front *h1 = h1_of_stream(stream);
    WG_ASSERT(h1->headed && !h1->ended);
    if (h1->chunked) {
        wg_chain_append(&h1->out, h1->base.pool, "0\r\n", 3);
        for (unsigned i = 0; trailers && i < trailers->n; i++)
            if (!trailers->items[i].hop)
                h1_write_field(&h1->out, h1->base.pool, trailers->items[i].name, trailers->items[i].value);
        wg_chain_append(&h1->out, h1->base.pool, "\r\n", 2);
    }
    end_answer(h1);
}

static void stream_abort(struct wg_stream *stream)
{
    struct h1_front *h1 = h1_of_stream(stream);
    /* Close-delimited: only a reset tells a cut answer from a whole one. */
    h1->reset = !h1->headed || (h1->http10 && !h1->chunked);
    h1->broken = true;
    h1->keep_alive = false;
    h1->ended = true;
    h1->stream.x = NULL;
    set_state(h1, H1_LAST);
    if (h1->reset)
        wg_chain_clear(&h1->out, h1->base.pool);
    mark_dirty(h1);
}

static size_t stream_pending(const struct wg_stream *stream)
{
    return h1_of_stream(stream)->out.len;
}

static bool stream_can_stream(const struct wg_stream *stream)
{
    return !h1_of_stream(stream)->http10;
}

static const struct wg_stream_ops stream_ops = {
    .want_body = stream_want_body,
    .pause_body = stream_pause_body,
    .head = stream_head,
    .data = stream_data,
    .end = stream_end,
    .abort = stream_abort,
    .pending = stream_pending,
    .can_stream = stream_can_stream,
};

/* ---- the connection ---- */

static void h1_close(struct wg_front *front, bool hard)
{
    close_now(h1_of(front), hard);
}

static void h1_drain(struct wg_front *front)
{
    struct h1_front *h1 = h1_of(front);
    h1->draining = true;
    if (h1->state == H1_IDLE && h1->in.len == 0 && h1->out.len == 0)
        close_now(h1, false);
    else if (!h1->headed)
        h1->keep_alive = false;
}

static bool h1_idle(const struct wg_front *front)
{
    const struct h1_front *h1 = WG_CONTAINER_OF((uintptr_t)front, const struct h1_front, base);
    return h1->state == H1_IDLE;
}

static const struct front_ops h1_ops = {.close = h1_close, .drain = h1_drain, .idle = h1_idle};

static const struct wg_conn_handler conn_handler = {
    .readable = on_readable,
    .writable = on_writable,
    .hangup = on_hangup,
    .flush = on_flush,
};

struct wg_front *front_h1_new(struct wg_loop *loop, struct wg_pool *pool, int fd,
                              const struct sockaddr_storage *peer, const struct wg_front_limits *limits,
                              const struct wg_front_handler *handler, void *owner)
{
    struct h1_front *h1 = WG_NEW(struct h1_front);
    h1->base = (struct wg_front){.magic = FRONT_MAGIC,
                                 .ops = &h1_ops,
                                 .loop = loop,
                                 .pool = pool,
                                 .peer = *peer,
                                 .limits = limits,
                                 .handler = handler,
                                 .owner = owner};
    h1->stream = (struct wg_stream){.ops = &stream_ops, .front = &h1->base};
    h1->state = H1_BUSY; /* so that the first set_state counts */
    h1->keep_alive = true;
    h1->read_deadline = h1->write_deadline = WG_USEC_NEVER;
    size_t scratch;
    wg_pool_scratch(pool, &scratch);
    wg_buf_init(&h1->in, limits->max_header_bytes + 2 * scratch);
    wg_h1_chunked_init(&h1->decoder);
    wg_timer_init(&h1->timer, loop, on_timer);
    wg_timer_init(&h1->again, loop, on_again);
    wg_deferred_init(&h1->dead, reap);
    h1->base.conn = wg_conn_new(loop, fd, &conn_handler, h1);
    set_state(h1, H1_IDLE);
    watch(h1);
    return &h1->base;
}
