"""Readers of logs are connected only while they read: a process has room for about a thousand."""

from typing import Any

from streaming.sequencer import log_reader
from streaming.sequencer.log_reader import LogReader


class Connections:
    """Consumers that are counted until they are closed."""

    def __init__(self) -> None:
        self.count = 0

    def connect(self, _settings: dict[str, Any]) -> "Connections":
        """A new one."""
        self.count += 1
        return self

    def assign(self, _places: Any) -> None:
        """Read from there on."""

    def close(self) -> None:
        """Disconnect."""
        self.count -= 1


def test_a_reader_is_connected_from_its_first_use_until_it_is_closed(monkeypatch):
    connections = Connections()
    monkeypatch.setattr(log_reader, "Consumer", connections.connect)
    reader = LogReader({}, "log")
    counts = [connections.count]

    for step in (reader.close, lambda: reader.seek(0), reader.close, lambda: reader.seek(7)):
        step()
        counts.append(connections.count)

    assert counts == [0, 0, 1, 0, 1]
