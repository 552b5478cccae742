"""Processes under test: started, watched by their log, ended by their pid, checked for what they leave."""

import fcntl
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
WAKEGATE = os.environ.get("WAKEGATE_BIN", os.path.join(ROOT, "build/release/src/main/wakegate"))
MODELSIM = os.environ.get("MODELSIM_BIN", os.path.join(ROOT, "build/release/loadtest/modelsim"))

REPORTS = re.compile(
    r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:|Assertion .* failed)"
)


def sanitizer():
    """"address", "thread" or "" for the Wakegate under test."""
    try:
        with open(WAKEGATE, "rb") as f:
            data = f.read()
    except FileNotFoundError:
        return ""
    return "address" if b"__asan_init" in data else "thread" if b"__tsan_init" in data else ""


SANITIZER = sanitizer()
# What a sanitizer costs: bounds of time and memory are wider by these there, and only there.
SLOW = {"": 1, "address": 4, "thread": 6}[SANITIZER]
FAT = {"": 1, "address": 4, "thread": 8}[SANITIZER]

_locks = []


def free_port():
    """A port below the ephemeral ones, ours until this test process ends."""
    folder = os.path.join(tempfile.gettempdir(), f"wakegate-e2e-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    while True:
        port = random.randrange(10000, 32000)
        lock = open(os.path.join(folder, str(port)), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return port


def wait_for(condition, timeout, what):
    """Waits until condition() is true, and returns what it gave."""
    end = time.monotonic() + timeout
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < end, f"waited {timeout} s in vain for: {what}"
        time.sleep(0.01)


class Process:
    def __init__(self, argv, log, env=None, cwd=None):
        self.log_path = str(log)
        self.argv = [str(a) for a in argv]
        options = {
            "ASAN_OPTIONS": "quarantine_size_mb=8:malloc_context_size=12:exitcode=99:detect_stack_use_after_return=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "TSAN_OPTIONS": "exitcode=66:history_size=4",
        }
        with open(self.log_path, "ab") as out:
            self.popen = subprocess.Popen(
                self.argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **options, **(env or {})},
                cwd=cwd,
            )
        self.pid = self.popen.pid

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def wait_log(self, pattern, timeout=20, count=1):
        """Waits for the count-th match of the pattern in the log."""
        def found():
            matches = list(re.finditer(pattern, self.log(), re.M))
            return matches[count - 1] if len(matches) >= count else None

        return wait_for(found, timeout, f"{pattern!r} in the log:\n{self.log()[-3000:]}")

    def alive(self):
        return self.popen.poll() is None

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, timeout=30):
        return self.popen.wait(timeout)

    def stop(self, timeout=30):
        """SIGTERM, and SIGKILL where that does not end it; the exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.wait(10)
            raise AssertionError(f"{self.argv[0]} did not end by SIGTERM:\n{self.log()[-3000:]}") from None

    def check_clean(self):
        found = REPORTS.search(self.log())
        assert not found, f"{self.argv[0]} reported:\n{self.log()[max(0, found.start() - 500):][:8000]}"

    def rss(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) * 1024

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu(self):
        """Seconds of processor time used so far."""
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid):
    """The process ids of its children."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(word) for word in f.read().split()]


def processes_with(text):
    """Pids whose command line has the text in it, zombies left out."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/stat") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text in line and state != "Z":
            found.append(int(pid))
    return found


def port_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def sha256(text):
    """As a key stands in the configuration."""
    return hashlib.sha256(text.encode()).hexdigest()
