/* One request on one HTTP/1.1 connection to a model server. It never sends anything twice: whether a request
 * may go out again is told by the kind of error, and decided above. */
#include "back.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IOV_A_TURN  32
#define HEAD_MAX    (64 * 1024)
#define INTERIM_MAX 16 /* 1xx answers before the real one */

enum back_state {
    BACK_CONNECTING, /* the connection does not stand yet */
    BACK_HEAD,       /* the request goes out; the answer's head is awaited */
    BACK_BODY,       /* the head was told; the body comes */
    BACK_DONE,       /* end or error was told, or cancelled: to be reaped */
};

struct wg_back {
    uint32_t magic;
    enum back_state state;
    struct wg_back_pool *pool;
    struct back_link *link; /* the connection; NULL when given back, closed, or never made */
    const struct wg_back_handler *handler;
    void *x;
    uint64_t endpoint_id;
    wg_usec reuse;
    char method[24];
    struct wg_buf head; /* of the request; consumed as it is written */
    struct wg_cursor body;
    bool written, paused, keep;
    unsigned interims;
    enum wg_body_kind kind;
    uint64_t left;
    struct wg_h1_chunked decoder;
    struct wg_buf in; /* part of the answer's head, or what came while paused */
    size_t scanned;
    int start_error;         /* of a connect that failed at once, told in the next turn */
    struct wg_timer timer;   /* the end of connecting */
    struct wg_deferred step; /* what a call from above began, done outside of that call */
    struct wg_deferred dead;
};

static void set_state(struct wg_back *back, enum back_state state)
{
    WG_ASSERT(state > back->state || back->state == BACK_CONNECTING);
    back->state = state;
}

static void reap(struct wg_deferred *deferred)
{
    struct wg_back *back = WG_CONTAINER_OF(deferred, struct wg_back, dead);
    wg_buf_clear(&back->head);
    wg_buf_clear(&back->in);
    wg_h1_chunked_clear(&back->decoder);
    back->magic = 0;
    free(back);
}

/* The one way out: the connection is kept if it may serve again, else closed within this turn. */
static void finish(struct wg_back *back, bool reusable)
{
    set_state(back, BACK_DONE);
    wg_timer_cancel(&back->timer);
    wg_deferred_cancel(&back->step);
    if (back->link && reusable)
        back_pool_keep(back->pool, back->link, back->kind == WG_BODY_CHUNKED);
    else if (back->link)
        back_link_close(back->link);
    back->link = NULL;
    wg_loop_reap(back_pool_loop(back->pool), &back->dead);
}

static void fail(struct wg_back *back, enum wg_back_error error, const char *why)
{
    finish(back, false);
    back->handler->error(back->x, error, why);
}

/* ---- the request ---- */

static int gather(struct wg_back *back, struct iovec *iov)
{
    int n = 0;
    if (back->head.len > 0)
        iov[n++] = (struct iovec){.iov_base = back->head.data, .iov_len = back->head.len};
    return n + wg_cursor_iov(back->body, iov + n, IOV_A_TURN - n);
}

static void wrote(struct wg_back *back, size_t n)
{
    back->written = true;
    const size_t of_head = WG_MIN(n, back->head.len);
    wg_buf_consume(&back->head, of_head);
    wg_cursor_advance(&back->body, n - of_head);
}

static void broke(struct wg_back *back, int error)
{
    if (back->state == BACK_BODY)
        fail(back, WG_BACK_BROKEN,
             error ? strerror(-error) : "the connection closed before the end of the answer");
    else if (!back->written)
        fail(back, WG_BACK_UNSENT,
             error ? strerror(-error) : "the connection closed before the request was sent");
    else
        fail(back, WG_BACK_RESET, error ? strerror(-error) : "the connection closed without an answer");
}

static void send_more(struct wg_back *back)
{
    struct wg_conn *conn = back->link->conn;
    for (;;) {
        struct iovec iov[IOV_A_TURN];
        const int n = gather(back, iov);
        if (n == 0) {
            back->body = (struct wg_cursor){0};
            wg_conn_want_write(conn, false);
            return;
        }
        const ssize_t sent = wg_conn_writev(conn, iov, n);
        if (sent == -EAGAIN) {
            wg_conn_want_write(conn, true);
            return;
        }
        if (sent < 0) {
            /* An answer may be there already (a 413, say): reading tells. Without one the read fails the same
             * way. */
            wg_conn_want_write(conn, false);
            if (!back->written)
                broke(back, (int)sent);
            return;
        }
        wrote(back, (size_t)sent);
    }
}

static void go(struct wg_back *back)
{
    wg_timer_cancel(&back->timer);
    set_state(back, BACK_HEAD);
    wg_conn_want_read(back->link->conn, true);
    back->handler->connected(back->x);
    if (back->state == BACK_HEAD)
        send_more(back);
}

