"""One AMQP connection that sends and receives frames, and has no behaviour of its own."""

import socket
import struct
import time
from collections import deque
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pamqp import base, body, commands, frame, header
from pamqp.common import FieldTable

from tests.sessions.by_hand import marshal

FRAME_MAX: Final = 4096
"""The smallest that AMQP allows, so that bodies come in several frames."""

ANSWER_S: Final = 30
PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
_BODY: Final = 3
_HEADER: Final = struct.Struct(">BHI")
_CAPABILITIES: Final[FieldTable] = {
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
}

Received = tuple[int, Any]
"""A channel number and a frame of pamqp."""


class ClosedError(Exception):
    """The broker closed the socket."""


class SilentError(Exception):
    """The broker did not answer in time."""


class Wire:
    """An open connection.

    Args:
        url: with user, password and vhost.

    Attributes:
        is_open: until the socket ends.
        name: what the broker calls it.
    """

    def __init__(self, url: str, frame_max: int = FRAME_MAX) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours, theirs = self._socket.getsockname(), self._socket.getpeername()
        self.name = f"{ours[0]}:{ours[1]} -> {theirs[0]}:{theirs[1]}"
        vhost = unquote(parts.path.removeprefix("/")) or "/"
        self._begin(parts.username or "guest", parts.password or "guest", vhost, frame_max)

    def _begin(self, user: str, password: str, vhost: str, frame_max: int) -> None:
        """Open the connection of AMQP."""
        self._buffer = b""
        self._frames: deque[Received] = deque()
        self.is_open = True
        self.send_bytes(PROTOCOL)
        self._expect(commands.Connection.Start)
        start = commands.Connection.StartOk(
            {"capabilities": _CAPABILITIES}, "PLAIN", f"\0{user}\0{password}", "en_US"
        )
        self.send(0, start)
        tune = self._expect(commands.Connection.Tune)
        self.send(0, commands.Connection.TuneOk(tune.channel_max, frame_max, 0))
        self.send(0, commands.Connection.Open(vhost))
        self._expect(commands.Connection.OpenOk)

    def send(self, channel: int, *frames: frame.FrameTypes) -> None:
        """Send frames in one go."""
        self.send_bytes(b"".join(marshal(each, channel) for each in frames))

    def publish(
        self, channel: int, method: base.Frame, properties: dict[str, Any], payload: bytes
    ) -> None:
        """Send a method with content, its body in as many frames as it needs."""
        top = header.ContentHeader(body_size=len(payload))
        top.properties = commands.Basic.Properties(**properties)
        size = FRAME_MAX - 8
        parts = [payload[at : at + size] for at in range(0, len(payload), size)]
        self.send(channel, method, top, *(body.ContentBody(part) for part in parts))

    def send_bytes(self, data: bytes) -> None:
        """Send anything; a socket that is closed is noticed when it is read."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.is_open = False

    def receive(self, timeout_s: float = ANSWER_S) -> Received:
        """The next frame.

        Raises:
            ClosedError: there will be none.
            SilentError: there is none within the time.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._frames:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise SilentError
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise SilentError from None
            except OSError:
                data = b""
            if not data:
                self.close()
                raise ClosedError
            self._parse(data)
        return self._frames.popleft()

    def close(self) -> None:
        """Close the socket without a word."""
        self.is_open = False
        self._socket.close()

    def _parse(self, data: bytes) -> None:
        data = self._buffer + data
        at = 0
        while len(data) - at >= _HEADER.size:
            kind, channel, size = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + size + 1
            if len(data) < end:
                break
            if size:
                self._frames.append((channel, frame.unmarshal(data[at:end])[2]))
            elif kind == _BODY:
                self._frames.append((channel, body.ContentBody(b"")))
            at = end
        self._buffer = data[at:]

    def _expect(self, kind: type) -> Any:
        _, received = self.receive()
        if not isinstance(received, kind):
            raise ClosedError(f"{kind} expected: {shown(received)}")
        return received


def shown(received: Any) -> str:
    """A method as text, its fields in wire order."""
    fields = ", ".join(f"{name}={value!r}" for name, value in received)
    return f"{received.name}({fields})"


def properties_of(top: header.ContentHeader) -> dict[str, Any]:
    """The properties of a content that are present."""
    return {name: value for name, value in top.properties if value not in (None, "")}
