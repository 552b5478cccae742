/* Reading requests: what is found in them, where, and that syntax is judged as jansson judges it. */
#include "skim_check.h"

#include <jansson.h>

static void finds_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *body, *model;
        uint64_t at, size;
    } cases[] = {
        {"{\"model\":\"qwen3-8b\"}", "qwen3-8b", 9, 10},
        {" { \"a\" : [ { \"model\" : 1 } ] , \"model\" : \"org/name\" } ", "org/name", 41, 10},
        {"{\"mod\\u0065l\":\"\\u0071w\\u00e9n\"}", "qw\xc3\xa9n", 14, 16},
        {"{\"model\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80", 9, 14},
        {"{\"model\":\"\xf0\x9f\x98\x80\"}", "\xf0\x9f\x98\x80", 9, 6},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct skimmed skimmed = skim_text(cases[i].body);
        assert_string_equal(skimmed.error, "");
        assert_true(skimmed.result.has_model);
        assert_string_equal(skimmed.result.model, cases[i].model);
        assert_int_equal(skimmed.result.model_len, strlen(cases[i].model));
        assert_int_equal(skimmed.result.model_at, cases[i].at);
        assert_int_equal(skimmed.result.model_size, cases[i].size);
        assert_int_equal(cases[i].body[cases[i].at], '"');
        assert_int_equal(cases[i].body[cases[i].at + cases[i].size - 1], '"');
    }
}

static void finds_stream_and_its_options(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool stream, options, usage;
        const char *value;
    } cases[] = {
        {"{\"stream\":true}", true, false, false, NULL},
        {"{\"stream\":false}", false, false, false, NULL},
        {"{\"stream\":null,\"x\":{\"stream\":true}}", false, false, false, NULL},
        {"{\"stream_options\":{\"include_usage\":true},\"stream\":true}", true, true, true,
         "{\"include_usage\":true}"},
        {"{\"stream_options\": {\"a\":{\"include_usage\":true}} }", false, true, false,
         "{\"a\":{\"include_usage\":true}}"},
        {"{\"stream_options\": {\"include_usage\":false}}", false, true, false, "{\"include_usage\":false}"},
        {"{\"stream_options\": {\"include_usage\":null}}", false, true, false, "{\"include_usage\":null}"},
        {"{\"stream_options\":{}}", false, true, false, "{}"},
        {"{\"stream_options\":null}", false, true, false, "null"},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct skimmed skimmed = skim_text(cases[i].body);
        const struct wg_skim_result *result = &skimmed.result;
        assert_string_equal(skimmed.error, "");
        assert_int_equal(result->stream, cases[i].stream);
        assert_int_equal(result->has_stream_options, cases[i].options);
        assert_int_equal(result->include_usage, cases[i].usage);
        if (cases[i].value != NULL) {
            assert_int_equal(result->stream_options_size, strlen(cases[i].value));
            assert_memory_equal(cases[i].body + result->stream_options_at, cases[i].value,
                                strlen(cases[i].value));
        }
    }
}

static void finds_the_end_of_the_object(void **state)
{
    (void)state;
    struct skimmed empty = skim_text(" { } \r\n\t");
    assert_true(empty.accepted);
    assert_true(empty.result.object_empty);
    assert_int_equal(empty.result.object_end, 3);
    struct skimmed full = skim_text("{\"a\":{}}\n");
    assert_false(full.result.object_empty);
    assert_int_equal(full.result.object_end, 7);
}

static void multiplies_the_answer_cap(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint64_t cap;
    } cases[] = {
        {"{}", 0},
        {"{\"max_tokens\":16}", 16},
        {"{\"max_tokens\":16.0}", 16},
        {"{\"max_tokens\":null,\"n\":null}", 0},
        {"{\"max_tokens\":0}", 0},
        {"{\"n\":3}", 0},
        {"{\"n\":3,\"max_completion_tokens\":10,\"max_tokens\":7}", 30},
        {"{\"max_output_tokens\":5,\"best_of\":4,\"n\":2}", 20},
        {"{\"max_tokens\":5,\"n\":0}", 5},
        {"{\"x\":{\"max_tokens\":5}}", 0},
        {"{\"max_tokens\":9007199254740992}", UINT64_C(9007199254740992)},
        {"{\"max_tokens\":9007199254740992,\"n\":9007199254740992}", UINT64_C(9007199254740992)},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct skimmed skimmed = skim_text(cases[i].body);
        assert_string_equal(skimmed.error, "");
        assert_int_equal(skimmed.result.answer_cap, cases[i].cap);
    }
}

