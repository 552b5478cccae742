"""The operator's side: pages, orders, and the command line."""

import json
import re
import subprocess

from harness import proc
from harness.crowd import Background
from harness.gate import process_model, static_model
from harness.http1 import call


def run(*args, timeout=20, **kw):
    done = subprocess.run([proc.WAKEGATE, *map(str, args)], capture_output=True, text=True, timeout=timeout, check=False, **kw)
    assert not proc.REPORTS.search(done.stderr), done.stderr
    return done


def test_pages(gate):
    """/healthz, /readyz, /status, /metrics, /scaler; unknown pages and methods."""
    g = gate([process_model("m", sim={"load": 2}), process_model("org/other")])
    for path, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/status", 200), ("/nothing", 404)):
        assert call(g.admin, "GET", path).status == status, path
    assert call(g.admin, "POST", "/metrics", body={}).status == 405
    assert call(g.admin, "GET", "/scaler/m").json() == {"held": 0, "inflight": 0, "demand": 0}
    assert call(g.admin, "GET", "/scaler/org/other").status == 200
    assert call(g.admin, "GET", "/scaler/nobody").status == 404
    waiting = [Background(g.chat) for _ in range(3)]
    g.wait_held(3)
    assert call(g.admin, "GET", "/scaler/m").json() == {"held": 3, "inflight": 0, "demand": 3}
    status = g.model_status()
    assert (status["state"], status["held"]) == ("waking", 3)
    assert status["held_bytes"] > 100
    assert [w.result().status for w in waiting] == [200] * 3
    status = g.model_status()
    assert status["state"] == "warm" and status["endpoints"][0]["state"] == "serving"


def test_wake_and_sleep(gate, sim):
    """Orders: wake as a request would, sleep once idle; busy, unknown, and what cannot sleep are told."""
    g = gate([process_model("m", sim={"ttft": 1500}, probe={"timeout": "10s"}), static_model("s", [sim()])])
    assert g.order("wake").status == 202
    g.wait_state("warm")
    running = Background(g.chat)
    g.wait_inflight(1)
    r = g.order("sleep")
    assert r.status == 409
    assert running.result().status == 200
    assert g.order("sleep").status == 202
    g.wait_state("cold")
    assert g.order("sleep").status == 202, "sleeping already"
    assert g.order("wake", "nobody").status == 404
    assert g.order("sleep", "s").status == 400


def test_orders_need_a_key_where_there_are_keys(gate):
    """admin.keys: reading is open, what changes something needs one."""
    g = gate([process_model("m")], admin={"keys": [{"sha256": proc.sha256("root")}]})
    assert call(g.admin, "GET", "/status").status == 200
    assert g.order("wake").status == 401
    r = call(g.admin, "POST", "/models/m/wake", body={}, headers=[("Authorization", "Bearer root")])
    assert r.status == 202


def test_status_command(gate):
    """`wakegate status` prints a table of models from a running instance, and fails without one."""
    g = gate([process_model("some-model")])
    done = run("status", "--admin", f"http://127.0.0.1:{g.admin}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"some-model\s+cold", done.stdout)
    assert "default" in done.stdout
    done = run("status", "--admin", f"http://127.0.0.1:{proc.free_port()}")
    assert done.returncode == 1 and done.stderr


def test_check(tmp_path):
    """`check`: 0 for a good file, 1 with FILE:LINE: key.path for each fault; --print masks secrets."""
    good = tmp_path / "good.yaml"
    good.write_text(
        "models:\n  - name: m\n    target: { static: { endpoints: ['http://127.0.0.1:1'] } }\n"
        f"tenants:\n  - name: t\n    keys: [{{ sha256: '{proc.sha256('k')}' }}]\n"
    )
    done = run("check", "-c", good)
    assert done.returncode == 0, done.stderr + done.stdout
    done = run("check", "--print", "-c", good)
    assert done.returncode == 0
    assert "maxHeldBytes" in done.stdout and proc.sha256("k") not in done.stdout
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "listeners:\n  - address: nonsense\nmodels:\n  - name: m\n    target: { process: { command: [x], prot: 1 } }\n"
        "    idle: { timeout: soon }\nunknown: 1\n"
    )
    done = run("check", "-c", bad)
    assert done.returncode == 1
    text = done.stdout + done.stderr
    for line, key in ((2, "listeners"), (5, "prot"), (6, "idle.timeout"), (7, "unknown")):
        assert re.search(rf"^{re.escape(str(bad))}:{line}: .*{key}", text, re.M), (line, key, text)
    assert run("check", "-c", tmp_path / "absent.yaml").returncode == 1
    assert run("-c", bad).returncode == 1


