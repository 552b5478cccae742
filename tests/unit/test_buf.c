/* The growable buffer: growth to its maximum and not a byte further, failures that stick, JSON escapes. */
#include "unit.h"

#include <errno.h>

#include "wakegate/base/buf.h"

static void grows_and_terminates(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(10000);

    (void)state;
    assert_string_equal(wg_buf_str(&buf), "");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(wg_buf_addf(&buf, "%04d-", i), 0);
    assert_int_equal(buf.len, 5000);
    assert_int_equal(strlen(wg_buf_str(&buf)), 5000);
    assert_memory_equal(buf.data + 4995, "0999-", 5);
    wg_buf_consume(&buf, 4990);
    assert_string_equal(wg_buf_str(&buf), "0998-0999-");
    wg_buf_consume(&buf, 10);
    assert_string_equal(wg_buf_str(&buf), "");
    wg_buf_clear(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.max, 10000);
}

static void fills_to_the_maximum(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(4);

    (void)state;
    assert_int_equal(wg_buf_add(&buf, "abcd", 4), 0);
    assert_string_equal(wg_buf_str(&buf), "abcd");
    assert_int_equal(wg_buf_add(&buf, "", 0), 0);
    assert_int_equal(wg_buf_add_char(&buf, 'e'), -ENOSPC);
    wg_buf_clear(&buf);
}

static void failure_empties_and_sticks(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(8);

    (void)state;
    assert_int_equal(wg_buf_add_str(&buf, "12345"), 0);
    assert_int_equal(wg_buf_addf(&buf, "%s", "6789"), -ENOSPC);
    assert_true(buf.failed);
    assert_int_equal(buf.len, 0);
    assert_int_equal(wg_buf_add_char(&buf, 'x'), -ENOSPC);
    assert_int_equal(wg_buf_addf(&buf, "x"), -ENOSPC);
    assert_int_equal(wg_buf_add_json(&buf, WG_SLICE("x")), -ENOSPC);
    assert_null(wg_buf_reserve(&buf, 1));
    assert_string_equal(wg_buf_str(&buf), "");
    wg_buf_reset(&buf);
    assert_int_equal(wg_buf_addf(&buf, "%d", 12345678), 0);
    assert_string_equal(wg_buf_str(&buf), "12345678");
    wg_buf_clear(&buf);
}

static void reserves_and_commits(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(100);

    (void)state;
    char *room = wg_buf_reserve(&buf, 100);
    assert_non_null(room);
    memset(room, 'x', 100);
    wg_buf_commit(&buf, 60);
    assert_int_equal(strlen(wg_buf_str(&buf)), 60);
    assert_null(wg_buf_reserve(&buf, 41));
    wg_buf_clear(&buf);
}

static void writes_numbers(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(100);

    (void)state;
    wg_buf_add_u64(&buf, 0);
    wg_buf_add_char(&buf, ' ');
    wg_buf_add_u64(&buf, 1234567890);
    wg_buf_add_char(&buf, ' ');
    wg_buf_add_u64(&buf, UINT64_MAX);
    assert_string_equal(wg_buf_str(&buf), "0 1234567890 18446744073709551615");
    wg_buf_clear(&buf);
}

static void escapes_json(void **state)
{
#define BAD "\xef\xbf\xbd"
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"a\"b\\c/", "a\\\"b\\\\c/"},
        {"\b\f\n\r\t\x01\x1f\x7f", "\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\xff"
         "b",
         "a" BAD "b"},
        {"\xc0\x80", BAD BAD},                 /* overlong */
        {"\xe0\x80\x80", BAD BAD BAD},         /* overlong */
        {"\xed\xa0\x80", BAD BAD BAD},         /* surrogate */
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD}, /* beyond U+10FFFF */
        {"\xe2\x82", BAD BAD},                 /* cut short */
        {"\xe2\x28\xa1", BAD "(" BAD},
        {"\x80", BAD},
    };
    struct wg_buf buf = WG_BUF_INIT(1000);

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        wg_buf_reset(&buf);
        assert_int_equal(wg_buf_add_json(&buf, wg_slice_str(cases[i].in)), 0);
        assert_string_equal(wg_buf_str(&buf), cases[i].out);
    }
    wg_buf_reset(&buf);
    assert_int_equal(wg_buf_add_json(&buf, wg_slice("a\0b", 3)), 0);
    assert_string_equal(wg_buf_str(&buf), "a\\u0000b");
    wg_buf_clear(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_terminates),
        cmocka_unit_test(fills_to_the_maximum),
        cmocka_unit_test(failure_empties_and_sticks),
        cmocka_unit_test(reserves_and_commits),
        cmocka_unit_test(writes_numbers),
        cmocka_unit_test(escapes_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
