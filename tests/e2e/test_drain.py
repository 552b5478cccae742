"""Draining: at the model's pace, in a fair order, nothing twice (field cases, area D)."""

import time

import pytest

from harness import proc
from harness.backend import answer
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import chat, request_bytes
from harness.sim import Sim

TENANTS = [
    {"name": "y", "keys": [{"sha256": proc.sha256("key-y")}]},
    {"name": "x", "keys": [{"sha256": proc.sha256("key-x")}]},
]


def of(tenant, text):
    return request_bytes(body=chat("m", text), headers=[("Authorization", f"Bearer key-{tenant}")])


def test_drain_01_the_backlog_is_poured(gate):
    """DRAIN-01: 500 held against 8 slots: never more than 8 at the model, none refused, all 200; a tenant's lone
    request among 499 of another is served in the first two rounds; who comes later does not overtake."""
    port = proc.free_port()
    model = process_model(
        "m", port, sim={"load": 2.5, "slots": 8, "ttft": 30}, concurrency={"perEndpoint": 8, "rampStart": 8}
    )
    g = gate([model], tenants=TENANTS)
    many = Background(crowd, g.port, [of("y", f"y{i}") for i in range(499)])
    g.wait_held(499)
    lone = Background(crowd, g.port, [of("x", "lone")])
    g.wait_held(500)
    g.wait_state("warm")
    late = Background(crowd, g.port, [of("y", "late")])
    visits = many.result() + lone.result() + late.result()
    assert [v.status for v in visits] == [200] * 501
    stats = Sim(port).stats()
    assert stats["max_concurrent"] <= 8
    assert stats["refused"] == 0
    order = [r["prompt"] for r in Sim(port).requests(prompts_only=True)]
    assert len(order) == 501
    assert order.index("lone") < 16
    assert order.index("late") >= 500 - 8, "what left at the same time may arrive in any order"
    assert g.metric("wakegate_hold_duration_seconds_count", model="m") == 501


def test_drain_01_a_slow_start_with_growing_slots(gate):
    """rampStart: a new endpoint begins with few and gains one per success."""
    port = proc.free_port()
    model = process_model("m", port, sim={"load": 1, "ttft": 200}, concurrency={"perEndpoint": 16, "rampStart": 2})
    g = gate([model])
    visits = crowd(g.port, [request_bytes(body=chat("m", f"n{i}")) for i in range(60)])
    assert [v.status for v in visits] == [200] * 60
    concurrency = [r["concurrency"] for r in Sim(port).requests(prompts_only=True)]
    assert concurrency[:2] == [1, 2] and max(concurrency[:4]) <= 2 + 2
    assert max(concurrency) <= 16 and max(concurrency) > 8


def test_drain_order_within_a_tenant_is_first_come_first_served(gate):
    """One slot: the order of arrival is the order of service."""
    port = proc.free_port()
    model = process_model("m", port, sim={"load": 2}, concurrency={"perEndpoint": 1, "rampStart": 1})
    g = gate([model])
    clients = []
    for i in range(30):
        clients.append(g.client().send(request_bytes(body=chat("m", f"n{i}"))))
        g.wait_held(i + 1)
    assert [c.response().status for c in clients] == [200] * 30
    assert [r["prompt"] for r in Sim(port).requests(prompts_only=True)] == [f"n{i}" for i in range(30)]


def test_drain_priority_first_then_turns_by_weight(gate):
    """A higher priority is drained first; within one, weights 3 and 1 give three turns to one."""
    tenants = [
        {"name": name, "keys": [{"sha256": proc.sha256(f"key-{name}")}], "priority": priority, "weight": weight}
        for name, priority, weight in (("low", 0, 1), ("heavy", 5, 3), ("light", 5, 1))
    ]
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load": 2}, concurrency={"perEndpoint": 1, "rampStart": 1})], tenants=tenants)
    requests = [of(t, f"{t}{i}") for t in ("low", "light", "heavy") for i in range(12)]
    waiting = Background(crowd, g.port, requests)
    g.wait_held(36)
    assert [v.status for v in waiting.result()] == [200] * 36
    order = [r["prompt"].rstrip("0123456789") for r in Sim(port).requests(prompts_only=True)]
    assert set(order[:24]) == {"heavy", "light"} and set(order[24:]) == {"low"}
    assert 11 <= order[:16].count("heavy") <= 12 and order[:8].count("heavy") in (5, 6, 7), order


