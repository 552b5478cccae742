"""HTTP/2 as its users speak it: curl, nghttp, h2load, and a browser."""

import json
import subprocess

import pytest

from harness import proc
from harness.browser import Browser
from harness.certificates import Authority, client_context, local_pair
from harness.gate import process_model, static_model
from harness.http1 import chat
from harness.http2 import Connection

KEY = {"tenants": [{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}]}


@pytest.fixture(params=["cleartext", "tls"])
def secure(request, tmp_path):
    """(tls= of the gate, its base URL)."""
    if request.param == "cleartext":
        return None, lambda g: g.url()
    return local_pair(tmp_path), lambda g: g.tls_url()


def run(*argv, timeout=60):
    done = subprocess.run(
        [str(a) for a in argv], capture_output=True, text=True, timeout=timeout, check=False, errors="replace"
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done


def body_file(folder, body):
    file = folder / "body.json"
    file.write_text(json.dumps(body))
    return file


def curl(url, file, *more):
    version = "--http2" if url.startswith("https") else "--http2-prior-knowledge"
    return run("curl", "-sS", "-k", version, "--max-time", 30, "--data-binary", f"@{file}",
               "-w", "\n%{http_version} %{http_code}", *more, f"{url}/v1/chat/completions")


def test_curl(gate, sim, tmp_path, secure):
    """An upload of 2 MiB to a cold model, with Expect or without; a stream; early answers to an upload."""
    tls, url_of = secure
    server = sim(load=1)
    g = gate([static_model("m", [server])], tls=tls, **KEY)
    url, key = url_of(g), ["-H", "Authorization: Bearer k"]
    large = body_file(tmp_path, chat(text="x" * (2 << 20)))
    assert curl(url, large, *key).stdout.splitlines()[-1] == "2 200"
    done = curl(url, large, *key, "-v", "-H", "Expect: 100-continue")
    assert "HTTP/2 100" in done.stderr and done.stdout.splitlines()[-1] == "2 200"
    streamed = curl(url, body_file(tmp_path, chat(stream=True)), *key, "-N").stdout
    assert "data: [DONE]" in streamed and streamed.splitlines()[-1] == "2 200"
    huge = body_file(tmp_path, chat(text="x" * (20 << 20)))
    for _ in range(3):
        refused = curl(url, huge).stdout
        assert '"invalid_api_key"' in refused and refused.splitlines()[-1] == "2 401", "the answer is not lost"
    huge.write_text(" " * (33 << 20))
    refused = curl(url, huge, *key).stdout
    assert '"body_too_large"' in refused and refused.splitlines()[-1] == "2 413"
    if tls:
        done = run("curl", "-sS", "-k", "--http1.1", "-w", "\n%{http_version}", *key, f"{url}/v1/models")
        assert done.stdout.splitlines()[-1] == "1.1"


def test_nghttp(gate, sim, tmp_path, secure):
    """The library's own client: priorities, several requests at once, a held stream, no error of the protocol."""
    tls, url_of = secure
    g = gate([static_model("m", [sim(load=1)])], tls=tls)
    done = run("nghttp", "-nv", "-m", 5, "-t", 30, "-d", body_file(tmp_path, chat(stream=True)),
               f"{url_of(g)}/v1/chat/completions")
    assert done.stdout.count(":status: 200") == 5, done.stdout[-2000:]
    assert "RST_STREAM" not in done.stdout and "error_code=NO_ERROR" in done.stdout, done.stdout[-2000:]


def test_h2load(gate, sim, tmp_path, secure):
    """600 requests over 4 connections × 20 streams: all succeed."""
    tls, url_of = secure
    g = gate([static_model("m", [sim()], concurrency={"perEndpoint": 128, "rampStart": 128})], tls=tls)
    done = run("h2load", "-n", 600, "-c", 4, "-m", 20, "-d", body_file(tmp_path, chat()), f"{url_of(g)}/v1/chat/completions")
    assert "600 done, 600 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout
    assert "status codes: 600 2xx" in done.stdout, done.stdout


def test_alpn_chooses(gate, sim, tmp_path):
    """h2 where the client has it, else http/1.1, also for one that says nothing; held streams over one TLS connection."""
    ca = Authority(tmp_path)
    g = gate([process_model("m", sim={"load": 1})], tls=ca.issue("localhost", "DNS:localhost"))
    with Connection(g.tls_port, tls=client_context(ca.file, alpn=("h2", "http/1.1"))) as client:
        assert client.alpn == "h2"
        streams = [client.request(body=chat(text=f"n{i}" + "x" * 65536)) for i in range(50)]
        assert [s.response().status for s in streams] == [200] * 50
        assert client.goaways == []
    for options, version in (("--http1.1", "1.1"), ("--no-alpn", "1.1"), ("--http2", "2")):
        done = run("curl", "-sS", "-k", options, "-w", "\n%{http_version}", f"{g.tls_url()}/v1/models")
        assert done.stdout.splitlines()[-1] == version


FETCH = """
(async () => {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(%s),
  });
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "", pieces = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces += 1;
    text += decoder.decode(value, { stream: true });
  }
  const protocols = ["navigation", "resource"].map((type) => performance.getEntriesByType(type).pop().nextHopProtocol);
  return { status: response.status, type: response.headers.get("content-type"), text, pieces, protocols };
})()
"""


def test_chromium(gate, tmp_path):
    """A page in a real browser fetches a stream from a model that is cold: over HTTP/2, piece by piece, to its end."""
    heartbeat = {"heartbeat": {"after": "200ms", "every": "200ms"}}
    g = gate([process_model("m", sim={"load": 1, "tokens_per_second": 40}, hold=heartbeat)], tls=local_pair(tmp_path))
    with Browser(tmp_path, f"{g.tls_url()}/v1/models") as page:
        result = page.run(FETCH % json.dumps(chat(stream=True)))
        assert result["status"] == 200 and result["type"].startswith("text/event-stream")
        assert result["protocols"] == ["h2", "h2"]
        assert ": keepalive" in result["text"] and result["text"].endswith("data: [DONE]\n\n")
        assert result["pieces"] > 8
        answers = page.run(f"Promise.all(Array.from({{ length: 20 }}, () => {(FETCH % json.dumps(chat(max_tokens=1))).strip()}))")
        assert [a["status"] for a in answers] == [200] * 20
