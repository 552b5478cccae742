"""HTTP/1.1 at the front: what is ambiguous goes nowhere, what is slow or greedy is bounded (field cases, area I)."""

import json
import subprocess
import time

import pytest

from harness import proc
from harness.backend import answer
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import Client, chat, head_of, request_bytes
from harness.sim import Sim

BODY = json.dumps(chat()).encode()


def post(*headers, version="HTTP/1.1"):
    return head_of("POST", "/v1/chat/completions", [("Host", "x"), *headers], version)


def chunked(data, te="chunked"):
    return post(("Transfer-Encoding", te)) + data


GOOD_CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = ("Content-Length", str(len(BODY)))
CHUNKED = ("Transfer-Encoding", "chunked")

MATRIX = {
    "length-then-chunked": post(LENGTH, CHUNKED) + GOOD_CHUNKS,
    "chunked-then-length": post(CHUNKED, LENGTH) + GOOD_CHUNKS,
    "two-lengths": post(LENGTH, ("Content-Length", "3")) + BODY,
    "two-equal-lengths-in-one": post(("Content-Length", f"{len(BODY)}, {len(BODY)}")) + BODY,
    "empty-length": post(("Content-Length", "")) + BODY,
    "plus-length": post(("Content-Length", f"+{len(BODY)}")) + BODY,
    "hex-length": post(("Content-Length", "0x3")) + BODY,
    "trailing-space-length": post(("Content-Length", f"{len(BODY)} ")) + BODY,
    "inner-space-length": post(("Content-Length", "1 2")) + BODY,
    "negative-length": post(("Content-Length", "-1")) + BODY,
    "2^64-length": post(("Content-Length", str(2**64))) + BODY,
    "te-chunked-identity": chunked(GOOD_CHUNKS, "chunked, identity"),
    "te-xchunked": chunked(GOOD_CHUNKS, "xchunked"),
    "te-chunked-twice": chunked(GOOD_CHUNKS, "chunked, chunked"),
    "te-two-lines": post(CHUNKED, CHUNKED) + GOOD_CHUNKS,
    "te-gzip": chunked(GOOD_CHUNKS, "gzip, chunked"),
    "te-tab-prefix": chunked(GOOD_CHUNKS, "\tchunked"),
    "te-vertical-tab": chunked(GOOD_CHUNKS, "\x0bchunked"),
    "te-http-1.0": post(CHUNKED, version="HTTP/1.0") + GOOD_CHUNKS,
    "size-0x1": chunked(b"0x1\r\n{\r\n0\r\n\r\n"),
    "size-1abczz": chunked(b"1abczz\r\n{\r\n0\r\n\r\n"),
    "size-0_0": chunked(b"0_0\r\n\r\n"),
    "size-minus-0": chunked(b"-0\r\n\r\n"),
    "size-17-digits": chunked(b"00000000000000001\r\n{\r\n0\r\n\r\n"),
    "size-overflow": chunked(b"fffffffffffffffff\r\n{\r\n0\r\n\r\n"),
    "size-empty": chunked(b"\r\n{\r\n0\r\n\r\n"),
    "bare-lf-in-chunk-line": chunked(b"%x\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "bare-lf-in-extension": chunked(b"%x;a=b\nc\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk-without-crlf": chunked(b"%x\r\n%sXX0\r\n\r\n" % (len(BODY), BODY)),
    "space-before-colon": post(("Content-Length ", str(len(BODY)))) + BODY,
    "obs-fold": post(LENGTH, ("X-A", "b\r\n c")) + BODY,
    "empty-name": post(LENGTH, ("", "x")) + BODY,
    "nul-in-value": post(LENGTH, ("X-A", "a\0b")) + BODY,
    "bare-cr-in-value": post(LENGTH, ("X-A", "a\rb")) + BODY,
    "no-colon": post(LENGTH).replace(b"\r\n\r\n", b"\r\nnocolon\r\n\r\n", 1) + BODY,
    "bare-lf-lines": post(LENGTH).replace(b"\r\n", b"\n") + BODY,
    "two-hosts": post(LENGTH, ("Host", "y")) + BODY,
    "no-host": head_of("POST", "/v1/chat/completions", [LENGTH]) + BODY,
    "bad-version": post(LENGTH, version="HTTP/1.7x") + BODY,
    "two-spaces": post(LENGTH).replace(b"POST /", b"POST  /", 1) + BODY,
    "bad-method": post(LENGTH).replace(b"POST", b"P(ST", 1) + BODY,
}


@pytest.fixture
def front(gate, backend):
    """A warm model behind a backend that remembers what it got."""
    b = backend()
    g = gate([static_model("m", [b])], limits={"headerTimeout": "3s"})
    g.warm()
    b.requests.clear()
    return g, b


def test_h1_01_request_framing_matrix(front):
    """H1-01: each malformed framing is a 4xx and a close, the backend sees nothing; then a good request works."""
    g, b = front
    wrong = []
    for name, data in MATRIX.items():
        # a second request hides behind each: it must not come out
        smuggled = request_bytes(body=chat(text="smuggled"))
        with g.client(timeout=5) as client:
            client.send(data + smuggled)
            try:
                r = client.response()
                closed = client.closed_within(3)
            except OSError as error:
                wrong.append((name, repr(error)))
                continue
            expected = (400,) if name != "bad-version" else (400, 505)
            if r.status not in expected or not closed or b"HTTP/1.1 200" in client.rest:
                wrong.append((name, r.status, closed, client.rest[:80]))
    assert wrong == []
    assert b.requests == []
    assert g.chat(text="good").status == 200
    assert len(b.requests) == 1


def test_h1_01_unusual_but_legal_framing_is_accepted(front):
    """The other side of the matrix: extensions, trailers, case, empty lines before the request, pipelining."""
    g, b = front
    legal = [
        b"\r\n" + post(LENGTH) + BODY,
        chunked(b"%X;name=\"quoted;value\"\r\n%s\r\n000\r\nX-Trailer: a\r\n\r\n" % (len(BODY), BODY)),
        chunked(GOOD_CHUNKS, "Chunked"),
        post(("content-LENGTH", str(len(BODY)))) + BODY,
        post(LENGTH, ("X-Empty", ""), ("X-Latin", "\xe9")) + BODY,
    ]
    with g.client() as client:
        client.send(b"".join(legal))
        for data in legal:
            r = client.response()
            assert r.status == 200, (data, r.body)
    assert [q.body for q in b.requests] == [BODY] * len(legal)


def test_h1_02_idle_connection_race(gate, sim):
    """H1-02, scaled: the server closes idle connections at 1.00 s, 400 POSTs come 0.95 to 1.05 s apart over 20
    connections: no 5xx, each executed once."""
    server = sim(keep_alive=1)
    g = gate([static_model("m", [server], timeouts={"reuse": "800ms"}, concurrency={"perEndpoint": 64, "rampStart": 64})])
    g.warm()
    server.reset()
    rounds, n = 20, 20

    def run(k):
        statuses = []
        with g.client() as client:
            for i in range(rounds):
                at = time.monotonic()
                statuses.append(client.call(body=chat(text=f"{k}-{i}")).status)
                time.sleep(max(0, at + 0.95 + 0.1 * ((k * 7 + i * 3) % 20) / 20 - time.monotonic()))
        return statuses

    runs = [Background(run, k) for k in range(n)]
    statuses = [s for r in runs for s in r.result()]
    assert statuses == [200] * (rounds * n)
    prompts = [r["prompt"] for r in server.requests(prompts_only=True)]
    assert sorted(prompts) == sorted(f"{k}-{i}" for k in range(n) for i in range(rounds))


def test_h1_02_a_close_while_idle_is_noticed(gate, backend):
    """H1-02: the backend's FIN on an idle connection is seen before the next request would use it."""

    def handle(peer, _):
        peer.send(answer())
        time.sleep(0.02)
        return False

    b = backend(handle)
    g = gate([static_model("m", [b])])
    statuses = []
    for i in range(30):
        statuses.append(g.chat(text=f"r{i}").status)
        time.sleep(0.06)
    assert statuses == [200] * 30
    assert len(b.requests) == 30


def test_h1_02_connections_are_reused(gate, backend):
    """Within the reuse time one back connection serves request after request."""
    b = backend()
    g = gate([static_model("m", [b])], workers=1)
    for _ in range(20):
        assert g.chat().status == 200
    assert len({q.connection for q in b.requests}) == 1


def test_h1_04_expect_100_continue_while_cold(gate, sim):
    """H1-04: 100 at once, the body is read during the hold, and the model gets no Expect."""
    server = sim(load=1.5)
    g = gate([static_model("m", [server])])
    body = json.dumps(chat(text="x" * (2 << 20))).encode()
    with g.client() as client:
        began = time.monotonic()
        client.send(post(("Content-Length", str(len(body))), ("Expect", "100-continue")))
        r = client.response(until=lambda r: r.interim)
        assert r.interim[0][0] == 100
        assert r.interim[0][2] - began < 0.05 * proc.SLOW
        client.send(body)
        client.resume(r)
        assert r.status == 200
    (seen,) = [q for q in server.requests(prompts_only=True) if q["status"] == 200]
    assert "expect" not in {k.lower() for k, _ in seen["headers"]}
    assert seen["body_size"] == len(body)


def test_h1_04_curl_posts_to_a_cold_model(gate, tmp_path):
    """H1-04 with curl itself, which waits for 100 before 2 MiB."""
    g = gate([process_model("m", sim={"load": 1.5})])
    file = tmp_path / "body.json"
    file.write_text(json.dumps(chat(text="x" * (2 << 20))))
    out = subprocess.run(
        ["curl", "-sS", "-v", "--max-time", "30", "-H", "Expect: 100-continue", "--data-binary", f"@{file}",
         "-w", "\n%{http_code} %{time_total}", f"http://127.0.0.1:{g.port}/v1/chat/completions"],
        capture_output=True, text=True, timeout=60, check=True,
    )
    assert "100 Continue" in out.stderr
    assert out.stdout.splitlines()[-1].startswith("200 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Content-Length", "100"), ("Authorization", "Bearer wrong")], 401),
        ([("Content-Length", str(33 << 20)), ("Authorization", "Bearer k")], 413),
        ([("Content-Length", "100"), ("Authorization", "Bearer k"), ("Content-Encoding", "gzip")], 415),
    ],
)
def test_h1_04_refusals_come_without_100(gate, headers, status):
    """H1-04: bad key, too large, encoded: the final answer, no 100 before it."""
    g = gate([process_model("m")], tenants=[{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}])
    with g.client() as client:
        client.send(post(*headers, ("Expect", "100-continue")))
        r = client.response()
        assert r.status == status and r.interim == []


