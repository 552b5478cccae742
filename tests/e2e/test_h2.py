"""HTTP/2 at the front: requests and answers in translation, and what is malformed goes nowhere (field cases, area H)."""

import json
import time

import pytest

from harness import proc
from harness.backend import GOOD, SSE_HEAD, answer, chunk
from harness.gate import static_model
from harness.http1 import chat
from harness.http2 import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PREFACE, PRIORITIZED, PROTOCOL_ERROR, Connection, Raw,
    block_frames, data, frame, request_fields, settings,
)

BODY = json.dumps(chat()).encode()
KEY = {"tenants": [{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}]}


def fields(*more, **kw):
    return request_fields(headers=more, **kw)


def refused(stream):
    """A stream error, or 400."""
    return stream.status == 400 if stream.done else stream.reset == PROTOCOL_ERROR


def try_frames(raw, make):
    """Sends the frames that make(id) gives on a new stream; the stream, over."""
    number = raw.next_id()
    raw.write(make(number))
    return raw.streams[number].response(10)


def check_refused(front, cases):
    """Each case, {name: make(raw, id)}, is refused on its stream alone; the backend sees none; the connection is good."""
    g, b = front
    wrong = []
    with Raw(g.port) as raw:
        for name, make in cases.items():
            stream = try_frames(raw, lambda number: make(raw, number))
            if not refused(stream):
                wrong.append((name, stream, stream.body[:80]))
        assert wrong == []
        raw.ping()
        assert raw.request(body=chat(text="good")).response().status == 200
        assert raw.goaways == []
    assert [q.json()["messages"][0]["content"] for q in b.requests] == ["good"]


# ---- lengths ----


def with_body(*more, body=BODY, end=True):
    return lambda raw, i: raw.headers(i, fields(*more)) + (data(i, body, end) if body or end else b"")


def length(value):
    return ("content-length", str(value))


DECLARED = {
    "5-on-headers": lambda raw, i: raw.headers(i, fields(length(5)), end=True),
    "3-of-5-then-trailers": lambda raw, i: raw.headers(i, fields(length(5))) + data(i, b"abc")
    + raw.headers(i, [("x-a", "b")], end=True),
    "3-of-5": with_body(length(5), body=b"abc"),
    "6-of-5": with_body(length(5), body=b"abcdef"),
    "6-of-5-in-two": lambda raw, i: raw.headers(i, fields(length(5))) + data(i, b"abc") + data(i, b"def"),
    "less-json": with_body(length(len(BODY) + 1)),
    "more-json": with_body(length(len(BODY) - 1)),
    "0-of-5-empty-data": with_body(length(5), body=b""),
    "two-lengths": with_body(length(len(BODY)), length(5)),
    "two-equal-lengths": with_body(length(len(BODY)), length(len(BODY))),
    "plus": with_body(length(f"+{len(BODY)}")),
    "empty": with_body(length("")),
    "list": with_body(length(f"{len(BODY)}, {len(BODY)}")),
    "negative": with_body(length("-1")),
    "hex": with_body(length("0x20")),
    "2^64": with_body(length(2**64)),
    "te-chunked": with_body(("transfer-encoding", "chunked")),
    "te-and-length": with_body(("transfer-encoding", "chunked"), length(len(BODY))),
}


def test_h2_03_declared_length_is_checked_at_every_end(front):
    """H2-03: each disagreement is an error of its stream, the backend sees no request, and its connection stays clean."""
    g, b = front
    before = b.connections
    check_refused(front, DECLARED)
    assert b.connections - before <= 1, "one more for another worker, none that was given up"


def test_h2_03_legal_lengths_are_accepted(front):
    """The other side: none, 0 with the end, empty and padded DATA, the body in many frames; the model gets a length."""
    g, b = front
    with Raw(g.port) as raw:
        no_length = try_frames(raw, lambda i: with_body()(raw, i))
        exact = try_frames(raw, lambda i: with_body(length(len(BODY)))(raw, i))
        pieces = try_frames(
            raw,
            lambda i: raw.headers(i, fields(length(len(BODY))))
            + b"".join(data(i, BODY[k : k + 1]) for k in range(len(BODY))) + data(i, end=True),
        )
        padded = try_frames(
            raw,
            lambda i: frame(HEADERS, END_HEADERS | PADDED | PRIORITIZED, i, b"\x07\x80\0\0\0\x0f" + raw.block(fields()) + bytes(7))
            + frame(DATA, PADDED | END_STREAM, i, b"\xff" + BODY + bytes(255)),
        )
        trailers = try_frames(
            raw, lambda i: raw.headers(i, fields()) + data(i, BODY) + raw.headers(i, [("x-sum", "1")], end=True)
        )
        assert [s.status for s in (no_length, exact, pieces, padded, trailers)] == [200] * 5
        zero = raw.request("GET", "/v1/models", headers=[length(0)]).response()
        assert zero.status == 200 and zero.json()["data"][0]["id"] == "m"
        empty = raw.request(body=b"").response()
        assert (empty.status, empty.code) == (400, "invalid_request"), "no JSON, but well framed"
    assert [q.body for q in b.requests] == [BODY] * 5
    assert {q.header("content-length") for q in b.requests} == {str(len(BODY))}
    assert all(q.header("transfer-encoding") is None and q.header("x-sum") is None for q in b.requests)


