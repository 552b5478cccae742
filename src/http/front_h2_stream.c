/* Answers out: the streams of a connection that the exchanges write to. */
#include "front_h2.h"
#include "h1_write.h"

#include <stdio.h>
#include <stdlib.h>

#define TRAILERS_MAX    (8 * 1024)
#define WINDOW_INITIAL  65535
#define WINDOW_WANTED   (1024 * 1024)
#define CONNECTION_HIGH (1024 * 1024) /* above it, every answer with bytes pending stops its back */

static void resume(struct h2_stream *stream)
{
    struct h2_front *h2 = h2_front_of(stream);
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(h2->session, stream->id);
    }
    wg_conn_mark_dirty(h2->base.conn);
}

/* ---- the request's body ---- */

/* A large body gets a window of its own size, once it is known to be wanted. */
static void widen_window(struct h2_stream *stream)
{
    const uint64_t size = WG_MIN(stream->declared, (uint64_t)WINDOW_WANTED);
    if (stream->request == H2_REQUEST_BODY && size > WINDOW_INITIAL)
        nghttp2_session_set_local_window_size(h2_front_of(stream)->session, NGHTTP2_FLAG_NONE, stream->id,
                                              (int32_t)size);
}

/* The client's clock runs while we are willing to read. */
static void expect_body(struct h2_stream *stream, bool willing)
{
    struct h2_front *h2 = h2_front_of(stream);
    stream->read_deadline =
        willing ? front_in_future(&h2->base, h2->base.limits->body_idle_timeout) : WG_USEC_NEVER;
    h2_arm(h2, stream->read_deadline);
}

static void stream_want_body(struct wg_stream *base)
{
    struct h2_stream *stream = h2_stream_of(base);
    struct h2_front *h2 = h2_front_of(stream);
    stream->wanted = true;
    widen_window(stream);
    if (stream->expects && stream->request == H2_REQUEST_BODY) {
        const nghttp2_nv status = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "100", 7, 3,
                                   NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
        nghttp2_submit_headers(h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, &status, 1, NULL);
    }
    if (stream->request == H2_REQUEST_BODY)
        expect_body(stream, true);
    if (!h2->inside)
        wg_timer_set(&h2->again, 0); /* what is kept is handed up outside of this call */
    wg_conn_mark_dirty(h2->base.conn);
}

static void stream_pause_body(struct wg_stream *base, bool paused)
{
    struct h2_stream *stream = h2_stream_of(base);
    struct h2_front *h2 = h2_front_of(stream);
    stream->paused = paused;
    if (!paused)
        wg_timer_set(&h2->again, 0);
    if (stream->request == H2_REQUEST_BODY)
        expect_body(stream, !paused);
}

/* ---- the answer ---- */

struct head_out {
    nghttp2_nv nv[WG_FIELDS_MAX + 3]; /* and :status, Date, Content-Length */
    size_t n;
};

/* nghttp2 copies both, and writes names in lower case (RFC 9113 8.2.1). */
static void add(struct head_out *head, struct wg_slice name, struct wg_slice value)
{
    head->nv[head->n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)value.ptr,
                                       name.len, value.len, NGHTTP2_NV_FLAG_NONE};
}

static void add_fields(struct head_out *head, const struct wg_fields *fields, char date[static 32])
{
    bool dated = false;
    for (unsigned i = 0; i < fields->n; i++) {
        const struct wg_field *field = &fields->items[i];
        if (field->hop || (wg_token_flags(field->token) & (WG_FIELD_HOP | WG_FIELD_FRAMING)))
            continue;
        dated |= field->token == WG_TOKEN_DATE;
        add(head, field->name, field->value);
    }
    if (dated)
        return;
    h1_date(wg_clock_wall(), date);
    add(head, WG_SLICE("date"), wg_slice_str(date));
}

/* A HEAD's answer and a 304 tell the length that a GET's would have (RFC 9110 8.6). */
static bool tells_length(const struct h2_stream *stream, const struct wg_response *response)
{
    if (response->status == 204)
        return false;
    if (response->body == WG_BODY_LENGTH)
        return true;
    return response->body == WG_BODY_NONE && (!stream->no_body || response->content_length > 0);
}

/* The client's clock runs while something of the answer is not sent, be it only the end. */
static void expect_taken(struct h2_stream *stream)
{
    struct h2_front *h2 = h2_front_of(stream);
    if (stream->write_deadline != WG_USEC_NEVER)
        return;
    stream->write_deadline = front_in_future(&h2->base, h2->base.limits->write_idle_timeout);
    h2_arm(h2, stream->write_deadline);
}

static void set_ended(struct h2_stream *stream)
{
    stream->answer = H2_ANSWER_ENDED;
    stream->stream.x = NULL;
    stream->read_deadline = WG_USEC_NEVER;
    expect_taken(stream);
}

