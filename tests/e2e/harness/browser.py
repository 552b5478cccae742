"""A real Chromium without a window, spoken to through its debugging pipe."""

import fcntl
import json
import os
import select
import subprocess
import time


def high(fd):
    """The same file at a number that no shell uses."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD, 100)
    os.close(fd)
    return moved


class Browser:
    """One page. Certificates are taken as they are."""

    def __init__(self, folder, url):
        profile = folder / "chromium"
        theirs_in, self.out = map(high, os.pipe())
        self.inp, theirs_out = map(high, os.pipe())
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--ignore-certificate-errors",
                   "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        with open(folder / "chromium.log", "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "-", "chromium", *options],
                pass_fds=(theirs_in, theirs_out), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "HOME": str(folder)},
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buf, self._id, self._session = b"", 0, None
        target = self.call("Target.createTarget", url=url)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._wait_loaded()

    def _wait_loaded(self):
        end, state = time.monotonic() + 30, ""
        while state != "complete https:":
            assert time.monotonic() < end, f"the page is not loaded: {state}"
            try:
                state = self.run("document.readyState + ' ' + location.protocol")
            except AssertionError as error:  # between two pages there is nothing that could run it
                state = str(error)
            time.sleep(0.05)

    def call(self, method, timeout=60, **params):
        """One command of the DevTools protocol, and its result."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._read(end)
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self, end):
        while b"\0" not in self._buf:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.inp], [], [], left)[0], "Chromium does not answer"
            piece = os.read(self.inp, 65536)
            assert piece, "Chromium has ended"
            self._buf += piece
        message, self._buf = self._buf.split(b"\0", 1)
        return json.loads(message)

    def run(self, script, timeout=60):
        """What a script in the page gives, or its promise."""
        result = self.call("Runtime.evaluate", timeout, expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def close(self):
        self._session = None
        try:
            self.call("Browser.close", 10)
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(10)
        os.close(self.inp)
        os.close(self.out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
