"""Who asks: keys, tenants, what each may use."""

import pytest

from harness import proc
from harness.gate import static_model

TENANTS = [
    {"name": "a", "keys": [{"sha256": proc.sha256("key-a")}, {"sha256": proc.sha256("key-a2")}], "models": ["one"]},
    {"name": "b", "keys": [{"sha256": proc.sha256("key-b")}]},
]


@pytest.fixture
def gated(gate, sim):
    server = sim()
    return gate([static_model("one", [server]), static_model("two", [server])], tenants=TENANTS), server


def bearer(key):
    return [("Authorization", f"Bearer {key}")]


def test_keys(gated):
    """Bearer, x-api-key and api-key; several keys of one tenant; the same key twice is one key."""
    g, server = gated
    for headers in (
        bearer("key-a"),
        bearer("key-a2"),
        [("authorization", "bearer key-a")],
        [("x-api-key", "key-a")],
        [("api-key", "key-a")],
        bearer("key-a") + [("x-api-key", "key-a")],
    ):
        assert g.chat("one", headers=headers).status == 200, headers
    assert g.metric("wakegate_tenant_requests_total", tenant="a", outcome="ok") == 6
    for request in server.requests(prompts_only=True):
        names = {k.lower() for k, _ in request["headers"]}
        assert not names & {"authorization", "x-api-key", "api-key"}, "the tenant's key stays here"


@pytest.mark.parametrize(
    "headers", [[], bearer("nobody"), bearer(""), [("Authorization", "Basic a2V5LWE6")], [("x-api-key", "key-aa")]]
)
def test_no_or_unknown_key_is_401(gated, headers):
    """401 in OpenAI's shape."""
    g, _ = gated
    r = g.chat("one", headers=headers)
    assert (r.status, r.code) == (401, "invalid_api_key")
    assert r.json()["error"]["type"] == "invalid_request_error"


def test_401_on_messages_has_anthropics_shape(gated):
    """/v1/messages: type error, authentication_error, request_id."""
    g, _ = gated
    r = g.call("POST", "/v1/messages", {"model": "one", "messages": []})
    assert r.status == 401
    body = r.json()
    assert body["type"] == "error" and body["error"]["type"] == "authentication_error"
    assert body["request_id"] == r.header("x-request-id")


def test_two_different_keys_are_400(gated):
    """Two keys: nobody can tell whose request it is."""
    g, _ = gated
    for headers in (bearer("key-a") + [("x-api-key", "key-b")], bearer("key-a") + bearer("key-b")):
        r = g.chat("one", headers=headers)
        assert (r.status, r.code) == (400, "invalid_request")


def test_models_of_a_tenant(gated):
    """403 for what it may not use, and the list has only what it may."""
    g, _ = gated
    r = g.chat("two", headers=bearer("key-a"))
    assert (r.status, r.code) == (403, "model_not_allowed")
    assert [m["id"] for m in g.call("GET", "/v1/models", headers=bearer("key-a")).json()["data"]] == ["one"]
    assert g.call("GET", "/v1/models/two", headers=bearer("key-a")).status in (403, 404)
    assert g.chat("two", headers=bearer("key-b")).status == 200


def test_a_refusal_comes_before_the_body_is_read(gated):
    """401 while a large body is still to come, then a close."""
    g, _ = gated
    with g.client() as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
        r = client.response(timeout=2)
        assert r.status == 401 and r.header("connection") == "close"


def test_anonymous(gate, sim):
    """anonymous: allow gives requests without a key to the tenant of that name; a wrong key stays wrong."""
    tenants = [*TENANTS, {"name": "anonymous", "models": ["one"]}]
    server = sim()
    models = [static_model("one", [server]), static_model("two", [server])]
    g = gate(models, tenants=tenants, anonymous="allow")
    assert g.chat("one").status == 200
    assert g.chat("two").status == 403
    assert g.chat("one", headers=bearer("wrong")).status == 401
    denied = gate(models, tenants=tenants, anonymous="deny")
    assert denied.chat("one").status == 401


def test_a_key_in_a_file(gate, sim, tmp_path):
    """keys: file: the first line is the key."""
    (tmp_path / "key").write_text("from-a-file\n")
    g = gate([static_model("m", [sim()])], tenants=[{"name": "t", "keys": [{"file": str(tmp_path / "key")}]}])
    assert g.chat(headers=bearer("from-a-file")).status == 200
    assert g.chat(headers=bearer("from-a-file\n".strip() + "x")).status == 401


def test_an_open_gate_looks_at_no_key(gate, sim):
    """No tenants: everybody is the tenant default, whatever key an SDK had to be given."""
    g = gate([static_model("m", [sim()])])
    assert g.chat(headers=bearer("anything")).status == 200
    assert g.metric("wakegate_tenant_requests_total", tenant="default", outcome="ok") == 1


def test_names_cannot_be_tried_without_a_key(gate, sim):
    """A model that there is and one that there is not look alike to who has no key."""
    g = gate([static_model("m", [sim()])], tenants=[{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}])
    for name in ("m", "nobody"):
        assert g.call("GET", f"/v1/models/{name}").status == 401
        assert g.call("POST", f"/models/{name}/v1/chat/completions", body=b"{}").status == 401
    key = [("Authorization", "Bearer k")]
    assert g.call("GET", "/v1/models/nobody", headers=key).status == 404
    assert g.call("POST", "/models/nobody/v1/chat/completions", headers=key, body=b"{}").status == 404
