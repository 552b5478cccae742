/* The matrix of HTTP/2 header blocks: what is taken and as what, what is refused and why, and the limits. */
#include "h2_check.h"

struct row {
    struct wg_slice fields;
    bool end_stream;
    const char *why; /* a fragment of the reason */
};

#define F            H2_FIELD
#define GET          F(":method", "GET") F(":scheme", "https") F(":authority", "h") F(":path", "/")
#define POST         F(":method", "POST") F(":scheme", "http") F(":authority", "h:80") F(":path", "/v1/x")
#define PATH(path)   F(":method", "GET") F(":scheme", "https") F(":authority", "h") F(":path", path)
#define HOSTS(a, h)  F(":method", "GET") F(":scheme", "https") F(":authority", a) F(":path", "/") F("host", h)
#define AUTHORITY(a) F(":method", "GET") F(":scheme", "https") F(":authority", a) F(":path", "/")
#define CONNECT(a)   F(":method", "CONNECT") F(":authority", a)
#define BAD(text, fragment)                                                                                  \
    {                                                                                                        \
        WG_SLICE(text), true, fragment                                                                       \
    }

static const struct row refused[] = {
    /* pseudo-header fields */
    BAD(F(":scheme", "https") F(":authority", "h") F(":path", "/"), "no valid :method"),
    BAD(F(":method", "") F(":scheme", "https") F(":authority", "h") F(":path", "/"), "no valid :method"),
    BAD(F(":method", "G T") F(":scheme", "https") F(":authority", "h") F(":path", "/"), "no valid :method"),
    BAD(F(":method", "GET\r\nx: y") F(":scheme", "https") F(":authority", "h") F(":path", "/"),
        "no valid :method"),
    BAD(F(":method", "abcdefghijklmnopqrstuvwxyzABCDEFG") F(":scheme", "https") F(":authority", "h")
            F(":path", "/"),
        "method is too long"),
    BAD(F(":method", "GET") F(":authority", "h") F(":path", "/"), ":scheme is neither"),
    BAD(F(":method", "GET") F(":scheme", "") F(":authority", "h") F(":path", "/"), ":scheme is neither"),
    BAD(F(":method", "GET") F(":scheme", "ftp") F(":authority", "h") F(":path", "/"), ":scheme is neither"),
    BAD(F(":method", "GET") F(":scheme", "httpss") F(":authority", "h") F(":path", "/"),
        ":scheme is neither"),
    BAD(F(":method", "GET") F(":scheme", "https") F(":authority", "h"), "no :path"),
    BAD(GET F(":path", "/"), "pseudo-header field twice"),
    BAD(GET F(":authority", "h"), "pseudo-header field twice"),
    BAD(GET F("a", "b") F(":path", "/"), "pseudo-header field after a regular one"),
    BAD(F("host", "h") GET, "pseudo-header field after a regular one"),
    BAD(GET F(":protocol", "websocket"), "unknown pseudo-header field"),
    BAD(GET F(":status", "200"), "unknown pseudo-header field"),
    BAD(GET F(":", ""), "unknown pseudo-header field"),
    BAD(GET F(":Path", "/"), "unknown pseudo-header field"),
    BAD("", "no valid :method"),

    /* the target */
    BAD(PATH(""), "no :path"),
    BAD(PATH("a"), "does not start with /"),
    BAD(PATH("?a"), "does not start with /"),
    BAD(PATH("http://h/"), "does not start with /"),
    BAD(PATH("h:80"), "does not start with /"),
    BAD(PATH("*"), "for OPTIONS only"),
    BAD(F(":method", "OPTIONS") F(":scheme", "https") F(":authority", "h") F(":path", "**"),
        "does not start with /"),
    BAD(PATH("/a#b"), "not allowed in a request target"),
    BAD(PATH("/a b"), "not allowed in a request target"),
    BAD(PATH("/a "), "not allowed in a request target"),
    BAD(PATH("/\t"), "not allowed in a request target"),
    BAD(PATH("/ HTTP/1.1\r\nhost: other\r\n\r\n"), "not allowed in a request target"),
    BAD(PATH("/\n"), "not allowed in a request target"),
    BAD(PATH("/\r"), "not allowed in a request target"),
    BAD(PATH("/\0"), "not allowed in a request target"),
    BAD(PATH("/\x01"), "not allowed in a request target"),
    BAD(PATH("/\x7f"), "not allowed in a request target"),
    BAD(PATH("/\x80"), "not allowed in a request target"),
    BAD(PATH("/\xc3\xa4"), "not allowed in a request target"),
    BAD(PATH("/\xff"), "not allowed in a request target"),
    BAD(PATH("/\"a\""), "not allowed in a request target"),
    BAD(PATH("/<a>"), "not allowed in a request target"),
    BAD(PATH("/a\\b"), "not allowed in a request target"),

    /* :authority and Host */
    BAD(F(":method", "GET") F(":scheme", "https") F(":path", "/"), "neither :authority nor Host"),
    BAD(AUTHORITY(""), ":authority is not a valid host"),
    BAD(AUTHORITY("user@h"), ":authority is not a valid host"),
    BAD(AUTHORITY("h@"), ":authority is not a valid host"),
    BAD(AUTHORITY("h:99999"), ":authority is not a valid host"),
    BAD(AUTHORITY("h:"), ":authority is not a valid host"),
    BAD(AUTHORITY("h/x"), ":authority is not a valid host"),
    BAD(AUTHORITY("h\r\nx: y"), ":authority is not a valid host"),
    BAD(AUTHORITY("h h"), ":authority is not a valid host"),
    BAD(AUTHORITY("[::1"), ":authority is not a valid host"),
    BAD(HOSTS("h", "i"), "Host differs from :authority"),
    BAD(HOSTS("h", "h:443"), "Host differs from :authority"),
    BAD(HOSTS("h", ""), "Host is not a valid host"),
    BAD(HOSTS("h", "u@h"), "Host is not a valid host"),
    BAD(HOSTS("", "h"), ":authority is not a valid host"),
    BAD(HOSTS("h", "h") F("host", "h"), "more than one host field"),
    BAD(F(":method", "GET") F(":scheme", "https") F(":path", "/") F("host", "u@h"),
        "Host is not a valid host"),

    /* CONNECT */
    BAD(CONNECT("h"), "not host:port"),
    BAD(CONNECT("/"), ":authority is not a valid host"),
    BAD(F(":method", "CONNECT") F("host", "h:443"), "not host:port"),
    BAD(F(":method", "CONNECT"), "neither :authority nor Host"),
    BAD(CONNECT("h:443") F(":path", "/"), "CONNECT with :scheme or :path"),
    BAD(CONNECT("h:443") F(":scheme", "https"), "CONNECT with :scheme or :path"),
    BAD(CONNECT("h:443") F("host", "i:443"), "Host differs from :authority"),

    /* fields */
    BAD(GET F("", "x"), "not allowed in a field name"),
    BAD(GET F("Accept", "x"), "not allowed in a field name"),
    BAD(GET F("a b", "x"), "not allowed in a field name"),
    BAD(GET F("a:", "x"), "not allowed in a field name"),
    BAD(GET F("a\r\nb", "x"), "not allowed in a field name"),
    BAD(GET F("a\0", "x"), "not allowed in a field name"),
    BAD(GET F("\xc3\xa4", "x"), "not allowed in a field name"),
    BAD(GET F("a", "x\r\nb: y"), "field value"),
    BAD(GET F("a", "x\n"), "field value"),
    BAD(GET F("a", "x\r"), "field value"),
    BAD(GET F("a", "\0"), "field value"),
    BAD(GET F("a", "\x01"), "field value"),
    BAD(GET F("a", "\x7f"), "field value"),
    BAD(GET F("a", " x"), "white space around it"),
    BAD(GET F("a", "x\t"), "white space around it"),
    BAD(GET F("a", " "), "white space around it"),
    BAD(GET F("authorization", "a") F("authorization", "a"), "more than one authorization field"),
    BAD(GET F("content-type", "a") F("b", "c") F("content-type", "a"), "more than one content-type field"),
    BAD(GET F("connection", "close"), "about a connection"),
    BAD(GET F("keep-alive", "timeout=5"), "about a connection"),
    BAD(GET F("proxy-connection", "close"), "about a connection"),
    BAD(GET F("transfer-encoding", "chunked"), "about a connection"),
    BAD(GET F("transfer-encoding", ""), "about a connection"),
    BAD(GET F("upgrade", "h2c"), "about a connection"),
    BAD(GET F("te", "gzip"), "TE is not just trailers"),
    BAD(GET F("te", "trailers, gzip"), "TE is not just trailers"),
    BAD(GET F("te", "trailers") F("te", ""), "TE is not just trailers"),

    /* Content-Length */
    BAD(POST F("content-length", "5"), "is not 0"),
    BAD(POST F("content-length", "0") F("content-length", "0"), "more than one content-length field"),
    BAD(POST F("content-length", ""), "one decimal number"),
    BAD(POST F("content-length", "+0"), "one decimal number"),
    BAD(POST F("content-length", "-1"), "one decimal number"),
    BAD(POST F("content-length", "0, 0"), "one decimal number"),
    BAD(POST F("content-length", "0x0"), "one decimal number"),
    BAD(POST F("content-length", "9223372036854775808"), "one decimal number"),
    {WG_SLICE(POST F("content-length", "18446744073709551617")), false, "one decimal number"},
    {WG_SLICE(POST F("content-length", "5") F("content-length", "5")), false, "more than one content-length"},
};

