"""TLS at the front: certificates and their change, who may come in, and that all of HTTP works behind it (area J)."""

import contextlib
import fcntl
import hashlib
import http.server
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time

import pytest

from harness import proc
from harness.backend import SSE_HEAD, chunk
from harness.certificates import Authority, Mount, TlsClient, client_context, tls_options
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import Client, chat, request_bytes
from harness.http2 import SETTINGS, Connection

SPIFFE = "spiffe://example/search"


@pytest.fixture(scope="session")
def ca(tmp_path_factory):
    """The CA of servers and clients, with a.test issued."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    authority.issue("a.test", "DNS:a.test")
    return authority


@pytest.fixture(scope="session")
def other_ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other-ca"), "other-ca")


@pytest.fixture
def secure(gate):
    """secure(models, tls, **config): a gate with a second listener, g.tls_port, that has these tls options."""

    def make(models, tls, start=True, **config):
        g = gate(models, start=False, **config)
        g.tls_port = proc.free_port()
        g.more["listeners"] = listeners(g, tls)
        g.write()
        if start:
            g.start()
        return g

    return make


def listeners(g, tls, cleartext=None):
    """Both listeners of the gate, with what each presents."""
    found = [{"address": f"127.0.0.1:{g.port}"}, {"address": f"127.0.0.1:{g.tls_port}"}]
    for one, options in zip(found, (cleartext, tls)):
        if options:
            one["tls"] = options
    return found


def reload_with(g, tls, cleartext=None, result="ok"):
    """Reloads with other listeners, and waits for the result."""
    before = g.metric("wakegate_config_reloads_total", result=result)
    g.more["listeners"] = listeners(g, tls, cleartext)
    g.write()
    g.process.signal(signal.SIGHUP)
    proc.wait_for(lambda: g.metric("wakegate_config_reloads_total", result=result) > before, 10, f"a reload: {result}")


def renewals(g, result):
    return g.metric("wakegate_tls_reloads_total", result=result)


def shown(g, ca, name="a.test", **kw):
    """CN of the certificate that a new connection sees."""
    with TlsClient(g.tls_port, client_context(ca.file), name, **kw) as client:
        return client.served


def refused(g, context, **kw):
    """True if no request gets through: the handshake fails, or (TLS 1.3) the first thing read is the refusal."""
    try:
        with TlsClient(g.tls_port, context, **kw) as client:
            client.request(body=chat())
            return client.response(10).status == 0
    except (ssl.SSLError, ConnectionError):
        return True


# ---- certificates that change ----


def test_tls_01_certificates_change_while_requests_run(secure, ca, tmp_path):
    """TLS-01: ..data is swapped while 10 wait and 5 stream: new handshakes show the new certificate, nothing drops;
    a half-written or mismatched pair keeps the old one, and is counted once."""
    first, second, third = (ca.issue(name, "DNS:a.test") for name in ("first", "second", "third"))
    models = [
        process_model("cold", sim={"load": 4}),
        process_model("warm", sim={"tokens": 60, "tokens_per_second": 15}, concurrency={"perEndpoint": 16}),
    ]
    mount = Mount(tmp_path / "mounted", tls_crt=first[0], tls_key=first[1])
    g = secure(models, tls_options((mount / "tls.crt", mount / "tls.key")))
    context = client_context(ca.file)
    assert g.chat("warm", max_tokens=1).status == 200

    def ask(model, **more):
        with TlsClient(g.tls_port, context, timeout=60) as client:
            return client.served, client.call(body=chat(model, **more))

    held = [Background(ask, "cold") for _ in range(10)]
    streams = [Background(ask, "warm", stream=True) for _ in range(5)]
    idle = TlsClient(g.tls_port, context)
    g.wait_held(10, "cold")
    g.wait_inflight(5, "warm")

    mount.swap(tls_crt=second[0], tls_key=second[1])
    proc.wait_for(lambda: shown(g, ca) == "second", 10, "the second certificate")
    assert renewals(g, "ok") == 1
    g.process.wait_log(r"certificates of the listener .* were taken over")
    assert g.held("cold") == 10, "while they wait"

    mount.swap(tls_crt=second[0], tls_key=second[1].read_bytes()[:100])
    proc.wait_for(lambda: renewals(g, "failed") == 1, 10, "the half-written key is counted")
    g.process.wait_log(r"tls\.key.*half-written")
    mount.swap(tls_crt=third[0], tls_key=second[1])
    proc.wait_for(lambda: renewals(g, "failed") == 2, 10, "the mismatched pair is counted")
    g.process.wait_log(r"tls\.key.*not the key of the certificate")
    assert shown(g, ca) == "second"
    mount.swap(tls_crt=third[0], tls_key=third[1])
    proc.wait_for(lambda: shown(g, ca) == "third", 10, "the third certificate")
    assert (renewals(g, "ok"), renewals(g, "failed")) == (2, 2)

    for served, r in [one.result() for one in held]:
        assert (served, r.status) == ("first", 200)
    for served, r in [one.result() for one in streams]:
        assert served == "first" and r.events()[-1] == "[DONE]"
    assert idle.call(body=chat("warm", max_tokens=1)).status == 200, "what was open goes on"
    idle.close()


def test_tls_01_files_written_in_place(secure, ca, sim, tmp_path):
    """Without symlinks too: the certificate is written first, its key a while later. A file that is gone changes nothing."""
    old, new = ca.issue("a.test", "DNS:a.test"), ca.issue("renewed", "DNS:a.test")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(old[0].read_bytes())
    key.write_bytes(old[1].read_bytes())
    g = secure([static_model("m", [sim()])], tls_options((cert, key)))
    cert.write_bytes(new[0].read_bytes())
    proc.wait_for(lambda: renewals(g, "failed") == 1, 10, "half of the pair")
    assert shown(g, ca) == "a.test"
    key.unlink()
    proc.wait_for(lambda: renewals(g, "failed") == 2, 10, "no key at all")
    assert shown(g, ca) == "a.test"
    key.write_bytes(new[1].read_bytes())
    proc.wait_for(lambda: shown(g, ca) == "renewed", 10, "the renewed certificate")
    assert renewals(g, "ok") == 1


def test_tls_01_the_ca_of_clients_changes(secure, ca, other_ca, sim, tmp_path):
    """TLS-01: the CA of the clients rotates: old and new, then only new. Nobody gets in by a session from before."""
    ours, theirs = ca.issue("client", "DNS:client"), other_ca.issue("client", "DNS:client")
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(ca.file.read_bytes())
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test"), ca=bundle))
    old, new = (client_context(ca.file, cert, ssl.TLSVersion.TLSv1_2) for cert in (ours, theirs))
    kept = TlsClient(g.tls_port, old)
    assert kept.call(body=chat()).status == 200
    assert refused(g, new)
    bundle.write_bytes(ca.file.read_bytes() + other_ca.file.read_bytes())
    proc.wait_for(lambda: not refused(g, new), 10, "both are taken")
    assert not refused(g, old)
    bundle.write_bytes(other_ca.file.read_bytes())
    proc.wait_for(lambda: refused(g, old), 10, "the old one is refused")
    assert not refused(g, new)
    assert refused(g, old, session=kept.sock.session)
    assert kept.call(body=chat()).status == 200, "the connection that was open goes on"
    kept.close()


# ---- which certificate, which protocol ----


def test_names_choose_the_certificate(secure, ca, sim):
    """SNI: each name has its certificate, a name before a wildcard; no name and a strange one get the first."""
    pairs = [
        ca.issue("a.test", "DNS:a.test"),
        ca.issue("wild", "DNS:*.b.test"),
        ca.issue("two", "DNS:c.test,DNS:d.b.test"),
    ]
    g = secure([static_model("m", [sim()])], tls_options(*pairs))
    names = {"a.test": "a.test", "x.b.test": "wild", "c.test": "two", "d.b.test": "two", "b.test": "a.test", None: "a.test"}
    assert {name: shown(g, ca, name) for name in names} == names
    for name in ("x.b.test", "c.test"):
        with TlsClient(g.tls_port, client_context(ca.file), name) as client:
            assert client.call(body=chat()).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_versions(secure, ca, sim, version):
    """TLS 1.2 and 1.3 serve, and a session of a connection before is resumed, also across a new certificate."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    context = client_context(ca.file, version=version)
    with TlsClient(g.tls_port, context) as client:
        assert client.sock.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
        assert not client.sock.session_reused
        assert client.call(body=chat()).status == 200
        session = client.sock.session
    reload_with(g, tls_options(ca.issue("renewed", "DNS:a.test")))
    for _ in range(2):
        with TlsClient(g.tls_port, context, session=session) as client:
            assert client.sock.session_reused
            assert client.call(body=chat()).status == 200


