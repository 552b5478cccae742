"""Waking and stopping: once, again and again, and around the moment of the stop (field cases, area B)."""

import os
import random
import signal
import threading
import time

import pytest

from harness import proc
from harness.crowd import Background, crowd
from harness.gate import process_model, static_model
from harness.http1 import chat, request_bytes
from harness.sim import Sim, command


def test_act_01_a_burst_causes_one_wake_and_no_losses(gate):
    """ACT-01: 1,000 concurrent requests over 1,000 connections at a cold model, ready after 3 s."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load": 3}, concurrency={"perEndpoint": 64, "rampStart": 16})])
    visits = crowd(g.port, [request_bytes(body=chat("m", f"number {i}")) for i in range(1000)])
    assert [v.status for v in visits] == [200] * 1000, [(v.status, v.error) for v in visits if v.status != 200][:5]
    prompts = [r["prompt"] for r in Sim(port).requests(prompts_only=True)]
    assert sorted(prompts) == sorted(f"number {i}" for i in range(1000))
    stats = Sim(port).stats()
    assert stats["max_concurrent"] <= 64
    assert g.wakes("ok") == 1
    assert g.wakes("failed") == g.wakes("timeout") == 0
    assert len(proc.re.findall(r" model m: waking", g.process.log())) == 1


def test_act_02_arrivals_around_the_stop(gate):
    """ACT-02: 500 arrivals within milliseconds of the idle stop: each is 200 within a cold start and 2 s."""
    names = [f"m{i}" for i in range(10)]
    rounds = 50
    g = gate([process_model(name, sim={"load": 0.05}, idle={"timeout": "400ms"}) for name in names])
    slow, bad = [], []

    def visit(name):
        seeded = random.Random(name)
        with g.client() as client:
            for _ in range(rounds):
                began = time.monotonic()
                r = client.call(body=chat(name), timeout=30)
                ended = time.monotonic()
                if r.status != 200 or not r.done:
                    bad.append((name, r.status, r.body))
                if ended - began > 0.3 + 2 * proc.SLOW:
                    slow.append((name, ended - began))
                jitter = seeded.choice([-0.05, -0.005, -0.001, 0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 1.0])
                idle = max(0.4, g.model_status(name)["expected_start_seconds"] or 0)
                time.sleep(max(0, ended + idle + jitter - time.monotonic()))

    visit_threads = [threading.Thread(target=visit, args=(name,)) for name in names]
    for thread in visit_threads:
        thread.start()
    for thread in visit_threads:
        thread.join(100)
    assert not any(t.is_alive() for t in visit_threads), "a request hangs"
    assert bad == []
    assert slow == []
    wakes = sum(g.wakes("ok", name) for name in names)
    assert wakes > len(names) * rounds / 5, "the race was not met"
    for name in names:
        g.wait_state("cold", name)
    fds = g.process.fds()
    for name in names:
        assert g.chat(name).status == 200
        g.wait_state("cold", name)
    proc.wait_for(lambda: g.process.fds() <= fds + 2, 5, f"descriptors flat at {fds}, now {g.process.fds()}")


def test_act_03_every_wake_works_like_the_first(gate):
    """ACT-03: 20 cold cycles on another port each time, same latency, flat descriptors."""
    model = process_model("m", sim={"load": 0.3})
    model["target"]["process"]["port"] = 0
    g = gate([model])
    seconds, fds = [], []
    for _ in range(20):
        began = time.monotonic()
        r = g.chat(stream=True)
        seconds.append(time.monotonic() - began)
        assert r.status == 200 and r.done and r.events()[-1] == "[DONE]"
        assert g.order("sleep").status in (200, 202, 204)
        g.wait_state("cold")
        fds.append(g.process.fds())
    assert max(fds[2:]) - min(fds[2:]) <= 2, fds
    assert sum(seconds[-5:]) / 5 < sum(seconds[:5]) / 5 * 1.2 + 0.1 * proc.SLOW, seconds
    assert g.wakes("ok") == 20


def test_act_07_a_start_longer_than_the_idle_time(gate):
    """ACT-07: idle limit 1 s, start 3 s: not stopped before it has idled as long as it took to start, and a
    stream longer than both is not cut."""
    g = gate([process_model("m", sim={"load": 3}, idle={"timeout": "1s"})])
    assert g.chat().status == 200
    ended = time.monotonic()
    g.wait_state("cold")
    assert time.monotonic() - ended > 2.9
    port = g.models[0]["target"]["process"]["port"]
    waiting = Background(g.chat, stream=True, max_tokens=50)
    g.wait_state("warm")
    assert waiting.result().status == 200
    Sim(port).config(tokens_per_second=10, tokens=50)
    r = g.chat(stream=True)
    assert r.status == 200 and r.done and r.events()[-1] == "[DONE]"
    assert r.ended - r.began > 4.5


@pytest.mark.parametrize("connect", ["500ms", "5s", "20s"])
@pytest.mark.parametrize("before", ["refuses", "drops"])
def test_act_08_latency_does_not_depend_on_another_timeout(gate, backend, before, connect):
    """ACT-08: ready at 1.5 s is used by 2.5 s, whatever the connect timeout, refused or with SYNs dropped."""
    began = time.monotonic()
    if before == "drops":
        model = static_model("m", [backend(deaf=1.5)], timeouts={"connect": connect})
    else:
        model = process_model("m", sim={"load_port_closed": 1.5}, timeouts={"connect": connect})
    g = gate([model])
    began = began if before == "drops" else time.monotonic()
    assert g.chat().status == 200
    assert time.monotonic() - began < 2.5 + 0.5 * (proc.SLOW - 1)


def test_act_09_the_child_dies_while_loading(gate, tmp_path):
    """ACT-09: 10 waiters get 503 within a second of the exit; after the back-off the next request starts it again."""
    marker = tmp_path / "second"
    script = f'if [ -e {marker} ]; then exec "$0" "$@"; fi; touch {marker}; sleep 1.5; exit 7'
    run = ["sh", "-c", script, *command(load=0.2)]
    g = gate([process_model("m", target={"process": {"command": run}}, wake={"backoff": "1s"})])
    visits = crowd(g.port, [request_bytes(body=chat())] * 10)
    for visit in visits:
        assert visit.status == 503 and visit.response.code == "model_wake_failed"
        assert visit.seconds < 1.5 + 1 * proc.SLOW
    assert "7" in visits[0].response.json()["error"]["message"]
    g.process.wait_log(r"(?i)exit.*\b7\b")
    refused = g.chat()
    assert refused.status == 503 and refused.header("x-should-retry") == "false"
    proc.wait_for(lambda: g.chat().status == 200, 10, "a start after the back-off")


@pytest.mark.parametrize("listens", [False, True])
def test_act_09_operators_read_more_of_the_last_output(gate, listens):
    """The telling line is not always the last: the log and /status have three, clients the last alone."""
    serve = command(load=60, exit_after=1) if listens else ["true"]
    script = '"$0" "$@" >/dev/null; printf "one\\ntwo\\nerror: no such file\\n\\ncannot load\\nbye\\n"; exit 3'
    g = gate([process_model("m", target={"process": {"command": ["sh", "-c", script, *serve]}}, wake={"backoff": "20s"})])
    r = g.chat()
    assert r.code == "model_wake_failed"
    when = "" if listens else " while loading"
    end = f"the process exited with status 3{when}; its last output: "
    assert r.json()["error"]["message"] == f"m could not be started: {end}bye"
    more = end + "error: no such file | cannot load | bye"
    proc.wait_for(lambda: g.model_status()["reason"] == more, 5, f"the reason, now {g.model_status()['reason']}")
    g.process.wait_log(r"warn\w* process m: " + proc.re.escape(more))
    assert "cannot load" not in g.chat().body.decode()


def test_act_09_a_child_killed_while_idle_is_started_again(gate):
    """ACT-09: SIGKILL between requests: the next request starts a new one."""
    port = proc.free_port()
    g = gate([process_model("m", port)])
    g.warm()
    (pid,) = proc.processes_with(f"--port {port}")
    os.kill(pid, signal.SIGKILL)
    proc.wait_for(lambda: proc.port_free(port), 5, "the port is free")
    assert g.chat().status == 200
    (again,) = proc.processes_with(f"--port {port}")
    assert again != pid


def test_a_get_that_waits_for_a_slot_wakes_nothing_when_its_model_is_lost(gate):
    """It waited for a slot of a warm model: a start is not for it, and nobody else asks for one."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"ttft": 60000}, concurrency={"perEndpoint": 1, "rampStart": 1},
                            probe={"kind": "tcp"})])
    running = Background(g.chat)
    g.wait_inflight(1)
    waiting = Background(g.call, "GET", "/models/m/v1/chat/completions")
    g.wait_held(1)
    (pid,) = proc.processes_with(f"--port {port}")
    # It closes its port first and its connections then; of a killed one the kernel may take a connection in between.
    os.kill(pid, signal.SIGTERM)
    assert running.result().status == 502
    refused = waiting.result()
    assert (refused.status, refused.code) == (503, "model_cold")
    g.wait_state("cold")
    assert g.wakes("ok") == 1 and len(proc.re.findall(r" model m: waking", g.process.log())) == 1
    g.process.wait_log(r"method=GET .*outcome=model_cold.* held_cold_ms=")