static void stream_head(struct wg_stream *base, const struct wg_response *response)
{
    struct h2_stream *stream = h2_stream_of(base);
    struct h2_front *h2 = h2_front_of(stream);
    struct head_out head = {.n = 0};
    char status[8], date[32], length[24];
    WG_ASSERT(stream->answer == H2_ANSWER_NONE);
    add(&head, WG_SLICE(":status"),
        wg_slice(status, (size_t)snprintf(status, sizeof(status), "%03d", response->status)));
    add_fields(&head, &response->fields, date);
    stream->no_body |= response->status == 204 || response->status == 304;
    if (tells_length(stream, response)) {
        const int len =
            snprintf(length, sizeof(length), "%llu", (unsigned long long)response->content_length);
        add(&head, WG_SLICE("content-length"), wg_slice(length, (size_t)len));
    }
    const bool ends = response->body == WG_BODY_NONE || stream->no_body;
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = h2_read_answer};
    stream->answer = H2_ANSWER_BEGUN;
    if (nghttp2_submit_response(h2->session, stream->id, head.nv, head.n, ends ? NULL : &provider) < 0)
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
    if (response->body == WG_BODY_NONE)
        set_ended(stream);
    wg_conn_mark_dirty(h2->base.conn);
}

static size_t pending_of(const struct h2_stream *stream)
{
    const struct h2_front *h2 = h2_front_of(stream);
    if (stream->out.len > 0 && h2->pending > CONNECTION_HIGH)
        return stream->out.len + WG_PENDING_HIGH;
    return stream->out.len;
}

static void stream_data(struct wg_stream *base, const char *data, size_t len)
{
    struct h2_stream *stream = h2_stream_of(base);
    struct h2_front *h2 = h2_front_of(stream);
    WG_ASSERT(stream->answer == H2_ANSWER_BEGUN);
    if (stream->no_body || len == 0)
        return;
    wg_chain_append(&stream->out, h2->base.pool, data, len);
    h2->pending += len;
    stream->above |= pending_of(stream) > WG_PENDING_HIGH;
    expect_taken(stream);
    resume(stream);
}

static void keep_trailers(struct h2_stream *stream, const struct wg_fields *trailers)
{
    wg_buf_init(&stream->trailers, TRAILERS_MAX);
    for (unsigned i = 0; i < trailers->n; i++) {
        const struct wg_field *field = &trailers->items[i];
        if (field->hop)
            continue;
        wg_buf_add_slice(&stream->trailers, field->name);
        wg_buf_add_char(&stream->trailers, '\0');
        wg_buf_add_slice(&stream->trailers, field->value);
        wg_buf_add_char(&stream->trailers, '\0');
    }
}

static void stream_end(struct wg_stream *base, const struct wg_fields *trailers)
{
    struct h2_stream *stream = h2_stream_of(base);
    WG_ASSERT(stream->answer == H2_ANSWER_BEGUN);
    if (trailers && !stream->no_body)
        keep_trailers(stream, trailers);
    set_ended(stream);
    resume(stream);
}

static void stream_abort(struct wg_stream *base)
{
    struct h2_stream *stream = h2_stream_of(base);
    const bool begun = stream->answer == H2_ANSWER_BEGUN;
    set_ended(stream);
    stream->answer = H2_ANSWER_BROKEN;
    if (!begun || stream->no_body)
        nghttp2_submit_rst_stream(h2_front_of(stream)->session, NGHTTP2_FLAG_NONE, stream->id,
                                  NGHTTP2_INTERNAL_ERROR);
    resume(stream);
}

static size_t stream_pending(const struct wg_stream *base)
{
    return pending_of(h2_stream_of(base));
}

static bool stream_can_stream(const struct wg_stream *base WG_UNUSED)
{
    return true;
}

const struct wg_stream_ops h2_stream_ops = {
    .want_body = stream_want_body,
    .pause_body = stream_pause_body,
    .head = stream_head,
    .data = stream_data,
    .end = stream_end,
    .abort = stream_abort,
    .pending = stream_pending,
    .can_stream = stream_can_stream,
};

void h2_refuse_head(struct h2_stream *stream, int status, const char *why)
{
    struct h2_front *h2 = h2_front_of(stream);
    struct wg_buf body = WG_BUF_INIT(4096);
    struct wg_response response = {.status = status, .body = WG_BODY_LENGTH};
    h2->base.handler->malformed(h2->base.owner, &h2->base, status, why, &body);
    WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("content-type"), WG_SLICE("application/json")) == 0);
    response.content_length = body.len;
    stream_head(&stream->stream, &response);
    stream_data(&stream->stream, body.data, body.len);
    stream_end(&stream->stream, NULL);
    wg_buf_clear(&body);
}
