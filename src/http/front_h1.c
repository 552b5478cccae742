/* One client connection speaking HTTP/1.1: requests one after the other, each with its answer, in order.
 * Pipelined requests wait unread behind the one that runs; the client's leaving is noticed all the same.
 * Here: its states, clocks, flushes and end. */
#include "front_h1.h"

#include <errno.h>
#include <stdlib.h>

#define PENDING_LOW  (16 * 1024)
#define LINGER       WG_USEC_PER_SEC
#define IOV_MAX_TURN 32

/* ---- state and deadlines ---- */

static void arm_timer(struct h1_front *h1)
{
    const wg_usec at = WG_MIN(h1->read_deadline, h1->write_deadline);
    if (at < h1->timer.at)
        wg_timer_set(&h1->timer, at);
}

void h1_expect_read(struct h1_front *h1, wg_usec wait)
{
    h1->read_deadline = front_in_future(&h1->base, wait);
    arm_timer(h1);
}

static void expect_write(struct h1_front *h1, bool pending)
{
    h1->write_deadline =
        front_in_future(&h1->base, pending ? h1->base.limits->write_idle_timeout : WG_USEC_NEVER);
    arm_timer(h1);
}

/* Reading goes on while nothing waits unread; behind a running request only the client's leaving is watched.
 */
void h1_watch(struct h1_front *h1)
{
    const bool stopped =
        h1->in.len > 0 && (h1->state == H1_IDLE || h1->state == H1_BODY || h1->state == H1_BUSY);
    wg_conn_want_read(h1->base.conn, !stopped);
    wg_conn_watch_hangup(h1->base.conn, stopped);
}

void h1_set_state(struct h1_front *h1, enum h1_state state)
{
    const struct wg_front_limits *limits = h1->base.limits;
    WG_ASSERT(h1->state != H1_CLOSED);
    if (h1->state == state && state != H1_BODY)
        return;
    h1->state = state;
    switch (state) {
    case H1_IDLE:
        h1_expect_read(h1, limits->idle_timeout);
        break;
    case H1_HEAD:
        h1_expect_read(h1, limits->header_timeout);
        break;
    case H1_BODY:
        h1_expect_read(h1, h1_takes_body(h1) ? limits->body_idle_timeout : WG_USEC_NEVER);
        break;
    case H1_BUSY:
    case H1_LAST:
    case H1_CLOSED:
        h1_expect_read(h1, WG_USEC_NEVER);
        break;
    case H1_LINGER:
        h1_expect_read(h1, LINGER);
        break;
    }
}

/* May be called at any time and twice: by timeouts, errors, the end of the last answer, and from above. */
void h1_close_now(struct h1_front *h1, bool hard)
{
    if (h1->state == H1_CLOSED)
        return;
    h1_set_state(h1, H1_CLOSED);
    wg_timer_cancel(&h1->timer);
    wg_timer_cancel(&h1->again);
    wg_chain_clear(&h1->out, h1->base.pool);
    void *x = h1->stream.x;
    h1->stream.x = NULL;
    if (x)
        h1->base.handler->gone(x);
    front_end(&h1->base, hard);
}

/* ---- writing ---- */

static void report_drained(struct h1_front *h1)
{
    if (h1->out.len > PENDING_LOW)
        return;
    if (h1->state == H1_IDLE && h1->in.len > 0)
        wg_timer_set(&h1->again, 0); /* the next request had to wait for it: see h1_takes_head */
    const bool was_above = h1->above;
    h1->above = false;
    if (was_above && h1->stream.x && !h1->ended)
        h1->base.handler->drained(h1->stream.x);
}