static void refuses_what_is_not_a_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(refused); i++) {
        const char *why = NULL;
        const struct wg_request *request = NULL;
        struct h2_head *head = h2_head_new(64 * 1024);
        h2_receive(head, refused[i].fields, NULL);
        if (h2_head_request(head, refused[i].end_stream, &request, &why) != WG_H1_BAD)
            fail_msg("row %zu is not refused: %s", i, refused[i].why);
        h1_assert_why(why, refused[i].why, refused[i].fields.ptr);
        assert_null(request);
        h2_head_free(head);
    }
}

static const struct wg_request *take(struct h2_head *head, struct wg_slice fields, bool end_stream)
{
    const char *why = NULL;
    const struct wg_request *request = NULL;
    h2_receive(head, fields, NULL);
    if (h2_head_request(head, end_stream, &request, &why) != WG_H1_OK)
        fail_msg("refused: %s", why ? why : "(without a reason)");
    return request;
}

static void assert_field(const struct wg_field *field, const char *name, const char *value)
{
    h1_assert_slice(field->name, name);
    h1_assert_slice(field->value, value);
}

static void takes_a_request_with_a_body(void **state)
{
    (void)state;
    struct h2_head *head = h2_head_new(64 * 1024);
    const struct wg_request *request =
        take(head,
             WG_SLICE(F(":path", "/v1/x?a=b?c") F(":authority", "Example.org:8443") F(":method", "POST")
                          F(":scheme", "HTTPS") F("content-type", "application/json") F("te", "Trailers")
                              F("trailer", "x") F("x-empty", "") F("x-opaque", "\xc3\xa4 \t<\"#\\>")),
             false);
    h1_assert_slice(request->method, "POST");
    h1_assert_slice(request->target, "/v1/x?a=b?c");
    h1_assert_slice(request->path, "/v1/x");
    h1_assert_slice(request->query, "a=b?c");
    h1_assert_slice(request->authority, "Example.org:8443");
    assert_int_equal(request->fields.n, 5);
    assert_field(&request->fields.items[0], "content-type", "application/json");
    assert_int_equal(request->fields.items[0].token, WG_TOKEN_CONTENT_TYPE);
    assert_true(request->fields.items[1].hop); /* te */
    assert_true(request->fields.items[2].hop); /* trailer */
    assert_field(&request->fields.items[3], "x-empty", "");
    assert_field(&request->fields.items[4], "x-opaque", "\xc3\xa4 \t<\"#\\>");
    assert_int_equal(request->body, WG_BODY_CHUNKED);
    assert_int_equal(request->version, 20);
    assert_true(request->keep_alive);
    assert_false(request->expect_continue);
    h2_head_free(head);
}

