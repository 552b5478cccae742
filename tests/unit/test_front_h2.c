/* The HTTP/2 front from inside, against a client session of nghttp2 on a real socket: handlers that answer,
 * abort, wait or close in each call, windows that stay shut, floods, and how a connection ends. */
#include "front_bench.h"

#include <nghttp2/nghttp2.h>
#include <sys/resource.h>

#define STREAMS 64
#define WINDOW  65535 /* of a stream, unless the client says another */

struct seen {
    int status, closed; /* closed: 1 + error code */
    size_t body;
    bool ended, trailers;
};

struct client {
    struct bench *bench;
    nghttp2_session *session;
    struct seen seen[2 * STREAMS];
    uint32_t goaway_error;
    int32_t goaway_last;
    unsigned goaways, answers;
    size_t upload; /* bytes that a request's body still has */
    size_t used;   /* of bench->got */
    bool no_credit;
    int32_t wanted; /* the stream that a condition is about */
};

static struct seen *seen_of(struct client *client, int32_t id)
{
    return &client->seen[id % (2 * STREAMS)];
}

static int on_header(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len WG_UNUSED,
                     uint8_t flags WG_UNUSED, void *arg)
{
    struct seen *seen = seen_of(arg, frame->hd.stream_id);
    if (name_len == 7 && memcmp(name, ":status", 7) == 0)
        seen->status = atoi((const char *)value);
    else if (seen->body > 0 || frame->headers.cat == NGHTTP2_HCAT_HEADERS)
        seen->trailers = true;
    return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags WG_UNUSED, int32_t id,
                    const uint8_t *data WG_UNUSED, size_t len, void *arg)
{
    struct client *client = arg;
    seen_of(client, id)->body += len;
    if (!client->no_credit)
        nghttp2_session_consume(session, id, len);
    return 0;
}

static int on_frame(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame, void *arg)
{
    struct client *client = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->goaways++;
        client->goaway_error = frame->goaway.error_code;
        client->goaway_last = frame->goaway.last_stream_id;
    }
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        seen_of(client, frame->hd.stream_id)->ended = true;
    client->answers += frame->hd.type == NGHTTP2_HEADERS;
    return 0;
}

static int on_close(nghttp2_session *session WG_UNUSED, int32_t id, uint32_t error, void *arg)
{
    seen_of(arg, id)->closed = 1 + (int)error;
    return 0;
}

