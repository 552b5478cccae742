#!/usr/bin/env python3
"""How long a held client waits once its model could answer: cold starts one after the other, at default settings.

Programs: WAKEGATE_BIN and MODELSIM_BIN, else build/release. Exit 1 if the median is too large, 2 if nothing could be measured."""

import argparse
import json
import os
import pathlib
import queue
import random
import socket
import sys
import tempfile
import threading
import time

from bench import MODELSIM, PATIENCE, WAKEGATE, Gate, call, until

BOUND = 0.100  # seconds that the median may lie above the probe's own answer time

CONFIG = """\
listeners: [ {{ address: "127.0.0.1:{port}" }} ]
admin: {{ address: "127.0.0.1:{admin}" }}
models:
  - name: sim
    target: {{ process: {{ command: [sh, {folder}/start, "{{port}}"] }} }}
"""

# What the model says of itself goes to a pipe of ours: its clock is ours, and nobody stands between.
START = """\
exec {modelsim} --port "$1" --ttft {ttft} $(cat {folder}/load) >{folder}/events 2>&1
"""


class Bench(Gate):
    """Wakegate with one model, and the moments at which that model says that it is loaded."""

    def __init__(self, folder, wakegate, modelsim, ttft):
        start = pathlib.Path(folder) / "start"
        start.write_text(START.format(modelsim=modelsim, ttft=ttft, folder=folder))
        events = pathlib.Path(folder) / "events"
        os.mkfifo(events)
        # Read and write: opening does not wait for a model, and there is no end of file between two.
        self.events = os.fdopen(os.open(events, os.O_RDWR), "r", encoding="utf-8", newline="\n")
        self.loaded = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        super().__init__(folder, wakegate, CONFIG)

    def listen(self):
        for line in self.events:
            if line.strip() == "modelsim: loaded":
                self.loaded.put(time.monotonic())

    def cold(self):
        return self.model()["state"] == "cold"

    def sleep(self):
        """Puts the model to sleep; busy for as long as the last answer is not settled."""
        return call(self.admin, "POST", "/models/sim/sleep")[0] == 202

    def first_byte(self):
        """Sends a streamed chat completion: when its answer's first byte came. Reads the answer to its end."""
        body = json.dumps({"model": "sim", "stream": True, "messages": [{"role": "user", "content": "measure"}]})
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as client:
            client.sendall((head + body).encode())
            answer = client.recv(65536)
            at = time.monotonic()
            while data := client.recv(65536):
                answer += data
        if not answer.startswith(b"HTTP/1.1 200") or b"[DONE]" not in answer:
            raise RuntimeError(f"no whole answer: {answer[:500]!r}")
        return at

    def probe_time(self, loaded):
        """How long the model took to answer the probe that proved it, by its own journal."""
        address = self.model()["endpoints"][0]["address"]
        requests = json.loads(call(int(address.rpartition(":")[2]), "GET", "/sim/requests?n=100")[1])
        # A probe may have begun just before the line of its being loaded was read.
        probes = [r for r in requests if r["prompt"] == "Hi" and r["outcome"] == "finished" and r["end"] > loaded - 0.05]
        if not probes:
            raise RuntimeError("the model saw no probe that it answered")
        return probes[0]["end"] - probes[0]["begin"]

    def measure(self, closed, load):
        """One cold start: seconds from loaded to the first byte, and the probe's own answer time."""
        (self.folder / "load").write_text(f"--load-port-closed {closed:.3f} --load {load:.3f}\n")
        first = self.first_byte()
        loaded = self.loaded.get(timeout=PATIENCE)
        probe = self.probe_time(loaded)
        until("asleep again", self.sleep)
        until("cold again", self.cold)
        return first - loaded, probe


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def report(gaps, probes, ttft):
    excess = [gap - probe - ttft for gap, probe in zip(gaps, probes)]
    print(f"{'':34}{'p50':>10}{'p99':>10}{'max':>10}")
    for name, values in (
        ("loaded to first byte", gaps),
        ("the probe's own answer", probes),
        ("Wakegate's share", excess),
    ):
        numbers = [percentile(values, 50), percentile(values, 99), max(values)]
        print(f"{name:34}" + "".join(f"{1000 * n:7.1f} ms" for n in numbers))
    return percentile(excess, 50)


def run(arguments, folder):
    bench = Bench(folder, arguments.wakegate, arguments.modelsim, arguments.ttft)
    gaps, probes = [], []
    try:
        until("wakegate ready", bench.ready)
        for number in range(1, arguments.starts + 1):
            gap, probe = bench.measure(random.uniform(0.05, 0.3), random.uniform(*arguments.load))
            gaps.append(gap)
            probes.append(probe)
            if arguments.verbose:
                print(f"start {number}: {1000 * gap:.1f} ms, probe {1000 * probe:.1f} ms", flush=True)
    except (RuntimeError, OSError, queue.Empty) as error:
        print(f"wake_latency: start {len(gaps) + 1}: {error or type(error).__name__}\n{bench.log_tail()}", file=sys.stderr)
        return 2
    finally:
        bench.close()
    print(f"{arguments.starts} cold starts, load {arguments.load[0]} to {arguments.load[1]} s, default settings")
    median = report(gaps, probes, arguments.ttft / 1000)
    fits = median <= BOUND
    print(f"Wakegate's share is at p50 {'within' if fits else 'over'} the bound of {1000 * BOUND:.0f} ms")
    return 0 if fits else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--load", type=float, nargs=2, default=(1.0, 2.0), metavar=("FROM", "TO"), help="seconds")
    parser.add_argument("--ttft", type=float, default=0, help="milliseconds of the model to its first token")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--wakegate", default=WAKEGATE)
    parser.add_argument("--modelsim", default=MODELSIM)
    arguments = parser.parse_args()
    if arguments.starts < 1:
        parser.error("--starts must be at least 1")
    for program in (arguments.wakegate, arguments.modelsim):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not there: build it, or name it by WAKEGATE_BIN and MODELSIM_BIN")
    with tempfile.TemporaryDirectory(prefix="wake-latency-") as folder:
        return run(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