@pytest.mark.filterwarnings("ignore:.*TLSv1_1.*:DeprecationWarning")
def test_old_versions_are_refused(secure, ca, sim):
    """TLS 1.1 is not spoken, and CBC suites of 1.2 neither."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    old = client_context(ca.file, version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("ALL:@SECLEVEL=0")
    cbc = client_context(ca.file, version=ssl.TLSVersion.TLSv1_2)
    cbc.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
    for context in (old, cbc):
        with pytest.raises(ssl.SSLError):
            TlsClient(g.tls_port, context)
    assert shown(g, ca) == "a.test"


def test_alpn(secure, ca, sim):
    """h2 is preferred, http/1.1 spoken, no ALPN is HTTP/1.1; who can only speak something else is refused."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    for offered, chosen in ((("http/1.1",), "http/1.1"), (("acme", "http/1.1"), "http/1.1"), ((), None)):
        with TlsClient(g.tls_port, client_context(ca.file, alpn=offered)) as client:
            assert client.sock.selected_alpn_protocol() == chosen
            assert client.call(body=chat()).status == 200
    with Connection(g.tls_port, tls=client_context(ca.file, alpn=("http/1.1", "h2"))) as client:
        assert client.alpn == "h2"
        assert client.chat().status == 200
    with pytest.raises(ssl.SSLError):
        TlsClient(g.tls_port, client_context(ca.file, alpn=("acme",)))