def test_environment_in_a_configuration(tmp_path):
    """${NAME} is the environment's, unset is an error, $$ a dollar."""
    file = tmp_path / "c.yaml"
    file.write_text("models:\n  - name: ${MODEL_NAME}-$$1\n    target: { static: { endpoints: ['http://127.0.0.1:1'] } }\n")
    done = run("check", "--print", "-c", file, env={"MODEL_NAME": "qwen"})
    assert done.returncode == 0 and "qwen-$$1" in done.stdout, "printed so that it can be read again"
    done = run("check", "-c", file, env={})
    assert done.returncode == 1 and "MODEL_NAME" in done.stdout + done.stderr


def test_the_shipped_configurations_are_valid():
    """Everything in config/ passes `check`."""
    files = sorted(proc.os.listdir(proc.os.path.join(proc.ROOT, "config")))
    assert "quickstart.yaml" in files
    for name in files:
        done = run("check", "-c", proc.os.path.join(proc.ROOT, "config", name))
        assert done.returncode == 0, done.stdout + done.stderr


def test_key(gate, sim):
    """`key` prints a new key and its sha256 line, and that pair works."""
    done = run("key")
    assert done.returncode == 0
    digest = re.search(r"sha256\W+([0-9a-f]{64})", done.stdout).group(1)
    words = re.findall(r"[\w-]{20,}", done.stdout)
    (key,) = [w for w in words if proc.sha256(w) == digest]
    assert run("key").stdout != done.stdout
    g = gate([static_model("m", [sim()])], tenants=[{"name": "t", "keys": [{"sha256": digest}]}])
    assert g.chat(headers=[("Authorization", f"Bearer {key}")]).status == 200


def test_version_help_and_wrong_usage():
    """version and --help exit 0; wrong usage exits 2 and says how it is right."""
    done = run("version")
    assert done.returncode == 0 and re.search(r"\d+\.\d+\.\d+", done.stdout)
    done = run("--help")
    assert done.returncode == 0 and "wakegate" in done.stdout and "check" in done.stdout
    for wrong in (["nonsense"], ["-c"], [], ["check"], ["--nonsense"], ["status", "--bad"]):
        done = run(*wrong)
        assert done.returncode == 2, (wrong, done)
        assert done.stderr


def test_a_taken_port_is_a_clear_error(tmp_path):
    """Somebody has the port already: exit 1 and a line that names it."""
    import socket

    port = proc.free_port()
    with socket.socket() as s:
        s.bind(("127.0.0.1", port))
        s.listen()
        file = tmp_path / "c.yaml"
        file.write_text(
            json.dumps(
                {
                    "listeners": [{"address": f"127.0.0.1:{port}"}],
                    "admin": {"address": f"127.0.0.1:{proc.free_port()}"},
                    "models": [static_model("m", ["http://127.0.0.1:1"])],
                }
            )
        )
        done = run("-c", file)
    assert done.returncode == 1
    assert str(port) in done.stderr


def test_orders_of_pages_of_other_sites_are_refused(gate, sim):
    """A browser can be made to post to a loopback address, by a name that was pointed at it too."""
    g = gate([static_model("m", [sim()])])
    for name, value, status in [
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://127.0.0.1.evil.example:9090", 403),
        ("Origin", "null", 403),
        ("Origin", "http://127.0.0.1:9090", 202),
        ("Origin", "http://localhost:9090", 202),
        ("Origin", "http://[::1]:9090", 202),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-origin", 202),
    ]:
        r = call(g.admin, "POST", "/models/m/wake", headers=[(name, value)])
        assert r.status == status, (name, value)
