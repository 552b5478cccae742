"""HTTP/2 by those who mean no good: each cheap trick ends its own connection soon, and touches nobody else (field cases
H2-06 and H2-07, and the floods that have names: rapid reset, made-you-reset, CONTINUATION, PING, SETTINGS, HPACK bomb)."""

import json
import time
from collections import namedtuple

import pytest

from harness import proc
from harness.backend import SSE_HEAD, answer, chunk
from harness.gate import static_model
from harness.http1 import chat
from harness.http2 import (
    ACK, CONTINUATION, DATA, END_HEADERS, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PADDED, PING, PRIORITIZED,
    PRIORITY, WINDOW_UPDATE, Connection, Raw, data, frame, request_fields, rst, settings, window_update,
)

MIB = 1 << 20
BODY = json.dumps(chat(text="flood")).encode()
BUDGET = 200  # of a connection, in resets by the client; it comes back by 20 a second
OVER = 200  # frames that a flood may send beyond it

# tricks(raw, n) makes n of a kind, of so many frames each, each worth so many resets; `free` of them are no trick yet
Flood = namedtuple("Flood", "tricks frames cost free", defaults=(1, 1, 0))


def on_new_streams(make):
    """One trick per stream: make(raw, id)."""
    return lambda raw, n: b"".join(make(raw, raw.next_id()) for _ in range(n))


def on_one_stream(make):
    """All on a stream that is open and stays so: make(id)."""

    def tricks(raw, n):
        if not raw.streams:
            raw.write(raw.headers(raw.next_id(), request_fields(headers=[("content-length", "100000")])))
        return make(min(raw.streams)) * n

    return tricks


def on_a_closed_stream(make):
    """All on a stream that the client has reset: make(id)."""

    def tricks(raw, n):
        head = b"" if raw.streams else open_head(raw, raw.next_id()) + rst(1)
        return head + make(1) * n

    return tricks


def open_head(raw, i, *fields, end=False):
    """A request without its body."""
    return raw.headers(i, request_fields(headers=[("content-length", "9"), *fields]), end)


def excess(raw, n):
    """Beyond maxStreams: the first ones fill it."""
    if not raw.streams:
        raw.write(b"".join(open_head(raw, raw.next_id()) for _ in range(16)))
    return b"".join(open_head(raw, raw.next_id()) for _ in range(n))


MANY_FIELDS = [(f"x-{i}", "a") for i in range(150)]

RESETS = {
    "by-the-client": Flood(on_new_streams(lambda raw, i: open_head(raw, i) + rst(i)), 2),
    "after-data": Flood(on_new_streams(lambda raw, i: open_head(raw, i) + data(i, b"abc") + rst(i)), 3),
    "by-a-window-overflow": Flood(on_new_streams(lambda raw, i: open_head(raw, i) + window_update(i, 2**31 - 1)), 2, 2),
    "by-a-wrong-length": Flood(on_new_streams(lambda raw, i: open_head(raw, i, end=True)), 1, 2),
    "by-too-much-data": Flood(on_new_streams(lambda raw, i: open_head(raw, i) + data(i, b"0123456789")), 2, 2),
    "by-a-connection-field": Flood(on_new_streams(lambda raw, i: open_head(raw, i, ("connection", "close"))), 1, 2),
    "by-an-uppercase-name": Flood(on_new_streams(lambda raw, i: open_head(raw, i, ("X-A", "b"))), 1, 2),
    "by-a-bad-value": Flood(on_new_streams(lambda raw, i: open_head(raw, i, ("x-a", "a\nb"))), 1, 2),
    "by-bad-trailers": Flood(on_new_streams(lambda raw, i: open_head(raw, i) + raw.headers(i, [("x-a", "b")])), 2, 2),
    "by-streams-in-excess": Flood(excess, 1, 2),
}
FRAMES = {
    "settings": Flood(lambda raw, n: settings(initial_window_size=65535) * n, 1, 2),
    "ping": Flood(lambda raw, n: frame(PING, payload=bytes(8)) * n),
    "ping-answers": Flood(lambda raw, n: frame(PING, ACK, payload=bytes(8)) * n),
    "goaway": Flood(on_one_stream(lambda i: frame(GOAWAY, payload=bytes(8)))),
    "empty-data": Flood(on_one_stream(lambda i: data(i))),
    "padding-only": Flood(on_one_stream(lambda i: frame(DATA, PADDED, i, b"\x09" + bytes(9)))),
    "priority": Flood(lambda raw, n: frame(PRIORITY, 0, 1, b"\0\0\0\0\x0f") * n),
    "priority-update": Flood(lambda raw, n: frame(0x10, 0, 0, b"\0\0\0\x01u=1") * n),
    "unknown": Flood(lambda raw, n: frame(0x99, 0, 0, b"what") * n),
    "tiny-window-updates": Flood(lambda raw, n: window_update(0, 1) * n, free=64),
    "tiny-window-updates-of-a-stream": Flood(on_one_stream(lambda i: window_update(i, 1)), free=66),
    "window-updates-of-a-closed-stream": Flood(on_a_closed_stream(lambda i: window_update(i, 1)), free=66),
    "large-heads": Flood(on_new_streams(lambda raw, i: raw.headers(i, request_fields(headers=MANY_FIELDS), True)), 1, 20),
}
BLOCKS = {
    "empty-continuations": b"",
    "one-byte-continuations": b"\x90",  # accept-encoding: gzip, deflate
}


