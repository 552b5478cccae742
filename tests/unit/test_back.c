/* The back over loopback: every kind of error, keeping and not keeping connections, pauses, and a handler
 * that cancels in each call. The server's end is a plain socket that the test itself speaks through. */
#include "loop_until.h"
#include "unit.h"

#include "wakegate/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE (5 * WG_USEC_PER_SEC)
#define OK       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define CHUNKED  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

struct bench {
    struct wg_loop *loop;
    struct wg_pool *blocks;
    struct wg_back_pool *pool;
    struct sockaddr_in address;
    int listener, server;
    struct wg_chain body;
    wg_usec connect_timeout, reuse;
    const char *method;
    struct wg_back *back;
    /* what the handler does in each call; NULL: nothing */
    void (*on_connected)(struct bench *bench);
    void (*on_head)(struct bench *bench);
    void (*on_data)(struct bench *bench);
    /* what it was told */
    unsigned connected, heads, ends, errors, calls_after;
    int status;
    uint64_t length;
    enum wg_back_error error;
    char data[256];
    size_t n_data;
    bool over; /* ended, failed or cancelled */
};

static struct bench *of(void *x)
{
    struct bench *bench = x;
    bench->calls_after += bench->over;
    return bench;
}

static void on_connected(void *x)
{
    struct bench *bench = of(x);
    bench->connected++;
    if (bench->on_connected)
        bench->on_connected(bench);
}

static void on_head(void *x, const struct wg_response *response)
{
    struct bench *bench = of(x);
    bench->heads++;
    bench->status = response->status;
    bench->length = response->content_length;
    if (bench->on_head)
        bench->on_head(bench);
}

static void on_data(void *x, const char *data, size_t len)
{
    struct bench *bench = of(x);
    assert_true(len < sizeof(bench->data) - bench->n_data);
    memcpy(bench->data + bench->n_data, data, len);
    bench->n_data += len;
    if (bench->on_data)
        bench->on_data(bench);
}

static void on_end(void *x, const struct wg_fields *trailers WG_UNUSED)
{
    struct bench *bench = of(x);
    bench->ends++;
    bench->over = true;
    bench->back = NULL;
}

static void on_error(void *x, enum wg_back_error error, const char *why)
{
    struct bench *bench = of(x);
    assert_true(strlen(why) > 0);
    bench->errors++;
    bench->error = error;
    bench->over = true;
    bench->back = NULL;
}

static const struct wg_back_handler handler = {
    .connected = on_connected, .head = on_head, .data = on_data, .end = on_end, .error = on_error};

static void cancel(struct bench *bench)
{
    wg_back_cancel(bench->back);
    bench->back = NULL;
    bench->over = true;
}

static void pause_back(struct bench *bench)
{
    wg_back_pause(bench->back, true);
}

static int listen_at(struct sockaddr_in *address, int backlog)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(*address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
    return fd;
}

static int set_up(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    bench->loop = wg_loop_new();
    bench->blocks = wg_pool_new(0);
    bench->pool = wg_back_pool_new(bench->loop, bench->blocks, 4);
    bench->listener = listen_at(&bench->address, 16);
    bench->server = -1;
    bench->connect_timeout = PATIENCE;
    bench->reuse = PATIENCE;
    bench->method = "GET";
    *state = bench;
    return 0;
}

static void end_server(struct bench *bench)
{
    if (bench->server >= 0)
        close(bench->server);
    bench->server = -1;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(bench->calls_after, 0);
    wg_back_cancel(bench->back);
    wg_chain_clear(&bench->body, bench->blocks);
    wg_back_pool_free(bench->pool);
    wg_loop_free(bench->loop);
    wg_pool_free(bench->blocks);
    end_server(bench);
    if (bench->listener >= 0)
        close(bench->listener);
    free(bench);
    return 0;
}

static void start(struct bench *bench)
{
    struct wg_buf head = WG_BUF_INIT(1024);
    wg_buf_addf(&head, "%s /x HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", bench->method,
                bench->body.len);
    const struct wg_back_request request = {
        .endpoint_id = 7,
        .address = (const struct sockaddr *)&bench->address,
        .address_len = sizeof(bench->address),
        .method = wg_slice_str(bench->method),
        .head = &head,
        .body = &bench->body,
        .connect_timeout = bench->connect_timeout,
        .reuse = bench->reuse,
    };
    bench->connected = bench->heads = bench->ends = bench->errors = 0;
    bench->n_data = 0;
    bench->over = false;
    bench->back = wg_back_start(bench->pool, &request, &handler, bench);
    assert_int_equal(bench->connected + bench->errors, 0); /* never from inside */
}