def test_curl(secure, ca, sim):
    """curl speaks HTTP/2 with us when it may, and HTTP/1.1 when it must."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    for option, version in (("--http2", "2"), ("--http1.1", "1.1")):
        done = subprocess.run(
            ["curl", "-sS", option, "--cacert", ca.file, "--resolve", f"a.test:{g.tls_port}:127.0.0.1", "--max-time", "20",
             "-w", "\n%{http_version} %{http_code}", "-d", '{"model":"m","messages":[]}',
             f"https://a.test:{g.tls_port}/v1/chat/completions"],
            capture_output=True, text=True, timeout=60, check=True,
        )
        assert done.stdout.splitlines()[-1] == f"{version} 200"


# ---- client certificates ----


def test_certificates_of_clients_name_tenants(secure, ca, other_ca, backend):
    """Whoever has a certificate of the CA is the tenant of its names, whatever dummy key an SDK insists on; a key of another
    tenant is a conflict. Without such a certificate nobody gets as far as HTTP."""
    b = backend()
    tenants = [
        {"name": "search", "keys": [{"san": SPIFFE}]},
        {"name": "mail", "keys": [{"san": "Mail.Test"}, {"sha256": proc.sha256("mail-key")}]},
    ]
    options = tls_options(ca.issue("a.test", "DNS:a.test"), ca=ca.file)
    g = secure([static_model("m", [b])], options, tenants=tenants)
    search, mail, nobody = (
        client_context(ca.file, ca.issue(name, sans))
        for name, sans in (("search", f"URI:{SPIFFE}"), ("mail", "DNS:mail.test"), ("nobody", "DNS:nobody.test"))
    )

    def ask(context, *headers):
        with TlsClient(g.tls_port, context) as client:
            r = client.call(body=chat(), headers=headers)
            return r.status, r.code

    dummy, key = ("Authorization", "Bearer sk-dummy"), ("x-api-key", "mail-key")
    expected = [
        (search, (), "search"), (search, (dummy,), "search"), (mail, (), "mail"), (mail, (dummy,), "mail"),
        (mail, (key,), "mail"), (nobody, (key,), "mail"),
    ]
    for context, headers, tenant in expected:
        before = g.metric("wakegate_tenant_requests_total", tenant=tenant, outcome="ok")
        assert ask(context, *headers) == (200, None)
        assert g.metric("wakegate_tenant_requests_total", tenant=tenant, outcome="ok") == before + 1
    assert ask(search, key) == (400, "invalid_request"), "two tenants in one request"
    assert ask(nobody) == (401, "invalid_api_key")
    assert ask(nobody, dummy) == (401, "invalid_api_key")
    with Connection(g.tls_port, tls=client_context(ca.file, ca.issue("search", ""), alpn=("h2",))) as client:
        assert [client.chat().status for _ in range(3)] == [200] * 3
    assert refused(g, client_context(ca.file)), "no certificate"
    assert refused(g, client_context(ca.file, other_ca.issue("search", f"URI:{SPIFFE}"))), "another CA's"
    assert g.call(body=chat()).status == 401, "in cleartext nobody has a certificate"
    assert len(b.requests) == len(expected) + 3


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_resumed_session_is_the_same_tenant(secure, ca, sim, version):
    """The certificate of a client is not shown again when its session is resumed; its tenant is known all the same."""
    options = tls_options(ca.issue("a.test", "DNS:a.test"), ca=ca.file)
    g = secure([static_model("m", [sim()])], options, tenants=[{"name": "search", "keys": [{"san": SPIFFE}]}])
    context = client_context(ca.file, ca.issue("search", f"URI:{SPIFFE}"), version)
    session = None
    for count in range(1, 4):
        with TlsClient(g.tls_port, context, session=session) as client:
            assert client.sock.session_reused == (count > 1)
            assert client.call(body=chat()).status == 200
            session = client.sock.session
        assert g.metric("wakegate_tenant_requests_total", tenant="search", outcome="ok") == count


# ---- those who do not speak TLS ----


def test_other_protocols_and_garbage(secure, ca, sim):
    """Plain HTTP, HTTP/2's preface and garbage on the TLS port are closed at once, and so is TLS on the port in cleartext;
    nobody else notices."""
    server = sim(tokens=40, tokens_per_second=20)
    g = secure([static_model("m", [server])], tls_options(ca.issue("a.test", "DNS:a.test")))
    g.chat(max_tokens=1)
    with TlsClient(g.tls_port, client_context(ca.file)) as stream:
        stream.request(body=chat(stream=True))
        g.wait_inflight(1)
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        for port, octets in (
            (g.tls_port, request_bytes(body=chat())),
            (g.tls_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            (g.tls_port, os.urandom(4096)),
            (g.tls_port, b"\x80\x2e\x01\x03\x01" + bytes(60)),
            (g.tls_port, hello + b"\xff" * 600),
            (g.tls_port, b"\x16\x03\x01\xff\xff" + bytes(70000)),
            (g.port, client_hello(ca)),
        ):
            with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(octets)
                assert ends(sock, 5 * proc.SLOW)
        r = stream.response()
        assert r.events()[-1] == "[DONE]" and not r.broken
    assert g.chat(max_tokens=1).status == 200


def ends(sock, seconds):
    """True if the peer ends the connection in that time, whatever it says before."""
    sock.settimeout(seconds)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except socket.timeout:
        return False
    return True


def test_handshakes_that_never_end(secure, ca, sim):
    """Silence, a part of a hello, and one that comes byte by byte are closed at limits.headerTimeout; a client that leaves in
    the middle leaves nothing behind."""
    g = secure(
        [static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")), limits={"headerTimeout": "1s"}
    )
    hello = client_hello(ca)
    began = time.monotonic()
    socks = [socket.create_connection(("127.0.0.1", g.tls_port), 10) for _ in range(5)]
    silent, half, slow, leaving, breaking = socks
    for sock in (half, leaving, breaking):
        sock.sendall(hello[:100])
    leaving.close()
    breaking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    breaking.close()
    for i in range(25):
        with contextlib.suppress(ConnectionError):
            slow.sendall(hello[i : i + 1])
        time.sleep(0.05)
    for sock in (silent, half, slow):
        assert ends(sock, 5 * proc.SLOW)
        sock.close()
    assert 0.9 < time.monotonic() - began < 3 * proc.SLOW
    proc.wait_for(lambda: g.metric("wakegate_connections") == 0, 5, "all are gone")
    with TlsClient(g.tls_port, client_context(ca.file)) as client:
        assert client.call(body=chat()).status == 200


def client_hello(ca):
    """What a client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        client_context(ca.file).wrap_bio(incoming, outgoing, server_hostname="a.test").do_handshake()
    return outgoing.read()


