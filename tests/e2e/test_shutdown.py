"""The end: what was promised is still kept (field cases, area L)."""

import os
import signal
import time

import pytest

from harness import proc
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import Client, call, chat, request_bytes
from harness.sim import command


def test_shut_01_held_and_streaming_requests_are_finished(gate, sim):
    """SHUT-01: 20 held (ready at 4 s), 5 streams of 5 s, 5 idle connections; SIGTERM at 1 s: /readyz fails at once,
    new connections are taken for shutdown.delay, all held are answered, streams end clean, exit 0 right after."""
    server = sim(tokens=50, tokens_per_second=10)
    g = gate(
        [process_model("cold", sim={"load": 4}), static_model("m", [server])], shutdown={"delay": "1s", "grace": "30s"}
    )
    g.chat("m", max_tokens=1)
    idle = [g.client() for _ in range(5)]
    for client in idle:
        assert client.call(body=chat("m", max_tokens=1)).status == 200
    held = Background(crowd, g.port, [request_bytes(body=chat("cold"))] * 20)
    streams = Background(crowd, g.port, [request_bytes(body=chat("m", stream=True))] * 5)
    g.wait_held(20, "cold")
    g.wait_inflight(5)
    time.sleep(0.5)
    g.process.signal(signal.SIGTERM)
    proc.wait_for(lambda: call(g.admin, "GET", "/readyz").status == 503, 0.5 * proc.SLOW, "/readyz fails")
    late = g.chat("m", max_tokens=1)
    assert late.status == 200, "within shutdown.delay"
    for visit in streams.result():
        assert visit.status == 200 and visit.response.events()[-1] == "[DONE]"
    results = held.result()
    assert [v.status for v in results] == [200] * 20
    last = max(v.response.ended for v in results + streams.result())
    assert g.process.wait(15) == 0
    assert time.monotonic() - last < 3 + proc.SLOW
    for client in idle:
        assert client.closed_within(1)


def test_shut_01_answers_say_close_while_ending(gate, sim):
    """After SIGTERM answers carry Connection: close."""
    server = sim(ttft=1500)
    g = gate([static_model("m", [server], probe={"timeout": "10s"})], shutdown={"grace": "20s"})
    g.warm()
    client = g.client()
    client.request(body=chat())
    g.wait_inflight(1)
    g.process.signal(signal.SIGTERM)
    r = client.response()
    assert r.status == 200 and r.header("connection") == "close"
    assert g.process.wait(10) == 0


def test_shut_01_what_is_left_after_the_grace_is_told(gate):
    """SHUT-01: the grace is over: held requests get 503 shutting_down with Retry-After, and the exit is on time."""
    g = gate([process_model("m", sim={"load": 600})], shutdown={"grace": "2s"})
    held = Background(crowd, g.port, [request_bytes(body=chat())] * 10)
    g.wait_held(10)
    began = time.monotonic()
    g.process.signal(signal.SIGTERM)
    for visit in held.result():
        assert (visit.status, visit.response.code) == (503, "shutting_down")
        assert visit.response.header("retry-after")
    assert g.process.wait(15) == 0
    assert 1.9 < time.monotonic() - began < 6 + proc.SLOW


