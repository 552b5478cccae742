/* Frames out: all streams of a connection share one write a turn. */
#include "front_h2.h"

#include <errno.h>

#define PENDING_LOW    (16 * 1024)
#define FRAME_HEAD     9
#define FRAME_MAX      (FRAME_HEAD + 16384)
#define DATA_SMALL     4096 /* what nghttp2 has room for without growing its buffer */
#define DATA_LARGE     16384
#define OUT_MAX        (64 * 1024) /* of frames that wait for the connection, before no more are made */
#define EARLY_REFUSALS 2000
#define FLUSHES_A_TURN 4
#define IOV_MAX_TURN   16
#define OPAQUE         "wakegate"

/* ---- frames into bytes ---- */

static bool has_room(const struct h2_front *h2, size_t len)
{
    return h2->fill ? h2->room - h2->filled >= len : h2->out.len < OUT_MAX;
}

static void emit(struct h2_front *h2, const void *data, size_t len)
{
    if (!h2->fill) {
        wg_chain_append(&h2->out, h2->base.pool, data, len);
        return;
    }
    memcpy(h2->fill + h2->filled, data, len);
    h2->filled += len;
}

/* nghttp2 takes streams beyond the limit that it announces for a fault of the whole connection; we refuse
 * just the stream. So it announces no limit, and ours is written into its first frame, where it is the first
 * setting. */
static void cap_streams(struct h2_front *h2, const uint8_t *frame, size_t len)
{
    uint8_t setting[FRAME_HEAD + 6];
    WG_ASSERT(len >= sizeof(setting) && frame[3] == NGHTTP2_SETTINGS);
    memcpy(setting, frame, sizeof(setting));
    const uint32_t max = h2->base.limits->max_streams;
    for (unsigned i = 0; i < 4; i++)
        setting[FRAME_HEAD + 2 + i] = (uint8_t)(max >> (24 - 8 * i));
    emit(h2, setting, sizeof(setting));
    emit(h2, frame + sizeof(setting), len - sizeof(setting));
    h2->capped = true;
}

bool h2_collect(struct h2_front *h2)
{
    while (has_room(h2, FRAME_MAX)) {
        const uint8_t *frame;
        const ssize_t n = nghttp2_session_mem_send(h2->session, &frame);
        if (n <= 0)
            return n == 0;
        if (h2->capped)
            emit(h2, frame, (size_t)n);
        else
            cap_streams(h2, frame, (size_t)n);
    }
    return true;
}

static void submit_trailers(struct h2_front *h2, struct h2_stream *stream)
{
    nghttp2_nv nv[WG_FIELDS_MAX];
    size_t n = 0;
    struct wg_slice rest = wg_buf_slice(&stream->trailers), name, value;
    while (n < WG_FIELDS_MAX && wg_slice_split(&rest, '\0', &name) && wg_slice_split(&rest, '\0', &value))
        nv[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)value.ptr, name.len,
                               value.len, NGHTTP2_NV_FLAG_NONE};
    nghttp2_submit_trailer(h2->session, stream->id, nv, n);
}

/* nghttp2 asks what the next DATA frame holds; the bytes themselves go by on_send_data. */
ssize_t h2_read_answer(nghttp2_session *session WG_UNUSED, int32_t id WG_UNUSED, uint8_t *buf WG_UNUSED,
                       size_t len, uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = source->ptr;
    const size_t n = WG_MIN(len, stream->out.len);
    if (n == 0 && stream->answer == H2_ANSWER_BROKEN)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* RST_STREAM(INTERNAL_ERROR) */
    if (n == 0 && stream->answer == H2_ANSWER_BEGUN) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n < stream->out.len || stream->answer != H2_ANSWER_ENDED)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->trailers.len > 0) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(h2, stream);
    }
    return (ssize_t)n;
}

static ssize_t on_read_length(nghttp2_session *session, uint8_t type WG_UNUSED, int32_t id,
                              int32_t connection_window WG_UNUSED, int32_t stream_window WG_UNUSED,
                              uint32_t max_frame WG_UNUSED, void *arg WG_UNUSED)
{
    const struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    return stream && stream->out.len > 2 * DATA_SMALL ? DATA_LARGE : DATA_SMALL;
}

/* The client takes bytes again: its clock begins anew, and the back may go on. It runs on for an end that is
 * not sent: even an empty last frame needs a window that is open. */
static void note_progress(struct h2_front *h2, struct h2_stream *stream)
{
    const bool waits = stream->out.len > 0 || stream->answer >= H2_ANSWER_ENDED;
    stream->write_deadline =
        front_in_future(&h2->base, waits ? h2->base.limits->write_idle_timeout : WG_USEC_NEVER);
    if (!stream->above || stream->out.len > PENDING_LOW)
        return;
    stream->above = false;
    if (stream->stream.x)
        h2->base.handler->drained(stream->stream.x);
}

