"""What waits in a connection: what is to be sent, and what the client sent too early."""

from collections import deque
from collections.abc import Callable
from typing import Final

from streaming.amqp.frames import Unit

MAX_WAITING_BYTES: Final = 1 << 20
"""When so much waits to be sent to a client, nothing more of what it has sent is taken."""

MAX_EARLY_BYTES: Final = 1 << 20
"""A client that has sent so much without reading is not read."""


class Output:
    """What is to be sent to a client; the driver takes it.

    Args:
        has_news: called when there is something to take, until it was taken.

    Attributes:
        waiting_bytes: how much it is.
        taken_bytes, times_taken: how much was taken, and in how many pieces.
    """

    def __init__(self, has_news: Callable[[], None]) -> None:
        self.waiting_bytes = self.taken_bytes = self.times_taken = 0
        self._parts: deque[bytes | memoryview] = deque()
        self._has_news = has_news
        self._is_told = False
        self._confirming: set[int] = set()

    def send(self, data: bytes) -> None:
        """Send frames."""
        self._parts.append(data)
        self.waiting_bytes += len(data)
        if not self._is_told:
            self._tell()

    def send_parts(self, parts: list[bytes | memoryview]) -> None:
        """Send frames in parts that others may share."""
        self._parts.extend(parts)
        self.waiting_bytes += sum(map(len, parts))
        if not self._is_told:
            self._tell()

    def has_confirms(self, number: int) -> None:
        """Note that a channel has confirms to send at the end of the turn."""
        self._confirming.add(number)
        if not self._is_told:
            self._tell()

    def _tell(self) -> None:
        self._is_told = True
        self._has_news()

    def take_confirming(self) -> list[int]:
        """Forget and return the numbers of the channels with confirms to send."""
        numbers = sorted(self._confirming)
        self._confirming.clear()
        return numbers

    def take(self, most: int | None = None) -> bytes:
        """Remove and return what is to be sent.

        Args:
            most: leave what is behind about so many bytes.
        """
        self._is_told = False
        if most is None or self.waiting_bytes <= most:
            data = b"".join(self._parts)
            self._parts.clear()
            self.waiting_bytes = 0
        else:
            parts, size = [], 0
            while self._parts and size < most:
                parts.append(self._parts.popleft())
                size += len(parts[-1])
            data = b"".join(parts)
            self.waiting_bytes -= size
        self.taken_bytes += len(data)
        self.times_taken += bool(data)
        return data


class Early:
    """What a client has sent while too much waited to be sent to it.

    Attributes:
        units: the frames, in order.
        most_waiting: they are taken when no more than this waits, in bytes.
    """

    def __init__(self, output: Output) -> None:
        self.units: list[Unit] = []
        self.most_waiting = MAX_WAITING_BYTES
        self._output = output
        self._size = 0  # about

    @property
    def is_too_much(self) -> bool:
        """Whether the client has sent so much that no more may be read from it."""
        return self._size > MAX_EARLY_BYTES

    def add(self, units: list[Unit], size: int) -> None:
        """Keep what came; `size`: its bytes, or more."""
        self.units += units
        self._size += size

    def take_due(self) -> list[Unit]:
        """Remove and return what may be taken now."""
        if self._output.waiting_bytes > self.most_waiting:
            return []
        units, self.units = self.units, []
        return units

    def hold(self, *, held: bool) -> None:
        """Let nothing be taken while the client does not read what it was sent."""
        self.most_waiting = -1 if held else MAX_WAITING_BYTES

    def settle(self) -> None:
        """Count anew if nothing is left."""
        if not self.units:
            self._size = 0
