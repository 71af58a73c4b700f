"""Both stages of the job on records, as Spark's tasks run them, without Spark and Kafka."""

from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa

from streaming.pipeline import fold
from streaming.pipeline.intake import stage
from streaming.pipeline.task import BatchContext, TaskSettings

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class MapState:
    """Spark's map state of one grouping key, in memory."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:  # noqa: N802 - Spark's name
        return self.values.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.values[key] = value

    def containsKey(self, key: Any) -> bool:  # noqa: N802
        return key in self.values

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.values[key]


class Record(NamedTuple):
    """A record of Kafka as the first stage gets it."""

    offset: int
    at_ms: int
    value: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int = 0


class Stages:
    """The stages of one job.

    Attributes:
        batch_id: of the batch that runs.
        states: of each shard.
    """

    def __init__(self, settings: TaskSettings, now_ms: int = 1, query_id: str = "q") -> None:
        self.settings = settings
        self.batch_id = 0
        self.states: defaultdict[int, MapState] = defaultdict(MapState)
        self._now_ms = now_ms
        self._query_id = query_id

    def _context(self) -> BatchContext:
        return BatchContext(self._query_id, self.batch_id, self._now_ms)

    def intake(self, topic: str, records: Sequence[Record]) -> list[Any]:
        """Run the first stage on records of one topic; its rows."""
        count = len(records)
        batch = pa.record_batch(
            {
                "topic": [topic] * count,
                "partition": pa.array([one.partition for one in records], pa.int32()),
                "offset": pa.array([one.offset for one in records], pa.int64()),
                "at_ms": pa.array([one.at_ms for one in records], pa.int64()),
                "key": pa.nulls(count, pa.binary()),
                "value": pa.array([one.value for one in records], pa.binary()),
                "headers": pa.array([one.headers for one in records], HEADERS),
            }
        )
        return [
            SimpleNamespace(**row)
            for out in stage.run_intake(self.settings, iter([batch]), self._context)
            for row in out.to_pylist()
        ]

    def fold(self, rows: list[Any]) -> list[Any]:
        """Run the second stage on rows of the first; its rows."""
        broker = fold.BrokerProcessor(self.settings, self._context)
        done: list[Any] = []
        for key in sorted({row.shard for row in rows}):
            broker._state = self.states[key]  # type: ignore[assignment]  # noqa: SLF001 - set by Spark
            blobs = iter([{"blob": row.blob} for row in rows if row.shard == key])
            done += broker.handleInputRows((key,), blobs, None)  # type: ignore[arg-type]
        return done
