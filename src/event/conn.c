/* A nonblocking stream socket on a loop; conn_tls.c is what differs with TLS. The end of a peer that is not
 * read from is watched by an epoll of its own, since libevent (2.1) gives a reset to readers and writers
 * alone: where there are none, it would wake the loop for ever and tell nobody.
 */
#include "conn_internal.h"
#include "loop_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HANGUPS_A_TURN 64

void conn_call_readable(struct wg_conn *conn)
{
    if (conn->fd < 0 || !conn->reading)
        return;
    conn->handler->readable(conn->arg);
    if (conn->tls)
        conn_tls_update(conn);
}

static void on_readable(evutil_socket_t fd WG_UNUSED, short what WG_UNUSED, void *arg)
{
    struct wg_conn *conn = WG_CAST(wg_conn, arg, CONN_MAGIC);
    conn_call_readable(conn);
}

static void on_writable(evutil_socket_t fd WG_UNUSED, short what WG_UNUSED, void *arg)
{
    struct wg_conn *conn = WG_CAST(wg_conn, arg, CONN_MAGIC);
    if (conn->tls)
        conn_tls_unstall(conn);
    if (conn->fd >= 0 && conn->writing)
        conn->handler->writable(conn->arg);
}

/* Connections that the handlers close stay in memory for this turn. */
static void on_hangups(evutil_socket_t fd, short what WG_UNUSED, void *arg WG_UNUSED)
{
    struct epoll_event events[HANGUPS_A_TURN];
    const int n = epoll_wait(fd, events, HANGUPS_A_TURN, 0);
    for (int i = 0; i < n; i++) {
        struct wg_conn *conn = WG_CAST(wg_conn, events[i].data.ptr, CONN_MAGIC);
        if (conn->fd >= 0 && conn->watching && conn->handler->hangup)
            conn->handler->hangup(conn->arg);
    }
}

int hangups_init(struct wg_loop *loop)
{
    loop->hangup_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->hangup_fd < 0)
        return -errno;
    loop->hangup_event = event_new(loop->base, loop->hangup_fd, EV_READ | EV_PERSIST, on_hangups, loop);
    return loop->hangup_event && event_add(loop->hangup_event, NULL) == 0 ? 0 : -ENOMEM;
}

void hangups_clear(struct wg_loop *loop)
{
    if (loop->hangup_event)
        event_free(loop->hangup_event);
    if (loop->hangup_fd >= 0)
        close(loop->hangup_fd);
}

static void flush(struct wg_deferred *deferred)
{
    struct wg_conn *conn = WG_CONTAINER_OF(deferred, struct wg_conn, dirty);
    WG_CHECK_OBJ(conn, CONN_MAGIC);
    conn->handler->flush(conn->arg);
}

static void reap(struct wg_deferred *deferred)
{
    struct wg_conn *conn = WG_CONTAINER_OF(deferred, struct wg_conn, dead);
    WG_CHECK_OBJ(conn, CONN_MAGIC);
    conn_tls_free(conn);
    conn->magic = 0;
    free(conn);
}

struct wg_conn *wg_conn_new(struct wg_loop *loop, int fd, const struct wg_conn_handler *handler, void *arg)
{
    struct wg_conn *conn = WG_NEW(struct wg_conn);
    conn->magic = CONN_MAGIC;
    conn->fd = fd;
    conn->loop = loop;
    conn->handler = handler;
    conn->arg = arg;
    event_assign(&conn->read, loop->base, fd, EV_READ | EV_PERSIST, on_readable, conn);
    event_assign(&conn->write, loop->base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
    wg_deferred_init(&conn->dirty, flush);
    wg_deferred_init(&conn->dead, reap);
    return conn;
}

struct wg_conn *wg_conn_connect(struct wg_loop *loop, const struct sockaddr *address, socklen_t len,
                                const struct wg_conn_handler *handler, void *arg, int *ret_error)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *ret_error = -errno;
        return NULL;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, address, len) < 0 && errno != EINPROGRESS) {
        *ret_error = -errno;
        close(fd);
        return NULL;
    }
    struct wg_conn *conn = wg_conn_new(loop, fd, handler, arg);
    wg_conn_want_write(conn, true);
    return conn;
}

void wg_conn_set_handler(struct wg_conn *conn, const struct wg_conn_handler *handler, void *arg)
{
    conn->handler = handler;
    conn->arg = arg;
}

void wg_conn_close(struct wg_conn *conn, bool hard)
{
    WG_CHECK_OBJ(conn, CONN_MAGIC);
    WG_ASSERT(conn->fd >= 0);
    if (conn->tls && !hard)
        conn_tls_shutdown(conn);
    wg_conn_want_read(conn, false);
    wg_conn_want_write(conn, false);
    wg_conn_watch_hangup(conn, false);
    wg_deferred_cancel(&conn->dirty);
    if (hard) {
        const struct linger reset = {.l_onoff = 1, .l_linger = 0};
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    close(conn->fd);
    conn->fd = -1;
    wg_loop_reap(conn->loop, &conn->dead);
}

int wg_conn_error(struct wg_conn *conn)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

int wg_conn_fd(const struct wg_conn *conn)
{
    return conn->fd;
}

struct wg_loop *wg_conn_loop(const struct wg_conn *conn)
{
    return conn->loop;
}

/* Adds or removes an event. */
static void arm(struct event *event, bool *state, bool on)
{
    if (*state == on)
        return;
    *state = on;
    if (on)
        WG_ASSERT(event_add(event, NULL) == 0);
    else
        event_del(event);
}

void conn_arm_write(struct wg_conn *conn)
{
    arm(&conn->write, &conn->write_armed, conn->writing || (conn->tls && conn_tls_stalled(conn)));
}

void wg_conn_want_read(struct wg_conn *conn, bool on)
{
    arm(&conn->read, &conn->reading, on);
    if (conn->tls)
        conn_tls_update(conn);
}

void wg_conn_want_write(struct wg_conn *conn, bool on)
{
    conn->writing = on;
    conn_arm_write(conn);
}

void wg_conn_watch_hangup(struct wg_conn *conn, bool on)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = conn};
    if (conn->watching == on)
        return;
    conn->watching = on;
    WG_ASSERT(epoll_ctl(conn->loop->hangup_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, conn->fd, &event) == 0);
}

void wg_conn_mark_dirty(struct wg_conn *conn)
{
    wg_loop_defer(conn->loop, &conn->dirty);
}

ssize_t wg_conn_read(struct wg_conn *conn, void *buf, size_t len)
{
    ssize_t n;
    if (conn->tls)
        return conn_tls_read(conn, buf, len);
    do
        n = recv(conn->fd, buf, len, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t wg_conn_writev(struct wg_conn *conn, const struct iovec *iov, int n)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    ssize_t sent;
    if (conn->tls)
        return conn_tls_writev(conn, iov, n);
    do
        sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

void wg_conn_shutdown(struct wg_conn *conn)
{
    if (conn->tls)
        conn_tls_shutdown(conn);
    shutdown(conn->fd, SHUT_WR);
}
