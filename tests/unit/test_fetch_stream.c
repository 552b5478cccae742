/* Answers that are taken as they come, silence in them, and what the fields of an answer and a request say.
 */
#include "unit.h"

#include "fetch_bench.h"
#include "loop_until.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void wait_msec(unsigned msec)
{
    usleep(msec * 1000);
}

/* Eleven pieces, the last 550 ms after the first. */
static bool drip(int fd)
{
    bool sent = scripted_send(fd, HEAD);
    for (int i = 0; sent && i < 11; i++) {
        sent = scripted_send(fd, "4\r\ndrip\r\n");
        wait_msec(50);
    }
    return sent && scripted_send(fd, "0\r\n\r\n");
}

static bool answer(int fd, const char *request, struct scripted_seen *seen)
{
    const char *path = strchr(request, ' ') + 1;
    if (strncmp(path, "/drip ", 6) == 0)
        return drip(fd);
    if (strncmp(path, "/ok ", 4) == 0)
        return scripted_reply(fd, "200 OK", "0123456789012345678901234567890123456789");
    if (strncmp(path, "/none ", 6) == 0)
        return scripted_reply(fd, "200 OK", "");
    if (strncmp(path, "/gone ", 6) == 0)
        return scripted_reply(fd, "410 Gone", "too old");
    if (strncmp(path, "/large ", 7) == 0)
        return scripted_reply(fd, "500 Oops", "0123456789012345678901234567890123456789");
    if (strncmp(path, "/busy/", 6) == 0) { /* "/busy/7": Retry-After: 7 */
        char text[256];
        snprintf(text, sizeof(text), "HTTP/1.1 429 Busy\r\nRetry-After: %.*s\r\nContent-Length: 0\r\n\r\n",
                 (int)strcspn(path + 6, " "), path + 6);
        return scripted_send(fd, text);
    }
    if (strncmp(path, "/start ", 7) == 0) { /* and nothing more */
        scripted_send(fd, HEAD "5\r\nfirst\r\n");
    }
    if (strncmp(path, "/break ", 7) == 0) {
        scripted_send(fd, HEAD "5\r\nfirst\r\n");
        return false;
    }
    scripted_wait_close(fd); /* "/hang" too */
    atomic_store(&seen->script, 1);
    return false;
}

static int set_up(void **state)
{
    return fetch_bench_set_up(state, scripted_start(answer));
}

/* A call whose answer is taken as it comes. */
struct stream {
    struct kept kept; /* first: the receiver of the end */
    int pieces;
    int stop_at; /* the piece after which no more is wanted */
    struct wg_buf got;
    struct wg_fetch_call *victim;
    struct kept *other; /* where a call goes that is started from inside */
};

static bool take(void *arg, struct wg_slice data)
{
    struct stream *stream = arg;
    assert_true(data.len > 0);
    assert_int_equal(stream->kept.times, 0);
    assert_int_equal(wg_buf_add_slice(&stream->got, data), 0);
    wg_fetch_cancel(stream->victim);
    stream->victim = NULL;
    if (stream->other && ++stream->pieces == 1) {
        char url[128];
        struct wg_fetch_request request = request_of(stream->kept.f, stream->other, "GET", url, "/none");
        assert_non_null(wg_fetch_start(stream->kept.f->fetch, &request));
        return true;
    }
    return stream->stop_at == 0 || ++stream->pieces < stream->stop_at;
}

static struct wg_fetch_request stream_of(struct fixture *f, struct stream *stream, char *url,
                                         const char *path)
{
    *stream = (struct stream){.kept.stop = true, .got = WG_BUF_INIT(1 << 20)};
    struct wg_fetch_request request = request_of(f, &stream->kept, "GET", url, path);
    request.timeout = WG_USEC_NEVER;
    request.data = take;
    return request;
}

static void run_stream(struct fixture *f, const struct wg_fetch_request *request, struct stream *stream)
{
    assert_non_null(wg_fetch_start(f->fetch, request));
    wg_loop_run(f->loop);
    assert_int_equal(stream->kept.times, 1);
}

static void test_pieces_as_they_come(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct wg_fetch_request request = stream_of(f, &stream, url, "/drip");
    request.idle_timeout = 500 * WG_USEC_PER_MSEC; /* less than all of it takes */
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_DONE);
    assert_int_equal(stream.kept.answer.status, 200);
    assert_int_equal(stream.kept.answer.body.len, 0);
    assert_int_equal(stream.got.len, 44); /* max_answer is no limit here */
    assert_true(stream.kept.answer.took > 500 * WG_USEC_PER_MSEC);
    wg_buf_clear(&stream.got);
}

static void test_nothing_comes(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct wg_fetch_request request = stream_of(f, &stream, url, "/none");
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_DONE);
    assert_int_equal(stream.got.len, 0);
}

