/* Keys of session tickets: which one seals, which ones open, and when they go. */
#include "tickets.h"
#include "tls_internal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 16, KEY_BYTES = 32 };

struct ticket_key {
    uint8_t name[NAME_BYTES], cipher[KEY_BYTES], mac[KEY_BYTES];
    wg_usec born;
    bool valid;
};

struct wg_tls_tickets {
    pthread_mutex_t lock;
    wg_usec (*now)(void);
    struct ticket_key newest, older;
};

static void wipe(struct ticket_key *key)
{
    OPENSSL_cleanse(key, sizeof(*key));
}

static bool make(struct ticket_key *key, wg_usec now)
{
    key->born = now;
    key->valid = RAND_bytes(key->name, sizeof(key->name)) == 1 &&
                 RAND_priv_bytes(key->cipher, sizeof(key->cipher)) == 1 &&
                 RAND_priv_bytes(key->mac, sizeof(key->mac)) == 1;
    return key->valid;
}

struct wg_tls_tickets *tickets_new_on(wg_usec (*now)(void))
{
    struct wg_tls_tickets *tickets = WG_NEW(struct wg_tls_tickets);
    WG_ASSERT(pthread_mutex_init(&tickets->lock, NULL) == 0);
    tickets->now = now;
    return make(&tickets->newest, now()) ? tickets : wg_tls_tickets_free(tickets);
}

struct wg_tls_tickets *wg_tls_tickets_new(void)
{
    return tickets_new_on(wg_clock_monotonic);
}

struct wg_tls_tickets *wg_tls_tickets_free(struct wg_tls_tickets *tickets)
{
    if (!tickets)
        return NULL;
    pthread_mutex_destroy(&tickets->lock);
    wipe(&tickets->newest);
    wipe(&tickets->older);
    free(tickets);
    return NULL;
}

/* Under the lock. Without randomness there is no newest key, and so no ticket, until there is some. */
static void rotate(struct wg_tls_tickets *tickets)
{
    const wg_usec now = tickets->now();
    if (!tickets->newest.valid || now - tickets->newest.born >= WG_TLS_TICKET_ROTATION) {
        if (tickets->newest.valid)
            tickets->older = tickets->newest;
        make(&tickets->newest, now);
    }
    if (tickets->older.valid && now - tickets->older.born >= 2 * WG_TLS_TICKET_ROTATION)
        wipe(&tickets->older);
}

/* Copies the key out, so that the lock is short. `name` NULL: the one that seals. */
static bool find(struct wg_tls_tickets *tickets, const unsigned char *name, struct ticket_key *ret_key,
                 bool *ret_newest)
{
    bool found = false;
    pthread_mutex_lock(&tickets->lock);
    rotate(tickets);
    for (int i = 0; i < (name ? 2 : 1) && !found; i++) {
        const struct ticket_key *key = i == 0 ? &tickets->newest : &tickets->older;
        found = key->valid && (!name || memcmp(key->name, name, NAME_BYTES) == 0);
        if (found) {
            *ret_key = *key;
            *ret_newest = i == 0;
        }
    }
    pthread_mutex_unlock(&tickets->lock);
    return found;
}

static bool init_mac(EVP_MAC_CTX *mac, struct ticket_key *key)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

static bool init_sealing(struct ticket_key *key, unsigned char *name, unsigned char *iv,
                         EVP_CIPHER_CTX *cipher)
{
    const EVP_CIPHER *kind = EVP_aes_256_cbc();
    memcpy(name, key->name, NAME_BYTES);
    return RAND_bytes(iv, EVP_CIPHER_get_iv_length(kind)) == 1 &&
           EVP_EncryptInit_ex(cipher, kind, NULL, key->cipher, iv) == 1;
}

/* 0: no ticket, or a full handshake. 2: good, but to be replaced by one of the newest key. */
int tickets_on_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                   int sealing)
{
    struct wg_tls_tickets *tickets = tls_session_of(ssl)->tls->tickets;
    struct ticket_key key;
    bool newest;
    if (!find(tickets, sealing ? NULL : name, &key, &newest))
        return 0;
    const bool ready = init_mac(mac, &key) &&
                       (sealing ? init_sealing(&key, name, iv, cipher)
                                : EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1);
    wipe(&key);
    if (!ready)
        return 0;
    return newest ? 1 : 2;
}

static bool has_expired(SSL_SESSION *session)
{
    const X509 *client = SSL_SESSION_get0_peer(session);
    return client && X509_cmp_current_time(X509_get0_notAfter(client)) <= 0;
}

SSL_TICKET_RETURN tickets_on_opened(SSL *ssl WG_UNUSED, SSL_SESSION *session,
                                    const unsigned char *name WG_UNUSED, size_t name_len WG_UNUSED,
                                    SSL_TICKET_STATUS status, void *arg WG_UNUSED)
{
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    if (has_expired(session))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}
