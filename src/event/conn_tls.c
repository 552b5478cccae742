/* What differs for a connection with TLS: bytes may be here that the kernel no longer tells of, and reading
 * may have to wait for the socket to take bytes. */
#include "conn_internal.h"
#include "wakegate/tls.h"

#include <errno.h>
#include <stdlib.h>

struct conn_tls {
    struct wg_tls_session *session;
    struct wg_timer pending; /* for bytes that OpenSSL has taken from the socket already */
    struct wg_conn *conn;
    bool stalled; /* the handshake or the last read waits for the socket to take bytes */
};

static void on_pending(struct wg_timer *timer)
{
    conn_call_readable(WG_CONTAINER_OF(timer, struct conn_tls, pending)->conn);
}

int wg_conn_start_tls(struct wg_conn *conn, struct wg_tls *tls)
{
    WG_CHECK_OBJ(conn, CONN_MAGIC);
    WG_ASSERT(!conn->tls);
    struct wg_tls_session *session = wg_tls_session_new(tls, conn->fd);
    if (!session)
        return -ENOMEM;
    conn->tls = WG_NEW(struct conn_tls);
    conn->tls->session = session;
    conn->tls->conn = conn;
    wg_timer_init(&conn->tls->pending, conn->loop, on_pending);
    return 0;
}

void conn_tls_free(struct wg_conn *conn)
{
    if (!conn->tls)
        return;
    wg_timer_cancel(&conn->tls->pending);
    wg_tls_session_free(conn->tls->session);
    wg_free_ptr(&conn->tls);
}

const struct wg_tls_session *wg_conn_tls(const struct wg_conn *conn)
{
    return conn->tls ? conn->tls->session : NULL;
}

void conn_tls_update(struct wg_conn *conn)
{
    struct conn_tls *tls = conn->tls;
    if (conn->fd < 0)
        return;
    if (!conn->reading || !wg_tls_pending(tls->session))
        wg_timer_cancel(&tls->pending);
    else if (!wg_timer_armed(&tls->pending))
        wg_timer_set(&tls->pending, 0); /* the past: in the next turn */
    conn_arm_write(conn);
}

bool conn_tls_stalled(const struct wg_conn *conn)
{
    return conn->tls->stalled && conn->reading;
}

void conn_tls_unstall(struct wg_conn *conn)
{
    if (!conn_tls_stalled(conn))
        return;
    conn->tls->stalled = false;
    conn_arm_write(conn);
    conn_call_readable(conn);
}

int wg_conn_handshake(struct wg_conn *conn)
{
    WG_ASSERT(conn->tls && conn->fd >= 0);
    const int error = wg_tls_handshake(conn->tls->session);
    conn->tls->stalled = error == -EAGAIN && wg_tls_wants_write(conn->tls->session);
    conn_tls_update(conn);
    return error;
}

ssize_t conn_tls_read(struct wg_conn *conn, void *buf, size_t len)
{
    const ssize_t n = wg_tls_read(conn->tls->session, buf, len);
    conn->tls->stalled = n == -EAGAIN && wg_tls_wants_write(conn->tls->session);
    conn_tls_update(conn);
    return n;
}

ssize_t conn_tls_writev(struct wg_conn *conn, const struct iovec *iov, int n)
{
    return wg_tls_writev(conn->tls->session, iov, n);
}

void conn_tls_shutdown(struct wg_conn *conn)
{
    wg_tls_shutdown(conn->tls->session);
}