static ssize_t on_upload(nghttp2_session *session WG_UNUSED, int32_t id WG_UNUSED, uint8_t *buf, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *arg WG_UNUSED)
{
    struct client *client = source->ptr;
    const size_t n = WG_MIN(len, client->upload);
    memset(buf, 'u', n);
    client->upload -= n;
    if (client->upload == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int set_up(void **state)
{
    struct client *client = WG_NEW(struct client);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    void *bench;
    bench_set_up(&bench);
    client->bench = bench;
    client->bench->limits.max_streams = 32;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, 2000);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new2(&client->session, callbacks, client, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0);
    *state = client;
    return 0;
}

static int tear_down(void **state)
{
    struct client *client = *state;
    void *bench = client->bench;
    nghttp2_session_del(client->session);
    free(client);
    return bench_tear_down(&bench);
}

#define NV(name_, value_)                                                                                    \
    {                                                                                                        \
        (uint8_t *)(uintptr_t)(name_), (uint8_t *)(uintptr_t)(value_), strlen(name_), strlen(value_), 0      \
    }

static int32_t request(struct client *client, const char *method, size_t upload)
{
    const nghttp2_nv nv[] = {NV(":method", method), NV(":scheme", "http"), NV(":path", "/a"),
                             NV(":authority", "x")};
    const nghttp2_data_provider provider = {.source.ptr = client, .read_callback = on_upload};
    client->upload = upload;
    return nghttp2_submit_request(client->session, NULL, nv, 4, upload > 0 ? &provider : NULL, NULL);
}

static void push(struct client *client)
{
    const uint8_t *data;
    ssize_t n;
    while (client->bench->client >= 0 && (n = nghttp2_session_mem_send(client->session, &data)) > 0)
        send(client->bench->client, data, (size_t)n, MSG_NOSIGNAL);
}

static void pump(struct client *client)
{
    bench_receive(client->bench);
    if (client->bench->n_got > client->used) {
        const ssize_t n =
            nghttp2_session_mem_recv(client->session, (uint8_t *)client->bench->got + client->used,
                                     client->bench->n_got - client->used);
        assert_true(n >= 0);
        client->used = client->bench->n_got;
    }
    push(client);
}

static bool is_closed(void *arg)
{
    struct client *client = arg;
    pump(client);
    return seen_of(client, client->wanted)->closed != 0;
}

/* The error code with which the stream came to its end. */
static int end_of(struct client *client, int32_t id)
{
    client->wanted = id;
    if (!loop_until(client->bench->loop, is_closed, client, BENCH_PATIENCE))
        fail_msg("stream %d does not end", (int)id);
    return seen_of(client, id)->closed - 1;
}

static bool has_body(void *arg)
{
    struct client *client = arg;
    pump(client);
    return seen_of(client, client->wanted)->body > 0;
}

static bool has_ended(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->ended;
}

static bool is_gone(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->gone > 0;
}

static bool has_head(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->heads > 0;
}

static bool has_two_goaways(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->goaways == 2;
}

static bool until(struct client *client, bool (*is_true)(void *arg))
{
    return loop_until(client->bench->loop, is_true, client, BENCH_PATIENCE);
}

/* ---- requests and answers ---- */

static void test_requests_share_a_connection(void **state)
{
    struct client *client = *state;
    const int32_t get = request(client, "GET", 0), post = request(client, "POST", 5);
    assert_int_equal(end_of(client, get), 0);
    assert_int_equal(end_of(client, post), 0);
    assert_int_equal(seen_of(client, post)->status, 200);
    assert_int_equal(seen_of(client, post)->body, 5);
    assert_int_equal(client->bench->body_len, 5);
    assert_int_equal(client->bench->gone, 0);
    assert_true(wg_front_idle(client->bench->front));
}

static void test_a_head_has_no_body(void **state)
{
    struct client *client = *state;
    const int32_t id = request(client, "HEAD", 0);
    assert_int_equal(end_of(client, id), 0);
    assert_int_equal(seen_of(client, id)->status, 200);
    assert_int_equal(seen_of(client, id)->body, 0);
}

/* Here it is answered with 431. */
static void test_a_refused_head_has_no_body_either(void **state)
{
    struct client *client = *state;
    char path[9000];
    snprintf(path, sizeof(path), "/%0*d", (int)sizeof(path) - 2, 0);
    const nghttp2_nv nv[] = {NV(":method", "HEAD"), NV(":scheme", "http"), NV(":path", path),
                             NV(":authority", "x")};
    const int32_t id = nghttp2_submit_request(client->session, NULL, nv, 4, NULL, NULL);
    assert_int_equal(end_of(client, id), 0);
    assert_int_equal(seen_of(client, id)->status, 431);
    assert_int_equal(seen_of(client, id)->body, 0);
}

static void do_nothing(struct bench *bench WG_UNUSED)
{
}

/* A body that nobody asked for yet is kept, a window of it, and handed up when it is wanted. */
static void test_a_body_waits_until_it_is_wanted(void **state)
{
    struct client *client = *state;
    client->bench->on_head = do_nothing;
    const int32_t id = request(client, "POST", 200000);
    assert_true(until(client, has_head));
    for (unsigned i = 0; i < 20; i++) {
        pump(client);
        loop_for(client->bench->loop, WG_USEC_PER_MSEC);
    }
    assert_int_equal(client->bench->body_len, 0);
    client->bench->stream->ops->want_body(client->bench->stream);
    assert_int_equal(end_of(client, id), 0);
    assert_int_equal(client->bench->body_len, 200000);
    assert_int_equal(client->bench->ends, 1);
}

static void pause_it(struct bench *bench)
{
    bench->stream->ops->pause_body(bench->stream, true);
    bench->on_body = NULL;
}

static bool has_some(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->body_len > 0;
}

static void test_a_paused_body_goes_on(void **state)
{
    struct client *client = *state;
    client->bench->on_body = pause_it;
    const int32_t id = request(client, "POST", 200000);
    assert_true(until(client, has_some));
    for (unsigned i = 0; i < 20; i++) {
        pump(client);
        loop_for(client->bench->loop, WG_USEC_PER_MSEC);
    }
    assert_true(client->bench->body_len < 100000);
    client->bench->stream->ops->pause_body(client->bench->stream, false);
    assert_int_equal(end_of(client, id), 0);
    assert_int_equal(client->bench->body_len, 200000);
}

static void refuse(struct bench *bench)
{
    bench_answer(bench, 401, "no");
}

/* The answer first, then what was under way for a moment, then a reset that is no error. */
static void test_an_early_answer_leaves_the_connection_good(void **state)
{
    struct client *client = *state;
    client->bench->on_head = refuse;
    const int32_t id = request(client, "POST", 50 << 20);
    assert_int_equal(end_of(client, id), NGHTTP2_NO_ERROR);
    assert_int_equal(seen_of(client, id)->status, 401);
    assert_true(seen_of(client, id)->ended);
    assert_int_equal(client->bench->body_len, 0);
    client->bench->on_head = bench_want;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
}

static void begin(struct bench *bench)
{
    bench_begin(bench, "part");
}

static void begin_and_break(struct bench *bench)
{
    bench_begin(bench, "part");
    bench->stream->ops->abort(bench->stream);
}

static void break_off(struct bench *bench)
{
    bench->stream->ops->abort(bench->stream);
}

static void test_a_broken_answer_is_delivered_and_reset(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = begin_and_break;
    int32_t id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(seen_of(client, id)->body, 4);
    assert_false(seen_of(client, id)->ended);
    client->bench->on_body_end = break_off; /* before any head */
    id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(seen_of(client, id)->status, 0);
}

static void end_with_trailers(struct bench *bench)
{
    struct wg_fields trailers = {.n = 0};
    assert_int_equal(wg_fields_add(&trailers, WG_SLICE("X-Sum"), WG_SLICE("1")), 0);
    bench_begin(bench, "part");
    bench->stream->ops->end(bench->stream, &trailers);
}

static void test_trailers_follow_the_body(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = end_with_trailers;
    const int32_t id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), 0);
    assert_true(seen_of(client, id)->trailers);
    assert_int_equal(seen_of(client, id)->body, 4);
}