def test_drain_02_refused_connection_is_queued_again(gate, backend):
    """DRAIN-02: the proved backend is gone when the request comes: it waits, and runs once when it is back."""
    first = backend()
    g = gate([static_model("m", [first], probe={"connectInterval": "50ms"})])
    g.warm()
    first.stop()
    waiting = Background(g.chat, text="once")
    time.sleep(0.5)
    assert not waiting.done()
    second = backend(port=first.port)
    assert waiting.result().status == 200
    assert [r.json()["messages"][0]["content"] for r in second.requests] == ["once"]
    assert g.outcome("upstream_error") == 0


@pytest.mark.parametrize("how", ["rst", "fin", "half-head"])
def test_drain_02_what_may_have_run_is_not_sent_again(gate, backend, how):
    """DRAIN-02: the request was sent whole, then the connection ends before an answer: 502, one execution."""

    def cut(peer, request):
        if request.json()["messages"][0]["content"] != "once":
            return peer.send(answer())
        if how == "half-head":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        if how == "rst":
            peer.rst()
        return False

    b = backend(cut)
    g = gate([static_model("m", [b])])
    g.warm()
    r = g.chat(text="once")
    assert (r.status, r.code) == (502, "upstream_error")
    time.sleep(0.3)
    assert [q.json()["messages"][0]["content"] for q in b.requests].count("once") == 1
    assert g.chat().status == 200


def test_drain_02_a_reset_after_headers_breaks_the_stream(gate, sim):
    """DRAIN-02: headers were passed on: the client's stream breaks, nothing is sent again."""
    server = sim(fault="reset-after-headers", fault_after=1)
    g = gate([static_model("m", [server])])
    r = g.chat(stream=True)
    assert r.status == 200 and r.broken and not r.done
    assert server.executions() == 1


def test_drain_02_nonsense_from_the_backend_is_502(gate, backend):
    """What is not HTTP, or is ambiguous, never reaches the client, and its connection is not used again."""
    answers = [
        b"SSH-2.0-OpenSSH_9.2\r\n",  # and nothing more: told by its first bytes, not by a timeout
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\nContent-Length: 0\r\n\r\n",
    ]
    queue = list(answers)

    def handle(peer, request):
        if request.json()["messages"][0]["content"] != "odd":
            return peer.send(answer())
        return peer.send(queue.pop(0))

    b = backend(handle)
    g = gate([static_model("m", [b])])
    g.warm()
    for data in answers:
        r = g.chat(text="odd")
        assert (r.status, r.code) == (502, "upstream_error"), data
        odd = b.requests[-1].connection
        for _ in range(4):
            g.warm()
            assert b.requests[-1].connection != odd


def test_drain_02_the_models_own_503_is_passed_on(gate, sim):
    """DRAIN-02, our choice: an upstream's own answer goes to the client as it is, once."""
    server = sim(fault="status:503", fault_after=1, fault_count=1)
    g = gate([static_model("m", [server])])
    r = g.chat()
    assert r.status == 503
    assert r.header("retry-after") == "1"
    assert r.json()["error"]["message"] == "refused on order"
    assert server.executions() == 1
    assert g.outcome("ok") == 1


