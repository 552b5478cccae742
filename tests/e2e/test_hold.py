"""Holding: who waits, for how long, what it costs, and what never waits at all (field cases, area A)."""

import json
import select
import threading
import time

import pytest

from harness import proc
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import chat, request_bytes

MIB = 1 << 20


class Sampler:
    """Watches a number while something runs; `most` is the highest seen."""

    def __init__(self, read):
        self.most = 0
        self._stop = threading.Event()

        def run():
            while not self._stop.is_set():
                self.most = max(self.most, read())
                self._stop.wait(0.1)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join(10)
        return self.most


def test_hold_01_waiters_that_left_leave_the_buffer(gate, sim):
    """HOLD-01: 200 requests a second of 64 KiB for 10 s, each client gone after 1 s, half of them by RST."""
    server = sim(load=600)
    g = gate([static_model("m", [server], hold={"timeout": "120s", "silentTimeout": "120s"})])
    rate, seconds = (200, 10) if not proc.SANITIZER else (80, 8)
    body = chat("m", "x" * 65536)
    requests = [request_bytes(body=body)] * (rate * seconds)
    crowd(g.port, requests[:rate], leave=0.3)  # so that the allocator has its pools
    g.wait_held(0)
    rss = g.process.rss()
    held = Sampler(g.held)
    crowd(g.port, requests, delays=[i / rate for i in range(len(requests))], leave=1)
    gone = time.monotonic()
    g.wait_held(0, timeout=2 * proc.SLOW)
    assert time.monotonic() - gone < 2 * proc.SLOW
    assert 0 < held.stop() <= rate * 1.25 * (1 if not proc.SANITIZER else 2)
    assert g.metric("wakegate_held_bytes", model="m") == 0
    assert g.process.rss() - rss < 20 * MIB * proc.FAT
    live = [request_bytes(body=chat("m", f"alive {i}")) for i in range(5)]
    waiting = Background(crowd, g.port, live)
    g.wait_held(5)
    server.config(load=0)
    assert [v.status for v in waiting.result()] == [200] * 5
    assert sorted(r["prompt"] for r in server.requests(prompts_only=True) if r["status"] == 200) == [
        f"alive {i}" for i in range(5)
    ]


def check_refusal(r, status, code, retry=True):
    assert r.status == status, (r.status, r.body)
    assert r.header("content-type") == "application/json"
    error = r.json()["error"]
    assert error["code"] == code, error
    assert error["message"] and error["type"] and "param" in error
    assert r.header("x-request-id")
    if r.header("retry-after") is not None:
        assert 1 <= int(r.header("retry-after")) <= 59
    elif retry:
        assert r.header("x-should-retry") == "false", r.headers


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nonexistent/model-server", "--port", "{port}"], "No such file"),
        (["sh", "-c", "echo cannot load the weights; exit 3 # {port}"], "3"),
        (["sh", "-c", "kill -SEGV $$$$ # {port}"], "11|SEGV|Segmentation"),
    ],
    ids=["no-such-program", "exits", "crashes"],
)
def test_hold_03_a_wake_that_cannot_succeed_fails_at_once(gate, command, reason):
    """HOLD-03 for processes: the waiters learn at once what is wrong, and the restarts are bounded."""
    g = gate([process_model("m", target={"process": {"command": command}}, wake={"backoff": "1s", "maxBackoff": "2s"})])
    began = time.monotonic()
    visits = crowd(g.port, [request_bytes(body=chat())] * 5)
    assert time.monotonic() - began < 3 * proc.SLOW
    for visit in visits:
        check_refusal(visit.response, 503, "model_wake_failed")
    assert proc.re.search(reason, visits[0].response.json()["error"]["message"])
    assert g.held() == 0
    g.process.wait_log(reason)
    # requests go on coming: refused in the back-off, one start after each
    end = time.monotonic() + 4
    while time.monotonic() < end:
        check_refusal(g.chat(), 503, "model_wake_failed")
        time.sleep(0.05)
    assert g.wakes("failed") <= 6