static void answer_with_a_large_head(struct bench *bench)
{
    static char value[60000];
    struct wg_response response = {.status = 200, .body = WG_BODY_LENGTH, .content_length = 4};
    memset(value, 'v', sizeof(value));
    assert_int_equal(wg_fields_add(&response.fields, WG_SLICE("x-large"), wg_slice(value, sizeof(value))), 0);
    bench->stream->ops->head(bench->stream, &response);
    bench->stream->ops->data(bench->stream, "part", 4);
    bench->stream->ops->end(bench->stream, NULL);
}

/* Heads of answers may be larger than those of requests. */
static void test_an_answer_may_have_a_large_head(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = answer_with_a_large_head;
    const int32_t id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), 0);
    assert_int_equal(seen_of(client, id)->status, 200);
    assert_int_equal(seen_of(client, id)->body, 4);
}

/* ---- clients that leave, stall, or do not read ---- */

static void test_a_reset_is_told_at_once(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = do_nothing;
    const int32_t id = request(client, "GET", 0);
    assert_true(until(client, has_head));
    nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    assert_true(until(client, is_gone));
    assert_int_equal(client->bench->closed, 0);
}

static bool all_gone(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->gone == 1200;
}

/* Many who share a connection, and give up after a while: that is no flood. */
static void test_impatience_is_no_flood(void **state)
{
    struct client *client = *state;
    client->bench->limits.max_streams = 2000;
    client->bench->on_body_end = do_nothing;
    for (unsigned i = 0; i < 1200; i++)
        request(client, "GET", 0);
    pump(client);
    loop_for(client->bench->loop, 600 * WG_USEC_PER_MSEC);
    for (int32_t id = 1; id < 2400; id += 2)
        nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    assert_true(until(client, all_gone));
    memset(client->seen, 0, sizeof(client->seen));
    client->bench->on_body_end = bench_ok;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
    assert_int_equal(client->goaways, 0);
}

