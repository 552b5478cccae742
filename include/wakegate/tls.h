/* TLS towards clients, on OpenSSL 3: contexts made from files, and sessions on nonblocking sockets.
 * TLS 1.2 (ECDHE and AEAD only) and 1.3, no renegotiation, no compression; ALPN chooses h2, then http/1.1
 * (RFC 7301). A context is immutable and counted: any thread may hold it. A session belongs to the thread of
 * its connection. */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "wakegate/config.h"

/* Keys of session tickets (RFC 5077, RFC 8446 4.6.1), shared by all contexts of the process and outliving
 * their replacement. Its own short lock is inside. New tickets are made with the newest key; a key is used
 * for WG_TLS_TICKET_ROTATION and understood for as long again. */
struct wg_tls_tickets;
#define WG_TLS_TICKET_ROTATION (12 * 3600 * WG_USEC_PER_SEC)
/* NULL if the system has no randomness. */
struct wg_tls_tickets *wg_tls_tickets_new(void);
/* After the last context that was made with it. NULL-safe. */
struct wg_tls_tickets *wg_tls_tickets_free(struct wg_tls_tickets *tickets);

/* What one listener presents: its certificates, and the CA that clients' certificates must come from. Of the
 * certificates for the name that a client asks for (SNI), one that has the name itself goes before one with a
 * wildcard; the first certificate of all is the answer to a name that none has, and to no name. */
struct wg_tls;
/* Reads and checks all files. 0, or -EINVAL with the reason in `why` ("certFile tls.crt: ..."), fit for a
 * fault of the configuration. An expired certificate is no fault. A session begun under one client CA is
 * not resumed under another, nor when the client's certificate has expired. tickets is borrowed. */
WG_MUST_CHECK int wg_tls_new(const struct wg_config_tls *config, struct wg_tls_tickets *tickets,
                             struct wg_tls **ret_tls, struct wg_buf *why);
struct wg_tls *wg_tls_ref(struct wg_tls *tls);
/* NULL-safe. */
struct wg_tls *wg_tls_unref(struct wg_tls *tls);

/* The server's side of one connection. Holds a reference to tls, borrows fd. NULL if memory is gone. */
struct wg_tls_session;
struct wg_tls_session *wg_tls_session_new(struct wg_tls *tls, int fd);
struct wg_tls_session *wg_tls_session_free(struct wg_tls_session *session);

/* 0: done, -EAGAIN (see wg_tls_wants_write), or another negative errno: it failed, wg_tls_why says how. */
WG_MUST_CHECK int wg_tls_handshake(struct wg_tls_session *session);
/* Bytes, filling buf as far as records are here; 0 at the end, with or without close_notify; -EAGAIN; -errno.
 */
ssize_t wg_tls_read(struct wg_tls_session *session, void *buf, size_t len);
/* Bytes taken, as records of up to 16 KiB, small pieces gathered into one; -EAGAIN; -errno. After -EAGAIN, or
 * a part, the bytes that were not taken must be the first that are offered again. */
ssize_t wg_tls_writev(struct wg_tls_session *session, const struct iovec *iov, int n);
/* The last -EAGAIN waits for the socket to take bytes, not to give some. */
bool wg_tls_wants_write(const struct wg_tls_session *session);
/* Bytes were read from the socket that wg_tls_read did not hand out yet. */
bool wg_tls_pending(const struct wg_tls_session *session);
/* Sends close_notify, as far as the socket takes it. */
void wg_tls_shutdown(struct wg_tls_session *session);

/* ---- after the handshake ---- */
bool wg_tls_is_h2(const struct wg_tls_session *session);
/* The subject alternative names (DNS, URI, e-mail) of the client's verified certificate: the first 32,
 * without those that are over 512 bytes or have a NUL inside. NULL without a certificate. */
const struct wg_strings *wg_tls_sans(const struct wg_tls_session *session);
/* "TLSv1.3", for logs. */
const char *wg_tls_version(const struct wg_tls_session *session);
/* Why the handshake failed; "" if it did not. */
const char *wg_tls_why(const struct wg_tls_session *session);
