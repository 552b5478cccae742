/* Bytes into an HTTP/2 front over a socket pair, with exchanges above it that do what a script says, and a
 * clock that the script moves. Input: the length of the script, the script, then what the client sends behind
 * the preface. Without a script, bodies are wanted and then answered. */
#include "fuzz_h2.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SCRIPT_MAX = 64,
    STREAMS_MAX = 8,
    HEADER_MAX = 8 * 1024,
    ROUNDS_MAX = 300,
    EXCHANGE_MAGIC = 0x0e8c4a9e
};

/* ---- the clock ---- */

static wg_usec fake_now = WG_USEC_PER_SEC;
wg_usec __wrap_wg_clock_monotonic(void);
wg_usec __wrap_wg_clock_monotonic(void)
{
    return fake_now;
}

/* ---- the world ---- */

enum action {
    DO_NOTHING,
    DO_WANT,
    DO_PAUSE,
    DO_GO_ON,
    DO_ANSWER,
    DO_BEGIN,
    DO_DATA,
    DO_MUCH_DATA,
    DO_END,
    DO_END_WITH_TRAILERS,
    DO_ABORT,
    DO_ANSWER_EMPTY,
    DO_BREAK_OFF, /* in the middle of a known length */
    DO_WAIT,      /* the rest: not in an exchange's own calls */
    DO_NOT_READ,  /* and to read again */
    DO_DRAIN,
    DO_LEAVE_HALF, /* the client shuts down its side */
    DO_LEAVE,
    DO_CLOSE,
    ACTIONS
};

struct world {
    const uint8_t *script;
    size_t script_len, script_at;
    struct wg_loop *loop;
    struct wg_front *front;
    struct wg_list exchanges;
    unsigned n, calling;
    struct wg_timer nudge; /* lets the wheel see that the clock has moved */
    int client;            /* -1: it left */
    bool deaf;
    uint8_t head[9]; /* of the frame that the client is receiving */
    size_t n_head, left, frames;
};

struct exchange {
    uint32_t magic;
    struct wg_list link;
    struct world *world;
    struct wg_stream *stream;
    bool wanted, paused, begun, whole;
    uint64_t declared, received;
};

static unsigned next(struct world *world)
{
    return world->script_len > 0 ? world->script[world->script_at++ % world->script_len] : 0;
}

static struct exchange *called(void *x)
{
    struct exchange *exchange = WG_CAST(exchange, x, EXCHANGE_MAGIC);
    WG_ASSERT(exchange->world->calling == 0);
    return exchange;
}

static void leave(struct exchange *x)
{
    wg_list_remove(&x->link);
    x->world->n--;
    free(x);
}

/* ---- what exchanges do ---- */

static void answer_head(struct exchange *x, int status, enum wg_body_kind body, uint64_t length)
{
    struct wg_response response = {.status = status, .body = body, .content_length = length};
    WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("Content-Type"), WG_SLICE("text/plain")) == 0);
    WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("connection"), WG_SLICE("close")) == 0);
    WG_ASSERT(x->stream->ops->can_stream(x->stream));
    x->begun = true;
    x->stream->ops->head(x->stream, &response);
}

static void answer_data(struct exchange *x, size_t len)
{
    static const char zeros[40 * 1024];
    if (x->stream->ops->pending(x->stream) <= WG_PENDING_HIGH)
        x->stream->ops->data(x->stream, zeros, len);
}

static void answer_end(struct exchange *x, bool with_trailers)
{
    struct wg_fields trailers = {.n = 0};
    WG_ASSERT(wg_fields_add(&trailers, WG_SLICE("X-Sum"), WG_SLICE("1")) == 0);
    WG_ASSERT(wg_fields_add(&trailers, WG_SLICE("connection"), WG_SLICE("close")) == 0);
    x->stream->ops->end(x->stream, with_trailers ? &trailers : NULL);
    leave(x);
}

