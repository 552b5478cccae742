"""HTTP/1.1 as the tests see it: a response parser without a socket, and a plain blocking client.

Nothing is hidden: framing, times of every piece, how the connection ended.
"""

import json
import socket
import struct
import time


class Broken(Exception):
    """The peer sent what is not HTTP/1.1."""


class Response:
    """Fed with bytes, it becomes a response; `done` once it is whole, `broken` if the connection ended first."""

    def __init__(self, head_request=False):
        self.status = 0
        self.reason = ""
        self.version = ""
        self.headers = []
        self.trailers = []
        self.interim = []  # (status, headers, time) of 1xx answers
        self.body = b""
        self.pieces = []  # (time, bytes) of body as it came
        self.raw = b""
        self.done = False
        self.broken = False
        self.framing = None  # "length", "chunked", "close", "none"
        self.rest = b""  # bytes behind the response
        self.began = None
        self.ended = None
        self._buf = b""
        self._state = "head"
        self._left = 0
        self._head_request = head_request

    def header(self, name, default=None):
        name = name.lower()
        values = [v for k, v in self.headers if k.lower() == name]
        return ", ".join(values) if values else default

    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """error.code of a refusal, None of anything else."""
        try:
            return self.json()["error"].get("code")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def events(self):
        """Data of the SSE events, [DONE] included; comments are left out."""
        found = []
        for block in self.body.replace(b"\r\n", b"\n").split(b"\n\n"):
            data = [line[5:].lstrip() for line in block.split(b"\n") if line.startswith(b"data:")]
            if data:
                found.append(b"\n".join(data).decode())
        return found

    def chunks(self):
        return [json.loads(e) for e in self.events() if e != "[DONE]"]

    def comments(self):
        return [line for line in self.body.split(b"\n") if line.startswith(b":")]

    def text(self):
        """What the model said, of a stream or an answer in one piece."""
        if (self.header("content-type") or "").startswith("text/event-stream"):
            choices = [c for chunk in self.chunks() for c in chunk.get("choices", [])]
            return "".join((c.get("delta") or {}).get("content", "") or c.get("text", "") for c in choices)
        choice = self.json()["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]

    def feed(self, data, now=None):
        now = now or time.monotonic()
        if data and self.began is None:
            self.began = now
        self.raw += data
        self._buf += data
        while not self.done and self._step(now):
            pass
        if self.done and self._buf:
            self.rest, self._buf = self.rest + self._buf, b""

    def eof(self):
        if self.done:
            return
        if self._state == "body" and self.framing == "close":
            self._finish(time.monotonic())
        else:
            self.broken = True

    def _finish(self, now):
        self.done = True
        self.ended = now

    def _take(self, n, now):
        data, self._buf = self._buf[:n], self._buf[n:]
        if data:
            self.body += data
            self.pieces.append((now, data))
        return len(data)

    def _line(self):
        at = self._buf.find(b"\r\n")
        if at < 0:
            return None
        line, self._buf = self._buf[:at], self._buf[at + 2 :]
        return line

    def _step(self, now):
        return getattr(self, "_step_" + self._state)(now)

    def _step_head(self, now):
        at = self._buf.find(b"\r\n\r\n")
        if at < 0:
            return False
        head, self._buf = self._buf[:at].decode("latin-1"), self._buf[at + 4 :]
        lines = head.split("\r\n")
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1."):
            raise Broken(f"no status line: {lines[0]!r}")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise Broken(f"no header: {line!r}")
            headers.append((name, value.strip()))
        status = int(parts[1])
        if 100 <= status < 200 and status != 101:
            self.interim.append((status, headers, now))
            return True
        self.version, self.status, self.headers = parts[0], status, headers
        self.reason = parts[2] if len(parts) > 2 else ""
        self._frame(now)
        return True

    def _frame(self, now):
        te, cl = self.header("transfer-encoding"), self.header("content-length")
        if te and cl:
            raise Broken("both content-length and transfer-encoding")
        if self._head_request or self.status in (204, 304):
            self.framing = "none"
            self._finish(now)
        elif te:
            if te.lower() != "chunked":
                raise Broken(f"transfer-encoding {te}")
            self.framing, self._state = "chunked", "size"
        elif cl is not None:
            self.framing, self._state, self._left = "length", "body", int(cl)
            if self._left == 0:
                self._finish(now)
        else:
            self.framing, self._state = "close", "body"

    def _step_body(self, now):
        if self.framing == "close":
            return self._take(len(self._buf), now) > 0
        self._left -= self._take(self._left, now)
        if self._left == 0:
            self._finish(now)
        return False

    def _step_size(self, now):
        line = self._line()
        if line is None:
            return False
        self._left = int(line.split(b";")[0], 16)
        self._state = "data" if self._left else "trailers"
        return True

    def _step_data(self, now):
        if self._left:
            self._left -= self._take(self._left, now)
            if self._left:
                return False
        if len(self._buf) < 2:
            return False
        if self._buf[:2] != b"\r\n":
            raise Broken("a chunk does not end with CRLF")
        self._buf = self._buf[2:]
        self._state = "size"
        return True

    def _step_trailers(self, now):
        line = self._line()
        if line is None:
            return False
        if line:
            name, _, value = line.decode("latin-1").partition(":")
            self.trailers.append((name, value.strip()))
            return True
        self._finish(now)
        return False


def head_of(method, path, headers, version="HTTP/1.1"):
    lines = [f"{method} {path} {version}"] + [f"{k}: {v}" for k, v in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def request_bytes(method="POST", path="/v1/chat/completions", body=None, headers=(), host="test", chunked=False):
    """A well-formed request; a dict as body becomes JSON."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    all_headers = [("Host", host), *headers]
    if body is None:
        return head_of(method, path, all_headers)
    if chunked:
        all_headers.append(("Transfer-Encoding", "chunked"))
        half = len(body) // 2
        parts = [p for p in (body[:half], body[half:]) if p]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
        return head_of(method, path, all_headers) + framed
    all_headers.append(("Content-Length", str(len(body))))
    return head_of(method, path, all_headers) + body


def chat(model="m", text="hello", **more):
    """The body of a chat completion."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


class Client:
    """One blocking connection."""

    def __init__(self, port, timeout=30, receive_buffer=None, host="127.0.0.1"):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.reset = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def rst(self):
        """Closes with a reset instead of a FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def request(self, method="POST", path="/v1/chat/completions", body=None, headers=(), **kw):
        return self.send(request_bytes(method, path, body, headers, **kw))

    def response(self, timeout=None, head_request=False, until=None):
        """Reads one response; returns what there is when the connection ends. `until(response)` stops early."""
        r = Response(head_request)
        if self.rest:
            data, self.rest = self.rest, b""
            r.feed(data)
        end = time.monotonic() + (timeout or self.sock.gettimeout() or 30)
        was = self.sock.gettimeout()
        try:
            while not r.done and not (until and until(r)):
                left = end - time.monotonic()
                if left <= 0:
                    raise socket.timeout(f"no whole response in time; so far {r.raw[:400]!r}")
                self.sock.settimeout(left)
                data = self.recv()
                if not data:
                    r.eof()
                    break
                r.feed(data)
        finally:
            self.sock.settimeout(was)
        self.rest = r.rest
        return r

    def resume(self, r, timeout=None, until=None):
        """Goes on reading a response that `until` had left."""
        end = time.monotonic() + (timeout or 30)
        while not r.done and not (until and until(r)):
            self.sock.settimeout(max(0.001, end - time.monotonic()))
            data = self.recv()
            if not data:
                r.eof()
                break
            r.feed(data)
        return r

    def recv(self, n=262144):
        """b"" at the end; `reset` tells whether it was a RST."""
        try:
            return self.sock.recv(n)
        except ConnectionResetError:
            self.reset = True
            return b""

    def closed_within(self, seconds):
        """True if the peer ends the connection in that time; bytes that come before are kept in `rest`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.recv()
            except socket.timeout:
                return False
            if not data:
                return True
            self.rest += data
        return False

    def call(self, *args, timeout=None, **kw):
        self.request(*args, **kw)
        method = args[0] if args else kw.get("method", "POST")
        return self.response(timeout, head_request=method == "HEAD")


def call(port, method="POST", path="/v1/chat/completions", body=None, headers=(), timeout=30, **kw):
    """One request on a connection of its own."""
    with Client(port, timeout) as client:
        return client.call(method, path, body, headers, **kw)
