/* One client connection speaking HTTP/2: its states, clocks and end. nghttp2 knows frames, header
 * compression, windows and the states of streams; what we are willing to buffer, to wait for and to put up
 * with is decided here. */
#include "front_h2.h"

#include "wakegate/base/log.h"
#include "wakegate/base/metrics.h"

#include <stdlib.h>

#define CONNECTION_WINDOW (4 * 1024 * 1024) /* credited as it is read, so it holds nothing */
#define OUTBOUND_ACKS     200
#define SETTINGS_MAX      32
#define RESETS_MAX        (1024 * 1024)   /* nghttp2 does not know tricks from impatience: see glitch.h */
#define CONTINUATIONS_MAX (1024 * 1024)   /* nghttp2 counts too many: we count ourselves */
#define ANSWER_HEAD_MAX   (128 * 1024)    /* more than a back takes, with what we add */
#define NOTICE            WG_USEC_PER_SEC /* from the first GOAWAY to the second at least */
#define NOTICE_MOST       (3 * WG_USEC_PER_SEC) /* if the PING between them is not answered */

/* ---- deadlines ---- */

void h2_arm(struct h2_front *h2, wg_usec at)
{
    if (at < h2->timer.at)
        wg_timer_set(&h2->timer, at);
}

static wg_usec nearest(const struct h2_front *h2)
{
    wg_usec at = WG_MIN(h2->head_deadline, h2->settings_deadline);
    at = WG_MIN(at, h2->write_deadline);
    at = WG_MIN(at, h2->idle_deadline);
    at = WG_MIN(at, h2->step_deadline);
    wg_list_foreach (node, &h2->streams) {
        const struct h2_stream *stream = WG_LIST_ENTRY(node, struct h2_stream, link);
        at = WG_MIN(at, WG_MIN(stream->read_deadline, stream->write_deadline));
    }
    return at;
}

void h2_set_idle(struct h2_front *h2)
{
    const bool idle = h2->n_streams == 0 && h2->state < H2_LEAVING;
    h2->idle_deadline = front_in_future(&h2->base, idle ? h2->base.limits->idle_timeout : WG_USEC_NEVER);
    h2_arm(h2, h2->idle_deadline);
}

static void set_step(struct h2_front *h2, wg_usec wait)
{
    h2->step_deadline = front_in_future(&h2->base, wait);
    h2_arm(h2, h2->step_deadline);
}

/* ---- the end ---- */

/* Those of a connection that still takes requests. */
static void stop_clocks(struct h2_front *h2)
{
    h2->head_deadline = h2->settings_deadline = h2->idle_deadline = WG_USEC_NEVER;
}

static void set_state(struct h2_front *h2, enum h2_state state)
{
    WG_ASSERT(state > h2->state);
    h2->state = state;
    h2->step_deadline = WG_USEC_NEVER;
    switch (state) {
    case H2_NOTICED:
        set_step(h2, NOTICE);
        break;
    case H2_LEAVING:
        h2->idle_deadline = WG_USEC_NEVER;
        break;
    case H2_LINGER:
        set_step(h2, H2_LINGER_TIME);
        stop_clocks(h2);
        break;
    case H2_ENDING:
        stop_clocks(h2);
        break;
    case H2_OPEN:
    case H2_CLOSED:
        break;
    }
}

/* Every exchange gives back what it holds. Streams stay: the session may still name them. */
static void leave_streams(struct h2_front *h2)
{
    wg_list_foreach_safe (node, &h2->streams) {
        struct h2_stream *stream = WG_LIST_ENTRY(node, struct h2_stream, link);
        void *x = stream->stream.x;
        stream->stream.x = NULL;
        stream->read_deadline = stream->write_deadline = WG_USEC_NEVER;
        if (x)
            h2->base.handler->gone(x);
    }
}