static void answer(struct exchange *x, int status)
{
    if (!x->begun) {
        answer_head(x, status, WG_BODY_LENGTH, 5);
        x->stream->ops->data(x->stream, "whole", 5);
    }
    answer_end(x, false);
}

static void pause_body(struct exchange *x, bool paused)
{
    x->paused = paused;
    x->stream->ops->pause_body(x->stream, paused);
}

/* An action that does not fit the state of the exchange is none. False: the exchange is no more. */
static bool act_unguarded(struct exchange *x, enum action action)
{
    const bool fits_begun =
        action == DO_DATA || action == DO_MUCH_DATA || action == DO_END || action == DO_END_WITH_TRAILERS;
    const bool fits_new =
        action == DO_BEGIN || action == DO_ANSWER || action == DO_ANSWER_EMPTY || action == DO_BREAK_OFF;
    if ((fits_begun && !x->begun) || (fits_new && x->begun))
        return true;
    switch (action) {
    case DO_WANT:
        if (!x->wanted) {
            x->wanted = true;
            x->stream->ops->want_body(x->stream);
        }
        return true;
    case DO_PAUSE:
    case DO_GO_ON:
        pause_body(x, action == DO_PAUSE);
        return true;
    case DO_ANSWER:
        answer(x, 200);
        return false;
    case DO_BEGIN:
        answer_head(x, 200, WG_BODY_CHUNKED, 0);
        answer_data(x, 10);
        return true;
    case DO_DATA:
    case DO_MUCH_DATA:
        answer_data(x, action == DO_DATA ? 100 : 40 * 1024);
        return true;
    case DO_END:
    case DO_END_WITH_TRAILERS:
        answer_end(x, action == DO_END_WITH_TRAILERS);
        return false;
    case DO_ANSWER_EMPTY:
        answer_head(x, 204, WG_BODY_NONE, 0);
        leave(x);
        return false;
    case DO_BREAK_OFF:
        answer_head(x, 200, WG_BODY_LENGTH, 1000);
        answer_data(x, 10);
        /* fall through */
    case DO_ABORT:
        x->stream->ops->abort(x->stream);
        leave(x);
        return false;
    default:
        return true;
    }
}

/* No call comes up from inside of a call down. */
static bool act(struct exchange *x, unsigned action)
{
    struct world *world = x->world;
    world->calling++;
    const bool lives = act_unguarded(x, action % ACTIONS);
    world->calling--;
    return lives;
}

/* ---- what exchanges are told ---- */

static void *on_head(void *owner, struct wg_stream *stream, const struct wg_request *request)
{
    static struct exchange nobody; /* has no magic: a call on it aborts */
    struct world *world = owner;
    struct exchange *x = WG_NEW(struct exchange);
    WG_ASSERT(world->calling == 0);
    fuzz_check_request(request);
    *x = (struct exchange){.magic = EXCHANGE_MAGIC, .world = world, .stream = stream, .declared = UINT64_MAX};
    if (request->body != WG_BODY_CHUNKED)
        x->declared = request->content_length;
    wg_list_append(&world->exchanges, &x->link);
    WG_ASSERT(++world->n <= STREAMS_MAX);
    return act(x, world->script_len > 0 ? next(world) : DO_WANT) ? x : &nobody;
}

static void on_body(void *arg, const char *data, size_t len)
{
    struct exchange *x = called(arg);
    WG_ASSERT(x->wanted && !x->paused && !x->whole && len > 0 && data);
    x->received += len;
    WG_ASSERT(x->received <= x->declared);
    act(x, next(x->world));
}

