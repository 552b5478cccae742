/* The matrix of request heads: what is taken and as what, what is refused and why. */
#include "h1_check.h"

struct row {
    struct wg_slice head;
    enum wg_h1_result result;
    const char *why; /* a fragment of the reason, where it is refused */
};

#define LINE       "POST /v1/x HTTP/1.1\r\n"
#define HOST       "Host: h\r\n"
#define POST(more) WG_SLICE(LINE HOST more "\r\n")
#define BAD(text, fragment)                                                                                  \
    {                                                                                                        \
        WG_SLICE(text), WG_H1_BAD, fragment                                                                  \
    }
#define BAD_FIELD(line, fragment)                                                                            \
    {                                                                                                        \
        POST(line), WG_H1_BAD, fragment                                                                      \
    }

static const struct row refused[] = {
    /* the request line */
    BAD("GET /\r\n\r\n", "without an HTTP version"),
    BAD("GET / \r\n\r\n", "does not end in an HTTP version"),
    BAD("GET / http/1.1\r\n" HOST "\r\n", "does not end in an HTTP version"),
    BAD("GET / HTTP/1.1 \r\n" HOST "\r\n", "does not end in an HTTP version"),
    BAD("GET / HTTP/1.12\r\n" HOST "\r\n", "does not end in an HTTP version"),
    BAD("GET / HTTP/11\r\n" HOST "\r\n", "does not end in an HTTP version"),
    BAD("GET / HTTP/1.1\rX: y\r\n\r\n", "does not end in an HTTP version"),
    BAD("GET / HTTP/1.1\n" HOST "\r\n", "bare LF"),
    BAD("GET / HTTP/1.\r\n\r\n", "does not end in an HTTP version"),
    BAD("GET / FTP/1.1\r\n\r\n", "does not end in an HTTP version"),
    BAD("GET  / HTTP/1.1\r\n" HOST "\r\n", "more than one space"),
    BAD("GET /  HTTP/1.1\r\n" HOST "\r\n", "does not end in an HTTP version"),
    BAD("GET\t/ HTTP/1.1\r\n" HOST "\r\n", "one space"),
    BAD("GET /\tHTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD(" GET / HTTP/1.1\r\n" HOST "\r\n", "does not start with a method"),
    BAD("G@T / HTTP/1.1\r\n" HOST "\r\n", "does not start with a method"),
    BAD("GET\r\n\r\n", "does not start with a method"),
    BAD("abcdefghijklmnopqrstuvwxyzABCDEFG / HTTP/1.1\r\n" HOST "\r\n", "method is too long"),
    BAD("\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "empty line before"),
    BAD("\nGET / HTTP/1.1\r\n" HOST "\r\n", "empty line before"),
    BAD("\rGET / HTTP/1.1\r\n" HOST "\r\n", "empty line before"),
    {WG_SLICE("PRI * HTTP/2.0\r\n\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("GET / HTTP/2.0\r\n" HOST "\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("GET / HTTP/1.2\r\n" HOST "\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("GET / HTTP/0.9\r\n" HOST "\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},
    {WG_SLICE("GET / HTTP/3.1\r\n" HOST "\r\n"), WG_H1_VERSION, "neither 1.0 nor 1.1"},

    /* the target */
    BAD("GET /a#b HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /a\\b HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\"a\" HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /<a> HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\xff HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\x7f HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\x01 HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /\0 HTTP/1.1\r\n" HOST "\r\n", "not allowed in a request target"),
    BAD("GET /a\rb HTTP/1.1\r\n" HOST "\r\n", "without an HTTP version"),
    BAD("GET a HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET ?a HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET h:80 HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET ftp://h/a HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET http:/h/a HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET http:// HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("GET http:///a HTTP/1.1\r\nHost: \r\n\r\n", "no valid host"),
    BAD("GET http:///a HTTP/1.1\r\n" HOST "\r\n", "no valid host"),
    BAD("GET http://?a HTTP/1.1\r\n" HOST "\r\n", "no valid host"),
    BAD("GET http://u@h/a HTTP/1.1\r\nHost: u@h\r\n\r\n", "no valid host"),
    BAD("GET http://h?a HTTP/1.1\r\n" HOST "\r\n", "query but no path"),
    BAD("GET http://other/a HTTP/1.1\r\n" HOST "\r\n", "Host differs"),
    BAD("GET http://h:80/a HTTP/1.1\r\n" HOST "\r\n", "Host differs"),
    BAD("GET http://h/a HTTP/1.1\r\n\r\n", "no Host field"),
    BAD("GET * HTTP/1.1\r\n" HOST "\r\n", "for OPTIONS only"),
    BAD("OPTIONS ** HTTP/1.1\r\n" HOST "\r\n", "does not start with /"),
    BAD("CONNECT /a HTTP/1.1\r\n" HOST "\r\n", "not host:port"),
    BAD("CONNECT h HTTP/1.1\r\n" HOST "\r\n", "not host:port"),
    BAD("CONNECT http://h:1/ HTTP/1.1\r\n" HOST "\r\n", "not host:port"),
    BAD("CONNECT u@h:1 HTTP/1.1\r\n" HOST "\r\n", "not host:port"),

    /* Host */
    BAD(LINE "\r\n", "no Host field"),
    BAD(LINE HOST HOST "\r\n", "more than one host"),
    BAD(LINE "Host: a\r\nhost: b\r\n\r\n", "more than one host"),
    BAD("GET / HTTP/1.0\r\n" HOST HOST "\r\n", "more than one host"),
    BAD(LINE "Host:\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a b\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a,b\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a/b\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: u@a\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a%20b\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: \xc3\xa4\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: :80\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a:\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a:x\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a:65536\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a:000080\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: a:80:80\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: ::1\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [::1\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: []\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [::1]x\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [v1.a]\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [fe80::1%25eth0]\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [1.2.3.4]\r\n\r\n", "Host is not a valid"),
    BAD(LINE "Host: [0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]\r\n\r\n", "Host is not a valid"),

    /* field lines */
    BAD_FIELD("X : y\r\n", "before its colon"),
    BAD_FIELD("X\t: y\r\n", "before its colon"),
    BAD_FIELD("Content-Length : 3\r\n", "before its colon"),
    BAD_FIELD(": y\r\n", "empty field name"),
    BAD_FIELD("X\r\n", "without a colon"),
    BAD_FIELD("X y\r\n", "space in a field name"),
    BAD_FIELD(" X: y\r\n", "folded"),
    BAD_FIELD("\tX: y\r\n", "folded"),
    BAD_FIELD("X: y\r\n z\r\n", "folded"),
    BAD_FIELD("X: y\r\n\tz\r\n", "folded"),
    BAD(LINE " " HOST "\r\n", "folded"),
    BAD_FIELD("X(: y\r\n", "not allowed in a field name"),
    BAD_FIELD("X\xc3\xa4: y\r\n", "not allowed in a field name"),
    BAD_FIELD("X\0: y\r\n", "not allowed in a field name"),
    BAD_FIELD("X\x7f: y\r\n", "not allowed in a field name"),
    BAD_FIELD("X\r: y\r\n", "without a colon"),
    BAD_FIELD("X\n", "bare LF"),
    BAD_FIELD("X: y\n", "bare LF"),
    BAD_FIELD("X: y\nZ: y\r\n", "bare LF"),
    BAD_FIELD("X: y\rz\r\n", "bare CR"),
    BAD_FIELD("X: y\r\r\n", "bare CR"),
    BAD_FIELD("X-Abc:\rTransfer-Encoding: chunked\r\n", "bare CR"),
    BAD_FIELD("X: y\0z\r\n", "NUL"),
    BAD_FIELD("X: y\x01z\r\n", "control character"),
    BAD_FIELD("X: y\x0bz\r\n", "control character"),
    BAD_FIELD("X: y\x1bz\r\n", "control character"),
    BAD_FIELD("X: y\x7fz\r\n", "control character"),
    BAD(LINE HOST "X: y\n\n", "bare LF"),
    BAD(LINE HOST "X: y\n\r\n", "bare LF"),
    BAD(LINE HOST "X: y\r\n\n", "bare LF"),
    BAD(LINE HOST "X: y\r\n\rZ", "bare CR"),
    BAD(LINE HOST "X: y\r\n\r\r", "bare CR"),

    /* fields that come once */
    BAD_FIELD("Authorization: a\r\nauthorization: b\r\n", "more than one authorization"),
    BAD_FIELD("x-api-key: a\r\nx-api-key: a\r\n", "more than one x-api-key"),
    BAD_FIELD("api-key: a\r\napi-key: a\r\n", "more than one api-key"),
    BAD_FIELD("Content-Type: a\r\nContent-Type: b\r\n", "more than one content-type"),
    BAD_FIELD("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", "more than one content-encoding"),
    BAD_FIELD("x-gateway-model-name: a\r\nx-gateway-model-name: b\r\n", "more than one x-gateway-model-name"),
    BAD_FIELD("Expect: 100-continue\r\nExpect: x\r\n", "more than one expect"),

    /* framing */
    BAD_FIELD("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "both"),
    BAD_FIELD("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "both"),
    BAD_FIELD("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "both"),
    BAD_FIELD("Content-Length: 3\r\nContent-Length: 3\r\n", "more than one content-length"),
    BAD_FIELD("Content-Length: 3\r\nContent-Length: 4\r\n", "more than one content-length"),
    BAD_FIELD("Content-Length:\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: +3\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: -1\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 0x3\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 3a\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 3, 3\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 3 3\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 3.0\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 1e3\r\n", "one decimal number"),
    BAD_FIELD("Content-Length: 9223372036854775808\r\n", "below 2^63"),
    BAD_FIELD("Content-Length: 18446744073709551616\r\n", "below 2^63"),
    BAD_FIELD("Content-Length: 18446744073709551619\r\n", "below 2^63"),
    BAD_FIELD("Content-Length: 99999999999999999999999999\r\n", "below 2^63"),
    BAD_FIELD("Content-Length: 3 \r\n", "white space around"),
    BAD_FIELD("Content-Length: 3\t\r\n", "white space around"),
    BAD_FIELD("Content-Length:\t3\r\n", "white space around"),
    BAD_FIELD("Transfer-Encoding:\tchunked\r\n", "white space around"),
    BAD_FIELD("Transfer-Encoding: \tchunked\r\n", "white space around"),
    BAD_FIELD("Transfer-Encoding: chunked \r\n", "white space around"),
    BAD_FIELD("Transfer-Encoding: chunked, identity\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: identity\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: gzip, chunked\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: chunked, chunked\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: chunked,\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: chunked;q=1\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: xchunked\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: chunkedx\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: \"chunked\"\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding:\r\n", "not just chunked"),
    BAD_FIELD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
              "more than one transfer-encoding"),
    BAD_FIELD("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
              "more than one transfer-encoding"),
    BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "in HTTP/1.0"),

    /* Connection */
    BAD_FIELD("Connection: a b\r\n", "not a list of names"),
    BAD_FIELD("Connection: close;x\r\n", "not a list of names"),
    BAD_FIELD("Connection: a,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,b\r\n", "too many options"),
};

static void what_is_ambiguous_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(refused); i++) {
        const struct row *row = &refused[i];
        struct wg_request request;
        const char *why = NULL;
        char *head = h1_exact(row->head);
        enum wg_h1_result result = wg_h1_parse_request(head, row->head.len, &request, &why);
        if (result != row->result)
            fail_msg("row %zu (%s) gave %d", i, row->head.ptr, result);
        h1_assert_why(why, row->why, row->head.ptr);
        assert_true(h1_head_end_any_way(row->head) > 0);
        free(head);
    }
}

struct taken {
    struct wg_slice head;
    const char *method, *target, *path, *query, *authority;
    uint64_t length;
    enum wg_body_kind body;
    unsigned version, fields;
    bool close, expect;
};

static const struct taken taken[] = {
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), .fields = 1},
    {.head = WG_SLICE("GET /v1/models?a=b?c HTTP/1.1\r\nhost:h\r\nX-Y: \t z \t\r\n\r\n"),
     .target = "/v1/models?a=b?c",
     .path = "/v1/models",
     .query = "a=b?c",
     .fields = 2},
    {.head = WG_SLICE("GET /? HTTP/1.1\r\nHost: h\r\n\r\n"), .target = "/?", .fields = 1},
    {.head = WG_SLICE("GET //x/%2f;a=~b|{c}^`'@: HTTP/1.1\r\nHost: h\r\n\r\n"),
     .target = "//x/%2f;a=~b|{c}^`'@:",
     .path = "//x/%2f;a=~b|{c}^`'@:",
     .fields = 1},
    {.head = WG_SLICE("M!#$%&'*+-.^_`|~0 / HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "M!#$%&'*+-.^_`|~0",
     .fields = 1},
    {.head = WG_SLICE("abcdefghijklmnopqrstuvwxyzABCDEF / HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "abcdefghijklmnopqrstuvwxyzABCDEF",
     .fields = 1},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nX: caf\xc3\xa9 \xff\tz\r\nY:\r\n\r\n"), .fields = 3},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: Model-1.llm_x.svc:8080\r\n\r\n"),
     .authority = "Model-1.llm_x.svc:8080",
     .fields = 1},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: [::ffff:1.2.3.4]:1\r\n\r\n"),
     .authority = "[::ffff:1.2.3.4]:1",
     .fields = 1},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n"),
     .authority = "[2001:db8::1]",
     .fields = 1},

    /* forms of the target */
    {.head = WG_SLICE("GET http://H:1/a?b HTTP/1.1\r\nHost: h:1\r\n\r\n"),
     .target = "/a?b",
     .path = "/a",
     .query = "b",
     .authority = "h:1",
     .fields = 1},
    {.head = WG_SLICE("GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n"), .fields = 1},
    {.head = WG_SLICE("GET http://h/ HTTP/1.0\r\n\r\n"), .version = 10, .close = true},
    {.head = WG_SLICE("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "OPTIONS",
     .target = "*",
     .path = "*",
     .fields = 1},
    {.head = WG_SLICE("OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "OPTIONS",
     .target = "*",
     .path = "*",
     .fields = 1},
    {.head = WG_SLICE("OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "OPTIONS",
     .target = "/a",
     .path = "/a",
     .fields = 1},
    {.head = WG_SLICE("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"),
     .method = "CONNECT",
     .target = "h:443",
     .path = "",
     .fields = 1},

    /* bodies */
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 3,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\ncontent-length:   0\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nContent-Length:007\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 7,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = INT64_MAX,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
     .body = WG_BODY_CHUNKED,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING:Chunked\r\n\r\n"),
     .body = WG_BODY_CHUNKED,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.0\r\nHost: h\r\nContent-Length: 5\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 5,
     .version = 10,
     .close = true,
     .fields = 2},

    /* keep-alive */
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), .close = true, .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, ,CLOSE\r\n\r\n"),
     .close = true,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"),
     .close = true,
     .fields = 3},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n"), .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nConnection:\r\n\r\n"), .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.0\r\nHost: h\r\n\r\n"), .version = 10, .close = true, .fields = 1},
    {.head = WG_SLICE("GET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n"),
     .version = 10,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n"),
     .version = 10,
     .close = true,
     .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.0\r\n\r\n"), .authority = "", .version = 10, .close = true},

    /* Expect */
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 1,
     .expect = true,
     .fields = 3},
    {.head =
         WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"),
     .body = WG_BODY_CHUNKED,
     .expect = true,
     .fields = 3},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .fields = 3},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n"), .fields = 2},
    {.head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 1,
     .fields = 3},
    {.head = WG_SLICE("GET / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
     .body = WG_BODY_LENGTH,
     .length = 1,
     .version = 10,
     .close = true,
     .fields = 3},
};

