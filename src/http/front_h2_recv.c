/* Frames in: requests, their bodies, and what each cheap trick of a client costs it. */
#include "front_h2.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE         4096 /* fed at once: between two, resets that were provoked are counted */
#define CONTROL_MAX   64   /* control frames that wait before they are serialised */
#define CONTROL_FLOOD 1000 /* and those that may, beside one answer a stream: see settle_control */
#define RESET_SOON    (500 * WG_USEC_PER_MSEC)
#define DISCARD_MAX   (4 * 1024 * 1024)

#define CONTINUATIONS_FREE 8 /* of a block: more than what limits.maxHeaderBytes allows by default needs */

static struct h2_stream *stream_of(struct h2_front *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

/* ---- bodies ---- */

static void hand_up(struct h2_stream *stream, const char *data, size_t len)
{
    struct h2_front *h2 = h2_front_of(stream);
    h2->base.handler->body(stream->stream.x, data, len);
    nghttp2_session_consume_stream(h2->session, stream->id, len);
    if (stream->read_deadline != WG_USEC_NEVER)
        stream->read_deadline = front_in_future(&h2->base, h2->base.limits->body_idle_timeout);
}

static bool takes_body(const struct h2_stream *stream)
{
    return stream->wanted && !stream->paused && stream->stream.x;
}

void h2_deliver(struct h2_stream *stream)
{
    while (stream->in.len > 0 && takes_body(stream)) {
        char piece[4096];
        const size_t n = wg_chain_copy(&stream->in, 0, piece, sizeof(piece));
        wg_chain_consume(&stream->in, h2_front_of(stream)->base.pool, n);
        hand_up(stream, piece, n);
    }
    if (stream->request == H2_REQUEST_END && stream->in.len == 0 && takes_body(stream)) {
        stream->request = H2_REQUEST_TOLD;
        h2_front_of(stream)->base.handler->body_end(stream->stream.x, NULL);
    }
}

static int on_data(nghttp2_session *session, uint8_t flags WG_UNUSED, int32_t id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = stream_of(h2, id);
    /* The connection's window is credited whatever becomes of the stream: a held upload starves nobody. */
    nghttp2_session_consume_connection(session, len);
    if (!stream || !stream->stream.x)
        nghttp2_session_consume_stream(session, id, len); /* behind an early answer: thrown away */
    else if (takes_body(stream) && stream->in.len == 0)
        hand_up(stream, (const char *)data, len);
    else
        wg_chain_append(&stream->in, h2->base.pool, data, len); /* at most a window of it */
    return 0;
}

static void end_request(struct h2_stream *stream, const struct wg_fields *trailers)
{
    if (stream->request != H2_REQUEST_BODY)
        return;
    stream->request = H2_REQUEST_END;
    stream->read_deadline = WG_USEC_NEVER;
    if (stream->in.len > 0 || !takes_body(stream))
        return;
    stream->request = H2_REQUEST_TOLD;
    h2_front_of(stream)->base.handler->body_end(stream->stream.x, trailers);
}

/* ---- heads ---- */

/* Answers share the connection byte by byte: by default nghttp2 would send all that the first one ever has
 * before the next (RFC 9218 10), and the others would run into their timeouts. */
static void share(struct h2_front *h2, int32_t id)
{
    const nghttp2_extpri fair = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    nghttp2_session_change_extpri_stream_priority(h2->session, id, &fair, 1);
}

static void begin_stream(struct h2_front *h2, int32_t id)
{
    if (h2->n_streams >= h2->base.limits->max_streams) {
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
        return;
    }
    struct h2_stream *stream = WG_NEW(struct h2_stream);
    stream->stream = (struct wg_stream){.ops = &h2_stream_ops, .front = &h2->base};
    stream->id = id;
    stream->born = wg_loop_now(h2->base.loop);
    stream->declared = UINT64_MAX;
    stream->read_deadline = stream->write_deadline = WG_USEC_NEVER;
    wg_list_append(&h2->streams, &stream->link);
    h2->n_streams++;
    h2_set_idle(h2);
    nghttp2_session_set_stream_user_data(h2->session, id, stream);
    share(h2, id);
}

/* The block is complete, or nobody waits for the rest of it. */
static void forget_head(struct h2_front *h2)
{
    h2->head = h2_head_free(h2->head);
    h2->head_deadline = WG_USEC_NEVER;
}

static int on_begin_headers(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        glitch_allow_updates(&h2->glitch);
        begin_stream(h2, frame->hd.stream_id);
    }
    forget_head(h2);
    h2->head_extra = 0;
    if (stream_of(h2, frame->hd.stream_id))
        h2->head = h2_head_new(h2->base.limits->max_header_bytes);
    h2->head_deadline = front_in_future(&h2->base, h2->base.limits->header_timeout);
    h2_arm(h2, h2->head_deadline);
    return 0;
}

