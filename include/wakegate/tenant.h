/* Who is asking: keys out of the request's headers, their hashes, and the tenant that owns them.
 * Nothing here keeps state: the cost of an unknown key is one SHA-256 and one look-up, for the millionth as
 * for the first. */
#pragma once

#include "wakegate/config.h"

/* The credentials of one request; slices borrow the request's head. An empty slice: header absent. More than
 * one field of a kind with different values must be told by `conflict`. */
struct wg_credentials {
    struct wg_slice authorization; /* whole value: "Bearer KEY" in any case, spaces around allowed */
    struct wg_slice x_api_key, api_key;
    bool conflict;                 /* a repeated field with another value */
    const struct wg_strings *sans; /* names in the client's verified certificate, or NULL */
};

enum wg_identity {
    WG_IDENTITY_TENANT,   /* *ret_tenant is who */
    WG_IDENTITY_UNKNOWN,  /* no key where one is needed, or a key nobody has: 401 */
    WG_IDENTITY_CONFLICT, /* two different keys in one request, or it and its certificate name two tenants:
                             400 */
};

/* A known key decides. Beside it the client's certificate may name nobody or the same tenant, else it is a
 * conflict, as are names of two tenants in one certificate. Without a key, or with one that nobody has (SDKs
 * insist on sending something), the tenant is the certificate's. Copies of the key made on the way are wiped.
 */
enum wg_identity wg_tenant_identify(const struct wg_config *config, const struct wg_credentials *credentials,
                                    const struct wg_config_tenant **ret_tenant);
/* For the admin listener: true if one of `keys` was sent. */
bool wg_keys_match(const struct wg_key *keys, size_t n, const struct wg_credentials *credentials);

void wg_key_hash(struct wg_slice key, struct wg_key *ret_key);
/* A new random key ("wg-" and 43 characters of base64url) and its hash in hex (64 characters): 0 or -errno.
 */
WG_MUST_CHECK int wg_key_make(char out_key[static 64], char out_sha256[static 65]);
