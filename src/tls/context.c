/* What a listener presents: one OpenSSL context for each certificate, alike but for it. */
#include "files.h"
#include "tickets.h"
#include "tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TLS_MAGIC 0x71537c7a

/* Until then a session is resumed without its certificates being looked at again. */
#define SESSION_SECONDS (2 * 3600)

enum { FILE_MAX = 1024 * 1024, VERIFY_DEPTH = 8 };

static const char suites_12[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                                "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                                "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";

/* What the certificates of clients are checked against. */
struct client_ca {
    X509_STORE *store; /* NULL: clients are not asked for certificates */
    STACK_OF(X509_NAME) * names;
    uint8_t sha256[32]; /* of the file's content */
};

static int complain(struct wg_buf *why, const char *option, const char *file, const char *wrong)
{
    wg_buf_addf(why, "%s %s: %s", option, file, wrong);
    return -EINVAL;
}

static void wipe(struct wg_buf *buf)
{
    if (buf->data)
        OPENSSL_cleanse(buf->data, buf->cap);
    wg_buf_clear(buf);
}

/* ---- callbacks of OpenSSL ---- */

static int on_alpn(SSL *ssl WG_UNUSED, const unsigned char **ret_name, unsigned char *ret_len,
                   const unsigned char *offered, unsigned offered_len, void *arg WG_UNUSED)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, ret_len, ours, sizeof(ours) - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* A certificate that has the name itself goes before one with a wildcard; NULL: none has it. */
static const struct tls_certificate *certificate_for(const struct wg_tls *tls, const char *name)
{
    static const unsigned passes[] = {X509_CHECK_FLAG_NO_WILDCARDS, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS};
    for (size_t pass = 0; pass < WG_COUNT_OF(passes); pass++)
        for (size_t i = 0; i < tls->n_certificates; i++)
            if (X509_check_host(tls->certificates[i].leaf, name, 0, passes[pass], NULL) == 1)
                return &tls->certificates[i];
    return NULL;
}

static int on_server_name(SSL *ssl, int *alert WG_UNUSED, void *arg WG_UNUSED)
{
    const struct wg_tls *tls = tls_session_of(ssl)->tls;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct tls_certificate *certificate = name ? certificate_for(tls, name) : NULL;
    if (!certificate)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_SSL_CTX(ssl, certificate->ssl);
    return SSL_TLSEXT_ERR_OK;
}

/* ---- one context ---- */

/* AUTO_RETRY off: a peer that sends messages without data (key updates) does not hold the thread. */
static bool set_up_protocol(SSL_CTX *ssl)
{
    char groups[] = "X25519:P-256:P-384"; /* OpenSSL's macro takes the const away */
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_alpn_select_cb(ssl, on_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(ssl, on_server_name);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, suites_12) == 1 && SSL_CTX_set1_groups_list(ssl, groups) == 1;
}

static bool set_up_sessions(SSL_CTX *ssl, const struct client_ca *ca)
{
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ssl, SESSION_SECONDS);
    return SSL_CTX_set_num_tickets(ssl, 1) == 1 &&
           SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, tickets_on_key) == 1 &&
           SSL_CTX_set_session_ticket_cb(ssl, NULL, tickets_on_opened, NULL) == 1 &&
           SSL_CTX_set_session_id_context(ssl, ca->sha256, sizeof(ca->sha256)) == 1;
}

static bool set_up_client_ca(SSL_CTX *ssl, const struct client_ca *ca)
{
    if (!ca->store)
        return true;
    STACK_OF(X509_NAME) *names = SSL_dup_CA_list(ca->names);
    if (!names)
        return false;
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set1_cert_store(ssl, ca->store);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_verify_depth(ssl, VERIFY_DEPTH);
    return true;
}

static SSL_CTX *new_context(const struct client_ca *ca)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (ssl && set_up_protocol(ssl) && set_up_sessions(ssl, ca) && set_up_client_ca(ssl, ca))
        return ssl;
    SSL_CTX_free(ssl);
    return NULL;
}

/* ---- its certificate ---- */

static const char *load_certificates(const char *file, STACK_OF(X509) * *ret_chain)
{
    struct wg_buf pem = WG_BUF_INIT(FILE_MAX);
    const char *wrong = pem_read(file, &pem);
    if (!wrong)
        wrong = pem_certificates(wg_buf_slice(&pem), ret_chain);
    wipe(&pem); /* certificate and key may be one file */
    return wrong;
}

static const char *load_key(const char *file, EVP_PKEY **ret_key)
{
    struct wg_buf pem = WG_BUF_INIT(FILE_MAX);
    const char *wrong = pem_read(file, &pem);
    if (!wrong)
        wrong = pem_key(wg_buf_slice(&pem), ret_key);
    wipe(&pem);
    return wrong;
}

static bool use_chain(SSL_CTX *ssl, STACK_OF(X509) * chain)
{
    if (SSL_CTX_use_certificate(ssl, sk_X509_value(chain, 0)) != 1)
        return false;
    for (int i = 1; i < sk_X509_num(chain); i++)
        if (SSL_CTX_add1_chain_cert(ssl, sk_X509_value(chain, i)) != 1)
            return false;
    return true;
}