static int on_field(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame WG_UNUSED,
                    nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags WG_UNUSED, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    const bool before = h2->head && h2_head_overflowed(h2->head);
    if (h2->head && h2_head_add(h2->head, name, value))
        return 0;
    if (h2->head && !before)
        return h2_spend(h2, GLITCH_HEADER_OVERFLOW);
    return ++h2->head_extra % GLITCH_FIELDS_A_COST == 0 ? h2_spend(h2, GLITCH_EXTRA_FIELDS) : 0;
}

/* nghttp2 would drop it in silence. */
static int on_invalid_field(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame WG_UNUSED,
                            nghttp2_rcbuf *name WG_UNUSED, nghttp2_rcbuf *value WG_UNUSED,
                            uint8_t flags WG_UNUSED, void *arg WG_UNUSED)
{
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void begin_request(struct h2_front *h2, struct h2_stream *stream, const struct wg_request *request,
                          bool end)
{
    stream->expects = request->expect_continue;
    stream->request = end ? H2_REQUEST_END : H2_REQUEST_BODY;
    if (request->body == WG_BODY_LENGTH)
        stream->declared = request->content_length;
    h2->inside = true;
    void *x = h2->base.handler->head(h2->base.owner, &stream->stream, request);
    h2->inside = false;
    if (stream->answer >= H2_ANSWER_ENDED)
        return;
    if (h2->state >= H2_ENDING) { /* from inside of head(), when there was nobody yet to be told */
        h2->base.handler->gone(x);
        return;
    }
    stream->stream.x = x;
    h2_deliver(stream);
}

static void take_request(struct h2_front *h2, struct h2_stream *stream, bool end)
{
    const struct wg_request *request;
    const char *why = "";
    stream->request = end ? H2_REQUEST_END : H2_REQUEST_BODY;
    stream->no_body = h2_head_is_head(h2->head);
    switch (h2_head_request(h2->head, end, &request, &why)) {
    case WG_H1_OK:
        begin_request(h2, stream, request, end);
        break;
    case WG_H1_TOO_LARGE:
        h2_refuse_head(stream, 431, why);
        break;
    default:
        h2_refuse_head(stream, 400, why);
        break;
    }
}

static void take_trailers(struct h2_front *h2, struct h2_stream *stream)
{
    const struct wg_fields *trailers;
    const char *why = "";
    if (h2_head_trailers(h2->head, &trailers, &why) == WG_H1_OK)
        end_request(stream, trailers);
    else
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_PROTOCOL_ERROR);
}

static void on_headers(struct h2_front *h2, const nghttp2_frame *frame)
{
    struct h2_stream *stream = stream_of(h2, frame->hd.stream_id);
    if (stream && h2->head) {
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            take_request(h2, stream, frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
        else
            take_trailers(h2, stream);
    }
    forget_head(h2);
}

static int on_invalid_frame(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame,
                            int error WG_UNUSED, void *arg)
{
    if (frame->hd.type == NGHTTP2_HEADERS)
        forget_head(h2_of(arg));
    return 0;
}

/* ---- frames ---- */

/* Frames of unknown types mean nothing here. */
static int on_unknown_frame(nghttp2_session *session WG_UNUSED, void **payload WG_UNUSED,
                            const nghttp2_frame_hd *hd WG_UNUSED, void *arg WG_UNUSED)
{
    return NGHTTP2_ERR_CANCEL;
}

/* Called for the head of every frame; for those of unknown types since h2_accept_unknown. */
static int on_begin_frame(nghttp2_session *session WG_UNUSED, const nghttp2_frame_hd *hd, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    if (hd->type != NGHTTP2_CONTINUATION) {
        forget_head(h2); /* of a stream that nghttp2 had given up */
        h2->head_frames = 0;
    }
    switch (hd->type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
    case NGHTTP2_RST_STREAM: /* when it is whole: on_frame */
        return 0;
    case NGHTTP2_SETTINGS:
        return hd->flags & NGHTTP2_FLAG_ACK ? 0 : h2_spend(h2, GLITCH_SETTINGS);
    case NGHTTP2_PING:
        return h2_spend(h2, GLITCH_PING); /* an answer, too: we ask once at most */
    case NGHTTP2_WINDOW_UPDATE:
        return glitch_use_update(&h2->glitch) ? 0 : h2_spend(h2, GLITCH_WINDOW_UPDATE);
    case NGHTTP2_CONTINUATION:
        if (hd->length == 0 || ++h2->head_frames > CONTINUATIONS_FREE)
            return h2_spend(h2, GLITCH_EMPTY_FRAME);
        return 0;
    default:
        return h2_spend(h2, GLITCH_OTHER_FRAME);
    }
}

/* A reset costs while its answer is not complete, unless the client had waited for it: impatience is no
 * trick, and behind a gateway many impatient users share one connection. */
static bool is_trick(const struct h2_front *h2, const struct h2_stream *stream)
{
    return !stream ||
           (stream->answer < H2_ANSWER_SENT && wg_loop_now(h2->base.loop) - stream->born < RESET_SOON);
}

static int on_frame(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = stream_of(h2, frame->hd.stream_id);
    const bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        on_headers(h2, frame);
        return 0;
    case NGHTTP2_DATA:
        if (stream && end)
            end_request(stream, NULL);
        if (!end && frame->hd.length == frame->data.padlen)
            return h2_spend(h2, GLITCH_EMPTY_FRAME);
        return 0;
    case NGHTTP2_RST_STREAM:
        return is_trick(h2, stream) ? h2_spend(h2, GLITCH_RESET) : 0;
    case NGHTTP2_SETTINGS:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h2->settings_deadline = WG_USEC_NEVER;
        return 0;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h2->ping_back = true;
        return 0;
    default:
        return 0;
    }
}

