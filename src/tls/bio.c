/* The socket as OpenSSL sees it. Its own BIO for sockets would raise SIGPIPE, and leaves errors in errno
 * alone. */
#include "tls_internal.h"

#include <errno.h>
#include <sys/socket.h>

static bool is_temporary(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static int socket_read(BIO *bio, char *buf, int len)
{
    struct wg_tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t n = recv(session->fd, buf, (size_t)len, 0);
    session->socket_error = n < 0 && !is_temporary(errno) ? -errno : 0;
    if (n < 0 && is_temporary(errno))
        BIO_set_retry_read(bio);
    return (int)n;
}

static int socket_write(BIO *bio, const char *buf, int len)
{
    struct wg_tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t n = send(session->fd, buf, (size_t)len, MSG_NOSIGNAL);
    session->socket_error = n < 0 && !is_temporary(errno) ? -errno : 0;
    if (n < 0 && is_temporary(errno))
        BIO_set_retry_write(bio);
    return (int)n;
}

/* OpenSSL gives up on a connection whose BIO knows of an end of file; ours does not, and the end is told by
 * wg_tls_read, which does not mind a missing close_notify. */
static long socket_ctrl(BIO *bio WG_UNUSED, int command, long number WG_UNUSED, void *arg WG_UNUSED)
{
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_socket_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket without signals");
    if (!method)
        return NULL;
    BIO_meth_set_read(method, socket_read);
    BIO_meth_set_write(method, socket_write);
    BIO_meth_set_ctrl(method, socket_ctrl);
    return method;
}

BIO *tls_socket_new(struct wg_tls_session *session)
{
    BIO *bio = BIO_new(session->tls->socket);
    if (!bio)
        return NULL;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    return bio;
}
