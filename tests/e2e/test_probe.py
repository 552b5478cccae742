"""Proving: what is an answer of a model, and what only looks like it (field cases, area C)."""

import time

import pytest

from harness import proc
from harness.backend import answer
from harness.crowd import Background
from harness.gate import process_model, static_model


@pytest.mark.parametrize("fault", ["hang", "silence", "error-200", "garbage", "no-choices", "status:500", "reset-before"])
def test_probe_01_a_green_health_page_is_not_readiness(gate, sim, fault):
    """PROBE-01: /health and /v1/models are green, prompts are not answered: nothing is drained until they are."""
    server = sim(fault=fault)
    g = gate([static_model("m", [server], hold={"timeout": "2s"}, probe={"timeout": "700ms", "interval": "100ms"})])
    r = g.chat()
    assert (r.status, r.code) == (503, "model_wake_timeout")
    assert server.executions() == 0
    if fault in ("hang", "silence"):
        assert server.stats()["client_closed"] >= 1, "each attempt is cut at its own timeout"
        assert server.stats()["max_concurrent"] == 1
    server.config(fault="none")
    began = time.monotonic()
    assert g.chat().status == 200
    assert time.monotonic() - began < (0.7 + 0.1 + 0.3) * proc.SLOW
    assert server.executions() == 1


def test_probe_01_an_error_in_an_event_stream_is_not_readiness(gate, backend):
    """PROBE-01 (d): the probe gets SSE with an error and [DONE]."""
    healed = []

    def probed(peer, _):
        if healed:
            return peer.send(answer())
        return peer.send(answer(b'data: {"error":{"message":"dead"}}\n\ndata: [DONE]\n\n', content_type="text/event-stream"))

    b = backend(probe_answer=probed)
    g = gate([static_model("m", [b], hold={"timeout": "1s"})])
    assert g.chat().code == "model_wake_timeout"
    assert g.metric("wakegate_probes_total", model="m", result="invalid") >= 2
    healed.append(True)
    assert g.chat().status == 200


def test_probe_02_reasoning_alone_is_readiness(gate, sim):
    """PROBE-02 (a): all tokens went to reasoning, the text is empty: a model that thinks is a model that runs."""
    g = gate([static_model("m", [sim(fault="reasoning")])])
    assert g.chat().status == 200


def test_probe_02_a_floor_for_max_tokens_is_met(gate, backend):
    """PROBE-02 (b): 400 below 16 tokens; the default probe succeeds all the same."""

    def probed(peer, request):
        if request.json()["max_tokens"] < 16:
            return peer.send(answer(b'{"error":{"message":"max_tokens must be at least 16"}}', "400 Bad Request"))
        return peer.send(answer())

    b = backend(probe_answer=probed)
    g = gate([static_model("m", [b])])
    assert g.chat().status == 200
    assert b.probes[-1].json()["max_tokens"] >= 16


def test_probe_02_prompt_path_and_count_can_be_set(gate, sim):
    """PROBE-02: the probe is what the configuration says."""
    server = sim()
    g = gate([static_model("m", [server], probe={"prompt": "Say ready", "maxTokens": 3})])
    assert g.chat().status == 200
    first = server.requests()[0]
    assert first["prompt"] == "Say ready"
    assert '"max_tokens":3' in first["body"].replace(" ", "")


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("embeddings", "/v1/embeddings", {"model": "m", "input": "hello"}),
        ("completions", "/v1/completions", {"model": "m", "prompt": "hello"}),
    ],
)
def test_probe_03_not_every_model_speaks_chat(gate, sim, kind, path, body):
    """PROBE-03: a model that knows one path alone is proved by its own kind of prompt."""
    server = sim(only=path)
    g = gate([static_model("m", [server], probe={"kind": kind})])
    r = g.call("POST", path, body)
    assert r.status == 200, r.body
    probe = server.requests()[0]
    assert probe["path"] == path
    assert ("max_tokens" in probe["body"]) == (kind == "completions")


def test_probe_03_the_wrong_kind_is_told_and_not_endless(gate, sim):
    """PROBE-03, and a steady 4xx: the waiters get its text long before the wake's timeout."""
    g = gate([process_model("m", sim={"only": "/v1/embeddings"}, wake={"timeout": "60s"})])
    began = time.monotonic()
    r = g.chat()
    assert (r.status, r.code) == (503, "model_wake_failed")
    assert "404" in r.json()["error"]["message"]
    assert time.monotonic() - began < 10
    g.process.wait_log("probe got 404")
    assert g.metric("wakegate_probes_total", model="m", result="status") >= 1