static bool is_over(void *arg)
{
    const struct bench *bench = arg;
    return bench->over;
}

static bool has_data(void *arg)
{
    const struct bench *bench = arg;
    return bench->n_data > 0;
}

static bool has_request(void *arg)
{
    const struct bench *bench = arg;
    struct pollfd wait = {.fd = bench->server >= 0 ? bench->server : bench->listener, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

static void until(struct bench *bench, bool (*is_true)(void *arg))
{
    assert_true(loop_until(bench->loop, is_true, bench, PATIENCE));
}

/* Takes the newest connection, if there is a new one, and reads what is there of the request. */
static void serve(struct bench *bench)
{
    char request[1024];
    if (bench->server < 0) {
        until(bench, has_request);
        bench->server = accept4(bench->listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(bench->server >= 0);
    }
    until(bench, has_request);
    assert_true(recv(bench->server, request, sizeof(request), 0) > 0);
}

static void reply(struct bench *bench, const char *text)
{
    assert_int_equal(send(bench->server, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void reset_server(struct bench *bench)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(bench->server, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    end_server(bench);
}

/* True if the other side has closed the connection. */
static bool server_ended(void *arg)
{
    const struct bench *bench = arg;
    char rest[4096];
    for (;;) {
        const ssize_t n = recv(bench->server, rest, sizeof(rest), MSG_DONTWAIT);
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
    }
}

static void expect_error(struct bench *bench, enum wg_back_error error)
{
    until(bench, is_over);
    assert_int_equal(bench->ends, 0);
    assert_int_equal(bench->errors, 1);
    assert_int_equal(bench->error, error);
}

static void expect_end(struct bench *bench, const char *data)
{
    until(bench, is_over);
    assert_int_equal(bench->errors, 0);
    assert_int_equal(bench->ends, 1);
    assert_int_equal(bench->n_data, strlen(data));
    assert_memory_equal(bench->data, data, strlen(data));
}

/* One whole request; the connection is at rest or kept after it. */
static void exchange(struct bench *bench, const char *answer, const char *data)
{
    start(bench);
    serve(bench);
    reply(bench, answer);
    expect_end(bench, data);
}

static bool has_newcomer(struct bench *bench)
{
    struct pollfd wait = {.fd = bench->listener, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* ---- whole answers, and what becomes of the connection ---- */

static void test_a_kept_connection_serves_again(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK, "hello");
    assert_int_equal(bench->status, 200);
    exchange(bench, "HTTP/1.1 100 Continue\r\n\r\n" OK,
             "hello"); /* on the same one: serve() takes no other */
    exchange(bench, "HTTP/1.1 204 No Content\r\n\r\n", "");
    bench->method = "HEAD";
    exchange(bench, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "");
    assert_int_equal(bench->length, 99);
    exchange(bench, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "");
    assert_false(has_newcomer(bench));
}

static void test_a_streamed_answer_rests_its_connection(void **state)
{
    struct bench *bench = *state;
    exchange(bench, CHUNKED "3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n", "abc");
    const int first = bench->server;
    bench->server = -1;
    exchange(bench, OK, "hello"); /* a new one: the first rests */
    end_server(bench);
    bench->server = first;
    loop_for(bench->loop, 60 * WG_USEC_PER_MSEC);
    exchange(bench, OK, "hello");
}

static void expect_no_reuse(struct bench *bench)
{
    until(bench, server_ended);
    end_server(bench);
    exchange(bench, OK, "hello");
}

static void test_what_asks_for_the_end_is_not_kept(void **state)
{
    struct bench *bench = *state;
    exchange(bench, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", "a");
    expect_no_reuse(bench);
}

static void test_bytes_behind_the_answer_end_the_connection(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK OK, "hello");
    expect_no_reuse(bench);
}

static void test_bytes_while_idle_end_the_connection(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK, "hello");
    reply(bench, "HTTP/1.1 408 Request Timeout\r\n\r\n");
    expect_no_reuse(bench);
}

static void test_not_kept_for_longer_than_reuse(void **state)
{
    struct bench *bench = *state;
    bench->reuse = 50 * WG_USEC_PER_MSEC;
    exchange(bench, OK, "hello");
    expect_no_reuse(bench);
    bench->reuse = 0;
    start(bench); /* the one that is kept is too old for this request */
    const int kept = bench->server;
    bench->server = -1;
    serve(bench);
    reply(bench, OK);
    expect_end(bench, "hello");
    until(bench, server_ended);
    close(kept);
}

static void test_forgotten_with_its_endpoint(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK, "hello");
    wg_back_pool_forget(bench->pool, 8);
    assert_false(server_ended(bench));
    wg_back_pool_forget(bench->pool, 7);
    until(bench, server_ended);
}

static void test_an_answer_until_the_close(void **state)
{
    struct bench *bench = *state;
    start(bench);
    serve(bench);
    reply(bench, "HTTP/1.1 200 OK\r\n\r\nall of it");
    until(bench, has_data);
    end_server(bench);
    expect_end(bench, "all of it");
}

/* ---- what goes wrong ---- */

static void test_refused(void **state)
{
    struct bench *bench = *state;
    close(bench->listener);
    bench->listener = -1;
    start(bench);
    expect_error(bench, WG_BACK_CONNECT);
    assert_int_equal(bench->connected, 0);
}

static void test_not_connected_in_time(void **state)
{
    struct bench *bench = *state;
    int stuffing[4];
    close(bench->listener);
    bench->listener = listen_at(&bench->address, 0); /* a full queue drops what comes */
    for (size_t i = 0; i < WG_COUNT_OF(stuffing); i++) {
        stuffing[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(stuffing[i], (struct sockaddr *)&bench->address, sizeof(bench->address));
    }
    bench->connect_timeout = 50 * WG_USEC_PER_MSEC;
    start(bench);
    expect_error(bench, WG_BACK_CONNECT);
    for (size_t i = 0; i < WG_COUNT_OF(stuffing); i++)
        close(stuffing[i]);
}

static void test_closed_before_anything_was_sent(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK, "hello");
    start(bench); /* has taken the kept connection, and writes in the next turn */
    reset_server(bench);
    expect_error(bench, WG_BACK_UNSENT);
}

static void test_closed_without_an_answer(void **state)
{
    struct bench *bench = *state;
    start(bench);
    serve(bench);
    end_server(bench);
    expect_error(bench, WG_BACK_RESET);
    start(bench);
    serve(bench);
    reply(bench, "HTTP/1.1 200 O");
    reset_server(bench);
    expect_error(bench, WG_BACK_RESET);
}

static void test_nonsense(void **state)
{
    static const char *const answers[] = {
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    };
    struct bench *bench = *state;
    for (size_t i = 0; i < WG_COUNT_OF(answers); i++) {
        start(bench);
        serve(bench);
        reply(bench, answers[i]);
        expect_error(bench, WG_BACK_BAD);
        until(bench, server_ended);
        end_server(bench);
    }
}

static void test_a_head_without_end(void **state)
{
    struct bench *bench = *state;
    char *line = wg_xcalloc(1, 80 * 1024);
    memset(line, 'a', 80 * 1024 - 1);
    start(bench);
    serve(bench);
    reply(bench, "HTTP/1.1 200 OK\r\nX: ");
    reply(bench, line);
    expect_error(bench, WG_BACK_BAD);
    free(line);
}

static void test_interim_answers_without_end(void **state)
{
    struct bench *bench = *state;
    start(bench);
    serve(bench);
    for (int i = 0; i < 17; i++)
        reply(bench, "HTTP/1.1 102 Processing\r\n\r\n");
    expect_error(bench, WG_BACK_BAD);
}

static void test_cut_answers(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        CHUNKED "5\r\nhello\r\n",
        CHUNKED "5\r\nhello\r\nzz\r\n",
    };
    struct bench *bench = *state;
    for (size_t i = 0; i < WG_COUNT_OF(answers); i++) {
        start(bench);
        serve(bench);
        reply(bench, answers[i]);
        until(bench, has_data);
        shutdown(bench->server, SHUT_WR);
        expect_error(bench, WG_BACK_BROKEN);
        assert_int_equal(bench->n_data, 5);
        end_server(bench);
    }
}

static void test_an_early_answer_to_an_upload(void **state)
{
    struct bench *bench = *state;
    char *piece = wg_xcalloc(1, 1 << 20);
    for (int i = 0; i < 16; i++)
        wg_chain_append(&bench->body, bench->blocks, piece, 1 << 20);
    free(piece);
    start(bench);
    serve(bench);
    assert_false(wg_back_sent(bench->back));
    reply(bench, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 1\r\n\r\nx");
    expect_end(bench, "x");
    assert_int_equal(bench->status, 413);
    until(bench, server_ended); /* half a request: nothing may follow it */
}

/* ---- from inside each call ---- */

static void expect_silence(struct bench *bench)
{
    until(bench, is_over);
    until(bench, server_ended);
    assert_int_equal(bench->ends + bench->errors, 0);
}

static void test_cancel_when_connected(void **state)
{
    struct bench *bench = *state;
    bench->on_connected = cancel;
    start(bench);
    until(bench, is_over);
    bench->server = accept4(bench->listener, NULL, NULL, SOCK_CLOEXEC);
    expect_silence(bench);
}

static void test_cancel_at_the_head(void **state)
{
    struct bench *bench = *state;
    bench->on_head = cancel;
    start(bench);
    serve(bench);
    reply(bench, OK);
    expect_silence(bench);
    assert_int_equal(bench->n_data, 0);
}

static void test_cancel_in_the_body(void **state)
{
    static const char *const answers[] = {OK, CHUNKED "1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
                                          "HTTP/1.1 200 OK\r\n\r\na"};
    struct bench *bench = *state;
    bench->on_data = cancel;
    for (size_t i = 0; i < WG_COUNT_OF(answers); i++) {
        start(bench);
        serve(bench);
        reply(bench, answers[i]);
        expect_silence(bench);
        end_server(bench);
    }
}

static void test_cancel_before_the_start(void **state)
{
    struct bench *bench = *state;
    exchange(bench, OK, "hello");
    start(bench);
    cancel(bench);
    expect_silence(bench);
    assert_int_equal(bench->connected, 0);
}

/* ---- back-pressure ---- */

static void test_a_paused_answer_waits_and_is_whole(void **state)
{
    struct bench *bench = *state;
    bench->on_data = pause_back;
    start(bench);
    serve(bench);
    reply(bench, CHUNKED "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    until(bench, has_data);
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(bench->n_data, 1);
    wg_back_pause(bench->back, false);
    assert_int_equal(bench->n_data, 1); /* never from inside */
    bench->on_data = NULL;
    expect_end(bench, "ab");
}

static void test_an_end_behind_a_pause(void **state)
{
    struct bench *bench = *state;
    bench->on_data = pause_back;
    start(bench);
    serve(bench);
    reply(bench, "HTTP/1.1 200 OK\r\n\r\na");
    until(bench, has_data);
    reply(bench, "b");
    end_server(bench);
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    assert_false(bench->over);
    bench->on_data = NULL;
    wg_back_pause(bench->back, false);
    expect_end(bench, "ab");
}

#define BACK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BACK_TEST(test_a_kept_connection_serves_again),
        BACK_TEST(test_a_streamed_answer_rests_its_connection),
        BACK_TEST(test_what_asks_for_the_end_is_not_kept),
        BACK_TEST(test_bytes_behind_the_answer_end_the_connection),
        BACK_TEST(test_bytes_while_idle_end_the_connection),
        BACK_TEST(test_not_kept_for_longer_than_reuse),
        BACK_TEST(test_forgotten_with_its_endpoint),
        BACK_TEST(test_an_answer_until_the_close),
        BACK_TEST(test_refused),
        BACK_TEST(test_not_connected_in_time),
        BACK_TEST(test_closed_before_anything_was_sent),
        BACK_TEST(test_closed_without_an_answer),
        BACK_TEST(test_nonsense),
        BACK_TEST(test_a_head_without_end),
        BACK_TEST(test_interim_answers_without_end),
        BACK_TEST(test_cut_answers),
        BACK_TEST(test_an_early_answer_to_an_upload),
        BACK_TEST(test_cancel_when_connected),
        BACK_TEST(test_cancel_at_the_head),
        BACK_TEST(test_cancel_in_the_body),
        BACK_TEST(test_cancel_before_the_start),
        BACK_TEST(test_a_paused_answer_waits_and_is_whole),
        BACK_TEST(test_an_end_behind_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