static void knows_the_body(void **state)
{
    (void)state;
    static const struct {
        struct wg_slice fields;
        bool end_stream, expects;
        enum wg_body_kind body;
        uint64_t length;
    } rows[] = {
        {WG_SLICE(GET), true, false, WG_BODY_NONE, 0},
        {WG_SLICE(GET), false, false, WG_BODY_CHUNKED, 0},
        {WG_SLICE(POST F("content-length", "0")), true, false, WG_BODY_LENGTH, 0},
        {WG_SLICE(POST F("content-length", "0")), false, false, WG_BODY_LENGTH, 0},
        {WG_SLICE(POST F("content-length", "007")), false, false, WG_BODY_LENGTH, 7},
        {WG_SLICE(POST F("content-length", "9223372036854775807")), false, false, WG_BODY_LENGTH, INT64_MAX},
        {WG_SLICE(POST F("expect", "100-Continue")), false, true, WG_BODY_CHUNKED, 0},
        {WG_SLICE(POST F("expect", "100-continue") F("content-length", "1")), false, true, WG_BODY_LENGTH, 1},
        {WG_SLICE(POST F("expect", "100-continue") F("content-length", "0")), false, false, WG_BODY_LENGTH,
         0},
        {WG_SLICE(POST F("expect", "100-continue")), true, false, WG_BODY_NONE, 0},
        {WG_SLICE(POST F("expect", "x")), false, false, WG_BODY_CHUNKED, 0},
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct h2_head *head = h2_head_new(64 * 1024);
        const struct wg_request *request = take(head, rows[i].fields, rows[i].end_stream);
        assert_int_equal(request->body, rows[i].body);
        assert_int_equal(request->content_length, rows[i].length);
        assert_int_equal(request->expect_continue, rows[i].expects);
        h2_head_free(head);
    }
}