def test_padding_is_credited(front):
    """More padding than a window holds, around a small body: both windows get it back."""
    g, b = front
    with Raw(g.port) as raw:
        body = json.dumps(chat(text="p" * 30000)).encode()
        pieces = [body[i : i + 100] for i in range(0, len(body), 100)]
        frames = [frame(DATA, PADDED | (END_STREAM if p is pieces[-1] else 0), 1, b"\xfa" + p + bytes(250)) for p in pieces]
        assert len(b"".join(frames)) > 65535 + len(body)
        assert try_frames(raw, lambda i: raw.headers(i, fields(length(len(body)))) + b"".join(frames)).status == 200
    assert b.requests[0].body == body


def test_large_heads_of_answers(gate, backend):
    """An answer with 50 KB of fields goes on in CONTINUATIONs, to a client without a table for compression too."""
    more = [(f"X-{i}", f"{i:04}" * 250) for i in range(50)]
    g = gate([static_model("m", [backend(lambda peer, _: peer.send(answer(headers=more)))])])
    with Raw(g.port, preface=PREFACE + settings(header_table_size=0)) as raw:
        for _ in range(3):
            r = raw.request(body=chat()).response()
            assert r.status == 200 and r.body == GOOD
            assert [v for k, v in r.headers if k.startswith("x-") and k[2:].isdigit()] == [v for _, v in more]
        assert CONTINUATION in [f.type for f in raw.frames]


# ---- heads ----


def one_field(name, value):
    """The block holds the field as it is: the hpack package checks nothing."""
    return lambda raw, i: raw.headers(i, fields((name, value))) + data(i, BODY, True)


def path(value):
    return lambda raw, i: raw.headers(i, fields(path=value)) + data(i, BODY, True)


def pseudo(*all_fields):
    return lambda raw, i: raw.headers(i, list(all_fields)) + data(i, BODY, True)


METHOD, SCHEME, PATH, AUTHORITY = fields()

MALFORMED = {
    "connection": one_field("connection", "x-a"),
    "keep-alive": one_field("keep-alive", "timeout=5"),
    "proxy-connection": one_field("proxy-connection", "keep-alive"),
    "upgrade": one_field("upgrade", "h2c"),
    "te-gzip": one_field("te", "gzip"),
    "uppercase": one_field("X-Upper", "a"),
    "space-in-name": one_field("x a", "b"),
    "colon-in-name": one_field("x:a", "b"),
    "empty-name": one_field("", "b"),
    "latin-name": one_field(b"x-\xe9", "b"),
    "nul-in-value": one_field("x-a", b"a\0b"),
    "lf-in-value": one_field("x-a", b"a\nx-b: c"),
    "cr-in-value": one_field("x-a", b"a\rb"),
    "leading-space": one_field("x-a", " b"),
    "trailing-tab": one_field("x-a", "b\t"),
    "other-host": one_field("host", "elsewhere"),
    "two-hosts": pseudo(METHOD, SCHEME, PATH, ("host", "a"), ("host", "b")),
    "no-authority": pseudo(METHOD, SCHEME, PATH),
    "empty-authority": pseudo(METHOD, SCHEME, PATH, (":authority", "")),
    "userinfo": pseudo(METHOD, SCHEME, PATH, (":authority", "user@test")),
    "space-in-authority": pseudo(METHOD, SCHEME, PATH, (":authority", "te st")),
    "no-method": pseudo(SCHEME, PATH, AUTHORITY),
    "no-scheme": pseudo(METHOD, PATH, AUTHORITY),
    "no-path": pseudo(METHOD, SCHEME, AUTHORITY),
    "two-paths": pseudo(METHOD, SCHEME, PATH, PATH, AUTHORITY),
    "bad-method": pseudo((":method", "PO ST"), SCHEME, PATH, AUTHORITY),
    "status-in-request": pseudo(METHOD, SCHEME, PATH, AUTHORITY, (":status", "200")),
    "unknown-pseudo": pseudo(METHOD, SCHEME, PATH, AUTHORITY, (":x", "1")),
    "pseudo-behind": pseudo(METHOD, SCHEME, PATH, ("x-a", "b"), AUTHORITY),
    "protocol": pseudo((":method", "CONNECT"), (":protocol", "websocket"), SCHEME, PATH, AUTHORITY),
}

