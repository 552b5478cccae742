/* The server's side of one TLS connection. OpenSSL's queue of errors is the thread's, not the connection's:
 * it is emptied before each call and left empty. */
#include "tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MAGIC 0x7155e551

enum { RECORD_MAX = SSL3_RT_MAX_PLAIN_LENGTH, WHY_MAX = 512 };

struct wg_tls_session *tls_session_of(const SSL *ssl)
{
    struct wg_tls_session *session = SSL_get_app_data(ssl);
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    return session;
}

struct wg_tls_session *wg_tls_session_new(struct wg_tls *tls, int fd)
{
    struct wg_tls_session *session = WG_NEW(struct wg_tls_session);
    session->magic = SESSION_MAGIC;
    session->fd = fd;
    session->tls = wg_tls_ref(tls);
    wg_buf_init(&session->why, WHY_MAX);
    ERR_clear_error();
    session->ssl = SSL_new(tls->certificates[0].ssl);
    BIO *bio = session->ssl ? tls_socket_new(session) : NULL;
    if (!bio || SSL_set_app_data(session->ssl, session) != 1) {
        BIO_free(bio);
        ERR_clear_error();
        return wg_tls_session_free(session);
    }
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_accept_state(session->ssl);
    return session;
}

struct wg_tls_session *wg_tls_session_free(struct wg_tls_session *session)
{
    if (!session)
        return NULL;
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    SSL_free(session->ssl);
    ERR_clear_error();
    wg_tls_unref(session->tls);
    tls_sans_clear(&session->sans);
    wg_buf_clear(&session->why);
    session->magic = 0;
    free(session);
    return NULL;
}

/* ---- how a call of OpenSSL ended ---- */

enum verdict {
    VERDICT_AGAIN,  /* the socket has no more, or takes no more */
    VERDICT_END,    /* end of file, with or without close_notify */
    VERDICT_SOCKET, /* socket_error says it */
    VERDICT_TLS,    /* OpenSSL's queue says it */
};

static enum verdict judge(struct wg_tls_session *session, int result)
{
    const int error = SSL_get_error(session->ssl, result);
    session->wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return VERDICT_AGAIN;
    if (error == SSL_ERROR_ZERO_RETURN)
        return VERDICT_END;
    if (error == SSL_ERROR_SYSCALL)
        return session->socket_error < 0 ? VERDICT_SOCKET : VERDICT_END;
    return VERDICT_TLS;
}

/* Notes what breaks the session, and empties OpenSSL's queue. */
static int error_of(struct wg_tls_session *session, enum verdict verdict)
{
    ERR_clear_error();
    if (verdict == VERDICT_AGAIN)
        return -EAGAIN;
    if (verdict == VERDICT_END)
        return 0;
    session->broken = true;
    return verdict == VERDICT_SOCKET ? session->socket_error : -EPROTO;
}

/* ---- handshake ---- */

