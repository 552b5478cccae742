/* Who is asking: every way to send a key, several of them, none, wrong ones. */
#include "config_check.h"

#include "wakegate/tenant.h"

/* SHA-256 of "wg-alpha", "wg-beta". */
#define ALPHA "d488fc57ad4cfad13c8ae8d4d8e0accb7fd38e483e8a5520d9791d4e4c826128"
#define BETA  "02a93363375dd2ba54a340eaa884bdeb74e04ff43c4c865812b017db8c111b89"

static const char *const two_tenants = "models: [{name: m, target: {static: {endpoints: [http://h]}}}]\n"
                                       "tenants:\n"
                                       "  - {name: alpha, keys: [{sha256: " ALPHA "}]}\n"
                                       "  - {name: beta, keys: [{sha256: " BETA "}]}\n";

#define AUTH(text) .authorization = WG_SLICE(text)
#define XKEY(text) .x_api_key = WG_SLICE(text)
#define KEY(text)  .api_key = WG_SLICE(text)

static const struct asking {
    struct wg_credentials sent;
    enum wg_identity identity;
    const char *tenant;
} askings[] = {
    {{AUTH("Bearer wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("bearer wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("BEARER \t wg-alpha \t")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("  Bearer wg-beta")}, WG_IDENTITY_TENANT, "beta"},
    {{XKEY("wg-beta")}, WG_IDENTITY_TENANT, "beta"},
    {{XKEY(" wg-beta ")}, WG_IDENTITY_TENANT, "beta"},
    {{KEY("wg-beta")}, WG_IDENTITY_TENANT, "beta"},
    {{AUTH("Bearer wg-alpha"), XKEY("wg-alpha"), KEY("wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("Basic dXNlcjpwYXNz"), XKEY("wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("Bearer"), XKEY("wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("Bearer "), XKEY("wg-alpha")}, WG_IDENTITY_TENANT, "alpha"},
    {{AUTH("Bearer wg-alpha"), XKEY("wg-beta")}, WG_IDENTITY_CONFLICT, NULL},
    {{AUTH("Bearer wg-alpha"), KEY("nobody")}, WG_IDENTITY_CONFLICT, NULL},
    {{XKEY("wg-alpha"), KEY("wg-beta")}, WG_IDENTITY_CONFLICT, NULL},
    {{AUTH("Bearer wg-alpha"), .conflict = true}, WG_IDENTITY_CONFLICT, NULL},
    {{AUTH("Bearer nobody")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Bearer wg-alphA")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Bearer wg-alpha wg-alpha")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Bearerwg-alpha")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("wg-alpha")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Bearer " ALPHA)}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Basic wg-alpha")}, WG_IDENTITY_UNKNOWN, NULL},
    {{AUTH("Bearer")}, WG_IDENTITY_UNKNOWN, NULL},
    {{XKEY(" ")}, WG_IDENTITY_UNKNOWN, NULL},
    {{.conflict = false}, WG_IDENTITY_UNKNOWN, NULL},
};

static void keys_name_their_tenants(void **state)
{
    (void)state;
    struct wg_config *config = parse_good(two_tenants);
    for (size_t i = 0; i < WG_COUNT_OF(askings); i++) {
        const struct wg_config_tenant *tenant = NULL;
        assert_int_equal(wg_tenant_identify(config, &askings[i].sent, &tenant), askings[i].identity);
        if (askings[i].tenant != NULL)
            assert_string_equal(tenant->name, askings[i].tenant);
        else
            assert_null(tenant);
    }
    wg_config_unref(config);
}

#define SANS(...)                                                                                            \
    &(const struct wg_strings)                                                                               \
    {                                                                                                        \
        .items = (char *[]){__VA_ARGS__}, .n = sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)              \
    }

static void certificates_name_tenants(void **state)
{
    static char uri[] = "spiffe://h/alpha", host[] = "BETA.test", other_host[] = "beta.test",
                other_uri[] = "SPIFFE://h/alpha", nobody[] = "nobody.test";
    const struct asking cases[] = {
        {{.sans = SANS(uri)}, WG_IDENTITY_TENANT, "alpha"},
        {{.sans = SANS(nobody, host)}, WG_IDENTITY_TENANT, "beta"},
        {{.sans = SANS(other_host)}, WG_IDENTITY_TENANT, "beta"},
        {{.sans = SANS(other_uri)}, WG_IDENTITY_UNKNOWN, NULL}, /* of URIs every byte counts */
        {{.sans = SANS(nobody)}, WG_IDENTITY_UNKNOWN, NULL},
        {{.sans = SANS(uri, host)}, WG_IDENTITY_CONFLICT, NULL},
        {{.sans = SANS(host, other_host)}, WG_IDENTITY_TENANT, "beta"},
        {{AUTH("Bearer wg-alpha"), .sans = SANS(uri)}, WG_IDENTITY_TENANT, "alpha"},
        {{AUTH("Bearer wg-alpha"), .sans = SANS(nobody)}, WG_IDENTITY_TENANT, "alpha"},
        {{AUTH("Bearer wg-alpha"), .sans = SANS(host)}, WG_IDENTITY_CONFLICT, NULL},
        {{AUTH("Bearer dummy"), .sans = SANS(host)}, WG_IDENTITY_TENANT, "beta"},
        {{AUTH("Bearer dummy"), .sans = SANS(nobody)}, WG_IDENTITY_UNKNOWN, NULL},
        {{AUTH("Bearer dummy"), XKEY("other"), .sans = SANS(host)}, WG_IDENTITY_CONFLICT, NULL},
    };

    (void)state;
    struct wg_config *config =
        parse_good("tenants:\n"
                   "  - {name: alpha, keys: [{sha256: " ALPHA "}, {san: \"spiffe://h/alpha\"}]}\n"
                   "  - {name: beta, keys: [{san: Beta.Test}]}\n");
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        const struct wg_config_tenant *tenant = NULL;
        assert_int_equal(wg_tenant_identify(config, &cases[i].sent, &tenant), cases[i].identity);
        if (cases[i].tenant != NULL)
            assert_string_equal(tenant->name, cases[i].tenant);
    }
    wg_config_unref(config);
}

static void nobody_is_asked_when_open(void **state)
{
    (void)state;
    struct wg_config *config = parse_good("");
    for (size_t i = 0; i < WG_COUNT_OF(askings); i++) {
        const struct wg_config_tenant *tenant = NULL;
        assert_int_equal(wg_tenant_identify(config, &askings[i].sent, &tenant), WG_IDENTITY_TENANT);
        assert_string_equal(tenant->name, "default");
    }
    wg_config_unref(config);
}

static enum wg_identity identify(const char *text, const struct wg_credentials *sent, char name[static 32])
{
    const struct wg_config_tenant *tenant = NULL;
    struct wg_config *config = parse_good(text);

    enum wg_identity identity = wg_tenant_identify(config, sent, &tenant);
    snprintf(name, 32, "%s", tenant != NULL ? tenant->name : "");
    wg_config_unref(config);
    return identity;
}

static void anonymous_is_for_those_without_a_key(void **state)
{
    static const char *const denied =
        "tenants: [{name: anonymous}, {name: alpha, keys: [{sha256: " ALPHA "}]}]\n";
    static const char *const allowed =
        "anonymous: allow\n"
        "tenants: [{name: alpha, keys: [{sha256: " ALPHA "}]}, {name: anonymous}]\n";
    static const char *const nobody =
        "anonymous: allow\ntenants: [{name: alpha, keys: [{sha256: " ALPHA "}]}]\n";
    const struct wg_credentials none = {.conflict = false}, basic = {AUTH("Basic x")},
                                wrong = {XKEY("nobody")}, alpha = {XKEY("wg-alpha")};
    char name[32];

    (void)state;
    assert_int_equal(identify(denied, &none, name), WG_IDENTITY_UNKNOWN);
    assert_int_equal(identify(nobody, &none, name), WG_IDENTITY_UNKNOWN);
    assert_int_equal(identify(allowed, &none, name), WG_IDENTITY_TENANT);
    assert_string_equal(name, "anonymous");
    assert_int_equal(identify(allowed, &basic, name), WG_IDENTITY_TENANT);
    assert_string_equal(name, "anonymous");
    assert_int_equal(identify(allowed, &wrong, name), WG_IDENTITY_UNKNOWN);
    assert_int_equal(identify(allowed, &alpha, name), WG_IDENTITY_TENANT);
    assert_string_equal(name, "alpha");
}

static void admin_keys_match(void **state)
{
    const struct wg_credentials alpha = {AUTH("Bearer wg-alpha")}, beta = {KEY("wg-beta")},
                                none = {.conflict = false}, both = {AUTH("Bearer wg-alpha"), XKEY("wg-beta")},
                                other = {KEY("nobody")};

    (void)state;
    struct wg_config *config = parse_good("admin: {keys: [{sha256: " ALPHA "}, {sha256: " BETA "}]}");
    const struct wg_key *keys = config->admin.keys;
    assert_true(wg_keys_match(keys, 2, &alpha));
    assert_true(wg_keys_match(keys, 2, &beta));
    assert_false(wg_keys_match(keys, 1, &beta));
    assert_false(wg_keys_match(keys, 2, &both));
    assert_false(wg_keys_match(keys, 2, &none));
    assert_false(wg_keys_match(keys, 2, &other));
    assert_false(wg_keys_match(NULL, 0, &alpha));
    wg_config_unref(config);
}

static void made_keys_work(void **state)
{
    char key[64], other[64], hash[65], text[512];
    const struct wg_config_tenant *tenant = NULL;

    (void)state;
    assert_int_equal(wg_key_make(other, hash), 0);
    assert_int_equal(wg_key_make(key, hash), 0);
    assert_string_not_equal(key, other);
    assert_int_equal(strlen(key), 46);
    assert_int_equal(strspn(key + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
    assert_int_equal(strlen(hash), 64);
    snprintf(text, sizeof(text), "tenants: [{name: t, keys: [{sha256: %s}]}]", hash);
    struct wg_config *config = parse_good(text);
    struct wg_credentials sent = {.x_api_key = wg_slice_str(key)};
    assert_int_equal(wg_tenant_identify(config, &sent, &tenant), WG_IDENTITY_TENANT);
    sent.x_api_key = wg_slice_str(other);
    assert_int_equal(wg_tenant_identify(config, &sent, &tenant), WG_IDENTITY_UNKNOWN);
    wg_config_unref(config);
}

static void hashes(void **state)
{
    static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf}, empty[] = {0xe3, 0xb0, 0xc4, 0x42};
    struct wg_key key;

    (void)state;
    wg_key_hash(WG_SLICE("abc"), &key);
    assert_memory_equal(key.sha256, abc, sizeof(abc));
    wg_key_hash((struct wg_slice){0}, &key);
    assert_memory_equal(key.sha256, empty, sizeof(empty));
    assert_null(key.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_name_their_tenants),
        cmocka_unit_test(certificates_name_tenants),
        cmocka_unit_test(nobody_is_asked_when_open),
        cmocka_unit_test(anonymous_is_for_those_without_a_key),
        cmocka_unit_test(admin_keys_match),
        cmocka_unit_test(made_keys_work),
        cmocka_unit_test(hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
