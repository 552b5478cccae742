/* The matrix of response heads: status lines, and by what the body ends (RFC 9112 6.3). */
#include "h1_check.h"

struct row {
    struct wg_slice head;
    enum wg_h1_result result;
    const char *why;
};

#define OK_LINE "HTTP/1.1 200 OK\r\n"
#define BAD(text, fragment)                                                                                  \
    {                                                                                                        \
        WG_SLICE(text), WG_H1_BAD, fragment                                                                  \
    }

static const struct row refused[] = {
    BAD("garbage\r\n\r\n", "does not start with an HTTP version"),
    BAD("http/1.1 200 OK\r\n\r\n", "does not start with an HTTP version"),
    BAD(" HTTP/1.1 200 OK\r\n\r\n", "does not start with an HTTP version"),
    BAD("HTTP/1 200 OK\r\n\r\n", "does not start with an HTTP version"),
    BAD("HTTP/1.\r\n\r\n", "does not start with an HTTP version"),
    BAD("ICY 200 OK\r\n\r\n", "does not start with an HTTP version"),
    BAD("\r\nHTTP/1.1 200 OK\r\n\r\n", "empty line before"),
    BAD("HTTP/1.1\r\n\r\n", "no space before the status"),
    BAD("HTTP/1.1\t200 OK\r\n\r\n", "no space before the status"),
    BAD("HTTP/1.10 200 OK\r\n\r\n", "no space before the status"),
    BAD("HTTP/1.1  200 OK\r\n\r\n", "not three digits"),
    BAD("HTTP/1.1 20 OK\r\n\r\n", "not three digits"),
    BAD("HTTP/1.1 -20 OK\r\n\r\n", "not three digits"),
    BAD("HTTP/1.1 2x0 OK\r\n\r\n", "not three digits"),
    BAD("HTTP/1.1 \r\n\r\n", "not three digits"),
    BAD("HTTP/1.1 2000 OK\r\n\r\n", "not allowed in a status line"),
    BAD("HTTP/1.1 200OK\r\n\r\n", "not allowed in a status line"),
    BAD("HTTP/1.1 200\tOK\r\n\r\n", "not allowed in a status line"),
    BAD("HTTP/1.1 200 O\0K\r\n\r\n", "not allowed in a status line"),
    BAD("HTTP/1.1 200 O\rK\r\n\r\n", "not allowed in a status line"),
    BAD("HTTP/1.1 200 OK\nA: b\r\n\r\n", "bare LF"),
    BAD("HTTP/1.1 200\nA: b\r\n\r\n", "bare LF"),
    BAD("HTTP/1.1 099 OK\r\n\r\n", "between 100 and 599"),
    BAD("HTTP/1.1 000 OK\r\n\r\n", "between 100 and 599"),
    BAD("HTTP/1.1 600 OK\r\n\r\n", "between 100 and 599"),
    BAD("HTTP/1.1 999 OK\r\n\r\n", "between 100 and 599"),
    {WG_SLICE("HTTP/2.0 200 OK\r\n\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("HTTP/1.2 200 OK\r\n\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("HTTP/0.9 200 OK\r\n\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},

    BAD(OK_LINE "A : b\r\n\r\n", "before its colon"),
    BAD(OK_LINE "A: b\r\n c\r\n\r\n", "folded"),
    BAD(OK_LINE "A: b\n\r\n", "bare LF"),
    BAD(OK_LINE "A: b\n\n", "bare LF"),
    BAD(OK_LINE "A: b\0\r\n\r\n", "NUL"),
    BAD(OK_LINE "A: b\rc\r\n\r\n", "bare CR"),
    BAD(OK_LINE ": b\r\n\r\n", "empty field name"),
    BAD(OK_LINE "A\r\n\r\n", "without a colon"),
    BAD(OK_LINE "Content-Type: a\r\nContent-Type: b\r\n\r\n", "more than one content-type"),

    BAD(OK_LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both"),
    BAD(OK_LINE "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "both"),
    BAD(OK_LINE "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", "more than one content-length"),
    BAD(OK_LINE "Content-Length: 1, 1\r\n\r\n", "one decimal number"),
    BAD(OK_LINE "Content-Length: x\r\n\r\n", "one decimal number"),
    BAD(OK_LINE "Content-Length: 9223372036854775808\r\n\r\n", "below 2^63"),
    BAD(OK_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n", "not just chunked"),
    BAD(OK_LINE "Transfer-Encoding: gzip\r\n\r\n", "not just chunked"),
    BAD(OK_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "more than one transfer-encoding"),
    BAD("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in HTTP/1.0"),
    BAD("HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n", "one decimal number"),
    BAD("HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", "interim answer with a body"),
    BAD("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n", "interim answer with a body"),
    BAD(OK_LINE "Connection: a/b\r\n\r\n", "not a list of names"),
};

static void what_is_ambiguous_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(refused); i++) {
        const struct row *row = &refused[i];
        struct wg_response response;
        const char *why = NULL;
        char *head = h1_exact(row->head);
        enum wg_h1_result result =
            wg_h1_parse_response(head, row->head.len, WG_SLICE("POST"), &response, &why);
        if (result != row->result)
            fail_msg("row %zu (%s) gave %d", i, row->head.ptr, result);
        h1_assert_why(why, row->why, row->head.ptr);
        assert_true(h1_head_end_any_way(row->head) > 0);
        free(head);
    }
}

struct taken {
    struct wg_slice head;
    const char *method;
    int status;
    enum wg_body_kind body;
    uint64_t length;
    unsigned version;
    bool close;
};

static const struct taken taken[] = {
    {WG_SLICE(OK_LINE "Content-Length: 5\r\n\r\n"), "POST", 200, WG_BODY_LENGTH, 5, 11, false},
    {WG_SLICE(OK_LINE "Content-Length: 0\r\n\r\n"), "POST", 200, WG_BODY_LENGTH, 0, 11, false},
    {WG_SLICE(OK_LINE "Transfer-Encoding: Chunked\r\n\r\n"), "POST", 200, WG_BODY_CHUNKED, 0, 11, false},
    {WG_SLICE(OK_LINE "\r\n"), "POST", 200, WG_BODY_CLOSE, 0, 11, true},
    {WG_SLICE(OK_LINE "Connection: keep-alive\r\n\r\n"), "POST", 200, WG_BODY_CLOSE, 0, 11, true},
    {WG_SLICE(OK_LINE "Connection: close\r\nContent-Length: 5\r\n\r\n"), "POST", 200, WG_BODY_LENGTH, 5, 11,
     true},
    {WG_SLICE("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n"), "POST", 200, WG_BODY_LENGTH, 5, 10, true},
    {WG_SLICE("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n"), "POST", 200,
     WG_BODY_LENGTH, 5, 10, false},
    {WG_SLICE("HTTP/1.0 200 OK\r\n\r\n"), "GET", 200, WG_BODY_CLOSE, 0, 10, true},

    /* the reason */
    {WG_SLICE("HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n"), "GET", 503, WG_BODY_LENGTH, 0, 11, false},
    {WG_SLICE("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"), "GET", 404, WG_BODY_LENGTH, 0, 11, false},
    {WG_SLICE("HTTP/1.1 599 Nicht \xc3\xbc\tgut \r\nContent-Length: 0\r\n\r\n"), "GET", 599, WG_BODY_LENGTH,
     0, 11, false},

    /* no body, whatever is announced */
    {WG_SLICE(OK_LINE "Content-Length: 5\r\n\r\n"), "HEAD", 200, WG_BODY_NONE, 5, 11, false},
    {WG_SLICE(OK_LINE "Transfer-Encoding: chunked\r\n\r\n"), "HEAD", 200, WG_BODY_NONE, 0, 11, false},
    {WG_SLICE(OK_LINE "\r\n"), "HEAD", 200, WG_BODY_NONE, 0, 11, false},
    {WG_SLICE(OK_LINE "\r\n"), "head", 200, WG_BODY_CLOSE, 0, 11, true},
    {WG_SLICE("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), "GET", 304, WG_BODY_NONE, 5, 11,
     false},
    {WG_SLICE("HTTP/1.1 204 No Content\r\n\r\n"), "GET", 204, WG_BODY_NONE, 0, 11, false},
    {WG_SLICE("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"), "GET", 204, WG_BODY_NONE, 0, 11,
     false},
    {WG_SLICE("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n"), "GET", 204, WG_BODY_NONE, 4, 11, true},
    {WG_SLICE("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"), "GET", 204, WG_BODY_NONE, 0,
     11, true},
    {WG_SLICE("HTTP/1.1 100 Continue\r\n\r\n"), "POST", 100, WG_BODY_NONE, 0, 11, false},
    {WG_SLICE("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), "POST", 103, WG_BODY_NONE, 0, 11, false},
    {WG_SLICE("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"), "POST", 101,
     WG_BODY_NONE, 0, 11, false},
};

static void what_is_clear_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(taken); i++) {
        const struct taken *row = &taken[i];
        struct wg_response response;
        const char *why = NULL;
        char *head = h1_exact(row->head);
        if (wg_h1_parse_response(head, row->head.len, wg_slice_str(row->method), &response, &why) != WG_H1_OK)
            fail_msg("row %zu (%s) was refused: %s", i, row->head.ptr, why);
        assert_int_equal(h1_head_end_any_way(row->head), row->head.len);
        assert_int_equal(response.status, row->status);
        assert_int_equal(response.body, row->body);
        assert_int_equal(response.content_length, row->length);
        assert_int_equal(response.version, row->version);
        assert_int_equal(response.keep_alive, !row->close);
        free(head);
    }
}

static void fields_are_marked_and_kept(void **state)
{
    (void)state;
    struct wg_response response;
    const char *why = NULL;
    struct wg_slice head = WG_SLICE(
        OK_LINE "server: uvicorn\r\nConnection: X-Hop, content-type\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
                "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    static const bool hop[] = {false, true, true, true, false, true};
    assert_int_equal(wg_h1_parse_response(head.ptr, head.len, WG_SLICE("POST"), &response, &why), WG_H1_OK);
    assert_int_equal(response.fields.n, WG_COUNT_OF(hop));
    for (size_t i = 0; i < WG_COUNT_OF(hop); i++)
        assert_int_equal(response.fields.items[i].hop, hop[i]);
    h1_assert_slice(wg_fields_get(&response.fields, WG_TOKEN_CONTENT_TYPE)->value, "text/event-stream");
}

static void too_many_fields_are_refused(void **state)
{
    (void)state;
    struct wg_response response;
    const char *why = NULL;
    struct wg_buf head = WG_BUF_INIT(64 * 1024);
    wg_buf_add_str(&head, OK_LINE);
    for (int i = 0; i <= WG_FIELDS_MAX; i++)
        wg_buf_add_str(&head, "A: b\r\n");
    wg_buf_add_str(&head, "\r\n");
    assert_false(head.failed);
    assert_int_equal(wg_h1_parse_response(head.data, head.len, WG_SLICE("POST"), &response, &why),
                     WG_H1_TOO_LARGE);
    h1_assert_why(why, "too many fields", "101 fields");
    wg_buf_clear(&head);
}

static void one_wrong_byte_never_gets_through(void **state)
{
    (void)state;
    struct wg_slice good = WG_SLICE(OK_LINE "Content-Length: 12\r\nX-A: b c\r\n\r\n");
    char *head = h1_exact(good);
    for (size_t i = 0; i < good.len; i++) {
        for (int byte = 0; byte < 256; byte++) {
            struct wg_response response;
            const char *why = NULL;
            head[i] = (char)byte;
            enum wg_h1_result result = wg_h1_parse_response(head, good.len, WG_SLICE("GET"), &response, &why);
            if (result == WG_H1_OK && head[i] != good.ptr[i] && (byte < 0x20 || byte == 0x7f))
                assert_int_equal(byte, '\t');
            assert_true(result == WG_H1_OK || why != NULL);
        }
        head[i] = good.ptr[i];
    }
    free(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ambiguous_is_refused),      cmocka_unit_test(what_is_clear_is_taken),
        cmocka_unit_test(fields_are_marked_and_kept),        cmocka_unit_test(too_many_fields_are_refused),
        cmocka_unit_test(one_wrong_byte_never_gets_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