@pytest.fixture
def target(gate, backend):
    """A warm and a cold model, and few streams a connection."""
    b, cold = backend(), backend(probe_answer=lambda peer, _: peer.send(answer(status="503 Loading")))
    g = gate([static_model("m", [b]), static_model("cold", [cold])], limits={"maxStreams": 16})
    g.warm()
    b.requests.clear()
    return g, b


def check_flood(g, other, flood):
    """What is wrong, or None: half the budget is put up with, and then 200 frames over it are not; the other connection is
    served meanwhile."""
    with Raw(g.port, credit=True) as raw:
        raw.ping()
        raw.write(flood.tricks(raw, BUDGET // flood.cost // 2))
        try:
            raw.ping()
        except AssertionError as error:
            return f"half the budget was too much: {error}"
        rest = flood.free + BUDGET // flood.cost - BUDGET // flood.cost // 2 + OVER // flood.frames
        began = time.monotonic()
        raw.write(flood.tricks(raw, rest))
        if other.chat(text="neighbour").status != 200 or time.monotonic() - began > 1 * proc.SLOW:
            return f"the neighbour waited {time.monotonic() - began:.3f} s"
        if not raw.closed_within(10):
            return "goes on"
        if [go.code for go in raw.goaways] != [ENHANCE_YOUR_CALM]:
            return f"ended by {raw.goaways or 'a close alone'}"
    return None


@pytest.mark.parametrize("floods", [RESETS, FRAMES], ids=["resets", "frames"])
def test_floods_end_their_connection_alone(target, floods):
    """Each is closed with ENHANCE_YOUR_CALM within 200 frames over its budget, no request of it reached the model, and a
    neighbour's requests go through."""
    g, b = target
    rss = g.process.rss()
    with Connection(g.port) as other:
        wrong = {name: check_flood(g, other, flood) for name, flood in floods.items()}
        assert {name: what for name, what in wrong.items() if what} == {}
        assert other.goaways == []
    assert {q.json()["messages"][0]["content"] for q in b.requests} == {"neighbour"}
    assert g.process.rss() - rss < 16 * MIB * proc.FAT
    g.wait_inflight(0)


@pytest.mark.parametrize("block", BLOCKS)
def test_h2_07_a_header_block_without_end(target, block):
    """H2-07: CONTINUATIONs, empty or of one field each, and no END_HEADERS: closed as soon as any flood."""
    g, b = target
    with Raw(g.port) as raw:
        head = frame(HEADERS, 0, raw.next_id(), raw.block(request_fields()))
        raw.write(head + frame(CONTINUATION, 0, 1, BLOCKS[block]) * (BUDGET + OVER))
        assert raw.closed_within(10)
        assert [go.code for go in raw.goaways] == [ENHANCE_YOUR_CALM]
    assert b.requests == [] and g.chat().status == 200


def test_h2_06_rapid_reset_against_a_holding_proxy(target):
    """H2-06: 50,000 × (HEADERS, DATA, RST_STREAM) to a cold model on one connection: one wake at most, nothing is held
    afterwards, the processor is idle again, the connection is closed; the model gets its probes and no more."""
    g, _ = target
    with Raw(g.port) as raw:
        head = request_fields(headers=[("content-length", str(len(BODY) + 3))])
        cold = BODY.replace(b'"m"', b'"cold"')
        assert len(cold) == len(BODY) + 3
        first = raw.headers(1, head)
        block = raw.block(head)  # by now all of it is in the table
        raw.write(first + data(1, cold, True) + rst(1))
        raw.write(
            b"".join(
                frame(HEADERS, END_HEADERS, i, block) + data(i, cold, True) + rst(i) for i in range(3, 100001, 2)
            )
        )
        assert raw.closed_within(20)
        assert [go.code for go in raw.goaways] == [ENHANCE_YOUR_CALM]
        assert raw.goaways[0].last < 2 * (BUDGET + OVER), "counted as they come"
    g.wait_held(0, "cold", timeout=2 * proc.SLOW)
    assert g.metric("wakegate_held_bytes", model="cold") == 0
    assert len(proc.re.findall(r" model cold: waking", g.process.log())) <= 1
    proc.wait_for(lambda: busy(g) < 0.2, 2 * proc.SLOW, "the processor is idle")


def busy(g):
    """The share of a core that it takes."""
    before = g.process.cpu()
    time.sleep(0.2)
    return (g.process.cpu() - before) / 0.2


def test_h2_06_a_polite_client_may_cancel(gate, sim):
    """H2-06: 50 of 100 held streams cancelled, and again: it is not cut, and the rest is answered."""
    server = sim(load=600)
    g = gate([static_model("m", [server])])
    with Connection(g.port) as client:
        streams = [client.request(body=chat()) for _ in range(100)]
        g.wait_held(100)
        for stream in streams[::2]:
            client.cancel(stream)
        g.wait_held(50)
        more = [client.request(body=chat()) for _ in range(50)]
        g.wait_held(100)
        server.config(load=0)
        assert [s.response().status for s in streams[1::2] + more] == [200] * 100
        assert client.goaways == []


def test_window_updates_of_a_reader_are_no_flood(gate, backend):
    """2,000 SSE events, each answered by a WINDOW_UPDATE for the stream and one for the connection, as httpx does."""

    def handle(peer, _):
        peer.send(SSE_HEAD)
        for _ in range(2000):
            peer.send(chunk(b"data: {}\n\n"))
            time.sleep(0.0005)
        return peer.send(b"0\r\n\r\n")

    g = gate([static_model("m", [backend(handle)])])
    with Raw(g.port, credit=True) as raw:
        r = raw.request(body=chat(stream=True)).response()
        assert r.done and len(r.events()) == 2000
        assert len(r.pieces) > 500, "in many frames"
        raw.ping()
        assert raw.goaways == []


def test_h2_07_an_hpack_bomb_takes_no_memory(target):
    """One field of 4 KB in the table, named 16,000 times a block: 64 MB if it were copied. Nothing is stored, and it does
    not last."""
    g, b = target
    rss = g.process.rss()
    with Raw(g.port, credit=True) as raw:
        first = raw.block([*request_fields(), ("x-bomb", "0" * 3900)])
        bomb = first + b"\xbe" * (16384 - len(first))
        later = raw.block(request_fields()) + b"\xbe" * 16000
        assert bomb[-1] == 0xBE
        octets = frame(HEADERS, END_HEADERS | 1, raw.next_id(), bomb)
        octets += b"".join(frame(HEADERS, END_HEADERS | 1, raw.next_id(), later) for _ in range(20))
        raw.write(octets)
        assert raw.closed_within(10 * proc.SLOW)
        assert [go.code for go in raw.goaways] == [ENHANCE_YOUR_CALM]
    assert g.process.rss() - rss < 8 * MIB * proc.FAT
    assert b.requests == [] and g.chat().status == 200


def test_control_frames_of_one_who_does_not_read(target):
    """PINGs without reading what they are answered with: bounded by the same budget."""
    g, _ = target
    rss = g.process.rss()
    with Raw(g.port, receive_buffer=4096) as raw:
        raw.ping()
        raw.read(False)
        raw.write(frame(PING, payload=bytes(8)) * 100000)
        time.sleep(0.2)
        raw.read(True)
        assert raw.closed_within(10)
    assert g.process.rss() - rss < 8 * MIB * proc.FAT
    assert g.chat().status == 200


def test_data_behind_a_reset_gives_its_window_back(target):
    """More than the connection's window, sent on a stream that the client had reset itself: thrown away, and the window is
    open again for the others."""
    g, _ = target
    with Raw(g.port, credit=True) as raw:
        raw.ping()
        number = raw.next_id()
        raw.write(open_head(raw, number) + rst(number))
        sent = 0
        for _ in range(10):
            raw.write(data(number, bytes(16384)) * 64)
            sent += 64 * 16384
            if raw.closed:
                break
            raw.ping()
        given = sum(int.from_bytes(f.payload, "big") for f in raw.frames if f.type == WINDOW_UPDATE and f.stream == 0)
        assert raw.closed or given > sent - 65535 - 4 * MIB, (given, sent)
    assert g.chat().status == 200


def test_priorities_are_no_fault(target):
    """A browser's head with a priority, and a PRIORITY_UPDATE for it, are put up with."""
    g, _ = target
    with Raw(g.port) as raw:
        for _ in range(12):
            number = raw.next_id()
            raw.write(
                frame(HEADERS, END_HEADERS | PRIORITIZED, number, b"\x80\0\0\0\xff" + raw.block(request_fields()))
                + frame(0x10, 0, 0, number.to_bytes(4, "big") + b"u=3, i") + data(number, BODY, True)
            )
        assert [s.response().status for s in raw.streams.values()] == [200] * 12
        assert raw.goaways == []
