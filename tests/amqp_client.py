"""A client of the AMQP server without a socket: what it sends, and the frames that come back."""

import struct
from itertools import count
from typing import Any, Final, NamedTuple

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.amqp.connection import Connection
from streaming.amqp.frames import BODY, HEADER, METHOD, FrameReader, frame
from streaming.amqp.handshake import PROTOCOL_HEADER
from streaming.amqp.login import Client
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.method_codec import read_method, write_method
from streaming.amqp.properties import read_properties, write_properties
from tests.delayed_broker import DelayedBroker, delayed_broker

_NUMBERS = count()


class Received(NamedTuple):
    """A method from the server, with its message if it carries one."""

    channel: int
    method: m.Method
    properties: dict[str, Any] | None = None
    body: bytes = b""


class RawClient:
    """One connection to a broker in memory; it opens itself unless told not to.

    Args:
        name: by default, one that no other has.
    """

    def __init__(
        self,
        broker: MemoryBroker,
        *,
        opened: bool = True,
        vhost: str = "/",
        name: str | None = None,
        **tuned: int,
    ) -> None:
        self.broker = broker
        self.now_s = 0.0
        self.connection = Connection(
            name or f"client {next(_NUMBERS)}",
            broker.server,
            Client(is_loopback=True),
            lambda: self.now_s,
        )
        self._reader = FrameReader(0)
        if opened:
            self.log_in(vhost, **tuned)
            self.send(1, m.ChannelOpen())
            self.received()

    def log_in(self, vhost: str = "/", **tuned: int) -> None:
        """Open the connection, and no channel."""
        self.raw(PROTOCOL_HEADER)
        self.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
        limits = {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 0, **tuned}
        self.send(0, m.ConnectionTuneOk(**limits))
        self.send(0, m.ConnectionOpen(vhost))

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.connection.receive(data)
        if isinstance(self.broker, DelayedBroker):
            self.broker.pass_time()

    def send(self, channel: int, method: m.Method) -> None:
        """Send a method."""
        self.raw(frame(METHOD, channel, write_method(method)))

    def ask(self, method: m.Method, channel: int = 1) -> m.Method:
        """Send a method; return the last one that comes back."""
        self.send(channel, method)
        return self.received()[-1].method

    def publish(
        self, exchange: str, key: str, body: bytes, channel: int = 1, **properties: Any
    ) -> None:
        """Publish a message; `mandatory` is among the properties."""
        mandatory = properties.pop("mandatory", False)
        self.send(channel, m.BasicPublish(0, exchange, key, mandatory))
        self.raw(content_frames(channel, body, properties))

    def seconds_until_it_ends(self) -> float:
        """How long the server keeps a connection of which it hears nothing more."""
        since_s = self.now_s
        while not self.connection.is_closed:
            assert self.connection.next_check_s > self.now_s
            self.now_s = self.connection.next_check_s
            self.connection.check()
        return self.now_s - since_s

    def received(self) -> list[Received]:
        """What has come since the last call."""
        if isinstance(self.broker, DelayedBroker):
            self.broker.settle()
        found: list[Received] = []
        for kind, channel, payload in self._reader.feed(self._output()):
            if kind == METHOD:
                found.append(Received(channel, read_method(payload)))
            elif kind == HEADER:
                properties = read_properties(payload[12:], "surrogateescape")
                found[-1] = found[-1]._replace(properties=properties)
            elif kind == BODY:
                found[-1] = found[-1]._replace(body=found[-1].body + payload)
        return found

    def _output(self) -> bytes:
        """All that the server sends, as a client that reads all of it."""
        parts = [self.connection.take_output()]
        while parts[-1]:
            self.connection.go_on()
            parts.append(self.connection.take_output())
        return b"".join(parts)


def content_frames(channel: int, body: bytes, properties: dict[str, Any]) -> bytes:
    """The frames of a message behind its method."""
    header = struct.pack(">HHQ", 60, 0, len(body)) + write_properties(properties)
    return frame(HEADER, channel, header) + (frame(BODY, channel, body) if body else b"")


CAPABILITIES: dict[str, Any] = {
    "capabilities": {
        "consumer_cancel_notify": True,
        "authentication_failure_close": True,
        "connection.blocked": True,
    }
}


def memory_broker() -> MemoryBroker:
    """A broker whose clock stands still."""
    broker = MemoryBroker(ManualClock())
    broker.server.follows_wall_clock = False
    return broker


BROKERS: Final = {
    "at once": memory_broker,
    "later": delayed_broker,
    "now and then": lambda: delayed_broker(1),
}
"""New brokers that answer at once or later: a client that waits for answers sees no difference."""
