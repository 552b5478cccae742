/* The front from inside: handlers that answer, abort or close in each call, back-pressure both ways, what a
 * client that does not read can make us hold, and how a connection ends. */
#include "front_bench.h"

#define GET          "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST5        "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
#define POST_CHUNKED "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    while ((text = strstr(text, what)) != NULL) {
        n++;
        text += strlen(what);
    }
    return n;
}

static void close_hard(struct bench *bench)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(bench->client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(bench->client);
    bench->client = -1;
}

static bool is_gone(void *arg)
{
    const struct bench *bench = arg;
    return bench->gone > 0;
}

static bool is_closed(void *arg)
{
    const struct bench *bench = arg;
    return bench->closed > 0;
}

static bool has_head(void *arg)
{
    const struct bench *bench = arg;
    return bench->heads > 0;
}

/* ---- one after the other ---- */

static void test_requests_share_a_connection(void **state)
{
    struct bench *bench = *state;
    bench_send(bench, POST5 "hello");
    bench_expect(bench, "whole");
    bench_forget(bench);
    bench_send(bench, GET GET);
    bench_expect(bench, "wholeHTTP/1.1 200");
    bench_expect(bench, "whole");
    assert_int_equal(bench->heads, 3);
    assert_int_equal(bench->ends, 3);
    assert_int_equal(bench->body_len, 5);
    assert_int_equal(bench->gone, 0);
    assert_true(wg_front_idle(bench->front));
}

static void test_100_comes_though_the_head_came_in_pieces(void **state)
{
    struct bench *bench = *state;
    bench_send(bench, "POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-con");
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    bench_send(bench, "tinue\r\nContent-Length: 5\r\n\r\n");
    bench_expect(bench, "HTTP/1.1 100 Continue\r\n\r\n");
    bench_send(bench, "hello");
    bench_expect(bench, "whole");
}

static void answer_head_only(struct bench *bench)
{
    const struct wg_response response = {.status = 200, .body = WG_BODY_NONE, .content_length = 1234};
    bench->stream->ops->head(bench->stream, &response);
}