def test_shut_01_a_second_signal_exits_at_once(gate):
    """SHUT-01: two SIGTERM: no waiting, and no model process is left."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load": 600})], shutdown={"grace": "60s"})
    held = Background(crowd, g.port, [request_bytes(body=chat())])
    g.wait_held(1)
    g.process.signal(signal.SIGTERM)
    proc.wait_for(lambda: call(g.admin, "GET", "/readyz").status == 503, 5, "the first one is seen")
    g.process.signal(signal.SIGTERM)
    began = time.monotonic()
    g.expect_exit = g.process.wait(10)
    assert time.monotonic() - began < 2 * proc.SLOW
    held.result()
    proc.wait_for(lambda: not proc.processes_with(f"--port {port}"), 10, "no process is left")


def test_shut_01_new_connections_are_refused_while_draining(gate, sim):
    """What comes while the last requests are finished goes elsewhere at once: nothing is queued that nobody takes."""
    server = sim(tokens=30, tokens_per_second=10)
    g = gate([static_model("m", [server])], shutdown={"grace": "20s"})
    g.warm()
    stream = Background(crowd, g.port, [request_bytes(body=chat(stream=True))])
    g.wait_inflight(1)
    g.process.signal(signal.SIGTERM)

    def refused():
        try:
            Client(g.port).close()
        except ConnectionRefusedError:
            return True
        return False

    proc.wait_for(refused, 1 * proc.SLOW, "connections are refused")
    assert g.process.alive()
    (visit,) = stream.result()
    assert visit.response.events()[-1] == "[DONE]"
    assert g.process.wait(15) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_gate_ends_at_once(gate, number):
    """Nothing to finish: exit 0 within a second, whatever the grace; models are stopped with it."""
    port = proc.free_port()
    g = gate([process_model("m", port)], shutdown={"grace": "300s"})
    g.warm()
    began = time.monotonic()
    g.process.signal(number)
    assert g.process.wait(20) == 0
    assert time.monotonic() - began < 2 + proc.SLOW
    assert not proc.processes_with(f"--port {port}")


def waits(seconds, done):
    """A model server behind a shell that takes its time to stop, and then leaves a file."""
    script = f'trap "sleep {seconds}; touch {done}; exit 0" TERM; "$0" "$@" & while :; do wait; sleep 0.05; done'
    return {"process": {"command": ["sh", "-c", script, *command()], "stopTimeout": "30s"}}


def test_shut_01_model_processes_have_their_time_to_stop(gate, tmp_path):
    """stopTimeout holds at the end too: a model process that takes a second to stop is not killed."""
    g = gate([process_model("m", target=waits(1, tmp_path / "done"))])
    g.warm()
    g.process.signal(signal.SIGTERM)
    assert g.process.wait(20) == 0
    assert (tmp_path / "done").exists()


def test_shut_01_a_second_signal_does_not_wait_for_model_processes(gate, tmp_path):
    """While they are waited for, another signal ends it all at once."""
    g = gate([process_model("m", target=waits(25, tmp_path / "done"))])
    g.warm()
    g.process.signal(signal.SIGTERM)
    g.process.wait_log("to stop")
    proc.wait_for(lambda: proc.processes_with("sleep 25"), 10, "the model process is stopping")
    g.process.signal(signal.SIGTERM)
    began = time.monotonic()
    g.expect_exit = g.process.wait(10)
    assert time.monotonic() - began < 2 * proc.SLOW
    proc.wait_for(lambda: not proc.processes_with("sleep 25"), 10, "no process is left")
    assert not (tmp_path / "done").exists()


def test_death_of_the_keeper_ends_wakegate(gate, sim):
    """Without its keeper no process can be started any more: what runs is finished, then a supervisor is told by exit code 1."""
    server = sim(tokens=20, tokens_per_second=10)
    g = gate([static_model("m", [server]), process_model("p")], shutdown={"grace": "20s"})
    g.chat("m", max_tokens=1)
    streaming = Background(g.chat, "m")
    g.wait_inflight(1)
    (keeper,) = proc.children(g.process.pid)
    os.kill(keeper, signal.SIGKILL)
    g.process.wait_log("the keeper of model processes has died")
    assert streaming.result().status == 200
    g.expect_exit = 1
    assert g.process.wait(20) == 1


def test_a_stopped_keeper_leaves_nothing_behind(gate):
    """A keeper that does not end in time is killed, and with it all that it should have stopped."""
    port = proc.free_port()
    model = process_model("m", port, sim={"fork": True, "ignore_term": True}, target={"process": {"stopTimeout": "1s"}})
    g = gate([model])
    g.warm()
    (keeper,) = proc.children(g.process.pid)
    os.kill(keeper, signal.SIGSTOP)
    g.process.signal(signal.SIGTERM)
    assert g.process.wait(20) == 0
    proc.wait_for(lambda: not proc.processes_with(f"--port {port}"), 5, "no process is left")
    assert proc.port_free(port)


def test_few_descriptors_are_shared_fairly(gate, sim):
    """Where the limit of open files is small, clients get no more than leaves some for the admin, model servers and wakes."""
    server = sim()
    g = gate([static_model("m", [server])], start=False)
    g.process = proc.Process(
        ["prlimit", "--nofile=256:256", proc.WAKEGATE, "-c", g.config_path], g.folder / "few.log"
    )
    g.wait_ready()
    g.process.wait_log(r"the limit of open files is enough for 64: that is the limit now")
    clients = [g.client() for _ in range(200)]
    proc.wait_for(lambda: g.metric("wakegate_connections_refused_total") >= 136, 10, "the rest refused")
    assert clients[0].call(body=chat("m")).status == 200
    assert call(g.admin, "GET", "/healthz").status == 200
    assert "cannot accept" not in g.process.log()