@pytest.mark.parametrize("options", [{"load": 600}, {"load_port_closed": 600}], ids=["loading", "port-closed"])
def test_hold_03_a_wake_without_end_is_bounded(gate, options):
    """HOLD-03: hold limit 3 s and a model that never comes: 503 at 3 s, with the phase in the message."""
    g = gate([process_model("m", sim=options, hold={"timeout": "3s", "silentTimeout": "60s"})])
    visits = crowd(g.port, [request_bytes(body=chat())] * 10)
    for visit in visits:
        check_refusal(visit.response, 503, "model_wake_timeout")
        assert 2.9 < visit.seconds < 3.5 + 0.5 * (proc.SLOW - 1)
    assert "started" in visits[0].response.json()["error"]["message"]
    assert g.held() == 0
    assert g.outcome("model_wake_timeout") == 10


def test_hold_04_503_means_nothing_serves_429_means_busy(gate):
    """HOLD-04: each situation its own status and code, which is also the label of the metric."""
    model = process_model(
        "m",
        sim={"load": 2, "ttft": 2000},
        hold={"maxRequests": 3, "timeout": "20s", "busyTimeout": "1s"},
        concurrency={"perEndpoint": 1, "rampStart": 1},
        probe={"timeout": "10s"},
    )
    g = gate([model])
    waiting = Background(crowd, g.port, [request_bytes(body=chat())] * 3)
    g.wait_held(3)
    check_refusal(g.chat(), 503, "hold_full")
    assert [v.status for v in waiting.result()] == [200] * 3, "their clock is that of a cold model"
    visits = crowd(g.port, [request_bytes(body=chat())] * 3)
    assert sorted(v.status for v in visits) == [200, 429, 429], "one runs for 2 s, the others wait longer than 1 s"
    for visit in visits:
        if visit.status == 429:
            check_refusal(visit.response, 429, "model_busy")
            assert 0.9 < visit.seconds < 1.5 * proc.SLOW
    assert g.outcome("hold_full") == 1
    assert g.outcome("model_busy") == 2


@pytest.mark.parametrize(("ttft", "status"), [(300, 200), (2500, 504)])
def test_hold_06_upstream_timeouts_start_at_dispatch(gate, sim, ttft, status):
    """HOLD-06: a first-byte limit of 1 s and a start of 3 s do not meet."""
    server = sim(load=3, ttft=ttft)
    g = gate([static_model("m", [server], timeouts={"firstByte": "1s"}, probe={"timeout": "10s"})])
    began = time.monotonic()
    r = g.chat()
    took = time.monotonic() - began
    assert r.status == status, r.body
    if status == 504:
        assert r.code == "upstream_timeout"
        assert took > 3.5
        proc.wait_for(lambda: server.stats()["concurrent"] == 0, 2, "the engine is told to stop")


def test_hold_08_buffered_bytes_are_bounded_and_refusal_is_early(gate):
    """HOLD-08: 20 bodies of 10 MiB against 64 MiB in all: 6 are held, 14 refused before they are sent."""
    g = gate([process_model("m", sim={"load": 600})], limits={"maxHeldBytes": "64Mi"})
    g.process.wait_log(".")
    rss = g.process.rss()
    body = json.dumps(chat("m", "x" * (10 * MIB - 100))).encode()
    clients = [g.client() for _ in range(20)]
    for client in clients:
        client.send(request_bytes(body=body)[: -len(body)])
    refused, admitted = [], []
    for client in clients:
        try:
            refused.append(client.response(timeout=0.2))
        except OSError:
            admitted.append(client)
    assert len(admitted) == 6
    for r in refused:
        check_refusal(r, 503, "hold_full")
        assert r.header("retry-after")
    for client in admitted:
        client.send(body)
    g.wait_held(6)
    assert g.metric("wakegate_held_bytes", model="m") >= 6 * len(body)
    assert g.process.rss() - rss < 96 * MIB * proc.FAT
    for client in clients:
        client.close()
    g.wait_held(0)
    assert g.metric("wakegate_held_bytes", model="m") == 0


