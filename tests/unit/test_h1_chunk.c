/* The matrix of chunked bodies; every input is decoded at once, byte by byte, and in random pieces, with one
 * and the same outcome. */
#include "h1_check.h"

struct outcome {
    enum wg_h1_result result;
    size_t used;
    struct wg_buf body;
    char why[80];
};

/* Feeds pieces of a length that next() chooses, each in memory of its own. */
static void decode(struct wg_h1_chunked *chunked, struct wg_slice input, size_t (*next)(void),
                   struct outcome *ret)
{
    *ret = (struct outcome){.result = WG_H1_PARTIAL, .body = WG_BUF_INIT(1024 * 1024)};
    wg_h1_chunked_init(chunked);
    while (ret->result == WG_H1_PARTIAL && ret->used < input.len) {
        size_t want = next(), len = WG_MIN(want, input.len - ret->used), at = 0, used = 1;
        char *piece = h1_exact(wg_slice(input.ptr + ret->used, len));
        while (ret->result == WG_H1_PARTIAL && at < len && used > 0) {
            struct wg_slice data = {0};
            ret->result = wg_h1_chunked_feed(chunked, piece + at, len - at, &used, &data);
            if (ret->result == WG_H1_BAD)
                break;
            assert_true(data.len <= used && used <= len - at);
            assert_true(data.len == 0 || data.ptr + data.len == piece + at + used);
            wg_buf_add_slice(&ret->body, data);
            at += used;
        }
        if (ret->result != WG_H1_BAD)
            ret->used += at;
        else
            snprintf(ret->why, sizeof(ret->why), "%s", chunked->why);
        free(piece);
    }
    assert_false(ret->body.failed);
}

static size_t at_once(void)
{
    return SIZE_MAX;
}

static size_t byte_by_byte(void)
{
    return 1;
}

static size_t at_random(void)
{
    return 1 + (size_t)(random() % 9);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->result, b->result);
    assert_string_equal(a->why, b->why);
    assert_true(wg_slice_eq(wg_buf_slice(&a->body), wg_buf_slice(&b->body)));
    if (a->result != WG_H1_BAD)
        assert_int_equal(a->used, b->used);
}

/* Decodes in every way, and leaves `chunked` and *ret as after decoding at once. */
static void decode_every_way(struct wg_h1_chunked *chunked, struct wg_slice input, struct outcome *ret)
{
    decode(chunked, input, at_once, ret);
    for (int i = 0; i < 20; i++) {
        struct wg_h1_chunked again;
        struct outcome other;
        decode(&again, input, i == 0 ? byte_by_byte : at_random, &other);
        assert_same(ret, &other);
        assert_true(wg_slice_eq(wg_buf_slice(&chunked->trailer), wg_buf_slice(&again.trailer)));
        wg_buf_clear(&other.body);
        wg_h1_chunked_clear(&again);
    }
}

struct row {
    struct wg_slice input;
    enum wg_h1_result result;
    const char *body_or_why;
    size_t behind; /* bytes of the input that are not the body's */
};

#define OK(text, body)                                                                                       \
    {                                                                                                        \
        WG_SLICE(text), WG_H1_OK, body, 0                                                                    \
    }
