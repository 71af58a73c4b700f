"""What clients of a front saw: each writes a line when something has happened to it.

The kinds of entries:

    opened       a connection; its name begins with HOST:PORT/
    published    is about to publish a message, which no client ever publishes again
    confirmed    its confirm has come
    delivered    it came to a consumer
    acked, rejected, requeued
                 a consumer said so, and a synchronous method behind it was answered
    closed       the server said why it closes the connection or channel
"""

import threading
import time
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """Something that a client saw.

    Attributes:
        at: seconds since 1970.
        connection: a name that no other connection has.
        kind: see the top of this file.
        id: of the message; of a closed connection, the code and text.
        redelivered: the flag of a delivery.
    """

    at: float
    connection: str
    kind: str
    id: str = ""
    redelivered: bool = False

    @property
    def port(self) -> int:
        """Of the front that the connection leads to."""
        return int(self.connection.partition("/")[0].rpartition(":")[2])


_decoder = msgspec.json.Decoder(Entry)


class Journal:
    """The journal of clients in this process. Any thread may write."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._connections = 0

    def note(
        self, connection: str, kind: str, name: str = "", *, redelivered: bool = False
    ) -> None:
        """Write an entry."""
        entry = Entry(time.time(), connection, kind, name, redelivered)
        with self._lock:
            self._file.write(msgspec.json.encode(entry) + b"\n")

    def open(self, port: int, client: str) -> str:
        """Note a new connection, and return its name."""
        with self._lock:
            self._connections += 1
            name = f"127.0.0.1:{port}/{client}-{self._connections}"
        self.note(name, "opened")
        return name

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(file: Path) -> list[Entry]:
    """The whole lines of a journal."""
    if not file.exists():
        return []
    return [_decoder.decode(line) for line in file.read_bytes().split(b"\n")[:-1]]