/* All that was queued is with the kernel: the end of a connection's life, or the next request. */
static void sent_all(struct h1_front *h1)
{
    if (h1->broken) {
        h1_close_now(h1, h1->reset);
    } else if (h1->state == H1_LAST) {
        /* FIN first, and reading on for a moment: a close with unread bytes would reset the answer away (RFC
         * 9112 9.6). */
        wg_conn_shutdown(h1->base.conn);
        h1_set_state(h1, H1_LINGER);
        h1_watch(h1);
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
            h1_close_now(h1, true);
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

static void on_hangup(void *arg)
{
    struct h1_front *h1 = arg;
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    h1_close_now(h1, true);
}

/* ---- timeouts ---- */

static void read_timed_out(struct h1_front *h1)
{
    h1->read_deadline = WG_USEC_NEVER;
    switch (h1->state) {
    case H1_HEAD:
        h1_refuse_head(h1, 408, "the head did not arrive within limits.headerTimeout");
        break;
    case H1_BODY:
        h1->keep_alive = false;
        if (h1->stream.x)
            h1->base.handler->body_stalled(h1->stream.x);
        break;
    case H1_IDLE:
    case H1_LINGER:
        h1_close_now(h1, false);
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
        h1_close_now(h1, true);
        return;
    }
    if (now >= h1->read_deadline)
        read_timed_out(h1);
    if (h1->state != H1_CLOSED)
        arm_timer(h1);
}

/* ---- the connection ---- */

static void h1_close(struct wg_front *front, bool hard)
{
    h1_close_now(h1_of(front), hard);
}

static void h1_drain(struct wg_front *front)
{
    struct h1_front *h1 = h1_of(front);
    front->draining = true;
    if (h1->state != H1_IDLE || h1->in.len > 0)
        h1->keep_alive = false; /* said by the next head; without one the connection ends all the same */
    else if (h1->out.len > 0)
        h1_set_state(h1, H1_LAST);
    else
        h1_close_now(h1, false);
}

static bool h1_idle(const struct wg_front *front)
{
    const struct h1_front *h1 = WG_CONTAINER_OF((uintptr_t)front, const struct h1_front, base);
    return h1->state == H1_IDLE;
}

static void h1_clear(struct wg_front *front)
{
    struct h1_front *h1 = h1_of(front);
    wg_buf_clear(&h1->in);
    wg_h1_chunked_clear(&h1->decoder);
}

static const struct front_ops h1_ops = {
    .close = h1_close, .drain = h1_drain, .idle = h1_idle, .clear = h1_clear};

static const struct wg_conn_handler conn_handler = {
    .readable = h1_on_readable,
    .writable = on_writable,
    .hangup = on_hangup,
    .flush = on_flush,
};

static struct h1_front *begin(struct wg_front *front)
{
    struct h1_front *h1 = h1_of(front);
    *h1 = (struct h1_front){
        .base = h1->base,
        .stream = {.ops = &h1_stream_ops, .front = front},
        .state = H1_BUSY, /* so that the first set_state counts */
        .keep_alive = true,
        .read_deadline = WG_USEC_NEVER,
        .write_deadline = WG_USEC_NEVER,
    };
    front->ops = &h1_ops;
    size_t scratch;
    wg_pool_scratch(front->pool, &scratch);
    wg_buf_init(&h1->in, front->limits->max_header_bytes + 2 * scratch);
    wg_h1_chunked_init(&h1->decoder);
    wg_timer_init(&h1->timer, front->loop, on_timer);
    wg_timer_init(&h1->again, front->loop, h1_on_again);
    wg_conn_set_handler(front->conn, &conn_handler, h1);
    h1_set_state(h1, H1_IDLE);
    h1_watch(h1);
    return h1;
}

void front_h1_begin(struct wg_front *front, const char *data, size_t len)
{
    struct h1_front *h1 = begin(front);
    if (len > 0)
        h1_look(h1, data, len);
}

void front_h1_begin_late(struct wg_front *front, const char *data, size_t len)
{
    struct h1_front *h1 = begin(front);
    h1_look(h1, data, len);
    if (h1->state == H1_HEAD)
        read_timed_out(h1);
}