static void test_a_lost_connection_is_told(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = begin;
    client->wanted = request(client, "GET", 0);
    assert_true(until(client, has_body));
    close(client->bench->client);
    client->bench->client = -1;
    client->bench->ended = true;
    assert_true(until(client, is_gone));
}

static void fill(struct bench *bench)
{
    static const char some[16384];
    while (bench->stream->ops->pending(bench->stream) <= WG_PENDING_HIGH)
        bench->stream->ops->data(bench->stream, some, sizeof(some));
}

static void begin_much(struct bench *bench)
{
    bench_begin(bench, "part");
    fill(bench);
}

static bool has_drained(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->bench->drained > 0;
}

static void test_a_client_that_reads_drains(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = begin_much;
    request(client, "GET", 0);
    assert_true(until(client, has_drained));
    assert_int_equal(client->bench->gone, 0);
}

/* The stream's window stays shut: it is given up, the connection is not. */
static void test_a_shut_window_meets_the_write_timeout(void **state)
{
    struct client *client = *state;
    client->bench->limits.write_idle_timeout = 100 * WG_USEC_PER_MSEC;
    client->bench->on_body_end = begin_much;
    client->no_credit = true;
    const int32_t id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), NGHTTP2_CANCEL);
    assert_int_equal(client->bench->gone, 1);
    assert_int_equal(client->bench->closed, 0);
}

static void begin_a_window(struct bench *bench)
{
    static char text[WINDOW + 1];
    memset(text, 'w', WINDOW);
    bench_begin(bench, text);
}

static bool has_a_window(void *arg)
{
    struct client *client = arg;
    pump(client);
    return seen_of(client, client->wanted)->body == WINDOW;
}

/* A stream whose window is used up to the last byte, with nothing pending. */
static int32_t use_up_the_window(struct client *client)
{
    client->bench->limits.write_idle_timeout = 100 * WG_USEC_PER_MSEC;
    client->bench->on_body_end = begin_a_window;
    client->no_credit = true;
    client->wanted = request(client, "GET", 0);
    assert_true(until(client, has_a_window));
    return client->wanted;
}

/* The end itself needs a window: an empty frame, or the reset behind what was queued. */
static void test_an_end_behind_a_shut_window_meets_the_write_timeout(void **state)
{
    struct client *client = *state;
    const int32_t whole = use_up_the_window(client);
    client->bench->stream->ops->end(client->bench->stream, NULL);
    assert_int_equal(end_of(client, whole), NGHTTP2_CANCEL);
    client->bench->limits.write_idle_timeout = 10 * WG_USEC_PER_SEC;
    nghttp2_session_consume_connection(client->session, WINDOW);
    const int32_t broken = use_up_the_window(client);
    client->bench->stream->ops->abort(client->bench->stream);
    assert_int_equal(end_of(client, broken), NGHTTP2_CANCEL);
    assert_int_equal(client->bench->closed, 0);
}

static void open_windows(struct client *client)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 64 << 20};
    nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, &window, 1);
    nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0, 128 << 20);
}

