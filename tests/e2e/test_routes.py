"""Which path leads where, and what of a request is changed on its way."""

import json
import time
from hashlib import sha256

import pytest

from harness.backend import answer
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import chat


@pytest.fixture
def front(gate, backend):
    """Three names on one backend that remembers what it got."""
    b = backend()
    g = gate(
        [
            static_model("plain", [b], aliases=["gpt-4o", "team/alias"], maxBodyBytes="1Mi"),
            static_model("org/model:8b", [b], upstreamModel="real-name"),
            static_model("org", [b]),
        ]
    )
    for name in ("plain", "org/model:8b", "org"):
        g.warm(name)
    b.requests.clear()
    return g, b


def test_aliases_go_as_they_were_sent(front):
    """An alias finds the model; without upstreamModel the body is not touched."""
    g, b = front
    for name in ("plain", "gpt-4o", "team/alias"):
        body = json.dumps(chat(name)).encode()
        assert g.call(body=body).status == 200
        assert b.requests[-1].body == body


def test_upstream_model_replaces_the_name_and_nothing_else(front):
    """Every byte but those of the name's string is as sent, escapes and spacing too; the length is right."""
    g, b = front
    for before in (
        b'{"model": "org/model:8b", "messages": [] }',
        b'{ "messages":[{"role":"user","content":"\\u00e9 \\"model\\":\\"org\\""}],\n\t"model"\t:  "org/model:8b" }\n',
        b'{"x":{"model":"inner"},"model":"org\\/model:8b"}',
        b'{"\\u006dodel":"org/model:8b","y":1.50e+3}',
    ):
        for kw in ({}, {"chunked": True}):
            r = g.call(body=before, **kw)
            assert r.status == 200, (before, r.body)
            seen = b.requests[-1]
            after = before.replace(b'"org/model:8b"', b'"real-name"').replace(b'"org\\/model:8b"', b'"real-name"')
            assert seen.body == after
            assert seen.header("content-length") == str(len(after))
            assert seen.header("transfer-encoding") is None


def test_models_path(front):
    """/models/{name}/…: the longest name that fits, raw or encoded; the body may name anything, or not be JSON."""
    g, b = front
    for path, status, model in (
        ("/models/org/model:8b/v1/chat/completions", 200, "real"),
        ("/models/org%2Fmodel%3A8b/v1/chat/completions", 200, "real"),
        ("/models/org/v1/chat/completions", 200, "org"),
        ("/models/gpt-4o/v1/chat/completions", 200, "plain"),
        ("/models/plain/v1/audio/transcriptions", 200, "plain"),
        ("/models/plain/v1/audio/a/b", 404, None),
        ("/models/plain/sleep", 404, None),
        ("/models/plain/", 404, None),
        ("/models/nobody/v1/chat/completions", 404, None),
    ):
        b.requests.clear()
        r = g.call("POST", path, b"raw bytes", [("Content-Type", "application/octet-stream")])
        assert r.status == status, (path, r.status, r.body)
        if status == 200:
            assert b.requests[0].path == path[path.index("/v1") :]
            assert b.requests[0].body == b"raw bytes"
            assert g.outcome("ok", {"real": "org/model:8b", "org": "org", "plain": "plain"}[model]) >= 2
        else:
            assert b.requests == []
    r = g.call("GET", "/models/plain/v1/audio/voices?lang=en&x=%2F")
    assert r.status == 200
    assert (b.requests[-1].method, b.requests[-1].path) == ("GET", "/v1/audio/voices?lang=en&x=%2F")
    assert g.call("HEAD", "/models/plain/v1/audio/voices").status == 200


def test_queries_go_along(front):
    """The query string of an inference path is passed on as sent."""
    g, b = front
    assert g.call("POST", "/v1/chat/completions?api-version=1&a=b%20c", chat("plain")).status == 200
    assert b.requests[-1].path == "/v1/chat/completions?api-version=1&a=b%20c"


def multipart(name, first=b"", boundary=b"xYzZY"):
    return b"".join(
        [
            first,
            b'--%s\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n' % boundary,
            b'RIFF\r\n--xYzZ not the boundary name="model"\r\n',
            b'\r\n--%s\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n--%s--\r\n' % (boundary, name, boundary),
        ]
    )