static void counts_text_numbers_and_media(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint64_t text, numbers, media;
    } cases[] = {
        {"{\"prompt\":\"abcd\"}", 4, 0, 0},
        {"{\"prompt\":[\"ab\",\"cd\"],\"suffix\":\"not counted\"}", 4, 0, 0},
        {"{\"prompt\":[1,2,3.5]}", 0, 3, 0},
        {"{\"input\":[[1,2],[3],[[4]],{\"x\":5}]}", 0, 3, 0},
        {"{\"input\":7,\"messages\":[1,2]}", 0, 0, 0},
        {"{\"prompt\":\"\\u00e9\\n\\ud83d\\ude00\\ud800x\"}", 2 + 1 + 4 + 3 + 1, 0, 0},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"user\":\"x\"}", 4 + 5, 0, 0},
        {"{\"system\":\"ab\",\"instructions\":\"cd\",\"documents\":[\"ef\",{\"text\":\"gh\"}],\"query\":"
         "\"ij\"}",
         10, 0, 0},
        {"{\"tools\":[{\"type\":\"image\",\"url\":{\"description\":\"abc\"}}]}", 5 + 3, 0, 0},
        {"{\"messages\":[{\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://"
         "x\",\"detail\":\"low\"}}]}]}",
         9, 0, 1},
        {"{\"messages\":[{\"content\":[{\"input_audio\":{\"data\":\"AAAA\",\"format\":\"wav\"},\"type\":"
         "\"input_audio\"},"
         "{\"type\":\"text\",\"text\":\"hey\"}]}]}",
         11 + 4 + 3, 0, 1},
        {"{\"messages\":[{\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"AAAA\"}"
         "}]}]}",
         5 + 6, 0, 1},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_file\",\"file_id\":\"f1\"},"
         "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,AAAA\"}]}]}",
         4 + 10 + 11, 0, 2},
        {"{\"prompt\":\"data:image/png;base64,AAAA\"}", 0, 0, 0},
        {"{\"prompt\":\"DATA:,x\"}", 0, 0, 0},
        {"{\"prompt\":\"data: 1, 2\"}", 10, 0, 0},
        {"{\"prompt\":\"data:x\"}", 6, 0, 0},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct skimmed skimmed = skim_text(cases[i].body);
        assert_string_equal(skimmed.error, "");
        assert_int_equal(skimmed.result.text_bytes, cases[i].text);
        assert_int_equal(skimmed.result.number_tokens, cases[i].numbers);
        assert_int_equal(skimmed.result.media_parts, cases[i].media);
    }
}

static void shows_the_model_before_the_end(void **state)
{
    (void)state;
    struct wg_skim *skim = wg_skim_new();
    assert_int_equal(wg_skim_feed(skim, "{\"model\":\"m\"", 12), 0);
    assert_true(wg_skim_result(skim)->has_model);
    wg_skim_reset(skim);
    assert_false(wg_skim_result(skim)->has_model);
    assert_int_equal(wg_skim_feed(skim, "nonsense", 8), -EINVAL);
    wg_skim_reset(skim);
    assert_string_equal(wg_skim_error(skim), "");
    assert_int_equal(wg_skim_feed(skim, NULL, 0), 0);
    assert_int_equal(wg_skim_feed(skim, "{\"model\":\"m\"}", 13), 0);
    assert_int_equal(wg_skim_finish(skim), 0);
    skim = wg_skim_free(skim);
    assert_null(wg_skim_free(skim));
}

