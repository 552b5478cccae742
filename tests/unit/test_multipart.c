/* Forms: the model is found at any split, and whatever two readers could understand differently is refused.
 */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "wakegate/openai.h"

#define TYPE       "multipart/form-data; boundary=xx"
#define PART(name) "--xx\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART                                                                                            \
    "--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: "            \
    "audio/wav\r\n\r\n"
#define END "--xx--\r\n"

struct formed {
    bool accepted;
    struct wg_skim_result result;
    char error[200];
};

static struct formed read_in_pieces(struct wg_slice body, size_t piece)
{
    struct wg_multipart *form = wg_multipart_new(WG_SLICE(TYPE));
    assert_non_null(form);
    struct formed out = {0};
    int r = 0;
    for (size_t at = 0, len; at < body.len && r == 0; at += len) {
        len = WG_MIN(piece, body.len - at);
        char *copy = malloc(len);
        memcpy(copy, body.ptr + at, len);
        r = wg_multipart_feed(form, copy, len);
        free(copy);
    }
    out.accepted = r == 0 && wg_multipart_finish(form) == 0;
    out.result = *wg_multipart_result(form);
    snprintf(out.error, sizeof(out.error), "%s", wg_multipart_error(form));
    assert_int_equal(out.accepted, out.error[0] == '\0');
    if (!out.accepted) {
        assert_int_equal(wg_multipart_feed(form, "x", 1), -EINVAL);
        assert_int_equal(wg_multipart_finish(form), -EINVAL);
    }
    assert_null(wg_multipart_free(form));
    return out;
}

static struct formed read_body(struct wg_slice body)
{
    struct formed whole = read_in_pieces(body, body.len + 1);
    for (size_t piece = 1; piece < WG_MIN(body.len, (size_t)40); piece++) {
        struct formed split = read_in_pieces(body, piece);
        assert_string_equal(whole.error, split.error);
        if (whole.accepted)
            assert_memory_equal(&whole.result, &split.result, sizeof(whole.result));
    }
    return whole;
}

static struct formed read_text(const char *body)
{
    return read_body(wg_slice_str(body));
}

static void boundaries(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool accepted;
    } cases[] = {
        {TYPE, true},
        {"Multipart/Form-Data ; charset=utf-8; Boundary=\"a b\" ;", true},
        {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", true},
        {"multipart/form-data; "
         "boundary=1234567890123456789012345678901234567890123456789012345678901234567890",
         true},
        {"multipart/form-data; "
         "boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
         false},
        {"multipart/form-data", false},
        {"multipart/form-data; boundary=", false},
        {"multipart/form-data; boundary=\"\"", false},
        {"multipart/form-data; boundary=\"a \"", false},
        {"multipart/form-data; boundary=\"a", false},
        {"multipart/form-data; boundary=\"a\r\"", false},
        {"multipart/form-data; boundary=a; boundary=b", false},
        {"multipart/form-data; boundary=a b", false},
        {"multipart/form-data boundary=a", false},
        {"multipart/form-data; =a; boundary=a", false},
        {"multipart/mixed; boundary=a", false},
        {"application/json", false},
        {"", false},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct wg_multipart *form = wg_multipart_new(wg_slice_str(cases[i].type));
        assert_int_equal(form != NULL, cases[i].accepted);
        wg_multipart_free(form);
    }
}

static void finds_model_stream_and_files(void **state)
{
    (void)state;
    static const char body[] =
        "preamble\r\n" FILE_PART "RIFF\r\n--xy\r\r\n--x\r\n" PART("model") "whisper-1\r\n" PART(
            "prompt") "hello\r\n--\r\n" PART("stream") "true\r\n" END "epilogue --xx";
    struct formed formed = read_text(body);
    assert_string_equal(formed.error, "");
    assert_string_equal(formed.result.model, "whisper-1");
    assert_int_equal(formed.result.model_len, 9);
    assert_int_equal(formed.result.model_size, 9);
    assert_memory_equal(body + formed.result.model_at, "whisper-1\r\n--xx", 15);
    assert_true(formed.result.stream);
    assert_int_equal(formed.result.media_parts, 1);
    assert_int_equal(formed.result.text_bytes, strlen("hello\r\n--"));
}

static void takes_what_the_rfc_allows(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool has_model, stream;
    } cases[] = {
        {"--xx--", false, false},
        {"\r\n--xx \t\r\nContent-Disposition:form-data;name=model\r\n\r\nm\r\n--xx--", true, false},
        {"--xx\r\nX-Other: 1\r\ncontent-disposition: FORM-DATA; NAME=\"model\"\r\nContent-Transfer-Encoding: "
         "8bit\r\n\r\nm\r\n--xx--",
         true, false},
        {PART("stream") "false\r\n" END, false, false},
        {PART("stream") "1\r\n" END, false, true},
        {PART("stream") "True\r\n" END, false, true},
        {PART("stream") "true, certainly\r\n" END, false, false},
        {PART("Model") "m\r\n" END, false, false},
        {PART("x") "\r\n" END, false, false},
        {PART("a name that is very much longer than any that this reader would ever want to know") "\r\n" END,
         false, false},
        {"--xx\r\nContent-Disposition: form-data; name=\"mo\\\"del\"; "
         "filename=\"C:\\dir\\f\"\r\n\r\n\r\n" END,
         false, false},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct formed formed = read_text(cases[i].body);
        assert_string_equal(formed.error, "");
        assert_int_equal(formed.result.has_model, cases[i].has_model);
        assert_int_equal(formed.result.stream, cases[i].stream);
    }
}

