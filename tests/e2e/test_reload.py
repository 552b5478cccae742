"""Reload: whatever the file becomes, no request is dropped (field cases, area M)."""

import os
import signal
import time

from harness import proc
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import chat, request_bytes
from harness.sim import Sim


def reloads(g, result):
    return g.metric("wakegate_config_reloads_total", result=result)


def test_cfg_01_reloads_under_load(gate):
    """CFG-01: 10 held and 5 streams, 20 reloads in a second, good, bad, half-written and unchanged: nothing dropped,
    one instance of each model."""
    port, fast = proc.free_port(), proc.free_port()
    models = [
        process_model("cold", port, sim={"load": 4}),
        process_model("warm", fast, sim={"tokens": 60, "tokens_per_second": 15}),
    ]
    g = gate(models)
    g.chat("warm", max_tokens=1)
    streams = Background(crowd, g.port, [request_bytes(body=chat("warm", stream=True))] * 4)
    held = Background(crowd, g.port, [request_bytes(body=chat("cold", f"h{i}")) for i in range(10)])
    g.wait_held(10, "cold")
    text = g.config_path.read_text()
    for i in range(20):
        kind = i % 4
        if kind == 0:
            models[1]["hold"]["maxRequests"] = 100 + i
            g.write(models)
            text = g.config_path.read_text()
        elif kind == 1:
            g.config_path.write_text(text.replace('"models"', '"modles"'))
        elif kind == 2:
            g.config_path.write_text(text[: len(text) // 2])
        else:
            g.config_path.write_text(text)
        g.process.signal(signal.SIGHUP)
        time.sleep(0.05)
    g.config_path.write_text(text)
    g.process.signal(signal.SIGHUP)
    assert [v.status for v in held.result()] == [200] * 10
    for visit in streams.result():
        assert visit.status == 200 and visit.response.events()[-1] == "[DONE]"
    assert len(proc.processes_with(f"--port {port}")) == 1
    assert len(proc.processes_with(f"--port {fast}")) == 1
    assert sorted(r["prompt"] for r in Sim(port).requests(prompts_only=True)) == sorted(f"h{i}" for i in range(10))
    assert reloads(g, "failed") >= 1
    g.process.wait_log(rf"{proc.re.escape(str(g.config_path))}:\d+: .*modles")


def test_a_change_in_place_is_taken(gate, sim):
    """The file is watched: a new model is there without a signal, and a bad file changes nothing."""
    server = sim()
    g = gate([static_model("m", [server])])
    assert g.chat("new").status == 404
    g.write([static_model("m", [server]), static_model("new", [server])])
    proc.wait_for(lambda: g.chat("new").status == 200, 10, "the new model")
    g.config_path.write_text("models: [")
    proc.wait_for(lambda: reloads(g, "failed") >= 1, 10, "the bad file is counted")
    assert g.chat("new").status == 200


def test_a_symlink_swap_is_taken(gate, sim):
    """As a ConfigMap does it: ..data points to another folder."""
    server = sim()
    g = gate([static_model("m", [server])], start=False)
    folder = g.folder / "mounted"
    for number, name in enumerate(("first", "second")):
        (folder / f"..{number}").mkdir(parents=True)
        g.write([static_model(name, [server])])
        os.replace(g.config_path, folder / f"..{number}" / "wakegate.yaml")
    os.symlink("..0", folder / "..data")
    os.symlink("..data/wakegate.yaml", folder / "wakegate.yaml")
    g.config_path = folder / "wakegate.yaml"
    g.start()
    assert g.chat("first").status == 200
    os.symlink("..1", folder / "..data_tmp")
    os.replace(folder / "..data_tmp", folder / "..data")
    proc.wait_for(lambda: g.chat("second").status == 200, 10, "the second configuration")
    assert g.chat("first").status == 404


def test_a_removed_model_ends_well(gate, sim):
    """Holds of a removed model end with a clear answer, its process is stopped; the others do not notice."""
    port = proc.free_port()
    server = sim()
    g = gate([process_model("gone", port, sim={"load": 600}), static_model("m", [server])])
    held = Background(crowd, g.port, [request_bytes(body=chat("gone"))] * 3)
    g.wait_held(3, "gone")
    g.write([static_model("m", [server])])
    g.process.signal(signal.SIGHUP)
    for visit in held.result(timeout=20):
        assert visit.status in (404, 503), visit.response.body
    proc.wait_for(lambda: not proc.processes_with(f"--port {port}"), 10, "its process is stopped")
    assert g.chat().status == 200
    assert g.chat("gone").status == 404


def test_a_changed_command_is_used_from_the_next_start(gate):
    """The command of a warm process model changes: requests go on, and the new command serves in the end."""
    port, other = proc.free_port(), proc.free_port()
    g = gate([process_model("m", port)])
    g.warm()
    g.write([process_model("m", other)])
    g.process.signal(signal.SIGHUP)

    def moved():
        assert g.chat().status == 200
        return proc.processes_with(f"--port {other}") and not proc.processes_with(f"--port {port}")

    proc.wait_for(moved, 20, "the new command serves")


def test_limits_apply_to_new_requests(gate):
    """A lowered limit holds from the reload on; tenants and keys too."""
    g = gate([process_model("m", sim={"load": 3})])
    held = Background(crowd, g.port, [request_bytes(body=chat())] * 5)
    g.wait_held(5)
    model = g.models[0]
    model["hold"]["maxRequests"] = 5
    g.write([model], tenants=[{"name": "t", "keys": [{"sha256": proc.sha256("k")}]}])
    g.process.signal(signal.SIGHUP)
    proc.wait_for(lambda: reloads(g, "ok") >= 1, 10, "the reload")
    proc.wait_for(lambda: g.chat("nobody").status == 401, 5, "keys are needed now")
    r = g.chat(headers=[("Authorization", "Bearer k")])
    assert (r.status, r.code) == (503, "hold_full")
    assert [v.status for v in held.result()] == [200] * 5


def test_sigusr1_and_a_restart_option(gate):
    """SIGUSR1 ends nothing; a change that needs a restart is said and not half done."""
    g = gate([process_model("m")])
    g.process.signal(signal.SIGUSR1)
    g.write(listeners=[{"address": f"127.0.0.1:{proc.free_port()}"}])
    g.process.signal(signal.SIGHUP)
    g.process.wait_log(r"listeners.*")
    assert g.chat().status == 200
