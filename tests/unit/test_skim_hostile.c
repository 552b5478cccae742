/* JSON that kills parsers (H1-08): depth, duplicates, wrong types, huge tokens. Each is refused with a text
 * for the client, or accepted, and never costs more than a pass over its bytes. */
#include "skim_check.h"

#include "wakegate/base/clock.h"

enum { BODY_MAX = 16 * 1024 * 1024 };

static void repeat(struct wg_buf *buf, const char *text, size_t count)
{
    while (count-- > 0)
        (void)wg_buf_add_str(buf, text);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    static const struct {
        size_t levels;
        bool accepted, closed;
    } cases[] = {{50, true, true},     {199, true, true},      {200, false, true},   {1000, false, true},
                 {10000, false, true}, {1000000, false, true}, {1000, false, false}, {1000000, false, false}};
    static const char *const heads[] = {"{\"tools\":", "{\"unknown\":", "{\"model\":\"m\",\"messages\":"};
    for (size_t i = 0; i < WG_COUNT_OF(cases) * WG_COUNT_OF(heads); i++) {
        size_t levels = cases[i / 3].levels;
        struct wg_buf body = WG_BUF_INIT(BODY_MAX);
        (void)wg_buf_add_str(&body, heads[i % 3]);
        repeat(&body, "[", levels);
        repeat(&body, "]", cases[i / 3].closed ? levels : 0);
        (void)wg_buf_add_str(&body, cases[i / 3].closed ? "}" : "");
        wg_usec start = wg_clock_monotonic();
        struct skimmed skimmed = skim_in_pieces(wg_buf_slice(&body), body.len);
        assert_true(wg_clock_monotonic() - start < 100 * WG_USEC_PER_MSEC);
        assert_int_equal(skimmed.accepted, cases[i / 3].accepted);
        if (!skimmed.accepted)
            assert_non_null(strstr(skimmed.error, "nested deeper than 200 levels at byte "));
        wg_buf_clear(&body);
    }
}

static void objects_count_as_depth_too(void **state)
{
    (void)state;
    struct wg_buf body = WG_BUF_INIT(BODY_MAX);
    repeat(&body, "{\"a\":[", 1000);
    assert_string_equal(skim_body(wg_buf_slice(&body)).error, "nested deeper than 200 levels at byte 600");
    wg_buf_clear(&body);
}

static void says_what_is_wrong_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *body, *error;
    } cases[] = {
        {"", "the body is empty: send a JSON object"},
        {"\xef\xbb\xbf{}", "the body begins with a byte order mark: send JSON as UTF-8 without one"},
        {"[]", "the body must be a JSON object, not an array"},
        {"\"x\"", "expected a JSON object at byte 0, found '\"'"},
        {"\xff\xfe{", "expected a JSON object at byte 0, found the byte 0xff"},
        {"{} x", "expected nothing more behind the JSON object at byte 3, found 'x'"},
        {"{\"a\":1", "the body ends at byte 6 before the JSON object does"},
        {"{\"a\":\"x", "the body ends at byte 7, in the string that begins at byte 5"},
        {"{a:1}", "expected a key in double quotes at byte 1, found 'a'"},
        {"{\"a\" 1}", "expected a colon behind the key at byte 5, found '1'"},
        {"{\"a\":1 2}", "expected a comma or '}' at byte 7, found '2'"},
        {"{\"a\":[1 2]}", "expected a comma or ']' at byte 8, found '2'"},
        {"{\"a\":?}", "expected a value at byte 5, found '?'"},
        {"{\"a\":nulx}", "expected null at byte 8, found 'x'"},
        {"{\"a\":01}", "malformed number at byte 5"},
        {"{\"a\":\"\xc3\x28\"}", "invalid UTF-8 in a string at byte 7"},
        {"{\"a\":\"b\nc\"}", "control character 0x0a in a string at byte 7: escape it"},
        {"{\"a\":\"\\x\"}", "unknown escape in a string at byte 7"},
        {"{\"a\":\"\\u00g0\"}", "\\u without four hexadecimal digits at byte 10"},
        {"{\"model\":\"a\",\"x\":1,\"model\":\"b\"}", "duplicate key \"model\" at byte 19"},
        {"{\"model\":\"a\",\"mod\\u0065l\":\"b\"}", "duplicate key \"model\" at byte 13"},
        {"{\"\":1,\"\":2}", "duplicate key \"\" at byte 6"},
        {"{\"x\":1,\"\\u0078\":2}", "duplicate key \"x\" at byte 7"},
        {"{\"a\\n\\\"\":1,\"a\\n\\\"\":1}", "duplicate key \"a??\" at byte 11"},
        {"{\"stream_options\":{\"a\":1,\"\\u0061\":2}}", "duplicate key \"a\" at byte 25"},
        {"{\"model\":1}", "\"model\" must be a string; at byte 9"},
        {"{\"model\":null}", "\"model\" must be a string; at byte 9"},
        {"{\"model\":{\"a\":1}}", "\"model\" must be a string; at byte 9"},
        {"{\"model\":\"\"}", "\"model\" must be a string of 1 to 256 bytes; at byte 9"},
        {"{\"model\":\"a\\u0000b\"}",
         "\"model\" must be a string without \\u0000 and lone surrogates; at byte 9"},
        {"{\"model\":\"\\ud800\"}",
         "\"model\" must be a string without \\u0000 and lone surrogates; at byte 9"},
        {"{\"model\":\"\\udc00\\ud800\"}",
         "\"model\" must be a string without \\u0000 and lone surrogates; at byte 9"},
        {"{\"stream\":\"true\"}", "\"stream\" must be true or false; at byte 10"},
        {"{\"stream\":1}", "\"stream\" must be true or false; at byte 10"},
        {"{\"stream_options\":[]}", "\"stream_options\" must be an object; at byte 18"},
        {"{\"stream_options\":{\"include_usage\":1}}",
         "\"stream_options\" must be an object with include_usage true or false; at byte 35"},
        {"{\"max_tokens\":-1}", "\"max_tokens\" must be a whole number (0 to 9007199254740992); at byte 14"},
        {"{\"max_tokens\":1.5}", "\"max_tokens\" must be a whole number (0 to 9007199254740992); at byte 14"},
        {"{\"max_tokens\":1e3}", "\"max_tokens\" must be a whole number (0 to 9007199254740992); at byte 14"},
        {"{\"max_completion_tokens\":\"16\"}",
         "\"max_completion_tokens\" must be a whole number (0 to 9007199254740992); at byte 25"},
        {"{\"max_output_tokens\":9007199254740993}",
         "\"max_output_tokens\" must be a whole number (0 to 9007199254740992); at byte 21"},
        {"{\"n\":99999999999999999999999}",
         "\"n\" must be a whole number (0 to 9007199254740992); at byte 5"},
        {"{\"best_of\":[2]}", "\"best_of\" must be a whole number (0 to 9007199254740992); at byte 11"},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++)
        assert_string_equal(skim_text(cases[i].body).error, cases[i].error);
}

