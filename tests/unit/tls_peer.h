/* A context of ours from a test's files, and an OpenSSL client that talks to a session of it over a
 * socketpair, one side after the other. */
#pragma once

#include "tls_pki.h"

#include "wakegate/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

enum { PEER_ROUNDS = 10000 };

/* The configuration that names the files of the test: names without ".crt" and ".key", the first the default;
 * ca NULL: no clients' certificates. */
struct peer_files {
    struct wg_config_tls config;
    struct wg_config_certificate more[4];
};

static inline void peer_files_init(struct peer_files *files, const struct pki *pki, const char *const *names,
                                   const char *ca)
{
    *files = (struct peer_files){0};
    files->config.cert_file = wg_xasprintf("%s/%s.crt", pki->folder, names[0]);
    files->config.key_file = wg_xasprintf("%s/%s.key", pki->folder, names[0]);
    files->config.client_ca_file = ca ? wg_xasprintf("%s/%s.crt", pki->folder, ca) : wg_xstrdup("");
    files->config.certificates = files->more;
    for (size_t i = 1; names[i]; i++) {
        assert_true(i <= WG_COUNT_OF(files->more));
        files->more[i - 1].cert_file = wg_xasprintf("%s/%s.crt", pki->folder, names[i]);
        files->more[i - 1].key_file = wg_xasprintf("%s/%s.key", pki->folder, names[i]);
        files->config.n_certificates = i;
    }
}

static inline void peer_files_clear(struct peer_files *files)
{
    free(files->config.cert_file);
    free(files->config.key_file);
    free(files->config.client_ca_file);
    for (size_t i = 0; i < files->config.n_certificates; i++) {
        free(files->more[i].cert_file);
        free(files->more[i].key_file);
    }
}

static inline struct wg_tls *peer_tls_new(const struct pki *pki, struct wg_tls_tickets *tickets,
                                          const char *const *names, const char *ca)
{
    struct peer_files files;
    struct wg_buf why = WG_BUF_INIT(1024);
    struct wg_tls *tls = NULL;
    peer_files_init(&files, pki, names, ca);
    const int error = wg_tls_new(&files.config, tickets, &tls, &why);
    if (error < 0)
        fail_msg("%s", wg_buf_str(&why));
    assert_string_equal(wg_buf_str(&why), "");
    wg_buf_clear(&why);
    peer_files_clear(&files);
    return tls;
}

/* Just the server's certificate "server". */
static inline struct wg_tls *peer_tls_simple(const struct pki *pki, struct wg_tls_tickets *tickets,
                                             const char *ca)
{
    return peer_tls_new(pki, tickets, (const char *const[]){"server", NULL}, ca);
}

struct peer_spec {
    int version;             /* TLS1_2_VERSION: that one alone; 0: the newest */
    const char *server_name; /* SNI; NULL: none */
    const char *alpn;        /* as on the wire, "\x02h2"; NULL: none */
    const char *suites;      /* of TLS 1.2 and before */
    const char *identity;    /* the client's certificate */
    SSL_SESSION *session;
};

struct peer {
    SSL *client;
    struct wg_tls_session *server;
    int client_fd, server_fd;
    int server_result, client_error; /* of the handshake */
};

static inline void peer_use_identity(SSL_CTX *context, const struct pki *pki, const char *name)
{
    char *certificate WG_AUTO_FREE = wg_xasprintf("%s/%s.crt", pki->folder, name);
    char *key WG_AUTO_FREE = wg_xasprintf("%s/%s.key", pki->folder, name);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1);
}

/* A client on a descriptor that is not connected to anything of ours yet. Security level 0, so that it offers
 * what must be refused. */
