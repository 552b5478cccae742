/* Slices: comparing, trimming, splitting, numbers. */
#include "unit.h"

#include <errno.h>

#include "wakegate/base/slice.h"

static void compares(void **state)
{
    (void)state;
    assert_true(wg_slice_eq(WG_SLICE("abc"), WG_SLICE("abc")));
    assert_false(wg_slice_eq(WG_SLICE("abc"), WG_SLICE("abC")));
    assert_true(wg_slice_eq(wg_slice_str(NULL), WG_SLICE("")));
    assert_true(wg_slice_eq_nocase(WG_SLICE("Content-Length"), WG_SLICE("content-LENGTH")));
    assert_false(wg_slice_eq_nocase(WG_SLICE("@"), WG_SLICE("`")));
    assert_false(wg_slice_eq_nocase(WG_SLICE("a"), WG_SLICE("ab")));
    assert_true(wg_slice_starts_with(WG_SLICE("/v1/models"), WG_SLICE("/v1")));
    assert_true(wg_slice_starts_with(WG_SLICE("x"), WG_SLICE("")));
    assert_false(wg_slice_starts_with(WG_SLICE("/v"), WG_SLICE("/v1")));
}

static void trims_spaces_and_tabs_only(void **state)
{
    (void)state;
    assert_true(wg_slice_eq(wg_slice_trim(WG_SLICE(" \ta b\t ")), WG_SLICE("a b")));
    assert_int_equal(wg_slice_trim(WG_SLICE(" \t ")).len, 0);
    assert_int_equal(wg_slice_trim(wg_slice_str(NULL)).len, 0);
    assert_true(wg_slice_eq(wg_slice_trim(WG_SLICE("\na\r")), WG_SLICE("\na\r")));
}

static void splits(void **state)
{
    static const struct {
        const char *text, *parts[4];
    } cases[] = {
        {"a,b", {"a", "b"}}, {"", {""}}, {"a,", {"a", ""}}, {",", {"", ""}}, {"a,,b", {"a", "", "b"}},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct wg_slice rest = wg_slice_str(cases[i].text), head;
        size_t n = 0;
        for (; wg_slice_split(&rest, ',', &head); n++) {
            assert_non_null(cases[i].parts[n]);
            assert_true(wg_slice_eq(head, wg_slice_str(cases[i].parts[n])));
        }
        assert_null(cases[i].parts[n]);
    }
}

static void reads_numbers(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "1.0", "18446744073709551616", "99999999999999999999"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(bad); i++)
        assert_int_equal(wg_slice_to_u64(wg_slice_str(bad[i]), &value), -EINVAL);
    assert_int_equal(value, 7);
    assert_int_equal(wg_slice_to_u64(WG_SLICE("18446744073709551615"), &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(wg_slice_to_u64(WG_SLICE("007"), &value), 0);
    assert_int_equal(value, 7);
}

static void copies_and_looks_for_control_characters(void **state)
{
    (void)state;
    char *copy WG_AUTO_FREE = wg_slice_dup(wg_slice("abcdef", 3));
    assert_string_equal(copy, "abc");
    char *empty WG_AUTO_FREE = wg_slice_dup((struct wg_slice){0});
    assert_string_equal(empty, "");
    assert_true(wg_slice_has_control(WG_SLICE("a\nb")));
    assert_true(wg_slice_has_control(WG_SLICE("a\x7f")));
    assert_true(wg_slice_has_control(wg_slice("a\0b", 3)));
    assert_false(wg_slice_has_control(WG_SLICE("qwen/\xc3\xa4 3")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares),
        cmocka_unit_test(trims_spaces_and_tabs_only),
        cmocka_unit_test(splits),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(copies_and_looks_for_control_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