PATHS = {
    "path-empty": "",
    "path-no-slash": "v1/chat/completions",
    "path-star": "*",
    "path-absolute": "http://test/v1/chat/completions",
    "path-space": "/v1/chat completions",
    "path-request-line": "/v1/chat/completions HTTP/1.1\r\nX-A: b",
    "path-tab": "/v1/chat\tcompletions",
    "path-fragment": "/v1/chat/completions#x",
    "path-quote": '/v1/chat/completions?a="b"',
    "path-less": "/v1/chat/completions?<a>",
    "path-backslash": "/v1\\chat/completions",
    "path-8-bit": b"/v1/chat/completions?\xff",
    "path-del": b"/v1/chat/completions?\x7f",
    "path-nul": b"/v1/chat/completions?\0",
}


@pytest.mark.parametrize("kind", ["fields", "paths"])
def test_malformed_heads_are_stream_errors(front, kind):
    """Bad names, values, pseudo fields, hosts, and bytes that no request line may carry: RST_STREAM or 400, nothing is
    dropped in silence, and nothing reaches the model."""
    check_refused(front, MALFORMED if kind == "fields" else {name: path(value) for name, value in PATHS.items()})


def test_h2_10_bad_trailers_are_stream_errors(front):
    """H2-10: pseudo, uppercase and framing fields behind a body."""

    def trailing(*some, end=True):
        return lambda raw, i: raw.headers(i, fields()) + data(i, BODY) + raw.headers(i, list(some), end=end)

    check_refused(
        front,
        {
            "path": trailing((":path", "/")),
            "status": trailing((":status", "200")),
            "uppercase": trailing(("X-Upper", "a")),
            "length": trailing(length(3)),
            "transfer-encoding": trailing(("transfer-encoding", "chunked")),
            "connection": trailing(("connection", "close")),
            "host": trailing(("host", "elsewhere")),
            "lf-in-value": trailing(("x-a", b"a\nb")),
            "no-end": trailing(("x-a", "b"), end=False),
        },
    )


def test_authority_and_host_are_one(front):
    """:authority goes on as the host of the request; a Host that says the same is no harm, and alone it is enough."""
    g, b = front
    with Raw(g.port) as raw:
        for one in (fields(authority="one.test:80"), fields(("host", "one.test:80"), authority="one.test:80"),
                    fields(("host", "one.test:80"), authority=None)):
            assert try_frames(raw, lambda i: raw.headers(i, one) + data(i, BODY, True)).status == 200
    assert [q.header("x-forwarded-host") for q in b.requests] == ["one.test:80"] * 3
    assert {q.header("host") for q in b.requests} == {f"127.0.0.1:{b.port}"}