def test_h1_05_hop_by_hop_and_no_tunnels(front):
    """H1-05: what is of this hop stays on it, an upgrade is ignored, Connection cannot hide a key."""
    g, b = front
    headers = [
        ("Connection", "Upgrade, HTTP2-Settings, x-secret, authorization"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA"),
        ("X-Secret", "1"),
        ("Proxy-Authorization", "Basic eDp5"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("X-Kept", "yes"),
    ]
    r = g.chat(headers=headers)
    assert r.status == 200
    seen = {k.lower(): v for k, v in b.requests[-1].headers}
    for name in ("upgrade", "http2-settings", "x-secret", "proxy-authorization", "keep-alive", "authorization"):
        assert name not in seen, name
    assert seen["x-kept"] == "yes"
    assert seen["host"] == f"127.0.0.1:{b.port}"


def test_h1_05_headers_to_the_model(front):
    """x-request-id, traceparent, x-forwarded-*: made or kept; from an untrusted client the forwarded ones are ours."""
    g, b = front
    r = g.chat(headers=[("X-Forwarded-For", "6.6.6.6"), ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
    seen = {k.lower(): v for k, v in b.requests[-1].headers}
    assert seen["x-request-id"] == r.header("x-request-id")
    assert seen["x-forwarded-for"] == "127.0.0.1"
    assert seen["x-forwarded-proto"] == "http"
    assert seen["x-forwarded-host"] == "test"
    assert seen["traceparent"].split("-")[1] == "0af7651916cd43dd8448eb211c80319c"
    g.chat()
    assert len({k.lower(): v for k, v in b.requests[-1].headers}["traceparent"].split("-")) == 4


def test_h1_05_an_ipv4_client_of_a_dual_socket(gate, backend):
    """x-forwarded-for is the plain IPv4 address, not the mapped one that the socket tells; so is who is trusted."""
    b = backend()
    port = proc.free_port()
    g = gate([static_model("m", [b])], listeners=[{"address": f"[::]:{port}"}], trustedPeers=["127.0.0.0/8"])
    with Client(port) as client:
        assert client.call(body=chat(), headers=[("X-Forwarded-For", "10.1.2.3")]).status == 200
    assert b.requests[-1].header("x-forwarded-for") == "10.1.2.3, 127.0.0.1"
    assert g.process.alive()


def test_h1_05_close_from_the_client_keeps_the_back_connection(gate, backend):
    """H1-05: Connection: close of a client ends its own connection alone."""
    b = backend()
    g = gate([static_model("m", [b])], workers=1)
    for _ in range(5):
        with g.client() as client:
            r = client.call(body=chat(), headers=[("Connection", "close")])
            assert r.status == 200 and r.header("connection") == "close"
            assert client.closed_within(2)
    assert len({q.connection for q in b.requests}) == 1


def test_h1_05_connect_and_absolute_forms(front):
    """CONNECT, * and a foreign scheme are refused; the absolute form of our own is served."""
    g, b = front
    with g.client() as client:
        client.send(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        assert client.response().status in (400, 405)
        assert client.closed_within(2)
    with g.client() as client:
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.response().status in (400, 404, 405)
    assert b.requests == []
    with g.client() as client:
        client.send(head_of("POST", "http://x/v1/chat/completions", [("Host", "x"), LENGTH]) + BODY)
        assert client.response().status == 200


def test_h1_07_slow_heads_are_cut(front):
    """H1-07: a head byte by byte is closed at the header timeout, with 408."""
    g, _ = front
    with g.client(timeout=10) as client:
        began = time.monotonic()
        try:
            for byte in post(LENGTH):
                client.send(bytes([byte]))
                time.sleep(0.1)
                if time.monotonic() - began > 6:
                    break
        except OSError:
            pass
        assert client.closed_within(5)
        assert time.monotonic() - began < 8
        assert b" 408 " in client.rest.split(b"\r\n")[0] or client.rest == b""


def test_h1_07_stalled_bodies_are_cut_and_slow_ones_are_not(gate, sim):
    """H1-07: no progress for bodyIdleTimeout is 408; 2 kB/s for longer than that is served."""
    g = gate([static_model("m", [sim()])], limits={"bodyIdleTimeout": "1s", "headerTimeout": "1s"})
    with g.client(timeout=10) as client:
        client.send(post(LENGTH) + BODY[:10])
        r = client.response()
        assert (r.status, r.code) == (408, "request_timeout")
        assert client.closed_within(3)
    body = json.dumps(chat(text="y" * 6000)).encode()
    with g.client(timeout=10) as client:
        client.send(post(("Content-Length", str(len(body)))))
        for i in range(0, len(body), 200):
            client.send(body[i : i + 200])
            time.sleep(0.1)
        assert client.response().status == 200


def test_h1_07_hold_time_is_not_slowness(gate):
    """H1-07: a hold longer than every client-side timeout is no fault of the client."""
    limits = {"headerTimeout": "1s", "bodyIdleTimeout": "1s", "writeIdleTimeout": "1s", "idleTimeout": "1s"}
    g = gate([process_model("m", sim={"load": 3})], limits=limits)
    assert g.chat().status == 200


def test_h1_07_pipelining_behind_a_held_request(gate):
    """H1-07: 10,000 pipelined requests behind a held one: reads stop, memory is flat, answers come in order."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load": 3})])
    g.process.wait_log(".")
    rss = g.process.rss()
    n = 10000 if not proc.SANITIZER else 2000
    # 12 MB in all: more than the sockets' own buffers take
    one = request_bytes("GET", "/v1/models/m", headers=[("X-Pad", "p" * (12000000 // n))])
    with g.client() as client:
        client.send(request_bytes(body=chat(text="first")))
        sender = Background(client.send, one * n)
        g.wait_held(1)
        time.sleep(1)
        assert not sender.done(), "reads stop"
        assert g.process.rss() - rss < (4 << 20) * proc.FAT
        first = client.response()
        assert first.status == 200 and first.text().startswith("the model")
        for _ in range(n):
            r = client.response()
            assert r.status == 200 and r.json()["id"] == "m"
        sender.result()
    assert [q["prompt"] for q in Sim(port).requests(prompts_only=True)] == ["first"]


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\x00\x00\x00", b"\r\n{}"])
def test_another_protocol_is_refused_by_its_first_byte(front, data):
    """TLS and the like on a cleartext port: an answer at once, since the end of a head would never come."""
    g, _ = front
    with g.client() as client:
        client.send(data)
        assert client.response().status == 400
        assert client.closed_within(2)


def test_h1_07_too_many_headers(front):
    """More than maxHeaderBytes is 431 and a close."""
    g, b = front
    with g.client() as client:
        try:
            client.send(post(*[(f"X-{i}", "v" * 1000) for i in range(80)], LENGTH) + BODY)
        except OSError:
            pass
        r = client.response()
        assert (r.status, r.code) == (431, "headers_too_large")
    assert b.requests == []


def nested(depth, close=True):
    text = '{"model":"m","messages":[{"role":"user","content":"hello"}],"tools":' + "[" * depth
    return (text + ("]" * depth + "}" if close else "")).encode()


def test_h1_08_json_that_kills_parsers(gate, sim):
    """H1-08: deep nesting and odd documents are 400 or accepted, at once, and 100 held requests do not notice."""
    server = sim(load=600)
    g = gate([static_model("m", [server]), static_model("w", [sim()])])
    g.warm("w")
    held = [g.client().send(request_bytes(body=chat(text=f"h{i}"))) for i in range(100)]
    g.wait_held(100)
    accepted = g.call(body=nested(50).replace(b'"m"', b'"w"'))
    assert accepted.status == 200
    for depth in (1000, 10000, 1000000):
        for body in (nested(depth), nested(depth, close=False), b"[" * depth, b'{"a":' * depth):
            began = time.monotonic()
            r = g.call(body=body.replace(b'"m"', b'"w"'))
            assert (r.status, r.code) == (400, "invalid_request"), depth
            assert time.monotonic() - began < 0.1 * proc.SLOW
    w = b'{"model":"w","messages":[{"role":"user","content":"hello"}]'
    documents = {
        b"\xef\xbb\xbf" + w + b"}": (200, 400),
        w + b',"x":"\xff\xfe"}': (400,),
        w + b',"x":"\\ud800"}': (200, 400),
        b'{"model":"w\\u0000","messages":[]}': (400, 404),
        w + b',"x":' + b"9" * 1000000 + b"}": (200, 400),
        w + b',"x":"' + b"y" * 10000000 + b'"}': (200,),
        w + b',"model":"w"}': (400,),
        w + b',"stream":true,"stream":false}': (400,),
        w + b"} trailing": (400,),
        w + b"}{}": (400,),
        b"": (400,),
        b"   ": (400,),
        b"[]": (400,),
        b'"w"': (400,),
        b"null": (400,),
        b'{"model":7}': (400,),
        b'{"model":null}': (400,),
        b"{}": (400,),
        w + b',"x":01}': (400,),
        w + b",'x':1}": (400,),
        w + b',"x":tru}': (400,),
        w + b',"x":"a\tb"}': (400,),
        w + b",}": (400,),
    }
    for body, statuses in documents.items():
        r = g.call(body=body)
        assert r.status in statuses, (body[:120], r.status, r.body)
    assert g.held() == 100
    server.config(load=0)
    assert [c.response().status for c in held] == [200] * 100


def test_keep_alive_and_idle_timeout(gate, sim):
    """Requests follow each other on one connection; an idle one is closed at idleTimeout."""
    g = gate([static_model("m", [sim()])], limits={"idleTimeout": "1s"})
    with Client(g.port) as client:
        for i in range(50):
            assert client.call(body=chat(text=f"r{i}")).status == 200
        began = time.monotonic()
        assert client.closed_within(4)
        assert 0.8 < time.monotonic() - began < 2.5
