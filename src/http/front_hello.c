/* The beginning of a client connection: the TLS handshake, and which protocol it is: by ALPN, or in cleartext
 * by HTTP/2's preface. Then the protocol takes over, in place. */
#include "front_hello.h"

#include "wakegate/base/log.h"
#include "wakegate/tls.h"

#include <errno.h>

static const char preface[H2_PREFACE_LEN + 1] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static struct hello_front *hello_of(struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return WG_CONTAINER_OF(front, struct hello_front, base);
}

static void set_state(struct hello_front *hello, enum hello_state state)
{
    const struct wg_front_limits *limits = hello->base.limits;
    WG_ASSERT(hello->state != HELLO_OVER);
    hello->state = state;
    switch (state) {
    case HELLO_TLS:
    case HELLO_BEGUN:
        wg_timer_set(&hello->timer, front_in_future(&hello->base, limits->header_timeout));
        break;
    case HELLO_SILENT:
        wg_timer_set(&hello->timer, front_in_future(&hello->base, limits->idle_timeout));
        break;
    case HELLO_OVER:
        wg_timer_cancel(&hello->timer);
        break;
    }
}

static void close_now(struct hello_front *hello, bool hard)
{
    set_state(hello, HELLO_OVER);
    front_end(&hello->base, hard);
}

/* ---- cleartext ---- */

static void on_bytes(struct hello_front *hello, const char *data, size_t len)
{
    struct wg_front *front = &hello->base;
    if (memcmp(data, preface, WG_MIN(len, (size_t)H2_PREFACE_LEN)) != 0) {
        set_state(hello, HELLO_OVER);
        front_h1_begin(front, data, len);
    } else if (len >= H2_PREFACE_LEN) {
        set_state(hello, HELLO_OVER);
        front_h2_begin(front, data, len);
    } else {
        memcpy(hello->bytes, data, len);
        hello->n = len;
        if (hello->state == HELLO_SILENT)
            set_state(hello, HELLO_BEGUN);
    }
}

static void read_bytes(struct hello_front *hello)
{
    size_t room;
    char *scratch = wg_pool_scratch(hello->base.pool, &room);
    memcpy(scratch, hello->bytes, hello->n);
    const ssize_t n = wg_conn_read(hello->base.conn, scratch + hello->n, room - hello->n);
    if (n > 0)
        on_bytes(hello, scratch, hello->n + (size_t)n);
    else if (n != -EAGAIN)
        close_now(hello, n < 0);
}

/* ---- TLS ---- */

static void shake_hands(struct hello_front *hello)
{
    struct wg_front *front = &hello->base;
    const int error = wg_conn_handshake(front->conn);
    if (error == -EAGAIN)
        return;
    const struct wg_tls_session *tls = wg_conn_tls(front->conn);
    if (error < 0) {
        wg_debug("front", NULL, "a TLS handshake failed: %s", wg_tls_why(tls));
        close_now(hello, false);
        return;
    }
    set_state(hello, HELLO_OVER);
    if (wg_tls_is_h2(tls))
        front_h2_begin(front, NULL, 0);
    else
        front_h1_begin(front, NULL, 0);
}

/* ---- the connection ---- */

static void on_readable(void *arg)
{
    struct hello_front *hello = hello_of(arg);
    if (hello->state == HELLO_TLS)
        shake_hands(hello);
    else
        read_bytes(hello);
}

static void on_timer(struct wg_timer *timer)
{
    struct hello_front *hello = WG_CONTAINER_OF(timer, struct hello_front, timer);
    WG_CHECK_OBJ(&hello->base, FRONT_MAGIC);
    if (hello->state != HELLO_BEGUN) {
        close_now(hello, false);
        return;
    }
    char bytes[H2_PREFACE_LEN];
    const size_t n = hello->n;
    memcpy(bytes, hello->bytes, n);
    set_state(hello, HELLO_OVER);
    front_h1_begin_late(&hello->base, bytes, n);
}

static void hello_close(struct wg_front *front, bool hard)
{
    close_now(hello_of(front), hard);
}

/* What has begun is served yet, once. */
static void hello_drain(struct wg_front *front)
{
    struct hello_front *hello = hello_of(front);
    front->draining = true;
    if (hello->state == HELLO_SILENT)
        close_now(hello, false);
}

static bool hello_idle(const struct wg_front *front)
{
    return ((const struct hello_front *)(uintptr_t)front)->state == HELLO_SILENT;
}

static const struct front_ops hello_ops = {.close = hello_close, .drain = hello_drain, .idle = hello_idle};
static const struct wg_conn_handler conn_handler = {.readable = on_readable};

void front_hello_begin(struct wg_front *front)
{
    struct hello_front *hello = hello_of(front);
    front->ops = &hello_ops;
    wg_timer_init(&hello->timer, front->loop, on_timer);
    set_state(hello, wg_conn_tls(front->conn) ? HELLO_TLS : HELLO_SILENT);
    wg_conn_set_handler(front->conn, &conn_handler, front);
    wg_conn_want_read(front->conn, true);
}