@pytest.mark.parametrize("stream", [False, True], ids=["no-bytes-yet", "mid-stream"])
@pytest.mark.parametrize("how", ["fin", "rst", "half-close"])
def test_drain_03_when_the_client_goes_the_backend_is_told(gate, sim, stream, how):
    """DRAIN-03 (a, b): the client leaves a long generation: the model sees its connection closed within a second,
    another stream goes on, the unfinished connection is not used again."""
    server = sim(tokens=600, tokens_per_second=10)
    g = gate([static_model("m", [server])])
    g.chat(text="warm up", max_tokens=1)
    other = g.client().send(request_bytes(body=chat(text="stays", stream=True, max_tokens=30)))
    client = g.client()
    client.send(request_bytes(body=chat(text="leaves", stream=stream)))
    if stream:
        client.response(until=lambda r: len(r.pieces) >= 2)
    proc.wait_for(lambda: server.stats()["concurrent"] == 2, 5, "both run")
    if how == "half-close" and not stream:
        client.sock.shutdown(1)
    elif how == "rst":
        client.rst()
    else:
        client.close()
    left = time.monotonic()
    proc.wait_for(lambda: server.stats()["client_closed"] == 1, 1 * proc.SLOW, "the model is told")
    assert time.monotonic() - left < 1 * proc.SLOW
    whole = other.response()
    assert whole.done and whole.events()[-1] == "[DONE]"
    gone = next(r for r in server.requests() if r["prompt"] == "leaves")
    assert gone["outcome"] == "client_closed"
    g.chat(text="next", max_tokens=1)
    assert [r["connection"] for r in server.requests()].count(gone["connection"]) <= server.requests().index(gone) + 1
    assert next(r for r in server.requests() if r["prompt"] == "next")["connection"] != gone["connection"]
    assert g.outcome("client_closed") == 1
    g.wait_inflight(0)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_drain_03_half_an_upload(gate, sim, how):
    """DRAIN-03 (d): the client leaves half-way through a held upload: nothing reaches the model, all is given back."""
    server = sim(load=600)
    g = gate([static_model("m", [server])])
    data = request_bytes(body=chat(text="x" * 100000))
    client = g.client().send(data[: len(data) // 2])
    proc.wait_for(
        lambda: call_status(g)["buffered_bytes"] > 40000, 5, "the half body is there"
    )
    client.rst() if how == "rst" else client.close()
    proc.wait_for(lambda: call_status(g)["buffered_bytes"] == 0, 2, "it is given back")
    server.config(load=0)
    assert g.chat(text="after").status == 200
    assert [r["prompt"] for r in server.requests(prompts_only=True) if r["status"] == 200] == ["after"]


def call_status(g):
    return g.status()["process"]


def test_clients_that_leave_in_every_state_give_everything_back(gate, sim):
    """Left while sending, held, queued for a slot, before the first byte, mid-stream: all gauges are 0 again."""
    server = sim(load=1.5, slots=0, ttft=300, tokens=100, tokens_per_second=50)
    g = gate([static_model("m", [server], concurrency={"perEndpoint": 4, "rampStart": 4}, probe={"timeout": "10s"})])
    requests = [request_bytes(body=chat(text=f"r{i}", stream=i % 2 == 0)) for i in range(120)]
    for leave in (0.02, 0.5, 2.2, 0.3, 0.6):
        visits = crowd(g.port, [r if i % 5 else r[:-20] for i, r in enumerate(requests)], leave=leave)
        assert len(visits) == len(requests)
    g.wait_held(0)
    g.wait_inflight(0)
    assert g.metric("wakegate_held_bytes", model="m") == 0
    proc.wait_for(lambda: call_status(g)["buffered_bytes"] == 0, 3, "no body is left")
    proc.wait_for(lambda: server.stats()["concurrent"] == 0, 3, "the model works for nobody")
    proc.wait_for(lambda: sum(e["in_use"] for e in g.model_status()["endpoints"]) == 0, 3, "all slots are back")
    assert g.chat(text="normal", max_tokens=1).status == 200