# ---- the configuration ----


def check(g):
    return subprocess.run(
        [proc.WAKEGATE, "check", "-c", g.config_path], capture_output=True, text=True, timeout=60, check=False
    )


def wrong_files(ca, folder):
    """tls options, and what is said about them."""
    good, other = ca.issue("a.test", "DNS:a.test"), ca.issue("renewed", "DNS:a.test")
    half, locked, empty = folder / "half.crt", folder / "locked.key", folder / "empty.pem"
    half.write_bytes(good[0].read_bytes()[:300])
    empty.write_bytes(b"")
    subprocess.run(
        ["openssl", "pkey", "-in", good[1], "-aes256", "-passout", "pass:x", "-out", locked],
        check=True, capture_output=True, timeout=60,
    )
    return [
        (tls_options((good[0], other[1])), rf"listeners\[1\]\.tls: keyFile {other[1]}: not the key of the certificate"),
        (tls_options((half, good[1])), rf"listeners\[1\]\.tls: certFile {half}: .*half-written"),
        (tls_options((good[0], locked)), rf"listeners\[1\]\.tls: keyFile {locked}: .*encrypted"),
        (tls_options((empty, good[1])), rf"listeners\[1\]\.tls: certFile {empty}: .*no certificate"),
        (tls_options(good, (other[0], good[1])), rf"listeners\[1\]\.tls: keyFile {good[1]}: not the key"),
        (tls_options(good, ca=empty), rf"listeners\[1\]\.tls: clientCaFile {empty}: .*no certificate"),
        (tls_options((folder / "none.crt", good[1])), r"tls\.certFile: .*none\.crt: No such file"),
    ]


