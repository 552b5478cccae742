/* Keys of session tickets, as contexts and tests use them. */
#pragma once

#include "wakegate/tls.h"

#include <openssl/ssl.h>

/* wg_tls_tickets_new on another clock. */
struct wg_tls_tickets *tickets_new_on(wg_usec (*now)(void));

/* For SSL_CTX_set_tlsext_ticket_key_evp_cb, on connections that are sessions of ours. */
int tickets_on_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                   int sealing);
/* For SSL_CTX_set_session_ticket_cb: no session outlives the client's certificate. */
SSL_TICKET_RETURN tickets_on_opened(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                    size_t name_len, SSL_TICKET_STATUS status, void *arg);