def test_multipart_model_field(front):
    """multipart/form-data: the model field is read, renamed where asked; the file is untouched."""
    g, b = front
    headers = [("Content-Type", 'multipart/form-data; boundary="xYzZY"')]
    for name, after in ((b"plain", b"plain"), (b"org/model:8b", b"real-name")):
        r = g.call("POST", "/v1/audio/transcriptions", multipart(name), headers)
        assert r.status == 200, r.body
        assert b.requests[-1].body == multipart(after)
    r = g.call("POST", "/v1/audio/transcriptions", multipart(b"nobody"), headers)
    assert (r.status, r.code) == (404, "model_not_found")
    r = g.call("POST", "/v1/audio/transcriptions", multipart(b"plain")[:-30], headers)
    assert (r.status, r.code) == (400, "invalid_request")


def test_json_is_read_whatever_the_content_type_says(front):
    """text/plain, none, a form: the body decides."""
    g, b = front
    for headers in ([], [("Content-Type", "text/plain")], [("Content-Type", "application/x-www-form-urlencoded")]):
        assert g.call(body=chat("plain"), headers=headers).status == 200
        assert b.requests[-1].header("content-type") == (headers[0][1] if headers else None)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v2/unknown", 404, "not_found"),
        ("POST", "/v1/load_lora_adapter", 404, "not_found"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
        ("POST", "//v1/chat/completions", 404, "not_found"),
        ("POST", "/v1/../v1/chat/completions", 404, "not_found"),
        ("PUT", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/models/nobody", 404, "model_not_found"),
    ],
)
def test_unknown_paths_and_methods(front, method, path, status, code):
    """404 and 405, the latter with Allow; the backend sees nothing."""
    g, b = front
    r = g.call(method, path, chat("plain"))
    assert (r.status, r.code) == (status, code)
    if status == 405:
        assert r.header("allow")
    assert b.requests == []


def test_sizes_and_encodings(front):
    """413 above the model's own limit, 415 for an encoded body, both before anything reaches the model."""
    g, b = front
    r = g.call(body=chat("plain", "x" * (1 << 20)))
    assert (r.status, r.code) == (413, "body_too_large")
    late = b'{"messages": [{"role": "user", "content": "%s"}], "model": "plain"}' % (b"x" * (1 << 20))
    r = g.call(body=late, chunked=True)  # no length announced, and the name at the very end
    assert (r.status, r.code) == (413, "body_too_large")
    r = g.call(body=b"\x1f\x8b\x08", headers=[("Content-Encoding", "gzip")])
    assert (r.status, r.code) == (415, "unsupported_encoding")
    assert g.call(body=chat("plain"), headers=[("Content-Encoding", "identity")]).status == 200
    assert len(b.requests) == 1