#define BAD(text, why)                                                                                       \
    {                                                                                                        \
        WG_SLICE(text), WG_H1_BAD, why, 0                                                                    \
    }
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct row rows[] = {
    OK("0\r\n\r\n", ""),
    OK("000\r\n\r\n", ""),
    OK("0000000000000000\r\n\r\n", ""),
    OK("3\r\nabc\r\n0\r\n\r\n", "abc"),
    OK("3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\n", "abc0123456789"),
    OK("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
    OK("0000000000000003\r\nabc\r\n0\r\n\r\n", "abc"),
    OK("5\r\n\r\n0\r\n\r\n0\r\n\r\n", "\r\n0\r\n"),
    OK("3;a=b;c=\"d e\"\r\nabc\r\n0;x\r\n\r\n", "abc"),
    OK("3;\t ~\r\nabc\r\n0\r\n\r\n", "abc"),
    OK("3;" X64 X64 X64 X64 "\r\nabc\r\n0\r\n\r\n", "abc"),
    OK("0\r\nA: b\r\nC:\t d \r\n\r\n", ""),
    {WG_SLICE("3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), WG_H1_OK, "abc", 16},
    {WG_SLICE("0\r\nA: b\r\n\r\n\r\n"), WG_H1_OK, "", 2},

    {WG_SLICE("3\r\nab"), WG_H1_PARTIAL, "ab", 0},
    {WG_SLICE("3\r\nabc"), WG_H1_PARTIAL, "abc", 0},
    {WG_SLICE("3\r\nabc\r\n0\r\n"), WG_H1_PARTIAL, "abc", 0},
    {WG_SLICE("3\r\nabc\r\n0\r\n\r"), WG_H1_PARTIAL, "abc", 0},
    {WG_SLICE("7fffffffffffffff\r\nabc"), WG_H1_PARTIAL, "abc", 0},

    BAD("\r\n", "does not start with a hexadecimal digit"),
    BAD("g\r\n", "does not start with a hexadecimal digit"),
    BAD(" 3\r\nabc\r\n", "does not start with a hexadecimal digit"),
    BAD("-0\r\n\r\n", "does not start with a hexadecimal digit"),
    BAD("+3\r\nabc\r\n", "does not start with a hexadecimal digit"),
    BAD(";a\r\n", "does not start with a hexadecimal digit"),
    BAD("0x1\r\na\r\n", "not allowed in a chunk size"),
    BAD("0_0\r\n\r\n", "not allowed in a chunk size"),
    BAD("1abczz\r\n", "not allowed in a chunk size"),
    BAD("3 \r\nabc\r\n", "not allowed in a chunk size"),
    BAD("3 ;a\r\nabc\r\n", "not allowed in a chunk size"),
    BAD("3\t\r\nabc\r\n", "not allowed in a chunk size"),
    BAD("3\0\r\nabc\r\n", "not allowed in a chunk size"),
    BAD("\xb3\r\nabc\r\n", "does not start with a hexadecimal digit"),
    BAD("3\nabc\r\n", "bare LF behind a chunk size"),
    BAD("0\n\r\n", "bare LF behind a chunk size"),
    BAD("3\rabc\r\n", "bare CR behind a chunk size"),
    BAD("3\r\r\nabc\r\n", "bare CR behind a chunk size"),
    BAD("00000000000000000\r\n\r\n", "too large"),
    BAD("11111111111111111\r\n", "too large"),
    BAD("8000000000000000\r\n", "too large"),
    BAD("ffffffffffffffff\r\n", "too large"),
    BAD("3;a\nabc\r\n", "bare LF behind a chunk extension"),
    BAD("3;a\rb\r\nabc\r\n", "bare CR behind a chunk size"),
    BAD("3;a\0\r\nabc\r\n", "not allowed in a chunk extension"),
    BAD("3;a\x7f\r\nabc\r\n", "not allowed in a chunk extension"),
    BAD("3;\xc3\xa4\r\nabc\r\n", "not allowed in a chunk extension"),
    BAD("3;" X64 X64 X64 X64 "x\r\nabc\r\n", "chunk extension is too long"),
    BAD("3\r\nabcd\r\n0\r\n\r\n", "not followed by CRLF"),
    BAD("3\r\nabc0\r\n\r\n", "not followed by CRLF"),
    BAD("3\r\nabc\n0\r\n\r\n", "not followed by CRLF"),
    BAD("3\r\nabc\r0\r\n\r\n", "not followed by CRLF"),
    BAD("3\r\nabc\r\r\n0\r\n\r\n", "not followed by CRLF"),
    BAD("3\r\nabc\r\n\r\n0\r\n\r\n", "does not start with a hexadecimal digit"),

    BAD("0\r\n\n", "bare LF in the trailer"),
    BAD("0\r\n\rx", "bare CR in the trailer"),
    BAD("0\r\nA: b\n\r\n", "bare LF in the trailer"),
    BAD("0\r\nA: b\rc\r\n\r\n", "bare CR in the trailer"),
    BAD("0\r\nA: b\r\r\n\r\n", "bare CR in the trailer"),
    BAD("0\r\nA : b\r\n\r\n", "before its colon"),
    BAD("0\r\n A: b\r\n\r\n", "folded"),
    BAD("0\r\nA: b\r\n c\r\n\r\n", "folded"),
    BAD("0\r\n: b\r\n\r\n", "empty field name"),
    BAD("0\r\nA\r\n\r\n", "without a colon"),
    BAD("0\r\nA: b\0\r\n\r\n", "NUL"),
    BAD("0\r\nHost: a\r\nHost: b\r\n\r\n", "more than one host"),
};

static void the_matrix_holds_however_it_is_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct wg_h1_chunked chunked;
        struct outcome outcome;
        decode_every_way(&chunked, rows[i].input, &outcome);
        if (outcome.result != rows[i].result)
            fail_msg("row %zu (%s) gave %d %s", i, rows[i].input.ptr, outcome.result, outcome.why);
        if (outcome.result == WG_H1_BAD) {
            h1_assert_why(outcome.why, rows[i].body_or_why, rows[i].input.ptr);
        } else {
            h1_assert_slice(wg_buf_slice(&outcome.body), rows[i].body_or_why);
            assert_int_equal(outcome.used, rows[i].input.len - rows[i].behind);
        }
        wg_buf_clear(&outcome.body);
        wg_h1_chunked_clear(&chunked);
    }
}

static void assert_built(struct wg_buf *input, enum wg_h1_result result, const char *why)
{
    struct wg_h1_chunked chunked;
    struct outcome outcome;
    assert_false(input->failed);
    decode_every_way(&chunked, wg_buf_slice(input), &outcome);
    assert_int_equal(outcome.result, result);
    if (why)
        h1_assert_why(outcome.why, why, "built");
    wg_buf_clear(&outcome.body);
    wg_h1_chunked_clear(&chunked);
    wg_buf_clear(input);
}

static void extensions_are_bounded_in_sum(void **state)
{
    (void)state;
    struct wg_buf input = WG_BUF_INIT(256 * 1024);
    for (int i = 0; i < 256; i++)
        wg_buf_add_str(&input, "1;" X64 "\r\na\r\n");
    wg_buf_add_str(&input, "0\r\n\r\n");
    assert_built(&input, WG_H1_OK, NULL);
    for (int i = 0; i < 256; i++)
        wg_buf_add_str(&input, "1;" X64 "\r\na\r\n");
    wg_buf_add_str(&input, "0;x\r\n\r\n");
    assert_built(&input, WG_H1_BAD, "too many chunk extensions");
}

/* A section of 4,096 bytes is kept, one more byte is too much; so are more fields than a message may have. */
static void trailers_are_bounded(void **state)
{
    (void)state;
    struct wg_buf input = WG_BUF_INIT(64 * 1024);
    for (int extra = 0; extra <= 1; extra++) {
        wg_buf_add_str(&input, "0\r\nA: ");
        for (int i = 0; i < 4096 - 5 + extra; i++)
            wg_buf_add_char(&input, 'x');
        wg_buf_add_str(&input, "\r\n\r\n");
        assert_built(&input, extra ? WG_H1_BAD : WG_H1_OK, extra ? "larger than 4 KiB" : NULL);
    }
    wg_buf_add_str(&input, "0\r\n");
    for (int i = 0; i <= WG_FIELDS_MAX; i++)
        wg_buf_add_str(&input, "A: b\r\n");
    wg_buf_add_str(&input, "\r\n");
    assert_built(&input, WG_H1_BAD, "too many fields");
}

static void many_tiny_chunks_are_legal(void **state)
{
    (void)state;
    struct wg_buf input = WG_BUF_INIT(1024 * 1024);
    for (int i = 0; i < 20000; i++)
        wg_buf_add_str(&input, "1\r\na\r\n");
    wg_buf_add_str(&input, "0\r\n\r\n");
    assert_built(&input, WG_H1_OK, NULL);
}

static void the_end_stays_the_end(void **state)
{
    (void)state;
    struct wg_h1_chunked chunked;
    struct wg_slice data = {0};
    size_t used = 0;
    wg_h1_chunked_init(&chunked);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "", 0, &used, &data), WG_H1_PARTIAL);
    assert_int_equal(used, 0);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "0\r\n\r\nmore", 9, &used, &data), WG_H1_OK);
    assert_int_equal(used, 5);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "more", 4, &used, &data), WG_H1_OK);
    assert_int_equal(used, 0);
    wg_h1_chunked_clear(&chunked);

    used = 77;
    assert_int_equal(wg_h1_chunked_feed(&chunked, "x", 1, &used, &data), WG_H1_BAD);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "0\r\n\r\n", 5, &used, &data), WG_H1_BAD);
    assert_int_equal(used, 77);
    h1_assert_why(chunked.why, "hexadecimal digit", "failed twice");
    wg_h1_chunked_clear(&chunked);
}

