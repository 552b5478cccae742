"""Streams: byte for byte, at once, and broken where the model's was (field cases, area G)."""

import socket
import threading
import time

import pytest

from harness import proc
from harness.backend import GOOD, SSE_HEAD, answer, chunk
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import chat, head_of, request_bytes

EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % i for i in range(3)]


def cut_chunked(peer, reset):
    peer.send(SSE_HEAD + b"".join(chunk(e) for e in EVENTS))
    time.sleep(0.05)
    if reset:
        peer.rst()
    return False


def cut_length(peer, _):
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(GOOD) + 10) + GOOD)
    time.sleep(0.05)
    return False


@pytest.mark.parametrize("case", ["rst", "fin", "short"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_str_01_a_broken_stream_looks_broken(gate, backend, case, version):
    """STR-01 (a, b, c): the client sees its connection end without the end of the message; HTTP/1.0 a reset."""

    def handle(peer, request):
        if request.json()["messages"][0]["content"] != "break":
            return peer.send(answer())
        return cut_length(peer, None) if case == "short" else cut_chunked(peer, case == "rst")

    g = gate([static_model("m", [backend(handle)])])
    g.warm()
    with g.client() as client:
        data = request_bytes(body=chat(text="break", stream=case != "short"))
        client.send(data.replace(b"HTTP/1.1", version.encode(), 1))
        r = client.response()
        assert r.status == 200
        assert b"".join(EVENTS) in r.body or GOOD in r.body
        if version == "HTTP/1.0":
            assert client.reset, "close-delimited: only a reset tells that it is cut"
        else:
            assert r.broken and not r.done
    assert g.outcome("upstream_error") == 1


def test_str_01_a_whole_stream_that_ends_in_a_close_is_whole(gate, backend):
    """STR-01 (f): 2 MiB and the end, then the backend closes at once: every byte arrives, 60 runs."""
    big = b"data: " + b"x" * (1 << 20) + b"\n\n"

    def handle(peer, request):
        if request.json()["messages"][0]["content"] == "chunked":
            peer.send(SSE_HEAD + chunk(big) + chunk(big) + b"0\r\n\r\n")
        elif request.json()["messages"][0]["content"] == "close":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + big + big)
        else:
            peer.send(answer(big + big, headers=[("Connection", "close")]))
        return False

    g = gate([static_model("m", [backend(handle)])])
    for kind in ("chunked", "close", "length"):
        for _ in range(20):
            r = g.chat(text=kind)
            assert r.status == 200 and r.done and r.body == big + big


ENDINGS = {
    "lf": b"\n\n",
    "cr": b"\r\r",
    "crlf": b"\r\n\r\n",
    "mixed": b"\r\n\n",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_str_02_bytes_pass_unchanged_and_at_once(gate, backend, ending):
    """STR-02: an event each 100 ms with every kind of line end, comments, multi-line data: the client has the very
    bytes, each within 20 ms."""
    end = ENDINGS[ending]
    one = end[: len(end) // 2]
    events = [
        b": a comment" + end,
        b"data: first" + one + b"data: second line" + end,
        b"event: x" + one + b"id: 7" + one + b'data: {"a":"\xf0\x9f\x98\x80"}' + end,
        b"retry: 10" + end,
        b"data: [DONE]" + end,
    ]
    sent = []

    def handle(peer, request):
        if request.json()["messages"][0]["content"] == "warm up":
            return peer.send(answer())
        peer.send(SSE_HEAD)
        for event in events:
            time.sleep(0.1)
            sent.append(time.monotonic())
            peer.send(chunk(event))
        peer.send(b"0\r\n\r\n")
        return True

    g = gate([static_model("m", [backend(handle)])])
    g.warm()
    r = g.chat(stream=True)
    assert r.done and r.body == b"".join(events)
    position, late = 0, []
    for event, at in zip(events, sent):
        position += len(event)
        seen = 0
        for when, piece in r.pieces:
            seen += len(piece)
            if seen >= position:
                late.append(when - at)
                break
    assert sorted(late)[len(late) // 2] < 0.02 * proc.SLOW, late
    assert max(late) < 0.06 * proc.SLOW, late


def test_str_02_one_byte_per_segment(gate, backend):
    """STR-02: a whole answer, head and chunks included, byte by byte, an emoji split in the middle."""
    text = 'data: {"x":"\U0001f600 \u00fc"}\n\ndata: [DONE]\n\n'.encode()

    def handle(peer, request):
        if request.json()["messages"][0]["content"] == "warm up":
            return peer.send(answer())
        whole = SSE_HEAD + b"".join(chunk(text[i : i + 1]) for i in range(len(text))) + b"0\r\n\r\n"
        for i in range(len(whole)):
            peer.send(whole[i : i + 1])
            if i % 16 == 0:
                time.sleep(0.001)
        return True

    g = gate([static_model("m", [backend(handle)])])
    g.warm()
    r = g.chat(stream=True)
    assert r.done and r.body == text


def test_str_02_a_request_body_arrives_unchanged(gate, sim):
    """Odd spacing, unknown keys, escapes: the model gets the bytes that were sent, chunked or not."""
    body = b'{ "model" : "m",\t"x-unknown":[1e3, null,{"a":"\\u00e9\\ud83d\\ude00"}], "messages":[{"role":"user","content":"hello"}] }\n'
    from hashlib import sha256

    server = sim()
    g = gate([static_model("m", [server])])
    for chunked in (False, True):
        assert g.call(body=body, chunked=chunked).status == 200
    assert [r["sha256"] for r in server.requests(prompts_only=True)] == [sha256(body).hexdigest()] * 2


class Hop:
    """A relay that cuts a connection on which no byte came from behind for `silence` seconds."""

    def __init__(self, port, silence):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.target, self.silence = port, silence
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self._forth, args=(near, far), daemon=True).start()
            threading.Thread(target=self._back, args=(near, far), daemon=True).start()

    @staticmethod
    def _forth(near, far):
        try:
            while data := near.recv(65536):
                far.sendall(data)
        except OSError:
            pass

    def _back(self, near, far):
        far.settimeout(self.silence)
        try:
            while data := far.recv(65536):
                near.sendall(data)
        except OSError:
            pass
        near.close()
        far.close()


HEARTBEAT = {"hold": {"heartbeat": {"after": "1s", "every": "500ms"}, "timeout": "30s", "silentTimeout": "30s"}}


def test_str_04_a_heartbeat_keeps_a_hold_alive(gate):
    """STR-04: a hop cuts after 1.5 s of silence, the model is ready after 5 s: comments carry the stream over."""
    from harness.http1 import Client

    g = gate([process_model("m", sim={"load": 5}, **HEARTBEAT)])
    hop = Hop(g.port, 1.5)
    with Client(hop.port) as client:
        r = client.call(body=chat(stream=True, stream_options={"include_usage": True}))
    assert r.status == 200 and r.done
    assert r.header("content-type").startswith("text/event-stream")
    assert r.header("x-accel-buffering") == "no"
    assert 6 <= len(r.comments()) <= 10
    assert set(r.comments()) == {b": keepalive"}
    assert r.body.startswith(b": keepalive\n")
    assert b": keepalive\n\n" not in r.body, "a single newline: no empty event"
    assert r.text().startswith("the model was asleep")
    assert r.chunks()[-1]["usage"]["completion_tokens"] == 16
    assert r.events()[-1] == "[DONE]"
    g.wait_inflight(0)


def test_str_04_no_heartbeat_where_none_is_due(gate):
    """Without stream, or held for less than `after`: a plain answer, no comment."""
    g = gate([process_model("m", sim={"load": 2}, **HEARTBEAT)])
    streamed = Background(g.chat, stream=False)
    assert streamed.result().header("content-type") == "application/json"
    r = g.chat(stream=True)
    assert r.comments() == []


def test_str_04_a_late_failure_is_visible(gate):
    """STR-04: after the first comment a failed wake is one error event and no [DONE]; without heartbeat a 503."""
    broken = {"target": {"process": {"command": ["sh", "-c", "sleep 2.5; exit 9 # {port}"]}}}
    g = gate([process_model("m", **broken, **HEARTBEAT)])
    plain = Background(g.chat, stream=False)
    r = g.chat(stream=True)
    assert r.status == 200
    (event,) = r.events()
    error = proc.json.loads(event)["error"]
    assert error["code"] == "model_wake_failed" and "9" in error["message"]
    assert plain.result().status == 503
    assert g.outcome("model_wake_failed") == 2
    assert g.outcome("ok") == 0


def test_str_04_an_upstream_refusal_after_the_heartbeat_is_an_error_event(gate, sim):
    """The status is out: the model's own 400 becomes one error event, and no [DONE]."""
    server = sim(load=2.5, fault="status:400", fault_after=1)
    g = gate([static_model("m", [server], **HEARTBEAT)])
    r = g.chat(stream=True)
    assert r.status == 200
    (event,) = r.events()
    assert "refused on order" in proc.json.loads(event)["error"]["message"]


def test_str_04_an_answer_without_end_after_the_heartbeat_is_an_error_event(gate, backend):
    """What is no event stream is cut where it is enough for the message, not waited for; the model stops working."""
    ended = []

    def endless(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nno stream at all ")
        while peer.send(b"and on and on " * 100):
            pass
        ended.append(True)

    ready_at = time.monotonic() + 2.5
    b = backend(endless, probe_answer=lambda peer, _: peer.send(answer()) if time.monotonic() > ready_at else False)
    g = gate([static_model("m", [b], **HEARTBEAT)])
    r = g.chat(stream=True)
    (event,) = r.events()
    assert "no stream at all" in proc.json.loads(event)["error"]["message"]
    proc.wait_for(lambda: ended, 5, "the connection to the model is closed")
    g.wait_inflight(0)


def test_str_04_a_request_that_comes_back_to_the_hold_gets_a_heartbeat_too(gate, backend):
    """It was forwarded to a warm model whose server is gone: what it waits for now may be a whole cold start."""
    b = backend()
    g = gate([static_model("m", [b], **HEARTBEAT)])
    g.warm()
    b.stop()
    r = g.chat(stream=True)
    assert r.status == 200 and len(r.comments()) >= 2
    (event,) = r.events()
    assert proc.json.loads(event)["error"]["code"] == "upstream_error"


def test_str_04_nothing_encoded_follows_a_heartbeat(gate, backend):
    """The head that went out names no encoding: none is asked for, and one that comes all the same is an error event."""
    ready_at = time.monotonic() + 2.5
    gzip = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"
    b = backend(lambda peer, _: peer.send(gzip),
                probe_answer=lambda peer, _: peer.send(answer()) if time.monotonic() > ready_at else False)
    g = gate([static_model("m", [b], **HEARTBEAT)])
    r = g.chat(stream=True, headers=[("Accept-Encoding", "gzip")])
    (event,) = r.events()
    assert proc.json.loads(event)["error"]["code"] == "upstream_error"
    assert b"\x1f\x8b" not in r.body
    assert b.requests[-1].header("accept-encoding") is None
    g.wait_inflight(0)
    plain = g.chat(headers=[("Accept-Encoding", "gzip")])
    assert plain.body == b"\x1f\x8b\x08" and b.requests[-1].header("accept-encoding") == "gzip"


def test_str_04_the_heartbeat_of_messages_is_a_ping(gate, sim):
    """/v1/messages: the native ping event, and errors in Anthropic's shape."""
    server = sim(load=600)
    hold = {"hold": {"heartbeat": {"after": "500ms", "every": "300ms"}, "timeout": "2s"}}
    g = gate([static_model("m", [server], **hold)])
    body = {"model": "m", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": "hi there"}]}
    r = g.call("POST", "/v1/messages", body)
    assert r.status == 200
    assert b'event: ping\ndata: {"type": "ping"}' in r.body or b'event: ping\ndata: {"type":"ping"}' in r.body
    last = proc.json.loads(r.events()[-1])
    assert last["type"] == "error" and last["error"]["message"]


def test_str_04_no_heartbeat_before_admission(gate):
    """401, 404 and 400 keep their status with stream: true."""
    tenants = [{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}]
    g = gate([process_model("m", sim={"load": 600}, hold={"heartbeat": {"after": "100ms", "every": "100ms"}})], tenants=tenants)
    key = [("Authorization", "Bearer k")]
    assert g.chat(stream=True).status == 401
    assert g.chat("nobody", headers=key, stream=True).status == 404
    assert g.call(body=b'{"model":"m","stream":true', headers=key).status == 400


def test_str_06_slow_readers_push_back(gate, sim):
    """STR-06: 25 clients that never read, 200 MB offered to each: memory stays flat, others are served as before,
    the write timeout ends them."""
    server = sim(chunk_bytes=1024, tokens=200000, keep_alive=60)
    model = static_model("m", [server], concurrency={"perEndpoint": 64, "rampStart": 64})
    g = gate([model], limits={"writeIdleTimeout": "4s"})
    g.chat(max_tokens=1)
    rss = g.process.rss()
    clients = []
    for i in range(25):
        client = g.client(receive_buffer=16384)
        clients.append(client.send(request_bytes(body=chat(text=f"slow{i}", stream=True))))
    proc.wait_for(lambda: server.stats()["concurrent"] == 25, 10, "all run")
    time.sleep(1)
    assert g.process.rss() - rss < 100 * (1 << 20)
    began = time.monotonic()
    assert g.chat(text="quick", max_tokens=1).status == 200
    assert time.monotonic() - began < 1 * proc.SLOW
    proc.wait_for(lambda: server.stats()["concurrent"] == 0, 15, "the write timeout ends them")
    g.wait_inflight(0)
    sent = [r["tokens"] * 1024 for r in server.requests() if r["prompt"].startswith("slow")]
    assert max(sent) < 16 << 20, "no more than the sockets' buffers"
    for client in clients:
        client.close()


def test_a_response_of_every_kind_is_framed_right(gate, backend):
    """HEAD, 204, 304, interim answers, trailers: the connection stays in step and is used again."""
    answers = {
        "204": b"HTTP/1.1 204 No Content\r\nX-Kind: a\r\n\r\n",
        "304": b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
        "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(b"{}"),
        "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2;ext=1\r\n{}\r\n0\r\nX-Sum: 5\r\n\r\n",
    }

    def handle(peer, request):
        return peer.send(answers.get(request.json()["messages"][0]["content"], answer()))

    b = backend(handle)
    g = gate([static_model("m", [b])])
    with g.client() as client:
        for kind, status in (("204", 204), ("304", 304), ("interim", 200), ("plain", 200), ("trailers", 200)):
            r = client.call(body=chat(text=kind))
            assert r.done and r.status == status, kind
            if kind == "trailers":
                assert r.body == b"{}"
    assert len({q.connection for q in b.requests}) == 1


def test_http_1_0_is_served(gate, sim):
    """nginx's default towards its backends: close-delimited, no chunks, no 1xx."""
    g = gate([static_model("m", [sim()])])
    body = proc.json.dumps(chat(stream=True)).encode()
    with g.client() as client:
        client.send(head_of("POST", "/v1/chat/completions", [("Content-Length", str(len(body)))], "HTTP/1.0") + body)
        r = client.response()
    assert r.status == 200 and r.done and r.framing == "close" and r.interim == []
    assert r.events()[-1] == "[DONE]"
