"""Many clients at once in one thread: each a connection of its own, a request, and its response with times."""

import asyncio
import socket
import struct
import threading
import time

from .http1 import Response


class Visitor(asyncio.Protocol):
    """One connection of the crowd."""

    def __init__(self, data):
        self.data = data
        self.response = Response()
        self.began = time.monotonic()
        self.error = None
        self.over = asyncio.get_running_loop().create_future()
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.write(self.data)

    def data_received(self, data):
        try:
            self.response.feed(data)
        except Exception as error:  # noqa: BLE001 - whatever the proxy sent, it is the test's finding
            self.error = error
        if self.response.done or self.error:
            self._end()

    def connection_lost(self, exc):
        self.error = self.error or exc
        self.response.eof()
        self._end()

    def _end(self):
        if not self.over.done():
            self.over.set_result(None)
        if self.transport:
            self.transport.close()

    # what tests ask
    @property
    def status(self):
        return self.response.status if self.response.done else 0

    @property
    def seconds(self):
        return (self.response.ended or time.monotonic()) - self.began


async def _visit(port, data, delay, timeout, leave, reset):
    loop = asyncio.get_running_loop()
    if delay:
        await asyncio.sleep(delay)
    visitor = Visitor(data)
    try:
        await asyncio.wait_for(loop.create_connection(lambda: visitor, "127.0.0.1", port), timeout)
        await asyncio.wait_for(asyncio.shield(visitor.over), leave or timeout)
    except (asyncio.TimeoutError, OSError) as error:
        visitor.error = visitor.error or error
        if visitor.transport:
            if reset:
                sock = visitor.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            visitor.transport.abort()
    return visitor


async def _crowd(port, requests, delays, timeout, leave):
    visits = [
        _visit(port, data, delay, timeout, leave, reset=i % 2 == 1)
        for i, (data, delay) in enumerate(zip(requests, delays))
    ]
    return await asyncio.gather(*visits)


def crowd(port, requests, delays=None, timeout=60, leave=None):
    """Sends each of `requests` on a connection of its own (after its delay) and waits for all. `leave`: seconds after
    which a client gives up, every other one with a reset."""
    delays = delays or [0] * len(requests)
    return asyncio.run(_crowd(port, requests, delays, timeout, leave))


class Background:
    """A call in a thread of its own; result() waits for it and raises what it raised."""

    def __init__(self, function, *args, **kw):
        self._result = self._error = None

        def run():
            try:
                self._result = function(*args, **kw)
            except BaseException as error:  # noqa: BLE001 - handed on to result()
                self._error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def result(self, timeout=90):
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "still running"
        if self._error:
            raise self._error
        return self._result

    def done(self):
        return not self.thread.is_alive()
