/* Who is asking: every way to send a key, none, two, and one that nobody has. */
#include "unit.h"

#include "wakegate/tenant.h"

#include <stdio.h>

/* %s: anonymous, the hashes of alpha-key and of beta-key. */
static const char yaml[] = "models: [{name: m, target: {static: {endpoints: ['http://127.0.0.1:1']}}}]\n"
                           "anonymous: %s\n"
                           "tenants:\n"
                           "  - {name: alpha, keys: [{sha256: %s}]}\n"
                           "  - {name: beta, keys: [{sha256: %s}]}\n"
                           "  - {name: anonymous}\n";

static void hex_of(const char *key, char out[static 65])
{
    struct wg_key hash;
    wg_key_hash(wg_slice_str(key), &hash);
    for (size_t i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", hash.sha256[i]);
}

static struct wg_config *config_with(const char *anonymous)
{
    char alpha[65], beta[65], text[1024];
    hex_of("alpha-key", alpha);
    hex_of("beta-key", beta);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int len = snprintf(text, sizeof(text), yaml, anonymous, alpha, beta);
#pragma GCC diagnostic pop
    struct wg_config *config = NULL;
    struct wg_config_faults faults = {0};
    const int error = wg_config_parse("test", wg_slice(text, (size_t)len), &config, &faults);
    if (error < 0)
        fail_msg("%s", wg_buf_str(&faults.text));
    wg_config_faults_clear(&faults);
    return config;
}

struct row {
    const char *authorization, *x_api_key, *api_key;
    bool conflict;
    enum wg_identity want;
    const char *tenant;
};

static void check(const struct wg_config *config, const struct row *row)
{
    const struct wg_credentials credentials = {
        .authorization = wg_slice_str(row->authorization),
        .x_api_key = wg_slice_str(row->x_api_key),
        .api_key = wg_slice_str(row->api_key),
        .conflict = row->conflict,
    };
    const struct wg_config_tenant *tenant = NULL;
    assert_int_equal(wg_tenant_identify(config, &credentials, &tenant), row->want);
    if (row->want == WG_IDENTITY_TENANT)
        assert_string_equal(tenant->name, row->tenant);
    else
        assert_null(tenant);
}

static void test_identify(void **state WG_UNUSED)
{
    static const struct row rows[] = {
        {"Bearer alpha-key", NULL, NULL, false, WG_IDENTITY_TENANT, "alpha"},
        {"bEaReR   alpha-key  ", NULL, NULL, false, WG_IDENTITY_TENANT, "alpha"},
        {"Bearer\talpha-key", NULL, NULL, false, WG_IDENTITY_TENANT, "alpha"},
        {NULL, "beta-key", NULL, false, WG_IDENTITY_TENANT, "beta"},
        {NULL, NULL, "beta-key", false, WG_IDENTITY_TENANT, "beta"},
        {"Bearer beta-key", "beta-key", "beta-key", false, WG_IDENTITY_TENANT, "beta"},
        {"Bearer alpha-key", "beta-key", NULL, false, WG_IDENTITY_CONFLICT, NULL},
        {NULL, "alpha-key", "beta-key", false, WG_IDENTITY_CONFLICT, NULL},
        {"Bearer alpha-key", NULL, NULL, true, WG_IDENTITY_CONFLICT, NULL},
        {"Bearer nobody", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {"Bearer alpha-ke", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {"Bearer", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {"Bearer ", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {"Beareralpha-key", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {"Basic YWxwaGEta2V5", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
        {NULL, NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
    };
    struct wg_config *config = config_with("deny");
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++)
        check(config, &rows[i]);
    wg_config_unref(config);
}

static void test_anonymous(void **state WG_UNUSED)
{
    static const struct row rows[] = {
        {NULL, NULL, NULL, false, WG_IDENTITY_TENANT, "anonymous"},
        {"Bearer alpha-key", NULL, NULL, false, WG_IDENTITY_TENANT, "alpha"},
        {"Bearer nobody", NULL, NULL, false, WG_IDENTITY_UNKNOWN, NULL},
    };
    struct wg_config *config = config_with("allow");
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++)
        check(config, &rows[i]);
    wg_config_unref(config);
}

static void test_open(void **state WG_UNUSED)
{
    struct wg_config *config = NULL;
    struct wg_config_faults faults = {0};
    assert_int_equal(wg_config_parse("test", WG_SLICE("models: []\n"), &config, &faults), 0);
    wg_config_faults_clear(&faults);
    const struct row row = {"Bearer a", "b", NULL, true, WG_IDENTITY_TENANT, "default"};
    check(config, &row);
    wg_config_unref(config);
}

static void test_a_made_key_fits_its_hash(void **state WG_UNUSED)
{
    char key[64], sha256[65], other[64], other_sha256[65], want[65];
    assert_int_equal(wg_key_make(key, sha256), 0);
    assert_int_equal(wg_key_make(other, other_sha256), 0);
    assert_int_equal(strlen(key), 46);
    assert_int_equal(strncmp(key, "wg-", 3), 0);
    assert_string_not_equal(key, other);
    hex_of(key, want);
    assert_string_equal(sha256, want);

    struct wg_key keys[2];
    wg_key_hash(wg_slice_str(other), &keys[0]);
    wg_key_hash(wg_slice_str(key), &keys[1]);
    const struct wg_credentials good = {.x_api_key = wg_slice_str(key)}, none = {0},
                                bad = {.x_api_key = WG_SLICE("wg-nobody")},
                                two = {.x_api_key = wg_slice_str(key), .api_key = wg_slice_str(other)};
    assert_true(wg_keys_match(keys, 2, &good));
    assert_false(wg_keys_match(keys, 1, &good));
    assert_false(wg_keys_match(keys, 2, &none));
    assert_false(wg_keys_match(keys, 2, &bad));
    assert_false(wg_keys_match(keys, 2, &two));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identify),
        cmocka_unit_test(test_anonymous),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_a_made_key_fits_its_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