static void takes_host_and_authority_as_one(void **state)
{
    (void)state;
    static const struct {
        struct wg_slice fields;
        const char *authority;
    } rows[] = {
        {WG_SLICE(AUTHORITY("[::1]:8080")), "[::1]:8080"},
        {WG_SLICE(HOSTS("Example.org", "example.ORG") F("a", "b")), "Example.org"},
        {WG_SLICE(F(":method", "GET") F(":scheme", "http") F(":path", "/") F("a", "b") F("host", "h:80")),
         "h:80"},
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct h2_head *head = h2_head_new(64 * 1024);
        const struct wg_request *request = take(head, rows[i].fields, true);
        h1_assert_slice(request->authority, rows[i].authority);
        assert_null(wg_fields_get(&request->fields, WG_TOKEN_HOST));
        assert_int_equal(request->fields.n, i == 0 ? 0 : 1);
        h2_head_free(head);
    }
}

static void takes_the_special_targets(void **state)
{
    (void)state;
    struct h2_head *head = h2_head_new(64 * 1024);
    const struct wg_request *request = take(
        head, WG_SLICE(F(":method", "OPTIONS") F(":scheme", "http") F(":authority", "h") F(":path", "*")),
        true);
    h1_assert_slice(request->target, "*");
    h1_assert_slice(request->path, "*");
    h1_assert_slice(request->query, "");
    h2_head_free(head);

    head = h2_head_new(64 * 1024);
    request = take(head, WG_SLICE(CONNECT("h:443") F("host", "H:443")), false);
    h1_assert_slice(request->method, "CONNECT");
    h1_assert_slice(request->target, "h:443");
    h1_assert_slice(request->authority, "h:443");
    h1_assert_slice(request->path, "");
    h1_assert_slice(request->query, "");
    h2_head_free(head);
}

