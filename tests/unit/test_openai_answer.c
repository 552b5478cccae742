/* What Wakegate says itself: the errors in each API's shape, the events of a stream that has begun, entries
 * of the model list; and what it makes of the model servers' own error bodies. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <jansson.h>

#include "wakegate/openai.h"

static void assert_json(struct wg_slice text)
{
    json_t *json = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_decref(json);
}

static void tells_apis_apart(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum wg_api api;
        bool answers;
    } cases[] = {
        {"/v1/chat/completions", WG_API_OPENAI, true},
        {"/v1/completions", WG_API_OPENAI, true},
        {"/v1/messages", WG_API_ANTHROPIC, true},
        {"/v1/messages?beta=true", WG_API_ANTHROPIC, true},
        {"/v1/messages/count_tokens", WG_API_ANTHROPIC, false},
        {"/models/org/name/v1/messages", WG_API_ANTHROPIC, true},
        {"/v1/messagesx", WG_API_OPENAI, true},
        {"/v1/chat?x=/v1/messages", WG_API_OPENAI, true},
        {"/v1/responses", WG_API_RESPONSES, true},
        {"/v1/responses/abc", WG_API_RESPONSES, true},
        {"/v1/audio/transcriptions", WG_API_OPENAI, true},
        {"/v1/embeddings", WG_API_OPENAI, false},
        {"/v2/rerank", WG_API_OPENAI, false},
        {"/score", WG_API_OPENAI, false},
        {"/pooling", WG_API_OPENAI, false},
        {"/classify", WG_API_OPENAI, false},
        {"/tokenize", WG_API_OPENAI, false},
        {"/detokenize", WG_API_OPENAI, false},
        {"", WG_API_OPENAI, true},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        assert_int_equal(wg_api_of_path(wg_slice_str(cases[i].path)), cases[i].api);
        assert_int_equal(wg_path_answers(wg_slice_str(cases[i].path)), cases[i].answers);
    }
}

static void error_bodies(void **state)
{
    (void)state;
    struct wg_buf out = WG_BUF_INIT(4096);
    assert_int_equal(
        wg_error_body(&out, WG_API_OPENAI, WG_REASON_MODEL_NOT_FOUND, "no \"x\"\n", "model", WG_SLICE("r1")),
        0);
    assert_string_equal(wg_buf_str(&out),
                        "{\"error\":{\"message\":\"no \\\"x\\\"\\n\",\"type\":\"invalid_request_error\","
                        "\"param\":\"model\",\"code\":\"model_not_found\"}}");
    wg_buf_reset(&out);
    assert_int_equal(
        wg_error_body(&out, WG_API_RESPONSES, WG_REASON_RATE_LIMIT_TOKENS, "m", NULL, WG_SLICE("r1")), 0);
    assert_string_equal(wg_buf_str(&out), "{\"error\":{\"message\":\"m\",\"type\":\"tokens\",\"param\":null,"
                                          "\"code\":\"rate_limit_exceeded\"}}");
    wg_buf_reset(&out);
    assert_int_equal(wg_error_body(&out, WG_API_ANTHROPIC, WG_REASON_HOLD_FULL, "m", NULL, WG_SLICE("r1")),
                     0);
    assert_string_equal(wg_buf_str(&out), "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                                          "\"message\":\"m\"},\"request_id\":\"r1\"}");
    wg_buf_reset(&out);
    assert_int_equal(
        wg_error_body(&out, WG_API_ANTHROPIC, WG_REASON_HOLD_FULL, "m", NULL, (struct wg_slice){0}), 0);
    assert_non_null(strstr(wg_buf_str(&out), "\"request_id\":null}"));
    wg_buf_clear(&out);
}

static void every_reason_has_a_body_and_an_event(void **state)
{
    (void)state;
    for (int reason = 0; reason < WG_REASON_COUNT; reason++) {
        for (int api = WG_API_OPENAI; api <= WG_API_RESPONSES; api++) {
            struct wg_buf out = WG_BUF_INIT(4096);
            assert_int_equal(
                wg_error_body(&out, (enum wg_api)api, (enum wg_reason)reason, NULL, NULL, WG_SLICE("r")), 0);
            assert_json(wg_buf_slice(&out));
            wg_buf_reset(&out);
            assert_int_equal(
                wg_error_event(&out, (enum wg_api)api, (enum wg_reason)reason, NULL, WG_SLICE("r")), 0);
            const char *data = strstr(wg_buf_str(&out), "data: ");
            const char *end = strstr(wg_buf_str(&out), "\n\n");
            assert_non_null(data);
            assert_ptr_equal(end, out.data + out.len - 2);
            assert_json(wg_slice(data + 6, (size_t)(end - data) - 6));
            wg_buf_clear(&out);
        }
    }
}

static void error_events(void **state)
{
    (void)state;
    struct wg_buf out = WG_BUF_INIT(4096);
    assert_int_equal(wg_error_event(&out, WG_API_OPENAI, WG_REASON_MODEL_WAKE_FAILED, "m", WG_SLICE("r1")),
                     0);
    assert_string_equal(wg_buf_str(&out),
                        "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,"
                        "\"code\":\"model_wake_failed\"}}\n\n");
    wg_buf_reset(&out);
    assert_int_equal(wg_error_event(&out, WG_API_ANTHROPIC, WG_REASON_MODEL_WAKE_FAILED, "m", WG_SLICE("r1")),
                     0);
    assert_string_equal(wg_buf_str(&out),
                        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                        "\"message\":\"m\"},\"request_id\":\"r1\"}\n\n");
    wg_buf_reset(&out);
    assert_int_equal(wg_error_event(&out, WG_API_RESPONSES, WG_REASON_MODEL_WAKE_FAILED, "m", WG_SLICE("r1")),
                     0);
    assert_string_equal(
        wg_buf_str(&out),
        "event: error\ndata: "
        "{\"type\":\"error\",\"code\":\"model_wake_failed\",\"message\":\"m\",\"param\":null,"
        "\"sequence_number\":0,\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,"
        "\"code\":\"model_wake_failed\"}}\n\n");
    wg_buf_clear(&out);
}

static void a_full_buffer_is_an_error(void **state)
{
    (void)state;
    struct wg_buf out = WG_BUF_INIT(60);
    assert_int_equal(wg_error_body(&out, WG_API_OPENAI, WG_REASON_HOLD_FULL, NULL, NULL, WG_SLICE("r")),
                     -ENOSPC);
    wg_buf_reset(&out);
    assert_int_equal(wg_error_event(&out, WG_API_RESPONSES, WG_REASON_HOLD_FULL, NULL, WG_SLICE("r")),
                     -ENOSPC);
    wg_buf_reset(&out);
    assert_int_equal(wg_model_entry(&out, WG_SLICE("m"), "cold", 1), -ENOSPC);
    wg_buf_clear(&out);
}

static void heartbeats(void **state)
{
    (void)state;
    assert_true(wg_slice_eq(wg_heartbeat(WG_API_OPENAI), WG_SLICE(": keepalive\n")));
    assert_true(wg_slice_eq(wg_heartbeat(WG_API_RESPONSES), WG_SLICE(": keepalive\n")));
    assert_true(
        wg_slice_eq(wg_heartbeat(WG_API_ANTHROPIC), WG_SLICE("event: ping\ndata: {\"type\": \"ping\"}\n\n")));
}

static void model_entries(void **state)
{
    (void)state;
    struct wg_buf out = WG_BUF_INIT(4096);
    assert_int_equal(wg_model_entry(&out, WG_SLICE("org/na\"me"), "cold", 12), 0);
    assert_string_equal(
        wg_buf_str(&out),
        "{\"id\":\"org/na\\\"me\",\"object\":\"model\",\"created\":0,\"owned_by\":\"wakegate\","
        "\"wakegate\":{\"state\":\"cold\",\"eta_seconds\":12}}");
    wg_buf_reset(&out);
    assert_int_equal(wg_model_entry(&out, WG_SLICE("m"), "warm", -1), 0);
    assert_non_null(strstr(wg_buf_str(&out), "\"eta_seconds\":null"));
    wg_buf_clear(&out);
}

static void error_texts(void **state)
{
    (void)state;
    static const struct {
        const char *body, *text;
    } cases[] = {
        {"", ""},
        {" \n\t ", ""},
        {"{\"error\":{\"message\":\"Loading\\n model\",\"code\":503}}", "Loading model"},
        {"{\"error\":\"Unauthorized\"}", "Unauthorized"},
        {"{\"object\":\"error\",\"message\":\"too long\",\"code\":400}", "too long"},
        {"{\"detail\":\"Not Found\"}", "Not Found"},
        {"{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\"}]}", "field required"},
        {"{\"error\":{\"code\":5}}", "{\"error\":{\"code\":5}}"},
        {"{\"error\":[]}", "{\"error\":[]}"},
        {"{\"error\":{\"message\":\"cut of", "{\"error\":{\"message\":\"cut of"},
        {"[1]", "[1]"},
        {"<html><head><title>502 Bad\nGateway</title></head><body>x</body></html>", "502 Bad Gateway"},
        {"<p>no <b>title</b></p>", "no title"},
        {"<title>open", "open"},
        {"plain\x01text\x7f here\r\n", "plain text here"},
        {"a < b", "a < b"},
        {"bad \xff\xc3 utf-8", "bad \xef\xbf\xbd\xef\xbf\xbd utf-8"},
        {"{\"error\":\"a\\u0000b\"}", "a b"},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct wg_buf out = WG_BUF_INIT(1024);
        wg_error_text(wg_slice_str(cases[i].body), 200, &out);
        assert_string_equal(wg_buf_str(&out), cases[i].text);
        wg_buf_clear(&out);
    }
}

static void error_texts_are_cut_at_a_character(void **state)
{
    (void)state;
    struct wg_buf out = WG_BUF_INIT(8);
    wg_error_text(WG_SLICE("ab \xe2\x82\xac\xe2\x82\xac"), 7, &out);
    assert_string_equal(wg_buf_str(&out), "ab \xe2\x82\xac");
    wg_buf_reset(&out);
    wg_error_text(WG_SLICE("0123456789"), 100, &out);
    assert_string_equal(wg_buf_str(&out), "01234567");
    wg_error_text(WG_SLICE("more"), 100, &out);
    assert_string_equal(wg_buf_str(&out), "01234567");
    wg_buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_apis_apart),
        cmocka_unit_test(error_bodies),
        cmocka_unit_test(every_reason_has_a_body_and_an_event),
        cmocka_unit_test(error_events),
        cmocka_unit_test(a_full_buffer_is_an_error),
        cmocka_unit_test(heartbeats),
        cmocka_unit_test(model_entries),
        cmocka_unit_test(error_texts),
        cmocka_unit_test(error_texts_are_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