static int on_send_data(nghttp2_session *session WG_UNUSED, nghttp2_frame *frame, const uint8_t *head,
                        size_t len, nghttp2_data_source *source, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = source->ptr;
    WG_ASSERT(frame->data.padlen == 0 && stream->out.len >= len);
    if (!has_room(h2, FRAME_HEAD + len))
        return NGHTTP2_ERR_WOULDBLOCK;
    emit(h2, head, FRAME_HEAD);
    for (size_t left = len; left > 0;) {
        struct iovec iov;
        wg_chain_iov(&stream->out, &iov, 1);
        const size_t n = WG_MIN(left, iov.iov_len);
        emit(h2, iov.iov_base, n);
        wg_chain_consume(&stream->out, h2->base.pool, n);
        left -= n;
    }
    h2->pending -= len;
    note_progress(h2, stream);
    return 0;
}

/* An answer that overtook its request: what is under way of that is taken in for a moment, since clients lose
 * an answer that a reset follows at once. */
static void note_sent(struct h2_front *h2, struct h2_stream *stream)
{
    stream->answer = H2_ANSWER_SENT;
    stream->write_deadline = WG_USEC_NEVER;
    if (stream->request == H2_REQUEST_BODY) {
        stream->read_deadline = front_in_future(&h2->base, H2_LINGER_TIME);
        h2_arm(h2, stream->read_deadline);
    }
}

/* NO_ERROR, CANCEL and INTERNAL_ERROR are ours; all else the client has provoked. But a gateway that begins
 * with a burst does not know the limit of streams before it has read our SETTINGS. */
static bool is_provoked(struct h2_front *h2, uint32_t error)
{
    if (error == NGHTTP2_REFUSED_STREAM && h2->settings_deadline != WG_USEC_NEVER)
        return ++h2->early_refusals > EARLY_REFUSALS;
    return error != NGHTTP2_NO_ERROR && error != NGHTTP2_CANCEL && error != NGHTTP2_INTERNAL_ERROR;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        glitch_allow_updates(&h2->glitch);
        break;
    case NGHTTP2_GOAWAY:
        /* nghttp2 would let a PING overtake the notice, and its answer would prove nothing. */
        if (h2->state == H2_NOTICED)
            nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, (const uint8_t *)OPAQUE);
        return 0;
    case NGHTTP2_RST_STREAM:
        return is_provoked(h2, frame->rst_stream.error_code) ? h2_spend(h2, GLITCH_PROVOKED_RESET) : 0;
    default:
        break;
    }
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && stream->answer == H2_ANSWER_ENDED)
        note_sent(h2, stream);
    return 0;
}

void h2_set_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, on_read_length);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

/* ---- bytes into the connection ---- */

/* What waits goes first; then as many new frames as fit into the scratch buffer, without a copy in between.
 * Bytes taken; 0: nothing to send; -EAGAIN; other negative errno. */
static ssize_t write_once(struct h2_front *h2)
{
    if (h2->out.len > 0) {
        struct iovec iov[IOV_MAX_TURN];
        const int n = wg_chain_iov(&h2->out, iov, IOV_MAX_TURN);
        const ssize_t sent = wg_conn_writev(h2->base.conn, iov, n);
        if (sent > 0)
            wg_chain_consume(&h2->out, h2->base.pool, (size_t)sent);
        return sent;
    }
    if (h2->state >= H2_ENDING)
        return 0;
    h2->fill = wg_pool_scratch(h2->base.pool, &h2->room);
    h2->filled = 0;
    const bool sound = h2_collect(h2);
    const struct iovec iov = {h2->fill, h2->filled};
    h2->fill = NULL;
    ssize_t sent = iov.iov_len > 0 ? wg_conn_writev(h2->base.conn, &iov, 1) : 0;
    if (sent < 0 && sent != -EAGAIN)
        return sent;
    const size_t taken = sent > 0 ? (size_t)sent : 0;
    wg_chain_append(&h2->out, h2->base.pool, (char *)iov.iov_base + taken, iov.iov_len - taken);
    if (!sound)
        h2_end(h2, h2->doomed ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_INTERNAL_ERROR, "the session broke");
    return sent;
}

void h2_on_flush(void *arg)
{
    struct h2_front *h2 = h2_of(arg);
    ssize_t sent = 1;
    bool progress = false;
    for (unsigned i = 0; i < FLUSHES_A_TURN && sent > 0; i++) {
        sent = write_once(h2);
        progress |= sent > 0;
        if (sent < 0 && sent != -EAGAIN) {
            h2_close_now(h2, true);
            return;
        }
    }
    const bool pending = h2->out.len > 0;
    if (sent > 0 && !pending)
        wg_timer_set(&h2->again, 0); /* there may be more: others have their turn first */
    wg_conn_want_write(h2->base.conn, pending);
    if (!pending) {
        h2->write_deadline = WG_USEC_NEVER;
    } else if (progress || h2->write_deadline == WG_USEC_NEVER) {
        h2->write_deadline = front_in_future(&h2->base, h2->base.limits->write_idle_timeout);
        h2_arm(h2, h2->write_deadline);
    }
    h2_check_end(h2);
}