static void on_body_end(void *arg, const struct wg_fields *trailers)
{
    struct exchange *x = called(arg);
    WG_ASSERT(x->wanted && !x->paused && !x->whole);
    WG_ASSERT(x->declared == UINT64_MAX || x->received == x->declared);
    for (unsigned i = 0; trailers && i < trailers->n; i++) {
        fuzz_check_slice(trailers->items[i].value);
        WG_ASSERT(trailers->items[i].token == WG_TOKEN_OTHER);
    }
    x->whole = true;
    act(x, x->world->script_len > 0 ? next(x->world) : DO_ANSWER);
}

static void on_body_failed(void *arg, const char *why)
{
    WG_ASSERT(why && *why);
    answer(called(arg), 400);
}

static void on_body_stalled(void *arg)
{
    answer(called(arg), 408);
}

static void on_drained(void *arg)
{
    struct exchange *x = called(arg);
    WG_ASSERT(x->begun);
    act(x, next(x->world));
}

static void on_gone(void *arg)
{
    leave(called(arg));
}

static void on_malformed(void *owner, struct wg_front *front, int status, const char *why,
                         struct wg_buf *body)
{
    const struct world *world = owner;
    WG_ASSERT(front == world->front && world->calling == 0);
    WG_ASSERT((status == 400 || status == 431) && why && *why);
    wg_buf_add_str(body, why);
}

static void on_closed(void *owner, struct wg_front *front)
{
    struct world *world = owner;
    WG_ASSERT(front == world->front && world->n == 0);
    world->front = NULL;
}

static const struct wg_front_handler handler = {
    .head = on_head,
    .body = on_body,
    .body_end = on_body_end,
    .body_failed = on_body_failed,
    .body_stalled = on_body_stalled,
    .drained = on_drained,
    .gone = on_gone,
    .malformed = on_malformed,
    .closed = on_closed,
};

/* ---- the client ---- */

static void check_frame(struct world *world)
{
    enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS, PING = 6, GOAWAY, WINDOW_UPDATE, CONTINUATION };
    const unsigned known = 1u << DATA | 1u << HEADERS | 1u << RST_STREAM | 1u << SETTINGS | 1u << PING |
                           1u << GOAWAY | 1u << WINDOW_UPDATE | 1u << CONTINUATION;
    const uint8_t *head = world->head;
    const uint32_t stream =
        (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    world->left = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    WG_ASSERT(world->left <= 16384 && head[3] <= CONTINUATION && (known & 1u << head[3]));
    WG_ASSERT(world->frames++ > 0 || head[3] == SETTINGS);
    const bool on_stream = head[3] <= RST_STREAM || head[3] == CONTINUATION;
    WG_ASSERT(head[3] == WINDOW_UPDATE || on_stream == (stream % 2 == 1));
}

