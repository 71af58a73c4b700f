"""Where a shard's state rests between batches."""

from typing import Protocol


class StateStore(Protocol):
    """Bytes by key: a dict in tests, Spark state in the job."""

    def read(self, key: str) -> bytes | None:
        """The value of a key, or None."""

    def write(self, key: str, value: bytes) -> None:
        """Set the value of a key."""

    def delete(self, key: str) -> None:
        """Delete a key; a missing one is not an error."""


class MemoryStore:
    """A `StateStore` in a dict."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def read(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        return self.values.get(key)

    def write(self, key: str, value: bytes) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def delete(self, key: str) -> None:
        """Delete a key; a missing one is not an error."""
        self.values.pop(key, None)
