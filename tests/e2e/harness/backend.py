"""B: a raw backend that says byte for byte what a test tells it to, and remembers all that it got."""

import json
import socket
import struct
import threading
import time

from . import proc

GOOD = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


def answer(body=GOOD, status="200 OK", headers=(), content_type="application/json"):
    """A whole response with Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{k}: {v}" for k, v in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Seen:
    """One request as it arrived."""

    def __init__(self, raw_head, body, connection):
        text = raw_head.decode("latin-1")
        lines = text.split("\r\n")
        self.method, self.path, self.version = lines[0].split(" ", 2)
        self.headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines[1:] if line)]
        self.body = body
        self.head = raw_head
        self.connection = connection
        self.time = time.monotonic()

    def header(self, name):
        values = [v for k, v in self.headers if k.lower() == name.lower()]
        return ", ".join(values) if values else None

    def json(self):
        return json.loads(self.body)

    @property
    def probe(self):
        try:
            body = json.loads(self.body)
            return body["messages"][0]["content"] == "Hi"
        except (ValueError, KeyError, IndexError, TypeError):
            return False


class Peer:
    """The backend's end of one connection."""

    def __init__(self, backend, sock, number):
        self.backend, self.sock, self.number = backend, sock, number
        self.buf = b""
        self.ended = threading.Event()  # the proxy closed or reset it
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _more(self):
        try:
            data = self.sock.recv(262144)
        except OSError:
            data = b""
        if not data:
            self.ended.set()
            return False
        self.buf += data
        return True

    def _until(self, n):
        while len(self.buf) < n:
            if not self._more():
                return False
        return True

    def read_request(self):
        """None at the end of the connection."""
        while b"\r\n\r\n" not in self.buf:
            if not self._more():
                return None
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        low = head.lower()
        body = b""
        if b"transfer-encoding: chunked" in low:
            while True:
                while b"\r\n" not in self.buf:
                    if not self._more():
                        return None
                line, self.buf = self.buf.split(b"\r\n", 1)
                size = int(line.split(b";")[0], 16)
                if not self._until(size + 2):
                    return None
                body, self.buf = body + self.buf[:size], self.buf[size + 2 :]
                if size == 0:
                    break
        elif b"content-length:" in low:
            size = int(low.split(b"content-length:")[1].split(b"\r\n")[0])
            if not self._until(size):
                return None
            body, self.buf = self.buf[:size], self.buf[size:]
        return Seen(head, body, self.number)

    def send(self, data):
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            self.ended.set()
            return False

    def fin(self):
        self.sock.shutdown(socket.SHUT_WR)

    def rst(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        try:
            self.sock.close()
        except OSError:
            pass

    def wait_end(self, timeout):
        """True if the proxy ends the connection in that time."""
        self.sock.settimeout(timeout)
        while self._more():
            pass
        self.sock.settimeout(None)
        return self.ended.is_set()


class Backend:
    """handler(peer, request) is called for each request that is not the probe; it answers, and returns True to keep
    the connection. Probes get a good answer from probe_answer."""

    def __init__(self, handler=None, probe_answer=None, port=None, deaf=0):
        self.handler = handler or (lambda peer, request: peer.send(answer()))
        self.probe_answer = probe_answer or (lambda peer, request: peer.send(answer()))
        self.port = port or proc.free_port()
        self.requests = []  # those of clients
        self.probes = []
        self.peers = []
        self.connections = 0
        self.lock = threading.Lock()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        if deaf:
            self._be_deaf(deaf)
        else:
            self.listener.listen(1024)
            threading.Thread(target=self._accept, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _be_deaf(self, seconds):
        """A full accept queue: the kernel drops every SYN that comes, as a filter would, for that long."""
        self.listener.listen(0)
        stuffing = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", self.port))
            stuffing.append(s)

        def hear():
            for s in stuffing:
                s.close()
            self.listener.listen(1024)
            self._accept()

        timer = threading.Timer(seconds, hear)
        timer.daemon = True
        timer.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                peer = Peer(self, sock, self.connections)
                self.peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        while True:
            request = peer.read_request()
            if request is None:
                break
            with self.lock:
                (self.probes if request.probe else self.requests).append(request)
            handle = self.probe_answer if request.probe else self.handler
            try:
                if not handle(peer, request):
                    break
            except OSError:
                break
        peer.close()

    def stop(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            for peer in self.peers:
                try:
                    peer.sock.shutdown(socket.SHUT_RDWR)  # close() alone says nothing while a thread reads
                except OSError:
                    pass
