#!/usr/bin/python3
"""Runs Wakegate with config/quickstart.yaml, sends a handful of requests at the cold model and tells what happens.

All that it tells comes from Wakegate's own /status and from the streams that the requests get.
usage: quickstart_demo.py BUILD_FOLDER [--stay]
"""

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
MODEL = "tiny-chat"
QUESTIONS = ["Good morning!", "Who are you?", "Did I wake you?", "Tell me a story.", "What is two and two?"]


class Trouble(Exception):
    """Something that ends the demonstration; the message says what to do."""


class Narrator:
    def __init__(self):
        self.start = time.monotonic()
        self.colour = sys.stdout.isatty()

    def say(self, text):
        clock = f"{time.monotonic() - self.start:5.1f} s"
        print(f"\033[2m{clock}\033[0m  {text}" if self.colour else f"{clock}  {text}", flush=True)


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def another_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Wakegate:
    """The program itself; where the usual ports are taken it gets others."""

    def __init__(self, build, folder):
        config = os.path.join(ROOT, "config/quickstart.yaml")
        with open(config) as f:
            text = f.read()
        self.port, self.admin = (p if is_free(p) else another_port() for p in (8080, 9090))
        if (self.port, self.admin) != (8080, 9090):
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
            text = text.replace("127.0.0.1:9090", f"127.0.0.1:{self.admin}")
            config = os.path.join(folder, "quickstart.yaml")
            with open(config, "w") as f:
                f.write(text)
        self.log = os.path.join(folder, "wakegate.log")
        path = os.path.join(ROOT, build, "loadtest") + ":" + os.environ.get("PATH", "")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(ROOT, build, "src/main/wakegate"), "-c", config],
                stdout=log, stderr=log, env={**os.environ, "PATH": path}, start_new_session=True,  # Ctrl-C is ours
            )

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def model(self):
        """The model's part of /status."""
        return next(m for m in json.loads(self.get("/status")[1])["models"] if m["name"] == MODEL)

    def wait_ready(self):
        for _ in range(200):
            if self.process.poll() is not None:
                raise Trouble("wakegate ended at once")
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise Trouble("wakegate did not become ready in 10 s")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def last_lines(self):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-15:])


