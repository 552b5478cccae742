/* Keys: out of the headers, into a hash, to a tenant. Nothing is remembered of a key that nobody has, and
 * every copy of one is wiped. */
#include "wakegate/tenant.h"

#include "wakegate/base/map.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#define KEY_BYTES 32

void wg_key_hash(struct wg_slice key, struct wg_key *ret_key)
{
    unsigned len = 0;
    WG_ASSERT(EVP_Digest(key.ptr, key.len, ret_key->sha256, &len, EVP_sha256(), NULL) == 1);
    WG_ASSERT(len == sizeof(ret_key->sha256));
}

/* "Bearer KEY", the scheme in any case (RFC 9110 11.1); another scheme is no key of ours. */
static struct wg_slice bearer(struct wg_slice authorization)
{
    const struct wg_slice scheme = WG_SLICE("bearer"), value = wg_slice_trim(authorization);
    if (value.len <= scheme.len || !wg_slice_eq_nocase(wg_slice(value.ptr, scheme.len), scheme))
        return (struct wg_slice){0};
    const char next = value.ptr[scheme.len];
    if (next != ' ' && next != '\t')
        return (struct wg_slice){0};
    return wg_slice_trim(wg_slice(value.ptr + scheme.len, value.len - scheme.len));
}

/* The one key that was sent, empty if none: 0, or -EEXIST when there are two different ones. */
static int one_key(const struct wg_credentials *credentials, struct wg_slice *ret_key)
{
    const struct wg_slice sent[] = {
        bearer(credentials->authorization),
        wg_slice_trim(credentials->x_api_key),
        wg_slice_trim(credentials->api_key),
    };
    struct wg_slice key = {0};
    if (credentials->conflict)
        return -EEXIST;
    for (size_t i = 0; i < WG_COUNT_OF(sent); i++) {
        if (sent[i].len == 0)
            continue;
        if (key.len > 0 && !wg_slice_eq(key, sent[i]))
            return -EEXIST;
        key = sent[i];
    }
    *ret_key = key;
    return 0;
}

static const struct wg_config_tenant *tenant_called(const struct wg_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_tenants; i++)
        if (strcmp(config->tenants[i].name, name) == 0)
            return &config->tenants[i];
    return NULL;
}

static const struct wg_config_tenant *owner_of(const struct wg_config *config, struct wg_slice key)
{
    struct wg_key hash;
    wg_key_hash(key, &hash);
    const struct wg_config_tenant *tenant =
        wg_map_get(config->by_key, wg_slice(hash.sha256, sizeof(hash.sha256)));
    OPENSSL_cleanse(&hash, sizeof(hash));
    return tenant;
}

enum wg_identity wg_tenant_identify(const struct wg_config *config, const struct wg_credentials *credentials,
                                    const struct wg_config_tenant **ret_tenant)
{
    const struct wg_config_tenant *tenant = NULL;
    struct wg_slice key;
    if (config->open)
        tenant = &config->tenants[0];
    else if (one_key(credentials, &key) < 0)
        return WG_IDENTITY_CONFLICT;
    else if (key.len > 0)
        tenant = owner_of(config, key);
    else if (config->anonymous_allow)
        tenant = tenant_called(config, "anonymous");
    if (!tenant)
        return WG_IDENTITY_UNKNOWN;
    *ret_tenant = tenant;
    return WG_IDENTITY_TENANT;
}

bool wg_keys_match(const struct wg_key *keys, size_t n, const struct wg_credentials *credentials)
{
    struct wg_slice key;
    struct wg_key hash;
    bool found = false;
    if (one_key(credentials, &key) < 0 || key.len == 0)
        return false;
    wg_key_hash(key, &hash);
    for (size_t i = 0; i < n; i++)
        found |= CRYPTO_memcmp(keys[i].sha256, hash.sha256, sizeof(hash.sha256)) == 0;
    OPENSSL_cleanse(&hash, sizeof(hash));
    return found;
}

/* base64url without padding (RFC 4648 section 5). */
static size_t encode(const uint8_t *bytes, size_t n, char *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t held = 0;
    unsigned bits = 0;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        held = held << 8 | bytes[i];
        for (bits += 8; bits >= 6; bits -= 6)
            out[len++] = alphabet[held >> (bits - 6) & 63];
    }
    if (bits > 0)
        out[len++] = alphabet[held << (6 - bits) & 63];
    out[len] = '\0';
    return len;
}

int wg_key_make(char out_key[static 64], char out_sha256[static 65])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bytes[KEY_BYTES];
    struct wg_key hash;
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return -EIO;
    memcpy(out_key, "wg-", 3);
    const size_t len = 3 + encode(bytes, sizeof(bytes), out_key + 3);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    wg_key_hash(wg_slice(out_key, len), &hash);
    for (size_t i = 0; i < sizeof(hash.sha256); i++) {
        out_sha256[2 * i] = hex[hash.sha256[i] >> 4];
        out_sha256[2 * i + 1] = hex[hash.sha256[i] & 15];
    }
    out_sha256[64] = '\0';
    return 0;
}
