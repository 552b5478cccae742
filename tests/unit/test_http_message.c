/* The table of known field names, and the list of fields. */
#include "h1_check.h"

#include <ctype.h>
#include <errno.h>

static void every_token_is_found_by_its_name(void **state)
{
    (void)state;
    for (unsigned token = WG_TOKEN_OTHER + 1; token < WG_TOKEN_COUNT; token++) {
        struct wg_slice name = wg_token_name((enum wg_token)token);
        char upper[64], longer[64];
        assert_true(name.len > 0 && name.len < sizeof(upper) - 1);
        for (size_t i = 0; i < name.len; i++) {
            assert_false(isupper((unsigned char)name.ptr[i]));
            upper[i] = (char)toupper((unsigned char)name.ptr[i]);
        }
        assert_int_equal(wg_token_find(name), token);
        assert_int_equal(wg_token_find(wg_slice(upper, name.len)), token);
        assert_int_equal(wg_token_find(wg_slice(name.ptr, name.len - 1)), WG_TOKEN_OTHER);
        memcpy(longer, name.ptr, name.len);
        longer[name.len] = 's';
        assert_int_equal(wg_token_find(wg_slice(longer, name.len + 1)), WG_TOKEN_OTHER);
    }
}

static void unknown_names_are_other(void **state)
{
    (void)state;
    const struct wg_slice names[] = {
        WG_SLICE(""),
        WG_SLICE("x"),
        WG_SLICE("hosts"),
        WG_SLICE("h\rst"),
        WG_SLICE("content"),
        WG_SLICE("x-secret"),
        WG_SLICE("user-agent-123"),
        WG_SLICE("x-a-name-longer-than-any-known-one"),
    };
    for (size_t i = 0; i < WG_COUNT_OF(names); i++)
        assert_int_equal(wg_token_find(names[i]), WG_TOKEN_OTHER);
    assert_int_equal(wg_token_flags(WG_TOKEN_OTHER), 0);
}

static void policy_is_in_the_flags(void **state)
{
    (void)state;
    static const struct {
        unsigned flag;
        enum wg_token tokens[12];
    } rows[] = {
        {WG_FIELD_HOP,
         {WG_TOKEN_CONNECTION, WG_TOKEN_KEEP_ALIVE, WG_TOKEN_PROXY_CONNECTION, WG_TOKEN_TE, WG_TOKEN_TRAILER,
          WG_TOKEN_TRANSFER_ENCODING, WG_TOKEN_UPGRADE, WG_TOKEN_HTTP2_SETTINGS, WG_TOKEN_PROXY_AUTHORIZATION,
          WG_TOKEN_PROXY_AUTHENTICATE}},
        {WG_FIELD_FRAMING, {WG_TOKEN_CONTENT_LENGTH, WG_TOKEN_TRANSFER_ENCODING}},
        {WG_FIELD_SECRET,
         {WG_TOKEN_AUTHORIZATION, WG_TOKEN_X_API_KEY, WG_TOKEN_API_KEY, WG_TOKEN_PROXY_AUTHORIZATION}},
        {WG_FIELD_OURS_RES, {WG_TOKEN_DATE, WG_TOKEN_X_REQUEST_ID}},
        {WG_FIELD_OURS_REQ,
         {WG_TOKEN_HOST, WG_TOKEN_EXPECT, WG_TOKEN_TRACEPARENT, WG_TOKEN_X_REQUEST_ID, WG_TOKEN_FORWARDED,
          WG_TOKEN_X_FORWARDED_FOR, WG_TOKEN_X_FORWARDED_HOST, WG_TOKEN_X_FORWARDED_PROTO}},
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        unsigned listed = 0, flagged = 0;
        while (rows[i].tokens[listed] != WG_TOKEN_OTHER)
            assert_true(wg_token_flags(rows[i].tokens[listed++]) & rows[i].flag);
        for (unsigned token = 0; token < WG_TOKEN_COUNT; token++)
            flagged += (wg_token_flags((enum wg_token)token) & rows[i].flag) != 0;
        assert_int_equal(listed, flagged);
    }
}

static void fields_are_found_by_token_and_by_name(void **state)
{
    (void)state;
    struct wg_fields fields;
    fields.n = 0;
    assert_int_equal(wg_fields_add(&fields, WG_SLICE("X-One"), WG_SLICE("1")), 0);
    assert_int_equal(wg_fields_add(&fields, WG_SLICE("HOST"), WG_SLICE("a")), 0);
    assert_int_equal(wg_fields_add(&fields, WG_SLICE("x-one"), WG_SLICE("2")), 0);
    assert_int_equal(wg_fields_add(&fields, WG_SLICE("Upgrade"), WG_SLICE("h2c")), 0);
    h1_assert_slice(wg_fields_get(&fields, WG_TOKEN_HOST)->value, "a");
    h1_assert_slice(wg_fields_find(&fields, WG_SLICE("x-ONE"))->value, "1");
    assert_null(wg_fields_get(&fields, WG_TOKEN_COOKIE));
    assert_null(wg_fields_find(&fields, WG_SLICE("x-on")));
    assert_false(fields.items[1].hop);
    assert_true(fields.items[3].hop);
}

static void the_list_has_a_maximum(void **state)
{
    (void)state;
    struct wg_fields fields;
    fields.n = 0;
    for (int i = 0; i < WG_FIELDS_MAX; i++)
        assert_int_equal(wg_fields_add(&fields, WG_SLICE("a"), WG_SLICE("b")), 0);
    assert_int_equal(wg_fields_add(&fields, WG_SLICE("a"), WG_SLICE("b")), -ENOSPC);
    assert_int_equal(fields.n, WG_FIELDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_found_by_its_name),
        cmocka_unit_test(unknown_names_are_other),
        cmocka_unit_test(policy_is_in_the_flags),
        cmocka_unit_test(fields_are_found_by_token_and_by_name),
        cmocka_unit_test(the_list_has_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