def test_hold_08_a_body_over_the_limit_is_413(gate):
    """HOLD-08: 33 MiB against 32: refused by its head; without a length as soon as the limit is passed."""
    g = gate([process_model("m", sim={"load": 600})])
    with g.client() as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (33 * MIB))
        check_refusal(client.response(timeout=5), 413, "body_too_large", retry=False)
    with g.client() as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        piece = b"%x\r\n" % (MIB // 4) + b" " * (MIB // 4) + b"\r\n"
        while not select.select([client.sock], [], [], 0)[0]:
            client.send(piece)
            sent += MIB // 4
            assert sent < 48 * MIB
        check_refusal(client.response(timeout=5), 413, "body_too_large", retry=False)
        assert sent > 31 * MIB
    g.wait_state("cold")


def test_hold_08_a_large_multimodal_body_is_accepted(gate):
    """HOLD-08: 11 MiB of JSON with an image in base64 goes through with default settings, byte for byte."""
    g = gate([process_model("m")])
    body = json.dumps(
        {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what is this?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * (11 * MIB // 4)}},
                    ],
                }
            ],
        }
    ).encode()
    r = g.call(body=body)
    assert r.status == 200, r.body
    from hashlib import sha256

    from harness.sim import Sim

    seen = Sim(g.models[0]["target"]["process"]["port"]).requests(prompts_only=True)
    assert [s["sha256"] for s in seen] == [sha256(body).hexdigest()]


def test_hold_09_nothing_but_a_real_inference_call_wakes(gate):
    """HOLD-09: lists, pages and bad requests leave every model cold, and the list is complete."""
    tenants = [{"name": "t", "keys": [{"sha256": proc.sha256("good")}]}]
    g = gate([process_model("m"), process_model("org/other")], tenants=tenants)
    key = [("Authorization", "Bearer good")]
    r = g.call("GET", "/v1/models", headers=key)
    assert r.status == 200
    assert sorted(m["id"] for m in r.json()["data"]) == ["m", "org/other"]
    assert all(m["wakegate"]["state"] == "cold" for m in r.json()["data"])
    assert g.call("GET", "/v1/models/org/other", headers=key).json()["id"] == "org/other"
    assert g.call("GET", "/v1/models/org%2Fother", headers=key).json()["id"] == "org/other"
    began = time.monotonic()
    r = g.chat("unknown", headers=key)
    assert (r.status, r.code) == (404, "model_not_found")
    assert time.monotonic() - began < 0.05 * proc.SLOW
    expected = [
        ("OPTIONS", "/v1/chat/completions", None, key, 405),
        ("HEAD", "/", None, key, 404),
        ("GET", "/healthz", None, key, 404),
        ("GET", "/metrics", None, key, 404),
        ("GET", "/favicon.ico", None, key, 404),
        ("GET", "/v1/chat/completions", None, key, 405),
        ("GET", "/models/m/v1/chat/completions", None, key, 503),
        ("POST", "/v1/chat/completions", b"{not json", key, 400),
        ("POST", "/v1/chat/completions", b"", key, 400),
        ("POST", "/v1/chat/completions", chat(), [("Authorization", "Bearer bad")], 401),
        ("POST", "/v1/chat/completions", chat(), [], 401),
        ("GET", "/v1/models", None, [], 401),
    ]
    for method, path, body, headers, status in expected:
        r = g.call(method, path, body, headers)
        assert r.status == status, (method, path, r.status, r.body)
    for model in ("m", "org/other"):
        assert g.held(model) == 0
        assert g.state(model) == "cold"
    assert "waking" not in g.process.log()
