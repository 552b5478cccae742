"""HTTP/2 as the tests see it: frames over a socket in a thread of their own. `Raw` sends whatever frames a test makes,
`Connection` is a whole client on python3-h2, which checks all that comes. Neither has an answer that cannot be seen:
every frame is kept, every stream has its times, its reset, its trailers."""

import json
import os
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import namedtuple

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack

from .http1 import Response

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(6, 12)
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)

Frame = namedtuple("Frame", "type flags stream payload time")
GoAway = namedtuple("GoAway", "last code time")


def frame(kind, flags=0, stream=0, payload=b""):
    """One frame as bytes, whatever it says."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    """settings(initial_window_size=0) → a SETTINGS frame."""
    payload = b"".join(struct.pack(">HI", globals()[name.upper()], value) for name, value in values.items())
    return frame(SETTINGS, payload=payload)


def rst(stream, code=CANCEL):
    return frame(RST_STREAM, stream=stream, payload=struct.pack(">I", code))


def window_update(stream, n):
    return frame(WINDOW_UPDATE, stream=stream, payload=struct.pack(">I", n))


def data(stream, payload=b"", end=False):
    return frame(DATA, END_STREAM if end else 0, stream, payload)


def block_frames(stream, block, end=False, size=16384):
    """A header block cut into HEADERS and CONTINUATIONs of that size."""
    pieces = [block[i : i + size] for i in range(0, len(block), size)] or [b""]
    kinds = [HEADERS] + [CONTINUATION] * (len(pieces) - 1)
    flags = [END_STREAM if end else 0] + [0] * (len(pieces) - 1)
    flags[-1] |= END_HEADERS
    return b"".join(frame(kind, flag, stream, piece) for kind, flag, piece in zip(kinds, flags, pieces))


def request_fields(method="POST", path="/v1/chat/completions", headers=(), authority="test", scheme="http"):
    pseudo = [(":method", method), (":scheme", scheme), (":path", path)]
    return pseudo + ([(":authority", authority)] if authority is not None else []) + list(headers)


class Stream(Response):
    """One request and what came back. `done`: the answer ended well; `reset`: the code of a RST_STREAM, also of one behind
    a whole answer; `broken`: it was reset before its end, or the connection ended."""

    def __init__(self, connection, number, head_request=False):
        super().__init__(head_request)
        self.connection, self.id = connection, number
        self.reset = None
        self.reset_at = None
        self.sent = 0  # bytes of the body that went out
        self._outbox = memoryview(b"")
        self._end = False  # END_STREAM is still to be sent behind the outbox
        self._trailers = None

    @property
    def over(self):
        return self.done or self.broken

    @property
    def uploaded(self):
        return not self._outbox and not self._end

    # what comes in; called with the connection's lock held
    def take_head(self, headers, now):
        self.began = self.began or now
        status = next((v for k, v in headers if k == ":status"), None)
        fields = [(k, v) for k, v in headers if not k.startswith(":")]
        if self.status:
            self.trailers += fields
        elif status and 100 <= int(status) < 200:
            self.interim.append((int(status), fields, now))
        else:
            self.status, self.headers, self.version = int(status or 0), fields, "HTTP/2"

    def take_body(self, piece, now):
        if piece:
            self.body += piece
            self.pieces.append((now, piece))

    def take_end(self, now):
        self.done, self.ended = True, now

    def take_reset(self, code, now):
        self.reset, self.reset_at = code, now
        if not self.done:
            self.broken, self.ended = True, now

    # what tests ask
    def wait(self, condition, timeout=30, what="a stream"):
        self.connection.wait(lambda: condition(self), timeout, f"{what} ({self!r})")
        return self

    def response(self, timeout=60):
        return self.wait(lambda s: s.over, timeout, "a response")

    def __repr__(self):
        return f"stream {self.id}: {self.status} {len(self.body)} B done={self.done} reset={self.reset} broken={self.broken}"


class Wire:
    """A socket, its thread, and the frames that came. Everything is guarded by `changed`."""

    def __init__(self, port, tls=None, timeout=20, receive_buffer=None, server_name="localhost"):
        self.changed = threading.Condition()
        self.frames, self.goaways, self.streams = [], [], {}
        self.settings = {}  # the peer's, the last of each
        self.closed = False  # the peer ended the connection, or we did
        self.reset = False  # and it was by RST
        self.error = None
        self._in, self._out = b"", bytearray()
        self._slow, self._replies = False, b""
        self._reading, self._quit = True, False
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = tls.wrap_socket(sock, server_hostname=server_name) if tls else sock
        self.alpn = self.sock.selected_alpn_protocol() if tls else None
        self.sock.setblocking(False)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- the thread ----

    def _run(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            selector.register(self.sock, selectors.EVENT_READ)
            while not self._quit:
                with self.changed:
                    events = (selectors.EVENT_READ if self._reading else 0) | (selectors.EVENT_WRITE if self._out else 0)
                if self.sock in [key.fileobj for key in selector.get_map().values()]:
                    selector.unregister(self.sock)
                if events and not self.closed:
                    selector.register(self.sock, events)
                elif self.closed:
                    break
                ready = selector.select(1)
                for key, _ in ready:
                    if key.fileobj == self._wake:
                        os.eventfd_read(self._wake)
                self._turn()

    def _turn(self):
        with self.changed:
            try:
                self._write_some()
                if self._reading:
                    self._read_some()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                pass
            except OSError as error:
                self._end(error)
            except Exception as error:  # noqa: BLE001 - whatever the proxy sent, it is the test's finding
                self._end(error)
            self.changed.notify_all()

    def _write_some(self):
        while self._out:
            try:
                n = self.sock.send(self._out[:262144])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return
            except (BrokenPipeError, ConnectionResetError):
                self._out.clear()  # what the peer had said before is still read
                return
            del self._out[:n]

    def _read_some(self):
        while True:
            piece = self.sock.recv(262144)
            if not piece:
                self._end(None)
                return
            self._in += piece
            self._split()

    def _split(self):
        at = 0
        while len(self._in) - at >= 9:
            size = int.from_bytes(self._in[at : at + 3], "big")
            if len(self._in) - at < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self._in[at + 3 : at + 9])
            one = Frame(kind, flags, stream & 0x7FFFFFFF, self._in[at + 9 : at + 9 + size], time.monotonic())
            at += 9 + size
            self.frames.append(one)
            if kind == GOAWAY:
                last, code = struct.unpack(">II", one.payload[:8])
                self.goaways.append(GoAway(last, code, one.time))
            elif kind == SETTINGS and not flags & ACK:
                for i in range(0, size, 6):
                    key, value = struct.unpack(">HI", one.payload[i : i + 6])
                    self.settings[key] = value
            self.on_frame(one)
        self._in = self._in[at:]

    def _end(self, error):
        self.closed = True
        self.reset = isinstance(error, ConnectionResetError)
        self.error = self.error or (error if not isinstance(error, OSError) else None)
        for stream in self.streams.values():
            if not stream.over:
                stream.broken, stream.ended = True, time.monotonic()

    def on_frame(self, one):
        raise NotImplementedError

    # ---- what tests do ----

    def write(self, octets):
        """Hands bytes to the thread; they go out as the peer takes them."""
        with self.changed:
            if not self._quit:
                self._out += octets
                os.eventfd_write(self._wake, 1)

    def write_slowly(self, octets, size=1):
        """In segments of that size; automatic answers wait until all is out."""
        self._slow = True
        for i in range(0, len(octets), size):
            self.write(octets[i : i + size])
            self.wait_written()
        with self.changed:
            self._slow, replies, self._replies = False, self._replies, b""
            self.write(replies)

    def wait_written(self, timeout=30):
        self.wait(lambda: not self._out or self.closed, timeout, "all is written")

    def read(self, on):
        """False: what comes stays in the kernel."""
        with self.changed:
            self._reading = on
            os.eventfd_write(self._wake, 1)

    def wait(self, condition, timeout=30, what="an event"):
        """Waits for condition() to be true, and returns what it gave. What the peer did wrong is raised."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                if self.error:
                    raise AssertionError(f"the peer broke the protocol: {self.error!r}") from self.error
                got = condition()
                if got:
                    return got
                left = end - time.monotonic()
                assert left > 0, f"waited {timeout} s in vain for {what}; goaways {self.goaways}, closed {self.closed}"
                self.changed.wait(left)

    def wait_frame(self, kind, stream=None, timeout=10, after=0):
        """The first such frame at or behind index `after`."""
        def found():
            return next((f for f in self.frames[after:] if f.type == kind and stream in (None, f.stream)), None)

        return self.wait(found, timeout, f"a frame of type {kind}")

    def closed_within(self, seconds):
        try:
            return self.wait(lambda: self.closed, seconds, "the end")
        except AssertionError:
            return False

    def close(self):
        if self._quit:
            return
        self._quit = True
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join(10)
        with self.changed:
            if not self.closed:
                self._end(None)
            self.changed.notify_all()
        self.sock.close()
        os.close(self._wake)

    def rst(self):
        """Closes with a reset instead of a FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


class Raw(Wire):
    """Frames as the test makes them. Without orders it sends the preface, acknowledges SETTINGS and PINGs, and nothing else.
    `credit`: each DATA frame is answered by two WINDOW_UPDATEs, as some clients do; else no window is ever opened."""

    def __init__(self, port, preface=PREFACE + settings(), ack=True, credit=False, **kw):
        super().__init__(port, **kw)
        self.encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._decoder.max_header_list_size = 1 << 20
        self.ack, self.credit = ack, credit
        self._block = None
        self._next = 1
        self.write(preface)  # before anything that the thread answers: over TLS the server speaks first
        self._thread.start()

    def block(self, fields, huffman=True):
        """A header block; fields may be bytes."""
        return self.encoder.encode(fields, huffman=huffman)

    def headers(self, stream, fields, end=False):
        """A block in as many frames as it takes."""
        return block_frames(stream, self.block(fields), end)

    def next_id(self, head_request=False):
        """The id of a new stream, which is followed from now on."""
        with self.changed:
            number, self._next = self._next, self._next + 2
            self.streams[number] = Stream(self, number, head_request)
        return number

    def request(self, method="POST", path="/v1/chat/completions", body=None, headers=(), length=True, end=True, **kw):
        """A well-formed request, sent without regard to windows."""
        number = self.next_id(method == "HEAD")
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        more = list(headers) + ([("content-length", str(len(body)))] if body is not None and length else [])
        octets = self.headers(number, request_fields(method, path, more, **kw), end=not body and end)
        for i in range(0, len(body or b""), 16384):
            octets += data(number, body[i : i + 16384], end and i + 16384 >= len(body))
        self.write(octets)
        return self.streams[number]

    def on_frame(self, one):
        stream = self.streams.get(one.stream)
        if self.ack and one.type in (SETTINGS, PING) and not one.flags & ACK:
            reply = frame(one.type, ACK, payload=one.payload if one.type == PING else b"")
            if self._slow:
                self._replies += reply
            else:
                self.write(reply)
        if one.type == HEADERS:
            self._block = (one.payload, one.flags)
        elif one.type == CONTINUATION:
            self._block = (self._block[0] + one.payload, self._block[1] | one.flags & END_HEADERS)
        elif stream and one.type == DATA:
            stream.take_body(one.payload, one.time)
            if self.credit and one.payload:
                self.write(window_update(0, len(one.payload)) + window_update(one.stream, len(one.payload)))
            if one.flags & END_STREAM:
                stream.take_end(one.time)
        elif stream and one.type == RST_STREAM:
            stream.take_reset(struct.unpack(">I", one.payload)[0], one.time)
        if one.type in (HEADERS, CONTINUATION) and self._block[1] & END_HEADERS:
            fields = self._decoder.decode(self._block[0])
            if stream:
                stream.take_head(fields, one.time)
                if self._block[1] & END_STREAM:
                    stream.take_end(one.time)

    def ping(self, timeout=10):
        """Seconds until the answer."""
        with self.changed:
            began, after = time.monotonic(), len(self.frames)
        self.write(frame(PING, payload=b"raw ping"))
        while True:
            found = self.wait_frame(PING, timeout=timeout, after=after)
            if found.flags & ACK:
                return found.time - began
            after += 1


class Connection(Wire):
    """A client on python3-h2. `credit`: bytes of answers open the windows again as they come (per stream it can be given
    to request() too); `window`: of streams; `connection_window`: opened at the start."""

    def __init__(self, port, window=1 << 20, connection_window=16 << 20, credit=True, scheme=None, **kw):
        super().__init__(port, **kw)
        self.scheme = scheme or ("https" if kw.get("tls") else "http")
        self.credit = credit
        config = h2.config.H2Configuration(client_side=True, header_encoding="latin-1")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={h2.settings.SettingCodes.ENABLE_PUSH: 0, h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window},
        )
        self.h2.DEFAULT_MAX_INBOUND_FRAME_SIZE = 16384
        self._no_credit = set()
        self._pings = {}
        self.h2.initiate_connection()
        if connection_window > 65535:
            self.h2.increment_flow_control_window(connection_window - 65535)
        self._flush()  # before anything that the thread answers: over TLS the server speaks first
        self._thread.start()

    def _flush(self):
        octets = self.h2.data_to_send()
        if octets:
            self.write(octets)

    def on_frame(self, one):
        if one.type == GOAWAY:  # python3-h2 takes it for the end of all streams
            return
        head = struct.pack(">I", len(one.payload))[1:] + struct.pack(">BBI", one.type, one.flags, one.stream)
        for event in self.h2.receive_data(head + one.payload):
            self._take(event, one.time)
        self._pump()
        self._flush()

    def _take(self, event, now):
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.PingAckReceived):
            self._pings[event.ping_data] = now
        if not stream:
            return
        if isinstance(
            event, (h2.events.ResponseReceived, h2.events.InformationalResponseReceived, h2.events.TrailersReceived)
        ):
            stream.take_head(event.headers, now)
        elif isinstance(event, h2.events.DataReceived):
            stream.take_body(event.data, now)
            if self.credit and stream.id not in self._no_credit and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream.id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.take_end(now)
        elif isinstance(event, h2.events.StreamReset):
            stream.take_reset(event.error_code, now)
            stream._outbox, stream._end = memoryview(b""), False

    def _pump(self):
        """A frame of each stream that has one, again and again: none waits for another's whole body."""
        busy = True
        while busy:
            busy = False
            for stream in self.streams.values():
                if not stream.uploaded and stream.reset is None and not self.closed:
                    busy |= self._pump_one(stream)

    def _pump_one(self, stream):
        n = min(self.h2.local_flow_control_window(stream.id), self.h2.max_outbound_frame_size, len(stream._outbox))
        if stream._outbox and n <= 0:
            return False
        piece, stream._outbox = stream._outbox[:n], stream._outbox[n:]
        last = not stream._outbox and stream._end
        trailers = stream._trailers if last else None
        self.h2.send_data(stream.id, piece.tobytes(), end_stream=last and not trailers)
        stream.sent += n
        if trailers:
            self.h2.send_headers(stream.id, trailers, end_stream=True)
        if last:
            stream._end = False
        return True

    # ---- what tests do ----

    def request(self, method="POST", path="/v1/chat/completions", body=None, headers=(), end=True, length=True,
                trailers=None, authority="test", credit=True):
        """Begins a request and returns its Stream; a body goes out as the windows allow."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        more = list(headers) + ([("content-length", str(len(body)))] if body is not None and length else [])
        with self.changed:
            number = self.h2.get_next_available_stream_id()
            stream = self.streams[number] = Stream(self, number, method == "HEAD")
            if not credit:
                self._no_credit.add(number)
            ends = end and not body and not trailers
            self.h2.send_headers(number, request_fields(method, path, more, authority, self.scheme), end_stream=ends)
            if not ends:
                stream._outbox, stream._end, stream._trailers = memoryview(body or b""), end, trailers
            self._pump()
            self._flush()
        return stream

    def send_data(self, stream, octets, end=False):
        with self.changed:
            stream._outbox, stream._end = memoryview(stream._outbox.tobytes() + octets), end
            self._pump()
            self._flush()

    def call(self, *args, timeout=60, **kw):
        return self.request(*args, **kw).response(timeout)

    def chat(self, model="m", text="hello", headers=(), timeout=60, **more):
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        return self.call(body=body, headers=headers, timeout=timeout)

    def cancel(self, stream, code=CANCEL):
        with self.changed:
            stream._outbox, stream._end = memoryview(b""), False
            self.h2.reset_stream(stream.id, code)
            stream.broken, stream.ended = not stream.done, time.monotonic()
            self._flush()

    def open_window(self, n, stream=None):
        with self.changed:
            self.h2.increment_flow_control_window(n, stream.id if stream else None)
            self._flush()

    def ping(self, timeout=10):
        """Seconds until the answer."""
        octets = os.urandom(8)
        began = time.monotonic()
        with self.changed:
            self.h2.ping(octets)
            self._flush()
        return self.wait(lambda: self._pings.get(octets), timeout, "a PING's answer") - began