static void on_writable(void *arg)
{
    struct back_link *link = WG_CAST(back_link, arg, LINK_MAGIC);
    struct wg_back *back = link->user;
    if (back->state != BACK_CONNECTING) {
        send_more(back);
        return;
    }
    const int error = wg_conn_error(link->conn);
    if (error < 0)
        fail(back, WG_BACK_CONNECT, strerror(-error));
    else
        go(back);
}

static void on_timer(struct wg_timer *timer)
{
    struct wg_back *back = WG_CONTAINER_OF(timer, struct wg_back, timer);
    WG_CHECK_OBJ(back, BACK_MAGIC);
    fail(back, WG_BACK_CONNECT, "no connection within timeouts.connect");
}

/* ---- the answer ---- */

static void complete(struct wg_back *back, bool leftover, const struct wg_fields *trailers)
{
    /* Bytes behind the answer, or a request that is not all sent, make the connection unfit for another one.
     */
    const bool sent = back->head.len == 0 && wg_cursor_left(back->body) == 0;
    void *x = back->x;
    const struct wg_back_handler *handler = back->handler;
    finish(back, back->keep && sent && !leftover);
    handler->end(x, trailers);
}

static void begin_body(struct wg_back *back, const struct wg_response *response)
{
    set_state(back, BACK_BODY);
    back->kind = response->body;
    back->left = response->body == WG_BODY_LENGTH ? response->content_length : 0;
    back->keep = response->keep_alive && response->body != WG_BODY_CLOSE;
    if (response->body == WG_BODY_CHUNKED)
        wg_h1_chunked_init(&back->decoder);
    back->handler->head(back->x, response);
}

static bool is_over(const struct wg_back *back)
{
    return back->kind == WG_BODY_NONE || (back->kind == WG_BODY_LENGTH && back->left == 0);
}

/* Nonsense is told by its first bytes: nobody waits for the end of a head that is none. */
static bool begins_like_http(const char *data, size_t len)
{
    const struct wg_slice want = WG_SLICE("HTTP/1.");
    return memcmp(data, want.ptr, WG_MIN(len, want.len)) == 0;
}

/* Takes one head off the front: how many bytes it was, 0 when it is not complete or was bad. */
static size_t take_head(struct wg_back *back, const char *data, size_t len)
{
    if (!begins_like_http(data, len)) {
        fail(back, WG_BACK_BAD, "the answer is not HTTP/1");
        return 0;
    }
    const size_t head = wg_h1_head_end(data, len, &back->scanned);
    if (head > HEAD_MAX || (head == 0 && len > HEAD_MAX)) {
        fail(back, WG_BACK_BAD, "the head of the answer is larger than 64 KiB");
        return 0;
    }
    if (head == 0)
        return 0;
    back->scanned = 0;
    struct wg_response response;
    const char *why = "too many fields";
    if (wg_h1_parse_response(data, head, wg_slice_str(back->method), &response, &why) != WG_H1_OK) {
        fail(back, WG_BACK_BAD, why);
        return 0;
    }
    if (response.status >= 200)
        begin_body(back, &response);
    else if (response.status == 101 || ++back->interims > INTERIM_MAX)
        fail(back, WG_BACK_BAD, "an interim answer that nobody asked for");
    return head;
}

static size_t take_length(struct wg_back *back, const char *data, size_t len)
{
    const size_t n = (size_t)WG_MIN((uint64_t)len, back->left);
    back->left -= n;
    back->handler->data(back->x, data, n);
    return n;
}

static size_t take_chunks(struct wg_back *back, const char *data, size_t len)
{
    size_t used = 0;
    struct wg_slice piece = {0};
    const enum wg_h1_result result = wg_h1_chunked_feed(&back->decoder, data, len, &used, &piece);
    if (piece.len > 0)
        back->handler->data(back->x, piece.ptr, piece.len);
    if (back->state == BACK_DONE || result == WG_H1_PARTIAL)
        return used;
    struct wg_fields trailers;
    if (result == WG_H1_OK && wg_h1_parse_trailers(&back->decoder, &trailers) == WG_H1_OK)
        complete(back, used < len, &trailers);
    else
        fail(back, WG_BACK_BROKEN, back->decoder.why ? back->decoder.why : "bad trailer section");
    return used;
}

static size_t take_body(struct wg_back *back, const char *data, size_t len)
{
    switch (back->kind) {
    case WG_BODY_LENGTH:
        return take_length(back, data, len);
    case WG_BODY_CHUNKED:
        return take_chunks(back, data, len);
    case WG_BODY_CLOSE:
        back->handler->data(back->x, data, len);
        return len;
    case WG_BODY_NONE:
        break;
    }
    return 0;
}

/* Uses what it may of the bytes: stops when paused, done, or short of a whole head. */
static size_t consume(struct wg_back *back, const char *data, size_t len)
{
    size_t used = 0;
    while (used < len && back->state != BACK_DONE && !(back->paused && back->state == BACK_BODY)) {
        const size_t n = back->state == BACK_HEAD ? take_head(back, data + used, len - used)
                                                  : take_body(back, data + used, len - used);
        used += n;
        if (back->state == BACK_BODY && is_over(back))
            complete(back, used < len, NULL);
        if (n == 0)
            break;
    }
    return used;
}

