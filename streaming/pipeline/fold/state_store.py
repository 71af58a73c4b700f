"""The broker's `StateStore` on Spark: one map state a shard, key to bytes (D6b).

Reads go to Spark and are remembered; writes and deletions wait until `flush`, so that a key touched
often costs one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

KEY_SCHEMA = "key string"
VALUE_SCHEMA = "value binary"


class SparkStateStore:
    """A `StateStore` over a Spark map state of the current grouping key.

    Attributes:
        bytes_read, bytes_written: for the log.
    """

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._changed: dict[str, bytes | None] = {}
        self.bytes_read = 0
        self.bytes_written = 0

    def read(self, key: str) -> bytes | None:
        """See `StateStore`."""
        if key in self._changed:
            return self._changed[key]
        found = self._state.getValue((key,))
        if found is None:
            return None
        value = bytes(found[0])
        self.bytes_read += len(value)
        return value

    def write(self, key: str, value: bytes) -> None:
        """See `StateStore`."""
        self._changed[key] = value

    def delete(self, key: str) -> None:
        """See `StateStore`."""
        self._changed[key] = None

    def flush(self) -> None:
        """Give what changed to Spark."""
        for key, value in self._changed.items():
            if value is None:
                if self._state.containsKey((key,)):
                    self._state.removeKey((key,))
            else:
                self._state.updateValue((key,), (value,))
                self.bytes_written += len(value)
        self._changed = {}
