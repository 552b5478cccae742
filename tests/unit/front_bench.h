/* One real front on a loopback connection, a toy exchange above it, and the client's end as a plain socket.
 */
#pragma once

#include "loop_until.h"
#include "unit.h"

#include "wakegate/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BENCH_PATIENCE (5 * WG_USEC_PER_SEC)

struct bench {
    struct wg_loop *loop;
    struct wg_pool *pool;
    struct wg_front_limits limits;
    struct wg_front *front; /* NULL once closed() was told */
    struct wg_stream *stream;
    /* what the exchange does in each call; NULL: nothing */
    void (*on_head)(struct bench *bench);
    void (*on_body)(struct bench *bench);
    void (*on_body_end)(struct bench *bench);
    /* what it was told */
    unsigned heads, ends, failed, stalled, drained, gone, closed;
    size_t body_len;
    char path[64];
    /* the client */
    int client;
    char *got; /* all that it received, NUL at the end */
    size_t n_got, max_got;
    bool ended;
    int error; /* errno of the end; 0: FIN */
};

static inline void *bench_head(void *owner, struct wg_stream *stream, const struct wg_request *request)
{
    struct bench *bench = owner;
    bench->heads++;
    bench->stream = stream;
    snprintf(bench->path, sizeof(bench->path), WG_SLICE_FMT, WG_SLICE_ARG(request->path));
    if (bench->on_head)
        bench->on_head(bench);
    return bench;
}

static inline void bench_body(void *x, const char *data WG_UNUSED, size_t len)
{
    struct bench *bench = x;
    bench->body_len += len;
    if (bench->on_body)
        bench->on_body(bench);
}

static inline void bench_body_end(void *x, const struct wg_fields *trailers WG_UNUSED)
{
    struct bench *bench = x;
    bench->ends++;
    if (bench->on_body_end)
        bench->on_body_end(bench);
}

static inline void bench_answer(struct bench *bench, int status, const char *text)
{
    struct wg_stream *stream = bench->stream;
    const struct wg_response response = {
        .status = status, .body = WG_BODY_LENGTH, .content_length = strlen(text)};
    stream->ops->head(stream, &response);
    stream->ops->data(stream, text, strlen(text));
    stream->ops->end(stream, NULL);
}

static inline void bench_ok(struct bench *bench)
{
    bench_answer(bench, 200, "whole");
}

static inline void bench_begin(struct bench *bench, const char *text)
{
    const struct wg_response response = {.status = 200, .body = WG_BODY_CLOSE};
    bench->stream->ops->head(bench->stream, &response);
    bench->stream->ops->data(bench->stream, text, strlen(text));
}

static inline void bench_want(struct bench *bench)
{
    bench->stream->ops->want_body(bench->stream);
}

static inline void bench_body_failed(void *x, const char *why WG_UNUSED)
{
    struct bench *bench = x;
    bench->failed++;
    bench_answer(bench, 400, "bad body");
}

static inline void bench_body_stalled(void *x)
{
    struct bench *bench = x;
    bench->stalled++;
    bench_answer(bench, 408, "slow body");
}

static inline void bench_drained(void *x)
{
    struct bench *bench = x;
    bench->drained++;
}

static inline void bench_gone(void *x)
{
    struct bench *bench = x;
    bench->gone++;
}

static inline void bench_malformed(void *owner WG_UNUSED, struct wg_front *front WG_UNUSED,
                                   int status WG_UNUSED, const char *why, struct wg_buf *body)
{
    wg_buf_add_str(body, why);
}

static inline void bench_closed(void *owner, struct wg_front *front)
{
    struct bench *bench = owner;
    assert_ptr_equal(front, bench->front);
    bench->front = NULL;
    bench->closed++;
}

static const struct wg_front_handler bench_handler = {
    .head = bench_head,
    .body = bench_body,
    .body_end = bench_body_end,
    .body_failed = bench_body_failed,
    .body_stalled = bench_body_stalled,
    .drained = bench_drained,
    .gone = bench_gone,
    .malformed = bench_malformed,
    .closed = bench_closed,
};

/* A connected pair over loopback: Unix sockets know no reset. */
static inline void bench_connect(int ret_fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 16 * 1024; /* so that a client that does not read is soon noticed */
    setsockopt(ret_fds[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(ret_fds[0], (struct sockaddr *)&address, len), 0);
    ret_fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(ret_fds[1] >= 0);
    setsockopt(ret_fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    close(listener);
}

static inline int bench_set_up(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    const struct sockaddr_storage peer = {.ss_family = AF_INET};
    int fds[2];
    bench->loop = wg_loop_new();
    bench->pool = wg_pool_new(0);
    bench->limits = (struct wg_front_limits){.header_timeout = 10 * WG_USEC_PER_SEC,
                                             .body_idle_timeout = 10 * WG_USEC_PER_SEC,
                                             .write_idle_timeout = 10 * WG_USEC_PER_SEC,
                                             .idle_timeout = 10 * WG_USEC_PER_SEC,
                                             .max_header_bytes = 8192};
    bench->on_head = bench_want;
    bench->on_body_end = bench_ok;
    bench->max_got = 8 << 20;
    bench->got = wg_xcalloc(1, bench->max_got + 1);
    bench_connect(fds);
    bench->client = fds[0];
    bench->front =
        wg_front_new(bench->loop, bench->pool, fds[1], &peer, NULL, &bench->limits, &bench_handler, bench);
    *state = bench;
    return 0;
}

/* The pool's end checks that nothing of an answer is left behind. */
static inline int bench_tear_down(void **state)
{
    struct bench *bench = *state;
    if (bench->front)
        wg_front_close(bench->front, true);
    assert_int_equal(bench->closed, 1);
    wg_loop_free(bench->loop);
    wg_pool_free(bench->pool);
    if (bench->client >= 0)
        close(bench->client);
    free(bench->got);
    free(bench);
    return 0;
}

static inline void bench_send(struct bench *bench, const char *text)
{
    assert_int_equal(send(bench->client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void bench_receive(struct bench *bench)
{
    while (!bench->ended) {
        const ssize_t n =
            recv(bench->client, bench->got + bench->n_got, bench->max_got - bench->n_got, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        bench->ended = n <= 0;
        bench->error = n < 0 ? errno : 0;
        if (n > 0)
            bench->n_got += (size_t)n;
    }
}

struct bench_wish {
    struct bench *bench;
    const char *text;
};

static inline bool bench_has(void *arg)
{
    const struct bench_wish *wish = arg;
    bench_receive(wish->bench);
    return strstr(wish->bench->got, wish->text) != NULL;
}

/* Lets the loop run until the client has received the text. */
static inline void bench_expect(struct bench *bench, const char *text)
{
    struct bench_wish wish = {bench, text};
    if (!loop_until(bench->loop, bench_has, &wish, BENCH_PATIENCE))
        fail_msg("no \"%s\" in \"%s\"", text, bench->got);
}

static inline bool bench_has_ended(void *arg)
{
    struct bench *bench = arg;
    bench_receive(bench);
    return bench->ended;
}

/* Lets the loop run until the client sees the end: 0 for a FIN, else an errno. */
static inline int bench_end(struct bench *bench)
{
    assert_true(loop_until(bench->loop, bench_has_ended, bench, BENCH_PATIENCE));
    return bench->error;
}

static inline void bench_forget(struct bench *bench)
{
    memset(bench->got, 0, bench->n_got);
    bench->n_got = 0;
}

static inline bool bench_until(struct bench *bench, bool (*is_true)(void *arg))
{
    return loop_until(bench->loop, is_true, bench, BENCH_PATIENCE);
}