def test_wrong_files_are_said(secure, ca, sim, tmp_path):
    """`check`, the start and a reload say what is wrong with each file; nothing listens, and a reload changes nothing."""
    wrong = wrong_files(ca, tmp_path)
    good = tls_options(ca.issue("a.test", "DNS:a.test"))
    g = secure([static_model("m", [sim()])], good, start=False)
    assert check(g).returncode == 0
    for options, words in wrong:
        g.write(listeners=listeners(g, options))
        done = check(g)
        assert done.returncode == 1 and "valid\n" not in done.stdout
        assert proc.re.search(rf"^{g.config_path}:.*{words}", done.stderr, proc.re.M), done.stderr
    g.start(wait=False)
    g.expect_exit = g.process.wait(20)
    assert g.expect_exit == 1
    assert "listening on" not in g.process.log() and "none.crt" in g.process.log()
    g.write()
    g.start()
    g.expect_exit = 0
    for options, words in wrong:
        reload_with(g, options, result="failed")
        g.process.wait_log(words)
    assert g.metric("wakegate_config_reloads_total", result="ok") == 0
    assert shown(g, ca) == "a.test"


def test_a_start_with_a_wrong_pair_fails(secure, ca):
    """What only the pair can tell is found before anything listens."""
    pair = (ca.issue("a.test", "DNS:a.test")[0], ca.issue("renewed", "DNS:a.test")[1])
    g = secure([static_model("m", ["http://127.0.0.1:1"])], tls_options(pair), start=False)
    g.start(wait=False)
    g.expect_exit = g.process.wait(20)
    assert g.expect_exit == 1
    assert "not the key of the certificate" in g.process.log() and "listening on" not in g.process.log()


def test_reloads_switch_tls_on_and_off(secure, ca, sim):
    """Each listener takes what the reload says, new connections at once; open ones keep what they have. One whose address is
    gone from the file keeps all that it has, and still follows its files."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    context = client_context(ca.file)
    plain, hidden = g.client(), TlsClient(g.tls_port, context)
    for client in (plain, hidden):
        assert client.call(body=chat()).status == 200
    reload_with(g, None, cleartext=tls_options(ca.issue("renewed", "DNS:a.test")))
    with TlsClient(g.port, context) as client:
        assert client.served == "renewed" and client.call(body=chat()).status == 200
    with pytest.raises(ssl.SSLError):
        TlsClient(g.tls_port, context, timeout=5)
    with Client(g.tls_port) as client:
        assert client.call(body=chat()).status == 200
    for client in (plain, hidden):
        assert client.call(body=chat()).status == 200
        client.close()
    files = [g.folder / "kept.crt", g.folder / "kept.key"]
    put(files, ca.issue("a.test", "DNS:a.test"))
    reload_with(g, tls_options(files))
    assert shown(g, ca) == "a.test"
    elsewhere = [{"address": f"127.0.0.1:{proc.free_port()}"}]
    before = g.metric("wakegate_config_reloads_total", result="ok")
    g.write(listeners=elsewhere)
    g.process.signal(signal.SIGHUP)
    proc.wait_for(lambda: g.metric("wakegate_config_reloads_total", result="ok") > before, 10, "the reload")
    assert shown(g, ca) == "a.test" and g.chat().status == 200
    put(files, ca.issue("renewed", "DNS:a.test"))
    proc.wait_for(lambda: shown(g, ca) == "renewed", 10, "its files are still looked at")


def test_listeners_whose_ports_the_system_chose(secure, ca, sim):
    """Two listeners with port 0 have one address in the file: a reload takes them in their order, and mixes nothing up."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")), start=False)

    def unnamed(name):
        own = {"tls": tls_options(ca.issue(name, "DNS:a.test"))}
        return [*listeners(g, None), {"address": "127.0.0.1:0", **own}, {"address": "127.0.0.1:0"}]

    g.write(listeners=unnamed("a.test"))
    g.start()
    hidden, plain = (
        int(g.process.wait_log(r"for which the system chose port (\d+)", count=count)[1]) for count in (1, 2)
    )

    def presented():
        with Client(plain, timeout=5) as client:
            assert client.call(body=chat()).status == 200
        with TlsClient(hidden, client_context(ca.file), timeout=5) as client:
            assert client.call(body=chat()).status == 200
            return client.served

    assert presented() == "a.test"
    for count, name in enumerate(("a.test", "renewed"), 1):
        g.write(listeners=unnamed(name))
        g.process.signal(signal.SIGHUP)
        proc.wait_for(lambda: g.metric("wakegate_config_reloads_total", result="ok") == count, 10, "the reload")
        assert presented() == name