static void trailers_lose_what_must_not_come_late(void **state)
{
    (void)state;
    struct wg_slice input = WG_SLICE(
        "0\r\nX-Usage: 12\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nAuthorization: "
        "k\r\n"
        "Content-Disposition: a\r\nContent-Whatever: b\r\nSet-Cookie: c\r\nCookie: c\r\nAge: "
        "1\r\nCache-Control: d\r\n"
        "Expires: 0\r\nLocation: /\r\nMax-Forwards: 1\r\nPragma: p\r\nRange: r\r\nVary: *\r\nWarning: w\r\n"
        "WWW-Authenticate: w\r\nIf-Match: m\r\nX-Forwarded-Port: 1\r\nX-Request-Id: r\r\nAccept-Language: "
        "l\r\n"
        "Connection: close\r\nEtag: \"e\"\r\n\r\n");
    struct wg_h1_chunked chunked;
    struct outcome outcome;
    struct wg_fields fields;
    decode_every_way(&chunked, input, &outcome);
    assert_int_equal(outcome.result, WG_H1_OK);
    assert_int_equal(wg_h1_parse_trailers(&chunked, &fields), WG_H1_OK);
    assert_int_equal(fields.n, 2);
    h1_assert_slice(fields.items[0].name, "X-Usage");
    h1_assert_slice(fields.items[0].value, "12");
    h1_assert_slice(fields.items[1].name, "Etag");
    wg_buf_clear(&outcome.body);
    wg_h1_chunked_clear(&chunked);
}

