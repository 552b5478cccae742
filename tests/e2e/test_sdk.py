"""The official openai SDKs, for Node and Python, as their users call them."""

import json
import os
import subprocess

import pytest

from harness import proc
from harness.certificates import local_pair
from harness.gate import process_model, static_model

HERE = os.path.dirname(os.path.abspath(__file__))
SDKS = {
    "node": (["node", os.path.join(HERE, "sdk/ask.mjs")], os.path.join(HERE, "node_modules/openai/package.json")),
    "python": (
        [os.path.join(HERE, ".venv/bin/python"), os.path.join(HERE, "sdk/ask.py")],
        os.path.join(HERE, ".venv/bin/python"),
    ),
}


@pytest.fixture(params=SDKS)
def ask(request):
    """ask(gate, mode, **options): one chat completion; what the SDK made of it."""
    argv, installed = SDKS[request.param]
    if not os.path.exists(installed):
        assert os.environ.get("CI") != "true", f"the {request.param} SDK must be installed under CI: scripts/test does it"
        pytest.skip(f"the {request.param} SDK is not installed: scripts/test does it")

    def run(g, mode, url=None, **options):
        done = subprocess.run(
            [*argv, f"{url or g.url()}/v1", mode, json.dumps(options)],
            capture_output=True, text=True, timeout=100, check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    run.name = request.param
    return run


TEXT = "the model was asleep, now it is awake and counts the model was asleep, now it "


@pytest.mark.parametrize("mode", ["plain", "stream"])
@pytest.mark.parametrize("heartbeat", ["heartbeat", "silent"])
def test_held_for_20_seconds(gate, ask, mode, heartbeat):
    """A call at a model that takes 20 s to load, with and without heartbeat: the SDK's user just gets the answer."""
    hold = {"heartbeat": {"after": "2s" if heartbeat == "heartbeat" else "0s", "every": "2s"}}
    g = gate([process_model("m", sim={"load": 20}, hold=hold)])
    result = ask(g, mode)
    assert result["error"] is None, result
    assert result["text"] == TEXT
    assert result["usage"]["completion_tokens"] == 16
    assert result["seconds"] > 19
    if mode == "stream":
        assert result["chunks"] == 18, "tokens, the end, the usage; no comment is taken for a chunk"


def test_a_refusal_is_the_sdks_own_error(gate, ask):
    """401 and 404 come out as the SDK's exceptions, with their status and code."""
    g = gate([process_model("m")], tenants=[{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}])
    result = ask(g, "plain", key="wrong")
    assert "AuthenticationError" in result["error"] and result["status"] == 401
    result = ask(g, "plain", key="k", model="nobody")
    assert "NotFoundError" in result["error"] and result["code"] == "model_not_found"


def test_an_error_after_the_heartbeat_is_raised(gate, ask):
    """The wake fails when the stream has begun: the SDK raises."""
    run = {"process": {"command": ["sh", "-c", "sleep 3; exit 9 # {port}"]}}
    g = gate([process_model("m", target=run, hold={"heartbeat": {"after": "1s", "every": "1s"}})])
    result = ask(g, "stream")
    assert result["error"] and "APIError" in result["error"], result


def test_a_stream_that_breaks_is_raised(gate, ask, sim):
    """A stream that breaks at the model raises in the SDK: no truncated text looks whole."""
    g = gate([static_model("m", [sim(fault="truncate", fault_after=1)])])
    result = ask(g, "stream")
    assert result["error"], result
    assert result["chunks"] == 8


def test_hold_01_retries_of_an_sdk_run_once(gate, ask, sim):
    """HOLD-01: timeout 3 s and 2 retries against a model that is ready at 8 s: at most one copy is executed."""
    server = sim(load=8)
    g = gate([static_model("m", [server])])
    result = ask(g, "plain", timeout=3, maxRetries=2)
    g.wait_held(0)
    assert server.executions() == (1 if result["error"] is None else 0), result


def test_over_http_2(gate, ask, sim, tmp_path):
    """The same calls over HTTP/2, by ALPN and, where the SDK can, by prior knowledge: answers, streams, and errors in their
    own shape."""
    tenants = [{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}]
    g = gate([static_model("m", [sim(load=1)])], tls=local_pair(tmp_path), tenants=tenants)
    for url in (g.tls_url(), g.url()) if ask.name == "python" else (g.tls_url(),):
        for mode in ("plain", "stream"):
            result = ask(g, mode, url=url, http2=True, key="k")
            assert result["error"] is None, result
            assert result["text"] == TEXT and result["usage"]["completion_tokens"] == 16
            assert result["protocol"] in ("HTTP/2", "h2"), result
        result = ask(g, "plain", url=url, http2=True, key="wrong")
        assert "AuthenticationError" in result["error"] and result["status"] == 401
