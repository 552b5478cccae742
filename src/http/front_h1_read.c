/* Requests in: heads, bodies, and what is pipelined behind. */
#include "front_h1.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

void h1_refuse_head(struct h1_front *h1, int status, const char *why)
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
    h1_set_state(h1, H1_LAST);
    wg_conn_mark_dirty(h1->base.conn);
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
    /* What follows a CONNECT may be meant for a tunnel that is not there. */
    h1->keep_alive =
        request->keep_alive && !h1->base.draining && !wg_slice_eq(request->method, WG_SLICE("CONNECT"));
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
    h1_set_state(h1, h1->empty ? H1_BUSY : H1_BODY);
    h1->inside = true;
    void *x = h1->base.handler->head(h1->base.owner, &h1->stream, request);
    h1->inside = false;
    if (h1->ended)
        return;
    if (h1->state == H1_CLOSED) { /* from inside of head(), when there was nobody yet to be told */
        h1->base.handler->gone(x);
        return;
    }
    h1->stream.x = x;
    end_empty_body(h1);
}

/* Takes one head off the front of the bytes: how many it was, 0 if it is not complete (or was refused). */
static size_t take_head(struct h1_front *h1, const char *data, size_t len)
{
    /* RFC 9112 2.2: one empty line before a request line. */
    const size_t skipped = len >= 2 && data[0] == '\r' && data[1] == '\n' ? 2 : 0;
    if (len > skipped && !isalpha((unsigned char)data[skipped]) && data[skipped] != '\r') {
        h1_refuse_head(h1, 400,
                       "this is not HTTP/1"); /* TLS, or another protocol: its end would never come */
        return 0;
    }
    h1->scanned = WG_MIN(h1->scanned, len - skipped);
    const size_t head = wg_h1_head_end(data + skipped, len - skipped, &h1->scanned);
    if (head == 0 && len - skipped <= h1->base.limits->max_header_bytes) {
        h1_set_state(h1, H1_HEAD);
        return 0;
    }
    h1->scanned = 0;
    if (head == 0 || head > h1->base.limits->max_header_bytes) {
        h1_refuse_head(h1, 431, "the head is larger than limits.maxHeaderBytes");
        return 0;
    }
    struct wg_request request;
    const char *why = "";
    switch (wg_h1_parse_request(data + skipped, head, &request, &why)) {
    case WG_H1_OK:
        begin_request(h1, &request);
        return skipped + head;
    case WG_H1_TOO_LARGE:
        h1_refuse_head(h1, 431, why);
        return 0;
    default:
        h1_refuse_head(h1, 400, why);
        return 0;
    }
}

static void end_body(struct h1_front *h1, const struct wg_fields *trailers)
{
    h1_set_state(h1, H1_BUSY);
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
    h1_expect_read(h1, h1->base.limits->body_idle_timeout);
    return h1->body == WG_BODY_CHUNKED ? take_chunks(h1, data, len) : take_length(h1, data, len);
}

/* Uses as many bytes as the state allows; the rest stays for later. One request at a time is begun here. */
static size_t consume(struct h1_front *h1, const char *data, size_t len)
{
    size_t used = 0;
    bool begun = false;
    while (used < len) {
        size_t n = 0;
        if (h1_takes_head(h1) && !begun) {
            n = take_head(h1, data + used, len - used);
            begun = n > 0;
        } else if (h1_takes_body(h1)) {
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

void h1_look(struct h1_front *h1, const char *data, size_t len)
{
    const bool kept = data == h1->in.data;
    const size_t used = consume(h1, data, len);
    if (h1->state == H1_CLOSED)
        return;
    if (kept)
        wg_buf_consume(&h1->in, used);
    else if (used < len && wg_buf_add(&h1->in, data + used, len - used) < 0) {
        h1_close_now(h1, true);
        return;
    }
    if (h1->in.len == 0)
        wg_buf_clear(&h1->in);
    if (h1->in.len > 0 && h1->state != H1_HEAD && (h1_takes_head(h1) || h1_takes_body(h1)))
        wg_timer_set(&h1->again, 0); /* the next turn: a pipelining client is no better than the others */
    h1_watch(h1);
}

/* A FIN is leaving, too: nobody waits for minutes behind a connection that is half closed. Only an answer
 * that is complete and on its way is still delivered. */
static void end_of_file(struct h1_front *h1, bool hard)
{
    if (hard || h1->out.len == 0 || !(h1->state == H1_LAST || h1->state == H1_IDLE)) {
        h1_close_now(h1, hard || h1->out.len > 0);
        return;
    }
    h1_set_state(h1, H1_LAST);
    h1->broken = true; /* closes when all is sent: nothing more will be read */
    wg_conn_want_read(h1->base.conn, false);
}

void h1_on_readable(void *arg)
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
        h1_look(h1, scratch, (size_t)n);
        return;
    }
    if (wg_buf_add(&h1->in, scratch, (size_t)n) < 0)
        h1_close_now(h1, true);
    else
        h1_look(h1, h1->in.data, h1->in.len);
}

void h1_on_again(struct wg_timer *timer)
{
    struct h1_front *h1 = WG_CONTAINER_OF(timer, struct h1_front, again);
    WG_CHECK_OBJ(&h1->base, FRONT_MAGIC);
    end_empty_body(h1);
    if (h1->state != H1_CLOSED && h1->in.len > 0)
        h1_look(h1, h1->in.data, h1->in.len);
}
