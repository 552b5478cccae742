"""Outcomes tell the truth (field cases, area N)."""

import time

from harness import proc
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import chat, request_bytes


def test_met_02_each_ending_has_its_own_outcome(gate, sim):
    """MET-02: every ending counts once under its own name; a client that left is not a success; gauges end at 0."""
    server = sim()
    model = static_model(
        "m", [server], timeouts={"firstByte": "700ms"}, hold={"timeout": "1s", "heartbeat": {"after": "0s"}},
        maxBodyBytes="1Mi",
    )
    g = gate([model], tenants=[{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}])
    key = [("Authorization", "Bearer k")]
    expected = {}

    def one(outcome, r=None, status=None):
        if r is not None:
            assert r.status == status, (outcome, r.status, r.body)
        expected[outcome] = expected.get(outcome, 0) + 1

    one("ok", g.chat(headers=key), 200)
    server.config(fault="reset-before")
    one("upstream_error", g.chat(headers=key), 502)
    server.config(fault="truncate")
    one("upstream_error", g.chat(headers=key, stream=True), 200)
    server.config(fault="hang")
    one("upstream_timeout", g.chat(headers=key), 504)
    server.config(fault="status:418")
    one("ok", g.chat(headers=key), 418)
    server.config(fault="none", ttft=500)
    crowd(g.port, [request_bytes(body=chat(), headers=key)], leave=0.2)
    one("client_closed")
    server.config(ttft=0, tokens=100, tokens_per_second=20)
    with g.client() as client:
        client.request(body=chat(stream=True), headers=key)
        client.response(until=lambda r: r.pieces)
    one("client_closed")
    server.config(tokens_per_second=0)
    one("body_too_large", g.call(body=chat(text="x" * (2 << 20)), headers=key), 413)
    one("invalid_request", g.call("POST", "/models/m/v1/chat/completions", b"{", [*key, ("Content-Type", "application/json")]), 400)
    g.wait_inflight(0)

    def counted():
        return {o: g.outcome(o) for o in expected}

    body_known = {k: v for k, v in expected.items() if k != "body_too_large"}
    proc.wait_for(lambda: {k: counted()[k] for k in body_known} == body_known, 3, f"{body_known}, got {counted()}")
    assert g.chat("nobody", headers=key).status == 404
    assert g.call(body=chat()).status == 401
    metrics = g.metrics()
    assert metrics[("wakegate_requests_total", frozenset({("model", "other"), ("outcome", "model_not_found")}))] == 1
    assert metrics[("wakegate_tenant_requests_total", frozenset({("tenant", "other"), ("outcome", "invalid_api_key")}))] == 1
    tenant = {dict(l)["outcome"]: v for (n, l), v in metrics.items() if n == "wakegate_tenant_requests_total" and ("tenant", "t") in l and v}
    assert tenant == {**expected, "model_not_found": 1}
    for (name, labels), value in metrics.items():
        assert value >= 0, (name, labels)
        assert not ({"tenant", "model"} <= {k for k, _ in labels}), "tenant and model on one metric"
        for label, text in labels:
            if label in ("tenant", "model"):
                assert text in ("t", "m", "other"), (name, labels)
    probes = sum(v for (n, l), v in metrics.items() if n == "wakegate_probes_total")
    assert probes >= 1
    assert metrics[("wakegate_inflight_requests", frozenset({("model", "m")}))] == 0


def test_met_02_endings_of_a_hold(gate):
    """MET-02: a full hold and a hold that ran out have their own outcomes; one sample of the hold's length a held request."""
    hold = {"timeout": "2s", "silentTimeout": "2s", "maxRequests": 1, "heartbeat": {"after": "0s"}}
    g = gate([process_model("m", sim={"load": 600}, hold=hold)])
    first = Background(g.chat)
    g.wait_held(1)
    second = g.chat()
    assert (second.status, second.code) == (503, "hold_full")
    assert 1 <= int(second.header("retry-after")) <= 59
    r = first.result()
    assert (r.status, r.code) == (503, "model_wake_timeout")
    proc.wait_for(lambda: (g.outcome("hold_full"), g.outcome("model_wake_timeout")) == (1, 1), 3, "both are counted")
    assert g.metric("wakegate_hold_duration_seconds_count", model="m") == 1
    assert g.metric("wakegate_held_requests", model="m") == 0


def test_met_02_a_wait_is_told(gate):
    """MET-02: Server-Timing on what waited, and only there; the hold histogram has one sample per held request."""
    g = gate([process_model("m", sim={"load": 1.5})])
    visits = crowd(g.port, [request_bytes(body=chat())] * 20)
    for visit in visits:
        timing = visit.response.header("server-timing")
        assert timing and timing.startswith("hold;dur=") and 'desc="cold"' in timing
        waited = float(timing.split("dur=")[1].split(";")[0]) / 1000
        assert 1.4 < waited <= visit.seconds + 0.01
    assert g.chat().header("server-timing") is None
    assert g.metric("wakegate_hold_duration_seconds_count", model="m") == 20
    assert g.metric("wakegate_request_duration_seconds_count", model="m") == 21
    phases = {dict(l)["phase"] for (n, l), v in g.metrics().items() if n == "wakegate_cold_start_seconds_count" and v == 1}
    assert phases == {"started", "listening", "answering"}
    (start,) = g.model_status()["last_starts"]
    assert start["ok"] and list(start["phases"]) == ["started", "listening", "answering"]
    assert start["phases"]["started"] <= start["phases"]["listening"] < start["phases"]["answering"]


def test_met_02_a_wait_for_a_slot_is_told(gate, sim):
    """Server-Timing says busy where the model was warm and its slots were taken."""
    g = gate([static_model("m", [sim(ttft=400)], concurrency={"perEndpoint": 1, "rampStart": 1})])
    g.warm()
    visits = crowd(g.port, [request_bytes(body=chat())] * 3)
    timings = sorted(v.response.header("server-timing") or "" for v in visits)
    assert timings[0] == ""
    assert all('desc="busy"' in t for t in timings[1:])


def test_access_log_has_a_line_per_request(gate):
    """One line a request: model, tenant, outcome, status, times, id."""
    g = gate([process_model("m", sim={"load": 0.5})])
    r = g.chat()
    line = g.process.wait_log(rf".*access.*{r.header('x-request-id')}.*").group(0)
    for part in ("model=m", "tenant=default", "outcome=ok", "status=200", "held_cold_ms="):
        assert part in line, line


def test_logs_as_json(gate):
    """log.format json: every line of Wakegate's own is an object."""
    g = gate([process_model("m")], log={"format": "json"})
    g.warm()
    g.stop()
    lines = [proc.json.loads(line) for line in g.process.log().splitlines()]
    assert any(line.get("outcome") == "ok" for line in lines)


def test_the_eta_is_learned(gate):
    """After a start the models list shows an ETA, which shrinks while the next start runs."""
    g = gate([process_model("m", sim={"load": 2})])
    g.warm()
    assert g.order("sleep").status == 202
    g.wait_state("cold")
    entry = g.call("GET", "/v1/models/m").json()["wakegate"]
    assert entry["state"] == "cold" and 2 <= entry["eta_seconds"] <= 4
    assert g.order("wake").status == 202
    time.sleep(1)
    entry = g.call("GET", "/v1/models/m").json()["wakegate"]
    assert entry["state"] == "waking" and 1 <= entry["eta_seconds"] <= 2
    g.wait_state("warm")
    assert g.call("GET", "/v1/models/m").json()["wakegate"] == {"state": "warm", "eta_seconds": 0}
