"""How many records wait in Kafka: its ends, asked on a thread, less what the last batch has read.

Spark commits no offsets, so only the batch's row says how far the job has come.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from streaming.console.asking import Asking

TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 0.3
"""How long a page waits for an answer."""

NEEDED_S: Final = 2.0
"""How long it waits if its verdict depends on the answer."""

Partition = tuple[str, int]


class Lag(NamedTuple):
    """The records that wait: all, and by topic and partition, the most first."""

    records: int
    partitions: list[tuple[str, int, int]]


Ask = Callable[[Path, Iterable[Partition]], Mapping[Partition, int]]
"""Asks the Kafka of a configuration for the ends of partitions."""


class LagWatch:
    """Asks the Kafka of a job for the ends of its topics while someone looks at the page."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or KafkaEnds()
        self._ends: Asking[Mapping[Partition, int]] = Asking("lag")

    def of(
        self, config: Path, read: Mapping[Partition, int], *, is_needed: bool = False
    ) -> Lag | None:
        """Return the lag behind the ends that Kafka has told; None: it has not told them.

        Args:
            config: the job's configuration.
            read: the next offset to read of each topic and partition, as a batch's row has them.
            is_needed: whether the page waits longer for an answer.
        """
        if not read:
            return None
        patience_s = NEEDED_S if is_needed else PATIENCE_S
        ends = self._ends.get(lambda: self._ask(config, list(read)), patience_s)
        if ends is None:
            return None
        behind = [(*one, max(ends[one] - offset, 0)) for one, offset in read.items() if one in ends]
        behind.sort(key=lambda one: (-one[2], one[:2]))
        return Lag(sum(records for *_, records in behind), [one for one in behind if one[2]])


class KafkaEnds:
    """Asks Kafka itself, by one connection."""

    def __init__(self) -> None:
        self._admin: Any = None

    def __call__(self, config: Path, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See `Ask`."""
        from streaming.config import (  # noqa: PLC0415 - pages of tables need no Kafka
            librdkafka_properties,
            read_config,
        )
        from streaming.kafka_offsets import ends_of, quiet_admin  # noqa: PLC0415

        if self._admin is None:
            properties = librdkafka_properties(read_config(config).kafka, os.environ)
            self._admin = quiet_admin(properties)
        return ends_of(self._admin, partitions, TIMEOUT_S)