static void says_what_is_wrong_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *body, *error;
    } cases[] = {
        {"", "the form ends without its closing boundary at byte 0"},
        {PART("model") "m\r\n--xx", "the form ends without its closing boundary at byte 61"},
        {PART("model") "m\r\n--xx-", "the form ends without its closing boundary at byte 62"},
        {PART("model") "m\r\n--xy--", "the form ends without its closing boundary at byte 63"},
        {"--xxy\r\n", "a boundary's line that goes on at byte 4"},
        {"--xx\n", "a boundary's line that goes on at byte 4"},
        {"--xx-y", "a boundary's line that goes on at byte 5"},
        {"--xx \ry", "a boundary's line that goes on at byte 6"},
        {"--xx\r\n\r\n", "a part without Content-Disposition at byte 8"},
        {"--xx\r\nContent-Disposition: form-data; name=a\n",
         "a line of a part's headers that does not end with CR LF at byte 45"},
        {"--xx\r\nnothing\r\n", "a part's header that cannot be understood at byte 15"},
        {"--xx\r\nName : x\r\n", "a part's header that cannot be understood at byte 16"},
        {"--xx\r\n folded: x\r\n", "a part's header that cannot be understood at byte 18"},
        {"--xx\r\na: \rb\r\n", "a part's header that cannot be understood at byte 13"},
        {"--xx\r\nContent-Disposition: attachment; name=a\r\n",
         "a part's Content-Disposition is not form-data at byte 47"},
        {"--xx\r\nContent-Disposition: form-data\r\n",
         "a Content-Disposition that cannot be understood or has no name at byte 38"},
        {"--xx\r\nContent-Disposition: form-data; name=\"a\r\n",
         "a Content-Disposition that cannot be understood or has no name at byte 47"},
        {"--xx\r\nContent-Disposition: form-data; name=a; name=model\r\n",
         "two names in one Content-Disposition at byte 58"},
        {"--xx\r\nContent-Disposition: form-data; name*=utf-8''model\r\n",
         "name* in a Content-Disposition at byte 58"},
        {"--xx\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=model\r\n",
         "two Content-Disposition headers in one part at byte 90"},
        {"--xx\r\nContent-Transfer-Encoding: base64\r\n",
         "a part with a Content-Transfer-Encoding at byte 41"},
        {"--xx\r\nContent-Disposition: form-data; name=model; filename=a\r\n",
         "the field \"model\" must not be a file at byte 62"},
        {PART("model") "a\r\n" PART("model") "b\r\n" END, "duplicate field \"model\" at byte 109"},
        {PART("stream") "true\r\n" PART("stream") "true\r\n" END, "duplicate field \"stream\" at byte 114"},
        {PART("model") "\r\n" END, "\"model\" must be 1 to 256 bytes long, is empty, at byte 54"},
        {PART("model") "\xc3\x28\r\n" END, "\"model\" must be UTF-8 without NUL at byte 54"},
        {PART("model") "--xx--", "a boundary where a part's value should begin at byte 58"},
    };
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++)
        assert_string_equal(read_text(cases[i].body).error, cases[i].error);
    assert_string_equal(read_body(WG_SLICE(PART("model") "a\0b\r\n" END)).error,
                        "\"model\" must be UTF-8 without NUL at byte 54");
    assert_string_equal(read_body(WG_SLICE("--xx\r\na: \0b\r\n")).error,
                        "a part's header that cannot be understood at byte 13");
}

/* before, `filler` repeated `count` times, behind. */
static struct formed read_large(const char *before, const char *filler, size_t count, const char *behind)
{
    struct wg_buf body = WG_BUF_INIT(16 * 1024 * 1024);
    (void)wg_buf_add_str(&body, before);
    while (count-- > 0)
        (void)wg_buf_add_str(&body, filler);
    (void)wg_buf_add_str(&body, behind);
    struct formed formed = read_body(wg_buf_slice(&body));
    wg_buf_clear(&body);
    return formed;
}

static void everything_is_bounded(void **state)
{
    (void)state;
    assert_true(read_large(PART("model"), "m", 256, "\r\n" END).result.has_model);
    assert_string_equal(read_large(PART("model"), "m", 257, "\r\n" END).error,
                        "\"model\" must be 1 to 256 bytes long, is longer, at byte 54");
    assert_string_equal(read_large("--xx\r\na: ", "b", 9000, "\r\n").error,
                        "headers of a part larger than 8192 bytes at byte 8198");
    assert_non_null(
        strstr(read_large("--xx\r\n", "a: b\r\n", 3000, "\r\n").error, "headers of a part larger"));
    assert_true(read_large("", PART("a") "\r\n", 1000, END).accepted);
    assert_non_null(
        strstr(read_large("", PART("a") "\r\n", 1001, END).error, "more than 1000 parts at byte "));
    assert_int_equal(read_large(PART("prompt"), "\r\r\n-", 50000, "\r\n" END).result.text_bytes, 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries),
        cmocka_unit_test(finds_model_stream_and_files),
        cmocka_unit_test(takes_what_the_rfc_allows),
        cmocka_unit_test(says_what_is_wrong_and_where),
        cmocka_unit_test(everything_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
