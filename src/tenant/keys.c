/* Keys out of a request's headers, by their hash to the tenant that owns them. A key is only ever compared as
 * a SHA-256, so how long a look-up takes tells nothing about keys that exist. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

#include "wakegate/base/map.h"
#include "wakegate/tenant.h"

void wg_key_hash(struct wg_slice key, struct wg_key *ret_key)
{
    *ret_key = (struct wg_key){0};
    WG_ASSERT(EVP_Digest(key.len > 0 ? key.ptr : "", key.len, ret_key->sha256, NULL, EVP_sha256(), NULL) ==
              1);
}

/* The key of "Bearer KEY"; empty for another scheme, which is somebody else's business and no key of ours. */
static struct wg_slice bearer(struct wg_slice authorization)
{
    static const struct wg_slice scheme = {"Bearer", 6};
    struct wg_slice value = wg_slice_trim(authorization);

    if (value.len <= scheme.len || !wg_slice_eq_nocase(wg_slice(value.ptr, scheme.len), scheme))
        return (struct wg_slice){0};
    struct wg_slice rest = wg_slice(value.ptr + scheme.len, value.len - scheme.len);
    return rest.ptr[0] == ' ' || rest.ptr[0] == '\t' ? wg_slice_trim(rest) : (struct wg_slice){0};
}

/* The one key that was sent, empty if none was; false if there are two. */
static bool one_key(const struct wg_credentials *credentials, struct wg_slice *ret_key)
{
    const struct wg_slice sent[] = {
        bearer(credentials->authorization),
        wg_slice_trim(credentials->x_api_key),
        wg_slice_trim(credentials->api_key),
    };
    struct wg_slice key = {0};

    if (credentials->conflict)
        return false;
    for (size_t i = 0; i < WG_COUNT_OF(sent); i++) {
        if (sent[i].len == 0)
            continue;
        if (key.len > 0 && !wg_slice_eq(key, sent[i]))
            return false;
        key = sent[i];
    }
    *ret_key = key;
    return true;
}

static const struct wg_config_tenant *find_anonymous(const struct wg_config *config)
{
    for (size_t i = 0; config->anonymous_allow && i < config->n_tenants; i++)
        if (strcmp(config->tenants[i].name, "anonymous") == 0)
            return &config->tenants[i];
    return NULL;
}

static const struct wg_config_tenant *find_owner(const struct wg_config *config, struct wg_slice key)
{
    struct wg_key hash;

    wg_key_hash(key, &hash);
    const struct wg_config_tenant *owner =
        wg_map_get(config->by_key, wg_slice(hash.sha256, sizeof(hash.sha256)));
    OPENSSL_cleanse(&hash, sizeof(hash));
    return owner;
}

/* False if the names belong to two tenants. */
static bool find_certified(const struct wg_config *config, const struct wg_strings *sans,
                           const struct wg_config_tenant **ret_tenant)
{
    const struct wg_config_tenant *found = NULL;

    for (size_t i = 0; sans != NULL && i < sans->n; i++) {
        const struct wg_config_tenant *owner = wg_config_tenant_of_san(config, wg_slice_str(sans->items[i]));
        if (owner != NULL && found != NULL && owner != found)
            return false;
        found = owner != NULL ? owner : found;
    }
    *ret_tenant = found;
    return true;
}

enum wg_identity wg_tenant_identify(const struct wg_config *config, const struct wg_credentials *credentials,
                                    const struct wg_config_tenant **ret_tenant)
{
    const struct wg_config_tenant *tenant, *certified;
    struct wg_slice key;

    if (config->open) {
        *ret_tenant = &config->tenants[0];
        return WG_IDENTITY_TENANT;
    }
    if (!one_key(credentials, &key) || !find_certified(config, credentials->sans, &certified))
        return WG_IDENTITY_CONFLICT;
    tenant = key.len > 0 ? find_owner(config, key) : NULL;
    if (tenant != NULL && certified != NULL && tenant != certified)
        return WG_IDENTITY_CONFLICT;
    if (tenant == NULL)
        tenant = certified;
    if (tenant == NULL && key.len == 0)
        tenant = find_anonymous(config);
    if (tenant == NULL)
        return WG_IDENTITY_UNKNOWN;
    *ret_tenant = tenant;
    return WG_IDENTITY_TENANT;
}

bool wg_keys_match(const struct wg_key *keys, size_t n, const struct wg_credentials *credentials)
{
    struct wg_slice key;
    struct wg_key hash;
    bool match = false;

    if (!one_key(credentials, &key) || key.len == 0)
        return false;
    wg_key_hash(key, &hash);
    for (size_t i = 0; i < n; i++)
        match |= CRYPTO_memcmp(keys[i].sha256, hash.sha256, sizeof(hash.sha256)) == 0;
    OPENSSL_cleanse(&hash, sizeof(hash));
    return match;
}

static void add_base64url(const uint8_t bytes[static 32], char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, n_bits = 0;

    for (size_t i = 0; i < 32; i++) {
        bits = bits << 8 | bytes[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            *out++ = digits[bits >> (n_bits - 6) & 63];
    }
    *out++ = digits[bits << (6 - n_bits) & 63];
    *out = '\0';
}

int wg_key_make(char out_key[static 64], char out_sha256[static 65])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bytes[32];
    struct wg_key hash;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return -EIO;
    memcpy(out_key, "wg-", sizeof("wg-"));
    add_base64url(bytes, out_key + 3);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    wg_key_hash(wg_slice_str(out_key), &hash);
    for (size_t i = 0; i < sizeof(hash.sha256); i++) {
        out_sha256[2 * i] = hex[hash.sha256[i] >> 4];
        out_sha256[2 * i + 1] = hex[hash.sha256[i] & 15];
    }
    out_sha256[64] = '\0';
    return 0;
}