static void what_is_clear_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(taken); i++) {
        const struct taken *row = &taken[i];
        struct wg_request request;
        const char *why = NULL;
        char *head = h1_exact(row->head);
        if (wg_h1_parse_request(head, row->head.len, &request, &why) != WG_H1_OK)
            fail_msg("row %zu (%s) was refused: %s", i, row->head.ptr, why);
        assert_int_equal(h1_head_end_any_way(row->head), row->head.len);
        h1_assert_slice(request.method, row->method ? row->method : "GET");
        h1_assert_slice(request.target, row->target ? row->target : "/");
        h1_assert_slice(request.path, row->path ? row->path : "/");
        h1_assert_slice(request.query, row->query ? row->query : "");
        h1_assert_slice(request.authority, row->authority ? row->authority : "h");
        assert_int_equal(request.body, row->body);
        assert_int_equal(request.content_length, row->length);
        assert_int_equal(request.version, row->version ? row->version : 11);
        assert_int_equal(request.keep_alive, !row->close);
        assert_int_equal(request.expect_continue, row->expect);
        assert_int_equal(request.fields.n, row->fields);
        free(head);
    }
}

static void values_are_trimmed_and_names_kept_as_sent(void **state)
{
    (void)state;
    struct wg_request request;
    const char *why = NULL;
    struct wg_slice head = WG_SLICE("GET / HTTP/1.1\r\nHost: h\r\nX-CaSe:\t a  b \t \r\nEmpty: \t\r\n\r\n");
    assert_int_equal(wg_h1_parse_request(head.ptr, head.len, &request, &why), WG_H1_OK);
    h1_assert_slice(request.fields.items[1].name, "X-CaSe");
    h1_assert_slice(request.fields.items[1].value, "a  b");
    h1_assert_slice(request.fields.items[2].value, "");
}

