"""One connection to a broker in memory of this process, without a socket."""

from itertools import count

from streaming.amqp.connection import Connection
from streaming.amqp.login import Client
from streaming.amqp.memory import MemoryBroker
from tests.delayed_broker import DelayedBroker
from tests.sessions.wire import FRAME_MAX, ClosedError, Received, SilentError, Wire

_NUMBERS = count()


class MemoryWire(Wire):
    """An open connection to a vhost `/`, of a user whose password is the name."""

    def __init__(self, broker: MemoryBroker, user: str = "guest") -> None:
        self._broker = broker
        self.name = f"session {next(_NUMBERS)}"
        self._connection = Connection(
            self.name, broker.server, Client(is_loopback=True), lambda: 0.0
        )
        self._begin(user, user, "/", FRAME_MAX)

    def send_bytes(self, data: bytes) -> None:
        """See `Wire`."""
        self._connection.receive(data)
        if isinstance(self._broker, DelayedBroker):
            self._broker.pass_time()

    def receive(self, timeout_s: float = 0) -> Received:
        """See `Wire`: nothing comes later, so a timeout waits for nothing."""
        if not self._frames:
            if isinstance(self._broker, DelayedBroker):
                self._broker.settle()
            self._parse(self._connection.take_output())
            self._connection.go_on()
        if self._frames:
            return self._frames.popleft()
        if self._connection.is_closed:
            raise ClosedError
        raise SilentError

    def close(self) -> None:
        """See `Wire`."""
        self.is_open = False
        self._connection.lost()