static void trailers_come_with_the_end(void **state)
{
    (void)state;
    struct wg_h1_chunked chunked;
    struct wg_fields fields = {.n = 9};
    struct wg_slice data = {0};
    size_t used = 0;
    wg_h1_chunked_init(&chunked);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "0\r\nA: b\r\n", 9, &used, &data), WG_H1_PARTIAL);
    assert_int_equal(wg_h1_parse_trailers(&chunked, &fields), WG_H1_PARTIAL);
    assert_int_equal(fields.n, 9);
    wg_h1_chunked_clear(&chunked);
    assert_int_equal(wg_h1_chunked_feed(&chunked, "0\r\n\r\n", 5, &used, &data), WG_H1_OK);
    assert_int_equal(wg_h1_parse_trailers(&chunked, &fields), WG_H1_OK);
    assert_int_equal(fields.n, 0);
    wg_h1_chunked_clear(&chunked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrix_holds_however_it_is_split),
        cmocka_unit_test(extensions_are_bounded_in_sum),
        cmocka_unit_test(trailers_are_bounded),
        cmocka_unit_test(many_tiny_chunks_are_legal),
        cmocka_unit_test(the_end_stays_the_end),
        cmocka_unit_test(trailers_lose_what_must_not_come_late),
        cmocka_unit_test(trailers_come_with_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
