"""modelsim: as a server of its own, and its control pages wherever it runs."""

from . import proc
from .http1 import call


def options_argv(options):
    """tokens_per_second=5, ignore_term=True → --tokens-per-second 5 --ignore-term"""
    argv = []
    for name, value in options.items():
        argv.append("--" + name.replace("_", "-"))
        if value is not True:
            argv.append(str(value))
    return argv


def command(**options):
    """The command of a process target."""
    return [proc.MODELSIM, "--port", "{port}", *options_argv(options)]


class Sim:
    """The control pages of a modelsim that listens on this port, whoever started it."""

    def __init__(self, port):
        self.port = port

    def stats(self):
        return call(self.port, "GET", "/sim/stats").json()

    def requests(self, n=8000, prompts_only=False):
        """What it got, oldest first."""
        found = call(self.port, "GET", f"/sim/requests?n={n}", timeout=60).json()
        return [r for r in found if not is_probe(r)] if prompts_only else found

    def executions(self):
        """Prompts of clients that it took up; probes left out."""
        return len([r for r in self.requests(prompts_only=True) if r["outcome"] != "refused"])

    def reset(self):
        call(self.port, "POST", "/sim/reset", body={})

    def config(self, **changes):
        r = call(self.port, "POST", "/sim/config", body={k.replace("_", "-"): v for k, v in changes.items()})
        assert r.status == 200, r.body


def is_probe(record):
    """Wakegate's own probe, or a page that is no prompt."""
    return record["method"] != "POST" or record["prompt"] == "Hi" or record["path"] in ("/sleep", "/wake_up")


class SimServer(Sim):
    """A modelsim of the test's own: the backend of a static target."""

    def __init__(self, folder, port=None, **options):
        super().__init__(port or proc.free_port())
        self.process = proc.Process(
            [proc.MODELSIM, "--port", self.port, *options_argv(options)], folder / f"modelsim-{self.port}.log"
        )
        if not options.get("load_port_closed"):
            self.process.wait_log("listening on")

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        if self.process.alive():
            self.process.stop(10)
        self.process.check_clean()
