"""A real llama-server as a process target: cold, held, proved, streamed with usage, idled out."""

import os
import stat

import pytest

from harness import proc
from harness.crowd import crowd
from harness.http1 import chat, request_bytes

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def llama(gate, real_part):
    port = proc.free_port()
    server, weights = real_part("WAKEGATE_LLAMA_SERVER"), real_part("WAKEGATE_GGUF")
    assert os.stat(server).st_mode & stat.S_IXUSR
    command = [server, "-m", weights, "--host", "127.0.0.1", "--port", "{port}", "-c", "2048", "-np", "2", "-t", "1"]
    model = {
        "name": "tiny",
        "target": {"process": {"command": command, "port": port, "stopTimeout": "5s"}},
        "concurrency": {"perEndpoint": 2, "rampStart": 2},
        "idle": {"timeout": "2s"},
    }
    return gate([model]), port


def test_a_real_model_server(llama):
    """12 requests at a cold llama-server, plain and streamed, then the idle stop, then the same again."""
    g, port = llama
    cap = {"max_tokens": 8, "ignore_eos": True}
    for _ in range(2):
        requests = [
            request_bytes(body=chat("tiny", f"count to {i}", **cap, stream=True, stream_options={"include_usage": True}))
            if i % 2 == 0
            else request_bytes(body=chat("tiny", f"count to {i}", **cap))
            for i in range(12)
        ]
        g.wait_state("cold", "tiny")
        visits = crowd(g.port, requests, timeout=80)
        assert [v.status for v in visits] == [200] * 12, [v.response.body[:300] for v in visits if v.status != 200]
        for i, visit in enumerate(visits):
            r = visit.response
            assert 'desc="cold"' in r.header("server-timing")
            if i % 2 == 0:
                assert r.events()[-1] == "[DONE]"
                usage = [c["usage"] for c in r.chunks() if c.get("usage")][-1]
            else:
                usage = r.json()["usage"]
            assert usage["completion_tokens"] == 8
            assert usage["total_tokens"] == usage["prompt_tokens"] + 8
        g.wait_state("cold", "tiny")
        assert not proc.processes_with(f"--port {port}")
    assert g.wakes("ok", "tiny") == 2
    start = g.model_status("tiny")["last_starts"][0]
    assert set(start["phases"]) == {"started", "listening", "answering"}


def test_completions_and_embeddings_paths_of_a_real_server(llama):
    """The other paths of a real server work the same."""
    g, _ = llama
    r = g.call("POST", "/v1/completions", {"model": "tiny", "prompt": "one two", "max_tokens": 4, "ignore_eos": True}, timeout=80)
    assert r.status == 200 and r.json()["usage"]["completion_tokens"] == 4
    r = g.call("POST", "/tokenize", {"model": "tiny", "content": "the of and"})
    assert r.status == 200 and len(r.json()["tokens"]) >= 3


def test_a_client_that_leaves_stops_the_real_server(llama):
    """Mid-stream disconnect: the server's slot is idle again long before it could have finished."""
    g, port = llama
    g.chat("tiny", max_tokens=1, timeout=80)
    with g.client() as client:
        client.request(body=chat("tiny", "go on", max_tokens=1900, ignore_eos=True, stream=True))
        client.response(until=lambda r: len(r.pieces) > 3)
    g.wait_inflight(0, "tiny")
    from harness.http1 import call

    proc.wait_for(
        lambda: not any(s.get("is_processing") for s in call(port, "GET", "/slots").json()), 3, "the server's slots are idle"
    )