static void say_why(struct wg_tls_session *session, enum verdict verdict)
{
    const unsigned long error = ERR_peek_last_error();
    const char *words = ERR_reason_error_string(error);
    const long verified = SSL_get_verify_result(session->ssl);
    if (verdict == VERDICT_END)
        wg_buf_add_str(&session->why, "the client closed the connection");
    else if (verdict == VERDICT_SOCKET)
        wg_buf_add_str(&session->why, strerrordesc_np(-session->socket_error));
    else if (verified != X509_V_OK && ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        wg_buf_addf(&session->why, "%s: %s", words, X509_verify_cert_error_string(verified));
    else
        wg_buf_add_str(&session->why, words ? words : "refused by OpenSSL");
}

static void finish_handshake(struct wg_tls_session *session)
{
    const X509 *client = SSL_get0_peer_certificate(session->ssl);
    session->done = true;
    session->wants_write = false;
    session->has_sans = client && SSL_get_verify_result(session->ssl) == X509_V_OK;
    if (session->has_sans)
        tls_sans_collect(client, &session->sans);
}

int wg_tls_handshake(struct wg_tls_session *session)
{
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    if (session->done || session->failure < 0)
        return session->failure;
    ERR_clear_error();
    const int result = SSL_do_handshake(session->ssl);
    if (result == 1) {
        finish_handshake(session);
        return 0;
    }
    const enum verdict verdict = judge(session, result);
    if (verdict != VERDICT_AGAIN)
        say_why(session, verdict);
    const int error = error_of(session, verdict);
    if (error != -EAGAIN)
        session->failure = error < 0 ? error : -ECONNRESET;
    return error < 0 ? error : -ECONNRESET;
}

/* ---- bytes ---- */

ssize_t wg_tls_read(struct wg_tls_session *session, void *buf, size_t len)
{
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    WG_ASSERT(session->done);
    size_t got = 0;
    int error = -EAGAIN;
    session->drained = session->wants_write = false;
    while (got < len && !session->ended) {
        size_t n;
        ERR_clear_error();
        const int result = SSL_read_ex(session->ssl, (char *)buf + got, len - got, &n);
        if (result == 1) {
            got += n;
            continue;
        }
        error = error_of(session, judge(session, result));
        if (error == -EAGAIN) {
            session->drained = !session->wants_write;
            break;
        }
        session->ended = true;
        session->end = error;
    }
    session->end_untold = session->ended && got > 0;
    if (got > 0)
        return (ssize_t)got;
    return session->ended ? session->end : error;
}

struct pieces {
    const struct iovec *iov;
    size_t skip; /* bytes of the first one that are gone */
    size_t left; /* in all of them */
};

static struct pieces pieces_of(const struct iovec *iov, int n)
{
    struct pieces pieces = {.iov = iov};
    for (int i = 0; i < n; i++)
        pieces.left += iov[i].iov_len;
    return pieces;
}

static void advance(struct pieces *pieces, size_t len)
{
    pieces->left -= len;
    pieces->skip += len;
    while (pieces->left > 0 && pieces->skip >= pieces->iov->iov_len)
        pieces->skip -= pieces->iov++->iov_len;
}

/* The first `len` bytes in one run: where they lie, if they lie in one piece, or gathered into room. */
static const char *run_of(struct pieces pieces, size_t len, char room[static RECORD_MAX])
{
    advance(&pieces, 0); /* over empty pieces */
    if (pieces.iov->iov_len - pieces.skip >= len)
        return (const char *)pieces.iov->iov_base + pieces.skip;
    for (size_t filled = 0; filled < len;) {
        const size_t n = WG_MIN(pieces.iov->iov_len - pieces.skip, len - filled);
        memcpy(room + filled, (const char *)pieces.iov->iov_base + pieces.skip, n);
        filled += n;
        advance(&pieces, n);
    }
    return room;
}

/* As one record, or more where the client asked for small ones. 0 or -errno; *taken grows in any case. */
static int write_run(struct wg_tls_session *session, const char *run, size_t len, size_t *taken)
{
    while (len > 0) {
        size_t n;
        ERR_clear_error();
        const int result = SSL_write_ex(session->ssl, run, len, &n);
        if (result != 1) {
            const int error = error_of(session, judge(session, result));
            session->retry = error == -EAGAIN ? len : 0;
            return error < 0 ? error : -EPIPE;
        }
        run += n;
        len -= n;
        *taken += n;
    }
    session->retry = 0;
    return 0;
}

ssize_t wg_tls_writev(struct wg_tls_session *session, const struct iovec *iov, int n)
{
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    WG_ASSERT(session->done);
    struct pieces pieces = pieces_of(iov, n);
    WG_ASSERT(pieces.left >= session->retry);
    char room[RECORD_MAX];
    size_t taken = 0;
    int error = session->broken || SSL_get_shutdown(session->ssl) & SSL_SENT_SHUTDOWN ? -EPIPE : 0;
    session->wants_write = false;
    while (error == 0 && pieces.left > 0) {
        const size_t len = session->retry ? session->retry : WG_MIN(pieces.left, (size_t)RECORD_MAX);
        const size_t before = taken;
        error = write_run(session, run_of(pieces, len, room), len, &taken);
        advance(&pieces, taken - before);
    }
    return taken > 0 ? (ssize_t)taken : error;
}

bool wg_tls_wants_write(const struct wg_tls_session *session)
{
    return session->wants_write;
}

bool wg_tls_pending(const struct wg_tls_session *session)
{
    if (session->ended)
        return session->end_untold;
    return session->done && !session->drained && SSL_has_pending(session->ssl);
}

void wg_tls_shutdown(struct wg_tls_session *session)
{
    WG_CHECK_OBJ(session, SESSION_MAGIC);
    if (!session->done || session->broken || SSL_get_shutdown(session->ssl) & SSL_SENT_SHUTDOWN)
        return;
    ERR_clear_error();
    SSL_shutdown(session->ssl);
    ERR_clear_error();
}

/* ---- after the handshake ---- */

bool wg_tls_is_h2(const struct wg_tls_session *session)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(session->ssl, &name, &len);
    return wg_slice_eq(wg_slice(name, len), WG_SLICE("h2"));
}

const struct wg_strings *wg_tls_sans(const struct wg_tls_session *session)
{
    return session->has_sans ? &session->sans : NULL;
}

const char *wg_tls_version(const struct wg_tls_session *session)
{
    return SSL_get_version(session->ssl);
}

const char *wg_tls_why(const struct wg_tls_session *session)
{
    return wg_buf_str(&session->why);
}