static void look(struct wg_back *back, const char *data, size_t len)
{
    const bool kept = data == back->in.data;
    const size_t used = consume(back, data, len);
    if (back->state == BACK_DONE)
        return;
    if (kept)
        wg_buf_consume(&back->in, used);
    else if (used < len)
        wg_buf_add(&back->in, data + used, len - used);
    if (back->in.failed)
        fail(back, WG_BACK_BAD, "the answer's head does not end");
    else if (back->in.len == 0)
        wg_buf_clear(&back->in);
}

static void end_of_file(struct wg_back *back)
{
    if (back->state == BACK_BODY && back->kind == WG_BODY_CLOSE && back->in.len == 0)
        complete(back, false, NULL);
    else
        broke(back, 0);
}

static void on_readable(void *arg)
{
    struct back_link *link = WG_CAST(back_link, arg, LINK_MAGIC);
    struct wg_back *back = link->user;
    size_t room;
    char *scratch = wg_pool_scratch(back_pool_blocks(back->pool), &room);
    const ssize_t n = wg_conn_read(link->conn, scratch, room);
    if (n == -EAGAIN)
        return;
    if (n < 0) {
        broke(back, (int)n);
        return;
    }
    if (n == 0) {
        end_of_file(back);
        return;
    }
    if (back->in.len == 0) {
        look(back, scratch, (size_t)n);
        return;
    }
    if (wg_buf_add(&back->in, scratch, (size_t)n) < 0)
        fail(back, WG_BACK_BAD, "the answer's head does not end");
    else
        look(back, back->in.data, back->in.len);
}

const struct wg_conn_handler back_active_handler = {.readable = on_readable, .writable = on_writable};

/* ---- from above ---- */

static void on_step(struct wg_deferred *deferred)
{
    struct wg_back *back = WG_CONTAINER_OF(deferred, struct wg_back, step);
    WG_CHECK_OBJ(back, BACK_MAGIC);
    if (back->start_error)
        fail(back, WG_BACK_CONNECT, strerror(-back->start_error));
    else if (back->state == BACK_CONNECTING)
        go(back);
    else if (!back->paused && back->in.len > 0)
        look(back, back->in.data, back->in.len);
}

struct wg_back *wg_back_start(struct wg_back_pool *pool, const struct wg_back_request *request,
                              const struct wg_back_handler *handler, void *x)
{
    struct wg_loop *loop = back_pool_loop(pool);
    struct wg_back *back = WG_NEW(struct wg_back);
    back->magic = BACK_MAGIC;
    back->pool = pool;
    back->handler = handler;
    back->x = x;
    back->endpoint_id = request->endpoint_id;
    back->reuse = request->reuse;
    const size_t len = WG_MIN(request->method.len, sizeof(back->method) - 1);
    memcpy(back->method, request->method.ptr, len);
    back->head = *request->head;
    *request->head = (struct wg_buf)WG_BUF_INIT(request->head->max);
    if (request->body)
        back->body = wg_cursor_begin(request->body);
    size_t scratch;
    wg_pool_scratch(back_pool_blocks(pool), &scratch);
    wg_buf_init(&back->in, HEAD_MAX + 2 * scratch);
    wg_h1_chunked_init(&back->decoder);
    wg_timer_init(&back->timer, loop, on_timer);
    wg_deferred_init(&back->step, on_step);
    wg_deferred_init(&back->dead, reap);

    back->link = back_pool_take(pool, back);
    if (!back->link)
        back->link = back_pool_connect(pool, back, request, &back->start_error);
    if (!back->link || back->link->reused)
        wg_loop_defer(loop, &back->step);
    else
        wg_timer_set_after(&back->timer, request->connect_timeout);
    return back;
}

uint64_t back_endpoint(const struct wg_back *back)
{
    return back->endpoint_id;
}

wg_usec back_reuse(const struct wg_back *back)
{
    return back->reuse;
}

void wg_back_pause(struct wg_back *back, bool paused)
{
    WG_CHECK_OBJ(back, BACK_MAGIC);
    if (back->state == BACK_DONE || back->paused == paused)
        return;
    back->paused = paused;
    if (back->link && back->state != BACK_CONNECTING)
        wg_conn_want_read(back->link->conn, !paused);
    if (!paused && back->in.len > 0)
        wg_loop_defer(back_pool_loop(back->pool), &back->step);
}

bool wg_back_sent(const struct wg_back *back)
{
    return back->written && back->head.len == 0 && back->body.block == NULL;
}

void wg_back_cancel(struct wg_back *back)
{
    if (!back)
        return;
    WG_CHECK_OBJ(back, BACK_MAGIC);
    if (back->state != BACK_DONE)
        finish(back, false);
}