static void put_u32(uint8_t *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* By hand: after an error the session is not to be asked any more. */
static void write_goaway(struct h2_front *h2, uint32_t error)
{
    uint8_t frame[9 + 8] = {[2] = 8, [3] = NGHTTP2_GOAWAY};
    put_u32(frame + 9, (uint32_t)nghttp2_session_get_last_proc_stream_id(h2->session));
    put_u32(frame + 13, error);
    wg_chain_append(&h2->out, h2->base.pool, frame, sizeof(frame));
}

void h2_end(struct h2_front *h2, uint32_t error, const char *why)
{
    if (h2->state >= H2_ENDING)
        return;
    wg_debug("front", NULL, "an HTTP/2 connection is ended with %s: %s", nghttp2_http2_strerror(error), why);
    set_state(h2, H2_ENDING);
    write_goaway(h2, error);
    leave_streams(h2);
    wg_conn_mark_dirty(h2->base.conn);
}

void h2_close_now(struct h2_front *h2, bool hard)
{
    if (h2->state == H2_CLOSED)
        return;
    set_state(h2, H2_CLOSED);
    wg_timer_cancel(&h2->timer);
    wg_timer_cancel(&h2->again);
    leave_streams(h2);
    front_end(&h2->base, hard);
}

void h2_check_end(struct h2_front *h2)
{
    if (h2->out.len > 0 || h2->state >= H2_LINGER)
        return;
    if (h2->state < H2_ENDING &&
        (nghttp2_session_want_read(h2->session) || nghttp2_session_want_write(h2->session)))
        return;
    if (h2->state < H2_ENDING)
        leave_streams(h2); /* nghttp2 found a fault of the connection, and told the client */
    set_state(h2, H2_LINGER);
    wg_conn_shutdown(h2->base.conn);
}

/* ---- timeouts ---- */

static void stream_timed_out(struct h2_front *h2, struct h2_stream *stream, wg_usec now)
{
    void *x = stream->stream.x;
    if (now >= stream->write_deadline) {
        stream->stream.x = NULL;
        stream->read_deadline = stream->write_deadline = WG_USEC_NEVER;
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        if (x)
            h2->base.handler->gone(x);
    } else if (now >= stream->read_deadline) {
        stream->read_deadline = WG_USEC_NEVER;
        if (stream->answer == H2_ANSWER_SENT)
            nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
        else if (x)
            h2->base.handler->body_stalled(x);
    }
}

static void leave(struct h2_front *h2)
{
    set_state(h2, H2_LEAVING);
    nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h2->session), NGHTTP2_NO_ERROR, NULL, 0);
}

/* The way out: the notice, the GOAWAY that counts, the last look at what still comes. */
static void step(struct h2_front *h2)
{
    h2->step_deadline = WG_USEC_NEVER;
    if (h2->state == H2_LINGER) {
        h2_close_now(h2, false);
    } else if (h2->state == H2_NOTICED && !h2->ping_back) {
        h2->ping_back = true; /* it was not, but that is all the time there is */
        set_step(h2, NOTICE_MOST - NOTICE);
    } else if (h2->state == H2_NOTICED) {
        leave(h2);
    }
}

static void check_deadlines(struct h2_front *h2, wg_usec now)
{
    if (now >= h2->head_deadline)
        h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, "a head did not arrive within limits.headerTimeout");
    if (now >= h2->settings_deadline)
        h2_end(h2, NGHTTP2_SETTINGS_TIMEOUT, "SETTINGS were not acknowledged");
    if (now >= h2->step_deadline)
        step(h2);
    if (now >= h2->idle_deadline)
        leave(h2);
    if (h2->state >= H2_ENDING)
        return;
    wg_list_foreach_safe (node, &h2->streams) {
        stream_timed_out(h2, WG_LIST_ENTRY(node, struct h2_stream, link), now);
    }
}

static void on_timer(struct wg_timer *timer)
{
    struct h2_front *h2 = WG_CONTAINER_OF(timer, struct h2_front, timer);
    WG_CHECK_OBJ(&h2->base, FRONT_MAGIC);
    const wg_usec now = wg_loop_now(h2->base.loop);
    if (now >= h2->write_deadline) {
        h2_close_now(h2, true);
        return;
    }
    check_deadlines(h2, now);
    if (h2->state == H2_CLOSED)
        return;
    wg_conn_mark_dirty(h2->base.conn);
    wg_timer_set(&h2->timer, nearest(h2));
}

static void on_again(struct wg_timer *timer)
{
    struct h2_front *h2 = WG_CONTAINER_OF(timer, struct h2_front, again);
    WG_CHECK_OBJ(&h2->base, FRONT_MAGIC);
    wg_list_foreach_safe (node, &h2->streams) {
        h2_deliver(WG_LIST_ENTRY(node, struct h2_stream, link));
    }
    wg_conn_mark_dirty(h2->base.conn);
}