/* Certificate first: OpenSSL compares a key with the certificate that is there. */
static int use_pair(SSL_CTX *ssl, const char *cert_file, const char *key_file, struct wg_buf *why)
{
    STACK_OF(X509) *chain = NULL;
    EVP_PKEY *key = NULL;
    int error = 0;
    const char *wrong = load_certificates(cert_file, &chain);
    if (!wrong && !use_chain(ssl, chain))
        wrong = pem_openssl_words();
    if (wrong) {
        error = complain(why, "certFile", cert_file, wrong);
        goto out;
    }
    wrong = load_key(key_file, &key);
    if (!wrong && X509_check_private_key(sk_X509_value(chain, 0), key) != 1)
        wrong = "not the key of the certificate";
    else if (!wrong && SSL_CTX_use_PrivateKey(ssl, key) != 1)
        wrong = pem_openssl_words();
    if (wrong)
        error = complain(why, "keyFile", key_file, wrong);
out:
    ERR_clear_error();
    sk_X509_pop_free(chain, X509_free);
    EVP_PKEY_free(key);
    return error;
}

static int add_certificate(struct wg_tls *tls, const struct client_ca *ca, const char *cert_file,
                           const char *key_file, struct wg_buf *why)
{
    SSL_CTX *ssl = new_context(ca);
    if (!ssl)
        return complain(why, "certFile", cert_file, pem_openssl_words());
    struct tls_certificate *certificate = &tls->certificates[tls->n_certificates++];
    certificate->ssl = ssl;
    const int error = use_pair(ssl, cert_file, key_file, why);
    certificate->leaf = SSL_CTX_get0_certificate(ssl);
    return error;
}

/* ---- the clients' CA ---- */

static void client_ca_clear(struct client_ca *ca)
{
    X509_STORE_free(ca->store);
    sk_X509_NAME_pop_free(ca->names, X509_NAME_free);
}

static void trust(struct client_ca *ca, X509 *certificate)
{
    X509_NAME *name = X509_NAME_dup(X509_get_subject_name(certificate));
    WG_ASSERT(name && sk_X509_NAME_push(ca->names, name) > 0);
    WG_ASSERT(X509_STORE_add_cert(ca->store, certificate) == 1);
}

static int client_ca_load(struct client_ca *ca, const char *file, struct wg_buf *why)
{
    struct wg_buf pem = WG_BUF_INIT(FILE_MAX);
    STACK_OF(X509) *certificates = NULL;
    const char *wrong = file[0] ? pem_read(file, &pem) : NULL;
    WG_ASSERT(EVP_Digest(pem.len > 0 ? pem.data : "", pem.len, ca->sha256, NULL, EVP_sha256(), NULL) == 1);
    if (!wrong && file[0])
        wrong = pem_certificates(wg_buf_slice(&pem), &certificates);
    wg_buf_clear(&pem);
    if (wrong)
        return complain(why, "clientCaFile", file, wrong);
    if (!file[0])
        return 0;
    ca->store = X509_STORE_new();
    ca->names = sk_X509_NAME_new_null();
    WG_ASSERT(ca->store && ca->names);
    for (int i = 0; i < sk_X509_num(certificates); i++)
        trust(ca, sk_X509_value(certificates, i));
    sk_X509_pop_free(certificates, X509_free);
    return 0;
}

/* ---- all of it ---- */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static int add_all(struct wg_tls *tls, const struct wg_config_tls *config, struct wg_buf *why)
{
    struct client_ca ca = {0};
    int error = client_ca_load(&ca, or_empty(config->client_ca_file), why);
    if (error == 0)
        error = add_certificate(tls, &ca, config->cert_file, or_empty(config->key_file), why);
    for (size_t i = 0; error == 0 && i < config->n_certificates; i++) {
        const struct wg_config_certificate *pair = &config->certificates[i];
        error = add_certificate(tls, &ca, pair->cert_file, or_empty(pair->key_file), why);
    }
    client_ca_clear(&ca);
    return error;
}

int wg_tls_new(const struct wg_config_tls *config, struct wg_tls_tickets *tickets, struct wg_tls **ret_tls,
               struct wg_buf *why)
{
    struct wg_tls *tls = WG_NEW(struct wg_tls);
    tls->magic = TLS_MAGIC;
    atomic_init(&tls->refs, 1);
    tls->tickets = tickets;
    tls->certificates = wg_xcalloc(1 + config->n_certificates, sizeof(*tls->certificates));
    tls->socket = tls_socket_method();
    WG_ASSERT(tls->socket);
    ERR_clear_error();
    const int error = add_all(tls, config, why);
    if (error == 0)
        *ret_tls = tls;
    else
        wg_tls_unref(tls);
    return error;
}

struct wg_tls *wg_tls_ref(struct wg_tls *tls)
{
    WG_CHECK_OBJ(tls, TLS_MAGIC);
    atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
    return tls;
}

struct wg_tls *wg_tls_unref(struct wg_tls *tls)
{
    if (!tls)
        return NULL;
    WG_CHECK_OBJ(tls, TLS_MAGIC);
    if (atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) > 1)
        return NULL;
    for (size_t i = 0; i < tls->n_certificates; i++)
        SSL_CTX_free(tls->certificates[i].ssl);
    free(tls->certificates);
    BIO_meth_free(tls->socket);
    tls->magic = 0;
    free(tls);
    return NULL;
}