/* What Connection names goes no further, but nobody can hide from us what we decide by. */
static void connection_names_hop_by_hop_fields(void **state)
{
    (void)state;
    struct wg_request request;
    const char *why = NULL;
    struct wg_slice head =
        POST("X-Secret: 1\r\nConnection: Upgrade, HTTP2-Settings, x-secret, authorization, X-API-KEY\r\n"
             "Connection: host,content-length,content-type,x-request-id,x-late\r\nUpgrade: h2c\r\n"
             "HTTP2-Settings: AA\r\nAuthorization: Bearer k\r\nx-api-key: k\r\nContent-Length: 2\r\n"
             "Content-Type: a/b\r\nX-Request-Id: r\r\nX-Late: 1\r\nProxy-Authorization: p\r\nTE: trailers\r\n"
             "X-Secret: 2\r\nX-Other: 1\r\n");
    static const struct {
        const char *name;
        bool hop;
    } expected[] = {
        {"Host", false},
        {"X-Secret", true},
        {"Connection", true},
        {"Connection", true},
        {"Upgrade", true},
        {"HTTP2-Settings", true},
        {"Authorization", false},
        {"x-api-key", false},
        {"Content-Length", false},
        {"Content-Type", false},
        {"X-Request-Id", false},
        {"X-Late", true},
        {"Proxy-Authorization", true},
        {"TE", true},
        {"X-Secret", true},
        {"X-Other", false},
    };
    assert_int_equal(wg_h1_parse_request(head.ptr, head.len, &request, &why), WG_H1_OK);
    assert_int_equal(request.fields.n, WG_COUNT_OF(expected));
    for (size_t i = 0; i < WG_COUNT_OF(expected); i++) {
        h1_assert_slice(request.fields.items[i].name, expected[i].name);
        assert_int_equal(request.fields.items[i].hop, expected[i].hop);
    }
    assert_int_equal(request.content_length, 2);
    assert_true(request.keep_alive);
}

