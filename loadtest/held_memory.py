#!/usr/bin/env python3
"""What a held request costs in memory: many HTTP/2 streams on few connections wait for a cold model, then get their answers.

Programs: WAKEGATE_BIN and MODELSIM_BIN, else build/release. Exit 1 if a request costs more than its bound, 2 if the run failed."""

import argparse
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time

from bench import MODELSIM, PATIENCE, WAKEGATE, Gate, call, free_ports, until

BOUND = 4096  # bytes a held request with its body of 1 KiB
BODY = 1024

CONFIG = """\
listeners: [ {{ address: "127.0.0.1:{port}" }} ]
admin: {{ address: "127.0.0.1:{admin}" }}
workers: %(workers)d
log: {{ access: false }}
models:
  - name: sim
    target: {{ static: {{ endpoints: ["http://127.0.0.1:%(model)d"] }} }}
    hold: {{ maxRequests: 1000000, maxBytes: 4Gi }}
"""

DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(index, value):
    """A field of the static table's name, not indexed (RFC 7541 6.2.2)."""
    name = bytes([index]) if index < 15 else bytes([15, index - 15])
    return name + bytes([len(value)]) + value


def request(stream, authority):
    base = {"model": "sim", "max_tokens": 1, "messages": [{"role": "user", "content": ""}]}
    base["messages"][0]["content"] = "x" * (BODY - len(json.dumps(base)))
    body = json.dumps(base).encode()
    block = b"\x83\x86" + literal(4, b"/v1/chat/completions") + literal(1, authority)
    block += literal(31, b"application/json") + literal(28, b"%d" % len(body))
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)


class Connection:
    """One client connection; answers are counted, not kept."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.authority = b"127.0.0.1:%d" % port
        self.buffer = b""
        self.ended = self.broken = self.settings = 0
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 24)))
        self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    def ask(self, streams):
        self.socket.sendall(b"".join(request(2 * n + 1, self.authority) for n in range(streams)))

    def read(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise RuntimeError("a connection was closed")
        self.buffer += data
        at = 0
        while len(self.buffer) - at >= 9:
            length = int.from_bytes(self.buffer[at:at + 3], "big")
            if len(self.buffer) - at < 9 + length:
                break
            self.take(self.buffer[at + 3], self.buffer[at + 4], length)
            at += 9 + length
        self.buffer = self.buffer[at:]

    def take(self, kind, flags, length):
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self.ended += 1
        elif kind in (RST_STREAM, GOAWAY):
            self.broken += 1
        elif kind == SETTINGS and not flags & ACK:
            self.settings += 1
            self.socket.sendall(frame(SETTINGS, ACK, 0))


def read_until(connections, done):
    """Reads whatever comes on any of them until it is done."""
    deadline = time.monotonic() + 4 * PATIENCE
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError("the answers do not come")
            for key, _ in selector.select(0.1):
                key.data.read()
            if any(c.broken for c in connections):
                raise RuntimeError("a stream or connection was reset")


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024


def held(gate):
    return json.loads(call(gate.admin, "GET", "/status")[1])["models"][0]["held"]


def measure(gate, arguments, model):
    total = arguments.connections * arguments.streams
    start = resident(gate.process.pid)
    connections = [Connection(gate.port) for _ in range(arguments.connections)]
    read_until(connections, lambda: all(c.settings for c in connections))
    idle = resident(gate.process.pid)
    for connection in connections:
        connection.ask(arguments.streams)
    until(f"{total} requests held", lambda: held(gate) == total)
    full = resident(gate.process.pid)
    print(f"{arguments.connections} connections x {arguments.streams} streams, bodies of {BODY} bytes, {arguments.workers} worker(s)")
    print(f"  an idle HTTP/2 connection    {(idle - start) // arguments.connections:>10} bytes")
    print(f"  a held request, body and all {(full - idle) // total:>10} bytes")
    with subprocess.Popen([arguments.modelsim, "--port", str(model), "--ttft", "0"], stdout=subprocess.DEVNULL) as server:
        try:
            read_until(connections, lambda: sum(c.ended for c in connections) == total)
        finally:
            server.terminate()
    for connection in connections:
        connection.socket.close()
    print(f"  all {total} were answered; resident afterwards {(resident(gate.process.pid) - start) >> 20} MiB above the start")
    return (full - idle) // total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--wakegate", default=WAKEGATE)
    parser.add_argument("--modelsim", default=MODELSIM)
    arguments = parser.parse_args()
    for program in (arguments.wakegate, arguments.modelsim):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not there: build it, or name it by WAKEGATE_BIN and MODELSIM_BIN")
    (model,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="held-memory-") as folder:
        try:
            with Gate(folder, arguments.wakegate, CONFIG % {"workers": arguments.workers, "model": model}) as gate:
                each = measure(gate, arguments, model)
        except (RuntimeError, OSError) as error:
            print(f"held_memory: {error or type(error).__name__}", file=sys.stderr)
            return 2
    print(f"  that is {'within' if each <= BOUND else 'over'} the bound of {BOUND} bytes")
    return 0 if each <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