@pytest.mark.parametrize("status", [501, 505])
def test_probe_03_a_server_that_never_will_is_told_and_not_endless(gate, sim, status):
    """A server without what the probe's kind asks for says 501 for ever: that fails the wake, with its text."""
    g = gate([process_model("m", sim={"fault": f"status:{status}"}, wake={"timeout": "60s"})])
    began = time.monotonic()
    r = g.chat()
    assert (r.status, r.code) == (503, "model_wake_failed")
    assert f"the probe got {status}: " in r.json()["error"]["message"]
    assert 3 <= time.monotonic() - began < 10
    g.process.wait_log(rf"warn\w* model m: m could not be started: the probe got {status}: ")


def test_probe_expect_must_match(gate, sim):
    """expect: an answer that does not match is not proof; a matching one is."""
    server = sim()
    g = gate([static_model("m", [server], probe={"expect": "^OK"}, hold={"timeout": "1s"})])
    assert g.chat().code == "model_wake_timeout"
    assert g.metric("wakegate_probes_total", model="m", result="mismatch") >= 1
    other = gate([static_model("m", [server], probe={"expect": "^(the|a) "})])
    assert other.chat().status == 200


def test_probe_kind_tcp_asks_for_a_connection_alone(gate, sim):
    """tcp: no prompt is sent."""
    server = sim()
    g = gate([static_model("m", [server], probe={"kind": "tcp"})])
    assert g.chat().status == 200
    assert [r["prompt"] for r in server.requests()] == ["hello"]


def test_probe_loading_is_waited_for(gate, sim):
    """503 "Loading model" for 2 s is not a failure, and is used within a blink of its end."""
    server = sim(load=2)
    g = gate([static_model("m", [server])])
    r = g.chat()
    assert r.status == 200
    ready = next(q for q in server.requests() if q["status"] == 200)
    (served,) = server.requests(prompts_only=True)
    assert served["begin"] - ready["end"] < 0.1 * proc.SLOW


def test_an_endpoint_that_fails_live_traffic_is_set_aside(gate, sim):
    """Three failures in a row on one of two endpoints: it gets no more until it is proved again."""
    one, other = sim(), sim()
    g = gate([static_model("m", [one, other], probe={"interval": "200ms"})])
    proc.wait_for(lambda: len([e for e in g.model_status()["endpoints"] if e["state"] == "serving"]) == 2, 10, "two serve")
    g.warm()
    bad = one if one.executions() else other
    bad.config(fault="reset-before")
    statuses = [g.chat(text=f"r{i}").status for i in range(40)]
    assert set(statuses) <= {200, 502}
    assert statuses.count(502) == 3, statuses
    assert statuses[-10:] == [200] * 10
    bad.config(fault="none")
    proc.wait_for(lambda: len([e for e in g.model_status()["endpoints"] if e["state"] == "serving"]) == 2, 10, "it serves again")


def test_the_last_endpoint_is_not_set_aside(gate, sim):
    """With one endpoint failures are passed on, and it goes on being asked."""
    server = sim()
    g = gate([static_model("m", [server])])
    g.warm()
    server.config(fault="reset-before", fault_count=6)
    assert [g.chat().status for _ in range(6)] == [502] * 6
    assert g.chat().status == 200


def test_upstream_key_goes_with_probe_and_request(gate, sim, tmp_path):
    """The model server's own key is sent to it, the tenant's never."""
    secret = tmp_path / "key"
    secret.write_text("server-secret\n")
    server = sim()
    tenants = [{"name": "t", "keys": [{"sha256": proc.sha256("tenant-secret")}]}]
    g = gate([static_model("m", [server], upstreamKey={"file": str(secret)})], tenants=tenants)
    waiting = Background(g.chat, headers=[("Authorization", "Bearer tenant-secret"), ("x-api-key", "tenant-secret")])
    assert waiting.result().status == 200
    for request in server.requests():
        headers = {k.lower(): v for k, v in request["headers"]}
        assert headers["authorization"] == "Bearer server-secret"
        assert "tenant-secret" not in str(headers)
    assert "server-secret" not in g.process.log()