def ask(port, number, question, events):
    """One streamed chat completion; its turns are put into `events` as (number, what, detail)."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
        body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": question}]}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            events.put((number, "failed", f"{answer.status} {answer.read().decode(errors='replace')}"))
            return
        words = []
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                events.put((number, "done", "".join(words)))
                return
            for choice in json.loads(data).get("choices", []):
                text = (choice.get("delta") or {}).get("content")
                if text:
                    words.append(text)
                    if len(words) == 1:
                        events.put((number, "first", text))
        events.put((number, "failed", "the stream broke off"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        events.put((number, "failed", str(error)))


class Story:
    """Turns what /status shows into sentences, each once."""

    PHASES = {
        "started": "Wakegate has started the model's process. It does not even listen yet.",
        "listening": "Its port is open, but it is still loading: it answers 503 \"Loading model\". Wakegate goes on asking it\n"
        "         with a tiny prompt, because an open port or a green health page proves nothing.",
    }

    def __init__(self, narrator):
        self.say = narrator.say
        self.told = set()
        self.woken = time.monotonic()

    def once(self, key, text):
        if key not in self.told:
            self.told.add(key)
            self.say(text)

    def look(self, model):
        held = model["held"]
        if held == len(QUESTIONS):
            self.once("held", f"{held} requests are held. No client saw an error; each simply waits for its answer.")
        if model["state"] == "waking":
            for phase, text in self.PHASES.items():
                if model["phase"] == phase or (phase == "started" and model["phase"]):
                    self.once(phase, text)
            waited = int(time.monotonic() - self.woken)
            if "listening" in self.told and waited > 0 and waited % 2 == 0:
                self.once(f"loading {waited}", f"Still loading; {held} wait.")
        if model["state"] == "warm" and "warm" not in self.told:
            self.once("listening", self.PHASES["listening"])
            self.once("warm", f"First token proved after {time.monotonic() - self.woken:.1f} s: the tiny prompt got a real answer.\n"
                      "         The model is warm, and Wakegate lets the requests through, two at a time: this model has two slots.")
        if "warm" in self.told and held == 0:
            self.once("drained", "Drained: nobody waits any more.")


def wake_and_stream(gate, narrator):
    """Sends the questions and tells the story until all are answered."""
    events = queue.Queue()
    story = Story(narrator)
    narrator.say(f"The model \"{MODEL}\" is {gate.model()['state']}: no process of it runs, no memory is used.")
    narrator.say(f"Sending {len(QUESTIONS)} chat completions at it, all at once, each as a stream.")
    for number, question in enumerate(QUESTIONS, 1):
        threading.Thread(target=ask, args=(gate.port, number, question, events), daemon=True).start()
    open_requests = len(QUESTIONS)
    deadline = time.monotonic() + 100
    while open_requests:
        if time.monotonic() > deadline:
            raise Trouble("the requests were not answered in 100 s")
        story.look(gate.model())
        try:
            number, what, detail = events.get(timeout=0.05)
        except queue.Empty:
            continue
        story.look(gate.model())
        question = QUESTIONS[number - 1]
        if what == "first":
            narrator.say(f"  request {number} (\"{question}\") gets its first word: \"{detail.strip()}\"")
        elif what == "done":
            open_requests -= 1
            narrator.say(f"  request {number} is streamed to its end: \"{detail[:38].strip()}...\"")
        else:
            raise Trouble(f"request {number} failed: {detail}")
    story.look(gate.model())
    if not {"held", "started", "listening", "warm"} <= story.told:
        raise Trouble(f"not everything was seen to happen: only {sorted(story.told)}")
    narrator.say(f"All {len(QUESTIONS)} were answered, by a model that was not there when they asked.")


def idle_out(gate, narrator):
    narrator.say("Now nobody asks anything. After 10 s of that Wakegate stops the model again...")
    deadline = time.monotonic() + 45
    while gate.model()["state"] != "cold":
        if time.monotonic() > deadline:
            raise Trouble("the model was not stopped in 45 s")
        time.sleep(0.1)
    narrator.say("The model has been stopped: it is cold, and what it held is free for others. The next request wakes it.")


def stay(gate, narrator):
    narrator.say("It stays up until Ctrl-C. The model sleeps after 10 s of silence; wake it again with:\n")
    body = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hello?"}]})
    print(f"  curl -N http://127.0.0.1:{gate.port}/v1/chat/completions -d '{body}'\n")
    print(f"  and watch it: curl http://127.0.0.1:{gate.admin}/status\n", flush=True)
    gate.process.wait()


def interrupted(*_):
    raise KeyboardInterrupt


def main(argv):
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    if len(argv) not in (2, 3) or argv[2:] not in ([], ["--stay"]):
        print("usage: scripts/quickstart [--stay]", file=sys.stderr)
        return 2
    narrator = Narrator()
    with tempfile.TemporaryDirectory(prefix="wakegate-quickstart-") as folder:
        gate = Wakegate(argv[1], folder)
        try:
            gate.wait_ready()
            if gate.port != 8080 or gate.admin != 9090:
                narrator.say("The usual ports 8080 and 9090 are not both free: others are taken for this once.")
            narrator.say(f"Wakegate listens on http://127.0.0.1:{gate.port}, as an OpenAI-compatible server.")
            wake_and_stream(gate, narrator)
            if argv[2:]:
                stay(gate, narrator)
            else:
                idle_out(gate, narrator)
        except Trouble as trouble:
            print(f"\nquickstart: {trouble}\nThe last lines of Wakegate's log:\n{gate.last_lines()}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nEnding: what still runs is finished first.", flush=True)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # the end is on its way already
            code = gate.stop()
        if code != 0:
            print(f"quickstart: wakegate ended with {code}", file=sys.stderr)
            return 1
        narrator.say("Wakegate has ended, and left nothing behind.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