static void nul_bytes_are_refused(void **state)
{
    (void)state;
    assert_string_equal(skim_body(WG_SLICE("{}\0")).error,
                        "expected nothing more behind the JSON object at byte 2, found the byte 0x00");
    assert_string_equal(skim_body(WG_SLICE("{\"a\":\"\0\"}")).error,
                        "control character 0x00 in a string at byte 6: escape it");
    assert_true(skim_body(WG_SLICE("{\"a\":\"\\u0000\",\"b\":\"\\ud800\"}")).accepted);
}

static void keys_are_counted_and_bounded(void **state)
{
    (void)state;
    for (unsigned count = 255; count <= 257; count++) {
        struct wg_buf body = WG_BUF_INIT(BODY_MAX);
        for (unsigned i = 0; i < count; i++)
            (void)wg_buf_addf(&body, "%s\"k%u\":%u", i > 0 ? "," : "{", i, i);
        (void)wg_buf_add_str(&body, "}");
        struct skimmed skimmed = skim_in_pieces(wg_buf_slice(&body), 7);
        assert_int_equal(skimmed.accepted, count <= WG_SKIM_KEYS);
        if (!skimmed.accepted)
            assert_non_null(strstr(skimmed.error, "more than 256 keys in one object"));
        wg_buf_clear(&body);
    }
    struct wg_buf body = WG_BUF_INIT(BODY_MAX);
    (void)wg_buf_add_str(&body, "{\"stream_options\":");
    for (unsigned i = 0; i < 33; i++)
        (void)wg_buf_addf(&body, "%s\"k%u\":%u", i > 0 ? "," : "{", i, i);
    assert_non_null(strstr(skim_body(wg_buf_slice(&body)).error, "more than 32 keys in one object"));
    wg_buf_clear(&body);
}

/* before, `filler` repeated `count` times, behind. */
static struct skimmed skim_large(const char *before, const char *filler, size_t count, const char *behind)
{
    struct wg_buf body = WG_BUF_INIT(BODY_MAX);
    (void)wg_buf_add_str(&body, before);
    repeat(&body, filler, count);
    (void)wg_buf_add_str(&body, behind);
    struct skimmed skimmed = skim_body(wg_buf_slice(&body));
    wg_buf_clear(&body);
    return skimmed;
}

static void large_tokens_are_read_in_constant_memory(void **state)
{
    (void)state;
    assert_int_equal(skim_large("{\"prompt\":\"", "x", 10000000, "\"}").result.text_bytes, 10000000);
    assert_true(skim_large("{\"a\":", "9", 1000000, "}").accepted);
    assert_true(skim_large("{\"a\":1e", "9", 1000000, "}").accepted);
    assert_non_null(
        strstr(skim_large("{\"max_tokens\":", "1", 1000000, "}").error, "must be a whole number"));
    assert_true(skim_large("{\"model\":\"", "m", 256, "\"}").result.has_model);
    assert_non_null(strstr(skim_large("{\"model\":\"", "m", 257, "\"}").error, "a string of 1 to 256 bytes"));
    assert_true(skim_large("{\"", "k", 256, "\":1}").accepted);
    assert_string_equal(skim_large("{\"", "k", 257, "\":1}").error,
                        "the key at byte 1 is longer than 256 bytes");
    assert_true(skim_large("{\"a\":{\"", "k", 100000, "\":1}}").accepted);
    assert_true(skim_large("", " ", 1000000, "{}").accepted);
    assert_int_equal(skim_large("{\"prompt\":\"data:image/png;x=", "y", 300, ",z\"}").result.text_bytes, 0);
    assert_int_equal(skim_large("{\"prompt\":[0", ",1", 100000, "]}").result.number_tokens, 100001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(objects_count_as_depth_too),
        cmocka_unit_test(says_what_is_wrong_and_where),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(keys_are_counted_and_bounded),
        cmocka_unit_test(large_tokens_are_read_in_constant_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