static void repeat(struct wg_buf *buf, const char *text, size_t times)
{
    while (times-- > 0)
        wg_buf_add_str(buf, text);
}

static enum wg_h1_result parse_built(struct wg_buf *head, const char **why)
{
    static struct wg_request request;
    wg_buf_add_str(head, "\r\n");
    assert_false(head->failed);
    enum wg_h1_result result = wg_h1_parse_request(head->data, head->len, &request, why);
    wg_buf_clear(head);
    return result;
}

static void every_part_has_a_maximum(void **state)
{
    (void)state;
    const char *why = NULL;
    struct wg_buf head = WG_BUF_INIT(256 * 1024);
    wg_buf_add_str(&head, LINE HOST);
    repeat(&head, "A: b\r\n", WG_FIELDS_MAX - 1);
    assert_int_equal(parse_built(&head, &why), WG_H1_OK);
    wg_buf_add_str(&head, LINE HOST);
    repeat(&head, "A: b\r\n", WG_FIELDS_MAX);
    assert_int_equal(parse_built(&head, &why), WG_H1_TOO_LARGE);
    h1_assert_why(why, "too many fields", "101 fields");

    wg_buf_add_str(&head, "GET /");
    repeat(&head, "a", 8 * 1024 - 1);
    wg_buf_add_str(&head, " HTTP/1.1\r\n" HOST);
    assert_int_equal(parse_built(&head, &why), WG_H1_OK);
    wg_buf_add_str(&head, "GET /");
    repeat(&head, "a", 8 * 1024);
    wg_buf_add_str(&head, " HTTP/1.1\r\n" HOST);
    assert_int_equal(parse_built(&head, &why), WG_H1_TOO_LARGE);
    h1_assert_why(why, "longer than 8 KiB", "long target");

    wg_buf_add_str(&head, LINE "Host: ");
    repeat(&head, "a", 255);
    wg_buf_add_str(&head, "\r\n");
    assert_int_equal(parse_built(&head, &why), WG_H1_OK);
    wg_buf_add_str(&head, LINE "Host: ");
    repeat(&head, "a", 256);
    wg_buf_add_str(&head, "\r\n");
    assert_int_equal(parse_built(&head, &why), WG_H1_BAD);
    h1_assert_why(why, "Host is not", "long host");
}