static void test_head_tells_the_length(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = answer_head_only;
    bench_send(bench, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_expect(bench, "\r\n\r\n");
    assert_non_null(strstr(bench->got, "Content-Length: 1234\r\n"));
    bench->on_body_end = bench_ok; /* data for a HEAD goes nowhere */
    bench_forget(bench);
    bench_send(bench, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" GET);
    bench_expect(bench, "whole");
    assert_int_equal(count(bench->got, "Content-Length: 5\r\n"), 2);
    assert_int_equal(count(bench->got, "whole"), 1);
}

static void answer_no_content(struct bench *bench)
{
    const struct wg_response response = {.status = 204, .body = WG_BODY_NONE};
    bench->stream->ops->head(bench->stream, &response);
}

static void test_no_content_has_no_framing(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = answer_no_content;
    bench_send(bench, GET);
    bench_expect(bench, "\r\n\r\n");
    assert_null(strstr(bench->got, "Content-Length"));
    assert_null(strstr(bench->got, "Transfer-Encoding"));
    assert_true(wg_front_idle(bench->front));
}

/* ---- answers that are broken off ---- */

static void begin_and_abort(struct bench *bench)
{
    bench_begin(bench, "cut");
    bench->stream->ops->abort(bench->stream);
}

static void test_a_cut_answer_has_no_last_chunk(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = begin_and_abort;
    bench_send(bench, GET);
    assert_int_equal(bench_end(bench), 0);
    assert_non_null(strstr(bench->got, "3\r\ncut\r\n"));
    assert_null(strstr(bench->got, "0\r\n\r\n"));
    assert_int_equal(bench->gone, 0);
}

static void test_a_cut_answer_to_http_1_0_is_a_reset(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = begin_and_abort;
    bench_send(bench, "GET /a HTTP/1.0\r\n\r\n");
    assert_int_equal(bench_end(bench), ECONNRESET);
}

static void just_abort(struct bench *bench)
{
    bench->stream->ops->abort(bench->stream);
}

static void test_an_abort_before_the_answer_is_a_reset(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = just_abort;
    bench_send(bench, GET);
    assert_int_equal(bench_end(bench), ECONNRESET);
    assert_int_equal(bench->gone, 0);
}

/* ---- from inside each call ---- */

static void test_answer_in_head_with_the_body_unread(void **state)
{
    struct bench *bench = *state;
    bench->on_head = bench_ok;
    bench_send(bench, POST5);
    bench_expect(bench, "whole");
    assert_non_null(strstr(bench->got, "Connection: close\r\n"));
    bench_send(bench, "hello"); /* read and thrown away: no reset takes the answer back */
    assert_int_equal(bench_end(bench), 0);
    assert_int_equal(bench->body_len, 0);
    assert_int_equal(bench->gone, 0);
}

static void test_answer_in_body(void **state)
{
    struct bench *bench = *state;
    bench->on_body = bench_ok;
    bench_send(bench, POST_CHUNKED "1\r\na\r\n1\r\nb\r\n");
    bench_expect(bench, "whole");
    assert_int_equal(bench_end(bench), 0);
    assert_int_equal(bench->body_len, 1);
    assert_int_equal(bench->ends, 0);
}

static void test_abort_in_head(void **state)
{
    struct bench *bench = *state;
    bench->on_head = just_abort;
    bench_send(bench, POST5 "hello");
    assert_int_equal(bench_end(bench), ECONNRESET);
    assert_int_equal(bench->body_len, 0);
}

static void test_abort_in_body(void **state)
{
    struct bench *bench = *state;
    bench->on_body = begin_and_abort;
    bench_send(bench, POST_CHUNKED "1\r\na\r\n1\r\nb\r\n");
    bench_end(bench);
    assert_int_equal(bench->body_len, 1);
    assert_int_equal(bench->gone, 0);
}

static void close_front(struct bench *bench)
{
    wg_front_close(bench->front, true);
}

static void expect_gone_once(struct bench *bench)
{
    assert_int_equal(bench_end(bench), ECONNRESET);
    assert_int_equal(bench->gone, 1);
    assert_int_equal(bench->closed, 1);
}

static void test_close_in_head(void **state)
{
    struct bench *bench = *state;
    bench->on_head = close_front;
    bench_send(bench, POST5 "hello");
    expect_gone_once(bench);
}

static void test_close_in_body(void **state)
{
    struct bench *bench = *state;
    bench->on_body = close_front;
    bench_send(bench, POST_CHUNKED "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    expect_gone_once(bench);
    assert_int_equal(bench->body_len, 1);
    assert_int_equal(bench->ends, 0);
}

static void test_close_at_the_end_of_the_body(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = close_front;
    bench_send(bench, POST5 "hello" GET);
    expect_gone_once(bench);
    assert_int_equal(bench->heads, 1);
}

/* ---- bodies ---- */

static void want_paused(struct bench *bench)
{
    bench_want(bench);
    bench->stream->ops->pause_body(bench->stream, true);
}

static void test_a_paused_body_waits(void **state)
{
    struct bench *bench = *state;
    bench->on_head = want_paused;
    bench->limits.body_idle_timeout = 100 * WG_USEC_PER_MSEC;
    bench_send(bench, POST5 "hel");
    loop_for(bench->loop, 150 * WG_USEC_PER_MSEC);
    bench_send(bench, "lo");
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(bench->body_len, 0);
    assert_int_equal(bench->stalled, 0); /* it is we who do not read */
    bench->stream->ops->pause_body(bench->stream, false);
    bench_expect(bench, "whole");
    assert_int_equal(bench->body_len, 5);
}

static void test_a_stalled_body(void **state)
{
    struct bench *bench = *state;
    bench->limits.body_idle_timeout = 50 * WG_USEC_PER_MSEC;
    bench_send(bench, POST5 "hel");
    bench_expect(bench, "slow body");
    assert_int_equal(bench_end(bench), 0);
    assert_int_equal(bench->stalled, 1);
}

static void test_a_bad_chunk(void **state)
{
    struct bench *bench = *state;
    bench_send(bench, POST_CHUNKED "1\r\na\r\nxyz\r\n" GET);
    bench_expect(bench, "bad body");
    assert_int_equal(bench_end(bench), 0);
    assert_int_equal(bench->heads, 1);
    assert_int_equal(bench->failed, 1);
}

static void test_a_slow_head(void **state)
{
    struct bench *bench = *state;
    bench->limits.header_timeout = 50 * WG_USEC_PER_MSEC;
    bench_send(bench, "GET /a HT");
    bench_expect(bench, "HTTP/1.1 408 ");
    assert_int_equal(bench_end(bench), 0);
}

/* ---- a client that does not read, or leaves ---- */

static void answer_much(struct bench *bench)
{
    static char much[600 * 1024];
    memset(much, 'm', sizeof(much) - 1);
    bench_begin(bench, much);
}

static void test_drained_is_told_once_below_the_mark(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = answer_much;
    bench_send(bench, GET);
    loop_for(bench->loop, 50 * WG_USEC_PER_MSEC);
    assert_true(bench->stream->ops->pending(bench->stream) > WG_PENDING_HIGH);
    assert_int_equal(bench->drained, 0);
    struct bench_wish wish = {bench, "mm\r\n"};
    assert_true(loop_until(bench->loop, bench_has, &wish, BENCH_PATIENCE));
    assert_int_equal(bench->drained, 1);
    assert_int_equal(bench->stream->ops->pending(bench->stream), 0);
    bench->stream->ops->end(bench->stream, NULL);
    bench_expect(bench, "\r\n0\r\n\r\n");
}

static void test_a_client_that_never_reads_is_gone(void **state)
{
    struct bench *bench = *state;
    bench->limits.write_idle_timeout = 50 * WG_USEC_PER_MSEC;
    bench->on_body_end = answer_much;
    bench_send(bench, GET);
    assert_true(bench_until(bench, is_gone));
    assert_int_equal(bench->closed, 1);
}

static void answer_some(struct bench *bench)
{
    static char some[32 * 1024];
    memset(some, 's', sizeof(some) - 1);
    bench_answer(bench, 200, some);
}

/* Each answer is whole at once, so that only the client's reading can hold back the next request. */
static void test_pipelined_answers_that_nobody_reads_are_bounded(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = answer_some;
    for (int i = 0; i < 200; i++)
        bench_send(bench, GET);
    loop_for(bench->loop, 200 * WG_USEC_PER_MSEC);
    assert_true(wg_pool_used(bench->pool) < 4 * WG_PENDING_HIGH);
    assert_true(bench->heads < 100);
    bench->on_body_end = bench_ok;
    struct bench_wish wish = {bench, "whole"};
    assert_true(loop_until(bench->loop, bench_has, &wish, BENCH_PATIENCE));
    while (bench->heads < 200)
        loop_for(bench->loop, 10 * WG_USEC_PER_MSEC), bench_receive(bench);
    assert_int_equal(bench->gone, 0);
}

static void test_half_closed_is_gone(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = NULL;
    bench_send(bench, GET);
    assert_true(bench_until(bench, has_head));
    shutdown(bench->client, SHUT_WR);
    assert_true(bench_until(bench, is_gone));
    assert_int_equal(bench->closed, 1);
}

static void test_reset_behind_pipelined_bytes_is_gone(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = NULL;
    bench_send(bench, GET GET);
    assert_true(bench_until(bench, has_head));
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    close_hard(bench);
    assert_true(bench_until(bench, is_gone));
    assert_int_equal(bench->heads, 1);
}

/* ---- draining ---- */

static void test_drain_closes_an_idle_connection(void **state)
{
    struct bench *bench = *state;
    wg_front_drain(bench->front);
    assert_int_equal(bench->closed, 1);
    assert_int_equal(bench_end(bench), 0);
}

static void test_drain_lets_a_request_end(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = NULL;
    bench_send(bench, GET);
    assert_true(bench_until(bench, has_head));
    wg_front_drain(bench->front);
    bench_ok(bench);
    bench_expect(bench, "Connection: close\r\n");
    assert_int_equal(bench_end(bench), 0);
    assert_non_null(strstr(bench->got, "whole"));
}

static void begin_whole(struct bench *bench)
{
    bench_begin(bench, "begun");
}

/* Its head went out without "close": the connection ends behind it all the same. */
static void test_drain_ends_the_connection_behind_a_stream(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = begin_whole;
    bench_send(bench, GET);
    bench_expect(bench, "begun");
    wg_front_drain(bench->front);
    bench->stream->ops->end(bench->stream, NULL);
    bench_expect(bench, "0\r\n\r\n");
    assert_int_equal(bench_end(bench), 0);
}

static void answer_much_whole(struct bench *bench)
{
    static char much[600 * 1024];
    memset(much, 'm', sizeof(much) - 1);
    bench_answer(bench, 200, much);
}

static void test_drain_delivers_what_is_on_its_way(void **state)
{
    struct bench *bench = *state;
    bench->on_body_end = answer_much_whole;
    bench_send(bench, GET);
    loop_for(bench->loop, 50 * WG_USEC_PER_MSEC);
    assert_true(wg_front_idle(bench->front)); /* the answer is complete, and the client has not read it */
    wg_front_drain(bench->front);
    assert_int_equal(bench_end(bench), 0);
    assert_true(bench->n_got > 600 * 1024);
    shutdown(bench->client, SHUT_WR);
    assert_true(bench_until(bench, is_closed));
}

#define FRONT_TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRONT_TEST(test_requests_share_a_connection),
        FRONT_TEST(test_100_comes_though_the_head_came_in_pieces),
        FRONT_TEST(test_head_tells_the_length),
        FRONT_TEST(test_no_content_has_no_framing),
        FRONT_TEST(test_a_cut_answer_has_no_last_chunk),
        FRONT_TEST(test_a_cut_answer_to_http_1_0_is_a_reset),
        FRONT_TEST(test_an_abort_before_the_answer_is_a_reset),
        FRONT_TEST(test_answer_in_head_with_the_body_unread),
        FRONT_TEST(test_answer_in_body),
        FRONT_TEST(test_abort_in_head),
        FRONT_TEST(test_abort_in_body),
        FRONT_TEST(test_close_in_head),
        FRONT_TEST(test_close_in_body),
        FRONT_TEST(test_close_at_the_end_of_the_body),
        FRONT_TEST(test_a_paused_body_waits),
        FRONT_TEST(test_a_stalled_body),
        FRONT_TEST(test_a_bad_chunk),
        FRONT_TEST(test_a_slow_head),
        FRONT_TEST(test_drained_is_told_once_below_the_mark),
        FRONT_TEST(test_a_client_that_never_reads_is_gone),
        FRONT_TEST(test_pipelined_answers_that_nobody_reads_are_bounded),
        FRONT_TEST(test_half_closed_is_gone),
        FRONT_TEST(test_reset_behind_pipelined_bytes_is_gone),
        FRONT_TEST(test_drain_closes_an_idle_connection),
        FRONT_TEST(test_drain_lets_a_request_end),
        FRONT_TEST(test_drain_ends_the_connection_behind_a_stream),
        FRONT_TEST(test_drain_delivers_what_is_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
