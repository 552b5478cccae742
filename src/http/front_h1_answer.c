/* Answers out: the stream that the exchange writes to. */
#include "front_h1.h"

#include <stdio.h>

static struct h1_front *h1_of_stream(const struct wg_stream *stream)
{
    return h1_of(stream->front);
}

/* The answer is complete: on to the next request, or to the end of the connection. */
static void end_answer(struct h1_front *h1)
{
    h1->ended = true;
    h1->stream.x = NULL;
    h1_set_state(h1, h1->state == H1_BUSY && h1->keep_alive ? H1_IDLE : H1_LAST);
    if (h1->state == H1_IDLE && h1->in.len > 0)
        wg_timer_set(&h1->again, 0);
    h1_watch(h1);
    wg_conn_mark_dirty(h1->base.conn);
}

static void stream_want_body(struct wg_stream *stream)
{
    struct h1_front *h1 = h1_of_stream(stream);
    h1->wanted = true;
    if (h1->expects) {
        wg_chain_append(&h1->out, h1->base.pool, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        wg_conn_mark_dirty(h1->base.conn);
    }
    if (h1->state == H1_BODY)
        h1_set_state(h1, H1_BODY);
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
    h1_set_state(h1, H1_BODY);
    h1_watch(h1);
    if (!paused)
        wg_timer_set(&h1->again, 0);
}

static void write_length(struct h1_front *h1, uint64_t length)
{
    char digits[24];
    const int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)length);
    h1_write_field(&h1->out, h1->base.pool, WG_SLICE("Content-Length"), wg_slice(digits, (size_t)len));
}

static void write_framing(struct h1_front *h1, const struct wg_response *response)
{
    struct wg_chain *out = &h1->out;
    struct wg_pool *pool = h1->base.pool;
    const bool bodiless = h1->no_body || response->status == 304;
    switch (response->body) {
    case WG_BODY_LENGTH:
        write_length(h1, response->content_length);
        break;
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
        /* A HEAD's answer and a 304 tell the length that a GET's would have (RFC 9110 8.6). */
        if (response->status != 204 && (!bodiless || response->content_length > 0))
            write_length(h1, bodiless ? response->content_length : 0);
        break;
    }
    if (h1->state == H1_BODY)
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
    wg_conn_mark_dirty(h1->base.conn);
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
    wg_conn_mark_dirty(h1->base.conn);
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
    h1_set_state(h1, H1_LAST);
    if (h1->reset)
        wg_chain_clear(&h1->out, h1->base.pool);
    wg_conn_mark_dirty(h1->base.conn);
}

static size_t stream_pending(const struct wg_stream *stream)
{
    return h1_of_stream(stream)->out.len;
}

static bool stream_can_stream(const struct wg_stream *stream)
{
    return !h1_of_stream(stream)->http10;
}

const struct wg_stream_ops h1_stream_ops = {
    .want_body = stream_want_body,
    .pause_body = stream_pause_body,
    .head = stream_head,
    .data = stream_data,
    .end = stream_end,
    .abort = stream_abort,
    .pending = stream_pending,
    .can_stream = stream_can_stream,
};