def test_a_request_in_http_1_1(front):
    """Cookie crumbs are one line; hop-by-hop fields, te and the key stay here; the usual fields are made."""
    g, b = front
    with Connection(g.port) as client:
        r = client.call(
            body=chat(),
            headers=[("cookie", "a=1"), ("x-kept", "yes"), ("cookie", "b=2"), ("cookie", "c=3; d=4"), ("te", "trailers"),
                     ("proxy-authorization", "Basic eDp5"), ("x-forwarded-for", "6.6.6.6"), ("x-latin", "\xe9"),
                     ("http2-settings", "AAMAAABk")],
        )
    assert r.status == 200 and r.body == GOOD
    (seen,) = b.requests
    assert seen.version == "HTTP/1.1" and (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    names = [k.lower() for k, _ in seen.headers]
    assert names.count("cookie") == 1 and seen.header("cookie") == "a=1; b=2; c=3; d=4"
    for name in ("te", "proxy-authorization", "connection", "http2-settings", "transfer-encoding"):
        assert name not in names, name
    assert not [k for k in names if k.startswith(":")]
    assert seen.header("x-kept") == "yes" and seen.header("x-latin") == "\xe9".encode().decode("latin-1")
    assert seen.header("x-request-id") == r.header("x-request-id")
    assert seen.header("x-forwarded-for") == "127.0.0.1" and seen.header("x-forwarded-proto") == "http"
    assert len(seen.header("traceparent").split("-")) == 4
    assert not [k for k, _ in r.headers if k != k.lower()]


def test_h2_10_connection_fields_of_the_model_stay_there(gate, backend):
    """H2-10: Connection, what it names, Keep-Alive and Transfer-Encoding are dropped, the body is exact, trailers are
    trailers or nothing."""

    def handle(peer, request):
        if request.json()["messages"][0]["content"] == "warm up":
            return peer.send(answer())
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n"
        head += b"X-Hop: 1\r\nProxy-Connection: keep-alive\r\nX-Kept: Yes\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        return peer.send(head + chunk(b"hello ") + chunk(b"world") + b"0\r\nX-Sum: 5\r\nContent-Length: 3\r\n\r\n")

    b = backend(handle)
    g = gate([static_model("m", [b])])
    g.warm()
    with Connection(g.port) as client:
        for _ in range(3):
            r = client.chat(text="trailers")
            assert r.status == 200 and r.done and r.body == b"hello world"
            names = {k for k, _ in r.headers}
            assert names.isdisjoint({"connection", "keep-alive", "x-hop", "proxy-connection", "transfer-encoding"})
            assert r.header("x-kept") == "Yes"
            assert "content-length" not in dict(r.trailers) and r.trailers in ([], [("x-sum", "5")])


def test_answers_of_every_kind(gate, backend):
    """HEAD, 204, 304, interim answers and bodies to the close: each ends its stream, and the next comes well."""
    answers = {
        "204": b"HTTP/1.1 204 No Content\r\nX-Kind: a\r\n\r\n",
        "304": b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
        "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(b"{}"),
        "empty": answer(b""),
        "empty chunks": SSE_HEAD + b"0\r\n\r\n",
        "to the close": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it",
        "500": answer(b"no", "500 Oh"),
    }

    def handle(peer, request):
        if request.method == "HEAD":
            return peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
        kind = request.json()["messages"][0]["content"]
        return peer.send(answers.get(kind, answer())) and kind != "to the close"

    g = gate([static_model("m", [backend(handle)], paths=["/v1/chat/completions", "/tokenize"])])
    g.warm()
    with Connection(g.port) as client:
        found = {kind: client.chat(text=kind) for kind in answers}
        assert all(r.done and not r.broken for r in found.values()), found
        assert [r.status for r in found.values()] == [204, 304, 200, 200, 200, 200, 500]
        assert [r.body for r in found.values()] == [b"", b"", b"{}", b"", b"", b"all of it", b"no"]
        assert found["204"].header("content-length") is None and found["304"].header("etag") == '"x"'
        assert [s for s, _, _ in found["interim"].interim] in ([], [103])
        head = client.call("HEAD", "/models/m/tokenize")
        assert (head.status, head.header("content-length"), head.body) == (200, "1234", b"")
        models = client.call("GET", "/v1/models")
        assert models.status == 200 and models.json()["data"][0]["id"] == "m"
        assert models.header("content-type") == "application/json"
        missing = client.call("HEAD", "/nothing")
        assert missing.status == 404 and missing.body == b""
        assert (client.chat("nobody").code, client.call("GET", "/v1/chat/completions").status) == ("model_not_found", 405)
        assert client.goaways == []


def test_connect_is_no_tunnel(front):
    """CONNECT is refused or reset."""
    g, b = front
    with Raw(g.port) as raw:
        stream = try_frames(raw, lambda i: raw.headers(i, [(":method", "CONNECT"), (":authority", "example.com:443")]))
        assert stream.status == 405 or stream.reset is not None, stream
        assert raw.request(body=chat()).response().status == 200
    assert len(b.requests) == 1


def test_expect_100_continue(gate, sim):
    """100 as an interim answer while the model is cold, the body is read during the hold, and the model gets no Expect;
    refusals come without it."""
    server = sim(load=1)
    g = gate([static_model("m", [server])], **KEY)
    key, expect = ("authorization", "Bearer k"), ("expect", "100-continue")
    with Connection(g.port) as client:
        r = client.request(headers=[key, expect, length(len(BODY))], end=False)
        began = time.monotonic()
        r.wait(lambda s: s.interim, 5, "100")
        assert r.interim[0][0] == 100 and r.interim[0][2] - began < 0.1 * proc.SLOW
        client.send_data(r, BODY, end=True)
        assert r.response().status == 200
        for headers, status in (([length(100)], 401), ([key, length(33 << 20)], 413),
                                ([key, length(100), ("content-encoding", "gzip")], 415)):
            r = client.request(headers=[*headers, expect], end=False)
            r.wait(lambda s: s.done, 5, "the refusal")
            assert r.status == status and r.interim == []
    (seen,) = [q for q in server.requests(prompts_only=True) if q["status"] == 200]
    assert "expect" not in {k.lower() for k, _ in seen["headers"]}


COMPLETIONS = "/v1/chat/completions"
ALIKE = [  # method, target, headers, body, host
    ("POST", COMPLETIONS, [], BODY, "test"),
    *[("POST", f"{COMPLETIONS}?{'a' * n}", [], BODY, "test") for n in (4000, 60000, 70000)],
    *[("POST", target, [], BODY, "test") for target in (
        "//v1/chat/completions", "/v1/../v1/chat/completions", COMPLETIONS + "/", "/v1/chat%2fcompletions",
        COMPLETIONS + "?x[]={}|^`", "/models/a/b" + COMPLETIONS, "/models/a%2Fb" + COMPLETIONS)],
    *[(method, COMPLETIONS, [], None, "test") for method in ("DELETE", "OPTIONS", "TRACE", "PRI", "get", "M-SEARCH")],
    ("OPTIONS", "*", [], None, "test"),
    ("GET", "/models/m/tokenize", [], None, "test"),
    ("HEAD", "/models/m/tokenize", [], None, "test"),
    *[("POST", COMPLETIONS, headers, BODY, "test") for headers in (
        [("content-encoding", "gzip")], [("expect", "foo")], [("x-" + "a" * 300, "b")], [("x-a", "b" * 60000)],
        [("x-a", "b" * 66000)], [("x-a", "")], [("x-a", "a\tb")], [("prefer", "wait=x")],
        [("authorization", "Bearer a"), ("authorization", "Bearer b")], [("authorization", "Bearer a"), ("x-api-key", "b")])],
    *[("GET", "/v1/models", [], None, host) for host in ("test:0", "test:99999", "[::1]:80", "[::1", "te_st", "a,b", "test:", "TEST")],
]


def test_both_protocols_are_judged_alike(gate, backend):
    """Targets, methods, fields and hosts on the border of what is legal: the same status, whichever protocol they came by."""
    g = gate([static_model("m", [backend()]), static_model("a/b", [backend()])])
    g.warm()
    g.warm("a/b")
    statuses = []
    for method, target, headers, body, host in ALIKE:
        one = g.call(method, target, body, headers, host=host).status
        with Raw(g.port) as raw:
            two = raw.request(method, target, body, headers, authority=host).response().status
        statuses.append((one, two, method, target[:40], [k for k, _ in headers], host))
    assert [s for s in statuses if s[0] != s[1]] == []
    assert {200, 400, 404, 405, 415, 431} <= {s[0] for s in statuses}


# ---- large and many headers ----


def test_h2_07_a_large_head_is_431(front):
    """H2-07: 200 headers of 1 KiB, or 150 small ones: 431 on that stream, and the connection is as good as before."""
    g, b = front
    with Raw(g.port) as raw:
        raw.encoder.header_table_size = 0
        large = raw.block(fields(*[(f"x-{i}", "0" * 1000) for i in range(200)]))
        r = try_frames(raw, lambda i: block_frames(i, large, end=True))
        assert (r.status, r.code) == (431, "headers_too_large")
        many = raw.block(fields(*[(f"x-{i}", "a") for i in range(150)]))
        r = try_frames(raw, lambda i: block_frames(i, many, end=True))
        assert (r.status, r.code) == (431, "headers_too_large")
        raw.ping()
        assert raw.request(body=chat()).response().status == 200
        assert raw.goaways == []
    assert len(b.requests) == 1


def test_h2_07_four_continuations_byte_by_byte(front):
    """H2-07: one byte per segment is legal: the head of a frame that comes in nine pieces is one frame."""
    g, b = front
    with Raw(g.port) as raw:
        number = raw.next_id()
        block = raw.block(fields(*[(f"x-{i}", "value") for i in range(10)]))
        frames = block_frames(number, block, size=-(-len(block) // 5))
        assert frames.count(b"\x09\x00\0\0\0\x01") == 3, "and one with END_HEADERS"
        raw.write_slowly(frames + data(number, BODY, True))
        assert raw.streams[number].response().status == 200
        empty = raw.next_id()
        octets = frame(HEADERS, 0, empty, raw.block(fields())) + frame(CONTINUATION, 0, empty) * 3
        raw.write(octets + frame(CONTINUATION, END_HEADERS, empty) + data(empty, BODY, True))
        assert raw.streams[empty].response().status == 200, "a few empty ones are no fault yet"
        assert raw.goaways == []
    assert b.requests[0].header("x-9") == "value" and len(b.requests) == 2
