"""Wakegate itself: a configuration per test, ready when it says so, its metrics and status read, its end checked."""

import copy
import json
import re

from . import proc
from .http1 import Client, call
from .sim import command


def merge(base, more):
    """more over base, objects member by member."""
    result = copy.deepcopy(base)
    for key, value in (more or {}).items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def process_model(name="m", port=None, sim=None, **more):
    """A model that is a modelsim started by Wakegate on a port that the test knows."""
    port = port or proc.free_port()
    base = {
        "name": name,
        "target": {"process": {"command": command(**(sim or {})), "port": port, "stopTimeout": "2s"}},
        "probe": {"timeout": "5s", "interval": "100ms"},
        "wake": {"timeout": "60s", "backoff": "1s"},
        "hold": {"timeout": "60s", "silentTimeout": "60s"},
        "idle": {"timeout": "5m"},
    }
    return merge(base, more)


def static_model(name="m", endpoints=(), wake="", sleep="", **more):
    """A model at addresses that the test serves itself."""
    target = {"endpoints": [e if isinstance(e, str) else e.url() for e in endpoints]}
    if wake:
        target["wake"] = {"method": "POST", "url": wake}
    if sleep:
        target["sleep"] = {"method": "POST", "url": sleep}
    base = {
        "name": name,
        "target": {"static": target},
        "probe": {"timeout": "5s", "interval": "100ms"},
        "wake": {"timeout": "60s", "backoff": "1s"},
        "hold": {"timeout": "60s", "silentTimeout": "60s"},
    }
    return merge(base, more)


class Gate:
    """tls: (certificate, key), files of a second listener."""

    def __init__(self, folder, models, start=True, env=None, tls=None, **more):
        self.folder = folder
        self.port = proc.free_port()
        self.tls_port = proc.free_port() if tls else None
        self.admin = proc.free_port()
        self.config_path = folder / f"wakegate-{self.port}.yaml"
        self.base = {
            "listeners": [{"address": f"127.0.0.1:{self.port}"}],
            "admin": {"address": f"127.0.0.1:{self.admin}"},
            "log": {"level": "debug"},
            "shutdown": {"grace": "3s"},
            "limits": {"maxConnections": 4000},
        }
        if tls:
            files = {"certFile": str(tls[0]), "keyFile": str(tls[1])}
            self.base["listeners"].append({"address": f"127.0.0.1:{self.tls_port}", "tls": files})
        self.models = models
        self.more = more
        self.env = env
        self.process = None
        self.expect_exit = 0
        self.write()
        if start:
            self.start()

    def config(self, models=None, **more):
        return {**merge(merge(self.base, self.more), more), "models": models if models is not None else self.models}

    def write(self, models=None, **more):
        self.config_path.write_text(json.dumps(self.config(models, **more), indent=1) + "\n")

    def start(self, wait=True):
        self.process = proc.Process(
            [proc.WAKEGATE, "-c", self.config_path], self.folder / f"wakegate-{self.port}.log", self.env
        )
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout=20):
        def ready():
            assert self.process.alive(), f"wakegate ended at once:\n{self.process.log()[-4000:]}"
            try:
                return call(self.admin, "GET", "/readyz", timeout=2).status == 200
            except OSError:
                return False
        proc.wait_for(ready, timeout, "/readyz")

    def stop(self, timeout=40):
        if self.process is None:
            return
        if self.process.alive():
            code = self.process.stop(timeout)
        else:
            code = self.process.wait(1)
        self.process.check_clean()
        assert code == self.expect_exit, f"wakegate ended with {code}:\n{self.process.log()[-4000:]}"

    # ---- clients ----

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def tls_url(self):
        return f"https://127.0.0.1:{self.tls_port}"

    def client(self, timeout=60, **kw):
        return Client(self.port, timeout, **kw)

    def call(self, *args, timeout=60, **kw):
        return call(self.port, *args, timeout=timeout, **kw)

    def chat(self, model="m", text="hello", headers=(), timeout=60, **more):
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        return self.call("POST", "/v1/chat/completions", body, headers, timeout=timeout)

    # ---- the operator's side ----

    def metrics(self):
        return parse_metrics(call(self.admin, "GET", "/metrics").body.decode())

    def metric(self, name, **labels):
        """The value of one series, 0 where it is not there yet."""
        return self.metrics().get((name, frozenset(labels.items())), 0.0)

    def state(self, model="m"):
        for (name, labels), value in self.metrics().items():
            labels = dict(labels)
            if name == "wakegate_model_state" and labels.get("model") == model and value == 1:
                return labels["state"]
        return None

    def wait_state(self, state, model="m", timeout=30):
        proc.wait_for(lambda: self.state(model) == state, timeout, f"{model} {state}, log:\n{self.process.log()[-2500:]}")

    def held(self, model="m"):
        return self.metric("wakegate_held_requests", model=model)

    def wait_held(self, n, model="m", timeout=30):
        proc.wait_for(lambda: self.held(model) == n, timeout, f"{n} held by {model}")

    def wait_inflight(self, n, model="m", timeout=30):
        proc.wait_for(
            lambda: self.metric("wakegate_inflight_requests", model=model) == n, timeout, f"{n} in flight at {model}"
        )

    def outcome(self, outcome, model="m"):
        return self.metric("wakegate_requests_total", model=model, outcome=outcome)

    def wakes(self, result="ok", model="m"):
        return self.metric("wakegate_wakes_total", model=model, result=result)

    def status(self):
        r = call(self.admin, "GET", "/status")
        assert r.status == 200, r.body
        return r.json()

    def model_status(self, model="m"):
        return next(m for m in self.status()["models"] if m["name"] == model)

    def order(self, what, model="m"):
        return call(self.admin, "POST", f"/models/{model}/{what}", body={})

    def warm(self, model="m", timeout=30):
        """Wakes the model by a request of its own and waits until it serves."""
        r = self.chat(model, text="warm up", timeout=timeout)
        assert r.status == 200, (r.status, r.body)
        return r


_line = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_label = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def parse_metrics(text):
    """Prometheus text → {(name, frozenset of labels): value}; anything that is not that fails."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _line.match(line)
        assert match, f"no metric: {line!r}"
        name, labels, value = match.groups()
        key = (name, frozenset(_label.findall(labels or "")))
        assert key not in found, f"twice: {line!r}"
        found[key] = float(value)
    return found