/* Both answers always have bytes: neither may wait until the other has none. */
static void test_answers_share_the_connection(void **state)
{
    struct client *client = *state;
    struct bench *bench = client->bench;
    struct wg_stream *streams[2];
    int32_t ids[2];
    open_windows(client);
    bench->on_body_end = begin_much;
    for (unsigned i = 0; i < 2; i++) {
        bench->heads = 0;
        ids[i] = request(client, "GET", 0);
        assert_true(until(client, has_head));
        streams[i] = bench->stream;
    }
    for (unsigned turn = 0; turn < 2000 && bench->gone == 0; turn++) {
        for (unsigned i = 0; i < 2; i++) {
            bench->stream = streams[i];
            fill(bench);
        }
        loop_for(bench->loop, WG_USEC_PER_MSEC);
        pump(client);
        if (seen_of(client, ids[0])->body + seen_of(client, ids[1])->body > 4 << 20)
            break;
    }
    assert_true(seen_of(client, ids[0])->body > 1 << 20);
    assert_true(seen_of(client, ids[1])->body > 1 << 20);
}

/* Nothing is pending: silence between two events is nobody's fault. */
static void test_a_silent_stream_does_not(void **state)
{
    struct client *client = *state;
    client->bench->limits.write_idle_timeout = 30 * WG_USEC_PER_MSEC;
    client->bench->on_body_end = begin;
    client->wanted = request(client, "GET", 0);
    assert_true(until(client, has_body));
    loop_for(client->bench->loop, 120 * WG_USEC_PER_MSEC);
    assert_int_equal(client->bench->gone, 0);
    client->bench->stream->ops->end(client->bench->stream, NULL);
    assert_int_equal(end_of(client, client->wanted), 0);
}

static void test_a_body_that_stalls_is_told(void **state)
{
    struct client *client = *state;
    const nghttp2_nv nv[] = {NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/a"),
                             NV(":authority", "x")};
    client->bench->limits.body_idle_timeout = 50 * WG_USEC_PER_MSEC;
    const int32_t id = nghttp2_submit_headers(client->session, NGHTTP2_FLAG_NONE, -1, NULL, nv, 4, NULL);
    assert_true(id > 0);
    assert_int_equal(end_of(client, id), NGHTTP2_NO_ERROR);
    assert_int_equal(seen_of(client, id)->status, 408);
    assert_int_equal(client->bench->stalled, 1);
}

/* ---- the connection ---- */

static void test_excess_streams_are_refused(void **state)
{
    struct client *client = *state;
    int32_t id = 0;
    client->bench->on_body_end = do_nothing;
    for (unsigned i = 0; i < 33; i++)
        id = request(client, "GET", 0);
    assert_int_equal(end_of(client, id), NGHTTP2_REFUSED_STREAM);
    assert_int_equal(client->bench->heads, 32);
    assert_int_equal(client->bench->gone, 0);
    assert_int_equal(
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS), 32);
}

/* For one read of the front. */
static void push_at_once(struct client *client)
{
    struct wg_buf bytes = WG_BUF_INIT(64 * 1024);
    const uint8_t *data;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(client->session, &data)) > 0)
        wg_buf_add(&bytes, data, (size_t)n);
    assert_false(bytes.failed);
    assert_int_equal(send(client->bench->client, bytes.data, bytes.len, MSG_NOSIGNAL), bytes.len);
    wg_buf_clear(&bytes);
}

static void answer_with_a_page(struct bench *bench)
{
    char value[401]; /* another one each time, or it would be compressed */
    struct wg_response response = {.status = 200, .body = WG_BODY_NONE};
    snprintf(value, sizeof(value), "%0400u", bench->heads);
    assert_int_equal(wg_fields_add(&response.fields, WG_SLICE("x-page"), wg_slice_str(value)), 0);
    bench->stream->ops->head(bench->stream, &response);
}

enum { MANY = 1900 };

static bool all_are_answered(void *arg)
{
    struct client *client = arg;
    pump(client);
    return client->answers == MANY + 1;
}