def test_files_that_come_later(secure, ca, sim):
    """A ConfigMap can be there before the Secret that it names: the reload fails once, and is made up for without a word."""
    g = secure([static_model("m", [sim()])], tls_options(ca.issue("a.test", "DNS:a.test")))
    files = [g.folder / "later.crt", g.folder / "later.key"]
    reload_with(g, tls_options(files), result="failed")
    put(files, ca.issue("renewed", "DNS:a.test"))
    proc.wait_for(lambda: shown(g, ca) == "renewed", 15, "the files that came")
    assert g.metric("wakegate_config_reloads_total", result="failed") == 1
    assert g.metric("wakegate_config_reloads_total", result="ok") == 1


def test_listeners_are_renewed_each_on_its_own(secure, ca, sim, tmp_path):
    """A wrong file of one listener keeps no other from its renewed certificate."""
    ours, theirs = ([tmp_path / f"{name}.crt", tmp_path / f"{name}.key"] for name in ("ours", "theirs"))
    for files in (ours, theirs):
        put(files, ca.issue("a.test", "DNS:a.test"))
    g = secure([static_model("m", [sim()])], tls_options(ours))
    reload_with(g, tls_options(ours), cleartext=tls_options(theirs))
    theirs[0].write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    put(ours, ca.issue("renewed", "DNS:a.test"))
    proc.wait_for(lambda: shown(g, ca) == "renewed", 10, "the renewed certificate")
    proc.wait_for(lambda: renewals(g, "failed") == 1, 10, "the damaged one is counted")
    with TlsClient(g.port, client_context(ca.file)) as client:
        assert client.served == "a.test" and client.call(body=chat()).status == 200


def put(files, pair):
    for path, source in zip(files, pair):
        path.write_bytes(source.read_bytes())


# ---- HTTP behind it ----


def test_the_model_server_is_told(secure, ca, backend):
    """x-forwarded-proto is https for those who came by TLS, HTTP/1.1 and HTTP/2, and http for the others."""
    b = backend()
    g = secure([static_model("m", [b])], tls_options(ca.issue("a.test", "DNS:a.test")))
    forged = [("x-forwarded-proto", "gopher")]
    assert g.call(body=chat(), headers=forged).status == 200
    with TlsClient(g.tls_port, client_context(ca.file)) as client:
        assert client.call(body=chat(), headers=forged).status == 200
    with Connection(g.tls_port, tls=client_context(ca.file, alpn=("h2",))) as client:
        assert client.chat(headers=forged).status == 200
    assert [r.header("x-forwarded-proto") for r in b.requests] == ["http", "https", "https"]


def test_the_end(secure, ca, sim):
    """SIGTERM: what runs is finished and says Connection: close or GOAWAY, and each connection ends with close_notify."""
    server = sim(tokens=20, tokens_per_second=10)
    g = secure([static_model("m", [server])], tls_options(ca.issue("a.test", "DNS:a.test")), shutdown={"grace": "20s"})
    g.chat(max_tokens=1)
    idle, busy = (TlsClient(g.tls_port, client_context(ca.file)) for _ in range(2))
    assert idle.call(body=chat(max_tokens=1)).status == 200
    busy.request(body=chat())
    with Connection(g.tls_port, tls=client_context(ca.file, alpn=("h2",))) as h2:
        stream = h2.request(body=chat(stream=True))
        g.wait_inflight(2)
        g.process.signal(signal.SIGTERM)
        assert idle.closed_within(5) and idle.ended == "notify"
        r = busy.response()
        assert r.status == 200 and r.header("connection") == "close"
        assert busy.closed_within(5) and busy.ended == "notify"
        assert stream.response().events()[-1] == "[DONE]"
        h2.wait(lambda: h2.closed, 10, "the end")
        assert h2.goaways[-1].code == 0
    assert g.process.wait(15) == 0