int h2_spend(struct h2_front *h2, enum glitch_kind kind)
{
    if (glitch_take(&h2->glitch, wg_loop_now(h2->base.loop), kind))
        return 0;
    if (!h2->doomed)
        wg_count(&wg_metrics_process()->connections_calmed);
    h2->doomed = true;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- the connection ---- */

static void h2_close(struct wg_front *front, bool hard)
{
    h2_close_now(h2_of(front), hard);
}

static void h2_drain(struct wg_front *front)
{
    struct h2_front *h2 = h2_of(front);
    front->draining = true;
    if (h2->state != H2_OPEN)
        return;
    set_state(h2, H2_NOTICED);
    nghttp2_submit_shutdown_notice(h2->session);
    wg_conn_mark_dirty(front->conn);
}

static bool h2_idle(const struct wg_front *front)
{
    return ((const struct h2_front *)(uintptr_t)front)->n_streams == 0;
}

static void h2_clear(struct wg_front *front)
{
    struct h2_front *h2 = h2_of(front);
    nghttp2_session_del(h2->session);
    wg_list_foreach_safe (node, &h2->streams) {
        h2_stream_free(WG_LIST_ENTRY(node, struct h2_stream, link));
    }
    h2_head_free(h2->head);
    wg_chain_clear(&h2->out, front->pool);
}

static const struct front_ops h2_ops = {
    .close = h2_close, .drain = h2_drain, .idle = h2_idle, .clear = h2_clear};

static const struct wg_conn_handler conn_handler = {
    .readable = h2_on_readable,
    .writable = h2_on_flush,
    .flush = h2_on_flush,
};

static nghttp2_session *new_session(struct h2_front *h2)
{
    nghttp2_session *session = NULL;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    WG_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
    h2_set_callbacks(callbacks);
    h2_set_send_callbacks(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    h2_accept_unknown(option);
#ifdef WAKEGATE_NGHTTP2_RESETS
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_MAX, RESETS_MAX);
#endif
#ifdef WAKEGATE_NGHTTP2_CONTINUATIONS
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
#endif
    nghttp2_option_set_max_send_header_block_length(option, ANSWER_HEAD_MAX);
    WG_ASSERT(nghttp2_session_server_new2(&session, callbacks, h2, option) == 0); /* fails as WG_NEW does */
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

static void greet(struct h2_front *h2)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, INT32_MAX}, /* the first: see cap_streams */
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
         (uint32_t)WG_MIN(h2->base.limits->max_header_bytes, UINT32_MAX)},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    WG_ASSERT(nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, WG_COUNT_OF(settings)) == 0);
    nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    WG_ASSERT(h2_collect(h2)); /* now: it comes before everything, even before a GOAWAY by hand */
    h2->settings_deadline = front_in_future(&h2->base, h2->base.limits->header_timeout);
    h2_arm(h2, h2->settings_deadline);
}

void front_h2_begin(struct wg_front *front, const char *data, size_t len)
{
    struct h2_front *h2 = h2_of(front);
    *h2 = (struct h2_front){
        .base = h2->base,
        .head_deadline = WG_USEC_NEVER,
        .settings_deadline = WG_USEC_NEVER,
        .write_deadline = WG_USEC_NEVER,
        .idle_deadline = WG_USEC_NEVER,
        .step_deadline = WG_USEC_NEVER,
    };
    front->ops = &h2_ops;
    wg_list_init(&h2->streams);
    wg_timer_init(&h2->timer, front->loop, on_timer);
    wg_timer_init(&h2->again, front->loop, on_again);
    glitch_init(&h2->glitch, wg_loop_now(front->loop));
    h2->session = new_session(h2);
    greet(h2);
    h2_set_idle(h2);
    wg_conn_set_handler(front->conn, &conn_handler, front);
    wg_conn_want_read(front->conn, true);
    wg_conn_mark_dirty(front->conn);
    if (len > 0)
        h2_feed(h2, data, len);
    if (front->draining && h2->state == H2_OPEN)
        h2_drain(front);
}
