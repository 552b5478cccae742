"""HTTP/2 connections: how they begin, what breaks them, their clocks, and answers that overtake a request (field cases,
area H)."""

import json
import time

import pytest

from harness import proc
from harness.gate import parse_metrics, process_model, static_model
from harness.http1 import chat, request_bytes
from harness.http2 import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, MAX_CONCURRENT_STREAMS, NO_ERROR, PADDED, PREFACE, PRIORITY,
    RST_STREAM, SETTINGS, SETTINGS_TIMEOUT, Connection, Raw, data, frame, request_fields, settings,
)

BODY = json.dumps(chat()).encode()
KEY = {"tenants": [{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}]}


def fields(*more):
    return request_fields(headers=more)


def length(value):
    return ("content-length", str(value))


# ---- the port ----


def test_both_protocols_on_one_port(front):
    """HTTP/1.1 and HTTP/2 next to each other; the preface may come in pieces; an h2c Upgrade is ignored."""
    g, b = front
    with Connection(g.port) as two, g.client() as one:
        for _ in range(3):
            assert two.chat().status == 200
            r = one.call(body=chat())
            assert r.status == 200 and r.version == "HTTP/1.1"
    with Raw(g.port, preface=b"") as raw:
        raw.write_slowly(PREFACE + settings())
        assert raw.request(body=chat()).response().status == 200
    with g.client() as one:
        upgrade = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")]
        r = one.call(body=chat(), headers=upgrade)
        assert r.status == 200 and r.version == "HTTP/1.1" and r.header("upgrade") is None
        assert one.call(body=chat()).status == 200, "the connection goes on as it was"
    with g.client() as one:
        one.send(b"P")
        one.send(request_bytes(body=chat())[1:])
        assert one.response().status == 200, "a P alone may yet become POST"


WRONG_PREFACES = {
    "sm": b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    "cut": b"PRI * HTTP/2.0\r\n\r\n" + request_bytes(body=chat()),
    "path": b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version": b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n",
    "method": b"PRIX * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/2.0": b"POST /v1/chat/completions HTTP/2.0\r\nHost: x\r\n\r\n",
}