void h2_stream_free(struct h2_stream *stream)
{
    struct h2_front *h2 = h2_front_of(stream);
    wg_list_remove(&stream->link);
    h2->n_streams--;
    h2->pending -= stream->out.len;
    wg_chain_clear(&stream->in, h2->base.pool);
    wg_chain_clear(&stream->out, h2->base.pool);
    wg_buf_clear(&stream->trailers);
    free(stream);
}

/* Reset by either side, or complete: what its exchange holds is given back now. */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error WG_UNUSED, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = stream_of(h2, id);
    if (!stream)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    void *x = stream->stream.x;
    if (stream->answer == H2_ANSWER_SENT)
        glitch_give(&h2->glitch);
    h2_stream_free(stream);
    if (x)
        h2->base.handler->gone(x);
    h2_set_idle(h2);
    return 0;
}

void h2_accept_unknown(nghttp2_option *option)
{
    for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
}

void h2_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, on_unknown_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_field);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_field);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

/* ---- bytes ---- */

static void broken(struct h2_front *h2, ssize_t error)
{
    if (h2->doomed || error == NGHTTP2_ERR_FLOODED)
        h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, "too many cheap frames");
    else
        h2_end(h2, NGHTTP2_PROTOCOL_ERROR, nghttp2_strerror((int)error));
}

/* Between two slices the answers to control frames are made, so that the resets among them are counted.
 * False: the client makes us talk and does not listen. */
static bool settle_control(struct h2_front *h2)
{
    const size_t queued = nghttp2_session_get_outbound_queue_size(h2->session);
    return queued <= CONTROL_MAX || (queued <= CONTROL_FLOOD + h2->n_streams && h2_collect(h2));
}

void h2_feed(struct h2_front *h2, const char *data, size_t len)
{
    while (len > 0 && h2->state < H2_ENDING) {
        const size_t n = WG_MIN(len, (size_t)SLICE);
        const ssize_t used = nghttp2_session_mem_recv(h2->session, (const uint8_t *)data, n);
        if (used < 0)
            broken(h2, used);
        else if (!settle_control(h2))
            broken(h2, NGHTTP2_ERR_FLOODED);
        data += n;
        len -= n;
    }
    if (h2->state != H2_CLOSED)
        wg_conn_mark_dirty(h2->base.conn);
}

static void discard(struct h2_front *h2, size_t len)
{
    h2->discarded += len;
    if (h2->discarded > DISCARD_MAX)
        h2_close_now(h2, true);
}

void h2_on_readable(void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    size_t room;
    char *scratch = wg_pool_scratch(h2->base.pool, &room);
    const ssize_t n = wg_conn_read(h2->base.conn, scratch, room);
    if (n == -EAGAIN)
        return;
    if (n <= 0)
        h2_close_now(h2, n < 0);
    else if (h2->state >= H2_ENDING)
        discard(h2, (size_t)n);
    else
        h2_feed(h2, scratch, (size_t)n);
}
