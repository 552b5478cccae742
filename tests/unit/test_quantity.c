/* Durations, sizes and clocks: what is taken, what is refused, what comes out again. */
#include "unit.h"

#include <errno.h>

#include "wakegate/base/quantity.h"

static void reads_durations(void **state)
{
    static const struct {
        const char *text;
        int r;
        wg_usec usec;
    } cases[] = {
        {"0", 0, 0},
        {"0s", 0, 0},
        {"250ms", 0, 250000},
        {"10s", 0, 10000000},
        {"5m", 0, 300000000},
        {"24h", 0, 86400000000},
        {"30d", 0, 2592000000000},
        {"106751991d", 0, 9223372022400000000},
        {"106751992d", -ERANGE, 0},
        {"9223372036854775807ms", -ERANGE, 0},
        {"99999999999999999999s", -ERANGE, 0},
        {"99999999999999999999x", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"5", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-5s", -EINVAL, 0},
        {"+5s", -EINVAL, 0},
        {"1.5s", -EINVAL, 0},
        {"5 s", -EINVAL, 0},
        {" 5s", -EINVAL, 0},
        {"5s ", -EINVAL, 0},
        {"5S", -EINVAL, 0},
        {"5us", -EINVAL, 0},
        {"1h30m", -EINVAL, 0},
        {"5sec", -EINVAL, 0},
        {"99999999999999999999", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        wg_usec usec = 0;
        assert_int_equal(wg_duration_parse(wg_slice_str(cases[i].text), &usec), cases[i].r);
        assert_true(usec == cases[i].usec);
    }
}

static void reads_sizes(void **state)
{
    static const struct {
        const char *text;
        int r;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"17", 0, 17},
        {"64Ki", 0, 65536},
        {"32Mi", 0, 33554432},
        {"1Gi", 0, 1073741824},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"17179869184Gi", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"Ki", -EINVAL, 0},
        {"1K", -EINVAL, 0},
        {"1KB", -EINVAL, 0},
        {"1MiB", -EINVAL, 0},
        {"1.5Gi", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"1 Ki", -EINVAL, 0},
        {"1ki", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        uint64_t bytes = 0;
        assert_int_equal(wg_size_parse(wg_slice_str(cases[i].text), &bytes), cases[i].r);
        assert_true(bytes == cases[i].bytes);
    }
}

static void writes_what_it_reads(void **state)
{
    static const char *const durations[] = {"0s", "1ms", "250ms", "1500ms", "290s",
                                            "1m", "15m", "90m",   "1h",     "30d"};
    static const char *const sizes[] = {"0", "1", "1000", "1Ki", "1025", "64Ki", "1Mi", "33Mi", "1Gi"};
    char out[32];

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(durations); i++) {
        wg_usec usec = 0;
        assert_int_equal(wg_duration_parse(wg_slice_str(durations[i]), &usec), 0);
        wg_duration_format(usec, out);
        assert_string_equal(out, durations[i]);
    }
    for (size_t i = 0; i < WG_COUNT_OF(sizes); i++) {
        uint64_t bytes = 0;
        assert_int_equal(wg_size_parse(wg_slice_str(sizes[i]), &bytes), 0);
        wg_size_format(bytes, out);
        assert_string_equal(out, sizes[i]);
    }
    wg_duration_format(WG_USEC_NEVER, out);
    assert_string_equal(out, "never");
    wg_duration_format(-5, out);
    assert_string_equal(out, "0s");
}

static void writes_for_people(void **state)
{
    static const struct {
        wg_usec usec;
        const char *text;
    } cases[] = {
        {-1, "0 ms"},
        {0, "0 ms"},
        {850000, "850 ms"},
        {999499, "999 ms"},
        {999500, "1.0 s"},
        {12345000, "12.3 s"},
        {59949000, "59.9 s"},
        {59960000, "1 min 0 s"},
        {245000000, "4 min 5 s"},
        {3599700000, "1 h 0 min"},
        {7500000000, "2 h 5 min"},
        {WG_USEC_NEVER, "never"},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        wg_duration_human(cases[i].usec, out);
        assert_string_equal(out, cases[i].text);
    }
}

static void clocks(void **state)
{
    char out[32];

    (void)state;
    wg_usec before = wg_clock_monotonic();
    assert_true(wg_clock_monotonic() >= before);
    assert_true(wg_clock_wall() > 1700000000 * WG_USEC_PER_SEC);
    wg_clock_format(1796079686123456, out);
    assert_string_equal(out, "2026-11-30T23:01:26.123Z");
    wg_clock_format(-1, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    wg_clock_format(INT64_MAX, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    assert_true(wg_usec_add(5, WG_USEC_NEVER) == WG_USEC_NEVER);
    assert_true(wg_usec_add(WG_USEC_NEVER, 1) == WG_USEC_NEVER);
    assert_true(wg_usec_add(2, 3) == 5);
    assert_int_equal(wg_usec_to_msec(1), 1);
    assert_int_equal(wg_usec_to_msec(2000), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_durations),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(writes_for_people),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
