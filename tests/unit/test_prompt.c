/* The probe: its bodies, and which answers prove a model. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "wakegate/openai.h"

static void bodies(void **state)
{
    (void)state;
    static const struct {
        enum wg_prompt_kind kind;
        const char *body;
    } cases[] = {
        {WG_PROMPT_CHAT, "{\"model\":\"a\\\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\\n\"}],"
                         "\"max_tokens\":1,\"stream\":false}"},
        {WG_PROMPT_COMPLETIONS,
         "{\"model\":\"a\\\"b\",\"prompt\":\"Hi\\n\",\"max_tokens\":1,\"stream\":false}"},
        {WG_PROMPT_EMBEDDINGS, "{\"model\":\"a\\\"b\",\"input\":\"Hi\\n\"}"},
    };
    struct wg_buf out = WG_BUF_INIT(1024);
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        wg_buf_reset(&out);
        assert_int_equal(wg_prompt_body(&out, cases[i].kind, WG_SLICE("a\"b"), WG_SLICE("Hi\n"), 1), 0);
        assert_string_equal(wg_buf_str(&out), cases[i].body);
    }
    wg_buf_clear(&out);
    struct wg_buf small = WG_BUF_INIT(8);
    assert_int_equal(wg_prompt_body(&small, WG_PROMPT_CHAT, WG_SLICE("m"), WG_SLICE("Hi"), 1), -ENOSPC);
    wg_buf_clear(&small);
}

#define CHAT  WG_PROMPT_CHAT
#define EMBED WG_PROMPT_EMBEDDINGS

static const struct {
    enum wg_prompt_kind kind;
    const char *body;
    enum wg_prompt_verdict verdict;
    const char *text;
} answers[] = {
    {CHAT,
     "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":\"length\"}"
     "]}",
     WG_PROMPT_OK, "Hello"},
    {CHAT, " \n{\"choices\":[{\"message\":{\"content\":\"\",\"reasoning_content\":\"Hm\"}}]}", WG_PROMPT_OK,
     "Hm"},
    {CHAT, "{\"choices\":[{\"message\":{\"content\":null,\"reasoning\":\"Hm\"}}]}", WG_PROMPT_OK, "Hm"},
    {CHAT, "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"length\"}],\"error\":null}",
     WG_PROMPT_OK, ""},
    {CHAT,
     "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"}]}}]}",
     WG_PROMPT_OK, "ab"},
    {CHAT, "{\"choices\":[{\"message\":{\"content\":\"a\\u0000b\"}}],\"seed\":18446744073709551615}",
     WG_PROMPT_OK, "a"},
    {WG_PROMPT_COMPLETIONS, "{\"choices\":[{\"text\":\" there\"}]}", WG_PROMPT_OK, " there"},
    {CHAT, "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"Hey\"}]}", WG_PROMPT_OK, "Hey"},
    {CHAT, "{\"content\":\"Hey\",\"stop\":true}", WG_PROMPT_OK, "Hey"},
    {CHAT, "{\"error\":null,\"output\":[{\"content\":[{\"type\":\"output_text\",\"text\":\"Yo\"}]}]}",
     WG_PROMPT_OK, "Yo"},
    {CHAT, "{\"results\":[{\"index\":0,\"relevance_score\":0.5}]}", WG_PROMPT_OK, ""},
    {EMBED, "{\"data\":[{\"embedding\":[0.1,-2e-3]}]}", WG_PROMPT_OK, ""},
    {EMBED, "{\"data\":[{\"embedding\":\"AAAA\"}]}", WG_PROMPT_OK, ""},
    {EMBED, "{\"data\":[{\"embedding\":[]}]}", WG_PROMPT_NO_CHOICES, ""},
    {EMBED, "{\"data\":[]}", WG_PROMPT_NO_CHOICES, ""},
    {EMBED, "{\"choices\":[{\"text\":\"x\"}]}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"choices\":[]}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"choices\":[null]}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"choices\":{}}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"status\":\"ok\"}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"error\":{\"message\":\"CUDA out of memory\"}}", WG_PROMPT_ERROR_INSIDE, "CUDA out of memory"},
    {CHAT, "{\"error\":\"dead\",\"choices\":[{\"text\":\"x\"}]}", WG_PROMPT_ERROR_INSIDE, "dead"},
    {CHAT, "{\"error\":false,\"choices\":[{\"text\":\"x\"}]}", WG_PROMPT_OK, "x"},
    {CHAT, "{\"error\":0}", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "{\"error\":7}", WG_PROMPT_ERROR_INSIDE, "{\"error\":7}"},
    {CHAT, "{\"error\":true}", WG_PROMPT_ERROR_INSIDE, "{\"error\":true}"},
    {CHAT, "{\"error\":[\"a\"]}", WG_PROMPT_ERROR_INSIDE, "a"},
    {CHAT, "{\"object\":\"error\",\"message\":\"flat\"}", WG_PROMPT_ERROR_INSIDE, "flat"},
    {CHAT, "{\"type\":\"error\",\"error\":{\"message\":\"native\"}}", WG_PROMPT_ERROR_INSIDE, "native"},
    {CHAT, "{\"choices\":[{\"text\":\"par\",\"error\":{\"message\":\"x\"}}]}", WG_PROMPT_ERROR_INSIDE,
     "{\"choices\":[{\"text\":\"par\",\"error\":{\"message\":\"x\"}}]}"},
    {CHAT, "", WG_PROMPT_NOT_JSON, ""},
    {CHAT, "OK", WG_PROMPT_NOT_JSON, ""},
    {CHAT, "[{\"choices\":[{}]}]", WG_PROMPT_NOT_JSON, ""},
    {CHAT, "<html>502</html>", WG_PROMPT_NOT_JSON, ""},
    {CHAT, "{\"choices\":[{\"text\":\"x\"}]", WG_PROMPT_NOT_JSON, ""},
    {CHAT,
     "data: "
     "{\"choices\":[{\"delta\":{\"content\":\"He\"}}]}\n\ndata:{\"choices\":[{\"delta\":{\"content\":\"y\"}}]"
     "}\n\ndata: [DONE]\n\n",
     WG_PROMPT_OK, "Hey"},
    {CHAT, ": ping\r\ndata: {\"choices\":\r\ndata: [{\"delta\":{}}]}\r\n\r\n", WG_PROMPT_OK, ""},
    {CHAT, "id: 1\rdata: {\"choices\":[{\"text\":\"x\"}]}\r\r", WG_PROMPT_OK, "x"},
    {CHAT,
     "event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: content_block_delta\n"
     "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
     WG_PROMPT_OK, "Hi"},
    {CHAT,
     "event: response.output_text.delta\ndata: "
     "{\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
     WG_PROMPT_OK, "Hi"},
    {CHAT,
     "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"error\":{\"message\":\"died\"}}\n\ndata: [DONE]\n\n",
     WG_PROMPT_ERROR_INSIDE, "died"},
    {CHAT, "event: error\ndata: {\"message\":\"died\"}\n\n", WG_PROMPT_ERROR_INSIDE, "died"},
    {CHAT, "data: {\"type\":\"response.failed\",\"message\":\"died\"}\n\n", WG_PROMPT_ERROR_INSIDE, "died"},
    {CHAT, "data: [DONE]\n\n", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "data: {\"choices\":[]}\n\n", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "data: {\"choices\":[{}]}\n", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, ": keepalive\n", WG_PROMPT_NO_CHOICES, ""},
    {CHAT, "data: garbage\n\n", WG_PROMPT_NOT_JSON, ""},
};

static void verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(answers); i++) {
        struct wg_buf text = WG_BUF_INIT(1024);
        enum wg_prompt_verdict verdict =
            wg_prompt_judge(answers[i].kind, wg_slice_str(answers[i].body), &text);
        if (verdict != answers[i].verdict)
            fail_msg("%s: %d", answers[i].body, verdict);
        assert_string_equal(wg_buf_str(&text), answers[i].text);
        wg_buf_clear(&text);
        assert_int_equal(wg_prompt_judge(answers[i].kind, wg_slice_str(answers[i].body), NULL), verdict);
    }
}

static void a_long_answer_is_cut(void **state)
{
    (void)state;
    struct wg_buf text = WG_BUF_INIT(4);
    struct wg_slice body = WG_SLICE("{\"choices\":[{\"text\":\"abc\xe2\x82\xac\"},{\"text\":\"def\"}]}");
    assert_int_equal(wg_prompt_judge(CHAT, body, &text), WG_PROMPT_OK);
    assert_string_equal(wg_buf_str(&text), "abcd");
    wg_buf_clear(&text);
}

static void a_deep_answer_is_not_json(void **state)
{
    (void)state;
    enum { LEVELS = 100000 };
    char *body = malloc(2 * LEVELS);
    memset(body, '[', LEVELS);
    memset(body + LEVELS, ']', LEVELS);
    memcpy(body, "{\"a\":", 5);
    assert_int_equal(wg_prompt_judge(CHAT, wg_slice(body, 2 * LEVELS), NULL), WG_PROMPT_NOT_JSON);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(a_long_answer_is_cut),
        cmocka_unit_test(a_deep_answer_is_not_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