static void test_refusals_are_kept(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct wg_fetch_request request = stream_of(f, &stream, url, "/gone");
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.status, 410);
    assert_string_equal(stream.kept.body, "too old");
    assert_int_equal(stream.got.len, 0);
    request = stream_of(f, &stream, url, "/large");
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_TOO_LARGE);
    assert_int_equal(stream.got.len, 0);
}

static bool has_closed(void *arg)
{
    struct fixture *f = arg;
    return atomic_load(&f->server.seen->script) == 1;
}

static void test_no_more_is_wanted(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct wg_fetch_request request = stream_of(f, &stream, url, "/start");
    stream.stop_at = 1;
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_BROKEN);
    assert_int_equal(stream.kept.answer.status, 0);
    assert_string_equal(stream.kept.error, "the rest of the answer is not wanted");
    assert_true(loop_until(f->loop, has_closed, f, 5 * WG_USEC_PER_SEC));
    wg_buf_clear(&stream.got);
    request = stream_of(f, &stream, url, "/ok"); /* all of it had come */
    stream.stop_at = 1;
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_BROKEN);
    wg_buf_clear(&stream.got);
}

static void test_broken_behind_a_piece(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct wg_fetch_request request = stream_of(f, &stream, url, "/break");
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_BROKEN);
    assert_string_equal(wg_buf_str(&stream.got), "first");
    wg_buf_clear(&stream.got);
}

static void test_silence(void **state)
{
    struct fixture *f = *state;
    static const char *const paths[] = {"/start", "/hang"};
    for (size_t i = 0; i < WG_COUNT_OF(paths); i++) {
        char url[128];
        struct stream stream;
        struct wg_fetch_request request = stream_of(f, &stream, url, paths[i]);
        request.idle_timeout = 150 * WG_USEC_PER_MSEC;
        run_stream(f, &request, &stream);
        assert_int_equal(stream.kept.answer.result, WG_FETCH_TIMEOUT);
        assert_string_equal(stream.kept.error, "nothing was sent for too long");
        assert_true(stream.kept.answer.took >= 150 * WG_USEC_PER_MSEC);
        assert_true(stream.kept.answer.connected >= 0);
        assert_int_equal(stream.got.len, i == 0 ? 5 : 0);
        wg_buf_clear(&stream.got);
    }
}

/* Another call is cancelled and a third started from inside data(). */
static void test_other_calls_from_inside(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept victim = {0}, other = {0};
    struct stream stream;
    struct wg_fetch_request request = request_of(f, &victim, "GET", url, "/hang");
    struct wg_fetch_call *call = wg_fetch_start(f->fetch, &request);
    request = stream_of(f, &stream, url, "/drip");
    stream.victim = call;
    stream.other = &other;
    run_stream(f, &request, &stream);
    assert_int_equal(stream.kept.answer.result, WG_FETCH_DONE);
    assert_int_equal(victim.times, 0);
    assert_int_equal(other.times, 1);
    assert_int_equal(other.answer.status, 200);
    wg_buf_clear(&stream.got);
}

static void test_freed_while_streaming(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct stream stream;
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = stream_of(f, &stream, url, "/start");
    request.idle_timeout = 10 * WG_USEC_PER_SEC;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    request = request_of(f, &kept, "GET", url, "/none");
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    f->fetch = wg_fetch_free(f->fetch);
    assert_int_equal(stream.kept.times, 0);
    wg_buf_clear(&stream.got);
}

static void test_retry_after(void **state)
{
    static const struct {
        const char *path;
        wg_usec expected;
    } rows[] = {
        {"/busy/7", 7 * WG_USEC_PER_SEC},
        {"/busy/soon", 0},
        {"/busy/-5", 0},
        {"/busy/9223372036854775807", 24 * 3600 * WG_USEC_PER_SEC},
        {"/none", 0},
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++)
        assert_int_equal(run(*state, rows[i].path, 5 * WG_USEC_PER_SEC).answer.retry_after, rows[i].expected);
}

static void test_content_type(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "PATCH", url, "/none");
    request.body = WG_SLICE("{}");
    request.content_type = "application/merge-patch+json";
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    const char *seen = f->server.seen->last;
    assert_ptr_equal(strstr(seen, "PATCH /none HTTP/1.1\r\n"), seen);
    assert_non_null(strstr(seen, "\r\nContent-Type: application/merge-patch+json\r\n"));
    assert_non_null(strstr(seen, "\r\nContent-Length: 2\r\n"));
    request.content_type = "a\r\nX-Injected: b";
    assert_null(wg_fetch_start(f->fetch, &request));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fetch_bench_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_pieces_as_they_come),
        TEST(test_nothing_comes),
        TEST(test_refusals_are_kept),
        TEST(test_no_more_is_wanted),
        TEST(test_broken_behind_a_piece),
        TEST(test_silence),
        TEST(test_other_calls_from_inside),
        TEST(test_freed_while_streaming),
        TEST(test_retry_after),
        TEST(test_content_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
