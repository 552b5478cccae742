"""Holding, streaming and ending over HTTP/2: hundreds of requests share a connection, and none touches another (field
cases, areas A, B, D, G, H, L)."""

import json
import signal
import threading
import time

import pytest

from harness import proc
from harness.backend import GOOD, SSE_HEAD, answer, chunk
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import chat
from harness.http2 import (
    ACK, GOAWAY, MAX_CONCURRENT_STREAMS, NO_ERROR, PING, PREFACE, REFUSED_STREAM, Connection, Raw, rst, settings, window_update,
)
from harness.sim import Sim

MIB = 1 << 20
WIDE = {"concurrency": {"perEndpoint": 256, "rampStart": 256}}


# ---- one connection, many requests ----


def test_h2_01_held_uploads_starve_nobody(gate, sim, backend):
    """H2-01: 20 uploads of 1 MiB to a cold model, and on the same connection a small POST to a warm one, a PING and a
    download of 10 MB: all go through while the uploads are held, which are whole in the end."""
    big = b"data: " + b"x" * (10 * 1000 * 1000) + b"\n\n"
    b = backend(lambda peer, request: peer.send(answer(big if b"big" in request.body else GOOD)))
    cold = sim(load=600)
    g = gate([static_model("cold", [cold], **WIDE), static_model("warm", [b])])
    g.warm("warm")
    with Connection(g.port) as client, Connection(g.port) as other:
        uploads = [client.request(body=chat("cold", f"{i:02} " + "u" * MIB)) for i in range(20)]
        small, download = client.request(body=chat("warm")), client.request(body=chat("warm", "big"))
        client.ping()
        assert small.response().status == 200
        assert download.response().body == big
        client.wait(lambda: all(s.uploaded for s in uploads), 30, "the uploads are complete")
        g.wait_held(20, "cold")
        assert g.metric("wakegate_held_bytes", model="cold") >= 20 * MIB
        assert client.ping() < 0.2 * proc.SLOW
        began = time.monotonic()
        assert client.chat("warm").status == 200
        assert time.monotonic() - began < 0.2 * proc.SLOW
        began = time.monotonic()
        assert other.chat("warm", "big").status == 200
        alone, began = time.monotonic() - began, time.monotonic()
        assert client.chat("warm", "big").body == big
        assert time.monotonic() - began < 3 * alone + 0.5, "the download goes at the speed of a connection of its own"
        assert not any(s.over for s in uploads)
        cold.config(load=0)
        assert [s.response().status for s in uploads] == [200] * 20
        assert client.goaways == [] and other.goaways == []
    sizes = {q["prompt"][:2]: q["body_size"] for q in cold.requests(prompts_only=True) if q["status"] == 200}
    assert len(sizes) == 20 and min(sizes.values()) > MIB


def test_h2_01_excess_streams_are_refused_and_the_rest_live_on(gate, sim):
    """H2-01: maxStreams held, five more: REFUSED_STREAM for those alone, at once; a place that is left is taken again."""
    server = sim(load=600)
    g = gate([static_model("m", [server], **WIDE)], limits={"maxStreams": 32})
    with Raw(g.port) as raw:
        raw.wait(lambda: MAX_CONCURRENT_STREAMS in raw.settings, 5, "SETTINGS")
        assert raw.settings[MAX_CONCURRENT_STREAMS] == 32
        held = [raw.request(body=chat(text=f"h{i}")) for i in range(32)]
        g.wait_held(32)
        excess = [raw.request(body=chat(text="excess")) for _ in range(5)]
        assert [s.response(5).reset for s in excess] == [REFUSED_STREAM] * 5
        raw.ping()
        raw.write(rst(held.pop().id))
        g.wait_held(31)
        held.append(raw.request(body=chat(text="late")))
        g.wait_held(32)
        assert raw.goaways == []
        server.config(load=0)
        assert [s.response().status for s in held] == [200] * 32
    assert "excess" not in [q["prompt"] for q in server.requests(prompts_only=True)]


