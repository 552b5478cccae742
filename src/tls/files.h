/* PEM files of certificates and keys, with words for what is wrong with them. */
#pragma once

#include "wakegate/base/buf.h"

#include <openssl/x509.h>

/* A regular file of at most 1 MiB: NULL, or what is wrong. The buffer may hold a part then. */
const char *pem_read(const char *path, struct wg_buf *out);

/* NULL, or what is wrong. At least one certificate on success, in the file's order. */
const char *pem_certificates(struct wg_slice pem, STACK_OF(X509) * *ret_certificates);
const char *pem_key(struct wg_slice pem, EVP_PKEY **ret_key);

/* What OpenSSL says of its last error; empties its queue. */
const char *pem_openssl_words(void);
