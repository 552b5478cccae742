/* What the files of this room know of a context and of a session. */
#pragma once

#include "wakegate/tls.h"

#include <openssl/ssl.h>

struct tls_certificate {
    SSL_CTX *ssl;
    X509 *leaf; /* the context's */
};

struct wg_tls {
    uint32_t magic;
    _Atomic unsigned refs;
    struct wg_tls_tickets *tickets;
    BIO_METHOD *socket;
    struct tls_certificate *certificates; /* the first of them is the default */
    size_t n_certificates;
};

struct wg_tls_session {
    uint32_t magic;
    int fd;
    struct wg_tls *tls;
    SSL *ssl;
    bool done;        /* the handshake is */
    bool wants_write; /* see wg_tls_wants_write */
    bool drained;    /* the last read took all that was there: what OpenSSL still has is a part of a record */
    bool broken;     /* an error that OpenSSL does not survive, or the socket does not */
    bool ended;      /* reading came to its end, which is `end` */
    bool end_untold; /* and it was not told yet, since bytes came before it */
    int end;         /* 0, or a negative errno */
    int socket_error; /* of the last call to the socket: a negative errno, or 0 */
    int failure;      /* of the handshake: a negative errno, or 0 */
    size_t retry;     /* bytes that must be offered again, as they are a half-sent record already */
    bool has_sans;
    struct wg_strings sans;
    struct wg_buf why;
};

struct wg_tls_session *tls_session_of(const SSL *ssl);

/* A BIO on the session's descriptor, whose method lives as long as the context. NULL if memory is gone. */
BIO_METHOD *tls_socket_method(void);
BIO *tls_socket_new(struct wg_tls_session *session);

/* The DNS, URI and e-mail names of a certificate, at most TLS_SANS_MAX of TLS_SAN_BYTES bytes. */
enum { TLS_SANS_MAX = 32, TLS_SAN_BYTES = 512 };
void tls_sans_collect(const X509 *certificate, struct wg_strings *ret_sans);
void tls_sans_clear(struct wg_strings *sans);