/* As many answers as there may be streams can wait at one time: that is no flood. */
static void test_many_answers_at_one_time_are_no_flood(void **state)
{
    struct client *client = *state;
    client->bench->limits.max_streams = 2000;
    client->bench->on_body_end = answer_with_a_page;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
    for (unsigned i = 0; i < MANY; i++)
        request(client, "GET", 0);
    push_at_once(client);
    loop_for(client->bench->loop, 50 * WG_USEC_PER_MSEC);
    assert_true(until(client, all_are_answered));
    assert_int_equal(client->goaways, 0);
}

/* Our limit is not known before our SETTINGS have come. */
static void test_a_burst_may_come_before_the_settings(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = do_nothing;
    for (unsigned i = 0; i < 1000; i++)
        request(client, "GET", 0);
    push(client);
    assert_int_equal(end_of(client, 2 * 1000 - 1), NGHTTP2_REFUSED_STREAM);
    assert_int_equal(client->bench->heads, 32);
    memset(client->seen, 0, sizeof(client->seen));
    bench_ok(client->bench); /* the last of those that were taken */
    assert_int_equal(end_of(client, 2 * 32 - 1), 0);
    assert_int_equal(client->goaways, 0);
}

static void close_front(struct bench *bench)
{
    wg_front_close(bench->front, true);
}

static void test_closing_inside_of_head(void **state)
{
    struct client *client = *state;
    client->bench->on_head = close_front;
    request(client, "GET", 0);
    assert_true(until(client, has_ended));
    assert_int_equal(client->bench->gone, 1);
}

static void test_a_drain_has_two_steps(void **state)
{
    struct client *client = *state;
    client->bench->on_body_end = do_nothing;
    const int32_t id = request(client, "GET", 0);
    assert_true(until(client, has_head));
    wg_front_drain(client->bench->front);
    loop_for(client->bench->loop, 5 * WG_USEC_PER_MSEC);
    /* On its way before the first GOAWAY was seen. */
    client->bench->on_body_end = bench_ok;
    struct wg_stream *waiting = client->bench->stream;
    const int32_t late = request(client, "GET", 0);
    push(client);
    assert_int_equal(end_of(client, late), 0);
    assert_true(until(client, has_two_goaways));
    assert_int_equal(client->goaway_last, late);
    assert_int_equal(client->goaway_error, NGHTTP2_NO_ERROR);
    client->bench->stream = waiting;
    bench_ok(client->bench);
    assert_int_equal(end_of(client, id), 0);
    assert_true(until(client, has_ended));
    assert_int_equal(client->bench->error, 0);
}

static void test_an_idle_connection_is_told_and_closed(void **state)
{
    struct client *client = *state;
    client->bench->limits.idle_timeout = 50 * WG_USEC_PER_MSEC;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
    assert_true(until(client, has_ended));
    assert_int_equal(client->goaways, 1);
    assert_int_equal(client->bench->error, 0);
}