def test_accept_encoding_of_plain_answers(front, gate, backend):
    """An answer's own headers come back as the model sent them, hop-by-hop ones left out."""
    def handle(peer, _):
        return peer.send(answer(headers=[("X-Model", "yes"), ("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"),
                                         ("Keep-Alive", "timeout=5"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]))
    b = backend(handle)
    g = gate([static_model("m", [b])])
    r = g.chat()
    assert r.header("x-model") == "yes"
    assert r.header("x-hop") is None and r.header("keep-alive") is None
    assert [v for k, v in r.headers if k.lower() == "set-cookie"] == ["a=1", "b=2"]
    assert r.header("x-request-id")


def test_prefer_wait(gate):
    """Prefer: wait below the learned start: 503 model_cold at once, and the wake goes on; above it: held."""
    g = gate([process_model("m", sim={"load": 2})])
    g.warm()
    g.order("sleep")
    g.wait_state("cold")
    began = time.monotonic()
    r = g.chat(headers=[("Prefer", "respond-async, wait=1")])
    assert (r.status, r.code) == (503, "model_cold")
    assert time.monotonic() - began < 0.5
    assert 1 <= int(r.header("retry-after")) <= 5
    g.wait_state("warm")
    g.order("sleep")
    g.wait_state("cold")
    assert g.chat(headers=[("Prefer", "wait=30")]).status == 200


def test_prefer_wait_bounds_a_hold_of_unknown_length(gate):
    """No start was seen yet: held as long as the client is ready to wait, not longer."""
    g = gate([process_model("m", sim={"load": 600})])
    began = time.monotonic()
    r = g.chat(headers=[("Prefer", "wait=2")])
    assert r.status == 503 and r.code in ("model_cold", "model_wake_timeout")
    assert 1 < time.monotonic() - began < 3


@pytest.mark.parametrize("header", ["x-stainless-read-timeout", "x-stainless-timeout"])
def test_announced_waits_of_the_sdks(gate, header):
    """What an SDK announces, less a margin, bounds a hold without heartbeat: the answer is there before it gives up."""
    g = gate([process_model("m", sim={"load": 600})])
    began = time.monotonic()
    r = g.chat(headers=[(header, "2")])
    took = time.monotonic() - began
    assert (r.status, r.code) == (503, "model_wake_timeout")
    assert 1 < took < 2


def test_silent_timeout(gate):
    """hold.silentTimeout bounds what gets no heartbeat; one with heartbeat waits for hold.timeout."""
    hold = {"timeout": "4s", "silentTimeout": "1s", "heartbeat": {"after": "500ms", "every": "500ms"}}
    g = gate([process_model("m", sim={"load": 600}, hold=hold)])
    streamed = Background(g.chat, stream=True)
    began = time.monotonic()
    r = g.chat()
    assert (r.status, r.code) == (503, "model_wake_timeout")
    assert 0.9 < time.monotonic() - began < 2
    r = streamed.result()
    assert r.status == 200 and "model_wake_timeout" in r.events()[-1]
    assert time.monotonic() - began > 3.5


def test_gateway_header_of_a_trusted_peer(gate, backend):
    """x-gateway-model-name chooses the model, from trusted peers only; a body that disagrees is 400."""
    b = backend()
    models = [static_model("m", [b]), static_model("other", [b])]
    trusted = gate(models, trustedPeers=["127.0.0.0/8"])
    header = [("x-gateway-model-name", "m")]
    assert trusted.call(body=chat("m"), headers=header).status == 200
    r = trusted.call(body=chat("other"), headers=header)
    assert (r.status, r.code) == (400, "invalid_request")
    r = trusted.chat("m", headers=[("X-Forwarded-For", "10.1.2.3"), ("X-Forwarded-Proto", "https")])
    assert b.requests[-1].header("x-forwarded-for") == "10.1.2.3, 127.0.0.1"
    assert b.requests[-1].header("x-forwarded-proto") == "https"
    untrusted = gate(models)
    assert untrusted.call(body=chat("other"), headers=header).status == 200
    assert untrusted.outcome("ok", "other") == 1


def test_a_large_body_is_passed_on_whole(front):
    """900 KiB, byte for byte, while others go through."""
    g, b = front
    body = json.dumps(chat("plain", "z" * 900000)).encode()
    runs = [Background(g.call, body=body) for _ in range(8)]
    assert [r.result().status for r in runs] == [200] * 8
    assert {sha256(q.body).hexdigest() for q in b.requests} == {sha256(body).hexdigest()}


def test_a_named_model_and_a_body_that_names_another(gate, backend):
    """Whatever the Content-Type says: nobody gets past the models of a tenant by a path that disagrees with the body."""
    b = backend()
    g = gate([static_model("a", [b]), static_model("a/b", [b])])
    for kind in ("application/json", "text/plain", None):
        headers = [("Content-Type", kind)] if kind else []
        r = g.call("POST", "/models/a/v1/embeddings", headers=headers, body=b' {"model": "a/b", "input": "x"}')
        assert (r.status, r.code) == (400, "invalid_request"), kind
    r = g.call("POST", "/v1/chat/completions", body=b'{"model": "no`body", "messages": []}')
    assert (r.status, r.code) == (404, "model_not_found") and "no`body" in r.json()["error"]["message"]