static inline SSL *peer_client_new(const struct pki *pki, int fd, struct peer_spec spec)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(context, 0);
    if (spec.version)
        assert_true(SSL_CTX_set_min_proto_version(context, spec.version) &&
                    SSL_CTX_set_max_proto_version(context, spec.version));
    if (spec.suites)
        assert_int_equal(SSL_CTX_set_cipher_list(context, spec.suites), 1);
    if (spec.alpn)
        SSL_CTX_set_alpn_protos(context, (const unsigned char *)spec.alpn, (unsigned)strlen(spec.alpn));
    if (spec.identity)
        peer_use_identity(context, pki, spec.identity);
    SSL *client = SSL_new(context);
    SSL_CTX_free(context);
    if (spec.server_name)
        SSL_ctrl(client, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 (void *)(uintptr_t)spec.server_name); /* the macro casts the const away */
    if (spec.session)
        assert_int_equal(SSL_set_session(client, spec.session), 1);
    SSL_set_fd(client, fd);
    SSL_set_connect_state(client);
    return client;
}

static inline struct peer peer_open(const struct pki *pki, struct wg_tls *tls, struct peer_spec spec)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    struct peer peer = {.server_fd = fds[0], .client_fd = fds[1]};
    peer.server = wg_tls_session_new(tls, fds[0]);
    assert_non_null(peer.server);
    peer.client = peer_client_new(pki, fds[1], spec);
    return peer;
}

static inline void peer_close(struct peer *peer)
{
    SSL_free(peer->client);
    wg_tls_session_free(peer->server);
    close(peer->client_fd);
    close(peer->server_fd);
}

/* Turn by turn until both sides are through or have failed. */
static inline void peer_shake(struct peer *peer)
{
    peer->server_result = -EAGAIN;
    peer->client_error = SSL_ERROR_WANT_READ;
    for (int i = 0; i < PEER_ROUNDS; i++) {
        if (peer->client_error == SSL_ERROR_WANT_READ) {
            ERR_clear_error();
            peer->client_error = SSL_get_error(peer->client, SSL_do_handshake(peer->client));
        }
        assert_int_equal(ERR_peek_error() != 0, peer->client_error == SSL_ERROR_SSL);
        ERR_clear_error();
        if (peer->server_result == -EAGAIN)
            peer->server_result = wg_tls_handshake(peer->server);
        assert_int_equal(ERR_peek_error(), 0); /* nothing of ours is left for other calls */
        if (peer->server_result != -EAGAIN && peer->client_error != SSL_ERROR_WANT_READ)
            return;
        if (peer->server_result < 0 && peer->server_result != -EAGAIN && i > 10)
            return;
    }
    fail_msg("the handshake does not end");
}

static inline struct peer peer_connect(const struct pki *pki, struct wg_tls *tls, struct peer_spec spec)
{
    struct peer peer = peer_open(pki, tls, spec);
    peer_shake(&peer);
    if (peer.server_result < 0)
        fail_msg("handshake: %s", wg_tls_why(peer.server));
    assert_int_equal(peer.client_error, SSL_ERROR_NONE);
    return peer;
}

/* The handshake must fail, with these words. */
static inline void peer_refused(const struct pki *pki, struct wg_tls *tls, struct peer_spec spec,
                                const char *why)
{
    struct peer peer = peer_open(pki, tls, spec);
    peer_shake(&peer);
    assert_int_equal(peer.server_result, -EPROTO);
    assert_string_equal(wg_tls_why(peer.server), why);
    assert_int_equal(wg_tls_handshake(peer.server), -EPROTO);
    peer_close(&peer);
}

static inline void peer_client_sends(struct peer *peer, const void *data, size_t len)
{
    assert_int_equal(SSL_write(peer->client, data, (int)len), len);
}

/* What the server sends comes to the client, whole. */
static inline void peer_server_sends(struct peer *peer, const char *text)
{
    const struct iovec iov = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
    char got[256];
    assert_true(strlen(text) < sizeof(got));
    assert_int_equal(wg_tls_writev(peer->server, &iov, 1), strlen(text));
    assert_int_equal(SSL_read(peer->client, got, sizeof(got)), strlen(text));
    assert_memory_equal(got, text, strlen(text));
}
