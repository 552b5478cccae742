/* Puts TLS in front of a scripted server: a process for each connection that only passes bytes. */
#pragma once

#include "scripted_server.h"
#include "tls_pki.h"

#include <openssl/ssl.h>
#include <poll.h>

/* Shows `identity`; asks clients for a certificate of `client_ca` unless that is NULL, but takes them without
 * one. Freed with SSL_CTX_free when the server was stopped. */
static inline SSL_CTX *scripted_tls_context(const struct identity *identity, const struct identity *client_ca)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(context, identity->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, identity->key), 1);
    if (client_ca) {
        assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), client_ca->certificate), 1);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_session_id_context(context, (const unsigned char *)"test", 4);
    }
    return context;
}

static inline void scripted_tls_note(SSL *tls, struct scripted_seen *seen)
{
    X509 *certificate = SSL_get1_peer_certificate(tls);
    const char *sni = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name);
    seen->peer[0] = '\0';
    if (certificate)
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, seen->peer,
                                  sizeof(seen->peer));
    X509_free(certificate);
    snprintf(seen->sni, sizeof(seen->sni), "%s", sni ? sni : "");
}

/* False when one side has ended. */
static inline bool scripted_tls_pass(SSL *tls, int plain)
{
    char bytes[16384];
    struct pollfd fds[] = {{.fd = SSL_get_fd(tls), .events = POLLIN}, {.fd = plain, .events = POLLIN}};
    if (SSL_pending(tls) == 0 && poll(fds, 2, -1) < 0)
        return false;
    if (SSL_pending(tls) > 0 || fds[0].revents) {
        const int n = SSL_read(tls, bytes, sizeof(bytes));
        return n > 0 && send(plain, bytes, (size_t)n, MSG_NOSIGNAL) == n;
    }
    const ssize_t n = recv(plain, bytes, sizeof(bytes), 0);
    return n > 0 && SSL_write(tls, bytes, (int)n) == n;
}

static inline int scripted_tls_wrap(int fd, void *context, struct scripted_seen *seen)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        _exit(1);
    if (fork() > 0) {
        close(fd);
        close(ends[1]);
        return ends[0];
    }
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if (SSL_accept(tls) == 1) {
        scripted_tls_note(tls, seen);
        while (scripted_tls_pass(tls, ends[1]))
            ;
        SSL_shutdown(tls);
    }
    _exit(0);
}

static inline struct scripted_server scripted_start_tls(scripted_answer *answer, SSL_CTX *context)
{
    return scripted_start_wrapped(answer, scripted_tls_wrap, context);
}