static void joins_cookie_crumbs(void **state)
{
    (void)state;
    struct h2_head *head = h2_head_new(64 * 1024);
    const struct wg_request *request =
        take(head,
             WG_SLICE(GET F("x", "1") F("cookie", "a=b") F("y", "2") F("cookie", "") F("host", "h")
                          F("cookie", "c=d; e=f") F("z", "3")),
             true);
    assert_int_equal(request->fields.n, 4);
    assert_field(&request->fields.items[0], "x", "1");
    assert_field(&request->fields.items[1], "cookie", "a=b; c=d; e=f");
    assert_int_equal(request->fields.items[1].token, WG_TOKEN_COOKIE);
    assert_field(&request->fields.items[2], "y", "2");
    assert_field(&request->fields.items[3], "z", "3");
    h2_head_free(head);

    head = h2_head_new(64 * 1024);
    request = take(head, WG_SLICE(GET F("cookie", "")), true);
    assert_int_equal(request->fields.n, 1);
    assert_field(&request->fields.items[0], "cookie", "");
    h2_head_free(head);

    head = h2_head_new(64 * 1024);
    request = take(head, WG_SLICE(GET F("cookie", "") F("cookie", "a=b") F("cookie", "")), true);
    assert_field(&request->fields.items[0], "cookie", "a=b");
    h2_head_free(head);
}

/* ---- limits ---- */

/* GET with n fields "x" of `len` bytes, which HPACK cannot make shorter. */
static struct wg_slice many(struct wg_buf *buf, unsigned n, size_t len, const char *path)
{
    wg_buf_addf(buf, F(":method", "GET") F(":scheme", "https") F(":authority", "h") F(":path", "%s"), path);
    for (unsigned i = 0; i < n; i++) {
        wg_buf_add_str(buf, "x\x1f");
        for (size_t j = 0; j < len; j++)
            wg_buf_add_char(buf, (char)(0xa0 + (i + j) % 90));
        wg_buf_add_char(buf, '\x1e');
    }
    assert_false(buf->failed);
    return wg_buf_slice(buf);
}

static enum wg_h1_result result_of(size_t max_bytes, unsigned n, size_t len, const char *path)
{
    const char *why = NULL;
    const struct wg_request *request;
    struct wg_buf buf = WG_BUF_INIT(1024 * 1024);
    struct h2_head *head = h2_head_new(max_bytes);
    h2_receive(head, many(&buf, n, len, path), NULL);
    enum wg_h1_result result = h2_head_request(head, true, &request, &why);
    if (result != WG_H1_OK)
        h1_assert_why(why, "large", "limits"); /* "too large"; "longer" is of a path alone */
    assert_int_equal(h2_head_overflowed(head), result == WG_H1_TOO_LARGE);
    h2_head_free(head);
    wg_buf_clear(&buf);
    return result;
}

static void counts_bytes_as_the_rfc_does(void **state)
{
    (void)state;
    /* :method GET, :scheme https, :authority h, :path /: 42 + 44 + 43 + 38 */
    enum { PSEUDO = 167 };
    assert_int_equal(result_of(PSEUDO, 0, 0, "/"), WG_H1_OK);
    assert_int_equal(result_of(PSEUDO - 1, 0, 0, "/"), WG_H1_TOO_LARGE);
    assert_int_equal(result_of(PSEUDO + 2 * 133, 2, 100, "/"), WG_H1_OK);
    assert_int_equal(result_of(PSEUDO + 2 * 133 - 1, 2, 100, "/"), WG_H1_TOO_LARGE);
    assert_int_equal(result_of(64 * 1024, 6, 10000, "/"), WG_H1_OK);
    assert_int_equal(result_of(64 * 1024, 7, 10000, "/"), WG_H1_TOO_LARGE);
}

