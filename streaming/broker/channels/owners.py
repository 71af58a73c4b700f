r"""Who owns exclusive queues: connections, and channels that belong to none.

    client --> connection --> channels --> consumers, deliveries
                          \-> exclusive queues, which end with it

An owner is known by its number; connections and channels share one sequence of numbers. A
connection begins with its first channel. It is known by user and name for as long as it has a
channel or a queue.
"""

from __future__ import annotations

import msgspec

from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.schema import OwnersRecord
from streaming.broker.state.store import StateStore

_KEY = "owners"
_decoder = msgspec.msgpack.Decoder(OwnersRecord)
_encoder = msgspec.msgpack.Encoder()


class Connection:
    """A client's connection.

    Attributes:
        channels: the numbers of its open channels, oldest first.
    """

    __slots__ = ("channels", "name", "number", "user")

    def __init__(self, user: str | None, name: str, number: int, channels: list[int]) -> None:
        self.user = user
        self.name = name
        self.number = number
        self.channels = channels


class Owners:
    """The connections and the exclusive queues of one shard; read when they are first needed."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._connections: dict[int, Connection] = {}
        self._names: dict[tuple[str | None, str], Connection] = {}
        self._queues: dict[int, list[int]] | None = None
        self._changed = False

    def _read(self) -> dict[int, list[int]]:
        """Owner -> numbers of its exclusive queues."""
        if self._queues is None:
            data = self._store.read(_KEY)
            record = OwnersRecord([], {}) if data is None else _decoder.decode(unpack(data))
            self._queues = record.queues
            for user, name, number, channels in record.connections:
                self._add(Connection(user, name, number, channels))
        return self._queues

    def _add(self, connection: Connection) -> None:
        self._connections[connection.number] = connection
        self._names[(connection.user, connection.name)] = connection

    # -- connections

    def connection(self, user: str | None, name: str) -> Connection | None:
        """The connection of that identity, if there is one."""
        self._read()
        return self._names.get((user, name))

    def by_number(self, number: int) -> Connection:
        """A connection that there is."""
        self._read()
        return self._connections[number]

    def connections(self) -> list[Connection]:
        """All connections, oldest first."""
        self._read()
        return list(self._connections.values())

    def open(self, user: str | None, name: str, number: int) -> Connection:
        """Begin a connection."""
        connection = Connection(user, name, number, [])
        self._add(connection)
        self._changed = True
        return connection

    def join(self, connection: Connection, channel: int) -> None:
        """Let a channel belong to a connection."""
        connection.channels.append(channel)
        self._changed = True

    def leave(self, number: int, channel: int) -> None:
        """Let a channel that closes belong to its connection no more."""
        self._read()
        connection = self._connections[number]
        connection.channels.remove(channel)
        self._changed = True
        self._forget_unused(number)

    def _forget_unused(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is None or connection.channels or number in self._read():
            return
        del self._connections[number]
        del self._names[(connection.user, connection.name)]

    # -- queues

    def queues_of(self, owner: int) -> list[int]:
        """The numbers of the exclusive queues of an owner."""
        return list(self._read().get(owner, ()))

    def give(self, owner: int, queue: int) -> None:
        """Let a new exclusive queue belong to an owner."""
        self._read().setdefault(owner, []).append(queue)
        self._changed = True

    def take(self, owner: int, queue: int) -> None:
        """Forget the owner of a queue that is being deleted."""
        queues = self._read()
        numbers = [number for number in queues.pop(owner, ()) if number != queue]
        if numbers:
            queues[owner] = numbers
        self._changed = True
        self._forget_unused(owner)

    def save(self) -> None:
        """Write back what changed."""
        if not self._changed:
            return
        queues = self._read()
        connections = [
            (one.user, one.name, one.number, one.channels) for one in self._connections.values()
        ]
        if queues or connections:
            self._store.write(_KEY, pack(_encoder.encode(OwnersRecord(connections, queues))))
        else:
            self._store.delete(_KEY)