/* One byte of a good head replaced by every other: never taken with a control character in it, never read
 * past its end. */
static void one_wrong_byte_never_gets_through(void **state)
{
    (void)state;
    struct wg_slice good = POST("Content-Length: 12\r\nAuthorization: Bearer k\r\nX-A: b c\r\n");
    char *head = h1_exact(good);
    for (size_t i = 0; i < good.len; i++) {
        for (int byte = 0; byte < 256; byte++) {
            struct wg_request request;
            const char *why = NULL;
            head[i] = (char)byte;
            enum wg_h1_result result = wg_h1_parse_request(head, good.len, &request, &why);
            bool control = byte < 0x20 || byte == 0x7f;
            if (result == WG_H1_OK && control && head[i] != good.ptr[i])
                assert_int_equal(byte, '\t');
            assert_true(result == WG_H1_OK || why != NULL);
        }
        head[i] = good.ptr[i];
    }
    free(head);
}

static void cut_heads_are_refused(void **state)
{
    (void)state;
    struct wg_slice good = POST("Content-Length: 12\r\nX-A: b c\r\n");
    for (size_t len = 0; len < good.len; len++) {
        struct wg_request request;
        const char *why = NULL;
        char *head = h1_exact(wg_slice(good.ptr, len));
        assert_int_equal(wg_h1_parse_request(head, len, &request, &why), WG_H1_BAD);
        assert_non_null(why);
        free(head);
    }
}