def test_who_leaves_is_held_no_longer(secure, ca, sim):
    """A client that goes while it is held is gone at once, however it goes; by close_notify alone, it is answered with one.
    Who stays does not notice."""
    server = sim(load=600)
    g = secure([static_model("m", [server])], tls_options(ca.issue("a.test", "DNS:a.test")))
    context, h2 = client_context(ca.file), client_context(ca.file, alpn=("h2",))
    with TlsClient(g.tls_port, context) as stays:
        stays.request(body=chat(text="stays"))
        g.wait_held(1)
        for count, leave in enumerate(("close", "rst", "notify"), 1):
            client, other = TlsClient(g.tls_port, context), Connection(g.tls_port, tls=h2)
            client.request(body=chat())
            stream = other.request(body=chat())
            g.wait_held(3)
            if leave == "notify":
                other.cancel(stream)
                client.sock.unwrap()
            else:
                getattr(other, leave)()
                getattr(client, leave)()
            g.wait_held(1, timeout=5 * proc.SLOW)
            assert g.outcome("client_closed") == 2 * count
            client.close()
            other.close()
        server.config(load=0)
        assert stays.response().status == 200
    assert [r["prompt"] for r in server.requests(prompts_only=True) if r["status"] == 200] == ["stays"]


def test_str_04_heartbeats_come_through(secure, ca, sim):
    """STR-04: each comment reaches the client when it is due, over HTTP/1.1 and HTTP/2, and the answer follows."""
    server = sim(load=600)
    hold = {"heartbeat": {"after": "200ms", "every": "200ms"}}
    g = secure([static_model("m", [server], hold=hold)], tls_options(ca.issue("a.test", "DNS:a.test")))
    with TlsClient(g.tls_port, client_context(ca.file)) as one, Connection(
        g.tls_port, tls=client_context(ca.file, alpn=("h2",))
    ) as two:
        one.request(body=chat(stream=True))
        stream = two.request(body=chat(stream=True))
        r = one.response(until=lambda r: len(r.comments()) >= 2)
        stream.wait(lambda s: len(s.comments()) >= 2, what="two comments")
        assert g.held() == 2
        server.config(load=0)
        for r in (one.resume(r), stream.response()):
            assert r.status == 200 and r.done and set(r.comments()) == {b": keepalive"}
            assert r.text().startswith("the model was asleep") and r.events()[-1] == "[DONE]"