def test_a_port_that_nobody_listens_on_is_named(gate):
    """A server that listens elsewhere: clients and operators are told on which address nothing is there."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim={"load_port_closed": 600}, wake={"timeout": "1s"})])
    message = g.chat().json()["error"]["message"]
    assert message.startswith("m did not start within 1"), message
    assert message.endswith(f"process started, nothing listens on 127.0.0.1:{port} yet"), message
    assert g.model_status()["reason"] == f"nothing listens on 127.0.0.1:{port} yet"


@pytest.mark.parametrize("sim", [{"load_port_closed": 600}, {"fault": "hang"}])
def test_a_process_that_hangs_through_two_wakes_is_replaced(gate, sim):
    """After the first wake that timed out it may still come up; after a second one it is stopped, and started anew."""
    port = proc.free_port()
    g = gate([process_model("m", port, sim=sim, wake={"timeout": "1500ms", "backoff": "1ms", "maxBackoff": "1ms"})])

    def timeout():
        proc.wait_for(lambda: g.chat().code == "model_wake_timeout", 10, "a wake that times out")
        return proc.processes_with(f"--port {port}")

    (pid,) = timeout()
    g.order("wake")
    g.wait_state("waking")
    assert proc.processes_with(f"--port {port}") == [pid]
    proc.wait_for(lambda: pid not in proc.processes_with(f"--port {port}"), 15, "it is stopped")
    g.process.wait_log(r"warn\w* model m: no answer in two wakes in a row")
    assert g.state() == "failed"
    (again,) = timeout()
    assert again != pid


def stubborn(port):
    """A wrapper whose child serves and ignores SIGTERM."""
    return process_model("m", port, sim={"fork": True, "ignore_term": True}, target={"process": {"stopTimeout": "1s"}})


@pytest.mark.parametrize("how", ["sleep", "reload", "term", "kill"])
def test_act_10_the_whole_tree_is_stopped(gate, how):
    """ACT-10: wrapper and deaf grandchild are gone, the port is free, whichever way it was stopped."""
    port = proc.free_port()
    g = gate([stubborn(port)], start=True)
    g.warm()
    assert len(proc.processes_with(f"--port {port}")) == 2
    if how == "sleep":
        assert g.order("sleep").status < 300
        g.wait_state("cold")
    elif how == "reload":
        g.write(models=[process_model("other")])
        g.process.signal(signal.SIGHUP)
    elif how == "term":
        g.stop()
    else:
        g.process.signal(signal.SIGKILL)
        g.process.wait()
        g.expect_exit = -signal.SIGKILL
    proc.wait_for(lambda: not proc.processes_with(f"--port {port}"), 10, "no process is left")
    assert proc.port_free(port)
    if how == "sleep":
        assert g.chat().status == 200


def test_a_stranger_on_the_port_is_not_our_model(gate, sim):
    """Somebody else serves on the configured port: no request reaches it, and the waiters learn why."""
    stranger = sim()
    g = gate([process_model("m", stranger.port, wake={"timeout": "3s"}, hold={"timeout": "5s"})])
    r = g.chat()
    assert r.status == 503
    assert r.code in ("model_wake_failed", "model_wake_timeout")
    assert stranger.executions() == 0


def test_output_of_the_child_is_in_the_log(gate):
    """What a model process prints is logged line by line."""
    g = gate([process_model("m")])
    g.warm()
    g.process.wait_log("modelsim: loaded")


def test_a_child_that_floods_its_output_is_not_blocked(gate):
    """Megabytes of output never stop the child, nor the requests."""
    noise = 'yes "a line of a very talkative model server" | head -c 20000000; exec "$0" "$@"'
    g = gate([process_model("m", target={"process": {"command": ["sh", "-c", noise, *command()]}})])
    assert g.chat().status == 200


def test_preload_wakes_at_start(gate):
    """preload: the model is warm without any request."""
    g = gate([process_model("m", sim={"load": 0.3}, preload=True)])
    g.wait_state("warm")
    assert g.wakes("ok") == 1


def test_hooks_wake_and_sleep_a_static_target(gate, sim):
    """A static target with hooks: nothing is asked of it before /wake_up, and /sleep is called when it idles."""
    server = sim(asleep=True, wake_load=0.5)
    url = server.url()
    g = gate([static_model("m", [server], wake=f"{url}/wake_up", sleep=f"{url}/sleep", idle={"timeout": "1s"})])
    assert server.requests() == []
    visits = crowd(g.port, [request_bytes(body=chat())] * 20)
    assert [v.status for v in visits] == [200] * 20
    assert server.stats()["wakes"] == 1
    assert [r["path"] for r in server.requests()][0] == "/wake_up"
    proc.wait_for(lambda: server.stats()["sleeps"] == 1, 10, "POST /sleep")
    g.wait_state("cold")
    assert g.chat().status == 200
    assert server.stats()["wakes"] == 2
    assert server.executions() == 21


def test_all_waiters_leave_and_the_wake_goes_on(gate):
    """Nobody waits any more: the wake is finished, and idles out as usual."""
    g = gate([process_model("m", sim={"load": 1}, idle={"timeout": "1s"})])
    crowd(g.port, [request_bytes(body=chat())] * 5, leave=0.3)
    g.wait_state("warm")
    assert g.wakes("ok") == 1
    g.wait_state("cold")