def test_a_preface_that_goes_wrong(front):
    """What only looks like it is a bad HTTP/1.1 request; what follows it and is no SETTINGS, a broken connection."""
    g, b = front
    for name, octets in WRONG_PREFACES.items():
        with g.client(timeout=10) as client:
            client.send(octets)
            r = client.response()
            assert r.status in (400, 505), (name, r.status)
            assert client.closed_within(5), name
    for octets in (PREFACE + frame(PRIORITY, 0, 1, bytes(5)), PREFACE + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        with Raw(g.port, preface=octets) as raw:
            assert raw.closed_within(5)
            assert raw.goaways and raw.goaways[0].code != NO_ERROR
    assert b.requests == [] and g.chat().status == 200


def test_the_admin_over_http_2(front):
    """Its pages and orders are the same over HTTP/2, and an order of a page of another site is refused all the same."""
    g, _ = front
    with Connection(g.admin) as client:
        assert client.call("GET", "/healthz", authority=f"127.0.0.1:{g.admin}").status == 200
        metrics = client.call("GET", "/metrics", authority=f"127.0.0.1:{g.admin}")
        assert parse_metrics(metrics.body.decode())[("wakegate_held_requests", frozenset({("model", "m")}))] == 0
        assert client.call("POST", "/models/m/wake", body={}, headers=[("origin", "http://evil.example")]).status == 403
        assert client.call("POST", "/models/m/wake", body={}).status == 202
        assert client.call("POST", "/v1/chat/completions", body=chat()).status == 404
        assert client.goaways == []


BREAKING = {
    "data-on-stream-0": lambda raw: data(0, b"x"),
    "headers-on-stream-0": lambda raw: raw.headers(0, fields(), end=True),
    "data-on-an-idle-stream": lambda raw: data(9, b"x"),
    "even-stream": lambda raw: raw.headers(2, fields(), end=True),
    "settings-with-a-stream": lambda raw: frame(SETTINGS, 0, 1),
    "settings-of-5-bytes": lambda raw: frame(SETTINGS, payload=bytes(5)),
    "frame-too-large": lambda raw: data(1, bytes(16385)),
    "continuation-alone": lambda raw: frame(CONTINUATION, END_HEADERS, 1),
    "frame-inside-a-block": lambda raw: frame(HEADERS, 0, 1, raw.block(fields())) + data(1, b"x"),
    "bad-hpack": lambda raw: frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
    "window-overflow": lambda raw: frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "padding-too-long": lambda raw: raw.headers(1, fields()) + frame(DATA, PADDED, 1, b"\xff\0"),
    "push-promise": lambda raw: frame(5, END_HEADERS, 1, bytes(4)),
    "rst-of-an-idle-stream": lambda raw: frame(RST_STREAM, 0, 9, bytes(4)),
}


def test_connection_errors_end_the_connection(front):
    """Each is answered with GOAWAY and an end, in time, and the model sees nothing."""
    g, b = front
    wrong = []
    for name, make in BREAKING.items():
        with Raw(g.port) as raw:
            raw.write(make(raw))
            if not raw.closed_within(5) or not any(go.code for go in raw.goaways):
                wrong.append((name, raw.closed, raw.goaways))
    assert wrong == []
    assert b.requests == [] and g.chat().status == 200


# ---- clocks ----

CLOCKS = {"headerTimeout": "1s", "bodyIdleTimeout": "1s", "idleTimeout": "2s", "writeIdleTimeout": "2s"}


def test_slow_clients_meet_their_clocks(gate, backend):
    """A header block without end is closed at headerTimeout, a body that stalls is 408 at bodyIdleTimeout on its stream
    alone, an idle connection gets GOAWAY at idleTimeout, SETTINGS that nobody acknowledges end it."""
    g = gate([static_model("m", [backend()])], limits=CLOCKS)
    g.warm()
    with Raw(g.port) as head, Raw(g.port) as body, Raw(g.port) as idle, Raw(g.port, ack=False) as deaf:
        began = time.monotonic()
        head.write(frame(HEADERS, 0, 1, head.block(fields())))
        stalled = body.next_id()
        body.write(body.headers(stalled, fields(length(len(BODY)))) + data(stalled, BODY[:9]))
        r = body.streams[stalled].wait(lambda s: s.done, 10, "408")
        assert (r.status, r.code) == (408, "request_timeout")
        assert 0.9 < r.ended - began < 2 * proc.SLOW
        assert body.request(body=chat()).response().status == 200, "the connection is good"
        assert head.closed_within(5) and 0.9 < time.monotonic() - began < 3 * proc.SLOW
        assert deaf.closed_within(5)
        assert [go.code for go in deaf.goaways] == [SETTINGS_TIMEOUT]
        goaway = idle.wait(lambda: idle.goaways and idle.goaways[0], 10, "GOAWAY")
        assert goaway.code == NO_ERROR and goaway.time - began > 1.9
        assert idle.closed_within(5)


def test_a_slow_but_steady_body_is_read(gate, sim):
    """2 kB/s for longer than bodyIdleTimeout is no stall."""
    g = gate([static_model("m", [sim()])], limits={"bodyIdleTimeout": "1s", "headerTimeout": "1s"})
    body = json.dumps(chat(text="y" * 3000)).encode()
    with Connection(g.port) as client:
        r = client.request(headers=[length(len(body))], end=False)
        for i in range(0, len(body), 200):
            client.send_data(r, body[i : i + 200], end=i + 200 >= len(body))
            time.sleep(0.1)
        assert r.response().status == 200


def test_hold_time_is_not_slowness(gate):
    """A hold longer than every client-side clock is no fault of the client, and its connection is not idle."""
    limits = {"headerTimeout": "1s", "bodyIdleTimeout": "1s", "writeIdleTimeout": "1s", "idleTimeout": "1s"}
    g = gate([process_model("m", sim={"load": 3})], limits=limits)
    with Connection(g.port) as client:
        assert client.chat().status == 200
        assert client.goaways == []


# ---- early answers ----

EARLY = {
    "401": ([], 401),
    "413": ([("authorization", "Bearer k"), length(33 << 20)], 413),
    "404": ([("authorization", "Bearer k")], 404),
}


@pytest.mark.parametrize("case", EARLY)
def test_an_early_answer_ends_its_stream_and_no_more(gate, case):
    """A refusal while 8 MiB are on their way: the answer with END_STREAM, DATA taken in for up to a second, then
    RST_STREAM(NO_ERROR); the connection is good, and nothing was woken."""
    headers, status = EARLY[case]
    g = gate([process_model("m", sim={"load": 600})], **KEY)
    target = "/nothing" if status == 404 else "/v1/chat/completions"
    with Connection(g.port) as client:
        r = client.request("POST", target, headers=headers, end=False)
        client.send_data(r, bytes(8 << 20), end=False)
        r.wait(lambda s: s.done, 10, "the answer")
        assert r.status == status and r.json()["error"]["code"]
        sent = r.sent
        models = client.request("GET", "/v1/models", headers=[("authorization", "Bearer k")])
        assert models.response().status == 200, "meanwhile"
        r.wait(lambda s: s.reset is not None or s.uploaded, 5 * proc.SLOW, "the end of the request")
        assert r.sent > sent or r.uploaded, "what is on its way is taken in"
        if r.reset is None:
            r.wait(lambda s: s.reset is not None, 3 * proc.SLOW, "the reset of what never ends")
        assert r.reset == NO_ERROR
        assert r.reset_at - r.ended < 1 + proc.SLOW
        client.ping()
        assert client.call("GET", "/v1/models", headers=[("authorization", "Bearer k")]).status == 200
        assert client.goaways == []
    assert g.state() == "cold" and g.held() == 0


def test_an_early_answer_to_an_upload_that_ends_needs_no_reset(gate):
    """The body comes to its end within the second: there is nothing to reset."""
    g = gate([process_model("m", sim={"load": 600})], **KEY)
    with Connection(g.port) as client:
        for _ in range(5):
            r = client.request(body=bytes(1 << 20))
            r.wait(lambda s: s.done and s.uploaded, 10, "the answer, and the whole upload")
            assert r.status == 401
        client.ping()
        assert all(s.reset is None for s in client.streams.values())
        assert client.goaways == []


def test_a_body_without_length_over_the_limit_is_413(gate):
    """33 MiB without a length: refused as soon as the limit is passed, on its stream alone."""
    g = gate([process_model("m", sim={"load": 600}, maxBodyBytes="1Mi")])
    with Connection(g.port) as client:
        r = client.request(body=b'{"model":"m"' + b" " * (3 << 20), length=False, end=False)
        r.wait(lambda s: s.done, 20, "the refusal")
        assert (r.status, r.code) == (413, "body_too_large")
        assert client.call("GET", "/v1/models").status == 200
    assert g.metric("wakegate_held_bytes", model="m") == 0


def test_settings_are_told(gate, sim):
    """What the contract and RFC 9113 want told at the start."""
    g = gate([static_model("m", [sim()])], limits={"maxStreams": 32})
    with Connection(g.port) as client:
        client.wait(lambda: MAX_CONCURRENT_STREAMS in client.settings, 5, "SETTINGS")
        client.ping()
        assert client.settings[MAX_CONCURRENT_STREAMS] == 32
        assert client.frames[0].type == SETTINGS


def test_many_requests_on_one_connection(gate, sim):
    """1,000 requests, 50 at a time, on one connection: each has its own answer."""
    server = sim()
    g = gate([static_model("m", [server], concurrency={"perEndpoint": 64, "rampStart": 64})])
    with Connection(g.port) as client:
        for i in range(0, 1000, 50):
            streams = [client.request(body=chat(text=f"n{k}")) for k in range(i, i + 50)]
            assert [s.response().status for s in streams] == [200] * 50
        assert client.goaways == []
    assert sorted(r["prompt"] for r in server.requests(prompts_only=True)) == sorted(f"n{k}" for k in range(1000))