static void counts_fields(void **state)
{
    (void)state;
    assert_int_equal(result_of(64 * 1024, WG_FIELDS_MAX, 1, "/"), WG_H1_OK);
    assert_int_equal(result_of(64 * 1024, WG_FIELDS_MAX + 1, 1, "/"), WG_H1_TOO_LARGE);
    assert_int_equal(result_of(64 * 1024, H2_FIELDS_MAX - 4, 1, "/"), WG_H1_TOO_LARGE);
}

static void bounds_the_target(void **state)
{
    (void)state;
    char path[8 * 1024 + 2];
    const char *why = NULL;
    const struct wg_request *request;
    struct wg_buf buf = WG_BUF_INIT(1024 * 1024);
    memset(path, '/', sizeof(path));
    path[8 * 1024] = '\0';
    assert_int_equal(result_of(64 * 1024, 0, 0, path), WG_H1_OK);

    path[8 * 1024] = '/';
    path[8 * 1024 + 1] = '\0';
    struct h2_head *head = h2_head_new(64 * 1024);
    h2_receive(head, many(&buf, 0, 0, path), NULL);
    assert_int_equal(h2_head_request(head, true, &request, &why), WG_H1_TOO_LARGE);
    h1_assert_why(why, "longer than 8 KiB", "path");
    h2_head_free(head);
    wg_buf_clear(&buf);
}

/* What is refused anyway is counted on, and too large beats bad. */
static void counts_what_is_bad(void **state)
{
    (void)state;
    const char *why = NULL;
    const struct wg_request *request;
    struct wg_buf buf = WG_BUF_INIT(1024 * 1024);
    struct h2_head *head = h2_head_new(4096);
    wg_buf_add_str(&buf, F("X", "bad"));
    h2_receive(head, many(&buf, 50, 100, "/"), NULL);
    assert_true(h2_head_overflowed(head));
    assert_int_equal(h2_head_request(head, true, &request, &why), WG_H1_TOO_LARGE);
    h2_head_free(head);
    wg_buf_clear(&buf);
}

/* ---- memory ---- */

/* An allocator that counts blocks of a size that only the long values have. */
enum { LONG_VALUE = 10000 };
static void *count_malloc(size_t size, void *arg)
{
    size_t *p = malloc(size + sizeof(max_align_t));
    if (!p)
        return NULL;
    *p = size;
    if (size > LONG_VALUE && size < LONG_VALUE + 100)
        ++*(int *)arg;
    return (char *)p + sizeof(max_align_t);
}

static void count_free(void *ptr, void *arg)
{
    if (!ptr)
        return;
    size_t *p = (size_t *)(void *)((char *)ptr - sizeof(max_align_t));
    if (*p > LONG_VALUE && *p < LONG_VALUE + 100)
        --*(int *)arg;
    free(p);
}

static void *count_calloc(size_t n, size_t size, void *arg)
{
    void *ptr = count_malloc(n * size, arg);
    return ptr ? memset(ptr, 0, n * size) : NULL;
}

static void *count_realloc(void *ptr, size_t size, void *arg)
{
    void *grown = count_malloc(size, arg);
    if (grown && ptr) {
        size_t old = *(size_t *)(void *)((char *)ptr - sizeof(max_align_t));
        memcpy(grown, ptr, WG_MIN(old, size));
        count_free(ptr, arg);
    }
    return grown;
}

static int long_values_kept(size_t max_bytes, unsigned n)
{
    int live = 0;
    nghttp2_mem mem = {&live, count_malloc, count_free, count_calloc, count_realloc};
    struct wg_buf buf = WG_BUF_INIT(1024 * 1024);
    struct h2_head *head = h2_head_new(max_bytes);
    h2_receive(head, many(&buf, n, LONG_VALUE, "/"), &mem);
    const int kept = live;
    h2_head_free(head);
    assert_int_equal(live, 0);
    wg_buf_clear(&buf);
    return kept;
}