/* Syntax alone: none of these has a member that means something to us. */
static const char *const syntax[] = {
    "{}",
    "{\"\":\"\"}",
    "{\"a\":1}",
    "{\"a\":-0}",
    "{\"a\":0.5e+3}",
    "{\"a\":1E-2}",
    "{\"a\":[]}",
    "{\"a\":[{},[],\"\",null,true,false]}",
    "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9\"}",
    "{\"a\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\x7f\"}",
    "{",
    "}",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{,}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1 \"b\":2}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{\"a\":[1,]}",
    "{\"a\":[,1]}",
    "{\"a\":[1 2]}",
    "{\"a\":[1}",
    "{\"a\":{]}",
    "{\"a\":(1)}",
    "{\"a\":01}",
    "{\"a\":-}",
    "{\"a\":+1}",
    "{\"a\":.5}",
    "{\"a\":1.}",
    "{\"a\":1.e1}",
    "{\"a\":1e}",
    "{\"a\":1e+}",
    "{\"a\":0x1}",
    "{\"a\":-01}",
    "{\"a\":1..2}",
    "{\"a\":1e1.5}",
    "{\"a\":NaN}",
    "{\"a\":Infinity}",
    "{\"a\":tru}",
    "{\"a\":True}",
    "{\"a\":truee}",
    "{\"a\":nul",
    "{\"a\":\"",
    "{\"a\":\"\\",
    "{\"a\":\"\\u",
    "{\"a\":\"\\u12",
    "{\"a\":\"\\u12g4\"}",
    "{\"a\":\"\\x41\"}",
    "{\"a\":\"\\U0041\"}",
    "{\"a\":\"\n\"}",
    "{\"a\":\"\x01\"}",
    "{\"a\":\"\t\"}",
    "{\"a\":1}}",
    "{\"a\":1}{}",
    "{} x",
    "{}//",
    "/* */{}",
    "{\"a\":1;}",
    "{\"a\":\"\x80\"}",
    "{\"a\":\"\xc0\x80\"}",
    "{\"a\":\"\xc1\xbf\"}",
    "{\"a\":\"\xc3\"}",
    "{\"a\":\"\xc3(\"}",
    "{\"a\":\"\xe0\x9f\xbf\"}",
    "{\"a\":\"\xe2\x82\"}",
    "{\"a\":\"\xed\xa0\x80\"}",
    "{\"a\":\"\xed\xbf\xbf\"}",
    "{\"a\":\"\xf0\x8f\xbf\xbf\"}",
    "{\"a\":\"\xf4\x90\x80\x80\"}",
    "{\"a\":\"\xf5\x80\x80\x80\"}",
    "{\"a\":\"\xff\"}",
    "{\"a\":\"\xf0\x9f\x98\"}",
    "{\"\xff\":1}",
    "{\"a\":\xc3\xa9}",
    "\xef\xbb\xbf{}",
    "\x0b{}",
    "{\xc2\xa0}",
    "",
    " ",
    "[]",
    "[1]",
    "1",
    "\"a\"",
    "null",
};

static bool jansson_accepts(struct wg_slice body)
{
    json_t *json = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL, NULL);
    bool accepts = json_is_object(json);
    json_decref(json);
    return accepts;
}

static void agrees_with_jansson_about_syntax(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(syntax); i++) {
        struct skimmed skimmed = skim_text(syntax[i]);
        if (skimmed.accepted != jansson_accepts(wg_slice_str(syntax[i])))
            fail_msg("%s: %s", syntax[i], skimmed.accepted ? "accepted" : skimmed.error);
    }
}

/* Every byte of a valid body replaced by every other byte. */
static void agrees_with_jansson_about_any_one_byte(void **state)
{
    (void)state;
    static const char body[] = "{\"ab\":[1.5e3,\"x\xc3\xa9\\n\",true],\"cd\":{\"d\":null}}";
    char changed[sizeof(body)];
    for (size_t at = 0; at + 1 < sizeof(body); at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, body, sizeof(body));
            changed[at] = (char)byte;
            struct wg_slice text = wg_slice(changed, sizeof(body) - 1);
            struct skimmed skimmed = skim_in_pieces(text, 3);
            if (skimmed.accepted != jansson_accepts(text))
                fail_msg("byte %zu as 0x%02x: %s", at, (unsigned)byte, skimmed.error);
        }
    }
}

static void estimates_tokens(void **state)
{
    (void)state;
    struct wg_skim_result result = {.text_bytes = 9, .number_tokens = 4, .media_parts = 2};
    assert_int_equal(wg_tokens_estimate(&result, 256, 1024, true), 3 + 4 + 2048 + 256);
    assert_int_equal(wg_tokens_estimate(&result, 256, 1024, false), 3 + 4 + 2048);
    result.answer_cap = 16;
    assert_int_equal(wg_tokens_estimate(&result, 256, 1024, true), 3 + 4 + 2048 + 16);
    result = (struct wg_skim_result){
        .text_bytes = UINT64_MAX, .number_tokens = UINT64_MAX, .media_parts = UINT64_MAX};
    assert_int_equal(wg_tokens_estimate(&result, 256, UINT32_MAX, true), UINT64_C(1) << 53);
    result = (struct wg_skim_result){0};
    assert_int_equal(wg_tokens_estimate(&result, 256, 1024, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_model),
        cmocka_unit_test(finds_stream_and_its_options),
        cmocka_unit_test(finds_the_end_of_the_object),
        cmocka_unit_test(multiplies_the_answer_cap),
        cmocka_unit_test(counts_text_numbers_and_media),
        cmocka_unit_test(shows_the_model_before_the_end),
        cmocka_unit_test(agrees_with_jansson_about_syntax),
        cmocka_unit_test(agrees_with_jansson_about_any_one_byte),
        cmocka_unit_test(estimates_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
