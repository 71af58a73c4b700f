"""The broker's `StateStore` on Spark: one map state per shard, from key to bytes (D6b).

Values that were written stay here until `flush`, so a key that changes often costs one Spark call.
"""

from pyspark.sql.streaming.stateful_processor import MapState

KEY_SCHEMA = "key string"
VALUE_SCHEMA = "value binary"


class SparkStateStore:
    """A `StateStore` over Spark's map state of the current grouping key."""

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
        """Write all changes to Spark."""
        for key, value in self._changed.items():
            if value is None:
                if self._state.containsKey((key,)):
                    self._state.removeKey((key,))
            else:
                self._state.updateValue((key,), (value,))
                self.bytes_written += len(value)
        self._changed = {}