static wg_usec cpu_time(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WG_USEC_PER_SEC + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void request_and_reset(struct client *client)
{
    const int32_t id = request(client, "GET", 0);
    push(client);
    loop_for(client->bench->loop, 5 * WG_USEC_PER_MSEC);
    nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    push(client);
}

/* Idle a second time, with a GOAWAY that the client does not take: the loop sleeps all the same. */
static void test_a_client_that_reads_no_goaway_costs_no_time(void **state)
{
    struct client *client = *state;
    client->bench->limits.idle_timeout = 30 * WG_USEC_PER_MSEC;
    client->bench->on_body_end = begin_much;
    open_windows(client);
    request_and_reset(client);
    loop_for(client->bench->loop, 60 * WG_USEC_PER_MSEC);
    request_and_reset(client);
    loop_for(client->bench->loop, 60 * WG_USEC_PER_MSEC);
    assert_int_equal(client->bench->gone, 2);
    const wg_usec before = cpu_time();
    loop_for(client->bench->loop, 300 * WG_USEC_PER_MSEC);
    assert_true(cpu_time() - before < 60 * WG_USEC_PER_MSEC);
}

static void test_a_flood_is_calmed(void **state)
{
    struct client *client = *state;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
    for (unsigned i = 0; i < 600; i++)
        nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, NULL);
    assert_true(until(client, has_ended));
    assert_int_equal(client->goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void test_nonsense_is_a_protocol_error(void **state)
{
    struct client *client = *state;
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
    static const char frame[] = "\0\0\4\3\0\0\0\0\0\0\0\0\0"; /* RST_STREAM of the connection */
    assert_int_equal(send(client->bench->client, frame, sizeof(frame) - 1, MSG_NOSIGNAL), sizeof(frame) - 1);
    assert_true(until(client, has_ended));
    assert_int_equal(client->goaway_error, NGHTTP2_PROTOCOL_ERROR);
}

/* Even then our preface comes first, or the client would not understand why it is over. */
static void test_a_flood_right_behind_the_preface_is_told(void **state)
{
    struct client *client = *state;
    static const char ping[9 + 8] = {[2] = 8, [3] = NGHTTP2_PING};
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"; /* and SETTINGS */
    char bytes[sizeof(preface) - 1 + 300 * sizeof(ping)];
    memcpy(bytes, preface, sizeof(preface) - 1);
    for (size_t at = sizeof(preface) - 1; at < sizeof(bytes); at += sizeof(ping))
        memcpy(bytes + at, ping, sizeof(ping));
    assert_int_equal(send(client->bench->client, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    assert_true(until(client, has_ended));
    assert_int_equal(client->goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void test_the_preface_may_come_in_pieces(void **state)
{
    struct client *client = *state;
    const uint8_t *data;
    const ssize_t n = nghttp2_session_mem_send(client->session, &data);
    for (ssize_t i = 0; i < n; i++) {
        assert_int_equal(send(client->bench->client, data + i, 1, MSG_NOSIGNAL), 1);
        loop_for(client->bench->loop, WG_USEC_PER_MSEC);
    }
    assert_int_equal(end_of(client, request(client, "GET", 0)), 0);
}

static void test_half_a_preface_is_a_late_head(void **state)
{
    struct client *client = *state;
    client->bench->limits.header_timeout = 50 * WG_USEC_PER_MSEC;
    bench_send(client->bench, "PRI * HTTP/2.0\r\n");
    bench_expect(client->bench, "HTTP/1.1 408 ");
    assert_int_equal(bench_end(client->bench), 0);
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_requests_share_a_connection),
        TEST(test_a_head_has_no_body),
        TEST(test_a_refused_head_has_no_body_either),
        TEST(test_a_body_waits_until_it_is_wanted),
        TEST(test_a_paused_body_goes_on),
        TEST(test_an_early_answer_leaves_the_connection_good),
        TEST(test_a_broken_answer_is_delivered_and_reset),
        TEST(test_trailers_follow_the_body),
        TEST(test_an_answer_may_have_a_large_head),
        TEST(test_a_reset_is_told_at_once),
        TEST(test_impatience_is_no_flood),
        TEST(test_a_lost_connection_is_told),
        TEST(test_a_client_that_reads_drains),
        TEST(test_a_shut_window_meets_the_write_timeout),
        TEST(test_an_end_behind_a_shut_window_meets_the_write_timeout),
        TEST(test_answers_share_the_connection),
        TEST(test_a_silent_stream_does_not),
        TEST(test_a_body_that_stalls_is_told),
        TEST(test_excess_streams_are_refused),
        TEST(test_a_burst_may_come_before_the_settings),
        TEST(test_many_answers_at_one_time_are_no_flood),
        TEST(test_closing_inside_of_head),
        TEST(test_a_drain_has_two_steps),
        TEST(test_an_idle_connection_is_told_and_closed),
        TEST(test_a_client_that_reads_no_goaway_costs_no_time),
        TEST(test_a_flood_is_calmed),
        TEST(test_nonsense_is_a_protocol_error),
        TEST(test_a_flood_right_behind_the_preface_is_told),
        TEST(test_the_preface_may_come_in_pieces),
        TEST(test_half_a_preface_is_a_late_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
