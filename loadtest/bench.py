"""What the load tests share: Wakegate as a process, small HTTP calls, and waiting for things to become true."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAKEGATE = os.environ.get("WAKEGATE_BIN", str(ROOT / "build/release/src/main/wakegate"))
MODELSIM = os.environ.get("MODELSIM_BIN", str(ROOT / "build/release/loadtest/modelsim"))
PATIENCE = 30.0


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def call(port, method, path):
    """One HTTP call: status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def until(what, condition):
    """Asks again until it is true; what it gave."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            value = condition()
        except OSError:
            value = None
        if value:
            return value
        time.sleep(0.01)
    raise RuntimeError(f"{what}: not within {PATIENCE:.0f} s")


class Gate:
    """Wakegate in a folder of its own, as long as the `with` block lasts."""

    def __init__(self, folder, wakegate, config):
        self.folder = pathlib.Path(folder)
        self.port, self.admin = free_ports(2)
        (self.folder / "config.yaml").write_text(config.format(port=self.port, admin=self.admin, folder=folder))
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([wakegate, "-c", str(self.folder / "config.yaml")], stderr=self.log)

    def __enter__(self):
        until("wakegate ready", self.ready)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"wakegate ended with {self.process.returncode}: {self.log_tail()}")
        return call(self.admin, "GET", "/readyz")[0] == 200

    def log_tail(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def model(self):
        return json.loads(call(self.admin, "GET", "/status")[1])["models"][0]