static void the_end_of_a_head_is_found(void **state)
{
    (void)state;
    static const struct {
        struct wg_slice data;
        size_t end;
    } rows[] = {
        {WG_SLICE(""), 0},
        {WG_SLICE("\r"), 0},
        {WG_SLICE("\r\n"), 2},
        {WG_SLICE("\nX"), 1},
        {WG_SLICE("\rX"), 2},
        {WG_SLICE("GET / HTTP/1.1"), 0},
        {WG_SLICE("a\r\n"), 0},
        {WG_SLICE("a\r\n\r"), 0},
        {WG_SLICE("a\r\n\r\nb\r\n\r\n"), 5},
        {WG_SLICE("a\r\nb\r\n\r\nrest"), 8},
        {WG_SLICE("a\n\nb"), 3},
        {WG_SLICE("a\n\r\nb"), 4},
        {WG_SLICE("a\r\n\nb"), 4},
        {WG_SLICE("a\r\n\rb"), 5},
        {WG_SLICE("a\rb\r\rc"), 0},
    };
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++)
        assert_int_equal(h1_head_end_any_way(rows[i].data), rows[i].end);
}

static void nothing_new_is_no_end(void **state)
{
    (void)state;
    size_t scanned = 0;
    assert_int_equal(wg_h1_head_end("GET", 3, &scanned), 0);
    assert_int_equal(scanned, 3);
    assert_int_equal(wg_h1_head_end("GET", 3, &scanned), 0);
    assert_int_equal(scanned, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ambiguous_is_refused),
        cmocka_unit_test(what_is_clear_is_taken),
        cmocka_unit_test(values_are_trimmed_and_names_kept_as_sent),
        cmocka_unit_test(connection_names_hop_by_hop_fields),
        cmocka_unit_test(every_part_has_a_maximum),
        cmocka_unit_test(one_wrong_byte_never_gets_through),
        cmocka_unit_test(cut_heads_are_refused),
        cmocka_unit_test(the_end_of_a_head_is_found),
        cmocka_unit_test(nothing_new_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