def test_act_01_a_burst_over_10_connections_causes_one_wake(gate):
    """ACT-01 (b): 1,000 cold requests over 10 connections × 100 streams: one start, 1,000 × 200, each prompt once."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load": 2}, concurrency={"perEndpoint": 64, "rampStart": 16})])
    clients = [Connection(g.port) for _ in range(10)]
    streams = [c.request(body=chat(text=f"n{i}-{k}")) for i, c in enumerate(clients) for k in range(100)]
    assert [s.response(90).status for s in streams] == [200] * 1000
    assert all(c.goaways == [] for c in clients)
    for client in clients:
        client.close()
    prompts = [r["prompt"] for r in Sim(port).requests(prompts_only=True)]
    assert sorted(prompts) == sorted(f"n{i}-{k}" for i in range(10) for k in range(100))
    assert Sim(port).stats()["max_concurrent"] <= 64
    assert g.wakes("ok") == 1
    assert len(proc.re.findall(r" model m: waking", g.process.log())) == 1


@pytest.mark.parametrize("how", ["rst", "close", "tcp-rst"])
def test_hold_01_who_leaves_leaves_nothing(gate, sim, how):
    """HOLD-01: 100 held on one connection, each with 64 KiB: half of them reset, then the connection is gone: their places
    and bodies are free at once."""
    server = sim(load=600)
    g = gate([static_model("m", [server])])
    client = Connection(g.port)
    streams = [client.request(body=chat(text="x" * 65536)) for _ in range(100)]
    g.wait_held(100)
    whole = g.metric("wakegate_held_bytes", model="m")
    assert whole >= 100 * 65536
    for stream in streams[::2]:
        client.cancel(stream)
    g.wait_held(50)
    assert g.metric("wakegate_held_bytes", model="m") == whole / 2
    client.ping()
    assert client.goaways == [], "a client may change its mind"
    if how == "rst":
        for stream in streams[1::2]:
            client.cancel(stream)
    elif how == "close":
        client.close()
    else:
        client.rst()
    g.wait_held(0)
    assert g.metric("wakegate_held_bytes", model="m") == 0
    assert g.outcome("client_closed") == 100
    client.close()
    live = Background(g.chat, text="alive")
    g.wait_held(1)
    server.config(load=0)
    assert live.result().status == 200
    assert [r["prompt"] for r in server.requests(prompts_only=True) if r["status"] == 200] == ["alive"]


def test_leaving_in_the_middle_of_an_upload(gate, sim):
    """Reset while the body is under way: what was reserved for it at the head is free for others."""
    g = gate([static_model("m", [sim(load=600)])], limits={"maxHeldBytes": "24Mi"})
    declared = [("content-length", str(MIB))]
    with Connection(g.port) as client:
        streams = [client.request(headers=declared, end=False) for _ in range(20)]
        for stream in streams:
            client.send_data(stream, b'{"model":"m","x":"' + b"x" * (MIB // 2))
        client.wait(lambda: all(s.sent > MIB // 2 for s in streams), 20, "half of each is sent")
        more = {"headers": [("content-length", str(10 * MIB))], "end": False}
        refused = client.request(**more).wait(lambda s: s.done, 5, "the refusal")
        assert (refused.status, refused.code) == (503, "hold_full")
        for stream in streams:
            client.cancel(stream)
        accepted = client.request(**more)
        client.send_data(accepted, json.dumps(chat()).encode().ljust(10 * MIB), end=True)
        g.wait_held(1)
        assert not accepted.over


def test_heads_that_cost_their_client_nothing_are_counted(gate, sim):
    """Fields named by the table of HPACK: a head of 60 KB is some twenty bytes on the wire, and kept while its body is not
    complete. It counts like the body, and what does not fit is refused; all of it is given back."""
    g = gate([static_model("m", [sim(load=600)])], limits={"maxHeldBytes": "1Mi"})
    with Raw(g.port) as client:
        headers = [("content-length", "100")] + 15 * [("x-b", "v" * 3900)]
        streams = [client.request(body=b"{", headers=headers, length=False, end=False) for _ in range(60)]
        client.wait(lambda: sum(s.done for s in streams) >= 40, 10, "refusals")
        refused = [s for s in streams if s.done]
        assert {(s.status, s.code) for s in refused} == {(503, "hold_full")}
        assert "maxHeldBytes" in refused[0].response().json()["error"]["message"]
        assert 0 < g.metric("wakegate_buffered_bytes") <= MIB
    proc.wait_for(lambda: g.metric("wakegate_buffered_bytes") == 0, 10, "all is given back")


def test_drain_03_one_reset_ends_one_request_at_the_model(gate, backend):
    """DRAIN-03 (c): RST_STREAM of one of five that run: the model sees its connection closed within a second, the others
    go on."""
    go, gone = threading.Event(), {}

    def handle(peer, request):
        text = request.json()["messages"][0]["content"]
        if text == "s2":
            gone[text] = peer.wait_end(10) and time.monotonic()
            return False
        if text != "warm up":
            assert go.wait(30)
        return peer.send(answer())

    b = backend(handle)
    g = gate([static_model("m", [b])])
    g.warm()
    with Connection(g.port) as client:
        streams = [client.request(body=chat(text=f"s{i}")) for i in range(5)]
        proc.wait_for(lambda: len(b.requests) == 6, 10, "all five run")
        cancelled = time.monotonic()
        client.cancel(streams[2])
        proc.wait_for(lambda: "s2" in gone, 10, "the model sees the end")
        assert gone["s2"] and gone["s2"] - cancelled < 1
        go.set()
        assert [s.response().status for i, s in enumerate(streams) if i != 2] == [200] * 4
        assert client.goaways == []
    g.wait_inflight(0)


# ---- streams ----

EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % i for i in range(3)]


@pytest.mark.parametrize("case", ["rst", "fin", "short", "bad chunk"])
def test_str_01_a_broken_answer_is_a_reset_stream(gate, backend, case):
    """STR-01 (e): all bytes before the break are delivered, then RST_STREAM, never END_STREAM; the siblings and the
    connection live on."""

    def handle(peer, request):
        if request.json()["messages"][0]["content"] != "break":
            return peer.send(answer())
        if case == "short":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(GOOD) + 9) + GOOD)
        else:
            peer.send(SSE_HEAD + b"".join(chunk(e) for e in EVENTS))
        time.sleep(0.05)
        if case == "bad chunk":
            return peer.send(b"xyz\r\n")
        if case == "rst":
            peer.rst()
        return False

    g = gate([static_model("m", [backend(handle)])])
    g.warm()
    with Connection(g.port) as client:
        broken = client.request(body=chat(text="break", stream=True))
        sibling = client.request(body=chat())
        broken.response()
        assert broken.status == 200 and not broken.done and broken.reset not in (None, NO_ERROR)
        assert broken.body == (GOOD if case == "short" else b"".join(EVENTS))
        assert sibling.response().status == 200 and client.chat().status == 200
        assert client.goaways == []
    assert g.outcome("upstream_error") == 1


def test_str_02_bytes_pass_unchanged_and_at_once(gate, backend):
    """STR-02: an event each 50 ms on two streams of a connection: the very bytes, each within 20 ms, each in a DATA frame
    of its own."""
    events = [b": a comment\r\r", b"data: first\ndata: second\r\n\n", b'data: {"a":"\xf0\x9f\x98\x80"}\n\n', b"data: [DONE]\n\n"]
    sent = {}

    def handle(peer, request):
        text = request.json()["messages"][0]["content"]
        if text == "warm up":
            return peer.send(answer())
        peer.send(SSE_HEAD)
        for event in events:
            time.sleep(0.05)
            sent.setdefault(text, []).append(time.monotonic())
            peer.send(chunk(event))
        return peer.send(b"0\r\n\r\n")

    g = gate([static_model("m", [backend(handle)])])
    g.warm()
    late = []
    with Connection(g.port) as client:
        for stream in [client.request(body=chat(text=f"s{i}", stream=True)) for i in range(2)]:
            stream.response()
            assert stream.done and [piece for _, piece in stream.pieces] == events
            late += [when - at for (when, _), at in zip(stream.pieces, sent[f"s{(stream.id - 1) // 2}"])]
    assert sorted(late)[len(late) // 2] < 0.02 * proc.SLOW, late
    assert max(late) < 0.06 * proc.SLOW, late


def test_str_01_a_whole_answer_that_ends_in_a_close_is_whole(gate, backend):
    """STR-01 (f): 2 MiB, and the backend closes at once: every byte and END_STREAM."""
    big = b"data: " + b"x" * (2 * MIB) + b"\n\n"

    def handle(peer, request):
        chunked = b"chunked" in request.body
        peer.send(SSE_HEAD + chunk(big) + b"0\r\n\r\n" if chunked else answer(big, headers=[("Connection", "close")]))
        return False

    g = gate([static_model("m", [backend(handle)])])
    with Connection(g.port) as client:
        for kind in ("chunked", "length") * 5:
            r = client.chat(text=kind)
            assert r.done and r.body == big


HEARTBEAT = {"hold": {"heartbeat": {"after": "500ms", "every": "300ms"}, "timeout": "30s", "silentTimeout": "30s"}}


def test_str_04_a_heartbeat_keeps_a_hold_alive(gate, sim):
    """STR-04: comments as DATA frames while held, then the stream; the plain sibling gets none, and a late failure is an
    error event with a regular end."""
    server = sim(load=2)
    failing = process_model("f", target={"process": {"command": ["sh", "-c", "sleep 2; exit 9 # {port}"]}}, **HEARTBEAT)
    g = gate([static_model("m", [server], **HEARTBEAT), failing])
    with Connection(g.port) as client:
        failed = client.request(body=chat("f", stream=True))
        streamed, plain = client.request(body=chat(stream=True)), client.request(body=chat())
        r = streamed.response()
        assert r.status == 200 and r.done and r.header("content-type").startswith("text/event-stream")
        assert len(r.comments()) >= 3 and set(r.comments()) == {b": keepalive"}
        assert r.text().startswith("the model was asleep") and r.events()[-1] == "[DONE]"
        assert plain.response().header("content-type") == "application/json"
        r = failed.response()
        assert r.status == 200 and r.done and r.reset is None
        (event,) = r.events()
        assert json.loads(event)["error"]["code"] == "model_wake_failed"


# ---- slow readers ----


@pytest.mark.parametrize(
    ("window", "of_connection"), [(65535, 16 * MIB), (0, 16 * MIB), (MIB, 65535)], ids=["never-opened", "zero", "connection"]
)
def test_str_06_windows_that_are_never_opened(gate, sim, window, of_connection):
    """STR-06: 25 streams over 5 connections that never open a window, 200 MB offered to each: no more than the windows
    and our own buffers are taken from the model, others are served as before, writeIdleTimeout ends them."""
    server = sim(chunk_bytes=1024, tokens=200000, keep_alive=60)
    model = static_model("m", [server], concurrency={"perEndpoint": 64, "rampStart": 64})
    g = gate([model], limits={"writeIdleTimeout": "2s"})
    g.chat(max_tokens=1)
    rss = g.process.rss()
    clients = [Connection(g.port, window, of_connection, credit=False) for _ in range(5)]
    streams = [c.request(body=chat(text="slow", stream=True)) for c in clients for _ in range(5)]
    proc.wait_for(lambda: server.stats()["concurrent"] == 25, 10, "all run")
    began = time.monotonic()
    with Connection(g.port) as other:
        assert other.chat(text="quick", max_tokens=1).status == 200
    assert time.monotonic() - began < 1 * proc.SLOW
    assert g.process.rss() - rss < 40 * MIB * proc.FAT
    assert clients[0].ping() < 1 * proc.SLOW, "the connection itself is alive"
    proc.wait_for(lambda: server.stats()["concurrent"] == 0, 10, "the write timeout ends them")
    for stream in streams:
        assert not stream.response(10).done, "broken, not ended"
        assert len(stream.body) <= min(window, of_connection)
    g.wait_inflight(0)
    sent = [r["tokens"] * 1024 for r in server.requests() if r["prompt"] == "slow"]
    assert max(sent) < 16 * MIB, "no more than the sockets' buffers"
    for client in clients:
        client.close()


def test_str_06_a_reader_that_does_not_read_its_socket(gate, sim):
    """Windows wide open, but the socket is not read: memory is bounded, writeIdleTimeout ends the connection."""
    server = sim(chunk_bytes=1024, tokens=200000, keep_alive=60)
    g = gate([static_model("m", [server], **WIDE)], limits={"writeIdleTimeout": "2s"})
    g.chat(max_tokens=1)
    rss = g.process.rss()
    with Connection(g.port, window=(1 << 30), connection_window=(1 << 30), receive_buffer=16384) as client:
        client.ping()
        client.read(False)
        for _ in range(25):
            client.request(body=chat(text="slow", stream=True))
        proc.wait_for(lambda: server.stats()["concurrent"] == 25, 10, "all run")
        assert g.process.rss() - rss < 40 * MIB * proc.FAT
        proc.wait_for(lambda: server.stats()["concurrent"] == 0, 10, "the write timeout ends them")
    g.wait_inflight(0)
    assert max(r["tokens"] * 1024 for r in server.requests() if r["prompt"] == "slow") < 16 * MIB


def test_str_06_shut_windows_stop_no_sibling(gate, backend):
    """25 streams whose windows stay shut for a while, which is more than a connection may have waiting: siblings get all of
    theirs, and they too, once they open."""
    big = b"data: " + b"x" * MIB + b"\n\n"
    g = gate([static_model("m", [backend(lambda peer, request: peer.send(answer(big)))], **WIDE)])
    g.warm()
    with Connection(g.port, window=65535) as client:
        shut = [client.request(body=chat(text="shut"), credit=False) for _ in range(25)]
        client.wait(lambda: all(len(s.body) == 65535 for s in shut), 10, "their windows are full")
        for _ in range(5):
            assert client.chat(text="sibling").body == big
        assert all(len(s.body) == 65535 and not s.over for s in shut)
        client.open_window(32 * MIB)
        for stream in shut:
            client.open_window(2 * MIB, stream)
        assert [s.response().body == big for s in shut] == [True] * 25
        assert client.goaways == []


def test_str_06_silence_of_the_model_is_not_a_slow_reader(gate, backend):
    """An SSE stream that says nothing for longer than writeIdleTimeout and idleTimeout goes on."""

    def handle(peer, request):
        if request.json()["messages"][0]["content"] == "warm up":
            return peer.send(answer())
        peer.send(SSE_HEAD + chunk(EVENTS[0]))
        time.sleep(2.5)
        return peer.send(chunk(EVENTS[1]) + b"0\r\n\r\n")

    g = gate([static_model("m", [backend(handle)])], limits={"writeIdleTimeout": "1s", "idleTimeout": "1s"})
    g.warm()
    with Connection(g.port, window=100) as client:
        r = client.chat(stream=True)
        assert r.done and r.body == EVENTS[0] + EVENTS[1]


# ---- the end ----


def test_shut_02_goaway_comes_in_two_steps(gate, sim):
    """SHUT-02: first GOAWAY 2^31−1; a stream opened 5 ms later is served; the second names it, a round trip later; PING and
    WINDOW_UPDATE are still answered; the connection ends with the last stream, and then Wakegate."""
    server = sim(tokens=40, tokens_per_second=10)
    g = gate([static_model("m", [server])], shutdown={"grace": "20s"})
    g.chat(max_tokens=1)
    with Raw(g.port, preface=PREFACE + settings(initial_window_size=1000)) as raw:
        streaming = raw.request(body=chat(stream=True))
        streaming.wait(lambda s: s.body, 10, "it runs")
        g.process.signal(signal.SIGTERM)
        first = raw.wait(lambda: raw.goaways and raw.goaways[0], 5, "the first GOAWAY")
        assert (first.last, first.code) == (2**31 - 1, NO_ERROR)
        time.sleep(0.005)
        late = raw.request(body=chat(text="late", max_tokens=1))
        second = raw.wait(lambda: len(raw.goaways) > 1 and raw.goaways[1], 10, "the second GOAWAY")
        assert (second.last, second.code) == (late.id, NO_ERROR)
        probe = [f for f in raw.frames if f.type == PING and not f.flags & ACK]
        kinds = [f.type for f in raw.frames]
        assert probe and kinds.index(GOAWAY) < raw.frames.index(probe[0]), "its answer tells that the notice was seen"
        assert probe[0].time < second.time
        assert raw.ping() < 1
        assert late.response().status == 200
        assert len(streaming.body) <= 1000 and not streaming.over
        raw.write(window_update(streaming.id, MIB))
        r = streaming.response()
        assert r.done and r.events()[-1] == "[DONE]" and len(r.body) > 1000
        assert raw.closed_within(5) and not raw.reset
    assert g.process.wait(10) == 0


def test_shut_02_a_client_that_does_not_answer_the_ping(gate, sim):
    """The second GOAWAY comes all the same; streams opened behind it are not served."""
    server = sim(tokens=45, tokens_per_second=10)
    g = gate([static_model("m", [server])], shutdown={"grace": "20s"})
    g.chat(max_tokens=1)
    with Raw(g.port) as raw:
        streaming = raw.request(body=chat(stream=True))
        streaming.wait(lambda s: s.body, 10, "it runs")
        raw.ack = False
        g.process.signal(signal.SIGTERM)
        raw.wait(lambda: len(raw.goaways) > 1, 8, "both")
        assert [go.last for go in raw.goaways] == [2**31 - 1, streaming.id]
        behind = raw.request(body=chat(text="behind"))
        assert streaming.response().done
        assert raw.closed_within(5)
        assert behind.status == 0
    assert g.process.wait(10) == 0
    assert "behind" not in [q["prompt"] for q in server.requests(prompts_only=True)]


def test_shut_01_held_requests_are_answered(gate):
    """SHUT-01: 20 held on one connection, a second idle one: the held are answered, the idle one is closed, exit 0."""
    g = gate([process_model("m", sim={"load": 3})], shutdown={"grace": "30s"})
    with Connection(g.port) as client, Connection(g.port) as idle:
        idle.ping()
        streams = [client.request(body=chat()) for _ in range(20)]
        g.wait_held(20)
        g.process.signal(signal.SIGTERM)
        assert idle.closed_within(5) and not idle.reset
        assert [s.response().status for s in streams] == [200] * 20
        assert client.closed_within(5) and not client.reset
    assert g.process.wait(10) == 0


def test_shut_01_what_is_left_after_the_grace_is_told(gate):
    """SHUT-01: held requests get 503 shutting_down with Retry-After on their streams before the connection ends."""
    g = gate([process_model("m", sim={"load": 600})], shutdown={"grace": "1s"})
    with Connection(g.port) as client:
        streams = [client.request(body=chat()) for _ in range(20)]
        g.wait_held(20)
        g.process.signal(signal.SIGTERM)
        for stream in streams:
            r = stream.response()
            assert (r.status, r.code) == (503, "shutting_down") and r.header("retry-after")
        assert client.closed_within(5)
    assert g.process.wait(15) == 0


def test_a_reload_drops_no_stream(gate, sim):
    """Held and streaming requests of a connection outlive a reload, and what comes next meets the new configuration."""
    server, cold = sim(tokens=20, tokens_per_second=10), sim(load=600)
    g = gate([static_model("m", [server]), static_model("cold", [cold])])
    g.chat(max_tokens=1)
    with Connection(g.port) as client:
        streaming, held = client.request(body=chat(stream=True)), client.request(body=chat("cold"))
        streaming.wait(lambda s: s.body, 10, "it runs")
        g.wait_held(1, "cold")
        g.write([*g.models, static_model("new", [server])])
        g.process.signal(signal.SIGHUP)
        proc.wait_for(lambda: client.chat("new", max_tokens=1).status == 200, 10, "the new model is served")
        cold.config(load=0)
        assert streaming.response().done and held.response().status == 200
        assert client.goaways == []