@pytest.mark.parametrize("how", ["rst", "close"])
def test_str_01_a_broken_answer_looks_broken(secure, ca, backend, how):
    """STR-01: the model server breaks off within an answer: over TLS it does not end well either, whether chunks frame it or
    (HTTP/1.0) its end is that of the connection: there is no close_notify, which would say that it was whole."""

    def break_off(peer, _):
        peer.send(SSE_HEAD + b"".join(chunk(b"data: {}\n\n") for _ in range(3)))
        getattr(peer, how)()

    g = secure([static_model("m", [backend(break_off)])], tls_options(ca.issue("a.test", "DNS:a.test")))
    context = client_context(ca.file)
    with TlsClient(g.tls_port, context) as client:
        r = client.call(body=chat(stream=True))
        assert r.status == 200 and r.broken and r.body == b"data: {}\n\n" * 3
    with TlsClient(g.tls_port, context) as client:
        client.send(request_bytes(body=chat(stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0"))
        r = client.response()
        assert r.framing == "close" and r.body == b"data: {}\n\n" * 3
        assert client.ended == "cut"
    with Connection(g.tls_port, tls=client_context(ca.file, alpn=("h2",))) as client:
        stream = client.request(body=chat(stream=True)).response()
        assert stream.broken and stream.reset is not None and not client.closed


def test_a_close_delimited_answer_ends_with_close_notify(secure, ca, backend):
    """HTTP/1.0: the end of the connection is the end of the answer, and close_notify is what proves it."""
    g = secure(
        [static_model("m", [backend(lambda peer, _: peer.send(SSE_HEAD + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"))])],
        tls_options(ca.issue("a.test", "DNS:a.test")),
    )
    with TlsClient(g.tls_port, client_context(ca.file)) as client:
        client.send(request_bytes(body=chat(stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0"))
        r = client.response()
        assert r.framing == "close" and r.body == b"data: [DONE]\n\n" and client.ended == "notify"


UP, DOWN = 32 << 20, 50 << 20


class Warehouse(http.server.BaseHTTPRequestHandler):
    """A model server that takes any body and gives 50 MiB. The harness's backend is made for small things."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        taken = self.rfile.read(int(self.headers["content-length"]))
        self.server.taken.append(hashlib.sha256(taken).hexdigest())
        self.server.peers.append(self.connection)
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream")
        self.send_header("content-length", str(DOWN))
        self.end_headers()
        self.wfile.write(self.server.goods)

    def log_message(self, *_):
        pass


@pytest.fixture
def warehouse():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Warehouse)
    server.taken, server.peers = [], []
    server.goods = os.urandom(1 << 20) * (DOWN >> 20)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def heavy(secure, ca, warehouse):
    """A gate that takes 32 MiB for it."""
    model = static_model(
        "m", [f"http://127.0.0.1:{warehouse.server_port}"],
        probe={"kind": "tcp"}, maxBodyBytes=UP + 4096, hold={"maxBytes": 4 * UP},
    )
    return secure([model], tls_options(ca.issue("a.test", "DNS:a.test")))


def large_chat():
    return json.dumps(chat(text=os.urandom(UP // 32).hex() * 16)).encode()


def sha256(octets):
    return hashlib.sha256(octets).hexdigest()


def stands_still(peer):
    """True if none of the bytes that this socket sends were taken for a while."""

    def waiting():
        return struct.unpack("i", fcntl.ioctl(peer, termios.TIOCOUTQ, b"\0" * 4))[0]

    was = waiting()
    time.sleep(0.2)
    return was > 0 and waiting() == was


def test_large_bodies(heavy, ca, warehouse):
    """32 MiB up and 50 MiB down to a client that stops reading for a while: nothing is lost, and the model server waits
    meanwhile, not our memory."""
    body = large_chat()
    with TlsClient(heavy.tls_port, client_context(ca.file), timeout=60, receive_buffer=65536) as client:
        client.request(body=body)
        r = client.response(60, until=lambda r: r.body)
        assert r.status == 200 and int(r.header("content-length")) == DOWN
        proc.wait_for(lambda: stands_still(warehouse.peers[-1]), 20, "the model server has to wait")
        assert heavy.process.rss() < (2 * UP + (32 << 20)) * proc.FAT
        digest, left = hashlib.sha256(r.body), DOWN - len(r.body)
        while left > 0:
            octets = client.recv()
            assert octets, f"cut {left} bytes before the end"
            digest.update(octets)
            left -= len(octets)
    assert digest.hexdigest() == sha256(warehouse.goods)
    assert warehouse.taken == [sha256(body)]


def test_large_bodies_over_http2(heavy, ca, warehouse, tmp_path):
    """The same on two streams of one connection at once."""
    url = f"https://a.test:{heavy.tls_port}/v1/chat/completions"
    options = []
    bodies = [large_chat() for _ in range(2)]
    for i, body in enumerate(bodies):
        (tmp_path / f"up{i}").write_bytes(body)
        options += ["--next"] * (i > 0) + [
            "--http2", "--cacert", ca.file, "--resolve", f"a.test:{heavy.tls_port}:127.0.0.1", "--max-time", "60", "-sS",
            "-w", "%{http_version} %{http_code}\\n", "-H", "expect:", "--data-binary", f"@{tmp_path}/up{i}",
            "-o", f"{tmp_path}/down{i}", url,
        ]
    done = subprocess.run(["curl", "-Z", *options], capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.splitlines() == ["2 200"] * 2, done.stderr
    for i in range(2):
        assert sha256((tmp_path / f"down{i}").read_bytes()) == sha256(warehouse.goods)
    assert sorted(warehouse.taken) == sorted(map(sha256, bodies))


def test_a_slow_reader_over_http2(heavy, ca, warehouse):
    """A client whose windows are open, but who does not read for a while: the model server waits, and nothing is lost."""
    context = client_context(ca.file, alpn=("h2",))
    with Connection(heavy.tls_port, tls=context, window=DOWN, connection_window=2 * DOWN, receive_buffer=65536) as client:
        client.wait_frame(SETTINGS)
        client.read(False)
        stream = client.request(body=chat())
        stream.body = bytearray()  # grows in place
        proc.wait_for(lambda: warehouse.peers and stands_still(warehouse.peers[-1]), 20, "the model server has to wait")
        assert not stream.body
        assert heavy.process.rss() < (UP + (32 << 20)) * proc.FAT
        client.read(True)
        r = stream.response()
        assert r.status == 200 and r.done and sha256(r.body) == sha256(warehouse.goods)