static void drops_everything_once_it_is_too_large(void **state)
{
    (void)state;
    assert_int_equal(long_values_kept(64 * 1024, 6), 6);
    assert_int_equal(long_values_kept(64 * 1024, 7), 0);
    assert_int_equal(long_values_kept(64 * 1024, 12), 0);
    assert_null(h2_head_free(NULL));
}

/* ---- trailers ---- */

static void takes_trailers(void **state)
{
    (void)state;
    const char *why = NULL;
    const struct wg_fields *fields = NULL;
    struct h2_head *head = h2_head_new(64 * 1024);
    h2_receive(head,
               WG_SLICE(F("x-checksum", "1") F("authorization", "k") F("te", "trailers")
                            F("content-type", "t") F("set-cookie", "a") F("x-request-id", "i")
                                F("trailer", "x") F("cookie", "a") F("grpc-status", "0")),
               NULL);
    assert_int_equal(h2_head_trailers(head, &fields, &why), WG_H1_OK);
    assert_int_equal(fields->n, 2);
    assert_field(&fields->items[0], "x-checksum", "1");
    assert_field(&fields->items[1], "grpc-status", "0");
    h2_head_free(head);

    head = h2_head_new(64 * 1024);
    h2_receive(head, WG_SLICE(""), NULL);
    assert_int_equal(h2_head_trailers(head, &fields, &why), WG_H1_OK);
    assert_int_equal(fields->n, 0);
    h2_head_free(head);
}

static void refuses_what_is_no_trailer(void **state)
{
    (void)state;
    static const struct row rows[] = {
        BAD(F("content-length", "1"), "Content-Length or Host"),
        BAD(F("a", "b") F("host", "h"), "Content-Length or Host"),
        BAD(F("transfer-encoding", "chunked"), "about a connection"),
        BAD(F("connection", "close"), "about a connection"),
        BAD(F("te", "gzip"), "TE is not just trailers"),
        BAD(F(":path", "/"), "pseudo-header field in trailers"),
        BAD(F(":status", "200"), "unknown pseudo-header field"),
        BAD(F("a", "b") F(":path", "/"), "pseudo-header field after a regular one"),
        BAD(F("A", "b"), "not allowed in a field name"),
        BAD(F("a", "b\n"), "field value"),
        BAD(F("authorization", "k") F("authorization", "k"), "more than one authorization"),
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        const char *why = NULL;
        const struct wg_fields *fields = NULL;
        struct h2_head *head = h2_head_new(64 * 1024);
        h2_receive(head, rows[i].fields, NULL);
        assert_int_equal(h2_head_trailers(head, &fields, &why), WG_H1_BAD);
        h1_assert_why(why, rows[i].why, rows[i].fields.ptr);
        assert_null(fields);
        h2_head_free(head);
    }
}

static void bounds_trailers(void **state)
{
    (void)state;
    const char *why = NULL;
    const struct wg_fields *fields = NULL;
    struct h2_head *head = h2_head_new(100);
    h2_receive(head, WG_SLICE(F("a", "b") F("c", "d") F("e", "f")), NULL);
    assert_int_equal(h2_head_trailers(head, &fields, &why), WG_H1_TOO_LARGE);
    h1_assert_why(why, "too large", "trailers");
    h2_head_free(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_not_a_request),
        cmocka_unit_test(takes_a_request_with_a_body),
        cmocka_unit_test(knows_the_body),
        cmocka_unit_test(takes_host_and_authority_as_one),
        cmocka_unit_test(takes_the_special_targets),
        cmocka_unit_test(joins_cookie_crumbs),
        cmocka_unit_test(counts_bytes_as_the_rfc_does),
        cmocka_unit_test(counts_fields),
        cmocka_unit_test(bounds_the_target),
        cmocka_unit_test(counts_what_is_bad),
        cmocka_unit_test(drops_everything_once_it_is_too_large),
        cmocka_unit_test(takes_trailers),
        cmocka_unit_test(refuses_what_is_no_trailer),
        cmocka_unit_test(bounds_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