static void receive(struct world *world)
{
    uint8_t bytes[16 * 1024];
    ssize_t n;
    while (!world->deaf && (n = recv(world->client, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        for (size_t at = 0; at < (size_t)n;) {
            if (world->left > 0) {
                const size_t skip = WG_MIN(world->left, (size_t)n - at);
                world->left -= skip;
                at += skip;
            } else {
                world->head[world->n_head++] = bytes[at++];
                if (world->n_head == sizeof(world->head)) {
                    world->n_head = 0;
                    check_frame(world);
                }
            }
        }
    }
}

/* ---- the course of things ---- */

static void on_nudge(struct wg_timer *timer WG_UNUSED)
{
}

static void turn(struct world *world)
{
    event_base_loop(wg_loop_base(world->loop), EVLOOP_NONBLOCK);
    wg_loop_stop(world->loop);
    wg_loop_run(world->loop);
    WG_ASSERT(!world->front || world->n == 0 || !wg_front_idle(world->front));
}

static void pass_time(struct world *world, wg_usec time)
{
    fake_now += time;
    wg_timer_set(&world->nudge, 0);
    turn(world);
}

static void act_on_some(struct world *world, unsigned action)
{
    if (world->n == 0 || action == DO_NOTHING)
        return;
    struct wg_list *node = wg_list_first(&world->exchanges);
    for (unsigned i = next(world) % world->n; i > 0; i--)
        node = node->next;
    act(WG_LIST_ENTRY(node, struct exchange, link), action);
}

static void leave_connection(struct world *world)
{
    if (world->client >= 0)
        close(world->client);
    world->client = -1;
}

static void act_on_connection(struct world *world, enum action action)
{
    switch (action) {
    case DO_WAIT:
        pass_time(world, (next(world) % 4 + 1) * WG_USEC_PER_SEC);
        break;
    case DO_NOT_READ:
        world->deaf = !world->deaf;
        break;
    case DO_DRAIN:
        wg_front_drain(world->front);
        break;
    case DO_LEAVE_HALF:
        shutdown(world->client, SHUT_WR);
        break;
    case DO_LEAVE:
        leave_connection(world);
        break;
    case DO_CLOSE:
        wg_front_close(world->front, next(world) % 2);
        break;
    default:
        act_on_some(world, action);
        break;
    }
}

static void do_round(struct world *world)
{
    turn(world);
    if (world->front)
        act_on_connection(world, next(world) % ACTIONS);
    receive(world);
}

static void send_all(struct world *world, const uint8_t *data, size_t size)
{
    static const size_t pieces[] = {16384, 1, 9, 40, 200, 1000, 4096, 65536};
    for (unsigned round = 0; size > 0 && world->front && round < 2 * ROUNDS_MAX; round++) {
        const size_t piece = round < ROUNDS_MAX ? pieces[next(world) % WG_COUNT_OF(pieces)] : 16384;
        const ssize_t n = send(world->client, data, WG_MIN(piece, size), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        do_round(world);
    }
}

/* What is open is answered, and the clock does the rest: nobody can hold a connection for ever. */
static void finish(struct world *world)
{
    for (unsigned i = 0; i < world->script_len && world->front; i++)
        do_round(world);
    for (unsigned i = 0; i < 20 && world->front; i++) {
        while (world->n > 0 && world->front) {
            struct wg_list *node = wg_list_first(&world->exchanges);
            act(WG_LIST_ENTRY(node, struct exchange, link), DO_ABORT);
        }
        turn(world);
        receive(world);
        pass_time(world, 4 * WG_USEC_PER_SEC);
    }
    WG_ASSERT(!world->front);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const struct wg_front_limits limits = {.header_timeout = 5 * WG_USEC_PER_SEC,
                                                  .body_idle_timeout = 7 * WG_USEC_PER_SEC,
                                                  .write_idle_timeout = 9 * WG_USEC_PER_SEC,
                                                  .idle_timeout = 11 * WG_USEC_PER_SEC,
                                                  .max_header_bytes = HEADER_MAX,
                                                  .max_streams = STREAMS_MAX};
    const struct sockaddr_storage peer = {.ss_family = AF_INET};
    int fds[2];
    if (size < 1)
        return 0;
    struct world world = {.script = data + 1, .script_len = WG_MIN(data[0] % SCRIPT_MAX, size - 1)};
    data = world.script + world.script_len;
    size -= world.script_len + 1;
    WG_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    const int small = 8 * 1024; /* so that a client that does not read is soon noticed */
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    struct wg_pool *pool = wg_pool_new(0);
    world.loop = wg_loop_new();
    world.client = fds[0];
    wg_list_init(&world.exchanges);
    wg_timer_init(&world.nudge, world.loop, on_nudge);
    world.front = wg_front_new(world.loop, pool, fds[1], &peer, NULL, &limits, &handler, &world);

    WG_ASSERT(send(world.client, preface, sizeof(preface) - 1, 0) == sizeof(preface) - 1);
    send_all(&world, data, size);
    finish(&world);

    wg_timer_cancel(&world.nudge);
    wg_loop_free(world.loop);
    leave_connection(&world);
    WG_ASSERT(wg_pool_used(pool) == 0);
    wg_pool_free(pool);
    return 0;
}
